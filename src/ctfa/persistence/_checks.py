"""Whether what a file holds can be: values of their types, shapes that belong together.

The state of an object is set without its constructor, so what that would see to is seen to here,
in the fields of the object before it is made.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, reduce
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ctfa._reading.streaming import RunningSums, TaskSums
from ctfa.core.calibration import SCORES, Calibration
from ctfa.core.partition import Partition
from ctfa.persistence._codec import TOP, damaged, shown
from ctfa.persistence._values import require_apart

#: Kinds of numpy's numbers that serve where a type is asked for.
KINDS = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}
#: Classes some of whose fields are None where the data have no such thing.
MAY_LACK = ("LabelledFit",)
#: More ways to fold rows, and more folds, than are ever used: their product is taken.
MOST_FOLDINGS, MOST_FOLDS = 64, 2**31

State = Mapping[str, Any]


def check_types(kind: type, state: State) -> None:
    """Refuse an object of ours with a field of another type than its class says."""
    for name, hint in _hints(kind):
        value = state[name]
        if not _is_of(value, hint) and not (value is None and kind.__name__ in MAY_LACK):
            raise damaged(f"{name} of a {kind.__name__} is of the wrong type")


def fields_of(kind: type) -> tuple[str, ...]:
    """Fields of a NamedTuple or a dataclass; none of anything else."""
    return getattr(kind, "__match_args__", ())


@cache
def _hints(kind: type) -> tuple[tuple[str, Any], ...]:
    """Types of the fields of an object; those that may be anything left out."""
    hints = get_type_hints(kind)
    return tuple((name, hints[name]) for name in fields_of(kind) if hints[name] is not Any)


@cache
def _parted(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; anything is of one that is not known here."""
    origin, parts = _parted(hint)
    fits = True
    if origin in (Union, types.UnionType):
        fits = any(_is_of(value, part) for part in parts)
    elif origin is np.ndarray:
        (number,) = get_args(parts[1])
        fits = number is Any or _is_number(value, KINDS[np.dtype(number).kind], arrays=True)
    elif origin is tuple and parts[-1] is not ...:
        fits = isinstance(value, tuple) and len(value) == len(parts)
        fits = fits and all(map(_is_of, value, parts))
    elif origin in (tuple, list, Sequence):
        kinds = (list, tuple, np.ndarray) if origin is Sequence else origin
        fits = isinstance(value, kinds)
        fits = fits and (parts[0] is Any or all(_is_of(one, parts[0]) for one in value))
    elif origin in (dict, Mapping):
        fits = isinstance(value, dict) and all(
            _is_of(key, parts[0]) and _is_of(entry, parts[1]) for key, entry in value.items()
        )
    elif hint in (float, int):
        fits = _is_number(value, "fiu" if hint is float else "iu")
    elif hint is not Any and isinstance(hint, type):
        fits = isinstance(value, (bool, np.bool_) if hint is bool else hint)
    return fits


def _is_number(value: Any, kinds: str, *, arrays: bool = False) -> bool:
    if isinstance(value, np.generic) or (arrays and isinstance(value, np.ndarray)):
        return value.dtype.kind in kinds
    return type(value) in ((float, int) if "f" in kinds else (int,))


def check_state(name: str, state: State) -> None:
    """Refuse fields of an object of ours that do not go together."""
    if name in _CHECKS:
        _CHECKS[name](state)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise damaged(what)


