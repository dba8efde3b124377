"""User input into what the core accepts. All error text about data and options lives here."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
from scipy import sparse
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ctfa.core.design import Design
from ctfa.core.graph import ORDERS, Neighbours
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import FloatArray, IntArray

Option = TypeVar("Option")


class Targets(NamedTuple):
    """Targets as numbers, and what is needed to hand predictions back as they came."""

    values: FloatArray  # (n, L)
    names: tuple[str, ...]
    container: str | None  # "pandas", "polars", or None for arrays
    is_vector: bool


def read_inputs(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Features as a float64 array of finite numbers; sets the estimator's names on reset."""
    minimum = 2 if reset else 1
    try:
        values = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,
            ensure_min_samples=minimum,
        )
    except ValueError as error:
        raise _explain_text(error, "X") from error
    names = getattr(estimator, "feature_names_in_", None)
    _refuse_gaps(values, "X", names)
    return np.asarray(values)


def read_targets(Y: Any, n_samples: int | None = None, *, what: str = "Y") -> Targets:
    """Targets as a float64 array of finite numbers, one column each."""
    if Y is None:
        raise ValueError(f"this estimator requires y to be passed, but the target y is None ({what}).")
    names, container = _frame_names(Y)
    is_vector = np.ndim(Y) == 1 or (container is None and hasattr(Y, "name") and np.ndim(Y) < 2)
    try:
        values = check_array(
            Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name=what
        )
    except ValueError as error:
        raise _explain_text(error, what) from error
    if values.ndim == 1:
        values, is_vector = values.reshape(-1, 1), True
    if n_samples is not None and values.shape[0] != n_samples:
        raise ValueError(
            f"X has {n_samples} rows and {what} has {values.shape[0]}: they must describe the "
            "same samples."
        )
    if names is None:
        names = tuple(f"y{i}" for i in range(values.shape[1]))
    _refuse_gaps(values, what, names)
    return Targets(values, names, container, is_vector)


def read_vector(y: Any, n_samples: int) -> FloatArray:
    """One target as a float64 vector of finite numbers."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None.")
    try:
        vector = column_or_1d(y, dtype=np.float64, warn=True)
    except ValueError as error:
        raise _explain_text(error, "y") from error
    if vector.size != n_samples:
        raise ValueError(
            f"X has {n_samples} rows and y has {vector.size}: they must describe the same samples."
        )
    _refuse_gaps(vector.reshape(-1, 1), "y", ["y"])
    return np.asarray(vector)


def read_weights(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Weights of the rows, or None where all are equal."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("sample_weight must hold numbers, one for each row of X.") from error
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_samples} rows: pass one weight "
            "a row."
        )
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity; use 0 to leave a row out.")
    if (weights < 0.0).any():
        raise ValueError(
            f"sample_weight contains negative values (smallest {weights.min():g}); use 0 to leave "
            "a row out."
        )
    if not (weights > 0.0).any():
        raise ValueError("sample_weight is zero for every row: nothing is left to fit.")
    return None if (weights == weights[0]).all() else weights


def choose(option: Any, registry: Mapping[str, Option], what: str) -> Option:
    """Look a named option up, or take a callable as it is."""
    if isinstance(option, str) and option in registry:
        return registry[option]
    if callable(option):
        return option  # type: ignore[no-any-return]
    known = ", ".join(repr(name) for name in registry)
    raise ValueError(f"{what}={option!r} is not known; use one of {known}, or a callable.")


def require(value: Any, allowed: Sequence[Any], what: str) -> None:
    """Refuse a value that is not on the list."""
    if not any(value is option or value == option for option in allowed):
        known = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"{what}={value!r} is not known; use one of {known}.")


def not_yet(value: Any, available: Any, what: str) -> None:
    """Refuse a value that the interface reserves for a later version."""
    if not (value is available or value == available):
        raise NotImplementedError(
            f"{what}={value!r} is not in this version of ctfa yet; use {what}={available!r}."
        )


def read_number(value: Any, what: str, hint: str = "") -> float:
    """A real number, infinities allowed."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ValueError(f"{what}={value!r} must be a number{hint}.")
    if np.isnan(value):
        raise ValueError(f"{what} is NaN; pass a number{hint}.")
    return float(value)


