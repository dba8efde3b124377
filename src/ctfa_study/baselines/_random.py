"""What a prediction that has not looked at the features is worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ctfa import _validation as check
from ctfa.core.types import FloatArray, IntArray
from ctfa_study.baselines._tasks import MultiTaskRegressor, TaskData

Bits = NDArray[np.uint64]


class RandomRegressor(MultiTaskRegressor):
    """Predict a training value of the task drawn at random, or its mean.

    A draw is independent of what it predicts, so that its squared error is twice the variance of
    the task on average; the mean has half of that, and is the trivial baseline to beat.

    Parameters
    ----------
    strategy : {"draw", "mean"}, default="draw"
        A random training value of the task, or the mean of its training values.
    random_state : int, RandomState or None, default=None
        Seed of the draws.

    Attributes
    ----------
    values_ : list of ndarray
        Training values of each task.
    tasks_ : ndarray of shape (n_tasks,)
        Ids of the tasks, where they have rows of their own.

    Notes
    -----
    A draw is decided by the seed, the task and the numbers in the row: a fitted model answers the
    same row in the same way, wherever it stands and however often it is asked. Two equal rows get
    equal draws.

    What Table 1 of the paper calls random prediction is not described there. It is no such draw:
    its error on the School data is 0.64 of the range of scores, and that of draws 0.24.

    Examples
    --------
    >>> from ctfa_study.baselines import RandomRegressor
    >>> X, Y = [[0.0], [1.0], [2.0]], [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    >>> RandomRegressor("mean").fit(X, Y).predict([[5.0]])
    array([[ 2., 20.]])
    >>> bool(RandomRegressor(random_state=0).fit(X, Y).predict([[5.0]])[0, 0] in (1.0, 2.0, 3.0))
    True
    """

    def __init__(self, strategy: str = "draw", *, random_state: Any = None) -> None:
        self.strategy = strategy
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Say that the score is none to expect anything of."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _fit_tasks(self, data: TaskData) -> None:
        check.require(self.strategy, ["draw", "mean"], "strategy")
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self.values_ = [rows.target.copy() for rows in data]

    def _predict_tasks(self, inputs: FloatArray) -> FloatArray:
        bits = _row_bits(inputs, self._seed)
        return np.column_stack([self._predict_task(bits, task) for task in range(self.n_tasks_)])

    def _predict_rows(self, inputs: FloatArray, index: IntArray) -> FloatArray:
        bits = _row_bits(inputs, self._seed)
        predicted = np.empty(inputs.shape[0])
        for task in np.unique(index).tolist():
            at = index == task
            predicted[at] = self._predict_task(bits[at], task)
        return predicted

    def _predict_task(self, bits: Bits, task: int) -> FloatArray:
        values = self.values_[task]
        if self.strategy == "mean":
            return np.full(bits.size, values.mean())
        numbers = _mixed(bits ^ _mixed(np.full_like(bits, task)))
        return np.asarray(values[(numbers % np.uint64(values.size)).astype(np.intp)])


def _row_bits(inputs: FloatArray, seed: int) -> Bits:
    """Sixty-four random-looking bits for each row, from its numbers and a seed."""
    # Zero is added so that -0.0 and 0.0, which are equal, are equal in their bits too.
    columns = np.ascontiguousarray(inputs.T + 0.0).view(np.uint64)
    state = _mixed(np.full(inputs.shape[0], seed, dtype=np.uint64))
    for column in columns:
        state = _mixed(state ^ _mixed(column))
    return state


def _mixed(bits: Bits) -> Bits:
    """Every bit of the result depends on every bit given: the finaliser of SplitMix64."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))