def _require_arrays(state: State, arrays: Mapping[str, str], **lengths: int) -> None:
    """Refuse fields that are not arrays of the numbers and the lengths that belong there.

    ``{"f n k": "coef"}`` asks for numbers of kind f, n times k of them; F is finite f. A length
    that is not given is that of the first array which has it, and ``units.scales`` is a field of
    a field.
    """
    for shape, names in arrays.items():
        kinds, *dims = shape.split()
        for name in names.split():
            field, *parts = name.split(".")
            array = reduce(getattr, parts, state[field])
            sound = isinstance(array, np.ndarray) and array.dtype.kind in kinds.lower()
            sound = sound and array.ndim == len(dims)
            lengths_here = zip(dims, array.shape, strict=True) if sound else ()
            sound = sound and all(lengths.setdefault(dim, n) == n for dim, n in lengths_here)
            _require(sound, f"{name} has other numbers, or another shape, than belong there")
            _require(kinds != "F" or np.isfinite(array).all(), f"{name} is not finite")


def _require_inside(positions: Any, least: int, n: int, what: str) -> None:
    inside = positions.min(initial=least) >= least and positions.max(initial=-1) < n
    _require(inside, f"{what} names something that is not there")


def _partition(state: State) -> None:
    _require_arrays(state, {"i n": "labels"})
    canonical = Partition(state["labels"]).labels
    sound = np.array_equal(state["labels"], canonical)
    _require(sound, "groups are not numbered by their first members")


def _history(state: State) -> None:
    n, names = state["n_variables"], state["names"]
    columns = {"i m": "block other size", "f m": "loss", "i n": "refused", "f n": "refused_loss"}
    _require_arrays(state, columns, n=n)
    for name, least in (("block", 0), ("other", 0), ("refused", -1)):
        _require_inside(state[name], least, n, "a history of merges")
    sizes = [1] * n
    merges = (state[name].tolist() for name in ("block", "other", "size"))
    for one, two, together in zip(*merges, strict=True):
        _require(one != two and sizes[one] and sizes[two], "something is merged twice")
        sizes[one] += sizes[two]
        sizes[two] = 0
        _require(together == sizes[one], "a merge is not of the size of its members")
    _require(names is None or len(names) == n, "a history has names of others")


def _curve(state: State) -> None:
    _require_arrays(state, {"f m": "max_loss", "fi m": "n_groups", "f k m": "fold_errors"})
    inside = 0 <= state["chosen"] < state["max_loss"].size
    _require(inside, "a curve chooses a limit that is not there")


def _evidence(state: State) -> None:
    history, partition, gain = state["history"], state["partition"], state["gain"]
    n, merges = partition.n_variables, state["merges"]
    known = {np.shape(each) for each in (state["signs"], *gain, *(state["served"] or gain))}
    same = history.n_variables == len(state["names"]) == n and known == {(n,)}
    _require(same, "the evidence is of other targets than the groups")
    made = len(merges) == len(history) and history.partition() == partition
    _require(made, "the evidence is of other merges than the groups")
    for merge in merges:
        single = np.ndim(merge.total.value) == 0 == np.ndim(merge.total.standard_error)
        sound = single and np.ndim(merge.losers) == 1
        _require(sound, "a merge gains for targets that are not there")
        _require_inside(merge.losers, 0, n, "a merge")


def _lines(state: State) -> None:
    # Of one series its level is a number, and its slopes are a vector.
    levels, slopes, centre = (state[name] for name in ("levels", "slopes", "centre"))
    finite = all(bool(np.isfinite(part).all()) for part in (levels, slopes, centre))
    same = np.shape(slopes) == np.shape(levels) + np.shape(centre)
    _require(finite and same, "confounds are not numbers")


def _sums(state: State, kind: type = RunningSums) -> None:
    """Refuse a model with sums of others than its features."""
    sums = state.get("sums")
    if sums is not None:
        _require(isinstance(sums, kind), "a model keeps sums of another kind")
        wide = sums.widths[1] if isinstance(sums, RunningSums) else sums.n_columns - 1
        _require(wide == state["n_features_in_"], "a model keeps sums of other features")


def _is_fitted(state: State, groups: str, others: str) -> bool:
    """Whether a model has its groups; refuse one that has only what fit finds beside them."""
    _require(
        (groups in state) == (others in state), f"a model has only one of {groups} and {others}"
    )
    return groups in state


