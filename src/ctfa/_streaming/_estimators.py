"""Estimators that take their rows piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from types import MethodType
from typing import Any, NamedTuple, Self

from ctfa import _validation as check
from ctfa._collections import (
    SUMS_LIMIT,
    Collection,
    Rows,
    Sums,
    TaskCollection,
    Wanted,
    apart,
    is_collection,
    is_lazy,
    to_numpy,
)
from ctfa._streaming._sums import RunningSums, TaskSums, name_of
from ctfa._threads import one_thread
from ctfa._validation import chunks
from ctfa._validation.numbers import column_name
from ctfa.core.types import IntArray

NOTHING_CHANGED = "nothing of this call was kept, and the model is as it was."


class Piece(NamedTuple):
    """Arguments of one call of ``partial_fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    baseline: Any = None
    target_weight: Any = None
    tasks: Any = None


class going_on:  # a decorator
    """A method that goes on from earlier rows, which a model made by ``fit`` does not have."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, kind: type) -> Any:
        """The method, as of any class, unless the model has no sums to go on from."""
        if model is None:
            return self._method
        model._require_stream()
        return MethodType(self._method, model)


class Streaming:
    """Sums of rows that are added and subtracted, and a solution found from all of them.

    An estimator says what it asks of its rows (``_asks_of_stream``) and how it is fitted to rows
    that stand in for them (``_fit_stand_ins``).
    """

    _arguments: tuple[str, ...]  # of partial_fit, those of a tuple up to the weights
    _sums: Any  # RunningSums, or TaskSums; None after fit, which keeps nothing
    _input_gaps = False  # whether a fit takes inputs with gaps, so that these are told why not
    n_features_in_: int

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        """Folds wanted; refuses options that sums cannot answer."""
        raise NotImplementedError

    def _fit_stand_ins(self, sample: check.Sample, targets: check.Targets) -> None:
        raise NotImplementedError

    def _fitted_together(self, widths: tuple[int, int, int]) -> list[IntArray] | None:
        """Inputs of each fit, where these are not all."""
        return None

    def _require_stream(self) -> None:
        """Refuse to go on from a model that was made by ``fit``."""
        if hasattr(self, "partition_") and getattr(self, "_sums", None) is None:
            chunks.refuse_to_go_on(type(self).__name__)

    def _stream(self, given: Piece, *, adding: bool) -> Self:
        """Add or subtract pieces, then solve; whatever fails leaves everything as it was."""
        if not adding:
            chunks.require_rows_to_forget(type(self).__name__, getattr(self, "_sums", None))
        trial = object.__new__(type(self))
        vars(trial).update(vars(self))
        n_pieces = 0
        for name, piece in _pieces_of(given, self._arguments):
            n_pieces += 1
            try:
                trial._take(piece, adding=adding)
            except (TypeError, ValueError) as error:
                if not name:
                    raise
                done = "added" if adding else "forgotten"
                text = str(error).rstrip(".")
                raise ValueError(f"{name}: {text}. Nothing of this call was {done}.") from error
            except Exception as error:  # of those who read it: a disk, a worker
                error.add_note(f"This was {name or 'the piece'}; {NOTHING_CHANGED}")
                raise
        chunks.refuse_unless(n_pieces, chunks.NO_PIECES)
        try:
            if not adding:
                trial._require_known()
            trial._solve()
        except ValueError as error:
            error.add_note("Nothing of this call was kept; an iterable adds many pieces at once.")
            raise
        self.__dict__ = trial.__dict__  # at once, whatever interrupts
        return self

    def _require_known(self) -> None:
        """Refuse sums that have forgotten too much to be solved."""
        self._sums.require_known(self._fitted_together(self._sums.widths))

    def _solve(self) -> None:
        """Fit to rows that stand in for all that came."""
        together = self._fitted_together(self._sums.widths)
        n_columns = sum(self._sums.widths)
        with one_thread((n_columns, n_columns)):
            rows = self._sums.stand_in(together)
        self._fit_stand_ins(*rows)

    def _take(self, piece: Piece, *, adding: bool) -> None:
        """Add the rows of a piece to the sums, or subtract them."""
        known: RunningSums | None = getattr(self, "_sums", None)
        data, targets = self._read_piece(piece, reset=known is None)
        wanted = self._asks_of_stream(data.widths[2])
        if known is None:
            targets = check.read_target_weight(piece.target_weight, targets)
            known = RunningSums.begin(data.widths, targets, wanted)
            n_classes = 1 + sum(number - 1 for number in known.folds.values())
            chunks.require_room_for_sums(sum(data.widths), n_classes, SUMS_LIMIT)
        chunks.require_same_piece(targets, data.widths[0], known.targets, known.widths[0])
        chunks.require_same_target_weight(piece.target_weight, known.targets)
        chunks.require_same_folds(known.folds, {want.purpose: want.cv for want in wanted})
        used = data.used()
        dealt = known.deal(data, used)
        sums = data.sum_by(dealt.classes, digested=bool(known.folds))
        _require_complete(sums, data, targets)
        if known.folds and not adding:
            added = known.pieces.get(name_of(sums), ())
            chunks.refuse_unless(added, chunks.NOT_ONE_PIECE)
            if dealt.starts not in added:
                dealt = known.deal(data, used, added[-1])
                sums = data.sum_by(dealt.classes, digested=True)
        self._sums = known.plus(sums, dealt) if adding else known.minus(sums, dealt)

    def _read_piece(self, piece: Piece, *, reset: bool) -> tuple[Collection, check.Targets]:
        """Tables of a piece with the same features as all others, and what its targets are."""
        X, y, sample_weight, baseline, *_ = piece
        check.require_given(y, "y")
        if is_collection(X, y, sample_weight, baseline):
            data = Collection.of(X, y, sample_weight, baseline, gaps=self._input_gaps)
            chunks.read_columns(self, data.widths[1], data.input_names, reset=reset)
            return data, data.targets_like
        inputs = check.read_inputs(self, X, reset=reset, gaps=self._input_gaps, n_least=1)
        n_rows = inputs.shape[0]
        targets = check.read_targets(y, n_rows, gaps=True)
        weights = check.read_weights(sample_weight, n_rows)
        tables = (check.read_baseline(baseline, n_rows), inputs, targets.values)
        given = Rows(X, y, sample_weight, baseline)
        return Collection(tables, weights, given, is_lazy=False, gaps=self._input_gaps), targets


def _pieces_of(piece: Piece, names: Sequence[str]) -> Iterator[tuple[str, Piece]]:
    """One piece, or those of an iterable with what to call each; ``names`` are the arguments."""
    if piece.y is not None:
        yield "", piece
        return
    chunks.require_pieces(piece, names)
    common = {"target_weight": piece.target_weight, "tasks": piece.tasks}
    following = iter(piece.X)
    for number in count():
        try:
            one = next(following)
        except StopIteration:
            return
        except Exception as error:  # of whoever makes them
            error.add_note(f"Piece {number} could not be had; {NOTHING_CHANGED}")
            raise
        try:
            known = chunks.read_piece_names(one, names)
        except ValueError as error:
            raise ValueError(f"piece {number}: {error}") from error
        yield f"piece {number}", Piece(**{**common, **known})


def _require_complete(sums: Sums, data: Collection, targets: check.Targets) -> None:
    data.refuse(sums)
    first = sums.trouble[1]
    if first is not None:
        name = column_name(first.column, data.input_names)
        chunks.refuse_streamed_gaps("X", first.row, f"column {name}")
    first = sums.trouble[-1]
    if first is not None:
        chunks.refuse_streamed_gaps("y", first.row, f"target {targets.names[first.column]!r}")
    chunks.refuse_unless(sums.n_samples, chunks.NO_ROWS)


class StreamingTargets(Streaming):
    """Estimators of several targets that take their rows piece by piece."""

    _arguments = ("X", "y", "sample_weight", "baseline", "target_weight")

    @going_on
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        baseline: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Add rows to those seen before, and solve again: as ``fit`` on all of them, stacked.

        What is kept of the rows are sums, so that no row is read twice: a model of many years
        takes in another year in the time that this year takes. A call that is refused changes
        nothing.

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
        baseline : array of shape (n_samples, n_columns), default=None
            As in ``fit``, the same columns in every piece.
        target_weight : array of shape (n_targets,), default=None
            As in ``fit``; that of the first call holds for all.

        Returns
        -------
        self

        Notes
        -----
        Where folds choose ``max_loss="auto"``, or judge features, their number is given and each
        piece is divided into as many contiguous blocks: fold ``i`` is the ``i``-th block of all
        pieces. A piece of less than two rows a fold deals its rows one by one, going on where the
        last such piece ended. Regressors are those that learn from sums: LinearRegression, Ridge,
        Lasso and ElasticNet. A model made by ``fit`` keeps no sums and cannot be gone on with:
        start with ``partial_fit``.

        Examples
        --------
        >>> from ctfa import CTFARegressor
        >>> from ctfa.datasets import make_paper_synthetic
        >>> X, Y = make_paper_synthetic(n_samples=300, n_features=12, n_targets=6, random_state=0)
        >>> model = CTFARegressor().partial_fit((X[i : i + 60], Y[i : i + 60]) for i in (0, 60))
        >>> model.partial_fit(X[120:], Y[120:]).n_groups_
        2
        """
        piece = Piece(X, y, sample_weight, baseline, target_weight)
        return self._stream(piece, adding=True)

    @going_on
    def forget(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        baseline: Any = None,
        target_weight: Any = None,
    ) -> Self:
        """Subtract rows that were added before, and solve again: as if they had never come.

        Parameters are those of ``partial_fit``. Where there are folds, pieces are forgotten as
        they were added; elsewhere any rows can be. Rows that cannot have been among those added
        are refused, and so is what would leave nothing but the rounding of sums.

        Parameters
        ----------
        X, y, sample_weight, baseline, target_weight
            As in ``partial_fit``.

        Returns
        -------
        self

        Examples
        --------
        >>> from ctfa import CTFARegressor
        >>> from ctfa.datasets import make_paper_synthetic
        >>> X, Y = make_paper_synthetic(n_samples=300, n_features=12, n_targets=6, random_state=0)
        >>> years = [(X[i : i + 100], Y[i : i + 100]) for i in (0, 100, 200)]
        >>> model = CTFARegressor().partial_fit(years).forget(*years[0])
        >>> again = CTFARegressor().partial_fit(years[1:])
        >>> bool((model.labels_ == again.labels_).all())
        True
        """
        piece = Piece(X, y, sample_weight, baseline, target_weight)
        return self._stream(piece, adding=False)


