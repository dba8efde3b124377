"""User input into what the core accepts. All error text about data and options lives here."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

import narwhals.stable.v1 as nw
import numpy as np
from scipy import sparse
from sklearn.model_selection import PredefinedSplit, check_cv
from sklearn.utils.validation import check_array, column_or_1d, has_fit_parameter, validate_data

from ctfa.core.design import Design
from ctfa.core.graph import ORDERS
from ctfa.core.spaces.base import MergeSpace
from ctfa.core.types import BoolArray, FloatArray, IntArray

Option = TypeVar("Option")
#: Numbers beyond this overflow when products of sums of squares are taken.
LARGEST = 1e70
#: Relative spread below which a target is constant and its variation rounding.
FLAT = 1e-14


# -- Data ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a fit that count, factored when first asked for."""

    inputs: FloatArray  # (n, D)
    weights: FloatArray | None  # positive, of sum n; None where all are equal
    used: BoolArray | None  # which of the rows given these are; None for all

    @property
    def n_samples(self) -> int:
        """Rows that count."""
        return int(self.inputs.shape[0])

    @property
    def n_given(self) -> int:
        """Rows that were given, also those of weight zero."""
        return self.n_samples if self.used is None else int(self.used.size)

    @cached_property
    def design(self) -> Design:
        """Centred and factored inputs."""
        return Design.of(self.inputs, self.weights)


class Targets(NamedTuple):
    """Targets as numbers, and what is needed to hand predictions back as they came."""

    values: FloatArray  # (n, L)
    names: tuple[str, ...]
    labels: Any  # column labels as they were given; None without any
    library: str | None  # "pandas", "polars", or None for arrays
    is_vector: bool


def read_sample(estimator: Any, X: Any, sample_weight: Any) -> Sample:
    """Features and weights of a fit; rows of weight zero are left out, as if never given."""
    inputs = read_inputs(estimator, X, reset=True)
    weights = read_weights(sample_weight, inputs.shape[0])
    if weights is None:
        return Sample(inputs, None, None)
    used = weights > 0.0
    if used.all():
        return Sample(inputs, _normalised(weights), None)
    return Sample(inputs[used], _normalised(weights[used]), used)