def _targets(state: State) -> None:
    _sums(state)
    if not _is_fitted(state, "partition_", "labels_"):
        return
    partition = state["partition_"]
    n = partition.n_variables
    same = np.array_equal(state["labels_"], partition.labels)
    same = same and state["n_groups_"] == partition.n_groups and state["history_"].n_variables == n
    _require(same, "labels, groups and merges disagree")
    for name in ("names", "column_labels", "target_names_in_"):
        _require(name not in state or len(state[name]) == n, f"{name} has a wrong length")
    if any(name in state for name in ("signs_", "offsets_", "scales_")):
        _require_arrays(state, {"f n": "signs_", "F n": "offsets_ scales_"}, n=n)
        _require((state["scales_"] > 0.0).all(), "targets have no units to be merged in")
        _require((np.abs(state["signs_"]) == 1.0).all(), "signs_ are not 1 and -1")
    if state.get("target_weight_") is not None:
        _require_arrays(state, {"F n": "target_weight_"}, n=n)
        _require((state["target_weight_"] > 0.0).all(), "target_weight_ holds what is not a weight")
    means = state.get("confounds_means_")
    if means is not None:
        _require_arrays(state, {"f n k": "confounds_slopes_"}, n=n, k=np.size(means))


def _features(state: State) -> None:
    _targets(state)
    if "partition_" in state:
        labels, width = state["partition_"].labels, state.get("n_features_in_")
        same = type(width) is int and width == labels.size
        named = np.shape(state.get("feature_names_in_", labels)) == labels.shape
        _require(same and named, "features are others than their groups")


def _calibration(state: State) -> None:
    n_groups = max(int(state["labels"].max(initial=-1)) + 1, 1)
    columns = {
        "F n": "scale", "f n": "level spread", "i n": "labels", "F g q": "table", "F s": "slopes",
        "f k": "known.centre known.unit",
    }  # fmt: skip
    _require_arrays(state, columns, g=n_groups, q=SCORES.size)
    _require_inside(state["labels"], 0, n_groups, "errors of a group")


def _served(state: State, features: Any, regressors: Any, trust: Any) -> int:
    """Refuse a model whose groups, their models and intervals are not of its targets."""
    partition, width = state["targets_"].partition_, state["n_features_in_"]
    n, found = partition.n_variables, state.get("calibration_")
    same = len(features) == partition.n_groups == len(regressors)
    _require(same, "there is not one regressor per group")
    for reduced, regressor in zip(features, regressors, strict=True):
        wide = reduced.partition_.n_groups
        same = getattr(regressor, "n_features_in_", wide) == wide
        _require(same, "a group's regressor has other features than the group")
    _require_arrays({"trust": trust}, {"f n": "trust"}, n=n)
    _require(((trust >= 0.0) & (trust <= 1.0)).all(), "trust_ is not one share per target")
    same = found is None or (isinstance(found, Calibration) and found.scale.size == n)
    _require(same, "intervals are of other targets than the model")
    if found is not None and found.slopes[2:].any() and found.known.layout is not None:
        layout = found.known.layout
        _require_arrays({"layout": layout}, {"i n k": "layout"}, n=n)
        _require_inside(layout, -1, width, "intervals")
    return int(n)


def _regressor(state: State) -> None:
    _require_library(state, "container")
    _sums(state)
    if not _is_fitted(state, "targets_", "regressors_"):
        return
    n = _served(state, state["features_"], state["regressors_"], state["trust_"])
    n_groups, width = state["targets_"].partition_.n_groups, state["n_features_in_"]
    for features in state["features_"]:
        same = features.partition_.n_variables == width
        _require(same, "a group has other features than the model")
    single = state.get("single_models")
    if single is not None:
        _require_arrays(state, {"i m": "single_models.targets"})
        _require_inside(single.targets, 0, n, "a model of a single target")
        sound = isinstance(single.share, float) and 0.0 <= single.share <= 1.0
        _require(sound, "the share of groups' own models is not one")
    if state.get("deviations") is not None:
        columns = {"F g k": "group", "F n k": "own", "F n": "level", "F k": "centre"}
        added = state["deviations"]._asdict()
        _require_arrays(added, columns, n=n, g=n_groups, k=width)
    if "stability_" in state:
        _require_arrays(state, {"f n n": "stability_"}, n=n)


