"""Choosing ``max_loss`` by what held-out rows say of the groups it gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.spaces.targets import ROUNDING
from ctfa.core.types import BoolArray, FloatArray

#: Limits tried: from no merge at all to one group, close together around break-even.
GRID = np.array(
    [-np.inf, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 10, 30, np.inf], dtype=float
)
#: Where theory and experience put the limit for many targets, where folds cannot be asked: a little
#: above break-even, because the smallest losses are met first and flatter what is left.
PREFERRED = 1.5
#: Held-out errors that agree to this part of themselves are ties: rounding tells them apart, and
#: the paired standard error of rounding is no evidence.
TIED = 1e-10


@dataclass(frozen=True, eq=False)
class CutCurve:
    """Held-out error of the groups that each limit gives, and the limit chosen.

    Errors are mean squares over targets, in units of each one's variance where targets are scaled
    and in squared units of the targets where not. ``standard_error`` is that of the difference from
    the best limit, paired over folds.
    """

    max_loss: FloatArray  # (G,)
    fold_errors: FloatArray  # (folds, G)
    n_groups: FloatArray  # (G,), mean over folds
    chosen: int

    @classmethod
    def of(cls, max_loss: FloatArray, fold_errors: FloatArray, n_groups: FloatArray) -> CutCurve:
        """Choose the limit of fewest groups that are within one paired standard error of the best.

        Of limits that leave as many, the one nearest to where theory puts it. With errors of the
        model one reads this is the coarsest map that held-out rows cannot tell from the best; a
        limit of smaller groups is a finer one that nothing speaks for.
        """
        curve = cls(max_loss, fold_errors, n_groups, -1)
        best = curve.error[curve.best]
        within = curve.error <= best + curve.standard_error + TIED * abs(best)
        fewest = within & (n_groups == n_groups[within].min())
        # As a ratio; the two extremes are infinitely far.
        ratio = np.log(np.maximum(max_loss, 0.1) / PREFERRED)
        far = np.where(np.isfinite(max_loss), np.abs(ratio), np.finfo(float).max)
        far = np.where(fewest, far, np.inf)
        return cls(max_loss, fold_errors, n_groups, int(np.argmin(far)))

    def __repr__(self) -> str:
        at, n_folds = self.chosen, self.fold_errors.shape[0]
        return (
            f"<CutCurve: max_loss={self.max_loss[at]:g} chosen of {self.max_loss.size} limits, "
            f"error {self.error[at]:.4g}, {self.n_groups[at]:.3g} groups, {n_folds} "
            f"{'fold' if n_folds == 1 else 'folds'}>"
        )

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
        gap = self.fold_errors - self.fold_errors[:, [self.best]]
        return np.asarray(gap.std(axis=0, ddof=1) / np.sqrt(n_folds))

    @property
    def best(self) -> int:
        """Position of the limit with the smallest error; of ties, the first of fewest groups."""
        return int(np.argmax(self.fewest_groups(int(np.argmin(self.error)))))

    def fewest_groups(self, at: int) -> BoolArray:
        """Which limits leave the fewest groups, of those with the error of this in every fold."""
        tied = (self.fold_errors == self.fold_errors[:, [at]]).all(axis=0)
        return np.asarray(tied & (self.n_groups == self.n_groups[tied].min()))

    def columns(self) -> dict[str, FloatArray]:
        """One array a column, for a data frame."""
        return {
            "max_loss": self.max_loss,
            "error": self.error,
            "standard_error": self.standard_error,
            "n_groups": self.n_groups,
        }


def without_rounding(errors: FloatArray, of_values: float = 0.0) -> FloatArray:
    """Errors of one fold, made equal where rounding alone tells them apart.

    ``of_values`` is the mean square of the values predicted. A prediction is right to the last
    digits of these, which is more than ``TIED`` of an error that is small beside them.
    """
    settled = np.array(errors)
    flat, digits = settled.reshape(-1), ROUNDING * of_values
    for at in range(1, flat.size):
        earlier = flat[:at]
        size = np.abs(earlier)
        rounding = TIED * size + 2.0 * np.sqrt(digits * size) + digits
        same = np.flatnonzero(np.abs(earlier - flat[at]) <= rounding)
        if same.size:
            flat[at] = earlier[same[0]]
    return settled


def middle_of_best(curve: CutCurve) -> int:
    """The limit of the smallest error; of ties, the middle of those with the fewest groups.

    Not the fewest groups among those about as good, as for targets: with as many inputs as tasks of
    own rows have, the best pairs of many are mostly luck, and folds see it clearly.
    """
    best = np.flatnonzero(curve.fewest_groups(curve.best))
    # Neighbours only: the same error further off is a coincidence.
    run = best[: 1 + int(np.argmax(np.append(np.diff(best) > 1, True)))]
    return int(run[(run.size - 1) // 2])
