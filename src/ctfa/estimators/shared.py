"""Both phases, then any regressor for each group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.linear_model import Ridge

from ctfa import _validation as check
from ctfa._collections import Collection, Wanted, learns_from_sums
from ctfa._threads import one_thread
from ctfa.core.members import Gain
from ctfa.core.small_fits import observed_mean
from ctfa.core.tasks.shared import SharedInputs
from ctfa.core.types import FloatArray
from ctfa.estimators.evidence import MergeEvidence, MergeSummary
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.given import asks_of, fields, whole
from ctfa.estimators.groups import TargetsRegressor
from ctfa.estimators.models import (
    fit_features,
    fit_regressor,
    fit_singles,
    fit_to_rows,
    keep_features,
    reduced,
)
from ctfa.estimators.targets import (
    TargetAggregator,
    find_groups,
    group_means,
    in_units,
    keep_apart,
    level_of,
    names_of,
)
from ctfa.estimators.view import FittedGroups


class CTFARegressor(TargetsRegressor):
    """Aggregate targets, then features for each group, then fit one regressor a group.

    Every original target is predicted by its group's regressor.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is least squares, or
        ridge regression where ``n_samples <= n_features + 2``, columns at unit length.
        Any other gets features in the units given: scikit-learn's trees take values closer than
        1e-7 for equal, so put a ``StandardScaler`` in front of them where units are small.
    targets : TargetAggregator, "passthrough" or None, default=None
        Phase I; None is ``TargetAggregator()``, "passthrough" leaves every target by itself.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II, cloned for each group; None is ``FeatureAggregator()``, "passthrough" keeps every
        feature.
    head : {"mean", "shrink"}, default="mean"
        How a group's model predicts its members. ``"mean"``: by itself, one readable model a group.
        ``"shrink"``: mixed with a model of the target's own; the weight of the group, ``trust_``,
        minimises the target's predicted risk in closed form.
    n_jobs : int or None, default=None
        Folds that choose ``max_loss="auto"``, and groups, worked on at the same time, through
        joblib. The result is the same for any number.

    Attributes
    ----------
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_``, ``loss_interval_`` and ``cv_curve_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one a group.
    regressors_ : list of estimators
        One a group.
    trust_ : ndarray of shape (n_targets,)
        Weight of the group's model against the target's own that would predict it best, from 0
        to 1; what ``head="shrink"`` uses.
    merges_ : DataFrame
        One row a merge of targets: who joined whom, its F and break-even F, the predicted gain
        with its standard error, the members predicted to lose.
    stability_ : ndarray of shape (n_targets, n_targets)
        Share of subsamples in which two targets are in one group; see ``stability``.
    n_features_in_, feature_names_in_, target_names_in_
        What was seen in fit.

    Notes
    -----
    With a ``baseline`` (see ``fit``) residuals take the place of centred series, and its degrees
    of freedom are counted in F and break-even of both phases; where targets have gaps, and each is
    regressed over its own rows, they are not.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressor().fit(X[:100], Y[:100])
    >>> model.predict(X[100:]).shape
    (50, 6)
    >>> model.n_groups_
    2
    """

    _defaults: ClassVar[dict[str, type]] = {
        **TargetsRegressor._defaults,
        "features": FeatureAggregator,
    }
    _saved = TargetsRegressor._saved | fields(input_baseline="_input_lines")

    @whole
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        baseline: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Run both phases and fit the regressors.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also of Dask, read once and in chunks, and arrays of torch, CuPy or JAX: what a fit
            needs of them are sums. Missing features are handed to a regressor that takes them where
            neither phase merges anything, and in ``predict``.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
            NaN is a missing value; a group is trained on the rows where any member is observed.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters that choose ``max_loss="auto"``, such as
            ``GroupKFold``.
        baseline : array of shape (n_samples, n_columns), default=None
            Seasons (indicators or harmonics), a trend: what every feature and every target is
            regressed on first, with an intercept, on the training rows alone, in every fold too.
            The residuals are what is merged and fitted. ``predict`` needs the columns of its rows.
        target_weight : array of shape (n_targets,), default=None
            How much each target counts in its group's mean and in the total risk: areas, say. Only
            ratios matter; a weight of two is a target given twice. Not with missing values.

        Returns
        -------
        self
        """
        self._sums = None
        read = self.__ctfa_read__(X, y, sample_weight, baseline, target_weight, groups, few=True)
        self._fit_stand_ins(*read, groups)
        return self

    def _predict_units(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        inputs = self._residual(inputs, columns)
        means = np.column_stack(
            [
                np.asarray(regressor.predict(reduced(features, inputs))).reshape(-1)
                for features, regressor in zip(self.features_, self.regressors_, strict=True)
            ]
        )
        check.require_finite_prediction(means, self.regressors_)
        units: FloatArray = self.partition_.spread(means) * self.signs_
        if self._singles is not None:
            units = self._singles.mix(units, self.trust_, inputs)
            check.require_finite_prediction(units, names_of(self.targets_))
        return units

    def _reduced(
        self, inputs: FloatArray, targets: check.Targets, columns: FloatArray | None
    ) -> tuple[FloatArray, list[FloatArray]]:
        values = targets.values
        if columns is not None:
            inputs = self._residual(inputs, columns)
            values = values - level_of(self.targets_, columns)
        turned = values * self.targets_.signs_
        means = observed_mean(self.targets_.partition_, turned, targets.weights)
        return means.T, [reduced(features, inputs) for features in self.features_]

    def _rows_of_groups(
        self, groups: list[int], baseline: Any, inputs: Any, values: Any
    ) -> FloatArray:
        """Features of some groups, each with its mean target as the last column, of other rows."""
        inputs = np.asarray(inputs, dtype=np.float64)
        values = np.asarray(values, dtype=np.float64).reshape(inputs.shape[0], -1)
        inputs, means = self._learned_from(inputs, values, baseline)
        parts = [(reduced(self.features_[group], inputs), means[:, [group]]) for group in groups]
        return np.hstack([column for part in parts for column in part])

    def _learned_from(
        self, inputs: FloatArray, values: FloatArray, columns: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Inputs, and the mean of each group, as regressors learn from them."""
        units = in_units(self.targets_, values, columns)
        return self._residual(inputs, columns), group_means(self.targets_, units)

    def _residual(self, inputs: FloatArray, columns: FloatArray | None) -> FloatArray:
        """Inputs less what the baseline says of them."""
        if columns is None or self._input_lines is None:
            return inputs
        return inputs - self._input_lines.at(columns)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit will want of its data, and what in it cannot be had from sums."""
        wanted, needs_rows = asks_of(*self._phases(), n_targets)
        if self.head == "shrink" and not learns_from_sums(self._template):
            needs_rows = needs_rows or f"head='shrink' with {type(self._template).__name__}()"
        return wanted, needs_rows

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        self._check_options()
        check.require_weighable(self._template)
        return super()._asks_of_stream(n_targets)

    def _fit_phases(
        self,
        template: TargetAggregator | None,
        features: FeatureAggregator | None,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any,
        data: Collection | None,
    ) -> None:
        tasks = SharedInputs(sample, targets.values, targets.weights)
        with one_thread(*tasks.shapes):
            left = tasks.left
            self._input_lines = left.inputs
            self.targets_ = self._fit_targets(template, tasks, targets, groups)
            values = in_units(self.targets_, targets.values, sample.baseline)
            means = judged = group_means(self.targets_, values)
            if left.judged is not left.sample:
                judged = group_means(self.targets_, left.judged_values / self.targets_.scales_)
            if features is None:
                self.features_ = keep_features(self, self.n_groups_)
            else:
                names = self.targets_.get_group_names_out()
                self.features_ = fit_features(
                    self, features, left.judged, judged, names, self.n_jobs
                )
        if data is None or sample.counts is None or learns_from_sums(self._template):
            inputs = left.sample.inputs
            rest = left.sample.weights, left.sample.n_samples, left.sample.is_single
            self.regressors_ = Parallel(n_jobs=self.n_jobs)(
                delayed(fit_regressor)(self.regressor, reduced(features, inputs), mean, *rest)
                for features, mean in zip(self.features_, means.T, strict=True)
            )
        else:
            self.regressors_ = fit_to_rows(
                self._template, self.features_, data, self._rows_of_groups, self.n_jobs
            )
        self._singles = None
        if self.head == "shrink":
            self._singles = fit_singles(
                self.regressor, left.sample, values, self.trust_, self.n_jobs
            )
        asked = template is not None and template.solver == "ridge"
        default = self.regressor is None and not asked
        if default and any(isinstance(one, Ridge) for one in self.regressors_):
            left.judged.warn_if_short()

    def _fit_targets(
        self,
        template: TargetAggregator | None,
        tasks: SharedInputs,
        targets: check.Targets,
        groups: Any,
    ) -> TargetAggregator:
        left = tasks.left
        units = "none" if left.targets is None else "center"
        aggregator = TargetAggregator(scale=units) if template is None else clone(template)
        check.copy_input_names(self, aggregator)
        if template is None:
            if left.n_spent:
                something = np.nan_to_num(left.values) != 0.0
                check.require_more_than_baseline(something.any(axis=0), targets.names)
            keep_apart(aggregator, targets, left.targets)
            merges: list[MergeSummary] = []
            gain, self.trust_ = Gain(*np.zeros((2, tasks.n_tasks))), np.ones(tasks.n_tasks)
        else:
            risk = find_groups(aggregator, tasks, targets, groups, self.n_jobs).fit.members
            if aggregator.flip:
                risk = risk.flipped(aggregator.signs_)
            merges = [
                MergeSummary.of(made.total, made.members, made.gain, made.f_statistic, made.f_star)
                for made in risk.along(aggregator.history_)
            ]
            gain = risk.gain_over_single(aggregator.partition_)
            self.trust_ = risk.trust(aggregator.partition_)
        gappy = bool(np.isnan(targets.values).any())
        self._evidence = MergeEvidence.of(aggregator, targets.names, merges, gain, gappy=gappy)
        return aggregator

    def __ctfa_view__(self) -> FittedGroups:
        """What is shown of the fitted model."""
        return replace(
            super().__ctfa_view__(),
            trust=np.asarray(self.trust_),
            parts={"single_models": self._singles},
            learned_from=lambda sample, targets: self._learned_from(
                sample.inputs, targets.values, sample.baseline
            ),
        )

    def _single_task(self) -> CTFARegressor:
        """The same regressor for each target by itself, not fitted."""
        return CTFARegressor(self.regressor, targets="passthrough", features="passthrough")
