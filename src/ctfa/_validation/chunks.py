"""What is refused, and said, of data in chunks, on a device, or in pieces."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from ctfa._validation.data import Targets, read_target_weight, require_same_targets
from ctfa._validation.numbers import are_moderate, column_name, require_plain_numbers, reshape
from ctfa._validation.own import is_column
from ctfa.core.moments import DOUBTFUL_SQUARE
from ctfa.core.types import FloatArray

NO_PIECES = "the iterable of pieces gave none: an iterator can be used once; make it anew."
NO_ROWS = "it has no rows that count: leave it out."
NO_WEIGHT = (
    "sample_weight is zero for every row, so nothing is left to judge: give the rows that count a "
    "positive weight."
)
#: What a piece may be called by.
PIECES = (
    "(X, y), (X, y, sample_weight), or a dictionary of these and of what else partial_fit takes"
)
PIECES_OF_TASKS = (
    "(X, y, tasks), (X, y, tasks, sample_weight), or a dictionary of these (X with a column of "
    "tasks: (X, y) and tasks= beside the iterable)"
)


def refuse_unless(holds: Any, fault: str) -> None:
    """Refuse data in the words of the fault."""
    if not holds:
        raise ValueError(fault)


def tell_input_names(estimator: Any, n_features: int, labels: Any) -> None:
    """Let an estimator know its features, as scikit-learn would from the same columns in memory."""
    estimator.n_features_in_ = n_features
    if labels is not None and all(isinstance(label, str) for label in labels):
        estimator.feature_names_in_ = np.asarray(labels, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def refuse_kind(kind: Any, what: str) -> None:
    """Refuse an array of dates, or of numbers of two parts, by its dtype."""
    if getattr(kind, "kind", "") in ("m", "M"):
        require_plain_numbers(np.empty(0, dtype=kind), what)
    if "complex" in str(kind):
        raise ValueError(
            f"{what} holds numbers of {kind}. Complex data not supported: pass the real and the "
            "imaginary parts as columns of their own."
        )


def require_two_dimensions(table: Any, what: str) -> None:
    """Refuse a vector, or nothing, as inputs."""
    if table is None:
        raise ValueError(f"{what} is None: pass an array or data frame of numbers.")
    if table.ndim != 2:
        # The first words are scikit-learn's, which its users may look for.
        raise ValueError(
            f"Expected 2D array, got 1D array instead: {what} has one dimension. {reshape(what)}"
        )


def require_some_columns(n_columns: int, what: str) -> None:
    """Refuse a table without columns."""
    if not n_columns:
        if what == "baseline":
            raise ValueError("baseline has no columns: leave it out.")
        raise ValueError(f"{what} has 0 columns (0 feature(s)): pass at least one column.")


def require_unique_labels(labels: Any, what: str) -> None:
    """Refuse a frame in which two columns have the same name."""
    for label, count in Counter([] if labels is None else labels).items():
        if count > 1:
            raise ValueError(
                f"Expected unique column names, and {label!r} is that of {count} columns of "
                f"{what}: rename or drop all but one."
            )


def require_one_weight_each(shape: tuple[Any, ...]) -> None:
    """Refuse weights of the rows that are a table."""
    if len(shape) != 1:
        raise ValueError(
            f"sample_weight has shape {tuple(shape)}: pass one weight for each row of X, in one "
            "dimension."
        )


def require_one_target(n_targets: int) -> None:
    """Refuse several targets where one is meant."""
    if n_targets != 1:
        raise ValueError(
            f"y has {n_targets} columns and should be a 1d array: pass one target, or use "
            "CTFARegressor for several."
        )


def require_some_rows(n_rows: int) -> None:
    """Refuse data without rows to learn from."""
    if n_rows < 2:
        raise ValueError(
            f"X has {n_rows} rows that count, and two or more are needed: pass more rows, or "
            "positive weights."
        )


def require_same_heights(heights: Mapping[str, int]) -> None:
    """Refuse a chunk that has other numbers of rows in some tables than in the inputs."""
    for name, n_rows in heights.items():
        if n_rows != heights["X"]:
            raise ValueError(
                f"a chunk of {name} has {n_rows} rows where that of X has {heights['X']}: pass "
                "the same samples in all, in chunks of the same rows."
            )


def require_all_rows(n_read: int, n_known: int | None) -> None:
    """Refuse sums of another number of rows than the collection said it has."""
    if n_known is not None and n_read != n_known:
        raise RuntimeError(
            f"X has {n_known} rows and {n_read} were read: a chunk did not hold what the "
            "collection says, or changed meanwhile. Nothing was fitted; mend the chunks' sizes."
        )


def require_moderate(size: FloatArray, what: str, labels: Any) -> None:
    """Refuse columns whose squares are too large or too small to compute with."""
    bad = np.flatnonzero(~are_moderate(size))
    if bad.size:
        raise ValueError(
            f"Input {what} has numbers of about {size[bad[0]]:.0e} in column "
            f"{column_name(int(bad[0]), labels)}: their squares cannot be computed with; use other "
            "units."
        )


def size_of_sums(n_columns: int, n_classes: int) -> int:
    """Bytes that sums of products take while they are added up."""
    return 2 * 8 * n_columns**2 * n_classes


def require_room_for_sums(n_columns: int, n_classes: int, limit: int) -> None:
    """Refuse tables so wide that sums of products of their columns would not fit in memory."""
    needed = size_of_sums(n_columns, n_classes)
    if needed > limit:
        raise ValueError(
            f"X and y have {n_columns} columns, and their sums of products in {n_classes} parts "
            f"take {needed / 2**30:.1f} GiB, more than the {limit / 2**30:.0f} GiB allowed: give a "
            "number for max_loss (no folds), fewer columns, or the rows themselves "
            "(fit(X.compute(), y.compute())) where these fit in memory."
        )


def require_room_for_rows(n_rows: int, n_columns: int, limit: int, why: str, instead: str) -> None:
    """Refuse to gather more rows than fit in memory."""
    needed = 8 * n_rows * n_columns
    if needed > limit:
        raise ValueError(
            f"{why} needs the rows themselves and not only their sums: {n_rows} rows of "
            f"{n_columns} columns take {needed / 2**30:.1f} GiB, more than the "
            f"{limit / 2**30:.0f} GiB that are gathered without being asked. {instead}, or pass "
            "the rows where they fit in memory: fit(X.compute(), y.compute())."
        )


def warn_if_sums_are_doubtful(inputs: float, targets: float, offset: float = 0.0) -> None:
    """Say when sums of squares have lost digits that rows would have kept.

    Of inputs, and of targets with them, the smallest eigenvalues of cross-products at unit length;
    of all columns the largest mean in units of its spread.
    """
    if inputs < DOUBTFUL_SQUARE:
        what, instead = "columns of X (and of the baseline) depend on each other", "columns"
    elif targets < DOUBTFUL_SQUARE:
        what, instead = "targets depend on each other, or on columns of X,", "targets"
    else:
        warnings.warn(
            f"a column has a mean of {offset:.0e} times its spread: rows that stand in for others "
            f"have {max(16 - round(np.log10(offset)), 0)} digits of its spread left, and merges "
            "may differ from those of the rows. Subtract a number near its mean first.",
            RuntimeWarning,
            stacklevel=5,
        )
        return
    share = np.sqrt(max(min(inputs, targets), 0.0))
    warnings.warn(
        f"{what} up to {max(share, 1e-8):.0e} of their spread: sums of squares see a part below "
        "1e-5 with few digits and below 1e-7 not at all, where rows in memory would, and merges "
        f"may differ. Where {instead} depend on each other by construction (indicators of all "
        "months) nothing is wrong; drop one to be told no more.",
        RuntimeWarning,
        stacklevel=5,
    )


def refuse_to_go_on(kind: str) -> NoReturn:
    """Refuse to go on from a model that knows no sums of its rows; a new one may be begun.

    As scikit-learn's own error of this kind it is an ``AttributeError`` too: to those who ask, such
    as its checks, a model made by ``fit`` has no ``partial_fit``.
    """
    raise NotFittedError(
        f"this {kind} was made by fit, which keeps no sums of its rows: partial_fit would leave "
        "them out. Start with partial_fit in a new estimator (clone(model)), or use fit on all "
        "rows."
    )


def refuse_pieces_in_search(kind: str) -> NoReturn:
    """Refuse to stream rows through a search over limits of both phases."""
    raise AttributeError(
        f"{kind} takes no pieces: the folds of its search hold the rows themselves. Use "
        "CTFARegressor, whose max_loss='auto' is chosen on the folds of a stream."
    )


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


def refuse_folds(cv: Any, n_rows: int) -> NoReturn:
    """Refuse folds of less than two rows."""
    raise ValueError(
        f"cv={cv!r} cannot split {n_rows} rows: two folds or more are needed, of two rows or more "
        "each."
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
