"""Phase I: a partition of the targets, each group replaced by its mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.utils import TransformerTags
from sklearn.utils.validation import check_is_fitted

from ctfa import _reading as check
from ctfa._reading.streaming import StreamingTargets
from ctfa._reading.sums import Wanted, answers_lazily
from ctfa._threads import one_thread
from ctfa.core import progress
from ctfa.core.confounds import Lines
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.cut import PREFERRED, CutCurve, Price, middle_of_best
from ctfa.core.design import Design
from ctfa.core.levels import TEMPERS, Temper
from ctfa.core.partition import Partition
from ctfa.core.small_fits import observed_mean
from ctfa.core.tasks.base import PathPoint, Rule
from ctfa.core.tasks.out_of_fold import OutOfFold
from ctfa.core.tasks.shared import SharedInputs, TargetFits
from ctfa.core.types import FloatArray
from ctfa.estimators.evidence import MergeEvidence
from ctfa.estimators.given import OF_GROUPS, ReadsTables, Saved, asks_of, fields, whole
from ctfa.estimators.refits import FEWEST_FOLDS, Split, Stop, fewer_folds, out_of_fold, warn_stopped
from ctfa.estimators.search import (
    MergeProblem,
    choose,
    fewest_readable,
    group_names,
    keep_price,
    leave_apart,
    pose,
    read_rule,
    settle,
    smallest_error,
)
from ctfa.estimators.shown import Shown
from ctfa.estimators.view import FittedGroups

#: What missing values need.
PLAIN = "use criterion='risk', regressor=None, flip=False and guard=None"
#: Rows beyond the coefficients up to which ridge regression tells two groups apart better than
#: least squares: measured on groups, groups with members' own parts and unrelated targets, 20 and
#: 40 features; the two meet at 8 to 16 rows.
CARRIED = 10
#: Numbers of all tables of training rows that may be kept from one look at the folds to the next.
MOST_KEPT = 2**25
#: Limits tried where a regressor is refitted to judge: ratios of squared errors. And break-even.
RATIOS: tuple[float, ...] = (-np.inf, 0.0, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 1.0)
RATIOS += (1.005, 1.01, 1.02, 1.03, 1.05, 1.1, 1.2, np.inf)
EVEN = 1.0
#: Tempers of groups that serve their members alone.
ALONE = tuple(temper for temper in TEMPERS if temper.apart == np.inf)


class TargetAggregator(Shown, StreamingTargets, ReadsTables, Saved, BaseEstimator):  # type: ignore[misc]
    """Group targets whose difference the features cannot usefully predict (Phase I).

    Parameters
    ----------
    criterion : {"risk", "mse", "corollary"} or callable, default="risk"
        What a merge costs. ``"risk"``: the change of the total prediction risk, exact for groups
        of any size; ``"mse"``: the paper's rule as its code computes it; ``"corollary"``: Eq. 6 of
        the paper read literally. A callable takes an ``Evidence`` (``ctfa.core.fit``), whose fits
        hold an entry per candidate, and returns a loss for each.
    max_loss : float or "auto", default="auto"
        Merge while the loss is at most this; larger merges more (groups are nested for the scan
        "best-first"; in the others an early merge changes later questions). Units of ``"risk"``:
        1 breaks even in expectation. ``"mse"`` and ``"corollary"``: squared target units, the
        negative of the paper's epsilon_1. ``"auto"``, for ``"risk"``: chosen on the folds of
        ``cv``, with the groups found again from the training rows of each; the limit of the fewest
        groups whose own models (those that one reads) are within one paired standard error of the
        best. Errors that differ by rounding alone are ties, which go to fewer groups. Where a
        ``regressor`` is refitted to judge, losses are ratios of squared errors (1 breaks even
        too), and the limit is that of the smallest error.
    scan : {"best-first", "correlation", "grow", "restart"}, default="best-first"
        Which pair is asked next. ``"best-first"``: the pair of smallest loss; ``"correlation"``:
        the most correlated pair; ``"grow"``: Algorithm 2 as printed; ``"restart"``: the authors'
        loop.
    order : {"given", "random", "correlation"} or array, default="given"
        Order of the targets for the scans "grow" and "restart".
    connectivity : sparse matrix, array or callable, default=None
        Symmetric neighbour graph of the targets: only neighbours merge, and groups stay connected.
        A callable receives the targets as rows.
    scale : {"standard", "center", "none"}, default="standard"
        Merge and average targets in these units; ``inverse_transform`` restores each target's own
        offset and scale. ``"none"`` is the paper's predictor, one intercept per group.
    flip : bool, default=False
        Let targets join with a minus sign where what the features explain of them points the other
        way; ``signs_`` tells which.
    guard : {"member", None}, default=None
        ``"member"`` refuses any merge by which some member is predicted to lose.
    regressor : estimator or None, default=None
        The model by which merges are judged. None is the regressor of the surrounding estimator;
        without one, and where ``CTFARegressor`` has none, a linear model: least squares where there
        are enough rows, ridge regression with the penalty of the greatest restricted likelihood
        where there are not (``n_samples <= n_features + 10`` in all rows or the training rows of a
        fold; without missing values). ``LinearRegression``, ``Ridge`` and ``RidgeCV``
        with an intercept judge in closed form. Any other is fitted to every target without each
        fold of ``cv``, and to choose a limit without each pair of folds: 10 fits per target on
        four folds. ``LinearRegression()`` given here is the cheap judge of a costly regressor,
        which is then fitted once per group. Tasks with rows or inputs of their own are judged
        alike: where they share a function, by what the models of all tasks say of a row.
    n_groups : int or None, default=None
        Merge to exactly this number of groups, for ``max_loss="auto"`` and the scans "best-first"
        and "correlation"; with a graph at least one per component. ``price_`` says what that costs
        on held-out rows, where there are folds.
    tolerance : float or None, default=None
        What ``max_loss="auto"`` chooses: the fewest groups whose own models err on held-out rows by
        at most this share more than the best (0.01 is one per cent). None: within one standard
        error (see ``max_loss``).
    min_size : int, default=1
        Smaller groups are merged further, beyond the limit, smallest loss first. With ``n_groups``
        this happens earlier, so that the wished number of groups is left.
    together, apart : list of pairs of targets or None, default=None
        By name or by position. Pairs of ``together`` are joined before all others, with a graph
        also the fewest neighbours that connect them; pairs of ``apart`` are never in one group.
        Folds follow these wishes, so a limit is chosen under them. A wish that cannot be fulfilled
        raises an error that says why.
    cv : int, splitter or list of folds, default=10
        Folds on which ``max_loss="auto"`` is chosen; an integer gives contiguous folds of two rows
        or more. Series, whose neighbouring rows are alike, need contiguous folds;
        ``BlockedKFold`` leaves rows out between them and the training rows. Splitters that need
        ``groups`` get those given to ``fit``. If folds are too short to choose, a warning says so
        and 1.5 is used. Where a regressor is refitted to judge, a number of more than four
        folds is lowered to four; pass a splitter for more.
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
        Held-out error for each limit that ``max_loss="auto"`` tried; None for a number, of loss or
        of groups.
    price_ : Price or None
        What wishes cost (``n_groups`` to ``apart``): ``error`` of the groups' own models on
        held-out rows against the ``free_error`` of those chosen without wishes, on the same folds;
        ``whole_error`` and ``free_whole_error`` of all that is predicted with. NaN where no folds
        were asked; None without wishes. Print it.
    signs_, offsets_, scales_ : ndarray of shape (n_targets,)
        Sign with which each target enters its group's mean, and its offset and scale.
    confounds_slopes_, confounds_means_ : ndarray of shape (n_targets, n_columns) and (n_columns,)
        The part of a target that confounds explain in a row is ``offsets_`` plus
        ``(confounds - confounds_means_)`` times its slopes; None without confounds.
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
    _labels: Any  # names as given
    price_: Price | None = None  # absent in old files

    _saved = (
        Saved._saved
        | OF_GROUPS
        | fields(
            "signs_ offsets_ scales_ target_weight_ target_names_in_ confounds_means_ "
            "confounds_slopes_",
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
        regressor: Any = None,
        n_groups: int | None = None,
        tolerance: float | None = None,
        min_size: int = 1,
        together: Any = None,
        apart: Any = None,
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
        self.regressor = regressor
        self.n_groups = n_groups
        self.tolerance = tolerance
        self.min_size = min_size
        self.together = together
        self.apart = apart
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
        confounds: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Find the groups.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Also Dask collections, read once and in chunks, and arrays of torch, CuPy or JAX: a fit
            needs only their sums.
        y : array or data frame of shape (n_samples, n_targets)
            NaN is a missing value: two groups are compared on the rows that both have, where a
            group has the mean of its observed members. For the criterion "risk" by least squares.
        sample_weight : array of shape (n_samples,), default=None
            Analytic weights, normalised to sum to the number of rows with a positive one.
        groups : array of shape (n_samples,), default=None
            Labels of the rows for splitters such as ``GroupKFold``.
        confounds : array of shape (n_samples, n_columns), default=None
            Seasons or a trend. Inputs and targets are first regressed on them, with an intercept,
            in every fold again; groups are those of the residuals.
        target_weight : array of shape (n_targets,), default=None
            How much each target counts in its group's mean and in the total risk. Only ratios
            matter; a weight of two is a target given twice.

        Returns
        -------
        self
        """
        self._sums = None
        read = self.__ctfa_read__(X, y, sample_weight, confounds, target_weight, groups, few=True)
        self._fit_stand_ins(*read, groups)
        return self

    @answers_lazily
    def transform(self, Y: Any, *, confounds: Any = None) -> Any:
        """Mean target of each group.

        Parameters
        ----------
        Y : array or data frame of shape (n_samples, n_targets)
            The targets of ``fit``, in the same order; NaN is a missing value.
        confounds : array of shape (n_samples, n_columns), default=None
            The confounds of these rows; needed where ``fit`` was given confounds.

        Returns
        -------
        array or data frame of shape (n_samples, n_groups)
            In the units of ``scale``: the mean of the members that are observed in each row, NaN
            where none is.
        """
        check_is_fitted(self)
        targets = read_again(self, Y, what="Y")
        columns = check.read_confounds_again(confounds, len(targets.values), self.confounds_means_)
        means = group_means(self, in_units(self, targets.values, columns))
        return check.as_frame(targets.library, means, self.get_group_names_out(), Y)

    @answers_lazily
    def inverse_transform(self, Z: Any, *, confounds: Any = None) -> Any:
        """Give each target the column of its group, in the target's own units.

        Parameters
        ----------
        Z : array or data frame of shape (n_samples, n_groups)
            Means of the groups, or predictions of them, in the units of ``scale``.
        confounds : array of shape (n_samples, n_columns), default=None
            As in ``transform``.

        Returns
        -------
        array or data frame of shape (n_samples, n_targets)
            One column per target of ``fit``.
        """
        check_is_fitted(self)
        groups = check.read_targets(Z, what="Z")
        check.require_width(groups.values, self.n_groups_, "Z", "groups")
        columns = check.read_confounds_again(confounds, len(groups.values), self.confounds_means_)
        spread = np.asarray(self.partition_.spread(groups.values)) * self.signs_
        values = in_own_units(self, spread, columns)
        return check.as_frame(groups.library, values, self._labels, Z)

    def get_group_names_out(self) -> list[str]:
        """Names of the groups, such as ``mean(basin_1, -basin_7)``.

        Returns
        -------
        list of str
            One per group; a minus marks a target that joined with its sign flipped, and a target
            by itself keeps its name.
        """
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
            lambda: MergeEvidence.of(self, names, [], refitted=not check.judges(self.regressor)),
            in_units=self._in_units,
        )

    def _in_units(self, y: Any, confounds: Any = None) -> tuple[FloatArray, FloatArray]:
        """Targets of other rows as they were merged, and the means of their groups."""
        units = in_units(self, read_again(self, y).values, confounds)
        return units, group_means(self, units)

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        return asks_of(self, None, n_targets)

    def __ctfa_fit__(self, sample: check.Sample, targets: check.Targets) -> Self:
        """Find the groups in rows that stand in for others."""
        self._fit_stand_ins(sample, targets)
        return self

    def _fit_stand_ins(
        self, sample: check.Sample, targets: check.Targets, data: Any = None, groups: Any = None
    ) -> None:
        with progress.part():
            tasks = SharedInputs(sample, targets.values, targets.weights)
            PhaseOne(self, tasks, targets, groups).find()


def level_of(fitted: TargetAggregator, columns: FloatArray | None) -> FloatArray:
    """Values of the targets, in their own units, at zero in the units of merging."""
    offsets: FloatArray = fitted.offsets_
    if columns is None or fitted.confounds_means_ is None:
        return offsets
    return Lines(offsets, fitted.confounds_slopes_, fitted.confounds_means_).at(columns)


def in_units(
    fitted: TargetAggregator, values: FloatArray, columns: FloatArray | None = None
) -> FloatArray:
    """Targets in the units they were merged in; ``columns`` are of their confounds."""
    return np.asarray((values - level_of(fitted, columns)) / fitted.scales_)


def in_own_units(
    fitted: TargetAggregator, units: FloatArray, columns: FloatArray | None = None
) -> FloatArray:
    """Targets in the units given."""
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
    """The same labels as given: numbers, tuples, anything."""
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
    aggregator.confounds_slopes_ = None if lines is None else lines.slopes
    aggregator.confounds_means_ = None if lines is None else lines.centre


def keep_apart(
    aggregator: TargetAggregator, targets: check.Targets, lines: Lines | None = None
) -> None:
    """Leave every target by itself, in its own units."""
    check.require_observed(targets.values, targets.names, 2, "a fit")
    n_targets = targets.values.shape[1]
    offsets = np.zeros(n_targets) if lines is None else lines.levels
    keep_units(aggregator, targets, offsets, np.ones(n_targets), lines)
    leave_apart(aggregator, n_targets)


class Found(NamedTuple):
    """Groups, and what led to them."""

    fits: TargetFits
    rule: Rule
    units: FloatArray  # (L,): in which errors of targets are held against each other
    folds: Sequence[tuple[Any, ...]] = ()  # none where nothing can be asked of folds
    points: Sequence[PathPoint] = ()  # groups that the training rows of each give, at the limit
    temper: Any = Temper()  # at which the groups' models did best
    told: OutOfFold | None = None  # what models that judged said of rows they had not seen
    free_points: Sequence[PathPoint] = ()  # groups of the folds without wishes, where there are any


@dataclass(frozen=True, eq=False)
class PhaseOne:
    """The search for groups of targets: of which, by which options, and who judges."""

    aggregator: TargetAggregator
    tasks: SharedInputs
    targets: check.Targets
    groups: Any = None  # labels of the rows for splitters
    n_jobs: int | None = None
    judge: Any = None  # the regressor that judges merges where the aggregator says nothing

    @cached_property
    def rule(self) -> Rule:
        """Checked options."""
        aggregator, targets = self.aggregator, self.targets
        judge = self.judge if aggregator.regressor is None else aggregator.regressor
        rule = read_rule(
            aggregator,
            refits=True,
            judge=judge,
            flip=bool(aggregator.flip),
            guarded=aggregator.guard is not None,
            levels=judge is None,
            tempers=ALONE if judge is None else (0.0,),
        )
        check.require_flag(aggregator.flip, "flip")
        if aggregator.guard is not None:
            check.require(aggregator.guard, ["member"], "guard")
            check.require_matrix_size(targets.values.shape[1], "guard='member'")
        if targets.weights is not None:
            check.refuse_for_target_weight(targets, aggregator)
        graph = check.read_graph(aggregator.connectivity, targets.values, "targets")
        known = targets.names, targets.labels, graph, len(targets.names)
        return replace(rule, graph=graph, wishes=check.read_wishes(aggregator, *known))

    @cached_property
    def has_gaps(self) -> bool:
        """Whether targets have missing values."""
        return bool(np.isnan(self.targets.values).any())

    def find(self, *, ask_folds: bool = False, priced: bool = True) -> Found:
        """Find the groups, and set them.

        ``ask_folds``: whether folds find their groups also where the limit is given; ``priced``:
        where the number of groups is.
        """
        aggregator, tasks, rule = self.aggregator, self.tasks, self.rule
        choice, told, limit = None, None, check.read_limit(aggregator, TARGET_CRITERIA)
        is_one, is_auto = tasks.n_tasks == 1, limit is None
        problem: MergeProblem | None
        if rule.solver == "refits":
            asks = not is_one and (limit != -np.inf or rule.wishes.shape_groups)
            fits, told, folds = self.ask_refits(asks=asks, chooses=is_auto)
            problem = None if told is None else pose(rule, fits.space())
            if told is not None and is_auto and any(known is not None for known, _ in told.folds):
                numbers, prefer = [(k,) for k in range(len(told.folds))], smallest_error(middle)
                options: dict[str, Any] = {"n_jobs": None, "limits": RATIOS}
                choice = choose(told, rule, numbers, prefer, cv=aggregator.cv, **options)
        else:
            with one_thread(*tasks.shapes):
                counted = rule.wishes.n_groups is not None
                asks = is_auto and not is_one and (priced or not counted)
                chooses = asks and not counted
                wanted = asks or (ask_folds and not self.has_gaps)
                folds = self._folds(needed=chooses) if wanted else []
                rule, fits, problem = self.pose(folds)
                if folds and not is_one and not self._are_short(rule, folds, chooses=chooses):
                    # Without the factors of all rows, which no fold needs.
                    plain = replace(tasks, sample=replace(tasks.sample), units=fits.scales)
                    options = {"n_jobs": self.n_jobs, "limits": None if is_auto else (limit,)}
                    choice = choose(
                        plain, rule, folds, fewest_readable, cv=aggregator.cv, **options
                    )
        curve = None if choice is None or not is_auto else choice.curve
        if limit is None:
            usual = PREFERRED if told is None else EVEN
            limit = usual if choice is None else choice.max_loss
        limit = limit if problem is not None else -np.inf
        signs = self._keep(rule, fits, problem, limit, curve)
        keep_price(aggregator, rule, choice)
        found = Found(fits, rule, fits.scales, told=told)
        if rule.solver == "refits":
            found = found._replace(units=np.where(fits.scales > 0.0, fits.scales, 1.0))
            if told is None or choice is None:
                point = PathPoint(limit, aggregator.partition_, (limit, limit), signs)
                return found._replace(folds=folds, points=[point] * len(folds))
            both = [one for one in zip(folds, told.folds, strict=True) if one[1][0] is not None]
            kept, tables = zip(*both, strict=True)
            told = replace(told, folds=tables)
            return found._replace(folds=kept, points=choice.points, told=told)
        if choice is None:
            # A single target has no limit to choose, and folds that tell how far to trust inputs.
            return self._each_alone(found, folds if is_one else [])
        asked = folds[: len(choice.points)]  # those finished before a search was stopped
        free = choice.free_points if choice.price is not None else ()
        known = choice.points, choice.temper
        return found._replace(folds=asked, points=known[0], temper=known[1], free_points=free)

    def _keep(
        self,
        rule: Rule,
        fits: TargetFits,
        problem: MergeProblem | None,
        limit: float,
        curve: CutCurve | None,
    ) -> FloatArray | None:
        """Solve, and set what is found, nothing merged without a problem; signs of the targets."""
        aggregator, targets, lines = self.aggregator, self.targets, self.tasks.left.targets
        signs = None
        if problem is None:
            check.refuse_unasked(rule.wishes, self.tasks.n_tasks)
            leave_apart(aggregator, self.tasks.n_tasks)
        else:
            names = None if targets.labels is None else targets.names
            # With gaps a difference of nothing costs each pair something else, by its rows.
            chosen = curve is not None and not self.has_gaps
            signs = settle(aggregator, problem, limit, names, chosen=chosen).signs
        aggregator.cv_curve_ = curve
        offsets = fits.offsets if lines is None else fits.offsets + lines.levels
        keep_units(aggregator, targets, offsets, fits.scales, lines)
        if signs is not None:
            aggregator.signs_ = signs
        return signs

    def apart(self) -> Found:
        """Fits of targets by themselves, where no Phase I is wanted."""
        with one_thread(*self.tasks.shapes):
            rule = self.rule
            spread = self.tasks.in_units(replace(rule, scale="standard"))[1]
            found = Found(self.tasks.fits(rule), rule, np.where(spread > 0.0, spread, 1.0))
            return self._each_alone(found, self._folds(needed=False))

    def _each_alone(self, found: Found, folds: Sequence[tuple[Any, ...]]) -> Found:
        """The same with folds in which nothing was merged."""
        alone = Partition.singletons(self.tasks.n_tasks)
        point = PathPoint(-np.inf, alone, (-np.inf, -np.inf))
        return found._replace(folds=folds, points=[point] * len(folds))

    def pose(
        self, folds: Sequence[tuple[Any, ...]] = (), *, in_fold: bool = False
    ) -> tuple[Rule, TargetFits, MergeProblem]:
        """Check everything and factor the inputs once; targets may be constant in a fold."""
        self._require(in_fold=in_fold)
        rule, left = self.rule, self.tasks.left
        sample, values = left.judged, left.judged_values
        with one_thread(sample.inputs.shape, values.shape):
            is_asked = rule.solver == "ols" and values.shape[1] > 1
            if is_asked and rule.criterion.ridge_loss is not None and not self.has_gaps:
                # Folds that do not carry least squares have to judge as all rows do.
                designs = [sample.design, *(fold[2] for fold in folds)]
                spare = CARRIED if rule.levels else check.SPARE
                short = [one for one in designs if one.n_samples <= one.rank + spare]
                if short:
                    if not rule.levels:
                        check.warn_short(short[0])
                    rule = replace(rule, solver="ridge", penalties=None)
            elif is_asked:
                risk = "criterion='risk' for Phase I, which ridge regression can judge"
                check.require_freedom(sample.design, risk, left.n_spent)
            if is_asked and rule.solver == "ols" and rule.criterion.counts_columns:
                check.require_columns_freedom(sample.design)
            fits = self.tasks.fits(rule)
            return rule, fits, pose(rule, fits.space())

    def ask_refits(
        self, *, asks: bool = True, chooses: bool = False, in_fold: bool = False
    ) -> tuple[TargetFits, OutOfFold | None, list[Split]]:
        """Targets judged by predictions of a regressor that is fitted for them; what it said.

        And where. If folds are to choose a limit, they are told of by models that have not seen
        them, either. Nothing is asked or told where there are too few rows or fits were stopped.
        """
        self._require(in_fold=in_fold)
        tasks, rule, told, splits = self.tasks, self.rule, None, None
        judge = self.judge if self.aggregator.regressor is None else self.aggregator.regressor
        scales = tasks.in_units(rule)[1]
        scales = np.where(scales > 0.0, scales, 1.0)
        if asks:
            rows, cv = (tasks.sample, tasks.values, self.groups), fewer_folds(self.aggregator.cv)
            splits = check.read_cut_folds(cv, *rows, needed=chooses, refits=True)
        if splits is not None:
            if chooses and len(splits) < FEWEST_FOLDS:
                check.warn_of_two_folds(len(splits), FEWEST_FOLDS)
                chooses = False
            try:
                told = out_of_fold(judge, tasks, rule, splits, scales, self.n_jobs, chooses=chooses)
            except Stop:
                warn_stopped("every target stays by itself")
        known_by = OutOfFold(*np.zeros((3, 2, tasks.n_tasks))) if told is None else told
        fits = tasks.judged_by(replace(known_by.fits(rule), scales=scales), rule)
        return fits, told, splits or []

    def _require(self, *, in_fold: bool) -> None:
        """Refuse targets that are constant, or of too few rows or too gappy for what is asked."""
        aggregator, rule, targets = self.aggregator, self.rule, self.targets
        left = self.tasks.left
        if self.has_gaps:
            for option, simple in (
                (f"criterion={aggregator.criterion!r}", rule.criterion.takes_gaps),
                (f"regressor={check.called(aggregator.regressor)}", rule.solver != "ridge"),
                (f"flip={aggregator.flip!r}", not rule.flip),
                (f"guard={aggregator.guard!r}", not rule.guarded),
            ):
                if not simple:
                    check.require_complete(targets.values, option, PLAIN)
            needed, what = 4, "models without a fold"
            if rule.solver != "refits":
                needed, what = left.judged.design.rank + left.n_spent + 3, "least squares"
            check.require_observed(targets.values, targets.names, needed, what)
        if not in_fold:
            check.require_varying(targets.values, targets.names)
        if left.targets is not None:
            check.require_levels(left.targets, aggregator.scale)
            something = (np.nan_to_num(left.judged_values) != 0.0).any(axis=0)
            check.require_more_than_confounds(something, targets.names)

    def _folds(self, *, needed: bool) -> list[tuple[Any, ...]]:
        """Folds, each with its training inputs factored; and its training rows, if they are few.

        Folds are asked up to three times: for a limit, for tempers, and for features. Rows that are
        kept are factored and fitted once, if that is done here.
        """
        tasks = self.tasks
        rows = tasks.sample, tasks.values, self.groups
        splits = check.read_cut_folds(self.aggregator.cv, *rows, needed=needed) or []
        plain = replace(tasks, sample=replace(tasks.sample))
        size = len(splits) * sum(math.prod(shape) for shape in tasks.shapes)
        is_kept = size <= MOST_KEPT and effective_n_jobs(self.n_jobs) == 1
        folds: list[tuple[Any, ...]] = []
        for train, test in splits:
            known = plain.take(train)
            one = known.left.judged
            design = Design.of(one.inputs, one.weights, one.n_samples, one.is_single)
            folds.append((train, test, design, replace(known, design=design) if is_kept else None))
        return folds

    def _are_short(self, rule: Rule, folds: Sequence[tuple[Any, ...]], *, chooses: bool) -> bool:
        """Whether folds leave too few rows to judge; warns where they are to choose."""
        # A penalised fit needs two rows, whatever its inputs: as least squares with rank -1 would.
        is_penalised, sample = rule.solver == "ridge", self.tasks.sample
        designs = [fold[2] for fold in folds]
        sizes = [(one.n_samples, -1 if is_penalised else one.rank) for one in designs]
        if not chooses:
            return any(n_rows <= rank + check.SPARE for n_rows, rank in sizes)
        rank = max(rank for _, rank in sizes)
        if not is_penalised and sample.confounds is None:
            rank = sample.design.rank
        return check.warn_if_folds_are_short(sizes, rank, PREFERRED)


def by_levels(found: Found, tasks: SharedInputs) -> Found:
    """The same groups, to be served by levels, whatever judged the merges."""
    rule, fits = found.rule, found.fits
    if rule.solver == "refits":
        rule = replace(rule, solver="ridge", penalties=None)
        fits = tasks.fits(rule)
    rule = replace(rule, levels=True)
    if fits.levels is None and not np.isnan(tasks.values).any():
        fits = replace(fits, levels=tasks.fits(rule).levels)
    return found._replace(fits=fits, rule=rule, temper=Temper())


def middle(curve: CutCurve) -> CutCurve:
    """Of limits of the smallest error the middle one; none where nothing has merged at these.

    Losses of all rows are not quite those of folds, and the first of several would be the tightest.
    """
    at = middle_of_best(curve)
    return replace(curve, chosen=0 if curve.n_groups[at] == curve.n_groups[0] else at)
