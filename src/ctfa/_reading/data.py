"""Arrays and frames into finite float64 numbers, with their names; and whether these are enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from ctfa._errors import InputError, Message, Option
from ctfa._reading.confounds import read_confounds
from ctfa._reading.numbers import (
    FILL,
    LARGEST,
    SMALLEST,
    container_of,
    first_of,
    read_numbers,
    refuse_gaps,
    require_table,
    warn,
)
from ctfa._reading.options import BY_LEAST_SQUARES, called, judges, read_judge
from ctfa._threads import one_thread
from ctfa.core.design import Design, is_single
from ctfa.core.spaces.paired import pivots
from ctfa.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows of a fit that count, factored when first asked for."""

    inputs: FloatArray  # (n, D)
    weights: FloatArray | None  # positive, of sum n; None where all are equal
    used: BoolArray | None  # which of the rows given these are; None for all
    confounds: FloatArray | None = None  # (n, p): what every series is regressed on first
    #: How many rows each stands for, the sum of the weights then being theirs; None for one each.
    counts: FloatArray | None = None
    #: Folds of rows that stand in for others, by what they are for: no splitter could make them.
    folds: Mapping[str, list[tuple[IntArray, IntArray]]] | None = None
    single: bool | None = None  # whether inputs were made of single precision; None: as detected

    #: Some of the rows that these stand in for, with their targets, if available.
    some: tuple[Sample, FloatArray] | None = None

    n_samples: int = field(init=False)  # rows that count
    n_given: int = field(init=False)  # rows that were given, also those of weight zero

    def __post_init__(self) -> None:
        rows = len(self.inputs) if self.counts is None else round(float(self.counts.sum()))
        object.__setattr__(self, "n_samples", rows)
        object.__setattr__(self, "n_given", rows if self.used is None else int(self.used.size))

    def take(self, rows: IntArray) -> Sample:
        """Some of the rows, as a sample of their own."""
        counts = None if self.counts is None else self.counts[rows]
        weights = None if self.weights is None else normalised(self.weights[rows], counts)
        confounds = None if self.confounds is None else self.confounds[rows]
        return Sample(self.inputs[rows], weights, None, confounds, counts, single=self.single)

    @cached_property
    def design(self) -> Design:
        """Centred and factored inputs; warns, once, where rounding could decide."""
        with one_thread(self.inputs.shape):
            design = Design.of(self.inputs, self.weights, self.n_samples, self.is_single)
        if design.is_doubtful:
            warn_if_doubtful([design])
        return design

    def factored(self, design: Design) -> Sample:
        """The same with its inputs factored elsewhere, where warnings are given."""
        same = replace(self)
        vars(same)["design"] = design
        return same

    @cached_property
    def is_single(self) -> bool:
        """Whether the inputs, or those they were made of, came in single precision."""
        return is_single(self.inputs) if self.single is None else self.single

    @cached_property
    def is_short(self) -> bool:
        """Whether least squares cannot be judged on these rows."""
        return self.design.n_samples <= self.design.rank + SPARE

    def warn_if_short(self) -> None:
        """Warn that ridge regression judges in place of least squares, which was asked for."""
        if self.is_short:
            warn_short(self.design)


def warn_short(design: Design) -> None:
    """The same warning for rows that are known to be too few: all, or those of a fold."""
    warn(
        f"X has {design.n_samples} rows to learn from and {design.n_inputs} features: least "
        "squares leaves too few degrees of freedom for the noise. Ridge regression is used in its "
        "place, with penalties by restricted likelihood."
    )


class Targets(NamedTuple):
    """Targets as numbers, and what is needed to return predictions in their container."""

    values: FloatArray  # (n, L)
    names: tuple[str, ...]
    labels: Any  # column labels as given; None without any
    library: str | None  # "pandas", "polars", or None for arrays
    is_vector: bool
    weights: FloatArray | None = None  # (L,): how much each target counts, of mean one


