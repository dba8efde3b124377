"""Inputs and targets with what a baseline says of them taken off, for shared inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ctfa._validation import Sample
from ctfa.core.baseline import Baseline, Lines, take_off
from ctfa.core.types import FloatArray, IntArray


class Anomalies(NamedTuple):
    """What a baseline leaves of a sample and its targets; both as they are without a baseline."""

    sample: Sample  # residual inputs in the rows given
    values: FloatArray  # (n, L): residual targets in the rows given, NaN where missing
    judged: Sample  # the same as merges are judged, in as many rows as the baseline leaves free
    judged_values: FloatArray
    inputs: Lines | None  # what was taken off
    targets: Lines | None
    n_spent: int = 0  # degrees of freedom that the baseline takes of every series

    @classmethod
    def of(cls, sample: Sample, values: FloatArray) -> Anomalies:
        """Regress inputs and targets on the baseline of the sample.

        With gaps in the targets each is regressed over its own rows, and rows are counted as they
        are: no turn of the rows leaves the gaps of all targets where they were.
        """
        columns = sample.baseline
        if columns is None:
            return cls(sample, values, sample, values, None, None)
        rows = sample.weights, sample.n_samples
        inputs, of_inputs, factored = take_off(sample.inputs, columns, *rows)
        left, of_targets, _ = take_off(values, columns, *rows)
        if not factored.rank:  # it says nothing: nothing changes, to the last digit
            plain = replace(sample, used=None, baseline=None)
            of_inputs, of_targets = _nothing(of_inputs), _nothing(of_targets)
            return cls(plain, values, plain, values, of_inputs, of_targets)
        single = sample.is_single
        residual = replace(sample, inputs=inputs, used=None, baseline=None, single=single)
        if np.isnan(values).any():
            return cls(residual, left, residual, left, of_inputs, of_targets, factored.rank)
        judged, judged_values = _free(sample, factored, inputs, left)
        return cls(residual, left, judged, judged_values, of_inputs, of_targets, factored.rank)

    @classmethod
    def of_rows(cls, sample: Sample, values: FloatArray, rows: IntArray) -> Anomalies:
        """The same on some of the rows alone."""
        return cls.of(sample.take(rows), values[rows])

    def elsewhere(
        self, sample: Sample, values: FloatArray, rows: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Inputs and targets of other rows, less what the baseline says there."""
        inputs, values = sample.inputs[rows], values[rows]
        if sample.baseline is None or self.inputs is None or self.targets is None:
            return inputs, values
        columns = sample.baseline[rows]
        return inputs - self.inputs.at(columns), values - self.targets.at(columns)


def _free(
    sample: Sample, factored: Baseline, inputs: FloatArray, values: FloatArray
) -> tuple[Sample, FloatArray]:
    """Residuals in as many rows as the baseline leaves free."""
    inputs, values = factored.free_rows(inputs.T).T, factored.free_rows(values.T).T
    if sample.counts is None:
        return Sample(inputs, None, None, single=sample.is_single), values
    # Of rows that stand in for others each stands for fewer, by the share that is spent.
    counts = np.full(inputs.shape[0], (sample.n_samples - factored.rank) / inputs.shape[0])
    root = np.sqrt(counts)[:, None]
    judged = Sample(inputs / root, counts, None, counts=counts, single=sample.is_single)
    return judged, values / root


def _nothing(lines: Lines) -> Lines:
    return lines._replace(levels=np.zeros(lines.levels.size))
