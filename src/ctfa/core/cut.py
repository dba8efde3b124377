"""Choosing ``max_loss`` by what held-out rows say of the groups it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.types import FloatArray

#: Limits tried: from no merge at all to one group, close together around break-even.
GRID = np.array(
    [-np.inf, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 10, 30, np.inf], dtype=float
)
#: Where theory and experience put the limit, for want of evidence: a little above break-even,
#: because the smallest losses are met first and flatter what is left.
PREFERRED = 1.5
#: Paired standard errors within which held-out errors do not tell two limits apart.
N_ERRORS = 2.0


@dataclass(frozen=True, eq=False)
class CutCurve:
    """Held-out error of the groups that each limit gives, and the limit chosen.

    Errors are mean squares over targets in units of each one's variance. ``standard_error`` is that
    of the difference from the best limit, paired over folds.
    """

    max_loss: FloatArray  # (G,)
    fold_errors: FloatArray  # (folds, G)
    n_groups: FloatArray  # (G,), mean over folds
    chosen: int

    @classmethod
    def of(cls, max_loss: FloatArray, fold_errors: FloatArray, n_groups: FloatArray) -> CutCurve:
        """Choose, among limits that are not worse than the best, the one nearest to theory."""
        curve = cls(max_loss, fold_errors, n_groups, -1)
        within = curve.error <= curve.error.min() + N_ERRORS * curve.standard_error
        far = np.where(within, _distance(max_loss), np.nan)
        nearest = np.flatnonzero(far == np.nanmin(far))
        chosen = int(nearest[np.argmin(curve.error[nearest])])
        return cls(max_loss, fold_errors, n_groups, chosen)

    @property
    def error(self) -> FloatArray:
        """Mean held-out error of each limit."""
        return np.asarray(self.fold_errors.mean(axis=0))

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the difference from the best limit; zero for a single fold."""
        n_folds = self.fold_errors.shape[0]
        if n_folds == 1:
            return np.zeros(self.max_loss.size)
        gap = self.fold_errors - self.fold_errors[:, [int(np.argmin(self.error))]]
        return np.asarray(gap.std(axis=0, ddof=1) / np.sqrt(n_folds))

    @property
    def best(self) -> int:
        """Position of the limit with the smallest error."""
        return int(np.argmin(self.error))

    def columns(self) -> dict[str, FloatArray]:
        """One array a column, for a data frame."""
        return {
            "max_loss": self.max_loss,
            "error": self.error,
            "standard_error": self.standard_error,
            "n_groups": self.n_groups,
        }


def _distance(max_loss: FloatArray) -> FloatArray:
    """How far a limit is from the preferred one, as a ratio; infinite for the two extremes."""
    ratio = np.log(np.maximum(max_loss, 0.1) / PREFERRED)
    return np.where(np.isfinite(max_loss), np.abs(ratio), np.inf)
