"""The data of a fit that do not lie in this process's memory as arrays."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

from ctfa import _reading as check
from ctfa._errors import InputError, Option
from ctfa._reading.sums import _dask
from ctfa._reading.sums.folds import Classes, Wanted, is_number
from ctfa._reading.sums.sums import Digits, Sums, joined, sum_up
from ctfa._reading.sums.tasks import arrivals_of, parts_of_tasks, read_ids, splits_of
from ctfa._threads import one_thread
from ctfa.core.moments import Moments, Summary, add_up, stacked
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.kernels.devices import is_foreign, to_numpy

#: Bytes of rows that are gathered into memory for what sums cannot answer.
ROWS_LIMIT = 2 << 30
#: Bytes of rows that are gathered because sums have lost digits: a fit holds several copies.
DOUBTS_LIMIT = ROWS_LIMIT // 4
#: What to do about rows that are too many to be gathered automatically.
GATHERED = "fit(X.compute(), y.compute())"
#: Bytes of sums, over all folds, beyond which a fit would not stay small.
SUMS_LIMIT = 4 << 30
#: Bytes of sums that rows in memory are replaced by at most.
FEW_LIMIT = 16 << 20
#: Rows in memory are replaced if they outnumber those that would stand in for them this many times.
MANY = 10
#: Smallest eigenvalue of cross-products at unit length, targets included, where sums leave ten
#: digits of everything that decides.
CLEAR = 1e-6
#: Largest mean of a column, in units of its spread, at which these ten digits are left.
NEAR = 1e5
#: Rows in memory that are summed up at once.
ROWS_AT_ONCE = 1 << 14
#: Regressors whose fit is that of their sums: squared errors, and penalties on coefficients.
OF_SUMS = (LinearRegression, Ridge, Lasso, ElasticNet)


def is_collection(*data: Any) -> bool:
    """Whether any of these is Dask's, or an array of another library than numpy."""
    return any(
        type(one) is not np.ndarray and one is not None and (_dask.is_dask(one) or is_foreign(one))
        for one in data
    )


def learns_from_sums(regressor: Any) -> bool:
    """Whether a regressor fitted to rows that stand in for others is the same as on the others."""
    # Two solvers take rows one by one, and large weights make them diverge.
    stochastic = getattr(regressor, "solver", None) in ("sag", "saga")
    return type(regressor) in OF_SUMS and not stochastic


class Rows(NamedTuple):
    """What a fit, or a piece of one, is given."""

    X: Any
    y: Any
    sample_weight: Any = None
    confounds: Any = None
    tasks: Any = None
    target_weight: Any = None


#: Rows that stand in for others, with their targets, and their tasks where these differ.
StandIns = tuple[check.Sample, check.Targets, check.TaskIds | None]


