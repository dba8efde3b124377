"""A penalty that finds out by itself which few directions deserve a low price.

A direction with singular value ``s`` costs ``price * s**2``. There are two prices, and a number of
*units*: a whole unit lowers the price of a direction from ``high`` to ``low``, a part of a unit
lowers it in part, and nobody says beforehand which directions get them::

    h(W) = min over m of sum_i s_i(W)^2 / scale_i,   scale_i = 1/high + m_i (1/low - 1/high),
           0 <= m_i <= 1,  sum_i m_i <= units

It is the squared box norm of the singular values (McDonald, Pontil and Stamos 2016). Convex ASO has
it for directions among features, clustered tasks have it for directions among tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctfa.core.types import FloatArray

#: Singular values below this part of the largest get no unit: their square is not seen beside it.
NEGLIGIBLE = 1e-150


def fill(values: FloatArray, ratio: float, units: float) -> FloatArray:
    """Minimise ``sum_i values_i^2 / scale_i`` with scales in [1, ratio] and units to spend.

    The units are ``sum_i (scale_i - 1) / (ratio - 1)``. Where a scale is between its bounds,
    ``values_i / scale_i`` is the same for all such i (the level of the water), so
    ``scale_i = clip(values_i * x, 1, ratio)`` for one number ``x``, and what is spent is a rising
    function of ``x`` with a corner where a scale leaves either bound: find the two corners it lies
    between, and solve a linear equation.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Not negative, in any order.
    ratio : float
        Largest scale, 1 or more.
    units : float
        What there is to spend, 0 or more.
    """
    scales = np.ones(values.size)
    top = float(values.max(initial=0.0))
    if top == 0.0 or units <= 0.0 or ratio == 1.0:
        return scales
    relative = values / top
    filled = relative > NEGLIGIBLE
    # A value of zero gains nothing from a unit, so those with a value get one each if there are
    # enough.
    if np.count_nonzero(filled) <= units:
        scales[filled] = ratio
        return scales
    part = relative[filled]
    scales[filled] = np.clip(part * _level(part, ratio, units * (ratio - 1.0)), 1.0, ratio)
    return scales


def _level(part: FloatArray, ratio: float, budget: float) -> float:
    """The ``x`` at which ``sum(clip(part * x, 1, ratio) - 1)`` is the budget, below its maximum."""
    corners = np.sort(np.concatenate([1.0 / part, ratio / part]))
    # Bisection among the corners, each sum taken afresh: slopes added up from corner to corner
    # would lose a small value beside a large one that has come and gone.
    below, above = 0, corners.size - 1
    while above - below > 1:
        middle = (below + above) // 2
        if np.sum(np.clip(part * corners[middle], 1.0, ratio) - 1.0) <= budget:
            below = middle
        else:
            above = middle
    halfway = part * (0.5 * (corners[below] + corners[above]))
    inside = (halfway > 1.0) & (halfway < ratio)
    if not inside.any():  # a flat stretch: everything on it costs the same
        return float(corners[below])
    spent = np.sum(np.clip(part * corners[below], 1.0, ratio) - 1.0)
    step = (budget - spent) / part[inside].sum()
    return float(np.clip(corners[below] + step, corners[below], corners[above]))


class Directions(NamedTuple):
    """Singular directions of coefficients, and what each costs."""

    left: FloatArray  # (T, k), among tasks
    values: FloatArray  # (k,)
    right: FloatArray  # (k, D), among features
    prices: FloatArray  # (k,)


@dataclass(frozen=True)
class TwoPrices:
    """The penalty above, of a matrix with one row a task."""

    low: float
    high: float
    units: float

    def directions(self, coef: FloatArray) -> Directions:
        """Best prices for these coefficients."""
        left, values, right = np.linalg.svd(coef, full_matrices=False)
        return Directions(left, values, right, self.high / fill(values, self.ratio, self.units))

    @property
    def ratio(self) -> float:
        """How many times the high price is the low one."""
        return self.high / self.low

    @property
    def usual_price(self) -> float:
        """The price halfway between the two, counted in factors."""
        return float(np.sqrt(self.low * self.high))

    def value_and_gradient(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """``h(W)`` and its gradient, which is that of the squares at the best prices (Danskin)."""
        left, values, right, prices = self.directions(coef)
        return float(prices @ values**2), 2.0 * (left * (values * prices)) @ right

    def conjugate(self, coef: FloatArray) -> float:
        """``h*(Z)``: a quarter of the squares over their prices, the largest at the low one."""
        squares = np.linalg.svd(coef, compute_uv=False) ** 2
        whole = int(min(np.floor(self.units), squares.size))
        cheap = float(squares[:whole].sum())
        if whole < squares.size:
            cheap += (self.units - whole) * float(squares[whole])
        saving = 1.0 / self.low - 1.0 / self.high
        return 0.25 * (float(squares.sum()) / self.high + saving * cheap)
