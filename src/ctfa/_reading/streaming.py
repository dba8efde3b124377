"""Rows given piece by piece: only their sums are kept, and solved again with each call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from numbers import Integral
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from ctfa import _reading as check
from ctfa._errors import InputError
from ctfa._reading.sums import (
    TEST,
    TRAIN,
    Classes,
    Collection,
    Rows,
    StandIns,
    Sums,
    Wanted,
    apart,
    is_collection,
    is_lazy,
    joined,
    refuse_folds,
    require_room_for_sums,
    require_some_rows,
    stand_in,
)
from ctfa._threads import one_thread
from ctfa.core.moments import Summary
from ctfa.core.types import IntArray
from ctfa.kernels.devices import to_numpy

NOTHING_CHANGED = "nothing of this call was kept, and the model is as it was."
#: What a piece may be.
PIECES = (
    "(X, y), (X, y, sample_weight), or a dictionary of these and of what else partial_fit takes"
)
PIECES_OF_TASKS = (
    "(X, y, tasks), (X, y, tasks, sample_weight), or a dictionary of these (X with a column of "
    "tasks: (X, y) and tasks= beside the iterable)"
)


@dataclass(frozen=True, eq=False)
class RunningSums:
    """Summaries of all rows so far, of those in the same folds together.

    Every piece of rows is divided like the rows of a fit: fold ``i`` is the ``i``-th block of all
    pieces. A row's class is numbered by its folds for all purposes, the last purpose fastest.
    """

    widths: tuple[int, int, int]  # columns of the confounds, of the inputs, of the targets
    targets: check.Targets  # names, container and weights; no values
    folds: Mapping[str, int]  # how many, for each purpose
    classes: Mapping[int, Summary]
    next_fold: tuple[int, ...]  # where the next row of a short piece is dealt to, by purpose

    @classmethod
    def begin(
        cls, widths: tuple[int, int, int], targets: check.Targets, folds: Mapping[str, int]
    ) -> RunningSums:
        """No rows yet."""
        n_classes = 1 + sum(number - 1 for number in folds.values())
        require_room_for_sums(sum(widths), n_classes)
        targets = targets._replace(values=np.empty((0, widths[2])))
        return cls(widths, targets, folds, {}, (0,) * len(folds))

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    def plus(self, data: Collection) -> RunningSums:
        """With the rows of one more piece."""
        classes, keys, next_fold = self._deal(data)
        sums = _sums_of_piece(data, classes)
        more = {int(keys[at]): part for at, part in sums.classes.items()}
        return replace(self, classes=joined(self.classes, more), next_fold=next_fold)

    def _deal(self, data: Collection) -> tuple[Classes, IntArray, tuple[int, ...]]:
        """Classes of the rows of a piece, what they are called here, and the next folds."""
        if not self.folds:
            return data.classes(), np.zeros(1, dtype=np.intp), ()
        n_given, used = data.n_rows, data.used()
        n_rows = n_given if used is None else int(used.sum())
        keys = np.zeros(n_rows, dtype=np.intp)
        following, are_runs = [], used is None
        for number, at in zip(self.folds.values(), self.next_fold, strict=True):
            fold = (at + np.arange(n_rows)) % number
            if n_rows >= 2 * number:
                sizes = [block.size for block in np.array_split(fold, number)]
                fold = np.repeat(np.arange(number), sizes)
                following.append(at)
            else:
                following.append((at + n_rows) % number)
                are_runs = False
            keys = keys * number + fold
        if are_runs:
            first = np.flatnonzero(np.diff(keys, prepend=-1))
            return Classes(n_rows, first, None, {}), keys[first], tuple(following)
        ids = np.full(n_given, -1, dtype=np.intp)
        ids[slice(None) if used is None else used] = keys
        n_keys = int(np.prod(list(self.folds.values())))
        return Classes(n_given, None, ids, {}), np.arange(n_keys), tuple(following)

    def stand_in(self, together: Sequence[IntArray] | None = None) -> StandIns:
        """Rows that stand in for all rows so far, with their folds.

        ``together`` are the inputs of each fit, where these are not all.
        """
        require_some_rows(self.n_rows)
        classes, known = Classes(None, None, None, self._roles()), (self.widths, self.targets)
        return stand_in(self.classes, classes, *known, weighed=True, together=together)

    def _roles(self) -> dict[str, IntArray]:
        """Role of every class in every fold; folds of less than two rows are joined."""
        n_keys = int(np.prod([1, *self.folds.values()]))
        held = np.zeros(n_keys, dtype=np.intp)
        for key, summary in self.classes.items():
            held[key] = summary.n_samples
        roles, slower = {}, n_keys
        for purpose, number in self.folds.items():
            slower //= number
            fold = np.arange(n_keys) // slower % number
            together = _joined(np.bincount(fold, weights=held, minlength=number))
            n_folds = int(together.max()) + 1
            # Folds that choose a limit may be joined, as long as there are two.
            if n_folds < 2 or (purpose != "limit" and n_folds < number):
                refuse_folds(number, self.n_rows)
            roles[purpose] = np.where(together[fold] == np.arange(n_folds)[:, None], TEST, TRAIN)
        return roles


def _joined(held: Any) -> IntArray:
    """Number of each fold when those of less than two rows go together with the next ones."""
    numbers, number, rows = np.zeros(held.size, dtype=np.intp), 0, 0.0
    for fold, more in enumerate(held):
        if rows >= 2.0 and held[fold:].sum() >= 2.0:
            number, rows = number + 1, 0.0
        numbers[fold] = number
        rows += more
    return numbers


@dataclass(frozen=True, eq=False)
class TaskSums:
    """Summaries of all rows so far, of those of one task and fold together.

    The rows of each task are dealt to folds in their order (``deal_rows``), whatever the pieces.
    """

    n_columns: int  # inputs and target
    n_dealt: int  # folds; 0 for none
    classes: Mapping[tuple[Any, int], Summary]  # by task and fold
    #: Rows of each task that have come where there are folds, in the order of the tasks.
    arrived: Mapping[Any, int] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows that count."""
        return sum(summary.n_samples for summary in self.classes.values())

    @property
    def folds(self) -> dict[str, int]:
        """How many folds, by what they are for."""
        return {"limit": self.n_dealt} if self.n_dealt else {}

    @property
    def widths(self) -> tuple[int, int, int]:
        """Columns of the confounds, of the inputs and of the targets."""
        return 0, self.n_columns - 1, 1

    @property
    def targets(self) -> check.Targets:
        """The target, which has no name; no values."""
        return check.name_targets(np.empty((0, 1)), None, None, is_vector=True)

    def plus(self, data: Collection) -> TaskSums:
        """With the rows of one more piece."""
        sums = _sums_of_piece(data, Classes.one(n_dealt=self.n_dealt), self.arrived)
        classes = joined(self.classes, sums.classes)
        n_summed = sum(summary.rows is None for summary in classes.values())
        require_room_for_sums(self.n_columns, n_summed)
        arrived = dict(self.arrived)
        if self.n_dealt:
            for (task, _), summary in sums.classes.items():
                arrived[task] = arrived.get(task, 0) + summary.n_samples
        return replace(self, classes=classes, arrived=arrived)

    def stand_in(self, together: Sequence[IntArray] | None = None) -> StandIns:
        """Rows that stand in for all rows so far, with their tasks and folds."""
        require_some_rows(self.n_rows)
        classes, known = Classes.one(n_dealt=self.n_dealt), (self.widths, self.targets)
        return stand_in(self.classes, classes, *known, weighed=True)


