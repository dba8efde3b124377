"""One view of any fitted model with groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ctfa.core.history import MergeHistory
from ctfa.core.lags import Lags, Window
from ctfa.core.members import Gain
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.evidence import MergeEvidence, Refusal, co_clustering, refusal_of

#: Number of tasks with rows of their own up to which the gain of each is computed.
TASK_BY_TASK = 1000


def _not_of_this_kind(*data: Any) -> Any:
    """Stands for what a kind of model does not have; callers check the kind first."""
    raise NotImplementedError


@dataclass(frozen=True, eq=False)
class FittedGroups:
    """A fitted model, whatever its kind: the one thing that pages, pictures and files read.

    The fields are the facts in which estimators differ; every estimator states its own
    (``__ctfa_view__``), and everything else follows from them.
    """

    model: Any  # its public attributes and parameters may be read
    aggregator: Any  # Phase I
    names: Sequence[str]  # what targets, or tasks, are called
    evidence_of: Callable[[], MergeEvidence]  # what is known of every merge; may take long
    #: What a group has in common: "mean", "mean inputs", "coefficients" or "slopes".
    shares: str = "mean"
    #: Predicted gain of each task where the evidence does not hold it; may take long.
    gains_of: Callable[[], Gain] | None = None
    trust: FloatArray | None = None  # in its group, of each target, where that was worked out
    #: What predictions are made of besides ``features_`` and ``regressors_``, as files call it.
    parts: Mapping[str, Any] = field(default_factory=dict)
    template: Any = None  # the regressor that was cloned for each group
    judge: Any = None  # what judged merges where Phase I does not say; None for the linear reading
    #: Predict as an array, without a word on what cannot be predicted: ``(X, confounds)``.
    predict_values: Callable[..., FloatArray] = _not_of_this_kind
    #: Both ends of intervals as arrays: ``(X, coverage, confounds)``.
    predict_bounds: Callable[..., tuple[FloatArray, FloatArray]] = _not_of_this_kind
    #: Targets of other rows in the units they were merged in, and means of the groups:
    #: ``(y, confounds)``.
    in_units: Callable[..., tuple[FloatArray, FloatArray]] = _not_of_this_kind
    #: For data of the kind that fit has seen: read them, ``(X, y, sample_weight, confounds)``;
    #: refuse folds that leave a target too few rows, ``(sample, targets, splits)``; what a group's
    #: regressor learns from, ``(sample, targets)``.
    read: Callable[..., Any] = _not_of_this_kind
    require_observed: Callable[..., None] = _not_of_this_kind
    learned_from: Callable[..., Any] = _not_of_this_kind
    #: The same regressor, not fitted: for arrays without names, and for each target by itself.
    anew: Callable[[], Any] = _not_of_this_kind
    alone: Callable[[], Any] = _not_of_this_kind

    @classmethod
    def of(cls, model: Any) -> FittedGroups:
        """The view of a fitted model."""
        shown = getattr(type(model), "__ctfa_view__", None)
        if shown is None:
            raise TypeError(
                "a report is made of a fitted model (CTFARegressor, MultiInputCTFARegressor, "
                "PooledCTFARegressor, TargetAggregator), a Material or the result of "
                f"ctfa.labelled.fit, not of {type(model).__name__}."
            )
        check_is_fitted(model)
        found: FittedGroups = shown(model)
        return found

    @property
    def is_aggregator(self) -> bool:
        """Whether there is a Phase I alone."""
        return self.model is self.aggregator

    @property
    def own_inputs(self) -> bool:
        """Whether each target has inputs of its own."""
        return self.shares in ("mean inputs", "coefficients")

    @property
    def own_rows(self) -> bool:
        """Whether each task has rows of its own."""
        return self.shares == "slopes"

    @property
    def partition(self) -> Partition:
        """The groups."""
        found: Partition = self.aggregator.partition_
        return found

    @property
    def history(self) -> MergeHistory:
        """The merges up to the limit used."""
        found: MergeHistory = self.aggregator.history_
        return found

    @cached_property
    def evidence(self) -> MergeEvidence:
        """What is known of every merge; of an aggregator, that it was made."""
        return self.evidence_of()

    @cached_property
    def gain(self) -> Gain:
        """Predicted gain of each target over a model of its own; NaN where not worked out."""
        if self.gains_of is None or self.partition.n_variables > TASK_BY_TASK:
            return self.evidence.gain
        return self.gains_of()

    @property
    def stability(self) -> FloatArray | None:
        """Share of subsamples in which a target is with each other member, on average."""
        together = vars(self.model).get("stability_")
        if together is None:
            return None
        labels = self.partition.labels
        same = (labels[:, None] == labels) & ~np.eye(labels.size, dtype=bool)
        count = same.sum(axis=1)
        return np.where(count > 0, (together * same).sum(axis=1) / np.maximum(count, 1), np.nan)

    @property
    def together(self) -> FloatArray | None:
        """The same for the two sides of each merge."""
        known = vars(self.model).get("stability_")
        return None if known is None else np.array(co_clustering(self.evidence, known))

    def refusal(self, group: int) -> Refusal:
        """The nearest candidate that a group refused, in the words of ``why``."""
        return refusal_of(self.evidence, group, self.shares)

    def candidate(self, group: int) -> int:
        """The target that was refused, or that leads the group that was; -1 for none."""
        return int(self.history.refused[self.evidence.leader(group)])

    @cached_property
    def features(self) -> Sequence[str]:
        """What features are called; slots, for targets with inputs of their own."""
        if self.is_aggregator:
            return ()
        if self.own_inputs:
            found = [""] * self.model.layout_.shape[1]
            for group, features in enumerate(self.model.features_):
                own = features.feature_names_in_
                for slot, name in zip(self.columns(group).tolist(), own, strict=True):
                    found[slot] = str(name)
            return found
        names = getattr(self.model, "feature_names_in_", None)
        n_features = int(self.model.n_features_in_)
        return [f"x{k}" for k in range(n_features)] if names is None else list(map(str, names))

    def columns(self, group: int) -> IntArray:
        """Features that a group has."""
        if self.own_inputs:
            return np.flatnonzero(self.parts["group_models"].slots[group])
        return np.arange(len(self.features))

    @cached_property
    def means(self) -> IntArray | None:
        """Mean that each feature is in, of each group: ``(groups, features)``, -1 if in none."""
        if self.is_aggregator:
            return None
        n_groups, n_features = self.partition.n_groups, len(self.features)
        labels = np.full((n_groups, n_features), -1, dtype=np.intp)
        for group, features in enumerate(self.model.features_):
            labels[group, self.columns(group)] = features.partition_.labels
        return labels

    def windows(self, group: int) -> list[tuple[IntArray, Window]]:
        """Features of a group that are of the past: which are in one mean, and of which time.

        By series, the latest first; empty where no feature is a lag.
        """
        lags = self._lags
        if not lags or self.means is None:
            return []
        labels = self.means[group]
        each = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
        found = [(columns, window) for columns in each if (window := lags.window(columns))]
        series = [lag.series for lag in lags.of if lag is not None]
        return sorted(found, key=lambda own: (series.index(own[1].series), own[1].first))

    @cached_property
    def _lags(self) -> Lags:
        return Lags(() if self.is_aggregator else self.features)

    @property
    def group_steps(self) -> Any:
        """What single features add, in every group, to the coefficients of their means."""
        added = self.parts.get("deviations") if self.shares == "mean" else None
        return 0.0 if added is None else added.group

    @property
    def averages(self) -> bool:
        """Whether a group averages features."""
        if self.means is None:
            return False
        return bool((self.means.max(axis=1) + 1 < (self.means >= 0).sum(axis=1)).any())

    @property
    def is_single_task(self) -> bool:
        """Whether it is one model per target on all its features: nothing was merged."""
        return self.partition.n_groups == self.partition.n_variables and not self.averages

    def variance(self, task: str) -> str:
        """What errors and gains are shares of, in words."""
        if getattr(self.aggregator, "confounds_slopes_", None) is None:
            return f"a {task}'s variance"
        return f"the variance of a {task}'s anomalies"