def read_inputs(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Features as a float64 array of finite numbers; sets the estimator's names on reset."""
    values = _as_it_is(X)
    if reset and values is not None and values.ndim == 2 and min(values.shape) > 1:
        # What scikit-learn would conclude, without its search for the kind of container.
        estimator.n_features_in_ = values.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    else:
        try:
            values = validate_data(
                estimator,
                X,
                reset=reset,
                dtype=np.float64,
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
            )
        except (TypeError, ValueError) as error:
            raise _explained(error, "X") from error
    _refuse_gaps(values, "X", getattr(estimator, "feature_names_in_", None))
    return values


def copy_input_names(source: Any, estimator: Any) -> None:
    """Let an estimator know the features that another one has seen."""
    estimator.n_features_in_ = source.n_features_in_
    if hasattr(source, "feature_names_in_"):
        estimator.feature_names_in_ = source.feature_names_in_


def read_feature_names(estimator: Any, given: Any) -> list[str]:
    """Names of the features of fit; the given ones must be the same, where fit has seen names."""
    seen = getattr(estimator, "feature_names_in_", None)
    n_features = estimator.n_features_in_
    if given is None:
        return [f"x{i}" for i in range(n_features)] if seen is None else list(seen)
    names = np.asarray(given, dtype=object)
    # In scikit-learn's words, which its users may look for.
    if seen is not None and not np.array_equal(seen, names):
        raise ValueError("input_features is not equal to feature_names_in_: leave it out.")
    if len(names) != n_features:
        raise ValueError(
            f"input_features should have length equal to number of features ({n_features}), got "
            f"{len(names)}"
        )
    return list(names)


def read_targets(
    Y: Any, n_samples: int | None = None, *, used: BoolArray | None = None, what: str = "Y"
) -> Targets:
    """Targets as a float64 array of finite numbers, one column each, of the rows used."""
    _require_given(Y, what)
    library, labels = _container(Y)
    values = _as_it_is(Y)
    if values is None or values.size == 0 or values.ndim not in (1, 2):
        try:
            values = check_array(
                Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name=what
            )
        except (TypeError, ValueError) as error:
            raise _explained(error, what) from error
    is_vector = values.ndim == 1
    if is_vector:
        values = values.reshape(-1, 1)
    _require_same_rows(values.shape[0], n_samples, what)
    prefix = what.lower()
    given = labels is not None and labels[0] is not None
    names: Iterable[str] = (
        map(str, labels) if given else (f"{prefix}{i}" for i in range(values.shape[1]))
    )
    targets = Targets(values, tuple(names), labels if given else None, library, is_vector)
    _refuse_gaps(values, what, targets.names)
    return targets if used is None else targets._replace(values=values[used])


def read_vector(y: Any, sample: Sample) -> FloatArray:
    """One target as a float64 vector of finite numbers, of the rows used."""
    _require_given(y, "y")
    try:
        vector = np.asarray(column_or_1d(y, dtype=np.float64, warn=True))
    except (TypeError, ValueError) as error:
        raise _explained(error, "y") from error
    _require_same_rows(vector.size, sample.n_given, "y")
    _refuse_gaps(vector.reshape(-1, 1), "y", ["y"])
    return vector if sample.used is None else vector[sample.used]


def read_weights(sample_weight: Any, n_samples: int) -> FloatArray | None:
    """Weights of the rows as they were given, or None where there are none."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight holds something that is not a number ({error}): pass one number for "
            "each row of X."
        ) from error
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_samples} rows: pass one weight "
            "for each row."
        )
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity: use 0 to leave a row out.")
    if (weights < 0.0).any():
        raise ValueError(
            f"sample_weight contains negative values (smallest {weights.min():g}): use 0 to leave "
            "a row out."
        )
    if not (weights > 0.0).any():
        raise ValueError(
            "sample_weight is zero for every row, so nothing is left to fit: give the rows that "
            "count a positive weight."
        )
    return weights


def hand_back(values: FloatArray, labels: Sequence[Any], like: Targets, rows: Any) -> Any:
    """Columns in the container the targets came in, with the row index of ``rows``."""
    if like.library is None:
        return values[:, 0] if like.is_vector else values
    if like.is_vector:
        return as_series(like.library, values[:, 0], labels[0], rows)
    return as_frame(like.library, values, labels, rows)


def as_frame(library: str | None, values: FloatArray, labels: Sequence[Any], rows: Any) -> Any:
    """A data frame of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        # Row by row, said aloud: a square array would be read the other way round.
        return module.DataFrame(values, schema=list(labels), orient="row")
    return module.DataFrame(values, columns=labels, index=_index(rows, len(values)))


def as_series(library: str | None, values: FloatArray, label: Any, rows: Any) -> Any:
    """A series of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        return module.Series(label, values)
    return module.Series(values, name=label, index=_index(rows, len(values)))


def library_of(data: Any) -> str | None:
    """``"pandas"`` or ``"polars"`` for their frames and series, None for anything else."""
    return _container(data)[0]


def require_width(values: FloatArray, width: int, what: str, columns: str) -> None:
    """Refuse another number of columns than fit has seen."""
    if values.shape[1] != width:
        raise ValueError(
            f"{what} has {values.shape[1]} columns but fit has seen {width} {columns}: pass one "
            "column for each, in the same order."
        )


def require_same_targets(targets: Targets, names: Sequence[str], *, named: bool) -> None:
    """Refuse other targets than fit has seen, or the same in another order."""
    require_width(targets.values, len(names), "Y", "targets")
    if named and targets.labels is not None and targets.names != tuple(names):
        first = next(i for i, name in enumerate(names) if name != targets.names[i])
        raise ValueError(
            f"the target names should match those that were passed during fit: column {first} of "
            f"Y is {targets.names[first]!r} and was {names[first]!r}; pass the same columns in "
            "the same order."
        )


# -- Data that leave nothing to decide -------------------------------------------------------------


def require_freedom(design: Design) -> None:
    """Refuse data that leave no degrees of freedom for the noise."""
    n_samples, n_inputs, rank = design.n_samples, design.n_inputs, design.rank
    if n_samples > rank + 2:
        return
    redundant = rank < min(n_inputs, n_samples - 1)
    rank_text, needed = (f" (rank {rank})", rank) if redundant else ("", n_inputs)
    raise ValueError(
        f"X has n_samples={n_samples} rows and {n_inputs} features{rank_text}: least squares "
        f"leaves too few degrees of freedom for the noise; {needed + 3} rows or more are needed. "
        "Use fewer features, or aggregate features on held-out folds first: "
        "FeatureAggregator('r2', max_loss=1e-4, cv=5)."
    )


def require_columns_freedom(design: Design) -> None:
    """Refuse data on which the authors' count of degrees of freedom is not positive."""
    if design.n_samples <= design.n_inputs + 2:
        raise ValueError(
            f"X has n_samples={design.n_samples} rows and {design.n_inputs} features: the paper's "
            f"formula counts every feature, also redundant ones, and needs {design.n_inputs + 3} "
            "rows or more. Use criterion='risk', which counts the rank, or fewer features."
        )


def is_varying(values: FloatArray) -> BoolArray:
    """Which columns are not constant, up to rounding."""
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray(high - low > FLAT * np.maximum(high, -low))


def require_varying(values: FloatArray, names: Sequence[str]) -> None:
    """Refuse constant targets: there is nothing to explain, and R2 is not defined."""
    flat = np.flatnonzero(~is_varying(values))
    if flat.size:
        more = f" (and {flat.size - 1} more)" if flat.size > 1 else ""
        raise ValueError(
            f"target {names[flat[0]]!r}{more} is constant over the rows used: there is nothing to "
            "predict. Leave it out."
        )


def require_judges(folds: Sequence[Any], name: str) -> None:
    """Refuse folds none of which can judge."""
    if not folds:
        raise ValueError(
            f"target {name!r} is constant over the test rows of every fold: no R2 is defined. "
            "Shuffle the folds or use fewer of them."
        )


def warn_if_doubtful(designs: Sequence[Design]) -> None:
    """Say when rounding of the inputs could decide."""
    if any(design.is_doubtful for design in designs):
        worst = min(design.factors.rcond for design in designs if design.rank)
        warnings.warn(
            f"X has a condition number of about {1.0 / worst:.0e}: above 1e9 rounding may decide "
            "merges. Drop or average features that are copies up to noise.",
            RuntimeWarning,
            stacklevel=5,
        )


# -- Options ---------------------------------------------------------------------------------------


def choose(option: Any, registry: Mapping[str, Option], what: str) -> Option:
    """Look a named option up, or take a callable as it is."""
    if isinstance(option, str) and option in registry:
        return registry[option]
    if callable(option):
        return option  # type: ignore[no-any-return]
    known = ", ".join(repr(name) for name in registry)
    raise ValueError(f"{what}={option!r} is not known; use one of {known}, or a callable.")


def require(value: Any, allowed: Iterable[str], what: str) -> None:
    """Refuse a value that is not on the list."""
    known = list(allowed)
    if not (isinstance(value, str) and value in known):
        names = ", ".join(map(repr, known))
        raise ValueError(f"{what}={value!r} is not known; use one of {names}.")


def not_yet(value: Any, available: Any, what: str) -> None:
    """Refuse a value that the interface reserves for a later version."""
    if value is not available and not (np.ndim(value) == 0 and value == available):
        raise NotImplementedError(
            f"{what}={value!r} is not in this version of ctfa yet; use {what}={available!r}."
        )


def read_number(value: Any, what: str, hint: str = "") -> float:
    """A real number, infinities allowed."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{what}={value!r} is not a number: pass a number{hint}.")
    number = float(value)
    if np.isnan(number):
        raise ValueError(f"{what} is NaN: pass a number{hint}.")
    return number


def read_losses(max_losses: Any) -> list[float]:
    """Several values of ``max_loss``."""
    if isinstance(max_losses, str) or not isinstance(max_losses, Iterable):
        raise TypeError(
            f"max_losses={max_losses!r} is not a list of numbers: pass one number for each point "
            "of the path."
        )
    return [read_number(value, "max_losses") for value in max_losses]


def read_target_limit(max_loss: Any) -> float:
    """The largest loss at which targets merge."""
    if isinstance(max_loss, str) and max_loss == "auto":
        raise NotImplementedError(
            "max_loss='auto' for targets is not in this version of ctfa yet; use a number: 1.5 "
            "suits most data, 1 is break-even."
        )
    return read_number(max_loss, "max_loss")


def read_feature_limit(max_loss: Any, criterion: Any, n_samples: int) -> float:
    """The largest loss at which features merge; "auto" is the cut of the Bayesian criterion."""
    if not (isinstance(max_loss, str) and max_loss == "auto"):
        return read_number(max_loss, "max_loss", " or 'auto'")
    if not (isinstance(criterion, str) and criterion == "risk"):
        raise ValueError(
            f"max_loss='auto' goes with criterion='risk'; give a number for criterion="
            f"{criterion!r} (the paper's epsilon_2 for 'r2' is 1e-4)."
        )
    return float(np.log(n_samples))


def read_correlation(value: Any, what: str) -> float:
    """A number from -1 to 1."""
    hint = " from -1 to 1"
    number = read_number(value, what, hint)
    if not -1.0 <= number <= 1.0:
        raise ValueError(f"{what}={value!r} is not a correlation: pass a number{hint}.")
    return number


def read_phase(option: Any, kind: type[Option], what: str) -> Option | None:
    """The aggregator of one phase, the default one for None; None for "passthrough"."""
    if option is None:
        return kind()
    if isinstance(option, kind):
        return option
    if isinstance(option, str) and option == "passthrough":
        return None
    error = ValueError if isinstance(option, str) else TypeError
    raise error(
        f"{what}={option!r} is not known; use a {kind.__name__}, 'passthrough' to skip this phase, "
        "or None for the default."
    )


def read_order(order: Any, space: MergeSpace, rng: Any) -> IntArray:
    """The order in which variables are taken, as a permutation."""
    if isinstance(order, str) and order in ORDERS:
        return ORDERS[order](space, rng)
    n_variables = space.n_variables
    try:
        permutation = np.asarray(order)
        is_permutation = np.array_equal(np.sort(permutation), np.arange(n_variables))
    except (TypeError, ValueError):
        is_permutation = False
    if not is_permutation:
        known = ", ".join(repr(name) for name in ORDERS)
        raise ValueError(
            f"order={order!r} is no order of {n_variables} variables: use one of {known}, or an "
            f"array holding each of 0 to {n_variables - 1} once."
        )
    return permutation.astype(np.intp)


def read_graph(connectivity: Any, variables: FloatArray, what: str) -> Any:
    """The neighbour graph of the columns of ``variables``, checked; None lets any two meet."""
    if connectivity is None:
        return None
    if callable(connectivity):
        connectivity = connectivity(variables.T)
    n_variables = variables.shape[1]
    try:
        graph: Any = sparse.csr_array(connectivity, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"connectivity of type {type(connectivity).__name__} is not a graph: pass a sparse or "
            "dense matrix of numbers, or a callable that returns one."
        ) from error
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise ValueError(
            f"connectivity has shape {graph.shape}, which is not square: pass one row and one "
            f"column for each of the {n_variables} {what}."
        )
    if graph.shape[0] != n_variables:
        raise ValueError(
            f"connectivity is {graph.shape[0]} x {graph.shape[0]} but there are {n_variables} "
            f"{what}: pass one row and one column for each."
        )
    if not np.isfinite(graph.data).all():
        raise ValueError("connectivity contains NaN or infinity: use 0 for no edge.")
    edges: Any = sparse.csr_array(graph != 0)
    if (edges != edges.T).nnz:
        raise ValueError(
            "connectivity is not symmetric: some variable is a neighbour of another but not the "
            "other way round. Use graph.maximum(graph.T)."
        )
    return edges


def require_foldable(criterion: Any, cv: Any) -> None:
    """Refuse folds for a criterion that needs none."""
    if cv is not None and isinstance(criterion, str) and criterion != "r2":
        raise ValueError(
            f"cv={cv!r} was given but criterion={criterion!r} is judged in sample: use cv=None, or "
            "criterion='r2'."
        )


def read_folds(cv: Any, sample: Sample, y: FloatArray) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold, counted among the rows used."""
    try:
        splits = list(check_cv(cv, y, classifier=False).split(sample.inputs, y))
    except (TypeError, ValueError) as error:
        raise ValueError(f"cv={cv!r} cannot split {sample.n_samples} rows: {error}") from error
    if _names_rows(cv):
        splits = [(_rows_used(train, sample), _rows_used(test, sample)) for train, test in splits]
    if not splits:
        raise ValueError(f"cv={cv!r} gives no folds: use two or more.")
    for number, (train, test) in enumerate(splits):
        if train.size < 2 or test.size < 2:
            raise ValueError(
                f"fold {number} of cv={cv!r} has {train.size} training and {test.size} test rows; "
                "R2 needs two of each or more. Use fewer folds."
            )
    return splits


def require_weighable(regressor: Any) -> None:
    """Refuse weights for a regressor that would ignore them."""
    if not has_fit_parameter(regressor, "sample_weight"):
        raise ValueError(
            f"sample_weight was given but {type(regressor).__name__}.fit does not take it: use "
            "another regressor or leave the weights out."
        )


def require_finite_prediction(values: FloatArray, regressors: Sequence[Any]) -> None:
    """Refuse to hand on what a group's regressor could not predict."""
    if not np.isfinite(values).all():
        group = int(np.flatnonzero(~np.isfinite(values).all(axis=0))[0])
        raise ValueError(
            f"the {type(regressors[group]).__name__} of group {group} predicted NaN or infinity: "
            "its fit has failed; scale the features or use another regressor."
        )


# -- Details ---------------------------------------------------------------------------------------


def _as_it_is(data: Any) -> FloatArray | None:
    """A plain array of float64, which needs no conversion; None for anything else."""
    return data if type(data) is np.ndarray and data.dtype == np.float64 else None


def _container(data: Any) -> tuple[str | None, Any]:
    """Library that can hold the answer, and column labels, of a frame or series."""
    if isinstance(data, (np.ndarray, list, tuple)):
        return None, None
    known = nw.dependencies
    library, labels = None, None
    if known.is_pandas_dataframe(data) or known.is_pandas_series(data):
        library = "pandas"
    elif known.is_polars_dataframe(data) or known.is_polars_series(data):
        library = "polars"
    if library is not None:
        labels = (
            data.columns if hasattr(data, "columns") else [None if data.name == "" else data.name]
        )
    return library, labels


def _index(rows: Any, n_rows: int) -> Any:
    """The index of pandas rows, where there are as many."""
    index: Any = getattr(rows, "index", None)
    return index if hasattr(index, "get_indexer") and len(index) == n_rows else None


def _normalised(weights: FloatArray) -> FloatArray | None:
    """Weights of sum n, or None where all are equal."""
    relative = weights / weights.max()
    return None if (relative == 1.0).all() else relative * (relative.size / relative.sum())


def _names_rows(cv: Any) -> bool:
    """Whether folds are lists of rows: they count the rows given, a splitter divides those used."""
    is_splitter = isinstance(cv, Integral) or hasattr(cv, "split")
    return isinstance(cv, PredefinedSplit) or not is_splitter


def _rows_used(rows: Any, sample: Sample) -> IntArray:
    """Positions of the rows given among the rows used."""
    rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows, np.intp)
    if rows.size and not -sample.n_given <= rows.min() <= rows.max() < sample.n_given:
        raise ValueError(
            f"cv names row {rows.max()} but X has {sample.n_given} rows: make the folds for these "
            "rows."
        )
    if sample.used is None:
        return np.asarray(rows)
    position = np.cumsum(sample.used) - 1
    return np.asarray(position[rows[sample.used[rows]]])


