"""Where pooling the rows of two groups of tasks breaks even.

Let ``q = r_P + r_Q - r`` be the number of slopes that both groups
can estimate. For Gaussian inputs everything else, intercepts and slopes that only one of them
sees, can be projected out: the Gram matrices of the shared inputs are Wishart with
``v_P = dof_P + q`` and ``v_Q = dof_Q + q`` degrees of freedom, ``v = v_P + v_Q``. For slopes
that differ by ``d`` (in units of the inputs' covariance), noise of unit variance and groups
that weigh ``w_P`` and ``w_Q``, moments of Wishart and of matrix beta variables give

- the rise of the residual: ``q + |d|^2 v_P v_Q (v-q) / ((v-1)(v+2))``;
- the bias of pooled slopes: ``|d|^2 (w_P B_P + w_Q B_Q)``, ``B_P = v_Q/v - C``,
  ``B_Q = v_P/v - C``, ``C = v_P v_Q (v^2 - 2vq - v + 2) / (v (v-1)(v+2)(v-q-1))``;
- the variance saved: ``q (w_P/(v_P-q-1) + w_Q/(v_Q-q-1) - (w_P+w_Q)/(v-q-1))``.

``F_star`` is the rise over ``q`` where the last two are equal. A group's weight is the sum over
its tasks of ``1 + 1/n`` (a new row is predicted about old means), times
``(n - T - 1)/(v_P - 1)`` for the slopes that are its own and err with the shared ones; tasks
count alike unless weights are given. Checked by simulation in ``tests/test_pooled_space.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.types import BoolArray, FloatArray


class Pool(NamedTuple):
    """Groups of tasks, as their pooled fits need them; arrays over groups."""

    explained: FloatArray
    residual: FloatArray
    rank: FloatArray
    n_samples: FloatArray
    n_tasks: FloatArray
    weight: FloatArray  # sum over its tasks of weight * (1 + 1/n): new rows, about old means

    @property
    def dof(self) -> FloatArray:
        """Rows less slopes less one intercept a task."""
        return np.asarray(self.n_samples - self.rank - self.n_tasks)


class Balance(NamedTuple):
    """What pooling does to the risk of two groups."""

    rise: FloatArray  # of the residual, for a unit of difference
    bias: tuple[FloatArray, FloatArray]  # of each side, for a unit of difference
    saved: tuple[FloatArray, FloatArray]  # variance of each side, for a slope and a unit of noise
    shared: BoolArray  # whether there is a slope that both can estimate

    @classmethod
    def of(cls, first: Pool, second: Pool, lost: FloatArray) -> Balance:
        """Weigh groups that share as many slopes as would be lost."""
        shared = lost > 0.0
        # Any number in place of zero degrees of freedom: they are overruled by ``shared``.
        v_first, v_second = (np.where(shared, side.dof + lost, 4.0) for side in (first, second))
        v = np.where(shared, first.dof + second.dof + 2.0 * lost, 4.0)
        spare = np.maximum(v - lost - 1.0, NEARLY_NO_DOF)
        common = v_first * v_second * (v * v - 2.0 * v * lost - v + 2.0)
        common = common / (v * (v - 1.0) * (v + 2.0) * spare)
        bias, saved = [], []
        for side, own, other in ((first, v_first, v_second), (second, v_second, v_first)):
            weight = side.weight * (side.n_samples - side.n_tasks - 1.0)
            weight = weight / np.maximum(own - 1.0, NEARLY_NO_DOF)
            own_spare = np.maximum(own - lost - 1.0, NEARLY_NO_DOF)
            bias.append(weight * (other / v - common))
            saved.append(weight * (1.0 / own_spare - 1.0 / spare))
        rise = v_first * v_second * (v - lost) / ((v - 1.0) * (v + 2.0))
        return cls(rise, (bias[0], bias[1]), (saved[0], saved[1]), shared)


def break_even(first: Pool, second: Pool, lost: FloatArray) -> tuple[FloatArray, FloatArray]:
    """F at which pooling pays as much as it costs, and the risk per unit of the rise."""
    balance = Balance.of(first, second, lost)
    bias, saved = sum(balance.bias), sum(balance.saved)
    credit = balance.rise * saved / np.where(bias > 0.0, bias, 1.0)
    f_star = np.where(balance.shared, 1.0 + np.maximum(credit, NEARLY_NO_DOF), np.inf)
    return f_star, np.where(balance.shared, bias / balance.rise, 0.0)


#: Stands for no degrees of freedom: a risk a million times the noise, but a number.
NEARLY_NO_DOF = 1e-6
