"""Inputs made from series: what was before, what was on average, and the season."""

from __future__ import annotations

import numpy as np

from ctfa.core.types import FloatArray


def lagged(values: FloatArray, lag: int) -> FloatArray:
    """Values of so many samples ago; NaN before the first."""
    shifted = np.full(values.shape, np.nan)
    shifted[lag:] = values[: len(values) - lag]
    return shifted


def running_mean(values: FloatArray, width: int) -> FloatArray:
    """Mean of the last ``width`` samples, the present one included; NaN where there are fewer."""
    total = np.cumsum(np.vstack((np.zeros((1, values.shape[1])), values)), axis=0)
    mean = np.full(values.shape, np.nan)
    mean[width - 1 :] = (total[width:] - total[:-width]) / width
    return mean


def waves(n_samples: int, period: int, name: str) -> dict[str, FloatArray]:
    """Two harmonics of a period, by name: one series each, the same for all targets."""
    angle = 2.0 * np.pi * np.arange(n_samples) / period
    return {
        f"{name}_{kind}_{harmonic}": np.asarray(wave(harmonic * angle))
        for harmonic in (1, 2)
        for kind, wave in (("sin", np.sin), ("cos", np.cos))
    }