def _require_given(y: Any, what: str) -> None:
    if y is None:
        # The first words are the ones that scikit-learn's own estimators use.
        raise ValueError(
            f"this estimator requires y to be passed, but the target y is None: pass {what}, one "
            "row for each row of X."
        )


def _require_same_rows(n_rows: int, n_samples: int | None, what: str) -> None:
    if n_samples is not None and n_rows != n_samples:
        raise ValueError(
            f"X has {n_samples} rows and {what} has {n_rows}: pass the same samples in both."
        )


def _refuse_gaps(values: FloatArray, what: str, names: Sequence[str] | None) -> None:
    if values.size == 0 or (values.min() > -LARGEST and values.max() < LARGEST):
        return  # NaN is not on either side of anything
    allowed = np.abs(values) < LARGEST
    row, column = map(int, np.argwhere(~allowed)[0])
    where = f"row {row}, column {column if names is None else repr(str(names[column]))}"
    worst = values[row, column]
    if np.isfinite(worst):
        raise ValueError(
            f"Input {what} contains {worst:g} at {where}: its square is too large to compute "
            "with; use other units."
        )
    kind = "NaN" if np.isnan(worst) else "infinity"
    raise ValueError(
        f"Input {what} contains NaN or infinity (first {kind} at {where}): fill the gaps or drop "
        "those rows or columns first."
    )


#: Parts of scikit-learn's messages about the form of data, and what they leave out: what to do.
ADVICE = {
    "could not convert string": "encode or drop columns that are not numbers",
    "Cannot cast": "encode or drop columns that are not numbers",
    "must be a string or a real number": "pass an array or data frame of numbers",
    "sample(s)": "pass more rows",
    "feature(s)": "pass at least one column",
    "should be a 1d array": "pass one target, or use CTFARegressor for several",
}


def _explained(error: TypeError | ValueError, what: str) -> TypeError | ValueError:
    """An error of scikit-learn about data, with what to do."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    message = str(error)
    for clue, advice in ADVICE.items():
        if clue in message:
            return kind(f"{what} cannot be used ({message.rstrip('.')}): {advice}.")
    return kind(message)
