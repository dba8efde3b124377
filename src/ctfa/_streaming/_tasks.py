"""Estimators of tasks with rows of their own, that take these piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from ctfa import _validation as check
from ctfa._collections import Sums, TaskCollection, Wanted, apart, is_lazy, to_numpy
from ctfa._streaming._estimators import Streaming, numbered
from ctfa._streaming._task_sums import TaskSums

ARGUMENTS = ("X", "y", "tasks", "sample_weight")


class TaskPiece(NamedTuple):
    """Arguments of one call of ``partial_fit``."""

    X: Any
    y: Any
    tasks: Any = None
    sample_weight: Any = None


class StreamingTasks(Streaming):
    """Sums by task of rows that are added and subtracted, and a solution found from all of them.

    An estimator says what it asks of its rows (``_asks_of_stream``) and how it is fitted to rows
    that stand in for them (``_fit_read``).
    """

    _column: Any

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        raise NotImplementedError

    def _fit_read(self, sample: Any, target: Any, known: Any, groups: Any) -> Any:
        raise NotImplementedError

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
        Ridge, Lasso and ElasticNet. Each row given to ``fit`` counts, too, where that kept its
        sums.

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
        return self._stream(_pieces_of(TaskPiece(X, y, tasks, sample_weight)), adding=True)

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
        return self._stream(_pieces_of(TaskPiece(X, y, tasks, sample_weight)), adding=False)

    def _require_known(self) -> None:
        self._sums.require_known()

    def _solve(self) -> None:
        sample, target, known = self._sums.stand_in()
        self._fit_read(sample, target, known, None)

    def _add(self, piece: TaskPiece) -> None:
        known = getattr(self, "_sums", None)
        if known is None and hasattr(self, "partition_"):
            check.refuse_model_without_sums(type(self).__name__)
        data = self._read_rows(piece, reset=known is None)
        folds = self._folds_of_stream()
        if known is None:
            known = TaskSums.begin(sum(data.data.widths), int(folds.get("limit", 0)))
        check.require_same_folds(known.folds, folds)
        self._sums = known.plus(_with_rows(known.sums_of(data)))

    def _subtract(self, piece: TaskPiece) -> None:
        known = getattr(self, "_sums", None)
        check.require_sums(known, type(self).__name__)
        assert known is not None
        data = self._read_rows(piece, reset=False)
        check.require_same_folds(known.folds, self._folds_of_stream())
        self._sums = known.minus(_with_rows(known.sums_of_known(data)))

    def _folds_of_stream(self) -> dict[str, Any]:
        folds = {want.purpose: want.cv for want in self._asks_of_stream()}
        for purpose, cv in folds.items():
            check.require_fold_number(cv, purpose)
        return folds

    def _read_rows(self, piece: TaskPiece, *, reset: bool) -> TaskCollection:
        """Rows of a piece with the same features as all others, and whose they are."""
        X, y, tasks, sample_weight = piece
        if tasks is None:
            tasks = getattr(self, "_column", None)
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
            check.read_columns(self, data.data.widths[1], data.data.input_names, reset=reset)
            return data
        features, y, ids, sample_weight = map(to_numpy, (features, y, ids, sample_weight))
        inputs = check.read_inputs(self, features, reset=reset, n_least=1)
        target = check.read_vector(y, check.Sample(inputs, None, None))
        weights = check.read_weights(sample_weight, inputs.shape[0])
        listed = check.as_ids(check.read_ids(ids, inputs.shape[0]))
        return TaskCollection.of_rows(inputs, target, listed, weights)


def _with_rows(sums: Sums) -> Sums:
    check.require_rows_in_piece(sum(part.n_samples for part in sums.classes.values()))
    return sums


def _pieces_of(piece: TaskPiece) -> Iterator[tuple[str, TaskPiece]]:
    """One piece, or those of an iterable with what to call each."""
    if piece.y is not None:
        yield "", piece
        return
    beside: dict[str, Any] = {"sample_weight": piece.sample_weight}
    if not check.is_column(piece.tasks):
        beside["tasks"] = piece.tasks
    check.require_pieces(piece.X, check.PIECES_OF_TASKS, **beside)
    for number, one in numbered(piece.X):
        try:
            known = check.read_piece_names(one, ARGUMENTS, 4, check.PIECES_OF_TASKS)
        except ValueError as error:
            raise ValueError(f"piece {number}: {error}") from error
        yield f"piece {number}", TaskPiece(**{"tasks": piece.tasks, **known})
