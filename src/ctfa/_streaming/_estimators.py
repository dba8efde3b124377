"""Estimators that take their rows piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import count
from types import MethodType
from typing import Any, NamedTuple, Self

from ctfa import _validation as check
from ctfa._collections import (
    SUMS_LIMIT,
    Collection,
    Rows,
    Sums,
    Wanted,
    is_collection,
    positive,
)
from ctfa._streaming._sums import RunningSums, name_of
from ctfa._threads import one_thread
from ctfa.core.types import IntArray

NOTHING_CHANGED = "nothing of this call was kept, and the model is as it was."


class Piece(NamedTuple):
    """Arguments of one call of ``partial_fit``."""

    X: Any
    y: Any
    sample_weight: Any = None
    baseline: Any = None
    target_weight: Any = None


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

    _sums: Any  # RunningSums, or TaskSums; None after fit, which keeps nothing
    _input_gaps = False  # whether a fit takes inputs with gaps, so that these are told why not
    n_features_in_: int

    def _asks_of_stream(self, n_targets: int) -> list[Wanted]:
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
            check.refuse_to_go_on(type(self).__name__)

    def _stream(self, pieces: Iterable[tuple[str, Any]], *, adding: bool) -> Self:
        """Add or subtract pieces, then solve; whatever fails leaves everything as it was."""
        if not adding:
            check.require_rows_to_forget(type(self).__name__, getattr(self, "_sums", None))
        trial = object.__new__(type(self))
        vars(trial).update(vars(self))
        take = trial._add if adding else trial._subtract
        n_pieces = 0
        for name, piece in pieces:
            n_pieces += 1
            try:
                take(piece)
            except (TypeError, ValueError) as error:
                if not name:
                    raise
                done = "added" if adding else "forgotten"
                text = str(error).rstrip(".")
                raise ValueError(f"{name}: {text}. Nothing of this call was {done}.") from error
            except Exception as error:  # of those who read it: a disk, a worker
                error.add_note(f"This was {name or 'the piece'}; {NOTHING_CHANGED}")
                raise
        check.require_any_piece(n_pieces)
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
        with _few_threads(self._sums):
            rows = self._sums.stand_in(together)
        self._fit_stand_ins(*rows)

    def _add(self, piece: Any) -> None:
        known = getattr(self, "_sums", None)
        data, targets = self._read_piece(piece, reset=known is None)
        wanted = self._asks_of_stream(data.widths[2])
        if known is None:
            targets = check.read_target_weight(piece.target_weight, targets)
            known = RunningSums.begin(data.widths, targets, wanted)
            n_classes = 1 + sum(number - 1 for number in known.folds.values())
            check.require_room_for_sums(sum(data.widths), n_classes, SUMS_LIMIT)
        self._require_same(known, data, targets, wanted, piece)
        dealt = known.deal(data, _used(data))
        sums = data.sum_by(dealt.classes, digested=bool(known.folds))
        _require_complete(sums, data, targets)
        self._sums = known.plus(sums, dealt)

    def _subtract(self, piece: Any) -> None:
        known = self._sums
        data, targets = self._read_piece(piece, reset=False)
        self._require_same(known, data, targets, self._asks_of_stream(data.widths[2]), piece)
        used = _used(data)
        dealt = known.deal(data, used)
        sums = data.sum_by(dealt.classes, digested=bool(known.folds))
        _require_complete(sums, data, targets)
        if known.folds:
            added = known.pieces.get(name_of(sums), ())
            check.require_known_piece(bool(added))
            if dealt.starts not in added:
                dealt = known.deal(data, used, added[-1])
                sums = data.sum_by(dealt.classes, digested=True)
        self._sums = known.minus(sums, dealt)

    def _read_piece(self, piece: Piece, *, reset: bool) -> tuple[Collection, check.Targets]:
        """Tables of a piece with the same features as all others, and what its targets are."""
        X, y, sample_weight, baseline, _ = piece
        check.require_given(y, "y")
        if is_collection(X, y, sample_weight, baseline):
            data = Collection.of(X, y, sample_weight, baseline, gaps=self._input_gaps)
            check.read_columns(self, data.widths[1], data.input_names, reset=reset)
            return data, data.targets_like
        inputs = check.read_inputs(self, X, reset=reset, gaps=self._input_gaps, n_least=1)
        n_rows = inputs.shape[0]
        targets = check.read_targets(y, n_rows, gaps=True)
        weights = check.read_weights(sample_weight, n_rows)
        tables = (check.read_baseline(baseline, n_rows), inputs, targets.values)
        given = Rows(X, y, sample_weight, baseline)
        return Collection(tables, weights, given, is_lazy=False, gaps=self._input_gaps), targets

    @staticmethod
    def _require_same(
        known: RunningSums,
        data: Collection,
        targets: check.Targets,
        wanted: Sequence[Wanted],
        piece: Piece,
    ) -> None:
        check.require_same_piece(targets, data.widths[0], known.targets, known.widths[0])
        check.require_same_target_weight(piece.target_weight, known.targets)
        check.require_same_folds(known.folds, {want.purpose: want.cv for want in wanted})


def pieces_of(piece: Piece, names: Sequence[str]) -> Iterator[tuple[str, Piece]]:
    """One piece, or those of an iterable with what to call each; ``names`` are the arguments."""
    if piece.y is not None:
        yield "", piece
        return
    others = {"sample_weight": piece.sample_weight, "baseline": piece.baseline}
    check.require_pieces(piece.X, **others)
    for number, one in numbered(piece.X):
        try:
            known = check.read_piece_names(one, names)
        except ValueError as error:
            raise ValueError(f"piece {number}: {error}") from error
        yield f"piece {number}", Piece(**{"target_weight": piece.target_weight, **known})


def numbered(pieces: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Pieces with their numbers; an error of whoever makes them is told which one it was."""
    following = iter(pieces)
    for number in count():
        try:
            one = next(following)
        except StopIteration:
            return
        except Exception as error:
            error.add_note(f"Piece {number} could not be had; {NOTHING_CHANGED}")
            raise
        yield number, one


def _few_threads(sums: RunningSums) -> AbstractContextManager[None]:
    """One thread to factor the products of all columns, unless they are very many."""
    n_columns = sum(sums.widths)
    return one_thread((n_columns, n_columns))


def _used(data: Collection) -> Any:
    """Rows that count, where somebody must know; None for all."""
    return None if data.weights is None else positive(data.weights_in_memory())


def _require_complete(sums: Sums, data: Collection, targets: check.Targets) -> None:
    first = sums.trouble[1]
    if first is not None:
        names = data.input_names
        name = str(first.column) if names is None else repr(str(names[first.column]))
        check.refuse_streamed_gaps("X", first.row, f"column {name}")
    first = sums.trouble[-1]
    if first is not None:
        check.refuse_streamed_gaps("y", first.row, f"target {targets.names[first.column]!r}")
    check.require_rows_in_piece(sum(part.n_samples for part in sums.classes.values()))


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
        return self._stream(pieces_of(piece, self._arguments), adding=True)

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
        return self._stream(pieces_of(piece, self._arguments), adding=False)
