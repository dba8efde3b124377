"""Phase I: a partition of the targets, each group replaced by its mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._collections import Wanted, answers_lazily
from ctfa._streaming import StreamingTargets
from ctfa._threads import one_thread
from ctfa.core.baseline import Lines
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.cut import PREFERRED, CutCurve
from ctfa.core.design import Design
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.shared import SharedInputs, TargetFits
from ctfa.core.types import FloatArray
from ctfa.estimators.evidence import MergeEvidence
from ctfa.estimators.given import OF_GROUPS, ReadsTables, Saved, asks_of, fields, whole
from ctfa.estimators.search import (
    MergeProblem,
    choose,
    group_names,
    leave_apart,
    nearest_to_theory,
    pose,
    read_rule,
    settle,
)
from ctfa.estimators.view import FittedGroups

#: What missing values need.
PLAIN = "use criterion='risk', solver='ols', flip=False and guard=None"


class TargetAggregator(StreamingTargets, ReadsTables, Saved, BaseEstimator):  # type: ignore[misc]
    """Group targets whose difference the features cannot usefully predict (Phase I).

    Parameters
    ----------
    criterion : {"risk", "mse", "corollary"} or callable, default="risk"
        What a merge costs. ``"risk"``: the change of the total prediction risk, exact for groups
        of any size; ``"mse"``: the paper's rule as its code computes it; ``"corollary"``: Eq. 6 of
        the paper read literally. A callable takes an ``Evidence`` (``ctfa.core.fit``), whose fits
        hold an entry a candidate, and returns a loss for each.
    max_loss : float or "auto", default="auto"
        Merge while the loss is at most this; larger merges more (groups are nested for the scan
        "best-first"; in the others an early merge changes later questions). Units of ``"risk"``:
        1 is break-even in expectation. ``"mse"`` and ``"corollary"``: squared target units, the
        negative of the paper's epsilon_1. ``"auto"``, for ``"risk"``: chosen on the folds of
        ``cv``, with the groups found anew from the training rows of each; the limit nearest to 1.5
        (to ``1.5 - 1/L`` for L targets) among those within two paired standard errors of the best,
        half of one for limits that merge more than the best. Errors that differ by rounding alone
        are ties, which go to fewer groups.
    scan : {"best-first", "correlation", "grow", "restart"}, default="best-first"
        Who is asked next. ``"best-first"``: the pair of smallest loss; ``"correlation"``: the most
        correlated pair; ``"grow"``: Algorithm 2 as printed; ``"restart"``: the authors' loop.
    order : {"given", "random", "correlation"} or array, default="given"
        The order of targets for the scans "grow" and "restart".
    connectivity : sparse matrix, array or callable, default=None
        Symmetric neighbour graph of the targets: without an edge no merge, groups stay connected.
        A callable receives the targets as rows.
    scale : {"standard", "center", "none"}, default="standard"
        Merge and average targets in these units; ``inverse_transform`` restores each target's own
        offset and scale. ``"none"`` is the paper's predictor, one intercept a group.
    flip : bool, default=False
        Let targets join with a minus where what the features explain of them points the other
        way; ``signs_`` says which.
    guard : {"member", None}, default=None
        ``"member"`` refuses a merge, whatever its loss, that any member is predicted to lose by.
    solver : {"ols", "ridge"}, default="ols"
        How targets are fitted where merges are judged. ``"ridge"``: with a penalty for each target
        and losses, both by generalised cross-validation; works for any number of features.
        ``"ols"``: by least squares, and by ridge regression, with a warning, where the rows do not
        carry it (``n_samples <= n_features + 2``; for the criterion "risk" without missing values).
    cv : int, splitter or list of folds, default=10
        Where ``max_loss="auto"`` is chosen; an integer gives contiguous folds, of two rows or
        more. Splitters that need ``groups`` take those given to ``fit``. Folds too short for least
        squares choose nothing: a warning says so and 1.5 is used.
    random_state : int, RandomState or None, default=None
        Seed of ``order="random"``.

    Attributes
    ----------
    partition_ : Partition
        The groups.
    labels_ : ndarray of shape (n_targets,)
        Group of each target, numbered by first member.
    n_groups_ : int
        Number of groups.
    history_ : MergeHistory
        Every merge with its loss, the nearest refusals, and the number of comparisons.
    max_loss_ : float
        The limit used.
    loss_interval_ : tuple of float
        Any ``max_loss`` from the first up to (not including) the second gives these groups.
    cv_curve_ : CutCurve or None
        Held-out error for each limit that ``max_loss="auto"`` tried; None for a number.
    signs_, offsets_, scales_ : ndarray of shape (n_targets,)
        How each target enters its group's mean.
    baseline_slopes_, baseline_means_ : ndarray of shape (n_targets, n_columns) and (n_columns,)
        What a target has in a row is ``offsets_`` and ``(baseline - baseline_means_)`` by its
        slopes, before its group is asked; None without a baseline.
    target_weight_ : ndarray of shape (n_targets,) or None
        How much each target counts, of mean one; None where all count alike.
    target_names_in_ : ndarray of str
        Column names, where the targets came as a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import TargetAggregator
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 3))
    >>> signal = np.column_stack([X[:, 0], X[:, 0], -X[:, 1]])
    >>> Y = signal + rng.normal(size=(60, 3))
    >>> TargetAggregator().fit(X, Y).labels_
    array([0, 0, 1])
    """

    _names: tuple[str, ...]
    _labels: Any  # names as they were given

    _saved = (
        Saved._saved
        | OF_GROUPS
        | fields(
            "signs_ offsets_ scales_ target_weight_ target_names_in_ baseline_means_ "
            "baseline_slopes_",
            column_labels="_labels",
            names="_names",
        )
    )

    def __init__(
        self,
        criterion: str | Callable[..., Any] = "risk",
        *,
        max_loss: float | str = "auto",
        scan: str = "best-first",
        order: Any = "given",
        connectivity: Any = None,
        scale: str = "standard",
        flip: bool = False,
        guard: str | None = None,
        solver: str = "ols",
        cv: Any = 10,
        random_state: Any = None,
    ) -> None:
        self.criterion = criterion
        self.max_loss = max_loss
        self.scan = scan
        self.order = order
        self.connectivity = connectivity
        self.scale = scale
        self.flip = flip
        self.guard = guard
        self.solver = solver
        self.cv = cv
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that targets are needed, and may be several."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

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
        """Find the groups.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also of Dask, read once and in chunks, and arrays of torch, CuPy or JAX: what a fit
            needs of them are sums.
        y : array or data frame of shape (n_samples, n_targets)
            NaN is a missing value: two groups are compared on the rows that both have, a group
            having the mean of its observed members. For the criterion "risk" by least squares.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, normalised to sum to the number of rows with a positive one.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``.
        baseline : array of shape (n_samples, n_columns), default=None
            Seasons, a trend: what inputs and targets are regressed on first, with an intercept, in
            every fold anew. Groups are those of the residuals.
        target_weight : array of shape (n_targets,), default=None
            How much each target counts in its group's mean and in the total risk. Only ratios
            matter; a weight of two is a target given twice.

        Returns
        -------
        self
        """
        self._sums = None
        read = self.__ctfa_read__(X, y, sample_weight, baseline, target_weight, groups, few=True)
        self._fit_stand_ins(*read, groups)
        return self

    @answers_lazily
    def transform(self, Y: Any, *, baseline: Any = None) -> Any:
        """Mean target of each group, in the units of ``scale``: ``(n, L) -> (n, n_groups)``.

        Of the observed members where some are missing; NaN where all are. ``baseline`` holds the
        columns of ``fit`` for these rows, where it had any.
        """
        check_is_fitted(self)
        targets = read_again(self, Y, what="Y")
        columns = check.read_baseline_again(baseline, len(targets.values), self.baseline_means_)
        means = group_means(self, in_units(self, targets.values, columns))
        return check.as_frame(targets.library, means, self.get_group_names_out(), Y)

    @answers_lazily
    def inverse_transform(self, Z: Any, *, baseline: Any = None) -> Any:
        """Give each target its group's column, in its own units: ``(n, n_groups) -> (n, L)``."""
        check_is_fitted(self)
        groups = check.read_targets(Z, what="Z")
        check.require_width(groups.values, self.n_groups_, "Z", "groups")
        columns = check.read_baseline_again(baseline, len(groups.values), self.baseline_means_)
        spread = np.asarray(self.partition_.spread(groups.values)) * self.signs_
        values = in_own_units(self, spread, columns)
        return check.as_frame(groups.library, values, self._labels, Z)

    def get_group_names_out(self) -> list[str]:
        """Names of the groups, such as ``mean(basin_1, -basin_7)`` where one was turned round."""
        check_is_fitted(self)
        signed = zip(self._names, self.signs_, strict=True)
        names = [f"-{name}" if sign < 0.0 else name for name, sign in signed]
        return group_names(self.partition_, names)

    def __ctfa_view__(self) -> FittedGroups:
        """What is shown of the groups."""
        names = tuple(map(str, self._names))
        return FittedGroups(
            self,
            self,
            names,
            lambda: MergeEvidence.of(self, names, []),
            in_units=self._in_units,
        )

    def _in_units(self, y: Any, baseline: Any = None) -> tuple[FloatArray, FloatArray]:
        """Targets of other rows as they were merged, and the means of their groups."""
        units = in_units(self, read_again(self, y).values, baseline)
        return units, group_means(self, units)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit will want of its data, and what in it cannot be had from sums."""
        return asks_of(self, None, n_targets)

    def _fit_stand_ins(
        self, sample: check.Sample, targets: check.Targets, data: Any = None, groups: Any = None
    ) -> None:
        find_groups(self, SharedInputs(sample, targets.values, targets.weights), targets, groups)


def level_of(fitted: TargetAggregator, columns: FloatArray | None) -> FloatArray:
    """What each target has in its own units where in those of merging it has zero."""
    offsets: FloatArray = fitted.offsets_
    if columns is None or fitted.baseline_means_ is None:
        return offsets
    return Lines(offsets, fitted.baseline_slopes_, fitted.baseline_means_).at(columns)


def in_units(
    fitted: TargetAggregator, values: FloatArray, columns: FloatArray | None = None
) -> FloatArray:
    """Targets in the units they were merged in; ``columns`` are of their baseline."""
    return np.asarray((values - level_of(fitted, columns)) / fitted.scales_)


def in_own_units(
    fitted: TargetAggregator, units: FloatArray, columns: FloatArray | None = None
) -> FloatArray:
    """Targets as they came."""
    return np.asarray(units * fitted.scales_ + level_of(fitted, columns))


def group_means(fitted: TargetAggregator, units: FloatArray) -> FloatArray:
    """Mean of each group, of its observed members in a row, in the units of merging."""
    units = units * fitted.signs_
    mean = observed_mean if np.isnan(units).any() else Partition.mean
    return np.asarray(mean(fitted.partition_, units, fitted.target_weight_))


def names_of(fitted: TargetAggregator) -> tuple[str, ...]:
    """Names of the targets that a Phase I has seen, those of columns that had none included."""
    return fitted._names


def labels_of(fitted: TargetAggregator) -> Any:
    """The same as they were given: numbers, tuples, anything."""
    return fitted._labels


def require_same_targets(fitted: TargetAggregator, targets: check.Targets, what: str = "y") -> None:
    """Refuse other targets than those that a Phase I has seen."""
    named = hasattr(fitted, "target_names_in_")
    check.require_same_targets(targets, fitted._names, named=named, what=what)


def read_again(
    fitted: TargetAggregator,
    y: Any,
    n_samples: int | None = None,
    used: Any = None,
    what: str = "y",
) -> check.Targets:
    """Read targets of the kind that a Phase I has seen."""
    targets = check.read_targets(y, n_samples, used=used, what=what, gaps=True)
    require_same_targets(fitted, targets, what)
    return targets._replace(weights=fitted.target_weight_)


def keep_units(
    aggregator: TargetAggregator,
    targets: check.Targets,
    offsets: FloatArray,
    scales: FloatArray,
    lines: Lines | None = None,
) -> None:
    """Set the fitted attributes that say which targets these are, and their units."""
    aggregator.target_weight_ = targets.weights
    aggregator._names = targets.names
    aggregator._labels = targets.names if targets.labels is None else targets.labels
    if targets.labels is not None:
        # Filled, not converted: labels that are tuples would become a table.
        aggregator.target_names_in_ = np.empty(len(targets.labels), dtype=object)
        aggregator.target_names_in_[:] = list(targets.labels)
    elif hasattr(aggregator, "target_names_in_"):
        del aggregator.target_names_in_
    aggregator.signs_ = np.ones(offsets.size)
    aggregator.offsets_, aggregator.scales_ = offsets, scales
    aggregator.baseline_slopes_ = None if lines is None else lines.slopes
    aggregator.baseline_means_ = None if lines is None else lines.centre


def keep_apart(
    aggregator: TargetAggregator, targets: check.Targets, lines: Lines | None = None
) -> None:
    """Leave every target by itself, in its own units."""
    check.require_observed(targets.values, targets.names, 2, "a fit")
    n_targets = targets.values.shape[1]
    offsets = np.zeros(n_targets) if lines is None else lines.levels
    keep_units(aggregator, targets, offsets, np.ones(n_targets), lines)
    leave_apart(aggregator, n_targets)


def find_groups(
    aggregator: TargetAggregator,
    tasks: SharedInputs,
    targets: check.Targets,
    groups: Any = None,
    n_jobs: int | None = None,
) -> TargetFits:
    """Find the groups in data that have been read."""
    with one_thread(*tasks.shapes):
        rule, fits, problem = pose_targets(aggregator, tasks, targets)
        limit = check.read_limit(aggregator, TARGET_CRITERIA)
        curve = None
        if limit is None:
            curve = _choose_cut(aggregator, rule, replace(tasks, units=fits.scales), groups, n_jobs)
            limit = PREFERRED if curve is None else float(curve.max_loss[curve.chosen])
        names = None if targets.labels is None else targets.names
        # With gaps a difference of nothing costs each pair something else, by its rows.
        chosen = curve is not None and not np.isnan(targets.values).any()
        signs = settle(aggregator, problem, limit, names, chosen=chosen).signs
    aggregator.cv_curve_, lines = curve, tasks.left.targets
    offsets = fits.offsets if lines is None else fits.offsets + lines.levels
    keep_units(aggregator, targets, offsets, fits.scales, lines)
    if signs is not None:
        aggregator.signs_ = signs
    return fits


def pose_targets(
    aggregator: TargetAggregator,
    tasks: SharedInputs,
    targets: check.Targets,
    *,
    in_fold: bool = False,
) -> tuple[Rule, TargetFits, MergeProblem]:
    """Check everything and factor the inputs once; targets may be constant in a fold."""
    rule = _read_rule(aggregator, targets)
    left = tasks.left
    sample, values = left.judged, left.judged_values
    has_gaps = bool(np.isnan(targets.values).any())
    if has_gaps:
        _require_complete_enough(aggregator, rule, tasks, targets)
    if not in_fold:
        check.require_varying(targets.values, targets.names)
    if left.targets is not None:
        check.require_levels(left.targets, aggregator.scale)
        something = (np.nan_to_num(values) != 0.0).any(axis=0)
        check.require_more_than_baseline(something, targets.names)
    with one_thread(sample.inputs.shape, values.shape):
        is_asked = rule.solver == "ols" and values.shape[1] > 1
        if is_asked and rule.criterion.ridge_loss is not None and not has_gaps:
            if sample.is_short:
                rule = replace(rule, solver="ridge")
        elif is_asked:
            risk = "criterion='risk' for Phase I, which ridge regression can judge"
            check.require_freedom(sample.design, risk, left.n_spent)
        if is_asked and rule.solver == "ols" and rule.criterion.counts_columns:
            check.require_columns_freedom(sample.design)
        fits = tasks.fits(rule)
        return rule, fits, pose(rule, fits.space())


def _read_rule(aggregator: TargetAggregator, targets: check.Targets) -> Rule:
    """The rule for targets that share their inputs."""
    rule = read_rule(aggregator, flip=bool(aggregator.flip), guarded=aggregator.guard is not None)
    check.require_flag(aggregator.flip, "flip")
    if aggregator.guard is not None:
        check.require(aggregator.guard, ["member"], "guard")
        check.require_matrix_size(targets.values.shape[1], "guard='member'")
    if aggregator.solver == "ridge":
        check.require_fact(aggregator.criterion, TARGET_CRITERIA, "ridge_loss", "solver='ridge'")
    if targets.weights is not None:
        check.refuse_for_target_weight(targets, aggregator)
    return replace(rule, graph=check.read_graph(aggregator.connectivity, targets.values, "targets"))


def _require_complete_enough(
    aggregator: TargetAggregator, rule: Rule, tasks: SharedInputs, targets: check.Targets
) -> None:
    """Refuse gaps that the options cannot work with, and targets of too few rows."""
    for option, simple in (
        (f"criterion={aggregator.criterion!r}", rule.criterion.takes_gaps),
        (f"solver={aggregator.solver!r}", rule.solver == "ols"),
        (f"flip={aggregator.flip!r}", not rule.flip),
        (f"guard={aggregator.guard!r}", not rule.guarded),
    ):
        if not simple:
            check.require_complete(targets.values, option, PLAIN)
    needed = tasks.left.judged.design.rank + tasks.left.n_spent + 3
    check.require_observed(targets.values, targets.names, needed, "least squares")


def _choose_cut(
    aggregator: TargetAggregator,
    rule: Rule,
    tasks: SharedInputs,
    groups: Any,
    n_jobs: int | None,
) -> CutCurve | None:
    """Choose the limit on folds; None where there is nothing to choose."""
    if tasks.n_tasks == 1:
        return None
    sample = tasks.sample
    splits = check.read_cut_folds(aggregator.cv, sample, tasks.values, groups)
    if splits is None:
        return None
    # Without the factors of all rows, which no fold needs.
    tasks = replace(tasks, sample=replace(sample))
    judged = [tasks.take(train).left.judged for train, _ in splits]
    designs: list[Design | None] = [None] * len(judged)
    if rule.solver == "ols":
        designs = [
            Design.of(one.inputs, one.weights, one.n_samples, one.is_single) for one in judged
        ]
    # A penalised fit, factored with its targets, needs two rows, whatever its inputs: as least
    # squares with rank -1 would.
    ranks = [-1 if design is None else design.rank for design in designs]
    sizes = [(one.n_samples, rank) for one, rank in zip(judged, ranks, strict=True)]
    rank = max(ranks)
    if rule.solver == "ols" and sample.baseline is None:
        rank = sample.design.rank
    if check.warn_if_folds_are_short(sizes, rank, PREFERRED):
        return None
    folds = [(*split, design) for split, design in zip(splits, designs, strict=True)]
    prefer = nearest_to_theory(tasks.n_tasks)
    choice = choose(tasks, rule, folds, prefer, cv=aggregator.cv, n_jobs=n_jobs)
    return None if choice is None else choice.curve
