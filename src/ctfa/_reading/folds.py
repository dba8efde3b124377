"""Folds: any splitter, counted among the rows used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import BaseCrossValidator, GroupKFold, PredefinedSplit, check_cv

from ctfa._errors import InputError, Option
from ctfa._reading.data import Sample
from ctfa._reading.numbers import warn
from ctfa._reading.options import either
from ctfa.core.criteria import FEATURE_CRITERIA, criterion_of
from ctfa.core.types import FloatArray, IntArray

#: Rows that make two folds of two.
FEWEST_TO_FOLD = 4


class BlockedKFold(BaseCrossValidator):  # type: ignore[misc]
    """Contiguous blocks of rows in the order given, with rows left out on both sides of each.

    For series, whose neighbouring rows are alike: a model that learns from rows next to a block
    has almost seen the block.

    Parameters
    ----------
    n_splits : int, default=10
        Number of blocks, each held out once.
    gap : int, default=0
        Number of rows before and after a block that are left out of its training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import BlockedKFold
    >>> for train, test in BlockedKFold(3, gap=1).split(np.zeros((9, 2))):
    ...     print(train, test)
    [4 5 6 7 8] [0 1 2]
    [0 1 7 8] [3 4 5]
    [0 1 2 3 4] [6 7 8]
    """

    def __init__(self, n_splits: int = 10, gap: int = 0) -> None:
        self.n_splits = n_splits
        self.gap = gap

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of blocks.

        Parameters
        ----------
        X, y, groups : object, default=None
            Ignored, as in scikit-learn's splitters.

        Returns
        -------
        int
        """
        return int(self.n_splits)

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Training and test rows of each block.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            Only its number of rows is used.
        y, groups : object, default=None
            Ignored, as in scikit-learn's splitters.

        Yields
        ------
        train, test : ndarray of int
            Positions of rows: those of the block, and all others less the gaps beside it.
        """
        for name, least in (("n_splits", 2), ("gap", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
                raise InputError(f"{name}={value!r}: pass a whole number of {least} or more.")
        rows = np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
        if self.n_splits > rows.size:
            raise InputError(
                f"n_splits={self.n_splits} blocks cannot be cut from {rows.size} rows."
            )
        for test in np.array_split(rows, self.n_splits):
            near = (rows >= test[0] - self.gap) & (rows <= test[-1] + self.gap)
            yield rows[~near], test


def require_foldable(criterion: Any, cv: Any) -> None:
    """Refuse folds for a criterion that needs none."""
    if not criterion_of(criterion, FEATURE_CRITERIA).on_folds:
        raise InputError(
            f"cv={cv!r} was given but criterion={criterion!r} is judged in sample: use cv=None, or "
            f"criterion={either(FEATURE_CRITERIA, 'on_folds')}."
        )


def read_folds(
    cv: Any,
    sample: Sample,
    y: FloatArray,
    groups: Any = None,
    *,
    purpose: str = "",
    option: str = "cv",
) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold, counted among the rows used.

    Rows that stand in for others come with the folds for each purpose. ``option`` is the
    name of the parameter that gave the folds.
    """
    given = Option(option, cv)
    if sample.folds is not None:
        return sample.folds[purpose]
    labels = None if groups is None else read_labels(groups, sample)
    if labels is not None and isinstance(cv, Integral):
        cv = GroupKFold(int(cv))
    try:
        splits = [
            (np.asarray(train), np.asarray(test))
            for train, test in check_cv(cv, y, classifier=False).split(sample.inputs, y, labels)
        ]
    except (TypeError, ValueError) as error:
        hint = ""
        if labels is None and _divides_by_labels(cv):
            hint = " Pass groups= to fit (through a search: params={'groups': ...})."
        said = f" cannot split {sample.n_samples} rows: {error}{hint}"
        raise InputError(given, said) from error
    # Lists count the rows given, a splitter divides those used.
    if isinstance(cv, PredefinedSplit) or not (isinstance(cv, Integral) or hasattr(cv, "split")):
        splits = [
            (_rows_used(train, sample, option), _rows_used(test, sample, option))
            for train, test in splits
        ]
    if not splits:
        raise InputError(given, " gives no folds: use two or more.")
    for number, (train, test) in enumerate(splits):
        if train.size < 2 or test.size < 2:
            raise InputError(
                f"fold {number} of ",
                given,
                f" has {train.size} training and {test.size} test rows; two of each or more are "
                "needed. Use fewer folds.",
            )
    return splits


def _divides_by_labels(cv: Any) -> bool:
    """Whether a splitter says that it needs labels of the rows."""
    told = getattr(cv, "get_metadata_routing", None)
    return told is not None and bool(told().consumes("split", ["groups"]))


