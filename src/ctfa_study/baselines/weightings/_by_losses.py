"""Weightings that look at the losses alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from ctfa_study.baselines.weightings._step import Learned, Step, Told, Weighting, on_losses, require

#: Losses below this count as this much: a task that is learnt exactly divides nothing by zero.
LEAST_LOSS = 1e-12


@dataclass(frozen=True)
class EqualWeighting(Weighting):
    """The sum of the losses."""

    label = "EW"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """One for each."""
        return on_losses(np.ones(told.n_tasks)), None


@dataclass(frozen=True)
class RandomWeighting(Weighting):
    """Weights drawn again at each step, ``softmax(z)`` with standard normal ``z``.

    Lin, Ye, Zhang and Tsang (2022), Reasonable effectiveness of random weighting: a litmus test for
    multi-task learning, Transactions on Machine Learning Research.
    """

    label = "RLW"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """Draw."""
        return on_losses(softmax(told.rng.standard_normal(told.n_tasks))), None


@dataclass(frozen=True)
class UncertaintyWeighting(Weighting):
    """Homoscedastic uncertainty: each task has a noise variance, learnt with the network.

    Minimises ``sum_i L_i / (2 v_i) + log(v_i) / 2`` over the network and ``s_i = log v_i``, which
    are 0 at the start; at rest ``v_i = L_i``. Kendall, Gal and Cipolla (2018), Multi-task learning
    using uncertainty to weigh losses for scene geometry and semantics, CVPR.
    """

    label = "UW"

    def start(self, n_tasks: int) -> Learned:
        """Unit variances."""
        return Learned.at(np.zeros(n_tasks))

    def weigh(self, told: Told, state: Learned) -> tuple[Step, Learned]:
        """Weights ``1 / (2 v)``, and the logarithms one step further."""
        weights = 0.5 * np.exp(-state.values)
        slope = 0.5 - weights * told.losses
        return on_losses(weights), state.moved(slope, told.learning_rate)


@dataclass(frozen=True)
class DynamicWeightAverage(Weighting):
    """More weight to losses that fell less in the last epoch: ``K softmax(r / T)``.

    ``r_i`` is the loss of task i in the last epoch over that in the one before. Equal weights in
    the first two epochs. Liu, Johns and Davison (2019), End-to-end multi-task learning with
    attention, CVPR.

    Parameters
    ----------
    temperature : float, default=2.0
        T; the larger, the more equal.
    """

    temperature: float = 2.0
    label = "DWA"

    def __post_init__(self) -> None:
        require(self.temperature, "temperature", 0.0, open_="low")

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """From the mean losses of the last two epochs."""
        if len(told.past) < 2:
            return on_losses(np.ones(told.n_tasks)), None
        ratios = told.past[-1] / np.maximum(told.past[-2], LEAST_LOSS)
        return on_losses(told.n_tasks * softmax(ratios / self.temperature)), None


@dataclass(frozen=True)
class GeometricLoss(Weighting):
    """The geometric mean of the losses, ``(L_1 ... L_K)^(1/K)``.

    Its gradient is that of the weighted sum with ``w_i = mean / (K L_i)``. Chennupati, Sistu,
    Yogamani and Rawashdeh (2019), MultiNet++: multi-stream feature aggregation and geometric loss
    strategy for multi-task learning, CVPR workshops.
    """

    label = "GLS"

    def weigh(self, told: Told, state: Any) -> tuple[Step, Any]:
        """The partial derivatives."""
        losses = np.maximum(told.losses, LEAST_LOSS)
        return on_losses(np.exp(np.mean(np.log(losses))) / (told.n_tasks * losses)), None
