"""What a fitted regressor can say for itself: why, how stably, and against single-task models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._collections import Collection, is_collection
from ctfa.core.partition import Partition
from ctfa.core.tasks.shared import Anomalies
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.explanation import Explanation, explain
from ctfa.estimators.held_out import Split, align, held_out_errors, regroup, together
from ctfa.estimators.merge_evidence import MergeEvidence, co_clustering
from ctfa.estimators.targets import (
    TargetAggregator,
    labels_of,
    names_of,
    read_again,
    units_of,
)


class EvidenceMixin:
    """Explanations, stability and comparison, for regressors with a fitted Phase I."""

    n_jobs: int | None
    targets_: TargetAggregator
    partition_: Partition
    labels_: IntArray
    trust_: FloatArray
    _evidence: MergeEvidence
    _singles: Any
    _input_gaps: bool

    def _anew(self) -> Any:
        """The same regressor, not fitted, for the same data as arrays without names."""
        return clone(self)

    def _single_task(self) -> Any:
        """The same regressor for each target by itself, not fitted."""
        raise NotImplementedError

    def _regroup(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> list[Partition]:
        """Groups found on the training rows of each split, with the limit that was used."""
        return regroup(self.targets_, sample, targets, splits, self.n_jobs)

    def _require_observed(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> None:
        """Refuse folds that leave a target too few rows."""
        left = Anomalies.of(sample, targets.values[:, :0])
        needed = left.judged.design.rank + left.n_spent + 3
        check.require_observed_in_folds(targets, splits, needed)

    def why(self, target: Any) -> Explanation:
        """Say why a target is in its group: print the answer.

        A target is given by name, or by position where that is not a name: columns that are called
        by numbers, such as years, are names.
        """
        check_is_fitted(self)
        position = check.read_target(target, names_of(self.targets_), labels_of(self.targets_))
        together, shrunk = getattr(self, "stability_", None), self._singles is not None
        return explain(self._evidence, position, self.trust_, together, shrunk=shrunk)

    @property
    def merges_(self) -> Any:
        """Merges of targets and their evidence, one row each, as a pandas DataFrame."""
        check_is_fitted(self)
        columns = self._evidence.columns()
        if hasattr(self, "stability_"):
            columns["together"] = co_clustering(self._evidence, self.stability_)
        return check.as_pandas(columns, "merges_")

    def stability(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = None,
        sample_weight: Any = None,
        random_state: Any = None,
        baseline: Any = None,
    ) -> FloatArray:
        """Group the targets again on subsamples of rows, with the same limit; sets ``stability_``.

        Parameters
        ----------
        X, y, sample_weight, baseline
            The data of fit; the baseline is found anew on each subsample.
        cv : splitter or list of (train, test), default=None
            Whose training rows are taken; None draws 50 times 80 % of the rows. For series give
            one that leaves out blocks, such as ``KFold(20)``.
        random_state : int, RandomState or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n_targets, n_targets)
            Share of the subsamples in which two targets are in one group. ``stability_labels_``
            holds the groups of each subsample, numbered to overlap with ``labels_``.
        """
        check_is_fitted(self)
        sample, targets = self._read_again(X, y, sample_weight, baseline)
        if cv is None:
            cv = ShuffleSplit(50, train_size=0.8, random_state=random_state)
        splits = check.read_folds(cv, sample, targets.values)
        check.require_matrix_size(len(targets.names), "stability_")
        self._require_observed(sample, targets, splits)
        partitions = self._regroup(sample, targets, splits)
        self.stability_labels_ = align(partitions, self.partition_)
        self.stability_ = together(self.stability_labels_)
        return self.stability_

    def compare(
        self,
        X: Any,
        y: Any,
        *,
        cv: Any = 5,
        sample_weight: Any = None,
        groups: Any = None,
        baseline: Any = None,
    ) -> Any:
        """Compare with single-task models on rows that neither has seen.

        Both are fitted anew on the training rows of each fold: this model with everything it
        chooses, and the same regressor by itself for each target.

        Parameters
        ----------
        X, y, sample_weight, baseline
            The data of fit, or others of the same kind; the baseline is found on the training rows
            of each fold.
        cv : int, splitter or list of folds, default=5
            An integer gives contiguous folds.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``, here and in the fits.

        Returns
        -------
        DataFrame
            One row a target: its group here, the mean squared errors of both on held-out rows in
            units of the target's variance (with a baseline, of what that leaves), the gain, and
            the gain that was predicted.
        """
        check_is_fitted(self)
        sample, targets = self._read_again(X, y, sample_weight, baseline)
        single = self._single_task()
        labels = check.read_labels(groups, sample)
        splits = check.read_folds(cv, sample, targets.values, groups)
        self._require_observed(sample, targets, splits)
        models = (self._anew(), single)
        error, alone = held_out_errors(
            models, sample, targets.values, splits, labels, targets.weights
        )
        # In the units of the gains that were predicted.
        units = units_of(self.targets_).of(targets.values, sample.baseline)
        variance = np.nanvar(units, axis=0)
        columns = {
            "target": list(names_of(self.targets_)),
            "group": self.labels_,
            "error": error,
            "single_task_error": alone,
            "gain": alone - error,
            "predicted_gain": self._evidence.gain.value / variance,
            "trust": self.trust_,
        }
        return check.as_pandas(columns, "compare")

    def _read_again(
        self, X: Any, y: Any, sample_weight: Any, baseline: Any = None
    ) -> tuple[check.Sample, check.Targets]:
        """Read data of the kind that fit has seen."""
        if is_collection(X, y, sample_weight, baseline):
            data = Collection.of(X, y, sample_weight, baseline)
            X, y, sample_weight, baseline = data.gathered("grouping again", "Use fewer rows")
        gaps = self._input_gaps
        inputs = check.read_inputs(self, X, reset=False, gaps=gaps)
        check.read_baseline_again(baseline, inputs.shape[0], self.targets_.baseline_means_)
        sample = check.read_sample(clone(self), X, sample_weight, gaps=gaps, baseline=baseline)
        return sample, read_again(self.targets_, y, sample.n_given, used=sample.used)
