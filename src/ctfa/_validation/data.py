"""Arrays and frames into finite float64 numbers, with their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from ctfa._threads import one_thread
from ctfa._validation.baseline import read_baseline
from ctfa._validation.containers import container_of, first_rounded, holds_dates
from ctfa._validation.explained import explained
from ctfa._validation.fills import warn_of_fills
from ctfa._validation.sufficiency import is_short, warn_if_doubtful
from ctfa.core.design import Design, is_single
from ctfa.core.types import BoolArray, FloatArray, IntArray

#: What to do about missing values.
FILL = "fill the gaps or drop those rows or columns first"
#: Numbers beyond these overflow or vanish when products of sums of squares are taken.
LARGEST, SMALLEST = 1e70, 1e-70


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a fit that count, factored when first asked for."""

    inputs: FloatArray  # (n, D)
    weights: FloatArray | None  # positive, of sum n; None where all are equal
    used: BoolArray | None  # which of the rows given these are; None for all
    baseline: FloatArray | None = None  # (n, p): what every series is regressed on first
    #: How many rows each stands for, the sum of the weights then being theirs; None for one each.
    counts: FloatArray | None = None
    #: Folds of rows that stand in for others, by what they are for: no splitter could make them.
    folds: Mapping[str, list[tuple[IntArray, IntArray]]] | None = None
    single: bool | None = None  # whether inputs were made of single precision; None: as they look

    @property
    def n_samples(self) -> int:
        """Rows that count."""
        return count_rows(self.inputs, self.counts)

    @property
    def n_given(self) -> int:
        """Rows that were given, also those of weight zero."""
        return self.n_samples if self.used is None else int(self.used.size)

    def take(self, rows: IntArray) -> Sample:
        """Some of the rows, as a sample of their own."""
        counts = None if self.counts is None else self.counts[rows]
        weights = None if self.weights is None else normalised(self.weights[rows], counts)
        baseline = None if self.baseline is None else self.baseline[rows]
        return Sample(self.inputs[rows], weights, None, baseline, counts, single=self.single)

    @cached_property
    def design(self) -> Design:
        """Centred and factored inputs; warns, once, where rounding could decide."""
        with one_thread(self.inputs.shape):
            design = Design.of(self.inputs, self.weights, self.n_samples, self.is_single)
        warn_if_doubtful([design])
        return design

    @cached_property
    def is_single(self) -> bool:
        """Whether the inputs, or those they were made of, came in single precision."""
        return is_single(self.inputs) if self.single is None else self.single

    @cached_property
    def is_short(self) -> bool:
        """Whether least squares cannot be judged on these rows; warns, once, where it cannot."""
        return is_short(self.design)

    def warn_if_short(self) -> None:
        """Say that ridge regression serves in place of least squares, unless it has been said."""
        _ = self.is_short


class Targets(NamedTuple):
    """Targets as numbers, and what is needed to hand predictions back as they came."""

    values: FloatArray  # (n, L)
    names: tuple[str, ...]
    labels: Any  # column labels as they were given; None without any
    library: str | None  # "pandas", "polars", or None for arrays
    is_vector: bool
    weights: FloatArray | None = None  # (L,): how much each target counts, of mean one


def read_sample(
    estimator: Any,
    X: Any,
    sample_weight: Any,
    *,
    gaps: bool = False,
    baseline: Any = None,
    advice: str = FILL,
) -> Sample:
    """Features and weights of a fit; rows of weight zero are left out, as if never given.

    ``advice`` is what to do about missing features, where these are refused.
    """
    inputs = read_inputs(estimator, X, reset=True, gaps=gaps, advice=advice)
    weights = read_weights(sample_weight, inputs.shape[0])
    columns = read_baseline(baseline, inputs.shape[0])
    if weights is None:
        return Sample(inputs, None, None, columns)
    used = weights > 0.0
    if used.all():
        return Sample(inputs, normalised(weights), None, columns)
    columns = None if columns is None else columns[used]
    return Sample(inputs[used], normalised(weights[used]), used, columns)