def read_order(order: Any, space: MergeSpace, rng: Any) -> IntArray:
    """The order in which variables are taken, as a permutation."""
    if isinstance(order, str):
        return choose(order, ORDERS, "order")(space, rng)
    n_variables = space.n_variables
    try:
        permutation = np.asarray(order)
        is_permutation = np.array_equal(np.sort(permutation), np.arange(n_variables))
    except (TypeError, ValueError):
        is_permutation = False
    if not is_permutation:
        known = ", ".join(repr(name) for name in ORDERS)
        raise ValueError(
            f"order must be one of {known}, or an array holding each of 0 to {n_variables - 1} "
            "once."
        )
    return permutation.astype(np.intp)


def read_graph(connectivity: Any, variables: FloatArray, what: str) -> sparse.csr_array | None:
    """The neighbour graph of the columns of ``variables``, checked; None lets any two meet."""
    if connectivity is None:
        return None
    if callable(connectivity):
        connectivity = connectivity(variables.T)
    n_variables = variables.shape[1]
    try:
        graph = sparse.csr_array(connectivity)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "connectivity must be a sparse or dense matrix, or a callable that returns one."
        ) from error
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(f"connectivity has shape {graph.shape}; a graph is a square matrix.")
    if graph.shape[0] != n_variables:
        raise ValueError(
            f"connectivity is {graph.shape[0]} x {graph.shape[0]} but there are {n_variables} "
            f"{what}: one row and column for each."
        )
    if not np.isfinite(graph.data).all():
        raise ValueError("connectivity contains NaN or infinity; use 0 for no edge.")
    edges = sparse.csr_array(graph != 0)
    if (edges != edges.T).nnz:
        raise ValueError(
            "connectivity is not symmetric: some variable is a neighbour of another but not the "
            "other way round. Use graph.maximum(graph.T)."
        )
    edges.sum_duplicates()
    return edges


def neighbours_of(graph: sparse.csr_array | None) -> Neighbours | None:
    """A fresh graph for one scan, which merges its vertices."""
    return None if graph is None else Neighbours(graph)


def require_freedom(design: Design) -> None:
    """Refuse data that leave no degrees of freedom for the noise."""
    n_samples, n_inputs, rank = design.n_samples, design.n_inputs, design.rank
    if n_samples > rank + 2:
        return
    rank_text = "" if rank == n_inputs else f" (rank {rank})"
    raise ValueError(
        f"X has n_samples={n_samples} rows and {n_inputs} features{rank_text}: least squares leaves "
        f"too few degrees of freedom for the noise; {rank + 3} rows or more are needed. Use fewer "
        "features, or aggregate features on held-out folds first: FeatureAggregator('r2', "
        "max_loss=1e-4, cv=5)."
    )


def require_columns_freedom(design: Design) -> None:
    """Refuse data on which the authors' count of degrees of freedom is not positive."""
    if design.n_samples <= design.n_inputs + 2:
        raise ValueError(
            f"X has n_samples={design.n_samples} rows and {design.n_inputs} features: the paper's "
            f"formula counts every feature, also redundant ones, and needs {design.n_inputs + 3} "
            "rows or more. Use criterion='risk', which counts the rank, or fewer features."
        )


