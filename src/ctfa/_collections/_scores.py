"""R2 of predictions, chunk by chunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ctfa._collections import _dask
from ctfa._collections._collection import Collection
from ctfa._collections._devices import to_numpy
from ctfa.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Errors:
    """Squared errors of targets, and their squares about the mean; ``a + b`` has both."""

    count: FloatArray  # rows where it is observed and predicted
    weight: FloatArray
    mean: FloatArray
    spread: FloatArray
    squared: FloatArray

    @classmethod
    def of(cls, true: FloatArray, predicted: FloatArray, weights: FloatArray | None) -> Errors:
        """Judge a chunk of rows."""
        each = np.ones(len(true)) if weights is None else weights
        known = ~(np.isnan(true) | np.isnan(predicted))
        weight = np.where(known, each[:, None], 0.0)
        total = weight.sum(axis=0)
        seen = np.where(total > 0.0, total, 1.0)
        true = np.where(known, true, 0.0)
        mean = (weight * true).sum(axis=0) / seen
        gap = np.where(known, true - predicted, 0.0)
        spread = (weight * (true - mean) ** 2).sum(axis=0)
        squared = (weight * gap**2).sum(axis=0)
        return cls(np.count_nonzero(weight, axis=0).astype(float), total, mean, spread, squared)

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
        )

    @property
    def r2(self) -> FloatArray:
        """R2 of each target, as scikit-learn has it; NaN where fewer than two rows are judged."""
        varies = self.spread > 0.0
        r2 = 1.0 - self.squared / np.where(varies, self.spread, 1.0)
        r2 = np.where(varies, r2, np.where(self.squared == 0.0, 1.0, 0.0))
        return np.where(self.count >= 2.0, r2, np.nan)


def r2_of_collection(
    predict: Any, X: Any, Y: Any, sample_weight: Any = None, baseline: Any = None
) -> FloatArray:
    """R2 of each target, in one pass over the chunks."""
    data = Collection.of(X, Y, sample_weight, baseline)
    framed = data.given.X.columns if hasattr(data.given.X, "columns") else None

    def judge(_: Any, baseline: Any, inputs: Any, targets: Any, weights: Any) -> Errors:
        known = {} if baseline is None else {"baseline": np.asarray(to_numpy(baseline))}
        rows = np.asarray(to_numpy(inputs))
        true = np.asarray(to_numpy(targets), dtype=np.float64).reshape(len(rows), -1)
        predicted = np.asarray(predict(_dask.as_frame(rows, framed), **known)).reshape(true.shape)
        each = None if weights is None else np.asarray(to_numpy(weights), dtype=np.float64)
        return Errors.of(true, predicted, each)

    if not data.is_lazy:
        baseline, inputs, targets = data.tables
        return judge(None, baseline, inputs, targets, data.weights).r2
    told = [None] * data.tables[1].numblocks[0]
    found: Errors = _dask.add_chunks(judge, (*data.tables, data.weights), told)
    return found.r2
