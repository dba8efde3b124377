"""A training set, what is asked of a method, and the units in which its error counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows, test inputs, and what a method should have predicted there.

    ``wanted`` is the noise-free signal where it is known (the score is then the excess risk), and
    the observed targets otherwise (the score is then the test error).
    """

    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    wanted: np.ndarray
    variance: np.ndarray  # of each target: the unit of its squared error
    noise: float = 0.0  # share of the variance that cannot be predicted, mean over targets
    labels: np.ndarray | None = None  # the true groups, where there are any

    @property
    def is_grouped(self) -> bool:
        """Whether some targets have one map in truth."""
        return self.labels is not None and np.unique(self.labels).size < self.labels.size

    def standardised(self) -> Problem:
        """Inputs in standard deviations of the training rows; constant columns are dropped."""
        centre, spread = self.X.mean(axis=0), self.X.std(axis=0)
        kept = spread > 1e-10 * np.maximum(np.abs(centre), 1.0)
        X, X_test = ((of[:, kept] - centre[kept]) / spread[kept] for of in (self.X, self.X_test))
        return replace(self, X=X, X_test=X_test)

    def score(self, predicted: np.ndarray) -> np.ndarray:
        """Mean squared error of each target over its variance."""
        error: np.ndarray = np.mean((predicted - self.wanted) ** 2, axis=0) / self.variance
        return error


@dataclass(frozen=True)
class Case:
    """A way to draw problems, one per seed. Even seeds are for tuning, odd for the final table."""

    name: str
    family: str
    kind: str  # "synthetic", "adversarial", "paper" or "real"
    make: Callable[[int], Problem] = field(compare=False)
    n_seeds: int = 12
    n_slow_seeds: int = 4  # of them, those on which slow methods run too


def is_final(seed: int) -> bool:
    """Odd seeds are kept for the final table."""
    return seed % 2 == 1


def stream(seed: int) -> int:
    """Number of the random draws of a seed.

    Final seeds have draws of their own since protocol 2, and others since each protocol after:
    those before were looked at before the rule was changed.
    """
    return seed + 10000 if is_final(seed) else seed