def _sums_of_piece(
    data: Collection, classes: Classes, arrived: Mapping[Any, int] | None = None
) -> Sums:
    """Sums of the rows of one more piece; refused where some are missing."""
    sums = data.sum_by(classes, arrived)
    data.refuse(sums)
    named = (("X", "column", data.input_names), ("y", "target", data.targets_like.names))
    for (what, kind, names), first in zip(named, sums.trouble[1:], strict=True):
        if first is not None:
            raise InputError(
                f"{what} contains missing values (first at row {first.row}, {kind} "
                f"{check.column_name(first.column, names)}), and sums over the rows of one target "
                "say nothing of another's: fill the gaps, drop those rows, or use fit on all rows."
            )
    if not sums.n_samples:
        raise InputError("it has no rows that count: leave it out.")
    return sums


class going_on:  # a decorator
    """A method that continues from earlier rows, which a model made by ``fit`` does not keep."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, kind: type) -> Any:
        """The method, unless the model has no sums to continue from."""
        if model is None:
            return self._method
        model._require_stream()
        return MethodType(self._method, model)


class Streaming:
    """Sums of rows that are added, and a solution found from all of them.

    An estimator says what it asks of its rows (``_asks_of_stream``) and how it is fitted to rows
    that stand in for them (``_fit_stand_ins``; ``_fit_read`` for tasks with their own rows).
    """

    _arguments: tuple[str, ...]  # of partial_fit, those of a tuple up to the weights
    _sums: Any  # RunningSums, or TaskSums; None after fit, which keeps no sums
    _column: Any = None  # of the inputs, which holds the ids of the tasks
    _input_gaps = False  # whether a fit accepts inputs with gaps, for messages
    n_features_in_: int

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        """Folds wanted; refuses options that sums cannot answer."""
        raise NotImplementedError

    def _fit_stand_ins(self, sample: check.Sample, targets: check.Targets) -> None:
        raise NotImplementedError

    def _fit_read(self, sample: Any, target: Any, known: Any, groups: Any) -> Any:
        raise NotImplementedError

    def _fitted_together(self, widths: tuple[int, int, int]) -> list[IntArray] | None:
        """Inputs of each fit, where these are not all."""
        return None

    def _require_stream(self) -> None:
        """Refuse to continue from a model that was made by ``fit``.

        Like scikit-learn's own error of this kind it is an ``AttributeError`` too: for ``hasattr``,
        as in its checks, a model made by ``fit`` has no ``partial_fit``.
        """
        if hasattr(self, "partition_") and getattr(self, "_sums", None) is None:
            raise NotFittedError(
                f"this {type(self).__name__} was made by fit, which keeps no sums of its rows: "
                "partial_fit would leave them out. Start with partial_fit in a new estimator "
                "(clone(model)), or use fit on all rows."
            )

    def _stream(self, given: Rows) -> Self:
        """Add pieces, then solve; a failure leaves everything as it was."""
        trial = object.__new__(type(self))
        vars(trial).update(vars(self))
        n_pieces = 0
        for name, piece in _pieces_of(given, self._arguments):
            n_pieces += 1
            try:
                trial._take(piece)
            except (TypeError, ValueError) as error:
                if not name:
                    raise
                text = str(error).rstrip(".")
                raise InputError(f"{name}: {text}. Nothing of this call was added.") from error
            except Exception as error:  # of reading it: a disk, a worker
                error.add_note(f"This was {name or 'the piece'}; {NOTHING_CHANGED}")
                raise
        if not n_pieces:
            raise InputError(
                "the iterable of pieces gave none: an iterator can be used once; make it again."
            )
        try:
            trial._solve()
        except ValueError as error:
            error.add_note("Nothing of this call was kept; an iterable adds many pieces at once.")
            raise
        self.__dict__ = trial.__dict__  # at once, whatever interrupts
        return self

    def _solve(self) -> None:
        """Fit to rows that stand in for all rows so far."""
        together = self._fitted_together(self._sums.widths)
        n_columns = sum(self._sums.widths)
        with one_thread((n_columns, n_columns)):
            sample, targets, tasks = self._sums.stand_in(together)
        if tasks is None:
            self._fit_stand_ins(sample, targets)
        else:
            self._fit_read(sample, targets.values[:, 0], tasks, None)

    def _take(self, piece: Rows) -> None:
        """Add the rows of a piece to the sums."""
        known: RunningSums | TaskSums | None = getattr(self, "_sums", None)
        data, targets = self._read_piece(piece, reset=known is None)
        folds = _folds_of(self._asks_of_stream(data.widths[2]), known)
        if data.ids is not None:
            known = known or TaskSums(sum(data.widths), folds.get("limit", 0), {})
        elif known is None:
            targets = check.read_target_weight(piece.target_weight, targets)
            known = RunningSums.begin(data.widths, targets, folds)
        else:
            _require_same_piece(data, targets, piece.target_weight, known)
        self._sums = known.plus(data)

    def _read_piece(self, piece: Rows, *, reset: bool) -> tuple[Collection, check.Targets]:
        """Tables of a piece with the same features as all others, and what its targets are."""
        X, y, sample_weight, confounds, ids, _ = piece
        has_tasks = "tasks" in self._arguments
        if has_tasks:
            tasks = self._column if ids is None else ids
            if reset or check.is_column(tasks):
                self._column = tasks if check.is_column(tasks) else None
            X, ids = apart(X, tasks)
            if ids is None:
                check.read_ids(ids, None)
            if not reset:
                check.require_not_one_id(X, tasks, self.n_features_in_)
            if not is_lazy(X, y, ids, sample_weight):
                X, y, ids, sample_weight = map(to_numpy, (X, y, ids, sample_weight))
        check.require_given(y, "y")
        given = Rows(X, y, sample_weight, confounds, ids)
        if is_collection(*given):
            data = Collection.of(*given[:5], gaps=self._input_gaps)
            _read_columns(self, data, reset=reset)
            return data, data.targets_like
        inputs = check.read_inputs(self, X, reset=reset, gaps=self._input_gaps, n_least=1)
        n_rows = inputs.shape[0]
        if has_tasks:
            ids = check.as_ids(check.read_ids(ids, n_rows))
            values = check.read_vector(y, check.Sample(inputs, None, None))[:, None]
            targets = check.name_targets(values, None, None, is_vector=True)
        else:
            targets = check.read_targets(y, n_rows, gaps=True)
        weights = check.read_weights(sample_weight, n_rows)
        tables = (check.read_confounds(confounds, n_rows), inputs, targets.values)
        kept = Collection(tables, weights, given, is_lazy=False, gaps=self._input_gaps, ids=ids)
        return kept, targets


def _pieces_of(piece: Rows, names: Sequence[str]) -> Iterator[tuple[str, Rows]]:
    """One piece, or those of an iterable with what to call each; ``names`` are the arguments."""
    if piece.y is not None:
        yield "", piece
        return
    like = PIECES_OF_TASKS if "tasks" in names else PIECES
    X = piece.X
    is_table = hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, (str, bytes, Mapping))
    if is_table or not hasattr(X, "__iter__"):
        raise InputError(
            f"this estimator requires y to be passed, but the target y is None (X is a "
            f"{type(X).__name__}): pass one row of targets for each row of X, or, for many pieces, "
            f"an iterable of {like}."
        )
    for name in ("sample_weight", "confounds", "tasks"):
        value = getattr(piece, name)
        if value is not None and not (name == "tasks" and check.is_column(value)):
            raise InputError(f"{name} was given beside an iterable of pieces: put it into each.")
    common = {"target_weight": piece.target_weight, "tasks": piece.tasks}
    following = iter(piece.X)
    for number in count():
        try:
            one = next(following)
        except StopIteration:
            return
        except Exception as error:  # of the code that makes them
            error.add_note(f"Piece {number} could not be read; {NOTHING_CHANGED}")
            raise
        try:
            known = _read_piece_names(one, names, like)
        except ValueError as error:
            raise InputError(f"piece {number}: {error}") from error
        yield f"piece {number}", Rows(**{**common, **known})


def _read_piece_names(piece: Any, names: Sequence[str], like: str) -> dict[str, Any]:
    """Arguments of one piece, by name; tuples have two of them, or go on up to the weights."""
    if isinstance(piece, Mapping):
        unknown = [name for name in piece if name not in names]
        if unknown or any(piece.get(name) is None for name in names[:2]):
            raise InputError(
                f"a dictionary with {', '.join(map(repr, piece)) or 'nothing'} was given: it needs "
                f"{names[0]!r} and {names[1]!r}, and may have {', '.join(map(repr, names[2:]))}."
            )
        return dict(piece)
    if isinstance(piece, tuple) and 2 <= len(piece) <= names.index("sample_weight") + 1:
        return dict(zip(names, piece, strict=False))
    size = f" of {len(piece)}" if isinstance(piece, (tuple, list)) else ""
    raise InputError(f"a {type(piece).__name__}{size} was given: a piece is {like}.")


def _read_columns(estimator: Any, data: Collection, *, reset: bool) -> None:
    """Compare the features of a collection with those seen before, or remember them on reset."""
    rows: Any = np.empty((0, data.widths[1]))
    if data.input_names is not None:
        # A collection with labels holds frames of pandas.
        frame = importlib.import_module("pandas").DataFrame
        rows = frame(rows, columns=list(data.input_names))
    validate_data(estimator, rows, reset=reset, skip_check_array=True)


def _require_same_piece(
    data: Collection, targets: check.Targets, target_weight: Any, known: RunningSums | TaskSums
) -> None:
    """Refuse other targets, weights of these, or other confounds than those of the first rows."""
    seen = known.targets
    check.require_same_targets(targets, seen.names, named=seen.labels is not None)
    if data.widths[0] != known.widths[0]:
        raise InputError(
            f"confounds has {data.widths[0] or 'no'} columns and the first rows had "
            f"{known.widths[0] or 'none'}: pass the same columns in the same order every time."
        )
    if target_weight is None:
        return
    weights = check.read_target_weight(target_weight, seen._replace(weights=None)).weights
    first, again = (1.0 if one is None else one for one in (seen.weights, weights))
    if not np.allclose(first, again):
        raise InputError(
            "target_weight differs from that of the first call, which applies to all: leave it "
            "out, or start again."
        )


def _folds_of(wanted: Sequence[Wanted], known: RunningSums | TaskSums | None) -> dict[str, int]:
    """How many folds, for each purpose: those that the sums were begun with.

    A splitter cannot know rows that are still to come.
    """
    for want in wanted:
        cv, kind = want.cv, "FeatureAggregator"
        if want.purpose == "limit":
            kind = "max_loss='auto' of TargetAggregator"
        if isinstance(cv, bool) or not isinstance(cv, Integral):
            raise InputError(
                f"cv={cv!r} of {kind} cannot divide rows that are still to come: use a number of "
                "folds in partial_fit, or give a number for max_loss (no folds)."
            )
        if int(cv) < 2:
            raise InputError(f"cv={cv!r} of {kind} gives no folds: use two or more.")
        begun = int(cv) if known is None else known.folds.get(want.purpose, "no")
        if begun != int(cv):
            raise InputError(
                f"cv={cv!r} is wanted now, and the sums were begun with {begun} folds: rows that "
                "are gone cannot be divided again. Set the options back, or start again on all "
                "rows."
            )
    return {want.purpose: int(want.cv) for want in wanted}


class StreamingTargets(Streaming):
    """Estimators of several targets that accept rows piece by piece."""

    _arguments = ("X", "y", "sample_weight", "confounds", "target_weight")

    @going_on
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        confounds: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Add rows to those seen before, and solve again: the result of ``fit`` on all of them.

        Only sums of the rows are kept, so that no row is read twice: adding one year to a model of
        many years takes the time of that year. A call that is refused changes nothing.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or an iterable
            Rows, also in a Dask collection or an array of another library. Without ``y`` an
            iterable of pieces, each ``(X, y)``, ``(X, y, sample_weight)`` or a dictionary of
            arguments: all are added, then one solution is found.
        y : array or data frame of shape (n_samples, n_targets) or (n_samples,)
            Without missing values.
        sample_weight : array of shape (n_samples,), default=None
            As in ``fit``, comparable from piece to piece; rows without weights weigh one.
        confounds : array of shape (n_samples, n_columns), default=None
            As in ``fit``, the same columns in every piece.
        target_weight : array of shape (n_targets,), default=None
            As in ``fit``; that of the first call applies to all.

        Returns
        -------
        self

        Notes
        -----
        Where folds choose ``max_loss="auto"``, or judge features, their number is given and each
        piece is divided into as many contiguous blocks: fold ``i`` is the ``i``-th block of all
        pieces. The rows of a piece of less than two rows per fold are dealt one by one, continuing
        where the last such piece ended. Regressors are those that learn from sums:
        LinearRegression, Ridge, Lasso and ElasticNet. A model made by ``fit`` keeps no sums, so
        ``partial_fit`` cannot add to it: start with ``partial_fit``.

        Examples
        --------
        >>> from ctfa import CTFARegressor
        >>> from ctfa.datasets import make_paper_synthetic
        >>> X, Y = make_paper_synthetic(n_samples=300, n_features=12, n_targets=6, random_state=0)
        >>> model = CTFARegressor().partial_fit((X[i : i + 60], Y[i : i + 60]) for i in (0, 60))
        >>> model.partial_fit(X[120:], Y[120:]).n_groups_
        2
        """
        piece = Rows(X, y, sample_weight, confounds, target_weight=target_weight)
        return self._stream(piece)


