"""Choosing ``max_loss`` by the held-out error of its groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctfa.core.spaces.targets import ROUNDING
from ctfa.core.types import BoolArray, FloatArray

#: Limits tried: from no merge to one group, close together around break-even.
GRID = np.array(
    [-np.inf, 0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 10, 30, np.inf], dtype=float
)
#: Where theory and experience put the limit for many targets, where folds cannot be asked: a little
#: above break-even, because the smallest losses are met first and flatter what is left.
PREFERRED = 1.5
#: Ratio of the numbers of groups that two limits beyond those leave, one after the other.
STEP = 1.5
#: Held-out errors that agree to this part of themselves are ties: rounding tells them apart, and
#: the paired standard error of rounding is not evidence.
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
    def of(
        cls,
        max_loss: FloatArray,
        fold_errors: FloatArray,
        n_groups: FloatArray,
        tolerance: float | None = None,
    ) -> CutCurve:
        """Choose the limit of fewest groups that are within one paired standard error of the best.

        Or whose error is at most that of the best and a share of it, ``tolerance``. Of limits that
        leave as many, the one nearest to the theoretical limit. With errors of the model one reads
        this is the coarsest map that held-out rows cannot tell from the best; a limit of smaller
        groups gives a finer map without evidence for it.
        """
        curve = cls(max_loss, fold_errors, n_groups, -1)
        best = curve.error[curve.best]
        more = curve.standard_error if tolerance is None else tolerance * abs(best)
        within = curve.error <= best + more + TIED * abs(best)
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
        """One array per column, for a data frame."""
        return {
            "max_loss": self.max_loss,
            "error": self.error,
            "standard_error": self.standard_error,
            "n_groups": self.n_groups,
        }


@dataclass(frozen=True, eq=False)
class Price:
    """What a wish costs: held-out errors of the groups as wished, and of those chosen freely.

    On the same folds, in the units of ``CutCurve``; NaN where no folds were asked. ``error`` is
    that of the groups' own models, which are what one reads, ``whole_error`` that of all that is
    predicted with, where it is known. ``standard_error`` is of the difference of the former,
    paired over folds.
    """

    n_groups: int
    error: float = np.nan
    free_error: float = np.nan
    standard_error: float = np.nan
    free_n_groups: float = np.nan  # mean over folds
    free_max_loss: float = np.nan
    whole_error: float = np.nan
    free_whole_error: float = np.nan

    @property
    def cost(self) -> float:
        """Error above that of the free choice, as a share of it."""
        return _share(self.error, self.free_error)

    @property
    def whole_cost(self) -> float:
        """The same of all that is predicted with."""
        return _share(self.whole_error, self.free_whole_error)

    @property
    def is_known(self) -> bool:
        """Whether folds were asked."""
        return not np.isnan(self.free_error)

    def words(self, groups: str = "groups") -> str:
        """What it costs, in a sentence; ``groups`` is what they are called."""
        if not self.is_known:
            return "what the wish costs is unknown: no held-out rows were asked"
        free = f"the free choice of about {self.free_n_groups:.0f} {groups}"
        if self.free_error == self.error:
            said = f"errs as {free} does on the same held-out rows"
        else:
            more = "more" if self.cost >= 0.0 else "less"
            scatter = f" +- {self.standard_error:.2g}" if self.standard_error > 0.0 else ""
            said = (
                f"errs {abs(self.cost):.1%} {more} than {free} on the same held-out rows "
                f"({self.error:.4g} against {self.free_error:.4g}{scatter})"
            )
        if not np.isnan(self.whole_cost) and self.whole_error != self.free_whole_error:
            more = "more" if self.whole_cost >= 0.0 else "less"
            said += f"; with what members add to their groups {abs(self.whole_cost):.1%} {more}"
        return said

    def __repr__(self) -> str:
        return f"<Price: {self.n_groups} groups: {self.words()}>"


def _share(error: float, free: float) -> float:
    """By which share an error is above another."""
    return error / free - 1.0 if free > 0.0 else (0.0 if error == free else np.nan)


def further(limits: FloatArray, loss: FloatArray) -> FloatArray:
    """Limits, and more of them up to the end of a path whose merges have these losses.

    Between the last finite limit and infinity a path may go from hundreds of groups to one: limits
    that leave about two thirds of the groups of the one before, and so on.
    """
    last = float(limits[np.isfinite(limits)].max(initial=-np.inf))
    if last == -np.inf or limits.max() < np.inf or not loss.size:
        return limits
    worst = np.maximum.accumulate(loss)
    merges, added = int(np.count_nonzero(worst <= last)), []
    left = loss.size + 1 - merges  # groups, as if the path ended at one
    while (left := min(left - 1, int(np.ceil(left / STEP)))) > 1:
        at = loss.size + 1 - left
        # Between the losses before and after, to six digits, so that rounding decides nothing:
        # where the two agree to so many there is no limit between them.
        middle = float(f"{0.5 * worst[at - 1] + 0.5 * worst[at]:.6g}")
        if worst[at - 1] <= middle < worst[at]:
            added.append(middle)
    some = np.array(added)
    some = some[(some > last) & np.isfinite(some)]
    return np.unique(np.concatenate((limits, some)))


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

    Not the fewest groups among those about as good, as for targets: with as many inputs as tasks
    with their own rows have, the best pairs of many are mostly luck, and folds show it clearly.
    """
    best = np.flatnonzero(curve.fewest_groups(curve.best))
    # Neighbours only: the same error further off is a coincidence.
    run = best[: 1 + int(np.argmax(np.append(np.diff(best) > 1, True)))]
    return int(run[(run.size - 1) // 2])
