"""Both phases, then any regressor for each group."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from ctfa import _validation as check
from ctfa._feature_aggregator import FeatureAggregator
from ctfa._target_aggregator import TargetAggregator
from ctfa.core.types import FloatArray

PASSTHROUGH = "passthrough"


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
        inputs = check.read_inputs(self, X, reset=True)
        targets = check.read_targets(Y, inputs.shape[0])
        weights = check.read_weights(sample_weight, inputs.shape[0])
        self._container, self._is_vector = targets.container, targets.is_vector
        self._fit_targets(inputs, Y, weights)
        means = np.asarray(self.targets_.transform(targets.values))
        self._fit_features(inputs, means, weights)
        self._fit_regressors(inputs, means, weights)
        return self

    def predict(self, X: Any) -> Any:
        """Predict every target, as a data frame where the targets of fit came as one."""
        check_is_fitted(self)
        inputs = check.read_inputs(self, X, reset=False)
        columns = [
            np.asarray(regressor.predict(features.partition_.mean(inputs))).reshape(-1)
            for features, regressor in zip(self.features_, self.regressors_, strict=True)
        ]
        values = self.targets_.inverse_transform(np.column_stack(columns))
        if self._is_vector:
            return values[:, 0]
        return check.frame_like(self._container, values, self.targets_._names, X)

    def score_per_target(self, X: Any, Y: Any, sample_weight: Any = None) -> FloatArray:
        """R2 of each target, in the order of the columns of ``Y``."""
        predicted = np.asarray(self.predict(X)).reshape(-1, self.targets_.partition_.n_variables)
        true = check.read_targets(Y).values
        return np.asarray(
            r2_score(true, predicted, sample_weight=sample_weight, multioutput="raw_values")
        )

    def reduce(self, X: Any, Y: Any) -> list[ReducedTask]:
        """Return what the paper's algorithm does: for each group its mean target and its features.

        In raw units; frames in, frames out.
        """
        check_is_fitted(self)
        inputs = check.read_inputs(self, X, reset=False)
        targets = check.read_targets(Y, inputs.shape[0])
        if targets.values.shape[1] != self.targets_.partition_.n_variables:
            raise ValueError(
                f"Y has {targets.values.shape[1]} targets but "
                f"{self.targets_.partition_.n_variables} were seen in fit."
            )
        means = self.targets_.partition_.mean(targets.values)
        container = check.container_of(X)
        return [
            ReducedTask(
                mean,
                check.frame_like(
                    container,
                    features.partition_.mean(inputs),
                    list(self._feature_names_out(features)),
                    X,
                ),
            )
            for mean, features in zip(means.T, self.features_, strict=True)
        ]

    @property
    def partition_(self) -> Any:
        """Groups of targets."""
        return self.targets_.partition_

    @property
    def labels_(self) -> Any:
        """Group of each target."""
        return self.targets_.labels_

    @property
    def n_groups_(self) -> int:
        """Number of groups of targets."""
        return int(self.targets_.n_groups_)

    @property
    def history_(self) -> Any:
        """Merges of targets."""
        return self.targets_.history_

    @property
    def max_loss_(self) -> float:
        """The limit used in Phase I."""
        return float(self.targets_.max_loss_)

    @property
    def loss_interval_(self) -> tuple[float, float]:
        """Where the groups of targets stay the same."""
        low, high = self.targets_.loss_interval_
        return float(low), float(high)

    @property
    def target_names_in_(self) -> Any:
        """Names of the targets, where they came as a data frame."""
        return self.targets_.target_names_in_

    def _fit_targets(self, inputs: FloatArray, Y: Any, weights: FloatArray | None) -> None:
        if isinstance(self.targets, str):
            check.require(self.targets, [PASSTHROUGH, None], "targets")
            self.targets_ = TargetAggregator(scale="none")._fit_identity(inputs, Y)
            return
        aggregator = TargetAggregator() if self.targets is None else clone(self.targets)
        self.targets_ = aggregator.fit(inputs, Y, sample_weight=weights)

    def _fit_features(
        self, inputs: FloatArray, means: FloatArray, weights: FloatArray | None
    ) -> None:
        if isinstance(self.features, str):
            check.require(self.features, [PASSTHROUGH, None], "features")
            self.features_ = [self._named(FeatureAggregator(), inputs) for _ in means.T]
            return
        template = FeatureAggregator() if self.features is None else self.features
        factored = clone(template)._factor(inputs, weights)
        spaces = [self._named(clone(template), inputs) for _ in means.T]
        self.features_ = Parallel(n_jobs=self.n_jobs)(
            delayed(aggregator._fit_factored)(factored, mean)
            for aggregator, mean in zip(spaces, means.T, strict=True)
        )

    def _named(self, aggregator: FeatureAggregator, inputs: FloatArray) -> FeatureAggregator:
        """Start from the identity, under the names that the features of fit had."""
        aggregator._fit_identity(inputs)
        if hasattr(self, "feature_names_in_"):
            aggregator.feature_names_in_ = self.feature_names_in_
        return aggregator

    def _feature_names_out(self, features: FeatureAggregator) -> Any:
        return features.get_feature_names_out()

    def _fit_regressors(
        self, inputs: FloatArray, means: FloatArray, weights: FloatArray | None
    ) -> None:
        regressor = LinearRegression() if self.regressor is None else self.regressor
        extra: dict[str, Any] = {}
        if weights is not None:
            if not has_fit_parameter(regressor, "sample_weight"):
                raise ValueError(
                    f"sample_weight was given but {type(regressor).__name__}.fit does not take it: "
                    "use another regressor or leave the weights out."
                )
            extra["sample_weight"] = weights
        self.regressors_ = Parallel(n_jobs=self.n_jobs)(
            delayed(clone(regressor).fit)(features.partition_.mean(inputs), mean, **extra)
            for features, mean in zip(self.features_, means.T, strict=True)
        )
