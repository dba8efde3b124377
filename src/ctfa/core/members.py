"""What a model serves each single member with: predicted risk, trust, and gain by gain.

Serving target ``i`` with the model of a weighted mean ``a`` of targets costs, up to a constant of
its own, ``-2 own_i . model_a + weight . model_a**2``: linear in the member and quadratic in the
model, whatever the targets are fitted by. The numbers are sums over coordinates, so those of a
group are sums over its members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray, IntArray


class MergeGain(NamedTuple):
    """What one merge is predicted to save."""

    members: IntArray  # those of the block, then those of the other
    gain: Gain  # of each of them
    total: Gain  # of all together
    f_statistic: float  # of the difference of the two means
    f_star: float  # the F that breaks even


@dataclass(frozen=True, eq=False)
class MemberRisk:
    """Predicted risk of each target under any mean of targets.

    By least squares it is the unbiased risk for random inputs with an intercept: with ``M`` the
    unbiased covariance of signals, ``N`` that of noise and ``c = r/(n-r-2)``,
    ``N_ii + (e_i - a)' M (e_i - a) + c a' N a``. For a penalised fit it is the left-out squared
    error.
    """

    own: FloatArray  # (L, q)
    model: FloatArray  # (L, q)
    weight: FloatArray  # (q,)
    n_samples: int
    rank: int | None  # None: left out, row by row

    @classmethod
    def in_sample(cls, design: Design, fitted: FloatArray, left: FloatArray) -> MemberRisk:
        """Unbiased risk of least squares, from coordinates of fitted values and of residuals."""
        fitted, left = fitted.T, left.T
        n, rank = design.n_samples, design.rank
        dof = n - rank - 1
        signal = np.concatenate((fitted / (n - 1), left * (-rank / (dof * (n - 1)))), axis=1)
        # The noise of a model costs c N, on top of what M has of it.
        noise = (rank / (dof - 1) - rank / (n - 1)) / dof
        weight = np.concatenate((np.full(rank, 1.0 / (n - 1)), np.full(left.shape[1], noise)))
        return cls(signal, np.concatenate((fitted, left), axis=1), weight, n, rank)

    @classmethod
    def left_out(cls, centred: FloatArray, residual: FloatArray) -> MemberRisk:
        """Squared error of predicting each row from all the others."""
        n = centred.shape[0]
        return cls(centred.T / n, (centred - residual).T, np.full(n, 1.0 / n), n, None)

    def flipped(self, signs: FloatArray) -> MemberRisk:
        """The same for targets of which some are turned round."""
        turned = signs[:, None]
        return replace(self, own=self.own * turned, model=self.model * turned)

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return int(self.own.shape[0])

    def cost(self, model: FloatArray) -> FloatArray:
        """``a' K a`` of models, one row each."""
        return np.asarray(model**2 @ self.weight)

    def groups(self, partition: Partition) -> FloatArray:
        """Models of the groups' means, one row a group."""
        return partition.mean(self.model.T).T

    def trust(self, partition: Partition) -> FloatArray:
        """Weight on the group's model that minimises each target's predicted risk, in [0, 1].

        Of ``(1 - t) single + t group`` the risk is quadratic in ``t``; a target by itself trusts
        its group, which is the target, entirely.
        """
        step = self.groups(partition)[partition.labels] - self.model
        slope = np.einsum("ij,ij->i", self.own - self.model * self.weight, step)
        curve = step**2 @ self.weight
        # No curvature left: what the features say of the difference is noise, and the group wins.
        flat = curve <= 0.0
        best = np.clip(slope / np.where(flat, 1.0, curve), 0.0, 1.0)
        best = np.where(flat, np.where(slope >= 0.0, 1.0, 0.0), best)
        return np.where(partition.sizes[partition.labels] == 1, 1.0, best)

    def gain_over_single(self, partition: Partition) -> Gain:
        """Risk that each target saves by its group's model instead of its own."""
        new = self.groups(partition)[partition.labels]
        return self._gain(np.arange(self.n_targets), self.model, new)

    def along(self, history: MergeHistory) -> list[MergeGain]:
        """What each member of each merge saves compared with just before it, and all together."""
        sums, sizes = self.model.copy(), np.ones(self.n_targets)
        members = [[i] for i in range(self.n_targets)]
        steps = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            a, b = sizes[block], sizes[other]
            first, second = sums[block] / a, sums[other] / b
            both = np.array(members[block] + members[other])
            before = np.repeat([first, second], [int(a), int(b)], axis=0)
            sums[block] += sums[other]
            sizes[block] += sizes[other]
            members[block] += members[other]
            after = np.broadcast_to(sums[block] / sizes[block], before.shape)
            gain = self._gain(both, before, after)
            error = self._total_error(both, before, after, first - second, a * b / (a + b))
            f = self._f_statistic(first - second)
            steps.append(MergeGain(both, gain, Gain(gain.value.sum(), error), f, self.f_star))
        return steps

    @property
    def f_star(self) -> float:
        """F of a difference at which a merge breaks even; 2 where rows are left out."""
        if self.rank is None:
            return 2.0
        return 1.0 + (self.n_samples - 1) / (self.n_samples - self.rank - 2)

    def _f_statistic(self, difference: FloatArray) -> float:
        """Regression F of a difference of two means; NaN where rows are left out."""
        if self.rank is None:
            return np.nan
        explained = float(difference[: self.rank] @ difference[: self.rank])
        residual = float(difference[self.rank :] @ difference[self.rank :])
        noise = residual / (self.n_samples - self.rank - 1)
        if explained <= 0.0:
            return 0.0
        return explained / (self.rank * noise) if noise > 0.0 else np.inf

    def _total_error(
        self,
        members: IntArray,
        old: FloatArray,
        new: FloatArray,
        difference: FloatArray,
        weight: float,
    ) -> FloatArray:
        """Standard error of what all members of a merge save together.

        Least squares: the gain is ``ab/(a+b) (r s F_star - explained)/(n-1)`` of the difference, a
        scaled noncentral and a scaled central chi-square, independent of each other.
        """
        if self.rank is None:
            target = self.own[members] * self.n_samples
            saved = ((target - old) ** 2 - (target - new) ** 2).sum(axis=0)
            return np.asarray(saved.std(ddof=1) / np.sqrt(self.n_samples))
        rank, dof = self.rank, self.n_samples - self.rank - 1
        noise = float(difference[rank:] @ difference[rank:]) / dof
        explained = float(difference[:rank] @ difference[:rank])
        signal = max(explained - rank * noise, 0.0)
        variance = 2.0 * noise * (rank * noise + 2.0 * signal)
        variance += 2.0 * (rank * noise * self.f_star) ** 2 / dof
        return np.asarray(weight / (self.n_samples - 1) * np.sqrt(variance))

    def _gain(self, members: IntArray, old: FloatArray, new: FloatArray) -> Gain:
        step = new - old
        own = self.own[members]
        value = 2.0 * np.einsum("ij,ij->i", own, step) - self.cost(new) + self.cost(old)
        error = self._error if self.rank is not None else self._row_error
        return Gain(value, error(members, old, new))

    def _row_error(self, members: IntArray, old: FloatArray, new: FloatArray) -> FloatArray:
        """From the spread of the squared errors over the rows left out."""
        target = self.own[members] * self.n_samples
        saved = (target - old) ** 2 - (target - new) ** 2
        return np.asarray(saved.std(axis=1, ddof=1) / np.sqrt(self.n_samples))

    def _error(self, members: IntArray, old: FloatArray, new: FloatArray) -> FloatArray:
        """From the spread of two quadratic forms in normal noise.

        The gain is ``w' M z + c (..)' N (..)`` with ``w`` the change of model and ``z`` the sum of
        the two differences from the member: forms in the fitted values (noncentral) and in the
        residuals (central), which are independent.
        """
        assert self.rank is not None
        rank, n = self.rank, self.n_samples
        dof = n - rank - 1
        step, gap = new - old, 2.0 * self.model[members] - new - old
        total = np.stack(
            [
                np.einsum("ij,ij->i", left[:, part], right[:, part])
                for part in (slice(rank), slice(rank, None))
                for left, right in ((step, step), (step, gap), (gap, gap))
            ]
        ).reshape(2, 3, -1)
        (eww, ewz, ezz), noise = total[0], total[1] / dof
        nww, nwz, nzz = noise
        # Variance of w'Ez with E noncentral: r (Nww Nzz + Nwz^2) + Nww Tzz + Nzz Tww + 2 Nwz Twz.
        tww, tzz = np.maximum(eww - rank * nww, 0.0), np.maximum(ezz - rank * nzz, 0.0)
        twz = ewz - rank * nwz
        fitted = rank * (nww * nzz + nwz**2) + nww * tzz + nzz * tww + 2.0 * nwz * twz
        fitted /= (n - 1) ** 2
        # The residuals enter as -r/(n-1) w'Nz - c (w'Ns), s the sum of both models.
        both = new + old
        left = slice(rank, None)
        mixed = rank / (n - 1) * gap[:, left] + rank / (dof - 1) * both[:, left]
        nmm = np.einsum("ij,ij->i", mixed, mixed) / dof
        nwm = np.einsum("ij,ij->i", step[:, left], mixed) / dof
        residual = (nww * nmm + nwm**2) / dof
        return np.asarray(np.sqrt(np.maximum(fitted, 0.0) + residual))