class StreamingTasks(Streaming):
    """Estimators of tasks with rows of their own that accept them piece by piece."""

    _arguments = ("X", "y", "tasks", "sample_weight")

    @going_on
    def partial_fit(
        self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to those seen before, and solve again: the result of ``fit`` on all of them.

        Only sums of the rows by task are kept, so that no row is read twice. A piece may bring
        rows of tasks that are known, and tasks that are new. A call that is refused changes
        nothing.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or an iterable
            Rows, also in a Dask collection or an array of another library. Without ``y`` an
            iterable of pieces, each ``(X, y, tasks)``, ``(X, y, tasks, sample_weight)`` or a
            dictionary of arguments: all are added, then one solution is found.
        y : array of shape (n_samples,)
        tasks : array of shape (n_samples,), or a column of X
            As in ``fit``. A column may be given beside an iterable, for every piece.
        sample_weight : array of shape (n_samples,), default=None
            As in ``fit``, comparable from piece to piece; rows without weights weigh one.

        Returns
        -------
        self

        Notes
        -----
        Where folds choose ``max_loss="auto"`` their number is given, and the rows of each task are
        dealt to them in their order: whatever the pieces, the folds are those of ``fit`` on all
        rows in the same order. Regressors are those that learn from sums: LinearRegression,
        Ridge, Lasso and ElasticNet. A model made by ``fit`` keeps no sums, so ``partial_fit``
        cannot add to it: start with ``partial_fit``.

        Examples
        --------
        >>> import numpy as np
        >>> from ctfa import PooledCTFARegressor
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(["a", "b", "c"], [60, 40, 80])
        >>> X = rng.normal(size=(180, 2))
        >>> y = X[:, 0] * np.where(school == "c", -1.0, 1.0) + rng.normal(size=180)
        >>> model = PooledCTFARegressor().partial_fit(X[:100], y[:100], school[:100])
        >>> model.partial_fit(X[100:], y[100:], school[100:]).labels_
        array([0, 0, 1])
        """
        return self._stream(Rows(X, y, sample_weight, tasks=tasks))
