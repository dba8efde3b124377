"""R2 of predictions, chunk by chunk."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections import _dask
from ctfa._collections._collection import Collection
from ctfa._collections._devices import to_numpy
from ctfa._collections._summing import first_of
from ctfa.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Errors:
    """Squared errors of targets, and their squares about the mean; ``a + b`` has both."""

    count: FloatArray  # rows where it is observed and predicted
    weight: FloatArray
    mean: FloatArray
    spread: FloatArray
    squared: FloatArray
    n_rows: int  # rows given
    has_weight: bool  # whether one of them counts

    @classmethod
    def of(cls, true: FloatArray, predicted: FloatArray, weights: Any) -> Errors:
        """Judge a chunk of rows."""
        each = np.ones(len(true))
        if weights is not None:
            each = np.asarray(to_numpy(weights), dtype=np.float64)
            check.require_weights(each)
        known = ~(np.isnan(true) | np.isnan(predicted))
        weight = np.where(known, each[:, None], 0.0)
        total = weight.sum(axis=0)
        seen = np.where(total > 0.0, total, 1.0)
        true = np.where(known, true, 0.0)
        mean = (weight * true).sum(axis=0) / seen
        gap = np.where(known, true - predicted, 0.0)
        spread = (weight * (true - mean) ** 2).sum(axis=0)
        squared = (weight * gap**2).sum(axis=0)
        count = np.count_nonzero(weight, axis=0).astype(float)
        has_weight = bool((each > 0.0).any())
        return cls(count, total, mean, spread, squared, len(true), has_weight)

    def __add__(self, other: Errors) -> Errors:
        weight = self.weight + other.weight
        share = other.weight / np.where(weight > 0.0, weight, 1.0)
        gap = other.mean - self.mean
        return Errors(
            self.count + other.count,
            weight,
            self.mean + gap * share,
            self.spread + other.spread + self.weight * share * gap**2,
            self.squared + other.squared,
            self.n_rows + other.n_rows,
            self.has_weight or other.has_weight,
        )

    @property
    def r2(self) -> FloatArray:
        """R2 of each target, as scikit-learn has it; NaN where fewer than two rows are judged."""
        varies = self.spread > 0.0
        r2 = 1.0 - self.squared / np.where(varies, self.spread, 1.0)
        r2 = np.where(varies, r2, np.where(self.squared == 0.0, 1.0, 0.0))
        return np.where(self.count >= 2.0, r2, np.nan)


def r2_of_collection(
    predict: Any,
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    baseline: Any = None,
    *,
    require_same: Callable[[check.Targets], None],
) -> FloatArray:
    """R2 of each target, in one pass over the chunks; ``require_same`` refuses other targets."""
    data = Collection.of(X, Y, sample_weight, baseline)
    require_same(data.targets_like)
    framed = data.given.X.columns if hasattr(data.given.X, "columns") else None
    judge = functools.partial(_judge, predict, framed, data.targets_like.names)
    if not data.is_lazy:
        baseline, inputs, targets = data.tables
        found = judge(0, baseline, inputs, targets, data.weights)
    else:
        starts = _dask.starts_of(data.tables[1])
        found = _dask.add_chunks(judge, (*data.tables, data.weights), starts)
    require_judged(found)
    return found.r2


def require_judged(found: Errors) -> None:
    """Refuse the score of too few rows, or of rows none of which counts."""
    check.require_rows(np.empty((found.n_rows, 0)), 2)
    check.require_some_weight(has_weight=found.has_weight)


def _judge(
    predict: Any,
    columns: Any,
    names: Any,
    start: int | None,
    baseline: Any,
    inputs: Any,
    targets: Any,
    weights: Any,
) -> Errors:
    rows = np.asarray(to_numpy(inputs))
    true = read_true(targets, start, names, gaps=True)
    known = {} if baseline is None else {"baseline": np.asarray(to_numpy(baseline))}
    predicted = np.empty(true.shape)
    if len(rows):  # a chunk may be empty, and no model is asked about nothing
        predicted[:] = np.asarray(predict(_dask.as_frame(rows, columns), **known)).reshape(
            true.shape
        )
    return Errors.of(true, predicted, weights)


def read_true(targets: Any, start: int | None, names: Any, *, gaps: bool) -> FloatArray:
    """Targets of a chunk ``(rows, targets)``; infinity is refused, and NaN without ``gaps``."""
    true = np.asarray(to_numpy(targets), dtype=np.float64)
    true = true if true.ndim == 2 else true[:, None]
    bad = np.isinf(true) if gaps else ~np.isfinite(true)
    trouble = first_of(bad, true, start)
    if trouble is not None:
        check.refuse_number(*trouble, "y", names, gaps=gaps)
    return true
