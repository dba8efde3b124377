"""What a criterion is told about a possible merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ctfa.core.types import Number


class Fit(NamedTuple):
    """A least-squares fit, reduced to the numbers a criterion may use.

    ``explained`` and ``residual`` are sums of squares about the mean; where many candidates are
    asked about at once they are arrays, one entry a candidate.
    """

    explained: Number
    residual: Number
    n_samples: int
    n_inputs: Number  # columns the model was given
    rank: Number  # coefficients it could estimate
    dof: Number  # degrees of freedom left for the noise
    size: Number  # members whose mean this is

    @property
    def total(self) -> Number:
        """Total sum of squares."""
        return self.explained + self.residual

    @property
    def noise_variance(self) -> Number:
        """Residual variance, ``RSS / dof``."""
        return self.residual / self.dof

    @property
    def f_statistic(self) -> Number:
        """Regression F: explained variance per coefficient over residual variance.

        Zero where there is nothing to explain (two copies of one series differ by nothing).
        """
        explained = np.maximum(self.explained, 0.0)
        noise = np.maximum(self.residual, 0.0) / self.dof
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = explained / (np.maximum(self.rank, 1) * noise)
        return np.where(explained > 0.0, ratio, 0.0)


class Evidence:
    """Two blocks as they stand, the one that would replace them, and what tells them apart.

    ``before`` holds the fit of each block's mean (targets), or the one model that contains both
    (features, where a merge changes the model itself). ``difference`` is the regression that a
    merge would give up: that of the two means' difference (targets), or the one extra coefficient
    that lets two features differ (features). It may be given as a function, called when a
    criterion wants it: most do not, and a question costs little more than its arithmetic.
    """

    __slots__ = ("_difference", "after", "before")

    def __init__(
        self, before: tuple[Fit, ...], after: Fit, difference: Fit | Callable[[], Fit]
    ) -> None:
        self.before = before
        self.after = after
        self._difference = difference

    @property
    def difference(self) -> Fit:
        """The regression that tells the two blocks apart."""
        if isinstance(self._difference, Fit):
            return self._difference
        return self._difference()
