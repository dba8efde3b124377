"""Phase II: a partition of the features of one target, each group replaced by its mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa._reading.streaming import going_on
from ctfa._reading.sums import Rows, Wanted, answers_lazily
from ctfa._threads import one_thread
from ctfa.core.criteria import FEATURE_CRITERIA
from ctfa.core.gram import DenseGram
from ctfa.core.ridge import Ridge
from ctfa.core.scans import SCANS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.spaces.features import FactoredFold, FeatureSpace, column_gram
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.types import FloatArray
from ctfa.estimators.given import OF_GROUPS, ReadsTables, Saved, asks_of, whole
from ctfa.estimators.search import MergeProblem, group_names, pose, settle, solve_path

#: What to do about too few rows.
RIDGE = "FeatureAggregator(criterion='risk') for Phase II (or features='passthrough')"


class FeatureAggregator(ReadsTables, Saved, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Average groups of features whose coefficients need not differ (Phase II).

    Columns are averaged in the units given: put a ``StandardScaler`` in front where units differ.
    Where there are too few rows for least squares (``n_samples <= n_features + 2``) the
    criterion "risk" is judged by ridge regression, with the penalty of the greatest restricted
    likelihood.

    Parameters
    ----------
    criterion : {"risk", "r2", "feature-mse"} or callable, default="risk"
        What a merge costs. ``"risk"``: the F statistic of the restriction that two features share
        a coefficient; ``"r2"``: the R2 lost (Algorithm 1), in sample or on folds;
        ``"feature-mse"``: Eq. 7 of the paper.
    max_loss : float or "auto", default="auto"
        Merge while the loss is at most this; larger merges more, as a rule (an early merge changes
        later questions). ``"auto"`` is ``log(n)`` for ``"risk"``, among blocks whose correlation is
        larger than any that chance gives unrelated features
        (``sqrt(2 log(D (D - 1)/2) / n)``). For ``"r2"`` it is the paper's epsilon_2.
    scan : {"correlation", "grow", "restart", "best-first"}, default="correlation"
        Which pair is asked next. ``"correlation"`` (most correlated columns first) does not use the
        target to order its questions; ``"best-first"`` does, and overfits.
    order : {"given", "random", "correlation"} or array, default="given"
        Order of the features for the scans "grow" and "restart".
    connectivity : sparse matrix, array or callable, default=None
        Symmetric neighbour graph of the features. A callable receives the features as rows.
    min_correlation : float, default=0.1
        Blocks whose means correlate less than this (signed) are never merged, so that a mean stays
        meaningful; -1 lets any two merge.
    cv : int, splitter or None, default=None
        Where ``"r2"`` is evaluated: in sample (None), or as the mean R2 of held-out folds; an
        integer gives contiguous folds. A splitter divides the rows of positive weight; folds given
        as lists of rows count all rows.
    n_groups : int or None, default=None
        Merge to exactly this number of groups, for ``max_loss="auto"`` and the scans "correlation"
        and "best-first"; ``min_correlation`` still holds, and may leave more.
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

    _arguments = ("X", "y", "sample_weight")
    _saved = Saved._saved | OF_GROUPS

    def __init__(
        self,
        criterion: str | Callable[..., Any] = "risk",
        *,
        max_loss: float | str = "auto",
        scan: str = "correlation",
        order: Any = "given",
        connectivity: Any = None,
        min_correlation: float = 0.1,
        cv: Any = None,
        n_groups: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.criterion = criterion
        self.max_loss = max_loss
        self.scan = scan
        self.order = order
        self.connectivity = connectivity
        self.min_correlation = min_correlation
        self.cv = cv
        self.n_groups = n_groups
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that a target is needed."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also Dask collections, read once and in chunks, and arrays of torch, CuPy or JAX: a fit
            needs only their sums.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, normalised to sum to the number of rows with a positive one.

        Returns
        -------
        self
        """
        self._sums = None
        sample, targets, _ = self.__ctfa_read__(X, y, sample_weight, few=True)
        self._fit_stand_ins(sample, targets)
        return self

    @going_on
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to those seen before, and find the groups again: as ``fit`` on all of them.

        Only sums are kept of the rows. A call that is refused changes nothing.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or an iterable
            Without ``y`` an iterable of pieces, each ``(X, y)``, ``(X, y, sample_weight)`` or a
            dictionary of these.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Comparable from piece to piece; rows without weights weigh one.

        Returns
        -------
        self

        Notes
        -----
        ``cv`` is a number of folds or None. Each piece is divided into as many blocks: fold ``i``
        is the ``i``-th block of all pieces; see ``CTFARegressor.partial_fit``. A model made by
        ``fit`` keeps no sums, so ``partial_fit`` cannot add to it.

        Examples
        --------
        >>> import numpy as np
        >>> from ctfa import FeatureAggregator
        >>> rng = np.random.default_rng(0)
        >>> common = rng.normal(size=(80, 1))
        >>> X = np.hstack([common + 0.3 * rng.normal(size=(80, 3)), rng.normal(size=(80, 1))])
        >>> y = X.sum(axis=1) + rng.normal(size=80)
        >>> pieces = [(X[:30], y[:30]), (X[30:], y[30:])]
        >>> FeatureAggregator().partial_fit(pieces).get_feature_names_out()
        array(['mean(x0, x1, x2)', 'x3'], dtype=object)
        """
        return self._stream(Rows(X, y, sample_weight))

    @answers_lazily
    def transform(self, X: Any) -> FloatArray:
        """Mean of each group of columns.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            The features of ``fit``, in the same order.

        Returns
        -------
        ndarray of shape (n_samples, n_groups)
            In the units of the features; not computed for Dask's collections.
        """
        check_is_fitted(self)
        return np.asarray(self.partition_.mean(check.read_inputs(self, X, reset=False)))

    @answers_lazily
    def inverse_transform(self, X: Any) -> FloatArray:
        """Give each feature the mean of its group.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_groups)
            Means of the groups, as ``transform`` gives them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            One column per feature of ``fit``.
        """
        check_is_fitted(self)
        means = check.read_targets(X, what="X").values
        check.require_width(means, self.n_groups_, "X", "groups")
        return np.asarray(self.partition_.spread(means))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Names of the groups, such as ``mean(temp_jan, temp_feb)``.

        Parameters
        ----------
        input_features : array of str of shape (n_features,), default=None
            Names of the features; None takes those of ``fit``, or ``x0``, ``x1``, ...

        Returns
        -------
        ndarray of str of shape (n_groups,)
            A feature by itself keeps its name.
        """
        check_is_fitted(self)
        names = check.read_feature_names(self, input_features)
        return np.array(group_names(self.partition_, names), dtype=object)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        check.require_one_target(n_targets)
        return asks_of(None, self)

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, confounds: Any
    ) -> tuple[check.Sample, check.Targets]:
        sample = check.read_sample(self, X, sample_weight)
        target = check.read_vector(y, sample)
        return sample, check.name_targets(target[:, None], None, None, is_vector=True)

    def _fit_stand_ins(self, sample: check.Sample, targets: check.Targets) -> None:
        target = targets.values[:, 0]
        with one_thread(sample.inputs.shape):
            merge_features(self, factor(self, sample, target), target)


