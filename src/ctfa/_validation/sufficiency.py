"""Data that leave nothing to decide, or only rounding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ctfa._errors import InputError, Option
from ctfa._validation.numbers import first_of, warn
from ctfa.core.design import Design
from ctfa.core.spaces.paired import pivots
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: Relative spread below which a target is constant and its variation rounding.
FLAT = 1e-14
#: Degrees of freedom above which the noise can be judged.
SPARE = 2
#: How the sentence begins that says so where there are not.
SHORT = "X has .* rows to learn from"
#: How the sentence begins on inputs that nearly depend on each other.
DOUBTFUL = "X has a condition number"
#: Targets up to which a number is kept for every two of them.
LARGEST_MATRIX = 10_000
#: Pivots of inner products of unit columns below which columns may depend on each other.
SUSPECT = 1e-12


def require_freedom(design: Design, way_out: str, n_spent: int = 0) -> None:
    """Refuse data that leave no degrees of freedom for the noise.

    The rows of the design are those that confounds leave of ``n_spent`` more.
    """
    n_samples, n_inputs, rank = design.n_samples, design.n_inputs, design.rank
    if n_samples > rank + SPARE:
        return
    redundant = rank < min(n_inputs, n_samples - 1)
    rank_text, needed = (f" (rank {rank})", rank) if redundant else ("", n_inputs)
    beside = f" beside confounds of rank {n_spent}" if n_spent else ""
    raise InputError(
        f"X has n_samples={n_samples + n_spent} rows and {n_inputs} features{rank_text}{beside}: "
        "least squares leaves too few degrees of freedom for the noise; "
        f"{needed + n_spent + 3} rows or more are needed. Use {way_out}, or fewer features."
    )


def keep_apart(n_rows: int, n_features: int, rank: int, n_tasks: int, *, chosen: bool) -> None:
    """Say that tasks, all pooled, leave no degrees of freedom for the noise.

    Where the limit is ``chosen`` here, nothing merges; one that was given would merge everything.
    """
    rank_text = f" (rank {rank} within tasks)" if rank < n_features else ""
    fault = (
        f"X has {n_rows} rows and {n_features} features{rank_text} for {n_tasks} tasks: common "
        "slopes and an offset for each task leave too few degrees of freedom for the noise, so "
        f"nothing can be said of a merge; {rank + n_tasks + SPARE + 1} rows or more are needed."
    )
    if not chosen:
        raise InputError(
            f"{fault} Use fewer features or more rows, or targets='passthrough' with a regressor "
            "such as RidgeCV() to keep every task by itself."
        )
    warn(
        f"{fault} ",
        Option("max_loss", "auto"),
        " keeps every task by itself, and the default regressor is ridge regression.",
    )


def require_columns_freedom(design: Design) -> None:
    """Refuse data on which the authors' count of degrees of freedom is not positive."""
    if design.n_samples <= design.n_inputs + 2:
        raise InputError(
            f"X has n_samples={design.n_samples} rows and {design.n_inputs} features: the paper's "
            f"formula counts every feature, also redundant ones, and needs {design.n_inputs + 3} "
            "rows or more. Use criterion='risk', which counts the rank, or fewer features."
        )


def require_matrix_size(n_targets: int, what: str) -> None:
    """Refuse a matrix of all pairs that would not fit in memory."""
    if n_targets > LARGEST_MATRIX:
        raise InputError(
            f"{what} holds a number for every two of {n_targets} targets, "
            f"{n_targets**2 * 8 / 2**30:.0f} GiB: use it with {LARGEST_MATRIX} targets or fewer."
        )


def is_varying(values: FloatArray) -> BoolArray:
    """Which columns are not constant, up to rounding; gaps do not count."""
    gaps = np.isnan(values)
    low = np.where(gaps, np.inf, values).min(axis=0)
    high = np.where(gaps, -np.inf, values).max(axis=0)
    return np.asarray(high - low > FLAT * np.maximum(high, -low))


def require_varying(values: FloatArray, names: Sequence[str]) -> None:
    """Refuse constant targets: there is nothing to explain, and R2 is not defined."""
    flat = np.flatnonzero(~is_varying(values))
    if flat.size:
        raise InputError(
            f"target {first_of(flat, names)} is constant over the rows used: there is nothing to "
            "predict. Leave it out."
        )


def require_observed(values: FloatArray, names: Sequence[str], needed: int, why: str) -> None:
    """Refuse targets with too few observed rows."""
    short = _too_short(values, names, needed)
    if short:
        raise InputError(
            f"{short} rows: {why} needs {needed} or more. Leave it out, fill it, or use fewer "
            "features."
        )


def require_observed_in_folds(
    targets: Any, splits: Sequence[tuple[IntArray, IntArray]], needed: int
) -> None:
    """Refuse folds in which a target with gaps has too few rows to learn from."""
    if not np.isnan(targets.values).any():
        return
    for number, (train, _) in enumerate(splits):
        short = _too_short(targets.values[train], targets.names, needed)
        if short:
            raise InputError(
                f"fold {number} of cv: {short} of its {train.size} training rows; least squares "
                f"needs {needed}. Use other folds, or leave it out."
            )


def _too_short(values: FloatArray, names: Sequence[str], needed: int) -> str:
    """Name the first target observed too seldom, and how often; empty where there is none."""
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    short = np.flatnonzero(counts < needed)
    if not short.size:
        return ""
    return f"target {first_of(short, names)} is observed in {counts[short[0]]}"


def require_any_score(scores: Sequence[float]) -> None:
    """Refuse to score where no target is observed."""
    if np.isnan(scores).all():
        raise InputError("no target is observed in two rows or more: R2 is not defined.")


def require_judges(held_out: Sequence[FloatArray], name: str) -> None:
    """Refuse folds none of which can judge: the target must vary over the test rows of one."""
    if not any(is_varying(target[:, None])[0] for target in held_out):
        raise InputError(
            f"target {name!r} is constant over the test rows of every fold: no R2 is defined. "
            "Shuffle the folds or use fewer of them."
        )


def warn_if_doubtful(designs: Sequence[Design], what: str = "X") -> None:
    """Say when rounding of the inputs could decide."""
    if any(design.is_doubtful for design in designs):
        worst = min(design.rcond for design in designs if design.rank)
        warn(
            f"{what} has a condition number of about {1.0 / worst:.0e}: above 1e9 rounding may "
            "decide merges. Drop or average features that are copies up to noise."
        )


def may_be_doubtful(columns: FloatArray) -> BoolArray:
    """Which tables ``(tables, rows, columns)``, centred, are worth factoring to be sure.

    From inner products, which are cheap and know no more than half of the digits.
    """
    gram = columns.swapaxes(1, 2) @ columns
    square = np.diagonal(gram, axis1=1, axis2=2)
    length = np.sqrt(np.where(square > 0.0, square, 1.0))
    unit = gram / (length[:, :, None] * length[:, None, :])
    step = np.arange(unit.shape[1])
    unit[:, step, step] = 1.0
    return np.asarray((pivots(unit) < SUSPECT).any(axis=1))