def read_labels(groups: Any, sample: Sample) -> Any:
    """Labels of the rows used, for splitters that keep rows of one label together; None without."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (sample.n_given,):
        raise InputError(
            f"groups has shape {groups.shape} but X has {sample.n_given} rows: pass one label for "
            "each row."
        )
    return groups if sample.used is None else groups[sample.used]


def read_cut_folds(
    cv: Any,
    sample: Sample,
    values: FloatArray,
    groups: Any,
    *,
    needed: bool = True,
    refits: bool = False,
) -> list[tuple[IntArray, IntArray]] | None:
    """Folds to choose ``max_loss`` on; a number of them is lowered until each holds two rows.

    Rows of one label are kept together, and count as one. None where not even two folds would:
    after a warning where they are ``needed`` to choose a limit.
    """
    if isinstance(cv, Integral) and int(cv) > 1 and sample.n_samples < FEWEST_TO_FOLD:
        if needed:
            instead = "The usual limit is used; give max_loss, or more rows."
            if refits:  # without folds there is nothing to judge by, whatever the limit
                instead = "Nothing is merged; pass more rows."
            warn(
                Option("max_loss", "auto"),
                f" cannot be chosen on {sample.n_samples} rows: two folds of two rows each are the "
                f"least. {instead}",
            )
        return None
    if isinstance(cv, Integral):
        cv = min(int(cv), max(2, sample.n_samples // 2))
        labels = None if groups is None else read_labels(groups, sample)
        if labels is not None and sample.folds is None:
            n_labels = len(np.unique(labels))
            if n_labels == 1 and not needed:
                return None
            cv = min(cv, max(2, n_labels))
    return read_folds(cv, sample, values, groups, purpose="limit")


def warn_if_any_is_short(sample: Sample, splits: Sequence[tuple[IntArray, IntArray]]) -> None:
    """Warn once, of all rows or of the shortest fold, that least squares cannot be judged."""
    shortest = sample.take(min((train for train, _ in splits), key=len))
    (sample if sample.is_short else shortest).warn_if_short()


def warn_if_folds_are_short(
    sizes: Sequence[tuple[int, int]], full_rank: int, fallback: float
) -> bool:
    """Whether the training rows of some fold leave no degrees of freedom; sizes: rows and rank."""
    for number, (n_rows, rank) in enumerate(sizes):
        if n_rows <= rank + 2:
            warn(
                Option("max_loss", "auto"),
                f" cannot be chosen: fold {number} has {n_rows} training rows and least squares on "
                f"these features needs {full_rank + 3}. ",
                Option("max_loss", fallback),
                " is used, which suits most data; give it, or use longer folds or fewer features.",
            )
            return True
    return False


def require_error_score(error_score: Any) -> None:
    """Refuse an ``error_score`` that is neither a number nor "raise"."""
    raises = isinstance(error_score, str) and error_score == "raise"
    if not raises and (isinstance(error_score, bool) or not isinstance(error_score, Real)):
        raise InputError(
            f"error_score={error_score!r} is not known: use a number, np.nan or 'raise'."
        )


def require_enough_fits(
    mean: FloatArray,
    failed: Sequence[Sequence[str]],
    params: Sequence[Mapping[str, Any]],
    error_score: Any,
) -> None:
    """Warn of fits of a search that failed, and refuse to choose where no limits have a mean.

    ``failed`` says why, fold by fold for each of the limits in ``params``; "" for those that did
    not.
    """
    reasons = [
        (fold, why, [at for at, other in enumerate(found) if other == why])
        for fold, found in enumerate(failed)
        for why in dict.fromkeys(filter(None, found))
    ]
    n_fits, n_failed = len(failed) * len(params), sum(len(at) for _, _, at in reasons)
    if not n_failed:
        return
    if n_failed == n_fits or np.isnan(mean).all():
        fold, why, _ = reasons[0]
        raise InputError(
            f"{n_failed} of {n_fits} fits of the search failed, and no limits have a score in "
            f"every fold to be chosen by. The first was in fold {fold} of cv: {why}"
        )
    lines = "\n".join(
        f"fold {fold} of cv, {_limits(at, params)}: {why}" for fold, why, at in reasons
    )
    warn(
        f"{n_failed} of {n_fits} fits of the search failed and have the score {error_score!r} "
        f"(error_score='raise' would end the search):\n{lines}",
        category=FitFailedWarning,
    )


def _limits(at: Sequence[int], params: Sequence[Mapping[str, Any]]) -> str:
    """Which limits these are, in short."""
    if len(at) == len(params):
        return "all limits"
    first = ", ".join(f"{name}={value:g}" for name, value in params[at[0]].items())
    return first if len(at) == 1 else f"{first} and {len(at) - 1} more"


def _rows_used(rows: Any, sample: Sample, option: str) -> IntArray:
    """Positions of the rows given among the rows used."""
    rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, np.intp)
    if rows.size and not -sample.n_given <= rows.min() <= rows.max() < sample.n_given:
        raise InputError(
            Option(option),
            f" names row {rows.max()} but X has {sample.n_given} rows: make the folds for these "
            "rows.",
        )
    if sample.used is None:
        return np.asarray(rows)
    position = np.cumsum(sample.used) - 1
    return np.asarray(position[rows[sample.used[rows]]])


def warn_of_two_folds(n_folds: int, fewest: int) -> None:
    """Warn of too few folds to choose a limit by models fitted without pairs of them."""
    warn(
        Option("max_loss", "auto"),
        f" cannot be chosen on {n_folds} folds by a regressor that is fitted without two of them "
        f"at a time: merges are made while they break even. Use {fewest} folds or more, or give ",
        Option("max_loss"),
        ".",
    )
