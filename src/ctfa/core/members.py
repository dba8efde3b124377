"""What a model serves each single member with: predicted risk, trust, and gain by gain.

Serving target ``i`` with the model of a weighted mean ``a`` of targets costs, up to a constant of
its own, ``-2 own_i . model_a + weight . model_a**2``: linear in the member and quadratic in the
model, whatever the targets are fitted by. The numbers are sums over coordinates, so those of a
group are sums over its members.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.fit import Evidence
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: A squared step smaller than this, relative to the models it is between, is rounding.
ROUNDING = 1e-26
#: A loss of a member smaller than this, relative to the risks compared, is rounding.
NO_LOSS = 1e-12
#: Rounding of a target, relative to what inputs explain of it.
DIGITS = 16.0 * float(np.finfo(np.float64).eps)


class MergeGain(NamedTuple):
    """What one merge is predicted to save."""

    members: IntArray  # those of the block, then those of the other
    n_first: int  # how many are the block's
    gain: FloatArray  # of each of them
    total: Gain  # of all together
    f_statistic: float  # of the difference of the two means
    f_star: float  # the F that breaks even


def best_weight(
    slope: FloatArray, curve: FloatArray, partition: Partition, share: FloatArray | None = None
) -> FloatArray:
    """Weight on each group, in [0, 1], where the risk of all its members is smallest.

    The risk of each is quadratic in it. One weight for a group: by itself a target cannot tell how
    far to trust the others, and weights for each would be noise.
    """
    both = partition.sum(np.stack((slope, curve)), share)
    slope, curve = both[:, partition.labels]
    # No curvature left: what the features say of the difference is noise, and the group wins.
    flat = curve <= 0.0
    best = np.clip(slope / np.where(flat, 1.0, curve), 0.0, 1.0)
    best = np.where(flat, np.where(slope >= 0.0, 1.0, 0.0), best)
    return np.where(partition.sizes[partition.labels] == 1, 1.0, best)


@dataclass(frozen=True, eq=False)
class MemberRisk:
    """Predicted risk of each target under any mean of targets.

    By least squares it is the unbiased risk for random inputs with an intercept: with ``M`` the
    unbiased covariance of signals, ``N`` that of noise and ``c = r/(n-r-2)``,
    ``N_ii + (e_i - a)' M (e_i - a) + c a' N a``. For a penalised fit it is the squared
    error of generalised cross-validation.
    """

    own: FloatArray  # (L, q)
    model: FloatArray  # (L, q)
    weight: FloatArray  # (q,)
    n_samples: int
    rank: int | None  # None: left out, row by row
    share: FloatArray | None = None  # (L,): how much a target counts in means and totals

    @classmethod
    def in_sample(
        cls, design: Design, fitted: FloatArray, left: FloatArray, share: FloatArray | None = None
    ) -> MemberRisk:
        """Unbiased risk of least squares, from coordinates of fitted values and of residuals."""
        fitted, left = fitted.T, left.T
        n, rank = design.n_samples, design.rank
        # At least two: a target by itself asks nothing, also where no degrees of freedom are left.
        dof = max(n - rank - 1, 2)
        signal = np.concatenate((fitted / (n - 1), left * (-rank / (dof * (n - 1)))), axis=1)
        # The noise of a model costs c N, on top of what M has of it.
        noise = (rank / (dof - 1) - rank / (n - 1)) / dof
        weight = np.concatenate((np.full(rank, 1.0 / (n - 1)), np.full(left.shape[1], noise)))
        return cls(signal, np.concatenate((fitted, left), axis=1), weight, n, rank, share)

    @classmethod
    def cross_validated(
        cls,
        target: FloatArray,
        residual: FloatArray,
        n_samples: int,
        share: FloatArray | None = None,
    ) -> MemberRisk:
        """Squared error as if each row were left out, of targets about their mean."""
        weight = np.full(len(target), 1.0 / n_samples)
        return cls(target.T / n_samples, (target - residual).T, weight, n_samples, None, share)

    def flipped(self, signs: FloatArray) -> MemberRisk:
        """The same for targets of which some are turned round."""
        turned = signs[:, None]
        return replace(self, own=self.own * turned, model=self.model * turned)

    def apart(self) -> MemberRisk:
        """The same gains without the signal that all targets have in common.

        Gains are made of differences of signals, and look-ups of products would lose the digits of
        a difference beside a strong part in common. Holds as long as no target is turned round.
        """
        common = self.model.mean(axis=0)
        if self.rank is not None:
            common[self.rank :] = 0.0  # noise in common costs a model
        return replace(self, own=self.own - common * self.weight, model=self.model - common)

    def groups(self, partition: Partition) -> FloatArray:
        """Models of the groups' means, one row per group."""
        return partition.mean(self.model.T, self.share).T

    def trust(self, partition: Partition) -> FloatArray:
        """Weight on the group's model that minimises its members' predicted risk, in [0, 1].

        Of ``(1 - t) single + t group`` the risk is quadratic in ``t``; a target by itself trusts
        its group, which is the target, entirely.
        """
        step = self._settled(self.groups(partition)[partition.labels] - self.model, self.model)
        slope = np.einsum("ij,ij->i", self.own - self.model * self.weight, step)
        curve = step**2 @ self.weight
        return best_weight(slope, curve, partition, self.share)

    def gain_over_single(self, partition: Partition) -> Gain:
        """Risk that each target saves by its group's model instead of its own."""
        value, error = np.zeros((2, len(self.own)))
        grouped = np.flatnonzero(partition.sizes[partition.labels] > 1)
        if grouped.size:
            old, new = self.model[grouped], self.groups(partition)[partition.labels[grouped]]
            # Not a difference of two costs: models with a strong part in common differ by little.
            slope = 2.0 * self.own[grouped] - (new + old) * self.weight
            value[grouped] = np.einsum("ij,ij->i", slope, self._settled(new - old, old))
            if self.rank is None:  # from the spread of the squared errors over the rows left out
                target = self.own[grouped] * self.n_samples
                error[grouped] = self._scatter(new - old, 2.0 * target - old - new)
            else:
                error[grouped] = self._error(grouped, old, new)
        return Gain(value, error)

    def along(self, history: MergeHistory) -> Iterator[MergeGain]:
        """What each member of each merge saves compared with just before it, and all together.

        One product per merge and not a table of them all: a group that grows one by one has as many
        entries as pairs.
        """
        # In this order each block is a slice from its own slot on.
        order = history.leaf_order()
        start = np.argsort(order)
        members = self.own[order]
        share_of = np.ones(len(self.own)) if self.share is None else self.share
        own, model = self.own * share_of[:, None], self.model * share_of[:, None]
        counts, sizes = np.ones(len(self.own), np.intp), share_of.copy()
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            low, n_first = int(start[block]), int(counts[block])
            high = low + n_first + int(counts[other])
            a, b = float(sizes[block]), float(sizes[other])
            first, second = model[block] / a, model[other] / b
            step = self._settled(second - first, first)
            apart = own[other] / b - own[block] / a
            # The block's model moves by a share of the step, the other's by the rest of it back.
            share = b / (a + b)
            change = 2.0 * (members[low:high] @ step)
            bend = (2.0 * np.stack((first, second)) + np.outer((share, share - 1.0), step)) @ (
                self.weight * step
            )
            gain = np.concatenate(
                (share * (change[:n_first] - bend[0]), (share - 1.0) * (change[n_first:] - bend[1]))
            )
            total, f = self._total(step, apart, a * share)
            yield MergeGain(order[low:high], n_first, gain, total, f, self.f_star)
            for sums in (own, model, sizes, counts):
                sums[block] += sums[other]

    @property
    def f_star(self) -> float:
        """F of a difference at which a merge breaks even; 2 for a penalised fit."""
        if self.rank is None:
            return 2.0
        return 1.0 + (self.n_samples - 1) / (self.n_samples - self.rank - 2)

    def _total(self, step: FloatArray, apart: FloatArray, weight: float) -> tuple[Gain, float]:
        """What all members of a merge save together: ``ab/(a+b) (K - 2 own)`` of the difference.

        And the regression F of the difference of the two means; NaN for a penalised fit.
        """
        value = weight * (step**2 @ self.weight - 2.0 * apart @ step)
        if self.rank is None:
            error = self._scatter(step, step - 2.0 * self.n_samples * apart)
            return Gain(value, weight * error), np.nan
        # Least squares: ``(r s F_star - explained)/(n-1)``, a scaled noncentral and a scaled
        # central chi-square, independent of each other.
        rank, dof = self.rank, self.n_samples - self.rank - 1
        noise = float(step[rank:] @ step[rank:]) / dof
        explained = float(step[:rank] @ step[:rank])
        signal = max(explained - rank * noise, 0.0)
        variance = 2.0 * noise * (rank * noise + 2.0 * signal)
        variance += 2.0 * (rank * noise * self.f_star) ** 2 / dof
        error = np.asarray(weight / (self.n_samples - 1) * np.sqrt(variance))
        if explained <= 0.0:
            return Gain(value, error), 0.0
        return Gain(value, error), explained / (rank * noise) if noise > 0.0 else np.inf

    def _settled(self, steps: FloatArray, models: FloatArray) -> FloatArray:
        """Steps from models, exactly zero where they agree to rounding, as copies do."""
        rank = self.model.shape[1] if self.rank is None else self.rank
        for part in (slice(rank), slice(rank, None)):
            length, scale = (
                np.einsum("...j,...j->...", x[..., part], x[..., part]) for x in (steps, models)
            )
            steps[length <= ROUNDING * scale, part] = 0.0
        return steps

    def _scatter(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """Standard error of the mean product over the rows.

        Rows that stand in for others do not have the scatter of these: it is taken from their
        second moments, as if rows were Gaussian.
        """
        n = self.n_samples
        if first.shape[-1] == n:
            return np.asarray((first * second).std(axis=-1, ddof=1) / np.sqrt(n))
        one, both, two = (
            np.einsum("...j,...j->...", a, b) / n
            for a, b in ((first, first), (first, second), (second, second))
        )
        return np.asarray(np.sqrt((one * two + both**2) / n))

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


class MemberGuard:
    """No member is merged where it is predicted to lose: gains of all members of two blocks.

    A member's risk under a block's mean is linear in one table (members by blocks) and one
    quadratic form (blocks by blocks), both kept current as blocks merge, so the worst gain of a
    merge needs look-ups only.
    """

    def __init__(self, risk: MemberRisk, *, apart: bool = False) -> None:
        """``apart``: of what tells the targets apart alone, which nothing else depends on."""
        # What tells copies apart is the last digits of the targets themselves.
        self._digit = DIGITS * float(np.sqrt(np.abs((risk.own * risk.model).sum(axis=1)).max()))
        risk = risk.apart() if apart else risk
        self._own = risk.own @ risk.model.T  # a member and the sum of a block
        self._cost = (risk.model * risk.weight) @ risk.model.T  # two sums of blocks
        self._size = np.ones(len(risk.own))
        self._slot = np.arange(len(risk.own))  # the block of each member

    def allows(self, block: int, others: IntArray, turn: FloatArray) -> BoolArray:
        """Whether no member of either side loses, the others turned round where told."""
        a, b = self._size[block], self._size[others]
        mine, theirs = self._cost[block, block], self._cost[others, others]
        merged = (mine + 2.0 * turn * self._cost[block, others] + theirs) / (a + b) ** 2
        members = np.flatnonzero(self._slot == block)
        at_home = self._own[members, block][:, None]
        change = (at_home + turn * self._own[np.ix_(members, others)]) / (a + b) - at_home / a
        worst_here = 2.0 * change.min(axis=0) - merged + mine / a**2
        worst_there = 2.0 * self._worst_there(block, others, turn) - merged + theirs / b**2
        risks = mine / a**2 + theirs / b**2
        slack = NO_LOSS * risks + self._digit * (2.0 * np.sqrt(np.abs(risks)) + self._digit)
        return np.asarray((worst_here >= -slack) & (worst_there >= -slack))

    def merge(self, block: int, others: IntArray, turn: FloatArray) -> None:
        """Record that the others went into the block."""
        for other, sign in zip(others.tolist(), turn.tolist(), strict=True):
            members = self._slot == other
            if sign < 0.0:
                self._own[members] *= -1.0
                self._own[:, other] *= -1.0
                self._cost[other] *= -1.0
                self._cost[:, other] *= -1.0
            self._own[:, block] += self._own[:, other]
            self._cost[block] += self._cost[other]
            self._cost[:, block] += self._cost[:, other]
            self._size[block] += self._size[other]
            self._slot[members] = block

    def _worst_there(self, block: int, others: IntArray, turn: FloatArray) -> FloatArray:
        """Smallest change of the linear part among the members of each of the others."""
        position = np.full(self._size.size, -1)
        position[others] = np.arange(others.size)
        asked = position[self._slot]
        members = np.flatnonzero(asked >= 0)
        at = asked[members]
        home, size = self._slot[members], self._size[block] + self._size[others]
        at_home = self._own[members, home]
        change = (at_home + turn[at] * self._own[members, block]) / size[at]
        change -= at_home / self._size[home]
        worst = np.full(others.size, np.inf)
        np.minimum.at(worst, at, change)
        return worst


class Gain(NamedTuple):
    """Predicted fall of the total risk of all members, in squared units of the target."""

    value: FloatArray
    standard_error: FloatArray


def gain(evidence: Evidence, m: float = 1.0) -> Gain:
    """Return how much a merge lowers the total prediction error of all members.

    ``stake * (r s F_star - explained)``, with ``explained``, ``s`` and ``r`` of the difference that
    a merge gives up, ``F_star = 1 + m (f_star - 1)``, and the stake of the merge:

    - targets: ``ab/(a+b)/(n-1)``, so that the gain is ``ab/(a+b) r s (F_star - F)/(n-1)``, the sum
      over ``a + b`` members of the fall of their mean squared error on new rows;
    - features: ``(n-2)/(dof (dof+1))``, the fall of Hocking's S_p: that of the one target's error;
    - pooled rows: given by the space, the sum over tasks (by their weights).

    At ``m = 1`` unbiased for Gaussian inputs (up to the factor ``1 + 1/n`` of targets and features,
    the mean's own error); pairs that were chosen for their gain have less. The standard error is
    that over the noise, Gaussian, for the inputs at hand:
    ``stake s sqrt(2 (r + 2 ncp + r^2 F_star^2/dof))``, ``ncp = max(explained/s - r, 0)``, up to a
    fifth too large where there is no difference at all. With inputs of their own it is taken as if
    they were shared.
    """
    difference = evidence.difference
    rank, dof = np.asarray(difference.rank, dtype=float), difference.dof
    noise = np.maximum(difference.residual, 0.0) / dof
    # Groups without a slope in common have an infinite F_star and nothing to gain.
    f_star = np.where(rank > 0.0, 1.0 + m * (evidence.f_star - 1.0), 1.0)
    stake = evidence.stake
    if stake is None and len(evidence.before) == 1:
        stake = (difference.n_samples - 2.0) / (dof * (dof + 1.0))
    elif stake is None:
        a, b = (fit.size for fit in evidence.before)
        stake = a * b / (a + b) / (difference.n_samples - 1.0)
    value = stake * (rank * noise * f_star - difference.explained)
    signal = np.maximum(difference.explained - rank * noise, 0.0)
    variance = noise * (rank * noise + 2.0 * signal) + (rank * f_star * noise) ** 2 / dof
    return Gain(np.asarray(value), np.asarray(stake * np.sqrt(2.0 * variance)))


class SquaredErrors(NamedTuple):
    """A quadratic form, one per task, of what fits leave in each row.

    Rows that stand in for others have the second moments of these and so the mean of any such form,
    but not how it scatters: that is taken from the second moments, as if rows were Gaussian.
    """

    left: FloatArray  # (m, L, n), times the roots of the rows' weights; NaN where not known
    form: FloatArray  # (m, m, L), symmetric in m
    counts: FloatArray | None  # (n,): rows that each stands for; None for one each

    @classmethod
    def of(cls, left: FloatArray, counts: FloatArray | None) -> SquaredErrors:
        """Plain squares of ``(L, n)``."""
        return cls(left[None], np.ones((1, 1, left.shape[0])), counts)

    def each(self) -> FloatArray:
        """Row by row, ``(L, n)``."""
        parts = range(len(self.left))
        terms = (
            self.form[i, j][:, None] * (self.left[i] * self.left[j]) for i in parts for j in parts
        )
        return np.asarray(sum(terms))

    def mean(self) -> FloatArray:
        """Over the rows where they are known."""
        each = self.each()
        count = self._known(each)
        total = np.nansum(each, axis=1)
        return np.where(count > 0.0, total / np.where(count > 0.0, count, 1.0), np.nan)

    def less(self, other: SquaredErrors) -> Gain:
        """Mean of the difference from the squares of another fit of the same rows."""
        each = self.each() - other.each()
        count = np.maximum(self._known(each), 1.0)
        value = np.nansum(each, axis=1) / count
        if self.counts is None:
            spread = np.where(np.isnan(each), 0.0, each - value[:, None])
            variance = (spread**2).sum(axis=1) / np.maximum(count - 1.0, 1.0)
        else:
            own, n_parts = len(self.left), len(self.left) + len(other.left)
            form = np.zeros((n_parts, n_parts, self.form.shape[2]))
            form[:own, :own], form[own:, own:] = self.form, -other.form
            known = np.nan_to_num(np.concatenate((self.left, other.left)))
            moments = np.einsum("iln,jln->lij", known, known) / count[:, None, None]
            product = np.moveaxis(form, 2, 0) @ moments
            variance = 2.0 * np.einsum("lij,lji->l", product, product)
        return Gain(np.asarray(value), np.sqrt(np.maximum(variance, 0.0) / count))

    def _known(self, each: FloatArray) -> FloatArray:
        known = ~np.isnan(each)
        return np.asarray(known.sum(axis=1) if self.counts is None else known @ self.counts, float)


def replay(space: MergeSpace, history: MergeHistory) -> FloatArray:
    """Merge again, and write down the evidence just before each merge; the space is used up.

    F, the F that breaks even, gain and standard error: ``(4, merges)``. Merges that do not wait for
    each other are asked about together.
    """
    found = np.full((4, len(history)), np.nan)
    for steps in levels(history):
        blocks, others = history.block[steps], history.other[steps]
        evidence = space.evidence(blocks, others)
        known = evidence.difference.f_statistic, evidence.f_star, *gain(evidence)
        found[:, steps] = np.stack(np.broadcast_arrays(*known))
        for block, other in zip(blocks.tolist(), others.tolist(), strict=True):
            space.merge(block, other)
    return found


def levels(history: MergeHistory) -> list[IntArray]:
    """Merges by how many must come before them: none of a level waits for another of it."""
    height = np.zeros(history.n_variables, dtype=np.intp)
    level = np.empty(len(history), dtype=np.intp)
    for step, (block, other) in enumerate(
        zip(history.block.tolist(), history.other.tolist(), strict=True)
    ):
        level[step] = max(height[block], height[other])
        height[block] = level[step] + 1
    order = np.argsort(level, kind="stable")
    counts = np.bincount(level) if level.size else np.empty(0, dtype=np.intp)
    return [part for part in np.split(order, np.cumsum(counts)[:-1]) if part.size]