def require_varying(centred: FloatArray, raw: FloatArray, names: Sequence[str]) -> None:
    """Refuse constant targets: there is nothing to explain, and R2 is not defined."""
    spread = np.sqrt(np.einsum("ij,ij->j", centred, centred))
    rounding = 1e-14 * np.sqrt(centred.shape[0]) * np.abs(raw).max(axis=0, initial=0.0)
    flat = np.flatnonzero(~(spread > rounding))
    if flat.size:
        more = f" (and {flat.size - 1} more)" if flat.size > 1 else ""
        raise ValueError(
            f"target {names[flat[0]]!r}{more} is constant over the rows used: there is nothing to "
            "predict. Leave it out."
        )


def warn_if_doubtful(designs: Sequence[Design]) -> None:
    """Say when rounding of the inputs could decide."""
    worst = min((design.factors.rcond for design in designs if design.rank), default=1.0)
    if any(design.is_doubtful for design in designs):
        warnings.warn(
            f"X has a condition number of about {1.0 / worst:.0e}: above 1e9 rounding may decide "
            "merges. Drop or average features that are copies up to noise.",
            RuntimeWarning,
            stacklevel=4,
        )


def read_folds(
    cv: Any, X: FloatArray, y: FloatArray, weights: FloatArray | None
) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold; rows of weight zero do not count."""
    try:
        splits = list(check_cv(cv, y, classifier=False).split(X, y))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cv={cv!r} cannot split {X.shape[0]} rows: {error}") from error
    if weights is not None:
        used = weights > 0.0
        splits = [(train[used[train]], test[used[test]]) for train, test in splits]
    for number, (train, test) in enumerate(splits):
        if train.size < 2 or test.size < 2:
            raise ValueError(
                f"fold {number} of cv={cv!r} has {train.size} training and {test.size} test rows; "
                "R2 needs two of each or more. Use fewer folds."
            )
    return splits


def require_varying_folds(splits: Sequence[tuple[IntArray, IntArray]], y: FloatArray) -> None:
    """Refuse folds in which the target does not vary: their R2 is not defined."""
    for number, (_, test) in enumerate(splits):
        if np.ptp(y[test]) <= 1e-14 * np.abs(y[test]).max():
            raise ValueError(
                f"y is constant over the test rows of fold {number}: its R2 is not defined. "
                "Shuffle the folds or use fewer of them."
            )


def frame_like(container: str | None, values: FloatArray, names: Sequence[str], like: Any) -> Any:
    """A frame of the named library, with the rows of ``like``; the array itself without one."""
    if container is None:
        return values
    library = importlib.import_module(container)
    if container == "polars":
        return library.DataFrame(values, schema=list(names))
    index = getattr(like, "index", None)
    fits = isinstance(index, library.Index) and len(index) == len(values)
    return library.DataFrame(values, columns=list(names), index=index if fits else None)


def container_of(data: Any) -> str | None:
    """The library of a frame that can be handed back, or None."""
    return _frame_names(data)[1]


def _frame_names(data: Any) -> tuple[tuple[str, ...] | None, str | None]:
    if not nw.dependencies.is_into_dataframe(data):
        return None, None
    frame = nw.from_native(data)
    library = nw.get_native_namespace(frame).__name__
    names = tuple(str(name) for name in frame.columns)
    return names, library if library in ("pandas", "polars") else None


def _refuse_gaps(values: FloatArray, what: str, names: Sequence[str] | None) -> None:
    if np.isfinite(values).all():
        return
    row, column = map(int, np.argwhere(~np.isfinite(values))[0])
    kind = "NaN" if np.isnan(values[row, column]) else "infinity"
    where = f"column {column}" if names is None else f"column {names[column]!r}"
    raise ValueError(
        f"Input {what} contains NaN or infinity (first {kind} at row {row}, {where}): fill the "
        "gaps or drop those rows or columns first."
    )


def _explain_text(error: ValueError, what: str) -> ValueError:
    message = str(error)
    if "could not convert string" in message or "Cannot cast" in message:
        value = message.split(":")[-1].strip()
        return ValueError(
            f"{what} contains text ({value}): encode or drop columns that are not numbers."
        )
    return ValueError(message)
