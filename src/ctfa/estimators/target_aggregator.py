"""Phase I: a partition of the targets, each group replaced by its mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import TransformerTags, check_random_state
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._collections import Collection, Wanted, answers_lazily, few_for_many, is_collection
from ctfa._streaming import StreamingTargets
from ctfa._threads import one_thread
from ctfa._whole_fit import whole
from ctfa.core.baseline import Lines
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.cut import PREFERRED, CutCurve
from ctfa.core.history import Ledger
from ctfa.core.scans import SCANS
from ctfa.core.types import FloatArray
from ctfa.estimators.anomalies import Anomalies
from ctfa.estimators.merge_evidence import MergeEvidence
from ctfa.estimators.merging import group_names, settle, settle_chosen, settle_history
from ctfa.estimators.saved import OF_GROUPS, Saved, fields
from ctfa.estimators.target_rule import PosedTargets, TargetRule, choose_cut
from ctfa.estimators.target_units import TargetUnits
from ctfa.estimators.view import FittedGroups

#: What missing values need.
PLAIN = "use criterion='risk', solver='ols', flip=False and guard=None"


class TargetAggregator(StreamingTargets, TargetUnits, Saved, BaseEstimator):  # type: ignore[misc]
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
        self._sums = data = None
        if is_collection(X, y, sample_weight, baseline):
            data = Collection.of(X, y, sample_weight, baseline)
            folds = self._folds_wanted(data.widths[2])
            read = data.read_or_gather(self, folds, groups, self._needs_rows())
            if read.rows is not None:
                extra = {"groups": groups, "target_weight": target_weight}
                return self.fit(*read.rows[:3], baseline=read.rows.baseline, **extra)
            sample, targets = read.found
        else:
            sample = check.read_sample(self, X, sample_weight, baseline=baseline)
            targets = check.read_targets(y, sample.n_given, used=sample.used, gaps=True)
        targets = check.read_target_weight(target_weight, targets)
        with one_thread(sample.inputs.shape, targets.values.shape):
            if data is None and groups is None and self._needs_rows() is None:
                folds = self._folds_wanted(targets.values.shape[1])
                sample, targets = few_for_many(sample, targets, sample_weight, folds)
            self._fit_sample(sample, targets, groups)
        return self

    @answers_lazily
    def transform(self, Y: Any, *, baseline: Any = None) -> Any:
        """Mean target of each group, in the units of ``scale``: ``(n, L) -> (n, n_groups)``.

        Of the observed members where some are missing; NaN where all are. ``baseline`` holds the
        columns of ``fit`` for these rows, where it had any.
        """
        check_is_fitted(self)
        targets = self._read_again(Y, what="Y")
        means = self._mean(targets.values, self._read_baseline(baseline, len(targets.values)))
        return check.as_frame(targets.library, means, self.get_group_names_out(), Y)

    @answers_lazily
    def inverse_transform(self, Z: Any, *, baseline: Any = None) -> Any:
        """Give each target its group's column, in its own units: ``(n, n_groups) -> (n, L)``."""
        check_is_fitted(self)
        groups = check.read_targets(Z, what="Z")
        check.require_width(groups.values, self.n_groups_, "Z", "groups")
        columns = self._read_baseline(baseline, len(groups.values))
        return check.as_frame(groups.library, self._spread(groups.values, columns), self._labels, Z)

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
        values = self._read_again(y).values
        return self._to_units(values, baseline), self._mean(values, baseline)

    def _fit_sample(
        self,
        sample: check.Sample,
        targets: check.Targets,
        groups: Any = None,
        left: Anomalies | None = None,
        n_jobs: int | None = None,
    ) -> PosedTargets:
        """Find the groups in data that have been read, and perhaps freed of their baseline."""
        with one_thread(sample.inputs.shape, targets.values.shape):
            left = Anomalies.of(sample, targets.values) if left is None else left
            posed = self._pose(left, targets)
            limit = check.read_target_limit(self.max_loss, self.criterion, self.scan)
            curve = None
            if limit is None:
                curve = self._choose_cut(sample, targets, posed, groups, n_jobs)
                limit = PREFERRED if curve is None else float(curve.max_loss[curve.chosen])
            names = None if targets.labels is None else targets.names
            # With gaps a difference of nothing costs each pair something else, by its rows.
            chosen = curve is not None and not np.isnan(targets.values).any()
            (settle_chosen if chosen else settle)(self, posed.problem, limit, names)
        self.cv_curve_ = curve
        signs = posed.problem.signs(self.partition_)
        offsets = posed.offsets if left.targets is None else posed.offsets + left.targets.levels
        self._set_units(offsets, posed.scales, left.targets)
        if signs is not None:
            self.signs_ = signs
        return posed

    def _asks_of_stream(self, n_targets: int) -> list[Wanted]:
        check.refuse_streaming(self._needs_rows())
        return self._folds_wanted(n_targets)

    def _fit_stand_ins(self, sample: check.Sample, targets: check.Targets) -> None:
        self._fit_sample(sample, targets)

    def _folds_wanted(self, n_targets: int) -> list[Wanted]:
        """Folds that choose the limit, where it is chosen."""
        check.read_criterion(self.criterion, TARGET_CRITERIA)
        check.require(self.scan, SCANS, "scan")
        limit = check.read_target_limit(self.max_loss, self.criterion, self.scan)
        chosen = limit is None and n_targets > 1
        return [Wanted("limit", self.cv, lowered=True)] if chosen else []

    def _needs_rows(self) -> str | None:
        """What sums of rows cannot answer, if there is anything."""
        if self.solver == "ridge":
            return "solver='ridge' of TargetAggregator, which is judged row by row,"
        if callable(self.connectivity):
            return "connectivity that is a function of the targets"
        return None

    def _fit_identity(self, targets: check.Targets, lines: Lines | None = None) -> Self:
        """Leave every target by itself, in its own units."""
        check.require_observed(targets.values, targets.names, 2, "a fit")
        self._remember(targets)
        n_targets = targets.values.shape[1]
        offsets = np.zeros(n_targets) if lines is None else lines.levels
        self._set_units(offsets, np.ones(n_targets), lines)
        settle_history(self, Ledger(n_targets).close(), -np.inf)
        return self

    def _pose(
        self, left: Anomalies, targets: check.Targets, *, in_fold: bool = False
    ) -> PosedTargets:
        """Check everything and factor the inputs once; targets may be constant in a fold."""
        sample, values = left.judged, left.judged_values
        rule = self._rule(targets)
        graph = check.read_graph(self.connectivity, targets.values, "targets")
        self._remember(targets)
        self._require_complete_enough(rule, left, targets)
        if not in_fold:
            check.require_varying(targets.values, targets.names)
        if left.targets is not None:
            check.require_levels(left.targets, self.scale)
            check.require_more_than_baseline(
                (np.nan_to_num(values) != 0.0).any(axis=0), targets.names
            )
        design = None
        with one_thread(sample.inputs.shape, values.shape):
            rule = rule.suited_to(sample, values)
            if rule.solver == "ols":
                design = sample.design
                if values.shape[1] > 1:
                    risk = "criterion='risk' for Phase I, which ridge regression can judge"
                    check.require_freedom(design, risk, left.n_spent)
                    if rule.criterion.counts_columns:
                        check.require_columns_freedom(design)
            posed = rule.pose(design, sample, values, graph)
            space = posed.problem.space
            order = check.read_order(self.order, space, check_random_state(self.random_state))
        return replace(posed, problem=replace(posed.problem, order=order))

    def _require_complete_enough(
        self, rule: TargetRule, left: Anomalies, targets: check.Targets
    ) -> None:
        """Refuse gaps that the options cannot work with, and targets of too few rows."""
        if not np.isnan(targets.values).any():
            return
        for option, simple in (
            (f"criterion={self.criterion!r}", rule.criterion.takes_gaps),
            (f"solver={self.solver!r}", rule.solver == "ols"),
            (f"flip={self.flip!r}", not rule.flip),
            (f"guard={self.guard!r}", not rule.guarded),
        ):
            if not simple:
                check.require_complete(targets.values, option, PLAIN)
        needed = left.judged.design.rank + left.n_spent + 3
        check.require_observed(targets.values, targets.names, needed, "least squares")

    def _rule(self, targets: check.Targets) -> TargetRule:
        """Check the options."""
        criterion = check.read_criterion(self.criterion, TARGET_CRITERIA)
        check.require(self.scan, SCANS, "scan")
        check.require(self.scale, ["standard", "center", "none"], "scale")
        check.require(self.solver, ["ols", "ridge"], "solver")
        check.require_flag(self.flip, "flip")
        if self.guard is not None:
            check.require(self.guard, ["member"], "guard")
            check.require_matrix_size(targets.values.shape[1], "guard='member'")
        if self.solver == "ridge":
            check.require_fact(self.criterion, TARGET_CRITERIA, "ridge_loss", "solver='ridge'")
        check.refuse_for_target_weight(targets, self)
        return TargetRule(
            criterion,
            self.scan,
            self.scale,
            bool(self.flip),
            self.guard is not None,
            self.solver,
            targets.weights,
        )

    def _choose_cut(
        self,
        sample: check.Sample,
        targets: check.Targets,
        posed: PosedTargets,
        groups: Any,
        n_jobs: int | None,
    ) -> CutCurve | None:
        """Choose the limit on folds; None where there is nothing to choose."""
        values = targets.values
        if values.shape[1] == 1:
            return None
        rule = posed.rule
        splits = check.read_cut_folds(self.cv, sample, values, groups)
        if splits is None:
            return None
        parts = [Anomalies.of_rows(sample, values, train).judged for train, _ in splits]
        designs = [rule.factor(part) for part in parts]
        # A penalised fit needs two rows, whatever its inputs: as least squares with rank -1 would.
        ranks = [-1 if design is None else design.rank for design in designs]
        sizes = [(part.n_samples, rank) for part, rank in zip(parts, ranks, strict=True)]
        rank = max(ranks)
        if rule.solver == "ols" and sample.baseline is None:
            rank = sample.design.rank
        if check.warn_if_folds_are_short(sizes, rank, PREFERRED):
            return None
        graph = posed.problem.graph
        return choose_cut(rule, sample, values, posed.scales, graph, splits, designs, n_jobs)

    def _remember(self, targets: check.Targets) -> None:
        self.target_weight_ = targets.weights
        self._names = targets.names
        self._labels = targets.names if targets.labels is None else targets.labels
        if targets.labels is not None:
            # Filled, not converted: labels that are tuples would become a table.
            self.target_names_in_ = np.empty(len(targets.labels), dtype=object)
            self.target_names_in_[:] = list(targets.labels)
        elif hasattr(self, "target_names_in_"):
            del self.target_names_in_

    def _read_again(
        self, y: Any, n_samples: int | None = None, used: Any = None, what: str = "y"
    ) -> check.Targets:
        targets = check.read_targets(y, n_samples, used=used, what=what, gaps=True)
        named = hasattr(self, "target_names_in_")
        check.require_same_targets(targets, self._names, named=named, what=what)
        return targets._replace(weights=self.target_weight_)


class UnitsOf(NamedTuple):
    """From targets as they came to those that are merged, and to the means of their groups."""

    of: Callable[..., FloatArray]
    mean: Callable[..., FloatArray]
    level: Callable[..., FloatArray]


def units_of(fitted: TargetAggregator) -> UnitsOf:
    """The units in which a Phase I has merged targets."""
    return UnitsOf(fitted._to_units, fitted._mean, fitted._level)


def names_of(fitted: TargetAggregator) -> Sequence[str]:
    """Names of the targets that a Phase I has seen, those of columns that had none included."""
    return fitted._names


def labels_of(fitted: TargetAggregator) -> Any:
    """The same as they were given: numbers, tuples, anything."""
    return fitted._labels


def read_again(
    fitted: TargetAggregator, y: Any, n_samples: int | None = None, used: Any = None
) -> check.Targets:
    """Read targets of the kind that a Phase I has seen."""
    return fitted._read_again(y, n_samples, used=used)
