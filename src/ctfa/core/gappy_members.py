"""What a group's model serves each member with, where targets have missing values.

A target and a group are compared on the target's own rows, which are all rows that both have. The
group's model is fitted to more rows than the target's, so its noise costs less: with ``r``
coefficients and ``n`` rows a model of noise variance ``N`` costs ``c N``, ``c = r/(n-r-2)``, each
with rows of its own. For complete targets every number is that of ``MemberRisk``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.design import Design
from ctfa.core.gains import Gain, gain
from ctfa.core.gaps import observed_mean, patterns, subset_design
from ctfa.core.history import MergeHistory
from ctfa.core.members import MergeGain
from ctfa.core.partition import Partition
from ctfa.core.spaces.gappy import GappyTargetSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray


class _Beside(NamedTuple):
    """Targets beside one series each, on the targets' rows."""

    bias: FloatArray  # unbiased mean square of what the inputs predict of the difference
    bias_error: FloatArray
    noise: FloatArray  # residual variance of the target
    shared: FloatArray  # residual covariance of target and series
    series: FloatArray  # residual variance of the series
    dof: FloatArray


class GappyMembers:
    """Predicted risk of each target under the mean of any group, where some rows are missing."""

    def __init__(self, X: FloatArray, values: FloatArray, row_scale: FloatArray | None) -> None:
        self._values, self._inputs, self._row_scale = values, X, row_scale
        observed = ~np.isnan(values)
        self._n_rows = observed.sum(axis=0)
        self._patterns: list[tuple[BoolArray, Design]] = []
        self._pattern = np.empty(values.shape[1], dtype=np.intp)
        for number, (rows, members) in enumerate(patterns(observed)):
            self._pattern[members] = number
            # Of a target without a row there is nothing to say, and nothing to factor.
            kept = rows if rows.any() else ~rows
            self._patterns.append((rows, subset_design(X, kept, row_scale)))
        ranks = np.array([design.rank for _, design in self._patterns])
        self._rank = ranks[self._pattern]
        self._full_rank = int(ranks.max(initial=0))

    @property
    def n_targets(self) -> int:
        """How many targets there are."""
        return int(self._values.shape[1])

    def flipped(self, signs: FloatArray) -> GappyMembers:
        """The same: targets with gaps are not turned round."""
        return self

    def trust(self, partition: Partition) -> FloatArray:
        """Weight on the group's model that minimises each target's predicted risk, in [0, 1]."""
        beside, own, group = self._of_groups(partition)
        slope = own * beside.noise - group * beside.shared
        curve = beside.bias + own * beside.noise + group * (beside.series - 2.0 * beside.shared)
        flat = curve <= 0.0
        best = np.clip(slope / np.where(flat, 1.0, curve), 0.0, 1.0)
        best = np.where(flat, np.where(slope >= 0.0, 1.0, 0.0), best)
        return np.where(partition.sizes[partition.labels] == 1, 1.0, best)

    def gain_over_single(self, partition: Partition) -> Gain:
        """Risk that each target saves by its group's model instead of its own.

        Errors leave out what the parts have in common.
        """
        beside, own, group = self._of_groups(partition)
        value = own * beside.noise - beside.bias - group * beside.series
        noise = 2.0 * ((own * beside.noise) ** 2 + (group * beside.series) ** 2) / beside.dof
        error = np.sqrt(beside.bias_error**2 + noise)
        alone = partition.sizes[partition.labels] == 1
        return Gain(np.where(alone, 0.0, value), np.where(alone, 0.0, error))

    def along(self, history: MergeHistory) -> list[MergeGain]:
        """What each member of each merge saves compared with just before it, and all together."""
        space = GappyTargetSpace.of(self._inputs, self._values, row_scale=self._row_scale)
        members = [[i] for i in range(self.n_targets)]
        steps = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            evidence = space.evidence(block, np.array([other]))
            difference, f_star = evidence.difference, float(np.ravel(evidence.f_star)[0])
            f = float(np.ravel(difference.f_statistic)[0])
            space.merge(block, other)
            sides = [np.array(members[slot]) for slot in (block, other)]
            members[block] += members[other]
            both = np.concatenate(sides)
            after = self._risk(both, both)
            before = [self._risk(side, side) for side in sides]
            value = np.concatenate([risk for risk, _ in before]) - after[0]
            error = np.hypot(np.concatenate([spread for _, spread in before]), after[1])
            total = Gain(np.asarray(value.sum()), np.ravel(gain(evidence).standard_error)[0])
            steps.append(MergeGain(both, Gain(value, error), total, f, f_star))
        return steps

    def _risk(self, targets: IntArray, group: IntArray) -> tuple[FloatArray, FloatArray]:
        """Risk of targets under the mean of a group of targets, and its standard error."""
        values = self._values[:, group]
        series = observed_mean(Partition(np.zeros(group.size, dtype=np.intp)), values)[:, 0]
        cost = self._cost(np.array([np.count_nonzero(~np.isnan(series))]))
        beside = self._beside(
            targets, np.broadcast_to(series[:, None], (series.size, targets.size))
        )
        noise = cost * beside.series * np.sqrt(2.0 / beside.dof)
        return beside.bias + cost * beside.series, np.hypot(beside.bias_error, noise)

    def _of_groups(self, partition: Partition) -> tuple[_Beside, FloatArray, FloatArray]:
        means = observed_mean(partition, self._values)
        beside = self._beside(np.arange(self.n_targets), means[:, partition.labels])
        rows = np.count_nonzero(~np.isnan(means), axis=0)[partition.labels]
        return beside, self._cost(self._n_rows, self._rank), self._cost(rows)

    def _cost(self, n_rows: IntArray, rank: IntArray | None = None) -> FloatArray:
        """What each unit of noise costs a model of so many rows."""
        coefficients = np.full(n_rows.shape, self._full_rank) if rank is None else rank
        return np.asarray(coefficients / np.maximum(n_rows - coefficients - 2.0, 1.0))

    def _beside(self, targets: IntArray, series: FloatArray) -> _Beside:
        numbers = np.zeros((5, targets.size))
        dof = np.ones(targets.size)
        for number in np.unique(self._pattern[targets]):
            rows, design = self._patterns[number]
            if not rows.any():
                continue
            here = np.flatnonzero(self._pattern[targets] == number)
            own = design.centre(self._values[np.ix_(rows, targets[here])])
            gap = design.centre(series[np.ix_(rows, here)]) - own
            explained, unexplained = design.coordinates(gap)
            left = design.coordinates(own)[1]
            freedom = max(design.n_samples - design.rank - 1, 1)
            dof[here] = freedom
            squares = np.einsum("ij,ij->j", unexplained, unexplained) / freedom
            noise = np.einsum("ij,ij->j", left, left) / freedom
            cross = np.einsum("ij,ij->j", left, unexplained) / freedom
            rank = design.rank
            fitted = np.einsum("ij,ij->j", explained, explained)
            signal = fitted - rank * squares
            spread = 2.0 * squares * (rank * squares + 2.0 * np.maximum(signal, 0.0))
            spread += 2.0 * (rank * squares) ** 2 / freedom
            n_less_one = max(design.n_samples - 1, 1)
            numbers[:, here] = (
                signal / n_less_one,
                np.sqrt(spread) / n_less_one,
                noise,
                noise + cross,
                noise + 2.0 * cross + squares,
            )
        bias, bias_error, noises, shared, of_series = numbers
        return _Beside(bias, bias_error, noises, shared, of_series, dof)