def read_inputs(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    gaps: bool = False,
    n_least: int = 2,
    advice: str = FILL,
) -> FloatArray:
    """Features as a float64 array of finite numbers; sets the estimator's names on reset.

    With ``gaps`` NaN is a missing value; otherwise it is refused. ``n_least`` rows are needed on
    reset.
    """
    values = _as_it_is(X)
    if values is None:
        refuse_mask(X, "X")
        require_plain_numbers(X, "X")
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
                ensure_min_samples=n_least if reset else 1,
            )
        except (TypeError, ValueError) as error:
            raise explained(error, "X", X, has_layout=hasattr(estimator, "layout")) from error
    names = getattr(estimator, "feature_names_in_", None)
    if not gaps:
        _refuse_gaps(values, "X", names, advice=advice)
    elif values.size and not _is_moderate(values):
        _refuse_gaps(np.where(np.isnan(values), 0.0, values), "X", names, gaps=True)
    if reset:
        warn_of_fills(values, "X", names)
    return values


def _is_moderate(values: FloatArray) -> bool:
    """Whether all that is observed can be squared; without a copy of what may be most of memory."""
    largest = np.fmax(np.fmax.reduce(values, axis=0), -np.fmin.reduce(values, axis=0))
    largest = largest[~np.isnan(largest)]
    return bool(np.all((largest < LARGEST) & ((largest > SMALLEST) | (largest == 0.0))))


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
    Y: Any,
    n_samples: int | None = None,
    *,
    used: BoolArray | None = None,
    what: str = "y",
    gaps: bool = False,
) -> Targets:
    """Targets as a float64 array of finite numbers, one column each, of the rows used.

    With ``gaps`` NaN is a missing value; otherwise it is refused.
    """
    require_given(Y, what)
    refuse_mask(Y, what)
    require_plain_numbers(Y, what)
    library, labels = container_of(Y)
    values = _as_it_is(Y)
    if values is None or values.size == 0 or values.ndim not in (1, 2):
        try:
            values = check_array(
                Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name=what
            )
        except (TypeError, ValueError) as error:
            raise explained(error, what) from error
    is_vector = values.ndim == 1
    if is_vector:
        values = values.reshape(-1, 1)
    require_same_rows(values.shape[0], n_samples, what)
    targets = name_targets(values, labels, library, is_vector=is_vector, what=what)
    known = np.where(np.isnan(values), 0.0, values) if gaps else values
    _refuse_gaps(known, what, targets.names, gaps=gaps)
    if n_samples is not None:
        warn_of_fills(values, what, targets.names)
    return targets if used is None else targets._replace(values=values[used])


def name_targets(
    values: FloatArray, labels: Any, library: str | None, *, is_vector: bool, what: str = "y"
) -> Targets:
    """Targets called by their labels, or by their numbers where they have none."""
    given = labels is not None and labels[0] is not None
    names: Iterable[str] = (
        map(str, labels) if given else (f"{what.lower()}{i}" for i in range(values.shape[1]))
    )
    return Targets(values, tuple(names), labels if given else None, library, is_vector)


def read_vector(y: Any, sample: Sample) -> FloatArray:
    """One target as a float64 vector of finite numbers, of the rows used."""
    require_given(y, "y")
    refuse_mask(y, "y")
    require_plain_numbers(y, "y")
    try:
        vector = np.asarray(column_or_1d(y, dtype=np.float64, warn=True))
    except (TypeError, ValueError) as error:
        raise explained(error, "y") from error
    require_same_rows(vector.size, sample.n_given, "y")
    _refuse_gaps(vector.reshape(-1, 1), "y", ["y"])
    warn_of_fills(vector.reshape(-1, 1), "y", ["y"])
    return vector if sample.used is None else vector[sample.used]