def factor(
    template: FeatureAggregator, sample: check.Sample, target: FloatArray
) -> FactoredFeatures:
    """Check the options and factor the inputs once, for any number of targets like this."""
    criterion = check.read_criterion(template.criterion, FEATURE_CRITERIA)
    check.require(template.scan, SCANS, "scan")
    lowest = check.read_number(template.min_correlation, "min_correlation", " from -1 to 1")
    if not -1.0 <= lowest <= 1.0:
        raise ValueError(
            f"min_correlation={template.min_correlation!r} is not a correlation: pass a number "
            "from -1 to 1."
        )
    ordered = isinstance(template.order, str) and template.order == "correlation"
    correlated = SCANS[template.scan].by_correlation or ordered or lowest > -1.0
    folds, ridge = None, None
    with one_thread(sample.inputs.shape):
        if template.cv is not None:
            check.require_foldable(template.criterion, template.cv)
            splits = check.read_folds(template.cv, sample, target, purpose="features")
            folds = tuple(FactoredFold.each(sample.inputs, splits, sample.weights))
            check.warn_if_doubtful([fold.design for fold in folds])
        elif criterion.ridge_loss is None:
            check.require_freedom(sample.design, RIDGE)
        elif sample.is_short:
            ridge = Ridge.factor(sample.inputs, sample.weights, sample.n_samples)
        gram = column_gram(sample.design, sample.inputs).matrices if correlated else None
    return FactoredFeatures(sample, folds, ridge, gram)


