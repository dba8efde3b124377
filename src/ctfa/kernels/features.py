"""Features (Phase II): a block asks the free ones one by one, as the algorithm is printed.

The square-root form of ``ctfa.core.restrictions``. A merge appends one orthonormal direction to a
list, and a column of the root is updated by the list when it is next needed: many directions are
applied to a column while it is in the fastest memory. Differences are always taken explicitly, so
nothing has to be restored; what rounding leaves of a direction in a column meets only what it
leaves in others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ctfa.core.criteria import Loss
from ctfa.core.history import MergeHistory
from ctfa.core.judge import LARGEST
from ctfa.core.spaces.features import FeatureSpace
from ctfa.core.types import FloatArray, IntArray
from ctfa.kernels.compiling import Result, as_history, compiled, place_of, reordered

#: The compiled code knows a criterion by its place, in sample; R2 on folds comes last.
CRITERIA = ("r2", "feature_risk", "feature_mse")
R2, RISK, MSE, R2_ON_FOLDS = range(4)


def grow(
    space: FeatureSpace,
    criterion: Loss,
    *,
    limit: float,
    order: IntArray,
    restart: bool,
) -> MergeHistory | None:
    """Run the scan; None for a criterion without a kernel, or where a fit lacks full rank."""
    number, start = place_of(criterion, CRITERIA), space.start()
    if number is None or start is None:
        return None
    fits, (n_samples, rank, total, residual, share, (noise, noise_dof)) = start
    if share is None:
        share = np.ones(1)
    elif number == R2:
        number = R2_ON_FOLDS
    else:
        return None
    dof = n_samples - rank - 1.0
    rule = Rule(number, total, residual, dof, noise / noise_dof, float(n_samples), LARGEST)
    queue = np.array(order, dtype=np.int64)
    return as_history(_grow(fits, share, queue, float(limit), restart, rule))


class Rule(NamedTuple):
    """A criterion of features, and the model without restrictions in which they are judged."""

    criterion: int
    total: float
    residual: float
    dof: float
    noise: float
    n_samples: float
    largest: float


class Fits(NamedTuple):
    """Restricted fits, one per fold; all arrays are changed."""

    root: FloatArray  # (fits, D, rank): columns of B, each as last updated
    response: FloatArray  # (fits, D, m): what they do to held-out predictions
    coef: FloatArray  # (fits, D)
    error: FloatArray  # (fits, m)
    told: IntArray  # (D,): number of directions that a column accounts for
    directions: FloatArray  # (fits, D, rank): orthonormal, one per merge
    shifts: FloatArray  # (fits, D, m): what they do to held-out predictions
    steps: FloatArray  # (fits, D): how far the coefficients move along them


@compiled
def _grow(
    start: tuple[FloatArray, ...],
    share: FloatArray,
    queue: IntArray,
    limit: float,
    restart: bool,
    rule: Rule,
) -> Result:
    """Grow one block after another; ``start`` and the queue, all features in order, are changed."""
    n_features = queue.size
    merges, losses = np.empty((n_features, 2), np.int64), np.empty(n_features)
    refused, refused_loss = np.full(n_features, -1, np.int64), np.full(n_features, np.inf)
    n_merges, n_comparisons, best_refused = 0, 0, np.inf
    fits, residual, dof = _fits(*start), rule.residual, rule.dof
    head, tail = 0, n_features
    while head < tail:
        block = queue[head]
        head += 1
        place = head
        while place < tail:
            other = queue[place]
            n_comparisons += 1
            _tell(fits, block, n_merges)
            _tell(fits, other, n_merges)
            if rule.criterion == R2_ON_FOLDS:
                rise = loss = _held_out_rise(fits, block, other, share)
            else:
                rise = _rise(fits, block, other)
                loss = _loss(rise, residual, dof, rule)
            # As in the judge: the largest number stands for an infinite loss.
            loss = min(loss, rule.largest)
            if not loss <= limit:
                best_refused = min(best_refused, loss)
                if loss < refused_loss[block]:
                    refused[block], refused_loss[block] = other, loss
                place += 1
                continue
            merges[n_merges, 0], merges[n_merges, 1], losses[n_merges] = block, other, loss
            _restrict(fits, block, other, n_merges)
            n_merges += 1
            residual += rise
            dof += 1.0
            tail -= 1
            for ahead in range(place, tail):
                queue[ahead] = queue[ahead + 1]
            if restart:  # all will be asked again
                refused[block], refused_loss[block] = -1, np.inf
                place = head
    return merges[:n_merges], losses[:n_merges], refused, refused_loss, n_comparisons, best_refused


@compiled
def _fits(root: FloatArray, response: FloatArray, coef: FloatArray, error: FloatArray) -> Fits:
    n_fits, n_features, _ = root.shape
    return Fits(
        root,
        response,
        coef,
        error,
        np.zeros(n_features, np.int64),
        np.empty_like(root),
        np.empty_like(response),
        np.empty((n_fits, n_features)),
    )


@compiled
def _tell(fits: Fits, column: int, n_merges: int) -> None:
    """Remove from a column the directions that it does not yet account for."""
    first = fits.told[column]
    if first == n_merges:
        return
    for fit in range(fits.coef.shape[0]):
        fits.coef[fit, column] -= _catch_up(
            fits.root[fit, column],
            fits.response[fit, column],
            fits.directions[fit, first:n_merges],
            fits.shifts[fit, first:n_merges],
            fits.steps[fit, first:n_merges],
        )
    fits.told[column] = n_merges


@reordered
def _catch_up(
    column: FloatArray,
    response: FloatArray,
    directions: FloatArray,
    shifts: FloatArray,
    steps: FloatArray,
) -> float:
    """Take directions out, in turn; return how far the coefficient moves."""
    moved = 0.0
    for k in range(steps.size):
        weight = 0.0
        for i in range(column.size):
            weight += directions[k, i] * column[i]
        for i in range(column.size):
            column[i] -= weight * directions[k, i]
        for i in range(response.size):
            response[i] -= weight * shifts[k, i]
        moved += weight * steps[k]
    return moved


@compiled
def _rise(fits: Fits, block: int, other: int) -> float:
    """Rise of the residual sum of squares of one fit: ``gap^2 / |d|^2``."""
    gap: float = fits.coef[0, block] - fits.coef[0, other]
    return gap / _gap(fits.root[0, block], fits.root[0, other]) * gap


@compiled
def _held_out_rise(fits: Fits, block: int, other: int, share: FloatArray) -> float:
    """Rise of the squared errors, ``t (2 e'error + t |e|^2)`` per fold, ``t = gap / |d|^2``."""
    rise = 0.0
    for fit in range(share.size):
        gap = fits.coef[fit, block] - fits.coef[fit, other]
        step = gap / _gap(fits.root[fit, block], fits.root[fit, other])
        first, second = fits.response[fit, block], fits.response[fit, other]
        reach, pull = _reach_and_pull(first, second, fits.error[fit])
        rise += share[fit] * (step * (2.0 * pull + step * reach))
    return rise


@compiled
def _loss(rise: float, residual: float, dof: float, rule: Rule) -> float:
    """In sample; ``residual`` and ``dof`` are those of the model as it is now."""
    if rule.criterion == R2:
        return rise / rule.total
    if rule.criterion == RISK:
        return rise / rule.noise if rise > 0.0 else 0.0
    noise = residual / dof
    signal = rule.total / (rule.n_samples - 1.0) - noise
    return signal * (rise / rule.total) - noise / (rule.n_samples - 1.0)


@compiled
def _restrict(fits: Fits, block: int, other: int, n_merges: int) -> None:
    """Append the direction of one restriction, in every fold."""
    for fit in range(fits.coef.shape[0]):
        direction, shift = fits.directions[fit, n_merges], fits.shifts[fit, n_merges]
        length = np.sqrt(_gap(fits.root[fit, block], fits.root[fit, other]))
        for i in range(direction.size):
            direction[i] = (fits.root[fit, block, i] - fits.root[fit, other, i]) / length
        for i in range(shift.size):
            shift[i] = (fits.response[fit, block, i] - fits.response[fit, other, i]) / length
        step = (fits.coef[fit, block] - fits.coef[fit, other]) / length
        fits.steps[fit, n_merges] = step
        for i in range(shift.size):
            fits.error[fit, i] += step * shift[i]


@reordered
def _gap(first: FloatArray, second: FloatArray) -> float:
    """Squared length of a difference: taken explicitly, no digits are lost."""
    square = 0.0
    for i in range(first.size):
        gap = first[i] - second[i]
        square += gap * gap
    return square


@reordered
def _reach_and_pull(
    first: FloatArray, second: FloatArray, error: FloatArray
) -> tuple[float, float]:
    """Squared length of a difference, and its product with the errors."""
    reach, pull = 0.0, 0.0
    for i in range(first.size):
        gap = first[i] - second[i]
        reach += gap * gap
        pull += gap * error[i]
    return reach, pull