def read_weights(sample_weight: Any, n_samples: int | None) -> FloatArray | None:
    """Weights of the rows as they were given, or None where there are none."""
    if sample_weight is None:
        return None
    refuse_mask(sample_weight, "sample_weight")
    require_plain_numbers(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sample_weight holds something that is not a number ({error}): pass one number for "
            "each row of X."
        ) from error
    if weights.ndim == 0 and n_samples is not None:
        weights = np.full(n_samples, float(weights))
    if n_samples is not None and weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_samples} rows: pass one weight "
            "for each row."
        )
    require_weights(weights)
    if not (weights > 0.0).any():
        raise ValueError(
            "sample_weight is zero for every row, so nothing is left to fit: give the rows that "
            "count a positive weight."
        )
    return weights


def require_weights(weights: FloatArray) -> None:
    """Refuse weights, of any part of the rows, that are no finite numbers from zero up."""
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity: use 0 to leave a row out.")
    if (weights < 0.0).any():
        raise ValueError(
            f"sample_weight contains negative values (smallest {weights.min():g}): use 0 to leave "
            "a row out."
        )
    refuse_extreme_weights(weights, "sample_weight")


def refuse_extreme_weights(weights: FloatArray, what: str) -> None:
    """Refuse weights whose products overflow or vanish; zero is none of them."""
    bad = weights[(weights > LARGEST) | ((weights < SMALLEST) & (weights > 0.0))]
    if bad.size:
        raise ValueError(
            f"{what} contains {bad[0]:g}, too {'large' if bad[0] > 1.0 else 'small'} to compute "
            f"with: use weights from {SMALLEST:g} to {LARGEST:g}; only their ratios count."
        )


def require_width(values: FloatArray, width: int, what: str, columns: str) -> None:
    """Refuse another number of columns than fit has seen."""
    if values.shape[1] != width:
        raise ValueError(
            f"{what} has {values.shape[1]} columns but fit has seen {width} {columns}: pass one "
            "column for each, in the same order."
        )


def require_rows(values: FloatArray, minimum: int) -> None:
    """Refuse too few rows for a score."""
    if len(values) < minimum:
        raise ValueError(f"R2 of {len(values)} row is not defined: pass {minimum} rows or more.")


def require_same_targets(
    targets: Targets, names: Sequence[str], *, named: bool, what: str = "y"
) -> None:
    """Refuse other targets than fit has seen, or the same in another order."""
    require_width(targets.values, len(names), what, "targets")
    if named and targets.labels is not None and targets.names != tuple(names):
        first = next(i for i, name in enumerate(names) if name != targets.names[i])
        raise ValueError(
            f"the target names should match those that were passed during fit: column {first} of "
            f"{what} is {targets.names[first]!r} and was {names[first]!r}; pass the same columns "
            "in the same order."
        )


def require_finite_prediction(values: FloatArray, regressors: Sequence[Any]) -> None:
    """Refuse to hand on what a group's regressor could not predict."""
    if not np.isfinite(values).all():
        group = int(np.flatnonzero(~np.isfinite(values).all(axis=0))[0])
        raise ValueError(
            f"the {type(regressors[group]).__name__} of group {group} predicted NaN or infinity: "
            "its fit has failed; scale the features or use another regressor."
        )


def require_finite_own(values: FloatArray, names: Sequence[str]) -> None:
    """Refuse to hand on what a target's own model could not predict."""
    if not np.isfinite(values).all():
        target = int(np.flatnonzero(~np.isfinite(values).all(axis=0))[0])
        raise ValueError(
            f"the model of target {names[target]!r} by itself predicted NaN or infinity: its fit "
            "has failed; use head='mean', scale the features or use another regressor."
        )


def _as_it_is(data: Any) -> FloatArray | None:
    """A plain array of float64, which needs no conversion; None for anything else."""
    return data if type(data) is np.ndarray and data.dtype == np.float64 else None


