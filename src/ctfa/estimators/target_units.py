"""From targets as they came to the means of their groups, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa.core.baseline import Lines
from ctfa.core.gaps import observed_mean
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray


class TargetUnits:
    """The units in which targets are merged: offsets, scales, signs and what a baseline says."""

    partition_: Partition
    target_weight_: FloatArray | None
    signs_: FloatArray
    offsets_: FloatArray
    scales_: FloatArray
    baseline_slopes_: FloatArray | None
    baseline_means_: FloatArray | None

    def _set_units(
        self, offsets: FloatArray, scales: FloatArray, lines: Lines | None = None
    ) -> None:
        self.signs_, self.offsets_, self.scales_ = np.ones(offsets.size), offsets, scales
        self.baseline_slopes_ = None if lines is None else lines.slopes
        self.baseline_means_ = None if lines is None else lines.centre

    def _read_baseline(self, baseline: Any, n_samples: int) -> FloatArray | None:
        """Columns of the baseline of fit for other rows."""
        return check.read_baseline_again(baseline, n_samples, self.baseline_means_)

    def _level(self, columns: FloatArray | None) -> FloatArray:
        """What each target has in its own units where in those of merging it has zero."""
        if columns is None or self.baseline_slopes_ is None or self.baseline_means_ is None:
            return self.offsets_
        return Lines(self.offsets_, self.baseline_slopes_, self.baseline_means_).at(columns)

    def _to_units(self, values: FloatArray, columns: FloatArray | None = None) -> FloatArray:
        """Targets in the units they are merged in."""
        return np.asarray((values - self._level(columns)) / self.scales_)

    def _from_units(self, values: FloatArray, columns: FloatArray | None = None) -> FloatArray:
        """Targets in their own units."""
        return np.asarray(values * self.scales_ + self._level(columns))

    def _mean(self, values: FloatArray, columns: FloatArray | None = None) -> FloatArray:
        """Mean of each group, in the units of ``scale``; of its observed members in a row."""
        return self._mean_of_units(self._to_units(values, columns))

    def _mean_of_units(self, units: FloatArray) -> FloatArray:
        units = units * self.signs_
        mean = observed_mean if np.isnan(units).any() else Partition.mean
        return np.asarray(mean(self.partition_, units, self.target_weight_))

    def _spread(self, means: FloatArray, columns: FloatArray | None = None) -> FloatArray:
        """Each target from its group's mean, in its own units."""
        return self._from_units(np.asarray(self.partition_.spread(means)) * self.signs_, columns)
