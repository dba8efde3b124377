"""Both phases, then any regressor for each group."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.types import FloatArray


def _of_targets(name: str, text: str) -> property:
    """Show an attribute of Phase I on the regressor."""
    return property(lambda self: getattr(self.targets_, name), doc=text)


#: Reserved by the interface for later versions.
NOT_YET = ("merges_", "stability", "stability_", "trust_", "why")


class ReducedTask(NamedTuple):
    """What the paper's algorithm returns for one group, in raw units."""

    target: Any  # (n,): mean of the group's targets
    features: Any  # (n, d): means of groups of features


class CTFARegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Aggregate targets, then features for each group, then fit one regressor a group.

    Every original target is predicted by its group's regressor.

    Parameters
    ----------
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each group; None is ``LinearRegression()``.
    targets : TargetAggregator, "passthrough" or None, default=None
        Phase I; None is ``TargetAggregator()``, "passthrough" leaves every target by itself.
    features : FeatureAggregator, "passthrough" or None, default=None
        Phase II, cloned for each group; None is ``FeatureAggregator()``, "passthrough" keeps every
        feature.
    head : {"mean"}, default="mean"
        How a group's model predicts its members. Reserved: only "mean" is in this version.
    n_jobs : int or None, default=None
        Groups worked on at the same time, through joblib.

    Attributes
    ----------
    targets_ : TargetAggregator
        Phase I as fitted. Its ``partition_``, ``labels_``, ``n_groups_``, ``history_``,
        ``max_loss_`` and ``loss_interval_`` are here under the same names.
    features_ : list of FeatureAggregator
        Phase II as fitted, one a group.
    regressors_ : list of estimators
        One a group.
    n_features_in_, feature_names_in_, target_names_in_
        What was seen in fit.

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

    def __init__(
        self,
        regressor: Any = None,
        *,
        targets: Any = None,
        features: Any = None,
        head: str = "mean",
        n_jobs: int | None = None,
    ) -> None:
        self.regressor = regressor
        self.targets = targets
        self.features = features
        self.head = head
        self.n_jobs = n_jobs

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Run both phases and fit the regressors.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        Y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, used in both phases and by the regressor.

        Returns
        -------
        self
        """
        check.not_yet(self.head, "mean", "head")
        target_aggregator = check.read_phase(self.targets, TargetAggregator, "targets")
        feature_aggregator = check.read_phase(self.features, FeatureAggregator, "features")
        sample = check.read_sample(self, X, sample_weight)
        targets = check.read_targets(Y, sample.n_given, used=sample.used)
        regressor = LinearRegression() if self.regressor is None else self.regressor
        check.require_regressor(regressor)
        if sample.weights is not None:
            check.require_weighable(regressor)
        self._library, self._is_vector = targets.library, targets.is_vector
        self.targets_ = self._fit_targets(target_aggregator, sample, targets)
        means = self.targets_._mean(targets.values)
        self.features_ = self._fit_features(feature_aggregator, sample, means)
        self.regressors_ = self._fit_regressors(regressor, sample, means)
        return self

    def predict(self, X: Any) -> Any:
        """Predict every target, in the kind of container the targets of fit came in."""
        check_is_fitted(self)
        inputs = check.read_inputs(self, X, reset=False)
        means = np.column_stack(
            [
                np.asarray(regressor.predict(_reduced(features, inputs))).reshape(-1)
                for features, regressor in zip(self.features_, self.regressors_, strict=True)
            ]
        )
        check.require_finite_prediction(means, self.regressors_)
        return check.hand_back(
            self.targets_._spread(means),
            self.targets_._labels,
            self._library,
            X,
            is_vector=self._is_vector,
        )

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``targets__max_loss`` works on the default aggregator too."""
        for phase, kind in (("targets", TargetAggregator), ("features", FeatureAggregator)):
            nested = any(name.startswith(f"{phase}__") for name in params)
            if nested and params.get(phase, getattr(self, phase)) is None:
                params[phase] = kind()
        super().set_params(**params)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean over the targets of the R2 of each."""
        return float(np.mean(self.score_per_target(X, y, sample_weight)))

    def score_per_target(self, X: Any, Y: Any, sample_weight: Any = None) -> FloatArray:
        """R2 of each target, in the order of the columns of ``Y``."""
        predicted = np.asarray(self.predict(X))
        true = self.targets_._read_again(Y, predicted.shape[0]).values
        check.require_rows(true, 2)
        weights = check.read_weights(sample_weight, predicted.shape[0])
        return np.asarray(
            r2_score(
                true,
                predicted.reshape(true.shape),
                sample_weight=weights,
                multioutput="raw_values",
            )
        )

    def reduce(self, X: Any, Y: Any) -> list[ReducedTask]:
        """Return what the paper's algorithm does: for each group its mean target and its features.

        In raw units; a data frame gives series and frames named after the members of each mean.
        """
        check_is_fitted(self)
        inputs = check.read_inputs(self, X, reset=False)
        targets = self.targets_._read_again(Y, inputs.shape[0])
        means = self.targets_.partition_.mean(targets.values)
        names = self.targets_.get_group_names_out()
        library = check.library_of(X)
        return [
            ReducedTask(
                check.as_series(targets.library, mean, name, Y),
                check.as_frame(
                    library, _reduced(features, inputs), features.get_feature_names_out(), X
                ),
            )
            for mean, name, features in zip(means.T, names, self.features_, strict=True)
        ]

    def __getattr__(self, name: str) -> Any:
        """Say of a name that is planned that it is; called only for names that are not there."""
        raise check.absent(self, name, planned=NOT_YET)

    partition_ = _of_targets("partition_", "Groups of targets.")
    labels_ = _of_targets("labels_", "Group of each target.")
    n_groups_ = _of_targets("n_groups_", "Number of groups of targets.")
    history_ = _of_targets("history_", "Merges of targets.")
    max_loss_ = _of_targets("max_loss_", "The limit used in Phase I.")
    loss_interval_ = _of_targets("loss_interval_", "Where the groups of targets stay the same.")
    cv_curve_ = _of_targets("cv_curve_", "Reserved: how ``max_loss_`` was chosen.")
    signs_ = _of_targets("signs_", "Sign with which each target enters its group's mean.")
    target_names_in_ = _of_targets("target_names_in_", "Names of the targets, where they had any.")

    def _fit_targets(
        self, template: TargetAggregator | None, sample: check.Sample, targets: check.Targets
    ) -> TargetAggregator:
        aggregator = TargetAggregator(scale="none") if template is None else clone(template)
        check.copy_input_names(self, aggregator)
        if template is None:
            return aggregator._fit_identity(targets)
        aggregator._fit_sample(sample, targets)
        return aggregator

    def _fit_features(
        self, template: FeatureAggregator | None, sample: check.Sample, means: FloatArray
    ) -> list[FeatureAggregator]:
        if template is None:
            identity = FeatureAggregator()._fit_identity(sample.inputs.shape[1])
            check.copy_input_names(self, identity)
            return [copy.copy(identity) for _ in means.T]
        factored = template._factor(sample, means[:, 0])
        aggregators = [clone(template) for _ in means.T]
        for aggregator in aggregators:
            check.copy_input_names(self, aggregator)
        names = self.targets_.get_group_names_out()
        return list(
            Parallel(n_jobs=self.n_jobs)(
                delayed(aggregator._fit_factored)(factored, mean, name)
                for aggregator, mean, name in zip(aggregators, means.T, names, strict=True)
            )
        )

    def _fit_regressors(self, regressor: Any, sample: check.Sample, means: FloatArray) -> list[Any]:
        extra = {} if sample.weights is None else {"sample_weight": sample.weights}
        return list(
            Parallel(n_jobs=self.n_jobs)(
                delayed(clone(regressor).fit)(_reduced(features, sample.inputs), mean, **extra)
                for features, mean in zip(self.features_, means.T, strict=True)
            )
        )


def _reduced(features: FeatureAggregator, inputs: FloatArray) -> FloatArray:
    """The means of one group's features; the features themselves where none were merged."""
    partition = features.partition_
    return inputs if partition.n_groups == partition.n_variables else partition.mean(inputs)