def count_rows(rows: FloatArray, counts: FloatArray | None) -> int:
    """How many rows there are, or how many they stand for."""
    return int(rows.shape[0]) if counts is None else round(float(counts.sum()))


def normalised(weights: FloatArray, counts: FloatArray | None = None) -> FloatArray | None:
    """Weights of sum n, or None where all are equal."""
    relative = weights / weights.max()
    if counts is not None:
        return np.asarray(relative * (round(float(counts.sum())) / relative.sum()))
    return None if (relative == 1.0).all() else relative * (relative.size / relative.sum())


def require_given(y: Any, what: str) -> None:
    """Refuse a fit without targets."""
    if y is None:
        # The first words are the ones that scikit-learn's own estimators use.
        raise ValueError(
            f"this estimator requires y to be passed, but the target y is None: pass {what}, one "
            "row for each row of X."
        )


def require_same_rows(n_rows: int, n_samples: int | None, what: str) -> None:
    """Refuse tables of different numbers of rows."""
    if n_samples is not None and n_rows != n_samples:
        raise ValueError(
            f"X has {n_samples} rows and {what} has {n_rows}: pass the same samples in both."
        )


def _refuse_gaps(
    values: FloatArray,
    what: str,
    names: Sequence[str] | None,
    *,
    gaps: bool = False,
    advice: str = FILL,
) -> None:
    """Refuse what cannot be squared; ``gaps``: NaN would have been a missing value."""
    if values.size == 0:
        return
    largest = np.maximum(values.max(axis=0), -values.min(axis=0))
    # NaN is on neither side of anything; a column of zeros is constant and not small.
    if np.all((largest < LARGEST) & ((largest > SMALLEST) | (largest == 0.0))):
        return

    def name(column: int) -> str:
        return str(column) if names is None else repr(str(names[column]))

    bad = np.argwhere(~(np.abs(values) < LARGEST))
    if not bad.size:
        small = int(np.flatnonzero((largest <= SMALLEST) & (largest > 0.0))[0])
        raise ValueError(
            f"Input {what} holds nothing above {largest[small]:g} in column {name(small)}: its "
            "square is too small to compute with; use other units."
        )
    row, column = map(int, bad[0])
    where, worst = f"row {row}, column {name(column)}", values[row, column]
    if np.isfinite(worst):
        raise ValueError(
            f"Input {what} contains {worst:g} at {where}: its square is too large to compute "
            "with; use other units."
        )
    if gaps:
        raise ValueError(f"Input {what} contains infinity at {where}: use NaN for missing values.")
    kind = "NaN" if np.isnan(worst) else "infinity"
    raise ValueError(f"Input {what} contains NaN or infinity (first {kind} at {where}): {advice}.")


def require_plain_numbers(data: Any, what: str) -> None:
    """Refuse what would silently become other numbers.

    Dates would be taken for the numbers that encode them, in whatever unit they have; whole numbers
    beyond 2^53 for the nearest ones that float64 knows.
    """
    if holds_dates(data):
        raise ValueError(
            f"{what} contains dates or durations: turn them into numbers first, such as the year, "
            "the month or the hours since a start."
        )
    refuse_rounded(data, what)


def refuse_rounded(data: Any, what: str) -> None:
    """Refuse whole numbers that float64 would round."""
    number = first_rounded(data)
    if number is not None:
        raise ValueError(
            f"{what} contains the whole number {number}, beyond 2^53, where floating-point numbers "
            "no longer tell neighbours apart: subtract a constant first, or use other units; leave "
            "it out if it is a label."
        )


def refuse_mask(data: Any, what: str) -> None:
    """A mask would be dropped silently, and what it hides would count."""
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        masked = int(np.ma.getmaskarray(data).sum())
        raise ValueError(
            f"{what} is an array with {masked} masked values: fill them, or drop those rows or "
            "columns first."
        )
