"""What is refused, and said, of data that are read in chunks or lie on a device."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from ctfa._validation.data import LARGEST, SMALLEST, require_plain_numbers
from ctfa.core.moments import DOUBTFUL_SQUARE
from ctfa.core.types import FloatArray


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


def read_numbers(data: Any, what: str) -> FloatArray:
    """Objects or text as float64."""
    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{what} holds something that is not a number ({error}): encode or drop columns that "
            "are not numbers."
        ) from error


def require_two_dimensions(table: Any, what: str) -> None:
    """Refuse a vector, or nothing, as inputs."""
    if table is None:
        raise ValueError(f"{what} is None: pass an array or data frame of numbers.")
    if table.ndim != 2:
        # The first words are scikit-learn's, which its users may look for.
        raise ValueError(
            f"Expected 2D array, got 1D array instead: {what} has one dimension. Reshape your data "
            f"with {what}.reshape(-1, 1) if it is a single feature, {what}.reshape(1, -1) if it is "
            "a single row."
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


def refuse_number(
    row: int,
    column: int,
    value: float,
    is_local: bool,
    what: str,
    labels: Any,
    *,
    gaps: bool = False,
) -> None:
    """Refuse a number that is not finite, and say where it is, in all rows or in its chunk.

    With ``gaps`` NaN would have been a missing value.
    """
    name = str(column) if labels is None else repr(str(labels[column]))
    where = f"row {row}{' of a chunk' if is_local else ''}, column {name}"
    if gaps:
        raise ValueError(f"Input {what} contains infinity at {where}: use NaN for missing values.")
    kind = "NaN" if np.isnan(value) else "infinity"
    raise ValueError(
        f"Input {what} contains NaN or infinity (first {kind} at {where}): fill the gaps or drop "
        "those rows or columns first."
    )


def require_some_weight(*, has_weight: bool) -> None:
    """Refuse a score of rows that all have weight zero."""
    if not has_weight:
        raise ValueError(
            "sample_weight is zero for every row, so nothing is left to judge: give the rows that "
            "count a positive weight."
        )


def require_moderate(size: FloatArray, what: str, labels: Any) -> None:
    """Refuse columns whose squares are too large or too small to compute with."""
    bad = np.flatnonzero(~((size < LARGEST) & ((size > SMALLEST) | (size == 0.0))))
    if bad.size:
        column = int(bad[0])
        name = str(column) if labels is None else repr(str(labels[column]))
        raise ValueError(
            f"Input {what} has numbers of about {size[column]:.0e} in column {name}: their squares "
            "cannot be computed with; use other units."
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