def _require_library(state: State, field: str, *others: str) -> None:
    """Refuse anything but a library of data frames: predictions import it by its name."""
    library = state.get(field)
    known = library is None or library in ("pandas", "polars", *others)
    _require(known, f"predictions cannot be handed to {shown(library)}")


def _pipeline(state: State) -> None:
    """Refuse a folder of cached results: joblib would unpickle what lies there."""
    _require(state.get("memory") is None, "a pipeline wants to read results from a folder")


def _own_inputs(state: State) -> None:
    _require_library(state, "container")
    _sums(state)
    if not _is_fitted(state, "targets_", "group_models"):
        return
    models, units = state["group_models"], state["units"]
    n = _served(state, models.features, models.regressors, state["deviations"].trust)
    n_groups, slots = state["targets_"].partition_.n_groups, np.shape(state["layout_"])[-1]
    columns = {
        "i n k": "layout_",
        "b g k": "group_models.slots",
        "b n k": "group_models.has deviations.has",
        "f n k": "deviations.coef deviations.centre",
        "f n m": "group_models.centre units.offsets units.scales",
    }
    _require_arrays(state, columns, n=n, g=n_groups, k=slots, m=slots + 1)
    _require_inside(state["layout_"], -1, state["n_features_in_"], "layout_")
    # NaN is a slot that a target lacks.
    bounded = not (np.isinf(units.offsets).any() or np.isinf(units.scales).any())
    _require(bounded, "targets have no units to be merged in")
    _require(models.aggregate in ("mean", "pool"), "models of own inputs are of no known kind")
    widths = [features.partition_.n_variables for features in models.features]
    same = np.array_equal(models.slots.sum(axis=1), widths)
    _require(same, "a group's features are not those of its slots")


def _pooled_space(state: State) -> None:
    arrays = [state[name] for name in ("root", "coordinates", "metric", "prediction")]
    arrays += state["pool"]
    sound = all(isinstance(array, np.ndarray) and np.isfinite(array).all() for array in arrays)
    _require(sound, "the evidence of tasks is not of numbers")


def _own_rows(state: State) -> None:
    _sums(state, TaskSums)
    if not _is_fitted(state, "targets_", "regressors_"):
        return
    ids = state["task_ids"]
    require_apart(ids, (TOP, "task_ids"))  # predictions look them up
    n = _served(state, state["features_"], state["regressors_"], state["trust_"])
    _require(len(ids) == n == len(state["names"]), "there is not one id per task")
    columns = {"f n": "offsets_", "f n k": "coef_ task_means"}
    _require_arrays(state, columns, n=n, k=state["n_features_in_"])


def _moments(state: State) -> None:
    _require(state["n_samples"] > 0 < state["weight"], "sums are not of some rows")
    _require_arrays(state, {"F k": "mean", "F k k": "cross"})


def _summary(state: State) -> None:
    n, width, sums = state["n_samples"], state["n_columns"], state["sums"]
    if state["rows"] is None:
        same = sums is not None and sums.n_samples == n and sums.mean.size == width
        _require(same, "sums are of other rows or columns")
        return
    _require(sums is None, "sums and the rows they are of do not go together")
    _require_arrays(state, {"F n k": "rows"}, n=n, k=width)
    if state["weights"] is not None:
        _require_arrays(state, {"f n": "weights"}, n=n)
        _require((state["weights"] > 0.0).all(), "sums and the rows they are of do not go together")


