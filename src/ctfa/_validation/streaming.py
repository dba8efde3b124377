"""What is refused of rows that come piece by piece, or go again."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from ctfa._validation.data import Targets, require_same_targets
from ctfa._validation.target_weight import read_target_weight
from ctfa._validation.tasks import is_column
from ctfa.core.types import FloatArray

#: Squares of a column that remain, as a share of the most there have been, to be trusted.
TRUSTED_SHARE = 1e-8
#: What columns have beside each other, in units of its rounding: below, it is refused or doubted.
TRUSTED_DIRECTION = 1e4
DOUBTED_DIRECTION = 1e6
NOT_ADDED = (
    "the rows to forget are not among those that were added: without them sums of squares would "
    "be those of no data. Give rows as they were added, with the same weights and baseline."
)
#: What a piece may be called by.
PIECES = (
    "(X, y), (X, y, sample_weight), or a dictionary of these and of what else partial_fit takes"
)
PIECES_OF_TASKS = (
    "(X, y, tasks), (X, y, tasks, sample_weight), or a dictionary of these (X with a column of "
    "tasks: (X, y) and tasks= beside the iterable)"
)


def refuse_to_go_on(kind: str) -> NoReturn:
    """Refuse to go on from a model that knows no sums of its rows; a new one may be begun.

    As scikit-learn's own error of this kind it is an ``AttributeError`` too: to those who ask, such
    as its checks, a model made by ``fit`` has no ``partial_fit``.
    """
    raise NotFittedError(
        f"this {kind} was made by fit, which keeps no sums of its rows: partial_fit would leave "
        "them out, and forget has nothing to subtract from. Start with partial_fit in a new "
        "estimator (clone(model)), or use fit on all rows."
    )


def refuse_pieces_in_search(kind: str) -> NoReturn:
    """Refuse to stream rows through a search over limits of both phases."""
    raise AttributeError(
        f"{kind} takes no pieces: the folds of its search hold the rows themselves. Use "
        "CTFARegressor, whose max_loss='auto' is chosen on the folds of a stream."
    )


def require_rows_to_forget(kind: str, sums: Any) -> None:
    """Refuse to forget before anything was added."""
    if sums is None:
        raise ValueError(f"this {kind} has no rows yet to forget: start it with partial_fit.")


def refuse_streaming(why: str | None) -> None:
    """Refuse options that need the rows themselves."""
    if why is not None:
        raise ValueError(
            f"{why} needs the rows themselves, and partial_fit keeps only their sums: use fit on "
            "all rows, or an option that sums can answer (solver='ols', connectivity as a matrix)."
        )


def refuse_streamed_regressor(regressor: Any, known: Sequence[type]) -> None:
    """Refuse a regressor that learns from rows."""
    names = ", ".join(f"{kind.__name__}()" for kind in known)
    raise ValueError(
        f"regressor={type(regressor).__name__}() learns from the rows themselves, and partial_fit "
        f"keeps only their sums: use one of {names}, or fit on all rows."
    )


def refuse_streamed_gaps(what: str, row: int, column: str) -> None:
    """Refuse missing values, of targets or of inputs, where a fit would take them."""
    raise ValueError(
        f"{what} contains missing values (first at row {row}, {column}), and sums over the rows of "
        "one target say nothing of another's: fill the gaps, drop those rows, or use fit on all "
        "rows."
    )


def require_fold_number(cv: Any, purpose: str) -> None:
    """Refuse a splitter, which cannot know rows that are still to come."""
    what = "max_loss='auto' of TargetAggregator" if purpose == "limit" else "FeatureAggregator"
    if isinstance(cv, bool) or not isinstance(cv, Integral):
        raise ValueError(
            f"cv={cv!r} of {what} cannot divide rows that are still to come: use a number of folds "
            "in partial_fit, or give a number for max_loss (no folds)."
        )
    if int(cv) < 2:
        raise ValueError(f"cv={cv!r} of {what} gives no folds: use two or more.")


def require_same_folds(folds: Mapping[str, int], wanted: Mapping[str, Any]) -> None:
    """Refuse other folds than the sums were begun with."""
    for purpose, cv in wanted.items():
        require_fold_number(cv, purpose)
        if folds.get(purpose) != int(cv):
            was = f"{folds[purpose]} folds" if purpose in folds else "no folds"
            raise ValueError(
                f"cv={cv!r} is wanted now, and the sums were begun with {was}: rows that are gone "
                "cannot be divided anew. Set the options back, or start anew on all rows."
            )


def require_folds_held(n_folds: int, number: int, n_rows: int, purpose: str) -> None:
    """Refuse folds of less than two rows; those that choose a limit may be joined."""
    if n_folds < 2 or (purpose != "limit" and n_folds < number):
        raise ValueError(
            f"cv={number} cannot split {n_rows} rows: two folds or more are needed, of two rows "
            "or more each."
        )


def read_columns(estimator: Any, width: int, labels: Any, *, reset: bool) -> None:
    """Compare the features of a collection with those seen before, or remember them on reset."""
    rows: Any = np.empty((0, width))
    if labels is not None:
        # A collection with labels holds frames of pandas.
        rows = importlib.import_module("pandas").DataFrame(rows, columns=list(labels))
    validate_data(estimator, rows, reset=reset, skip_check_array=True)


def require_same_piece(
    targets: Targets, n_baseline: int, seen: Targets, n_baseline_seen: int
) -> None:
    """Refuse other targets, or another baseline, than those of the first rows."""
    require_same_targets(targets, seen.names, named=seen.labels is not None)
    if n_baseline != n_baseline_seen:
        raise ValueError(
            f"baseline has {n_baseline or 'no'} columns and the first rows had "
            f"{n_baseline_seen or 'none'}: pass the same columns in the same order every time."
        )


def require_same_target_weight(target_weight: Any, seen: Targets) -> None:
    """Refuse other weights of targets than those of the first call."""
    if target_weight is None:
        return
    weights = read_target_weight(target_weight, seen._replace(weights=None)).weights
    is_same = (
        weights is None
        if seen.weights is None
        else np.allclose(seen.weights, 1.0 if weights is None else weights)
    )
    if not is_same:
        raise ValueError(
            "target_weight differs from that of the first call, which holds for all: leave it out, "
            "or start anew."
        )


def require_pieces(given: Any, names: Sequence[str]) -> None:
    """Refuse what is no iterable of pieces, and arguments that belong into them."""
    X = given.X
    is_table = hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, (str, bytes, Mapping))
    if is_table or not hasattr(X, "__iter__"):
        raise ValueError(
            f"this estimator requires y to be passed, but the target y is None (X is a "
            f"{type(X).__name__}): pass one row of targets for each row of X, or, for many pieces, "
            f"an iterable of {_pieces_like(names)}."
        )
    for name in ("sample_weight", "baseline", "tasks"):
        value = getattr(given, name)
        if value is not None and not (name == "tasks" and is_column(value)):
            raise ValueError(f"{name} was given beside an iterable of pieces: put it into each.")


def read_piece_names(piece: Any, names: Sequence[str]) -> dict[str, Any]:
    """Arguments of one piece, by name; tuples have two of them, or go on up to the weights."""
    if isinstance(piece, Mapping):
        unknown = [name for name in piece if name not in names]
        if unknown or any(piece.get(name) is None for name in names[:2]):
            raise ValueError(
                f"a dictionary with {', '.join(map(repr, piece)) or 'nothing'} was given: it needs "
                f"{names[0]!r} and {names[1]!r}, and may have {', '.join(map(repr, names[2:]))}."
            )
        return dict(piece)
    if isinstance(piece, tuple) and 2 <= len(piece) <= names.index("sample_weight") + 1:
        return dict(zip(names, piece, strict=False))
    size = f" of {len(piece)}" if isinstance(piece, (tuple, list)) else ""
    raise ValueError(f"a {type(piece).__name__}{size} was given: a piece is {_pieces_like(names)}.")


def _pieces_like(names: Sequence[str]) -> str:
    return PIECES_OF_TASKS if "tasks" in names else PIECES


def require_any_piece(n_pieces: int) -> None:
    """Refuse an iterable that gave nothing."""
    if not n_pieces:
        raise ValueError(
            "the iterable of pieces gave none: an iterator can be used once; make it anew."
        )


def require_rows_in_piece(n_rows: int) -> None:
    """Refuse a piece without rows that count."""
    if n_rows < 1:
        raise ValueError("it has no rows that count: leave it out.")


def require_known_piece(is_known: bool) -> None:
    """Refuse rows that folds cannot be freed of."""
    if not is_known:
        raise ValueError(
            "these rows were not added as one piece, so it is not known which fold each of them "
            "is in: forget pieces as they came (the same rows in the same order, with the same "
            "weights and baseline; a Dask collection in the same chunks), or use a number for "
            "max_loss (no folds) from the start."
        )


def require_not_forgotten(is_there: bool) -> None:
    """Refuse rows that went already."""
    if not is_there:
        raise ValueError(
            "these rows were forgotten already and not added again since. If they came again in "
            "other pieces, forget them in those."
        )


def require_more_rows_than(n_rows: int, n_held: int) -> None:
    """Refuse to forget all rows there are, or more."""
    if n_rows > n_held:
        raise ValueError(
            f"{n_rows} rows were given to forget and there are {n_held}: give rows that were added "
            "before."
        )
    if n_rows == n_held:
        raise ValueError(
            f"all {n_rows} rows were given to forget, and nothing would be left: use clone() to "
            "start anew."
        )


def require_digits_left(left: FloatArray, most: FloatArray, names: Sequence[str]) -> None:
    """Refuse what is left of a column when that is the rounding of what was there."""
    few = np.flatnonzero((most > 0.0) & (left < TRUSTED_SHARE * most))
    if few.size:
        column = int(few[0])
        raise ValueError(
            f"what remains of {names[column]} has {left[column] / most[column]:.0e} of the squares "
            "that were there, and no digits to trust: sums cannot forget that much. Start anew "
            "with partial_fit on the rows that remain."
        )


def require_digits_of_direction(digits: float, names: Sequence[str]) -> None:
    """Refuse what columns have beside each other when that is rounding; warn where it is near.

    ``digits`` is the share of squares that the weakest direction has, in units of its rounding.
    """
    if digits >= DOUBTED_DIRECTION:
        return
    what = (
        f"{' and '.join(names)} nearly depend on each other or on others, and the squares that "
        "were there have been so much larger than those that remain that"
    )
    anew = "start anew with partial_fit on the rows that remain"
    if digits < TRUSTED_DIRECTION:
        raise ValueError(
            f"{what} no digits are left of the difference: sums cannot forget that much. "
            f"{anew[0].upper()}{anew[1:]}."
        )
    warnings.warn(
        f"{what} few digits are left of the difference, and merges may differ: {anew} to be sure.",
        RuntimeWarning,
        stacklevel=7,
    )
