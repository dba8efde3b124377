"""How many digits sums have left of what decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ctfa.core.moments import DOUBTFUL_SQUARE, Moments
from ctfa.core.types import IntArray

#: Columns of a baseline that depend on each other by construction leave no more than this.
DEPENDENT = 1e-12
#: Rows that stand in for others carry their means, in whose digits deviations are written.
FAR = 1e9


class Digits(NamedTuple):
    """Smallest eigenvalues of cross-products at unit length, of which rounding is about 1e-16."""

    inputs: float  # of the inputs of a fit
    targets: float  # of targets among each other, and of what inputs leave of them
    offset: float  # largest mean of a column in units of its spread

    @classmethod
    def of(
        cls, total: Moments, widths: tuple[int, int, int], together: Sequence[IntArray] | None
    ) -> Digits:
        """Of the sums of all rows; ``together`` are the inputs of each fit, where not all are."""
        n_baseline, n_inputs, n_targets = widths
        # Indicators of all months are one together, which is known of them: inputs are asked alone.
        is_dependent = n_baseline > 0 and total.weakest(n_baseline) < DEPENDENT
        known = np.arange(0 if is_dependent else n_baseline)
        inputs = n_baseline + np.arange(n_inputs)
        targets = n_baseline + n_inputs + np.arange(n_targets)
        every = [inputs] if together is None else [n_baseline + own for own in together]
        asked = [np.concatenate((known, own)) for own in every]
        if together is None:
            judged = [np.concatenate((inputs, targets))]
        else:
            pairs = zip(every, targets, strict=True)
            judged = [targets, *(np.append(own, target) for own, target in pairs)]
        spread = np.sqrt(np.maximum(np.diagonal(total.cross), 0.0) / max(total.weight, 1.0))
        varies = spread > 0.0
        offset = np.abs(total.mean[varies]) / spread[varies]
        return cls(_weakest(total, asked), _weakest(total, judged), float(offset.max(initial=0.0)))

    @property
    def are_doubtful(self) -> bool:
        """Whether rows could decide otherwise."""
        return min(self.inputs, self.targets) < DOUBTFUL_SQUARE or self.offset > FAR


def _weakest(total: Moments, sets: Iterable[IntArray]) -> float:
    return min(
        (
            Moments(
                total.n_samples, total.weight, total.mean[at], total.cross[np.ix_(at, at)]
            ).weakest(at.size)
            for at in sets
            if total.n_samples > at.size + 1
        ),
        default=1.0,
    )