def pose_features(
    template: FeatureAggregator, factored: FactoredFeatures, target: FloatArray, name: str
) -> MergeProblem:
    """The problem of Phase II for one target of already factored inputs."""
    criterion = check.read_criterion(template.criterion, FEATURE_CRITERIA)
    sample, folds = factored.sample, factored.folds
    with one_thread(sample.inputs.shape):
        gram = None if factored.gram is None else DenseGram(factored.gram.copy())
        check.require_varying(target[:, None], [name])
        space: MergeSpace
        if folds is not None:
            check.require_judges([target[fold.test] for fold in folds], name)
            space = FeatureSpace.on_folds(folds, target, gram)
        else:
            centred = sample.design.centre(target[:, None])
            if factored.ridge is None:
                space = FeatureSpace.of(sample.design, centred[:, 0], gram)
            else:
                ridge = factored.ridge.chosen_for(centred)
                space = FeatureSpace.penalised(ridge, centred[:, 0], gram)
        graph = check.read_graph(template.connectivity, sample.inputs, "features")
        rule = Rule(
            criterion,
            template.scan,
            scale="none",
            graph=graph,
            order=template.order,
            random_state=template.random_state,
            wishes=check.read_wishes(
                template, None, None, graph, sample.inputs.shape[1], "features"
            ),
        )
        variance, lowest = float(np.var(target, ddof=1)), float(template.min_correlation)
        return pose(rule, space, variance, min_correlation=lowest, n_before=1)


def merge_features(
    aggregator: FeatureAggregator, factored: FactoredFeatures, target: FloatArray, name: str = "y"
) -> FeatureAggregator:
    """Find the groups for one target of already factored inputs."""
    limit = check.read_limit(aggregator, FEATURE_CRITERIA)
    problem = pose_features(aggregator, factored, target, name)
    if limit is None:
        n_samples, n_features = factored.sample.n_samples, factored.sample.inputs.shape[1]
        limit = usual_limit(n_samples)
        if aggregator.n_groups is None and problem.min_correlation > -1.0:
            # About the largest correlation of any two of this many unrelated features.
            pairs = max(n_features * (n_features - 1) / 2.0, 2.0)
            chance = min(float(np.sqrt(2.0 * np.log(pairs) / n_samples)), 1.0)
            problem = replace(problem, min_correlation=max(problem.min_correlation, chance))
    settle(aggregator, problem, limit, getattr(aggregator, "feature_names_in_", None))
    return aggregator


def usual_limit(n_samples: int) -> float:
    """The cut of the Bayesian criterion."""
    return float(np.log(n_samples))


class FactoredFeatures(NamedTuple):
    """Inputs factored once, in sample or once per fold, for any number of targets."""

    sample: check.Sample
    folds: tuple[FactoredFold, ...] | None  # None: judged in sample
    ridge: Ridge | None  # None: by least squares
    gram: FloatArray | None  # inner products of the columns, where correlations are wanted


def feature_path(
    X: Any, y: Any, max_losses: Iterable[float], *, sample_weight: Any = None, **options: Any
) -> list[PathPoint]:
    """Groups of features for each ``max_loss``, from one factorization.

    Parameters
    ----------
    X, y, sample_weight
        As in ``FeatureAggregator.fit``.
    max_losses : iterable of float
        Values of ``max_loss``, in any order.
    **options
        Parameters of ``FeatureAggregator``: criterion, scan, order, connectivity, cv, ...

    Returns
    -------
    list of PathPoint
        One for each value, in the order given, with ``partition`` and ``loss_interval``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import feature_path
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(80, 1))
    >>> X = np.hstack([common + 0.3 * rng.normal(size=(80, 3)), rng.normal(size=(80, 1))])
    >>> y = X.sum(axis=1) + rng.normal(size=80)
    >>> [point.partition.n_groups for point in feature_path(X, y, [-np.inf, 4.0])]
    [4, 2]
    """
    check.require_no_limit(options)
    aggregator = FeatureAggregator(**options)
    sample, targets, _ = aggregator.__ctfa_read__(X, y, sample_weight)
    target = targets.values[:, 0]
    problem = pose_features(aggregator, factor(aggregator, sample, target), target, "y")
    return solve_path(problem, check.read_losses(max_losses))
