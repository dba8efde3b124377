"""Whether what a file holds can be: values of their types, shapes that belong together.

The state of an object is set without its constructor, so what that would see to is seen to here,
in the fields of the object before it is made.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ctfa._streaming import RunningSums, TaskSums
from ctfa.core.calibration import SCORES, Calibration
from ctfa.core.partition import Partition
from ctfa.persistence._codec import TOP, damaged, shown
from ctfa.persistence._values import require_apart

#: Kinds of numpy's numbers that serve where a type is asked for.
KINDS = {"f": "fiu", "i": "iu", "u": "u", "b": "b"}
#: Classes some of whose fields are None where the data have no such thing.
MAY_LACK = ("LabelledFit",)
#: More ways to fold rows, and more folds, than anybody has: their product is taken.
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


def _has_shape(values: Any, shape: tuple[int, ...], kinds: str = "f") -> bool:
    is_array = isinstance(values, np.ndarray) and values.dtype.kind in kinds
    return is_array and values.shape == shape


def _require_shape(shape: tuple[int, ...], *arrays: Any, kinds: str = "f", of: str) -> None:
    """Refuse arrays of another shape, or of other kinds of numbers."""
    sound = all(_has_shape(array, shape, kinds) for array in arrays)
    _require(sound, f"{of} are of other numbers, or have other shapes, than belong together")


def _require_inside(positions: Any, least: int, n: int, what: str) -> None:
    inside = positions.min(initial=least) >= least and positions.max(initial=-1) < n
    _require(inside, f"{what} names something that is not there")


def _is_finite(*arrays: Any) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _partition(state: State) -> None:
    labels = state["labels"]
    _require_shape((np.size(labels),), labels, kinds="i", of="groups")
    canonical = Partition(labels).labels
    _require(np.array_equal(labels, canonical), "groups are not numbered by their first members")


def _history(state: State) -> None:
    n, block, other, size = (state[name] for name in ("n_variables", "block", "other", "size"))
    what, merges = "the columns of a history of merges", (np.size(block),)
    _require_shape(merges, block, other, size, kinds="i", of=what)
    _require_shape(merges, state["loss"], of=what)
    _require_shape((n,), state["refused"], kinds="i", of=what)
    _require_shape((n,), state["refused_loss"], of=what)
    for positions, least in ((block, 0), (other, 0), (state["refused"], -1)):
        _require_inside(positions, least, n, "a history of merges")
    sizes = [1] * n
    for one, two, together in zip(block.tolist(), other.tolist(), size.tolist(), strict=True):
        _require(one != two and sizes[one] and sizes[two], "something is merged twice")
        sizes[one] += sizes[two]
        sizes[two] = 0
        _require(together == sizes[one], "a merge has not the size of its members")
    names = state["names"]
    _require(names is None or len(names) == n, "a history has names of others")


def _curve(state: State) -> None:
    n_limits, folds = np.size(state["max_loss"]), state["fold_errors"]
    _require_shape((n_limits,), state["max_loss"], of="limits of a curve")
    _require_shape((n_limits,), state["n_groups"], kinds="fi", of="groups of a curve")
    _require_shape((len(folds), n_limits), folds, of="errors of a curve")
    _require(0 <= state["chosen"] < n_limits, "a curve chooses a limit that is not there")


def _evidence(state: State) -> None:
    history, partition, gain = state["history"], state["partition"], state["gain"]
    n, merges = partition.n_variables, state["merges"]
    sizes = history.n_variables, len(state["names"])
    served = gain if state["served"] is None else state["served"]
    known = {np.shape(each) for each in (state["signs"], *gain, *served)}
    same = set(sizes) == {n} and known == {(n,)}
    _require(same, "the evidence is of other targets than the groups")
    made = len(merges) == len(history) and history.partition() == partition
    _require(made, "the evidence is of other merges than the groups")
    for merge in merges:
        losers, total = merge.losers, merge.total
        single = np.ndim(total.value) == 0 == np.ndim(total.standard_error)
        _require(single and np.ndim(losers) == 1, "a merge gains for targets that are not there")
        _require_inside(losers, 0, n, "a merge")


def _lines(state: State) -> None:
    levels, slopes, centre = state["levels"], state["slopes"], state["centre"]
    same = np.shape(slopes) == np.shape(levels) + np.shape(centre)
    _require(_is_finite(levels, slopes, centre) and same, "confounds are not numbers")


def _is_fitted(state: State, groups: str, others: str) -> bool:
    """Whether a model has its groups; refuse one that has only what fit finds beside them."""
    _require((groups in state) == (others in state), f"a model has not both {groups} and {others}")
    return groups in state


def _targets(state: State) -> None:
    _sums(state, RunningSums)
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
        signs, offsets, scales = state["signs_"], state["offsets_"], state["scales_"]
        _require_shape((n,), signs, offsets, scales, of="units of targets")
        sound = _is_finite(offsets, scales) and (scales > 0.0).all()
        _require(sound, "targets have no units to be merged in")
        _require((np.abs(signs) == 1.0).all(), "signs_ are not 1 and -1")
    weights, means = state.get("target_weight_"), state.get("confounds_means_")
    if weights is not None:
        _require_shape((n,), weights, of="target_weight_")
        _require(_is_finite(weights) and (weights > 0.0).all(), "target_weight_ are no weights")
    if means is not None:
        _require_shape((n, np.size(means)), state["confounds_slopes_"], of="confounds_slopes_")


def _features(state: State) -> None:
    _targets(state)
    if "partition_" in state:
        labels, width = state["partition_"].labels, state.get("n_features_in_")
        same = type(width) is int and width == labels.size
        named = np.shape(state.get("feature_names_in_", labels)) == labels.shape
        _require(same and named, "features are others than their groups")


def _calibration(state: State) -> None:
    n, n_groups = state["scale"].size, int(state["labels"].max(initial=-1)) + 1
    of = "intervals"
    _require_shape((n,), *(state[name] for name in ("scale", "level", "spread")), of=of)
    _require_shape((n,), state["labels"], kinds="i", of=of)
    _require_inside(state["labels"], 0, len(state["table"]), "errors of a group")
    _require_shape((max(n_groups, 1), SCORES.size), state["table"], of=of)
    known, slopes = state["known"], state["slopes"]
    _require_shape((known.centre.size,), known.centre, known.unit, of=of)
    _require_shape((slopes.size,), slopes, of=of)
    _require(_is_finite(state["scale"], state["table"], slopes), f"{of} are not of numbers")


def _of_calibration(state: State, n: int) -> None:
    found = state.get("calibration_")
    same = found is None or (isinstance(found, Calibration) and found.scale.size == n)
    _require(same, "intervals are of other targets than the model")
    if found is not None and found.slopes[2:].any():
        known, width = found.known, state["n_features_in_"]
        if known.layout is not None:
            _require_shape((n, np.shape(known.layout)[-1]), known.layout, kinds="i", of="intervals")
            _require_inside(known.layout, -1, width, "intervals")


def _regressor(state: State) -> None:
    _container(state)
    _sums(state, RunningSums)
    if not _is_fitted(state, "targets_", "regressors_"):
        return
    partition = state["targets_"].partition_
    n = partition.n_variables
    _one_per_group(state["features_"], state["regressors_"], partition.n_groups)
    _shares(state["trust_"], n)
    _of_calibration(state, n)
    for features in state["features_"]:
        same = features.partition_.n_variables == state["n_features_in_"]
        _require(same, "a group has other features than the model")
    if state.get("single_models") is not None:
        own = state["single_models"].targets
        _require_shape((own.size,), own, kinds="i", of="models of single targets")
        _require_inside(own, 0, n, "a model of a single target")
        share = state["single_models"].share
        sound = isinstance(share, float) and 0.0 <= share <= 1.0
        _require(sound, "the share of groups' own models is not one")
    added, width = state.get("deviations"), state["n_features_in_"]
    if added is not None:
        what = "what targets add to their groups"
        _require_shape((partition.n_groups, width), added.group, of=what)
        _require_shape((n, width), added.own, of=what)
        _require_shape((n,), added.level, of=what)
        _require_shape((width,), added.centre, of=what)
        _require(_is_finite(*added), f"{what} is not of numbers")
    if "stability_" in state:
        _require_shape((n, n), state["stability_"], of="stability_")


def _shares(trust: Any, n: int) -> None:
    sound = _has_shape(trust, (n,)) and ((trust >= 0.0) & (trust <= 1.0)).all()
    _require(sound, "trust_ is not a share for each target")


def _one_per_group(features: Sequence[Any], regressors: Sequence[Any], n_groups: int) -> None:
    same = len(features) == n_groups == len(regressors)
    _require(same, "there is not one regressor for each group")
    for reduced, regressor in zip(features, regressors, strict=True):
        width = getattr(regressor, "n_features_in_", reduced.partition_.n_groups)
        same = width == reduced.partition_.n_groups
        _require(same, "a group's regressor has other features than the group")


def _container(state: State) -> None:
    """Refuse anything but a library of data frames: predictions import it by its name."""
    library = state.get("container")
    if library not in (None, "pandas", "polars"):
        raise damaged(f"predictions cannot be handed to {shown(library)}")


def _pipeline(state: State) -> None:
    """Refuse a folder of cached results: joblib would unpickle what lies there."""
    _require(state.get("memory") is None, "a pipeline wants to read results from a folder")


def _own_inputs(state: State) -> None:
    _container(state)
    _sums(state, RunningSums)
    if not _is_fitted(state, "targets_", "group_models"):
        return
    layout, models, steps = state["layout_"], state["group_models"], state["deviations"]
    partition, units = state["targets_"].partition_, state["units"]
    n, slots = partition.n_variables, np.shape(layout)[-1]
    _require_shape((n, slots), layout, kinds="i", of="layout_")
    _require_inside(layout, -1, state["n_features_in_"], "layout_")
    what = "models of own inputs"
    _require_shape((partition.n_groups, slots), models.slots, kinds="b", of=what)
    _require_shape((n, slots), models.has, steps.has, kinds="b", of=what)
    _require_shape((n, slots), steps.coef, steps.centre, of=what)
    _require_shape((n, slots + 1), models.centre, units.offsets, units.scales, of=what)
    # NaN is a slot that a target lacks.
    bounded = not (np.isinf(units.offsets).any() or np.isinf(units.scales).any())
    _require(bounded, "targets have no units to be merged in")
    _require(models.aggregate in ("mean", "pool"), "models of own inputs are of no known kind")
    _one_per_group(models.features, models.regressors, partition.n_groups)
    _shares(steps.trust, n)
    _of_calibration(state, n)
    widths = [features.partition_.n_variables for features in models.features]
    same = np.array_equal(models.slots.sum(axis=1), widths)
    _require(same, "a group's features are not those of its slots")


def _pooled_space(state: State) -> None:
    arrays = [state[name] for name in ("root", "coordinates", "metric", "prediction")]
    arrays += state["pool"]
    sound = all(isinstance(array, np.ndarray) for array in arrays) and _is_finite(*arrays)
    _require(sound, "the evidence of tasks is not of numbers")


def _own_rows(state: State) -> None:
    _sums(state, TaskSums)
    if not _is_fitted(state, "targets_", "regressors_"):
        return
    ids = state["task_ids"]
    require_apart(ids, (TOP, "task_ids"))  # predictions look them up
    partition, width = state["targets_"].partition_, state["n_features_in_"]
    n = partition.n_variables
    _require(len(ids) == n == len(state["names"]), "there is not one id for each task")
    what = "tasks with their own rows"
    _require_shape((n,), state["offsets_"], state["trust_"], of=what)
    _of_calibration(state, n)
    _require_shape((n, width), state["coef_"], state["task_means"], of=what)
    _one_per_group(state["features_"], state["regressors_"], partition.n_groups)


def _sums(state: State, kind: type) -> None:
    """Refuse a model with sums of others than its features."""
    sums = state.get("sums")
    if sums is not None:
        _require(isinstance(sums, kind), "a model keeps sums of another kind")
        wide = sums.widths[1] if isinstance(sums, RunningSums) else sums.n_columns - 1
        _require(wide == state["n_features_in_"], "a model keeps sums of other features")


def _moments(state: State) -> None:
    mean, cross = state["mean"], state["cross"]
    width = np.size(mean)
    _require(state["n_samples"] > 0 < state["weight"], "sums are not of some rows")
    _require_shape((width,), mean, of="sums")
    _require_shape((width, width), cross, of="sums")
    _require(_is_finite(mean, cross), "sums are those of no rows")


def _summary(state: State) -> None:
    n, width, rows, sums = (state[name] for name in ("n_samples", "n_columns", "rows", "sums"))
    if rows is None:
        same = sums is not None and sums.n_samples == n and sums.mean.size == width
        _require(same, "sums are of other rows or columns")
        return
    weights = state["weights"]
    weighed = weights is None or (_has_shape(weights, (n,)) and (weights > 0.0).all())
    _require_shape((n, width), rows, of="rows that are kept")
    _require(sums is None and weighed and _is_finite(rows), "rows that are kept are no rows")


def _running_sums(state: State) -> None:
    folds, n_columns = state["folds"], sum(state["widths"])
    some = len(folds) <= MOST_FOLDINGS and all(1 < k < MOST_FOLDS for k in folds.values())
    _require(some, "sums are of no folds")
    n_classes = math.prod(folds.values())
    inside = all(0 <= key < n_classes for key in state["classes"])
    same = all(part.n_columns == n_columns for part in state["classes"].values())
    _require(inside and same, "sums are of other folds or columns than they say")
    _require(len(state["targets"].names) == state["widths"][2], "sums are of other targets")
    _require(len(state["next_fold"]) == len(folds), "pieces are of other folds")


def _task_sums(state: State) -> None:
    for (_, fold), part in state["classes"].items():
        is_known = 0 <= fold < max(state["n_dealt"], 1)
        _require(is_known, "sums of tasks are of other folds than they say")
        same = part.n_columns == state["n_columns"]
        _require(same, "sums of tasks are of other columns than they say")
    counted = all(n > 0 for n in state["arrived"].values())
    _require(counted, "sums have lost how many rows of each task came")


def _coordinates(state: State) -> None:
    for coordinate in state["variables"].values():
        shape = tuple(state["sizes"][dim] for dim in coordinate.dims)
        _require(np.shape(coordinate.values) == shape, "a coordinate has a wrong shape")


def _tasks(state: State) -> None:
    dims, kept = state["dims"], state["kept"]
    apart = len(set(dims)) == len(dims) <= MOST_FOLDINGS
    _require(apart, "tasks lie along too many dimensions, or along one twice")
    _require_shape((np.size(kept),), kept, kinds="i", of="tasks")
    _require_inside(kept, 0, math.prod(state["coords"].sizes[dim] for dim in dims), "a grid")


def _geometry(state: State) -> None:
    bounds, wkb = state["offsets"], state["wkb"]
    _require_shape((np.size(wkb),), wkb, kinds="u", of="outlines")
    _require_shape((np.size(bounds),), bounds, kinds="i", of="outlines")
    _require(bounds.size, "a map has no outlines")
    ordered = bounds[0] == 0 and bounds[-1] == wkb.size and (np.diff(bounds) >= 0).all()
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
        shape = (state["estimator"].n_groups_, len(found.names))
        _require_shape(shape, found.value, of="coefficients")
        if found.standard_error is not None:
            _require_shape(shape, found.standard_error, of="coefficients")


def _form(state: State) -> None:
    known = state["library"] in ("xarray", "pandas", "polars") and isinstance(state["kind"], str)
    _require(known, "labelled data are of no known library")


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
