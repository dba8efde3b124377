"""What a weighting of losses is told at each step of training, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ctfa.core.types import FloatArray


@dataclass(frozen=True, eq=False)
class Told:
    """What is known at a step; only what the weighting ``needs`` is computed.

    ``gradients`` are those of each task's loss in the shared parameters, and ``gram`` holds their
    inner products. ``pulls`` are the gradients in the shared representation ``A``, each multiplied
    by the sign of ``A`` and summed over the batch.
    """

    losses: FloatArray  # (K,), of the batch
    past: FloatArray = field(default_factory=lambda: np.empty((0, 0)))  # (epochs, K), mean losses
    gram: FloatArray | None = None  # (K, K)
    gradients: FloatArray | None = None  # (K, p)
    pulls: FloatArray | None = None  # (K, h)
    learning_rate: float = 1e-3  # of the network
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @property
    def n_tasks(self) -> int:
        """K."""
        return self.losses.size


class Step(NamedTuple):
    """What a weighting answers.

    ``shared`` depends on what it ``needs``: "losses" and "gram", the weights, so that the step is
    along ``weights @ gradients``; "gradients", the step itself (p,); "activations", the part of
    each task's gradient that passes each unit of the representation (K, h).
    """

    weights: FloatArray  # (K,), how much each task counts in the step of what is shared
    own: FloatArray  # (K,), how much its loss counts in the step of its own head
    shared: FloatArray


class Weighting:
    """How the losses of several tasks become one step of what they share.

    A value that never changes: what is learnt on the way is a state that ``start`` makes and
    ``weigh`` returns each time. A weighting never sees the network, so all of its mathematics can
    be checked on plain numbers.
    """

    #: The name it has in tables.
    label: ClassVar[str]
    #: "losses", "gram", "gradients" or "activations".
    needs: ClassVar[str] = "losses"

    def start(self, n_tasks: int) -> Any:
        """State before the first step; None where nothing is learnt."""
        return None

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Answer for one step, and the state after it."""
        raise NotImplementedError


def require(value: float, name: str, low: float, high: float = np.inf, *, open_: str = "") -> None:
    """Refuse a parameter out of its range; ``open_`` names the ends that are out of it too."""
    inside = (value > low if "low" in open_ else value >= low) and (
        value < high if "high" in open_ else value <= high
    )
    if not (inside and np.isfinite(value)):
        least = f"above {low:g}" if "low" in open_ else f"{low:g} or more"
        most = f"below {high:g}" if "high" in open_ else f"{high:g} at most"
        limits = least if np.isinf(high) else f"{least} and {most}"
        raise ValueError(f"{name}={value!r} is out of range: pass a number {limits}.")


def on_losses(weights: FloatArray) -> Step:
    """A weighted sum of losses, minimised by heads and shared parameters alike."""
    return Step(weights, weights, weights)


def on_gradients(weights: FloatArray) -> Step:
    """A combination of the shared gradients; each head follows its own loss as it is."""
    return Step(weights, np.ones_like(weights), weights)


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