def _running_sums(state: State) -> None:
    folds, n_columns = state["folds"], sum(state["widths"])
    some = len(folds) <= MOST_FOLDINGS and all(1 < k < MOST_FOLDS for k in folds.values())
    _require(some, "sums are not of folds")
    n_classes = math.prod(folds.values())
    inside = all(0 <= key < n_classes for key in state["classes"])
    same = all(part.n_columns == n_columns for part in state["classes"].values())
    _require(inside and same, "sums are of other folds or columns than they say")
    _require(len(state["targets"].names) == state["widths"][2], "sums are of other targets")
    _require(len(state["next_fold"]) == len(folds), "pieces are of other folds")


def _task_sums(state: State) -> None:
    for (_, fold), part in state["classes"].items():
        inside = 0 <= fold < max(state["n_dealt"], 1)
        same = inside and part.n_columns == state["n_columns"]
        _require(same, "sums of tasks are of other folds or columns than they say")
    counted = all(n > 0 for n in state["arrived"].values())
    _require(counted, "sums have lost how many rows of each task came")


def _coordinates(state: State) -> None:
    for coordinate in state["variables"].values():
        shape = tuple(state["sizes"][dim] for dim in coordinate.dims)
        _require(np.shape(coordinate.values) == shape, "a coordinate has a wrong shape")


def _tasks(state: State) -> None:
    dims = state["dims"]
    apart = len(set(dims)) == len(dims) <= MOST_FOLDINGS
    _require(apart, "tasks lie along too many dimensions, or along one twice")
    _require_arrays(state, {"i n": "kept"})
    places = math.prod(state["coords"].sizes[dim] for dim in dims)
    _require_inside(state["kept"], 0, places, "a grid")


def _geometry(state: State) -> None:
    _require_arrays(state, {"u n": "wkb", "i m": "offsets"})
    bounds, end = state["offsets"], state["wkb"].size
    ordered = bounds.size and bounds[0] == 0 and bounds[-1] == end and (np.diff(bounds) >= 0).all()
    _require(ordered, "the outlines of a map do not follow each other")


def _labelled(state: State) -> None:
    if state["plan"] is None:
        return
    n, held_out, weights = state["estimator"].labels_.size, state["held_out"], state["weights"]
    each: Iterable[Any] = () if held_out is None else held_out.errors.values()
    lengths = {state["tasks"].n_tasks, *map(len, each)}
    _require(lengths == {n}, "labelled tasks are others than those of the model")
    _require(weights is None or len(weights) == n, "weights are of other tasks")
    found = state["coefficients"]
    if found is not None:
        with_errors = "" if found.standard_error is None else " coefficients.standard_error"
        columns = {"f g k": f"coefficients.value{with_errors}"}
        _require_arrays(state, columns, g=state["estimator"].n_groups_, k=len(found.names))


def _form(state: State) -> None:
    _require(isinstance(state["kind"], str), "labelled data are of no known form")
    _require_library(state, "library", "xarray")


_CHECKS: dict[str, Callable[[State], None]] = {
    "Partition": _partition,
    "MergeHistory": _history,
    "CutCurve": _curve,
    "MergeEvidence": _evidence,
    "TargetAggregator": _targets,
    "FeatureAggregator": _features,
    "CTFARegressor": _regressor,
    "CTFARegressorCV": _regressor,
    "MultiInputCTFARegressor": _own_inputs,
    "PooledCTFARegressor": _own_rows,
    "Calibration": _calibration,
    "Lines": _lines,
    "PooledSpace": _pooled_space,
    "Moments": _moments,
    "Summary": _summary,
    "RunningSums": _running_sums,
    "TaskSums": _task_sums,
    "Coordinates": _coordinates,
    "Tasks": _tasks,
    "Geometry": _geometry,
    "Form": _form,
    "LabelledFit": _labelled,
    "sklearn.pipeline.Pipeline": _pipeline,
}
