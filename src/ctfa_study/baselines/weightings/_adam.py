"""A few numbers learnt by gradient steps beside the network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.types import FloatArray

DECAYS = (0.9, 0.999)
TINY = 1e-8


@dataclass(frozen=True, eq=False)
class Learned:
    """Values on their way by Adam (Kingma and Ba 2015), as the network's own parameters."""

    values: FloatArray
    first: FloatArray
    second: FloatArray
    n_steps: int = 0

    @classmethod
    def at(cls, values: FloatArray) -> Learned:
        """Before the first step."""
        return cls(values, np.zeros_like(values), np.zeros_like(values))

    def moved(self, gradient: FloatArray, rate: float) -> Learned:
        """After one more step against the gradient."""
        n = self.n_steps + 1
        first = DECAYS[0] * self.first + (1.0 - DECAYS[0]) * gradient
        second = DECAYS[1] * self.second + (1.0 - DECAYS[1]) * gradient**2
        mean, square = first / (1.0 - DECAYS[0] ** n), second / (1.0 - DECAYS[1] ** n)
        return Learned(self.values - rate * mean / (np.sqrt(square) + TINY), first, second, n)

    def replaced(self, values: FloatArray) -> Learned:
        """The same memory of gradients with other values."""
        return Learned(values, self.first, self.second, self.n_steps)
