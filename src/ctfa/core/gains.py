"""What a merge is predicted to gain, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.fit import Evidence
from ctfa.core.types import FloatArray, Number


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
    stake = _stake(evidence)
    value = stake * (rank * noise * f_star - difference.explained)
    signal = np.maximum(difference.explained - rank * noise, 0.0)
    variance = noise * (rank * noise + 2.0 * signal) + (rank * f_star * noise) ** 2 / dof
    return Gain(np.asarray(value), np.asarray(stake * np.sqrt(2.0 * variance)))


def _stake(evidence: Evidence) -> Number:
    """Risk per unit of the difference's sum of squares."""
    if evidence.stake is not None:
        return evidence.stake
    if len(evidence.before) == 1:
        dof = evidence.difference.dof
        return (evidence.difference.n_samples - 2.0) / (dof * (dof + 1.0))
    a, b = (fit.size for fit in evidence.before)
    return a * b / (a + b) / (evidence.difference.n_samples - 1.0)