@dataclass(frozen=True, eq=False)
class Collection:
    """Tables of a fit in chunks of the same rows, or on a device; perhaps the task of every row."""

    tables: tuple[Any, ...]  # confounds or None, inputs, targets
    weights: Any
    given: Rows  # as they came
    is_lazy: bool  # Dask's, in chunks
    gaps: bool = False  # whether inputs may be missing, too
    ids: Any = None  # of the tasks, where each has rows of its own

    @classmethod
    def of(
        cls,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        confounds: Any = None,
        ids: Any = None,
        *,
        gaps: bool = False,
    ) -> Collection:
        """Put tables in the same chunks; with ``gaps`` inputs may be missing as targets may."""
        check.require_given(Y, "y")
        given = Rows(X, Y, sample_weight, confounds, ids)
        named = {"confounds": confounds, "X": X, "y": Y}
        tables = {name: read_table(data, name) for name, data in named.items()}
        _require_columns(tables)
        for name, data in named.items():
            for label, count in Counter(_names(data)).items():
                if count > 1:
                    raise InputError(
                        f"Expected unique column names, and {label!r} is that of {count} columns "
                        f"of {name}: rename or drop all but one."
                    )
        if ids is not None:
            check.require_one_target(_width(tables["y"]))
            tables["tasks"] = read_ids(ids)
        if not any(map(_dask.is_dask, given)):
            n_rows = tables["X"].shape[0]
            for name, table in tables.items():
                if table is not None:
                    check.require_same_rows(table.shape[0], n_rows, name)
            weights = check.read_weights(to_numpy(sample_weight), n_rows)
            return cls(tuple(tables.values())[:3], weights, given, is_lazy=False, gaps=gaps)
        weights = to_numpy(sample_weight)
        if _dask.is_dask(weights):
            weights = _dask.as_array(weights, "sample_weight")
        elif weights is not None:
            weights = np.asarray(check.read_weights(weights, None))
        if weights is not None and weights.ndim > 1:
            raise InputError(
                f"sample_weight has shape {tuple(weights.shape)}: pass one weight for each row of "
                "X, in one dimension."
            )
        each = None if weights is None or weights.ndim == 0 else weights  # one is that of all
        placed, weights = _dask.aligned(tuple(tables.values()), each, tuple(tables))
        whose = None if ids is None else placed[3]
        return cls(tuple(placed[:3]), weights, given, is_lazy=True, gaps=gaps, ids=whose)

    def look(
        self,
        wanted: Sequence[Wanted] = (),
        groups: Any = None,
        beside: Callable[[int, Any], Any] | None = None,
    ) -> tuple[Sums, Classes]:
        """Sum up all rows by their classes, in one pass; the sums say what troubles them.

        ``beside(first row, targets)`` computes something more from every chunk in that pass; its
        results are added in the order of the rows.
        """
        if self.ids is None:
            require_room_for_sums(sum(self.widths), _n_classes(wanted))
        classes = self.classes(wanted, groups)
        return self.sum_by(classes, beside=beside), classes

    def sum_by(
        self,
        classes: Classes,
        arrived: Mapping[Any, int] | None = None,
        beside: Callable[[int, Any], Any] | None = None,
    ) -> Sums:
        """Sum up all rows by classes that are known, and by their tasks where they have some.

        ``arrived`` are the rows of each task that came before, where they are dealt to folds: then
        the tasks of the sums are in the order in which they came.
        """
        ask: Any = functools.partial(_sum_chunk, beside)
        came: Any = arrived if classes.n_dealt else None
        if self.is_lazy:
            told = _dask.classes_of_chunks(self.tables[1], classes)
            if classes.n_dealt:
                known = self.ids, self.weights
                came = _dask.in_turn(arrivals_of, known, told, arrived or {}, joined)
            tables = (self.ids, came, *self.tables, self.weights)
            sums: Sums = _dask.add_chunks(ask, tables, told)
        else:
            tables = (*self.tables, self.weights)
            n_rows = self.n_rows
            # Rows of tasks are dealt in their order, and devices get rows as they have room.
            whole = self.ids is not None or any(map(is_foreign, tables))
            height = max(n_rows, 1) if whole else ROWS_AT_ONCE
            with one_thread(*(table.shape for table in self.tables if table is not None)):
                parts = []
                for start in range(0, max(n_rows, 1), height):
                    part = start, classes.of_rows(start, min(height, n_rows - start))
                    here = slice(start, start + height)
                    rows = [one if whole or one is None else one[here] for one in tables]
                    parts.append(ask(part, self.ids, came, *rows))
                sums = functools.reduce(add, parts)
        if classes.n_rows is not None and sums.n_rows != classes.n_rows:
            raise RuntimeError(
                f"X has {classes.n_rows} rows and {sums.n_rows} were read: a chunk did not hold "
                "what the collection says, or changed meanwhile. Nothing was fitted; mend the "
                "chunks' sizes."
            )
        # Without classes of which no row counts.
        counted = {key: part for key, part in sums.classes.items() if part.n_samples}
        if self.ids is not None:
            n_summed = sum(part.rows is None for part in counted.values())
            require_room_for_sums(sum(self.widths), n_summed)
        return replace(sums, classes=counted)

    def read(
        self,
        estimator: Any,
        wanted: Sequence[Wanted],
        groups: Any,
        needs_rows: str | None,
        together: Sequence[IntArray] | None = None,
    ) -> StandIns | Rows:
        """Rows that stand in for all; all of them where options or the data need them.

        Data do where values are missing, where sums would be larger than the rows (short tables of
        many columns), and where sums have lost digits that few enough rows still have.
        ``together`` are the inputs of each fit, where these are not all. The estimator is told the
        names of its features.
        """
        n_columns = sum(self.widths)
        if (
            needs_rows is None
            and self.ids is None
            and not self.has_room_for_sums(wanted)
            and self.n_rows <= n_columns
            and self.has_room_for(n_columns)
        ):
            needs_rows = "a table of more columns than rows"
        if needs_rows is None:
            sums, classes = self.look(wanted, groups)
            self.refuse(sums)
            require_some_rows(sums.n_samples)
            if self._has_gaps(sums):
                needs_rows = f"a {'table' if self.gaps else 'target'} with missing values"
            elif self._is_better_by_rows(sums, together):
                needs_rows = "a table of columns that nearly depend on each other"
            else:
                check.tell_input_names(estimator, self.widths[1], self.input_names)
                return self.stand_in(sums, classes, together)
        instead = "Use fewer rows"
        if self.ids is not None:
            instead = "Use LinearRegression, Ridge, Lasso or ElasticNet and no folds for features"
        return self.gathered(needs_rows, instead)

    def _is_better_by_rows(self, sums: Sums, together: Sequence[IntArray] | None) -> bool:
        """Whether rows can decide what sums have lost the digits of."""
        if self.ids is not None or not sums.are_moments:
            return False
        is_small = 8 * self.n_rows * sum(self.widths) <= DOUBTS_LIMIT
        return is_small and Digits.of(sums.total, self.widths, together).are_doubtful

    def stand_in(
        self, sums: Sums, classes: Classes, together: Sequence[IntArray] | None = None
    ) -> StandIns:
        """Rows that stand in for those summed up."""
        known = self.widths, self.targets_like
        weighed = self.weights is not None
        return stand_in(sums.classes, classes, *known, weighed=weighed, together=together)

    @property
    def widths(self) -> tuple[int, int, int]:
        """Columns of the confounds, of the inputs and of the targets."""
        return tuple(_width(table) for table in self.tables)  # type: ignore[return-value]

    @property
    def input_names(self) -> Any:
        """Labels of the columns of the inputs; None for arrays."""
        return _names(self.given.X)

    @property
    def targets_like(self) -> check.Targets:
        """Names and container of the targets; no values."""
        y = self.given.y
        names = _names(y)
        values = np.empty((0, self.widths[2]))
        library = "pandas" if _dask.is_frame(y) or hasattr(y, "iloc") else None
        is_vector = getattr(self.tables[2], "ndim", 2) == 1
        return check.name_targets(values, names, library, is_vector=is_vector)

    def gathered(self, why: str, instead: str) -> Rows:
        """All rows in memory, for what sums cannot answer; refused where they are too many."""
        n_columns = sum(self.widths) + (self.weights is not None)
        self._require_room(n_columns, why, instead)
        if not self.is_lazy:
            return Rows(*map(to_numpy, self.given))
        return Rows(*_dask.compute(*self.given))

    def rows_of(
        self, function: Callable[..., FloatArray], width: int, why: str, instead: str
    ) -> FloatArray:
        """Rows ``(n, width)`` that a function makes of confounds, inputs and targets, in memory."""
        self._require_room(width, why, instead)
        if not self.is_lazy:
            return function(*(None if t is None else np.asarray(to_numpy(t)) for t in self.tables))
        ask = functools.partial(_dask.refusing, function)
        return np.asarray(_dask.compute(_dask.of_chunks(ask, self.tables, np.empty((0, width)))))

    def some_rows(self, n_entries: int) -> Rows:
        """Rows from first to last whose targets are so many numbers at most, in one pass."""
        step = -(-self.n_rows * self.widths[2] // n_entries)
        tables = [
            None if t is None else (_dask.count_rows(t) if self.is_lazy else t)[::step]
            for t in (*self.tables, self.weights)
        ]
        read = _dask.compute(*tables) if self.is_lazy else map(to_numpy, tables)
        confounds, X, Y, weights = (None if one is None else np.asarray(one) for one in read)
        return Rows(X, Y, weights, confounds)

    def has_room_for(self, n_columns: int) -> bool:
        """Whether this many columns of all rows are gathered automatically."""
        return 8 * self.n_rows * n_columns <= ROWS_LIMIT

    def has_room_for_sums(self, wanted: Sequence[Wanted]) -> bool:
        """Whether the sums in these folds stay small."""
        return size_of_sums(sum(self.widths), _n_classes(wanted)) <= SUMS_LIMIT

    def weights_in_memory(self) -> FloatArray | None:
        """Weights of all rows."""
        if self.weights is None:
            return None
        if not self.is_lazy:
            return np.asarray(self.weights)
        return check.read_weights(_dask.compute(self.weights), None)

    def used(self) -> BoolArray | None:
        """Which rows count; None where all do."""
        weights = self.weights_in_memory()
        return None if weights is None or (weights > 0.0).all() else weights > 0.0

    @property
    def n_rows(self) -> int:
        """Rows given; counted, if they are not yet."""
        first = self.tables[1]
        if self.is_lazy:
            first = _dask.count_rows(first)
        return int(first.shape[0])

    def classes(self, wanted: Sequence[Wanted] = (), groups: Any = None) -> Classes:
        """Classes of the rows, which are counted where there are folds.

        A number of folds deals the rows of each task in their order, whatever their chunks.
        """
        n_dealt = 0
        if self.ids is not None and wanted and is_number(wanted[0].cv) and groups is None:
            n_dealt = check.read_fold_count(wanted[0].cv, int(wanted[0].cv))
            wanted = ()
        if not self.is_lazy or self.weights is not None or wanted:
            n_rows: int | None = self.n_rows
        else:
            n_rows = int(self.tables[1].shape[0]) if _dask.is_counted(self.tables[1]) else None
        if n_rows is None or not wanted:
            return Classes.one(n_rows, n_dealt)
        require_some_rows(n_rows)
        return Classes.of(wanted, n_rows, self.used(), _labels(groups))

    def refuse(self, sums: Sums) -> None:
        """Refuse numbers that cannot be squared."""
        shared = self.ids is None
        names = (None, self.input_names, self.targets_like.names if shared else None)
        whats = ("confounds", "X", "y")
        for trouble, what, labels in zip(sums.trouble, whats, names, strict=True):
            may_lack = (what == "y" and shared) or (what == "X" and self.gaps)
            if trouble is not None and not (may_lack and np.isnan(trouble.value)):
                check.refuse_number(*trouble, what, labels, gaps=what == "y" and shared)
        if self._has_gaps(sums) or not sums.n_samples:
            return
        size = np.split(sums.magnitude, np.cumsum(self.widths)[:-1])
        for part, what, labels in zip(size, whats, names, strict=True):
            bad = np.flatnonzero(~check.are_moderate(part))
            if bad.size:
                raise InputError(
                    f"Input {what} has numbers of about {part[bad[0]]:.0e} in column "
                    f"{check.column_name(int(bad[0]), labels)}: their squares cannot be computed "
                    "with; use other units."
                )

    def _has_gaps(self, sums: Sums) -> bool:
        return sums.has_gaps or (self.gaps and sums.trouble[1] is not None)

    def _require_room(self, n_columns: int, why: str, instead: str) -> None:
        needed = 8 * self.n_rows * n_columns
        if needed > ROWS_LIMIT:
            raise InputError(
                why,
                f" needs the rows themselves and not only their sums: {self.n_rows} rows of "
                f"{n_columns} columns take {needed / 2**30:.1f} GiB, more than the "
                f"{ROWS_LIMIT / 2**30:.0f} GiB that are gathered automatically. {instead}, "
                "or pass the rows where they fit in memory: ",
                GATHERED,
                ".",
            )


def require_some_rows(n_rows: int) -> None:
    """Refuse data without rows to learn from."""
    if n_rows < 2:
        raise InputError(
            f"X has {n_rows} rows that count, and two or more are needed: pass more rows, or "
            "positive weights."
        )


def size_of_sums(n_columns: int, n_classes: int) -> int:
    """Bytes that sums of products take while they are added up."""
    return 2 * 8 * n_columns**2 * n_classes


def require_room_for_sums(n_columns: int, n_classes: int) -> None:
    """Refuse tables so wide that sums of products of their columns would not fit in memory."""
    needed = size_of_sums(n_columns, n_classes)
    if needed > SUMS_LIMIT:
        raise InputError(
            f"X and y have {n_columns} columns, and their sums of products in {n_classes} parts "
            f"take {needed / 2**30:.1f} GiB, more than the {SUMS_LIMIT / 2**30:.0f} GiB "
            "allowed: give a number for ",
            Option("max_loss"),
            " and LinearRegression() as regressor (no folds), fewer columns, or the rows "
            "themselves (",
            GATHERED,
            ") where these fit in memory.",
        )


def _require_columns(tables: Mapping[str, Any]) -> None:
    """Refuse inputs that are not a table, and tables without columns."""
    if tables["X"] is None:
        raise InputError("X is None: pass an array or data frame of numbers.")
    for name in ("X", "y"):
        if name == "X" or tables[name].ndim == 2:
            check.require_table(tables[name], name, 0)
    confounds = tables["confounds"]
    if confounds is not None and confounds.ndim == 2 and not confounds.shape[1]:
        raise InputError("confounds has no columns: leave it out.")


def stand_in(
    sums: Mapping[Any, Summary],
    classes: Classes,
    widths: tuple[int, int, int],
    targets: check.Targets,
    *,
    weighed: bool,
    together: Sequence[IntArray] | None = None,
) -> StandIns:
    """Rows that stand in for those summed up by class, or by task and class; warns if digits lack.

    That is asked of all inputs, or of those that are in fits ``together``.
    """
    own = any(isinstance(key, tuple) for key in sums)
    parts = {key if own else (None, key): part for key, part in sums.items()}
    known = check.order_ids({task for task, _ in parts}) if own else [None]
    position = {task: number for number, task in enumerate(known)}
    keys = sorted(parts, key=lambda key: (position[key[0]], key[1]))
    if own:
        _warn_of_lost_slopes(parts)
    elif any(part.rows is None for part in parts.values()):
        total = add_up(part.moments for part in parts.values())
        Digits.of(total, widths, together).warn_if_doubtful()
    sample, values, of_row = _stand_ins_of([parts[key] for key in keys], widths, weighed=weighed)
    task = np.array([position[key[0]] for key in keys], dtype=np.intp)[of_row]
    number = np.array([key[1] for key in keys], dtype=np.intp)[of_row]
    folds = classes.folds(number)
    if classes.n_dealt:
        check.read_fold_count(classes.n_dealt, int(np.bincount(task, sample.counts).max()))
        folds = {"limit": splits_of(number)}
    tasks = check.TaskIds(known, task) if own else None
    return replace(sample, folds=folds), targets._replace(values=values), tasks


def _warn_of_lost_slopes(parts: Mapping[Any, Summary]) -> None:
    """Warn when sums have lost digits of what inputs do within tasks."""
    tasks: dict[Any, Moments] = {}
    for (task, _), part in parts.items():
        tasks = joined(tasks, {task: part.moments})
    whole = add_up(list(tasks.values()))
    n_inputs = whole.mean.size - 1
    within = sum(task.cross for task in tasks.values())
    if whole.n_samples > n_inputs + 1 + len(tasks):
        moments = Moments(whole.n_samples, whole.weight, whole.mean, np.asarray(within))
        Digits(moments.weakest(np.arange(n_inputs)), 1.0, 0.0).warn_if_doubtful()


def _stand_ins_of(
    parts: Sequence[Summary], widths: tuple[int, int, int], *, weighed: bool
) -> tuple[check.Sample, FloatArray, IntArray]:
    """Rows that stand in for those of each part: inputs, targets, and which part each is of."""
    each = [part.stand_ins() for part in parts]
    rows, counts, weights = stacked(each)
    n_confounds, n_inputs, _ = widths
    confounds, inputs, values = np.split(rows, [n_confounds, n_confounds + n_inputs], axis=1)
    plain = bool((counts == 1.0).all())
    sample = check.Sample(
        np.ascontiguousarray(inputs),
        None if plain and not weighed else check.normalised(weights, None if plain else counts),
        None,
        np.ascontiguousarray(confounds) if n_confounds else None,
        None if plain else counts,
    )
    of_row = np.repeat(np.arange(len(each)), [len(part.rows) for part in each])
    return sample, np.ascontiguousarray(values), of_row


def are_many(sample: check.Sample, targets: check.Targets, n_parts: int = 1) -> bool:
    """Whether rows in memory outnumber those that would stand in for so many parts of them."""
    n_rows, n_inputs = sample.inputs.shape
    n_confounds = 0 if sample.confounds is None else sample.confounds.shape[1]
    return bool(n_rows >= MANY * n_parts * (n_confounds + n_inputs + targets.values.shape[1] + 1))


def few_rows(
    sample: check.Sample,
    targets: check.Targets,
    sample_weight: Any,
    wanted: Sequence[Wanted],
    regressor: Any = None,
) -> tuple[check.Sample, check.Targets]:
    """Rows of a fit in memory; where they are many, few that stand in for them and decide alike.

    All of them for a regressor that does not learn from sums.
    """
    n_rows, n_inputs = sample.inputs.shape
    n_confounds = 0 if sample.confounds is None else sample.confounds.shape[1]
    widths = (n_confounds, n_inputs, targets.values.shape[1])
    # The fewest parts of the rows: enough to recognise few rows.
    n_folds = max((want.cv for want in wanted if isinstance(want.cv, int)), default=1)
    learns = regressor is None or learns_from_sums(regressor)
    # The fit refuses impossible folds.
    can_be = are_many(sample, targets, n_folds) and all(want.n_folds(n_rows) for want in wanted)
    if not (learns and can_be):
        return sample, targets
    classes = Classes.of(wanted, n_rows, None, None)
    size = 8 * classes.n_classes * sum(widths) ** 2
    if size > FEW_LIMIT or not are_many(sample, targets, classes.n_classes):
        return sample, targets
    weights = check.read_weights(sample_weight, sample.n_given)
    if weights is not None and sample.used is not None:
        weights = weights[sample.used]
    tables = (sample.confounds, sample.inputs, targets.values)
    sums = Collection(tables, weights, Rows(*tables[1:]), is_lazy=False).sum_by(classes)
    if any(sums.trouble):
        return sample, targets
    with one_thread((sum(widths), sum(widths))):
        digits = Digits.of(sums.total, widths, None)
        if min(digits.inputs, digits.targets) <= CLEAR or digits.offset >= NEAR:
            return sample, targets
        return stand_in(sums.classes, classes, widths, targets, weighed=True)[:2]


def _sum_chunk(
    beside: Callable[[int, Any], Any] | None,
    told: tuple[int | None, Classes],
    ids: Any,
    arrived: Any,
    *tables: Any,
) -> Sums:
    """Sums of a chunk: of confounds, inputs, targets and weights, and perhaps ids of tasks."""
    start, classes = told
    n_rows = int(tables[1].shape[0])
    if ids is None:
        sums = sum_up(tables[:-1], tables[-1], start, classes.parts(n_rows))
    else:
        parts = list(parts_of_tasks(told, ids, n_rows, tables[-1], arrived))
        width = sum(map(_width, tables[:-1]))
        require_room_for_sums(width, sum(rows.size > width + 1 for _, rows in parts))
        sums = sum_up(tables[:-1], tables[-1], start, parts)
    if beside is None:
        return sums
    assert start is not None  # folds are of rows that are counted
    return replace(sums, more=beside(start, tables[2]))


def _n_classes(wanted: Sequence[Wanted]) -> int:
    """Classes of rows to expect."""
    return 1 + sum(want.n_parts for want in wanted)


def _width(table: Any) -> int:
    return 0 if table is None else 1 if table.ndim == 1 else int(table.shape[1])


def _names(data: Any) -> Any:
    """Column labels of frames, and of labelled arrays of two dimensions; None for others."""
    if hasattr(data, "columns"):
        return data.columns
    if hasattr(data, "coords") and getattr(data, "ndim", 0) == 2:
        index = data.indexes.get(data.dims[1])
        return None if index is None else list(index)
    if (_dask.is_frame(data) or hasattr(data, "iloc")) and getattr(data, "name", None) is not None:
        return [data.name]
    return None


def _labels(groups: Any) -> Any:
    """Labels of the rows, in memory."""
    if groups is None:
        return None
    return np.asarray(_dask.compute(groups) if _dask.is_dask(groups) else to_numpy(groups))


def read_table(data: Any, what: str) -> Any:
    """An array of numbers, in chunks or where it lies; None stays None."""
    if data is None:
        return None
    if _dask.is_dask(data):
        return _dask.as_array(data, what)
    table = _dask.read_block(data, what)
    if table.ndim not in (1, 2):
        raise InputError(
            f"expected a table of rows and columns, got an array of shape {tuple(table.shape)} as "
            f"{what}: reshape it to two dimensions."
        )
    return table