class StreamingTasks(Streaming):
    """Sums by task of rows that are added and subtracted, and a solution found from all of them.

    An estimator says what it asks of its rows (``_asks_of_stream``) and how it is fitted to rows
    that stand in for them (``_fit_read``).
    """

    _arguments = ("X", "y", "tasks", "sample_weight")
    _column: Any

    def _fit_read(self, sample: Any, target: Any, known: Any, groups: Any) -> Any:
        raise NotImplementedError

    @going_on
    def partial_fit(
        self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None
    ) -> Self:
        """Add rows to those seen before, and solve again: as ``fit`` on all of them, stacked.

        What is kept of the rows are sums by task, so that no row is read twice. A piece may bring
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
        dealt to them as they come: whatever pieces they come in, the folds are those of ``fit`` on
        all rows in the same order. Regressors are those that learn from sums: LinearRegression,
        Ridge, Lasso and ElasticNet. A model made by ``fit`` keeps no sums and cannot be gone on
        with: start with ``partial_fit``.

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
        return self._stream(Piece(X, y, sample_weight, tasks=tasks), adding=True)

    @going_on
    def forget(self, X: Any, y: Any = None, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Subtract rows that were added before, and solve again: as if they had never come.

        Where there are folds, pieces are forgotten as they were added, and the rows that stay keep
        their folds; elsewhere any rows can be, in any pieces. A task of which all rows are
        forgotten is none any more. Rows that cannot have been among those added are refused, and so
        is what would leave nothing but the rounding of sums.

        Parameters
        ----------
        X, y, tasks, sample_weight
            As in ``partial_fit``.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from ctfa import PooledCTFARegressor
        >>> rng = np.random.default_rng(0)
        >>> school = np.repeat(["a", "b", "c"], [60, 40, 80])
        >>> X, y = rng.normal(size=(180, 2)), rng.normal(size=180)
        >>> model = PooledCTFARegressor().partial_fit(X[:100], y[:100], school[:100])
        >>> model.partial_fit(X[100:], y[100:], school[100:]).tasks_.tolist()
        ['a', 'b', 'c']
        >>> model.forget(X[100:], y[100:], school[100:]).tasks_.tolist()
        ['a', 'b']
        """
        return self._stream(Piece(X, y, sample_weight, tasks=tasks), adding=False)

    def _require_known(self) -> None:
        self._sums.require_known()

    def _solve(self) -> None:
        with one_thread():
            sample, target, known = self._sums.stand_in()
        self._fit_read(sample, target, known, None)

    def _take(self, piece: Piece, *, adding: bool) -> None:
        known: TaskSums | None = getattr(self, "_sums", None)
        data = self._read_rows(piece, reset=known is None)
        folds = {want.purpose: want.cv for want in self._asks_of_stream()}
        if known is None:
            known = TaskSums.begin(sum(data.data.widths), folds)
        chunks.require_same_folds(known.folds, folds)
        sums = known.sums_of(data, adding=adding)
        chunks.refuse_unless(sums.n_samples, chunks.NO_ROWS)
        self._sums = known.plus(sums) if adding else known.minus(sums)

    def _read_rows(self, piece: Piece, *, reset: bool) -> TaskCollection:
        """Rows of a piece with the same features as all others, and whose they are."""
        X, y, sample_weight = piece.X, piece.y, piece.sample_weight
        tasks = getattr(self, "_column", None) if piece.tasks is None else piece.tasks
        if reset or check.is_column(tasks):
            self._column = tasks if check.is_column(tasks) else None
        check.require_given(y, "y")
        features, ids = apart(X, tasks)
        if ids is None:
            check.read_ids(ids, None)
        if not reset:
            check.require_not_one_id(features, tasks, self.n_features_in_)
        if is_lazy(features, y, ids, sample_weight):
            data = TaskCollection.of(features, y, ids, sample_weight)
            chunks.read_columns(self, data.data.widths[1], data.data.input_names, reset=reset)
            return data
        features, y, ids, sample_weight = map(to_numpy, (features, y, ids, sample_weight))
        inputs = check.read_inputs(self, features, reset=reset, n_least=1)
        target = check.read_vector(y, check.Sample(inputs, None, None))
        weights = check.read_weights(sample_weight, inputs.shape[0])
        listed = check.as_ids(check.read_ids(ids, inputs.shape[0]))
        return TaskCollection.of_rows(inputs, target, listed, weights)
