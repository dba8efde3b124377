"""Phase II: a partition of the features of one target, each group replaced by its mean."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._target_aggregator import TIE, group_names
from ctfa.core.criteria import FEATURE_CRITERIA, r2
from ctfa.core.design import Design
from ctfa.core.gram import DenseGram
from ctfa.core.history import Ledger, MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.spaces.features import FeatureSpace, column_gram
from ctfa.core.spaces.folded import Fold, FoldedFeatureSpace
from ctfa.core.types import FloatArray


class FeatureAggregator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Average groups of features whose coefficients need not differ (Phase II).

    Columns are averaged in the units they come in: put a ``StandardScaler`` in front where units
    differ.

    Parameters
    ----------
    criterion : {"risk", "r2", "feature-mse"} or callable, default="risk"
        What a merge costs. ``"risk"``: the F statistic of the restriction that two features share
        a coefficient; ``"r2"``: the R2 lost (Algorithm 1), in sample or on folds; ``"feature-mse"``:
        Eq. 7 of the paper.
    max_loss : float or "auto", default="auto"
        Merge while the loss is at most this; larger merges more. ``"auto"`` is ``log(n)`` for
        ``"risk"``. For ``"r2"`` it is the paper's epsilon_2.
    scan : {"correlation", "grow", "restart", "best-first"}, default="correlation"
        Who is asked next. ``"correlation"`` (most correlated columns first) never looks at the
        target to order its questions; ``"best-first"`` does and overfits.
    order : {"given", "random", "correlation"} or array, default="given"
        The order of features for the scans "grow" and "restart".
    connectivity : sparse matrix, array or callable, default=None
        Symmetric neighbour graph of the features. A callable receives the features as rows.
    min_correlation : float, default=0.2
        Blocks whose means correlate less than this (signed) are never merged, so that a mean stays
        meaningful; -1 lets any two meet.
    cv : int, splitter or None, default=None
        Where ``"r2"`` is evaluated: in sample (None), or as the mean R2 of held-out folds; an
        integer gives contiguous folds.
    solver
        Reserved: only the default value is available in this version.
    random_state : int, RandomState or None, default=None
        Seed of ``order="random"``.

    Attributes
    ----------
    partition_, labels_, n_groups_, history_, max_loss_, loss_interval_
        As in ``TargetAggregator``, for features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import FeatureAggregator
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(80, 1))
    >>> X = np.hstack([common + 0.3 * rng.normal(size=(80, 3)), rng.normal(size=(80, 1))])
    >>> y = X.sum(axis=1) + rng.normal(size=80)
    >>> FeatureAggregator().fit(X, y).get_feature_names_out()
    array(['mean(x0, x1, x2)', 'x3'], dtype=object)
    """

    def __init__(
        self,
        criterion: str | Callable[..., Any] = "risk",
        *,
        max_loss: float | str = "auto",
        scan: str = "correlation",
        order: Any = "given",
        connectivity: Any = None,
        min_correlation: float = 0.2,
        cv: Any = None,
        solver: str = "ols",
        random_state: Any = None,
    ) -> None:
        self.criterion = criterion
        self.max_loss = max_loss
        self.scan = scan
        self.order = order
        self.connectivity = connectivity
        self.min_correlation = min_correlation
        self.cv = cv
        self.solver = solver
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that a target is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, normalised to sum to the number of rows with a positive one.

        Returns
        -------
        self
        """
        inputs = check.read_inputs(self, X, reset=True)
        target = check.read_vector(y, inputs.shape[0])
        weights = check.read_weights(sample_weight, inputs.shape[0])
        return self._fit_factored(self._factor(inputs, weights), target)

    def transform(self, X: Any) -> FloatArray:
        """Mean of each group of columns: ``(n, D) -> (n, n_groups)``."""
        check_is_fitted(self)
        return self.partition_.mean(check.read_inputs(self, X, reset=False))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Give each feature its group's mean: ``(n, n_groups) -> (n, D)``."""
        check_is_fitted(self)
        means = check.read_targets(X, what="X").values
        if means.shape[1] != self.n_groups_:
            raise ValueError(f"X has {means.shape[1]} columns but there are {self.n_groups_} groups.")
        return np.asarray(self.partition_.spread(means))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names such as ``mean(temp_jan, temp_feb)``; a feature by itself keeps its own."""
        check_is_fitted(self)
        seen = getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{i}" for i in range(self.n_features_in_)] if seen is None else seen
        else:
            names = np.asarray(input_features, dtype=object)
            if seen is not None and not np.array_equal(seen, names):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(names)}"
                )
        return np.array(group_names(self.partition_, names), dtype=object)

    def _factor(self, inputs: FloatArray, weights: FloatArray | None) -> FactoredFeatures:
        """Check the options and factor the inputs once, for any number of targets."""
        criterion = check.choose(self.criterion, FEATURE_CRITERIA, "criterion")
        check.require(self.scan, list(SCANS), "scan")
        check.not_yet(self.solver, "ols", "solver")
        lowest = check.read_number(self.min_correlation, "min_correlation", " from -1 to 1")
        if self.cv is not None and criterion is not r2 and isinstance(self.criterion, str):
            raise ValueError(
                f"criterion={self.criterion!r} is judged in sample: use cv=None, or criterion='r2'."
            )
        ordered = isinstance(self.order, str) and self.order == "correlation"
        needs_correlation = self.scan == "correlation" or ordered or lowest > -1.0
        return FactoredFeatures(inputs, weights, self.cv, with_correlations=needs_correlation)

    def _fit_factored(self, factored: FactoredFeatures, target: FloatArray) -> Self:
        """Find the groups for one target of already factored inputs."""
        history, max_loss = self._pose(factored, target).solve(self.max_loss)
        self._settle(history.partition(), history, max_loss)
        return self

    def _pose(self, factored: FactoredFeatures, target: FloatArray) -> FeatureProblem:
        space = factored.space(target)
        graph = check.read_graph(self.connectivity, factored.inputs, "features")
        order = check.read_order(self.order, space, check_random_state(self.random_state))
        return FeatureProblem(self, space, order, graph, factored.n_samples)

    def _fit_identity(self, X: Any) -> Self:
        """Leave every feature by itself."""
        inputs = check.read_inputs(self, X, reset=True)
        n_features = inputs.shape[1]
        self._settle(Partition.singletons(n_features), Ledger(n_features).close(), -np.inf)
        return self

    def _settle(self, partition: Partition, history: MergeHistory, max_loss: float) -> None:
        self.partition_, self.history_, self.max_loss_ = partition, history, max_loss
        self.labels_, self.n_groups_ = partition.labels, partition.n_groups
        self.loss_interval_ = history.loss_interval


class FactoredFeatures:
    """Inputs factored once: in sample, or a factor a fold."""

    def __init__(
        self, inputs: FloatArray, weights: FloatArray | None, cv: Any, *, with_correlations: bool
    ) -> None:
        self.inputs, self.weights, self.cv = inputs, weights, cv
        self.n_samples = inputs.shape[0] if weights is None else int(np.count_nonzero(weights))
        self._design: Design | None = None
        self._folds: list[Fold] | None = None
        self._gram: FloatArray | None = None
        if cv is None or with_correlations:
            self._design = Design.of(inputs, weights)
        if cv is None:
            check.require_freedom(self._require_design())
            check.warn_if_doubtful([self._require_design()])
        if with_correlations:
            self._gram = column_gram(self._require_design(), inputs).matrix

    def space(self, target: FloatArray) -> MergeSpace:
        """A fresh space for one target."""
        gram = None if self._gram is None else DenseGram(self._gram.copy())
        used = slice(None) if self.weights is None else self.weights > 0.0
        kept = target[used][:, None]
        check.require_varying(kept - kept.mean(), kept, ["y"])
        if self.cv is None:
            design = self._require_design()
            return FeatureSpace(design, design.centre(target[:, None])[:, 0], gram)
        if self._folds is None:
            splits = check.read_folds(self.cv, self.inputs, target, self.weights)
            self._folds = [Fold.of(self.inputs, *split, self.weights) for split in splits]
            check.warn_if_doubtful([fold.design for fold in self._folds])
        check.require_varying_folds([(fold.train, fold.test) for fold in self._folds], target)
        return FoldedFeatureSpace(self._folds, target, gram)

    def _require_design(self) -> Design:
        assert self._design is not None
        return self._design


class FeatureProblem:
    """A checked Phase II problem; can be solved for several values of ``max_loss``."""

    def __init__(
        self,
        options: FeatureAggregator,
        space: MergeSpace,
        order: Any,
        graph: Any,
        n_samples: int,
    ) -> None:
        self.options, self.space = options, space
        self.order, self.graph, self.n_samples = order, graph, n_samples

    def solve(self, max_loss: Any, *, again: bool = False) -> tuple[MergeHistory, float]:
        """Run the scan; ``again`` keeps the space for another run."""
        limit = self._limit(max_loss)
        space = copy.deepcopy(self.space) if again else self.space
        history = SCANS[self.options.scan](
            space,
            check.choose(self.options.criterion, FEATURE_CRITERIA, "criterion"),
            max_loss=limit,
            order=self.order,
            neighbours=check.neighbours_of(self.graph),
            min_correlation=float(self.options.min_correlation),
            tolerance=TIE,
        )
        return history, limit

    def _limit(self, max_loss: Any) -> float:
        if isinstance(max_loss, str) and max_loss == "auto":
            if self.options.criterion != "risk":
                raise ValueError(
                    f"max_loss='auto' goes with criterion='risk'; give a number for criterion="
                    f"{self.options.criterion!r} (the paper's epsilon_2 for 'r2' is 1e-4)."
                )
            return float(np.log(self.n_samples))
        return check.read_number(max_loss, "max_loss", " or 'auto'")