def read_sample(
    estimator: Any,
    X: Any,
    sample_weight: Any,
    *,
    gaps: bool = False,
    confounds: Any = None,
    advice: str = FILL,
) -> Sample:
    """Features and weights of a fit; rows of weight zero are dropped.

    ``advice`` is what to do about missing features, where these are refused.
    """
    inputs = read_inputs(estimator, X, reset=True, gaps=gaps, advice=advice)
    weights = None if sample_weight is None else read_weights(sample_weight, inputs.shape[0])
    columns = None if confounds is None else read_confounds(confounds, inputs.shape[0])
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
    values = read_numbers(X, "X")
    laid_out = hasattr(estimator, "layout")
    require_table(values, "X", n_least if reset else 1, laid_out=laid_out)
    if reset and type(X) is np.ndarray:
        tell_input_names(estimator, values.shape[1], None)
    else:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    names = vars(estimator).get("feature_names_in_")
    refuse_gaps(values, "X", names, gaps=gaps, advice=advice, may_be_filled=reset)
    return values


def tell_input_names(estimator: Any, n_features: int, labels: Any) -> None:
    """Set the names of an estimator's features, as scikit-learn does for columns in memory."""
    estimator.n_features_in_ = n_features
    if labels is not None and all(isinstance(label, str) for label in labels):
        estimator.feature_names_in_ = np.asarray(labels, dtype=object)
    else:
        vars(estimator).pop("feature_names_in_", None)


def copy_input_names(source: Any, estimator: Any) -> None:
    """Give an estimator the feature names of another."""
    estimator.n_features_in_ = source.n_features_in_
    if "feature_names_in_" in vars(source):
        estimator.feature_names_in_ = source.feature_names_in_


