"""What a criterion knows of a possible merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ctfa.core.types import Number


class Fit(NamedTuple):
    """A least-squares fit, reduced to the numbers a criterion may use.

    ``explained`` and ``residual`` are sums of squares about the mean; where many candidates are
    asked about at once they are arrays, one entry per candidate.

    Examples
    --------
    >>> from ctfa.core.fit import Fit
    >>> fit = Fit(explained=6.0, residual=4.0, n_samples=44, n_inputs=3, rank=3, dof=40, size=1)
    >>> fit.total, fit.noise_variance
    (10.0, 0.1)
    """

    explained: Number
    residual: Number
    n_samples: Number
    n_inputs: Number  # columns the model was given
    rank: Number  # coefficients it could estimate
    dof: Number  # degrees of freedom left for the noise
    size: Number  # members whose mean this is

    @property
    def total(self) -> Number:
        """Total sum of squares."""
        return self.explained + self.residual

    @property
    def noise_variance(self) -> Number:
        """Residual variance, ``RSS / dof``."""
        return self.residual / self.dof

    @property
    def f_statistic(self) -> Number:
        """Regression F: explained variance per coefficient over residual variance.

        Zero where there is nothing to explain (two copies of one series differ by nothing);
        negative where a merge explains more than what it replaces (own inputs, averaged).
        """
        noise = np.maximum(self.residual, 0.0) / self.dof
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.explained / (np.maximum(self.rank, 1) * noise)
        return np.where(self.explained != 0.0, ratio, 0.0)


class Evidence:
    """Two blocks, the one that would replace them, and the regression of their difference.

    ``before`` holds the fit of each block's mean (targets), or the one model that contains both
    (features, where a merge changes the model itself). ``difference`` is the regression that a
    merge would give up: that of the two means' difference (targets), or the one extra coefficient
    that lets two features differ (features). ``f_star`` is the F of that regression at which a
    merge breaks even in expectation. ``stake`` is what a unit of its sum of squares weighs in the
    total risk, where the sizes of the blocks do not say it (``core/members.py``). Each may be given
    as a function, called when a criterion first needs it: no criterion needs all, and a question
    costs little more than its arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.core.design import Design
    >>> from ctfa.core.spaces.targets import TargetSpace
    >>> rng = np.random.default_rng(0)
    >>> design, Y = Design.of(rng.normal(size=(50, 3)), None), rng.normal(size=(50, 5))
    >>> evidence = TargetSpace.of(design, design.centre(Y)).evidence(0, np.arange(1, 5))
    >>> evidence.difference.f_statistic.shape
    (4,)
    """

    __slots__ = ("_given", "after", "before", "difference", "f_star", "stake")
    before: tuple[Fit, ...]
    after: Fit
    difference: Fit
    f_star: Number
    stake: Number | None

    def __init__(
        self,
        before: tuple[Fit, ...] | Callable[[], tuple[Fit, ...]],
        after: Fit | Callable[[], Fit],
        difference: Fit | Callable[[], Fit],
        f_star: Number | Callable[[], Number] | None = None,
        stake: Number | Callable[[], Number] | None = None,
    ) -> None:
        self._given = {
            "before": before,
            "after": after,
            "difference": difference,
            "f_star": f_star,
            "stake": stake,
        }

    def __getattr__(self, name: str) -> Any:
        """Keep a part, asked for the first time."""
        if name not in Evidence.__slots__[1:]:
            raise AttributeError(name)
        found: Any = self._given[name]
        if callable(found):
            found = found()
        elif name == "f_star" and found is None:
            # Of one regression on random inputs with an intercept: ``1 + (n-1)/(n-r-2)``.
            found = 1.0 + (self.difference.n_samples - 1) / (self.difference.dof - 1)
        setattr(self, name, found)
        return found