def read_feature_names(estimator: Any, given: Any) -> list[str]:
    """Names of the features of fit; given names must be the same, if fit has seen names."""
    seen = getattr(estimator, "feature_names_in_", None)
    n_features = estimator.n_features_in_
    if given is None:
        return [f"x{i}" for i in range(n_features)] if seen is None else list(seen)
    names = np.asarray(given, dtype=object)
    # In scikit-learn's words, which its users may search for.
    if seen is not None and not np.array_equal(seen, names):
        raise InputError("input_features is not equal to feature_names_in_: leave it out.")
    if len(names) != n_features:
        raise InputError(
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
    library, labels = container_of(Y)
    values = read_numbers(Y, what)
    is_vector = values.ndim == 1
    if is_vector:
        values = values.reshape(-1, 1)
    require_table(values, what)
    require_same_rows(values.shape[0], n_samples, what)
    targets = name_targets(values, labels, library, is_vector=is_vector, what=what)
    is_fit = n_samples is not None
    refuse_gaps(values, what, targets.names, gaps=gaps, may_be_filled=is_fit)
    return targets if used is None else targets._replace(values=values[used])


def name_targets(
    values: FloatArray, labels: Any, library: str | None, *, is_vector: bool, what: str = "y"
) -> Targets:
    """Targets named by their labels, or by their numbers where they have none."""
    given = labels is not None and labels[0] is not None
    names: Iterable[str] = (
        map(str, labels) if given else (f"{what.lower()}{i}" for i in range(values.shape[1]))
    )
    return Targets(values, tuple(names), labels if given else None, library, is_vector)


def read_vector(y: Any, sample: Sample) -> FloatArray:
    """One target as a float64 vector of finite numbers, of the rows used."""
    targets = read_targets(y, sample.n_given, used=sample.used)
    require_one_target(targets.values.shape[1])
    if not targets.is_vector:
        warn(
            "A column-vector y was passed when a 1d array was expected: pass y.ravel().",
            category=DataConversionWarning,
        )
    return targets.values[:, 0]


def require_one_target(n_targets: int) -> None:
    """Refuse several targets where one is expected."""
    if n_targets != 1:
        raise InputError(
            f"y has {n_targets} columns and should be a 1d array: pass one target, or use "
            "CTFARegressor for several."
        )


def read_weights(sample_weight: Any, n_samples: int | None) -> FloatArray | None:
    """Weights of the rows as they were given, or None where there are none."""
    if sample_weight is None:
        return None
    weights = read_numbers(sample_weight, "sample_weight", "pass one number for each row of X")
    if weights.ndim == 0 and n_samples is not None:
        weights = np.full(n_samples, float(weights))
    if n_samples is not None and weights.shape != (n_samples,):
        raise InputError(
            f"sample_weight has shape {weights.shape} but X has {n_samples} rows: pass one weight "
            "for each row."
        )
    require_weights(weights)
    if not (weights > 0.0).any():
        raise InputError(
            "sample_weight is zero for every row, so nothing is left to fit: give the rows that "
            "count a positive weight."
        )
    return weights


def require_weights(weights: FloatArray) -> None:
    """Refuse weights, of any part of the rows, that are not finite numbers from zero up."""
    if not np.isfinite(weights).all():
        raise InputError("sample_weight contains NaN or infinity: use 0 to leave a row out.")
    if (weights < 0.0).any():
        raise InputError(
            f"sample_weight contains negative values (smallest {weights.min():g}): use 0 to leave "
            "a row out."
        )
    refuse_extreme_weights(weights, "sample_weight")


def refuse_extreme_weights(weights: FloatArray, what: str) -> None:
    """Refuse weights whose products overflow or vanish; zero is none of them."""
    bad = weights[(weights > LARGEST) | ((weights < SMALLEST) & (weights > 0.0))]
    if bad.size:
        raise InputError(
            f"{what} contains {bad[0]:g}, too {'large' if bad[0] > 1.0 else 'small'} to compute "
            f"with: use weights from {SMALLEST:g} to {LARGEST:g}; only their ratios count."
        )


def require_width(values: FloatArray, width: int, what: str, columns: str) -> None:
    """Refuse a number of columns that differs from that of fit."""
    if values.shape[1] != width:
        raise InputError(
            f"{what} has {values.shape[1]} columns but fit has seen {width} {columns}: pass one "
            "column for each, in the same order."
        )


def require_rows(values: FloatArray, minimum: int) -> None:
    """Refuse too few rows for a score."""
    if len(values) < minimum:
        raise InputError(f"R2 of {len(values)} row is not defined: pass {minimum} rows or more.")


def require_same_targets(
    targets: Targets, names: Sequence[str], *, named: bool, what: str = "y"
) -> None:
    """Refuse targets that differ from those of fit, or are in another order."""
    require_width(targets.values, len(names), what, "targets")
    if named and targets.labels is not None and targets.names != tuple(names):
        first = next(i for i, name in enumerate(names) if name != targets.names[i])
        raise InputError(
            f"the target names should match those that were passed during fit: column {first} of "
            f"{what} is {targets.names[first]!r} and was {names[first]!r}; pass the same columns "
            "in the same order."
        )


def require_finite_prediction(values: FloatArray, models: Sequence[Any]) -> None:
    """Refuse predictions of groups' regressors, or of a target's own, that are not finite."""
    bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
    if bad.size:
        model, instead = models[bad[0]], Message()
        whose = f"the {type(model).__name__} of group {bad[0]}"
        if isinstance(model, str):
            whose = f"the model of target {model!r} by itself"
            instead = Message("use ", Option("head", "mean"), ", ")
        raise InputError(
            f"{whose} predicted NaN or infinity: its fit has failed; ",
            instead,
            "scale the features or use another regressor.",
        )


def require_finite_judgement(told: FloatArray, model: Any) -> None:
    """Refuse to judge merges by predictions that are not finite."""
    if not np.isfinite(told).all():
        why = "it predicted NaN or infinity, its fit has failed; scale the features"
        refuse_judgement(model, why)


def refuse_judgement(model: Any, why: str, error: Exception | None = None) -> NoReturn:
    """Refuse a regressor that cannot predict held-out rows."""
    raise InputError(
        f"{type(model).__name__} cannot judge merges by rows that it was not fitted to: "
        f"{why.rstrip('.')}. Use another regressor, or judge by another with ",
        BY_LEAST_SQUARES,
        ".",
    ) from error


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
        raise InputError(
            f"this estimator requires y to be passed, but the target y is None: pass {what}, one "
            "row for each row of X."
        )


def require_same_rows(n_rows: int, n_samples: int | None, what: str, *, first: str = "X") -> None:
    """Refuse tables of different numbers of rows."""
    if n_samples is not None and n_rows != n_samples:
        raise InputError(
            f"{first} has {n_samples} rows and {what} has {n_rows}: pass the same samples in both."
        )


def read_target_weight(target_weight: Any, targets: Targets) -> Targets:
    """Targets with a weight for each, of mean one; None where all are equal."""
    if target_weight is None:
        return targets
    n_targets = targets.values.shape[1]
    advice = "pass one number for each target, such as the area it stands for"
    weights = read_numbers(target_weight, "target_weight", advice)
    if weights.shape != (n_targets,):
        raise InputError(
            f"target_weight has shape {weights.shape} but y has {n_targets} columns: pass one "
            "weight for each target."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights > 0.0)))
    if bad.size:
        first = int(bad[0])
        raise InputError(
            f"target_weight of target {targets.names[first]!r} is {weights[first]:g}: weights must "
            "be positive and finite; leave out a target that is to count for nothing."
        )
    refuse_extreme_weights(weights, "target_weight")
    relative = weights / weights.max()
    is_same = bool((relative == 1.0).all())
    return targets._replace(weights=None if is_same else relative / relative.mean())


def refuse_for_target_weight(
    targets: Targets, aggregator: Any, aggregate: str | None = None, judge: Any = None
) -> None:
    """Refuse options that would ignore weights of targets.

    ``aggregate`` is how targets with inputs of their own are, and ``judge`` what judges these; None
    where they share them.
    """
    is_correlation = isinstance(aggregator.order, str) and aggregator.order == "correlation"
    for is_given, option, instead in (
        (
            aggregate == "pool" and not (judges(judge) and read_judge(judge) is None),
            Message(Option("aggregate", aggregate), f" with regressor={called(judge)}"),
            Message(Option("aggregate", "mean"), " or regressor=None"),
        ),
        (aggregator.flip, "flip=True", "flip=False"),
        (aggregator.guard is not None, f"guard={aggregator.guard!r}", "guard=None"),
        (is_correlation, "order='correlation'", "order='given'"),
    ):
        if is_given:
            raise InputError(
                "target_weight was given but ",
                option,
                " counts every target the same: use ",
                instead,
                ", or leave the weights out.",
            )
    if aggregate is None and np.isnan(targets.values).any():
        raise InputError(
            "target_weight was given but y contains missing values, and groups of targets with "
            "shared inputs and gaps count every target the same: fill the gaps, leave the weights "
            "out, or use MultiInputCTFARegressor with the same columns for every target."
        )


# -- Data without anything to decide, or with rounding only


#: Relative spread below which a target is constant and its variation rounding.
FLAT = 1e-14
#: Degrees of freedom above which the noise can be judged.
SPARE = 2
#: Beginning of the message that there are not.
SHORT = "X has .* rows to learn from"
#: Beginning of the message about inputs that nearly depend on each other.
DOUBTFUL = "X has a condition number"
#: Number of targets up to which a number is kept for every pair.
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
    """Warn or refuse: tasks, all pooled, leave no degrees of freedom for the noise.

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
            f"{what} holds a number for every pair of {n_targets} targets, "
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
    """Name the first target that is observed too rarely, and how often; empty if there is none."""
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
    """Refuse folds if none can judge: the target must vary over the test rows of one."""
    if not any(is_varying(target[:, None])[0] for target in held_out):
        raise InputError(
            f"target {name!r} is constant over the test rows of every fold: no R2 is defined. "
            "Shuffle the folds or use fewer of them."
        )


def warn_if_doubtful(designs: Sequence[Design], what: str = "X") -> None:
    """Warn when rounding of the inputs could decide."""
    if any(design.is_doubtful for design in designs):
        worst = min(design.rcond for design in designs if design.rank)
        warn(
            f"{what} has a condition number of about {1.0 / worst:.0e}: above 1e9 rounding may "
            "decide merges. Drop or average features that are copies up to noise."
        )


def may_be_doubtful(columns: FloatArray) -> BoolArray:
    """Which tables ``(tables, rows, columns)``, centred, have to be factored to be sure.

    From inner products, which are cheap but keep no more than half of the digits.
    """
    gram = columns.swapaxes(1, 2) @ columns
    square = np.diagonal(gram, axis1=1, axis2=2)
    length = np.sqrt(np.where(square > 0.0, square, 1.0))
    unit = gram / (length[:, :, None] * length[:, None, :])
    step = np.arange(unit.shape[1])
    unit[:, step, step] = 1.0
    return np.asarray((pivots(unit) < SUSPECT).any(axis=1))
