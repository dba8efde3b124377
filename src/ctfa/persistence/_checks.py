"""Whether what a file holds can be: groups that are groups, shapes that belong together.

The state of an object is set without its constructor, so what that would see to is seen to here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ctfa._streaming import RunningSums, TaskSums
from ctfa.core.moments import Moments
from ctfa.core.partition import Partition
from ctfa.persistence._errors import TOP, damaged, shown
from ctfa.persistence._plain import require_apart

#: More ways to fold rows, and more folds, than anybody has: their product is taken.
MOST_FOLDINGS, MOST_FOLDS = 64, 2**31


def check_state(name: str, value: Any) -> None:
    """Refuse an object of ours that is inconsistent."""
    if name in _CHECKS:
        _CHECKS[name](value)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise damaged(what)


def _is_vector(values: Any, size: int | None, kinds: str) -> bool:
    is_array = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in kinds
    return is_array and (size is None or values.size == size)


def _is_positive(values: Any, size: int) -> bool:
    sound = _is_vector(values, size, "f")
    return bool(sound and np.isfinite(values).all() and (values > 0.0).all())


def _is_share(values: Any, size: int) -> bool:
    sound = _is_vector(values, size, "f")
    return bool(sound and (values >= 0.0).all() and (values <= 1.0).all())


def _has_shape(values: Any, shape: tuple[int, ...], kinds: str = "f") -> bool:
    is_array = isinstance(values, np.ndarray) and values.dtype.kind in kinds
    return is_array and values.shape == shape


def _partition(value: Any) -> None:
    labels = value.labels
    _require(_is_vector(labels, None, "i"), "the groups are not whole numbers, one a variable")
    canonical = Partition(labels).labels
    _require(np.array_equal(labels, canonical), "groups are not numbered by their first members")


def _history(value: Any) -> None:
    n, n_merges = value.n_variables, np.size(value.block)
    whole = isinstance(n, int) and n >= 0 and isinstance(value.n_comparisons, int)
    _require(whole, "a history of merges does not say of how many")
    columns = (
        _is_vector(value.block, n_merges, "i"),
        _is_vector(value.other, n_merges, "i"),
        _is_vector(value.size, n_merges, "i"),
        _is_vector(value.loss, n_merges, "f"),
        _is_vector(value.refused, n, "i"),
        _is_vector(value.refused_loss, n, "f"),
    )
    _require(all(columns), "the columns of a history of merges are not of one length")
    for slots, least in ((value.block, 0), (value.other, 0), (value.refused, -1)):
        inside = slots.size == 0 or (slots.min() >= least and slots.max() < n)
        _require(inside, "a history of merges names a variable that is not there")
    sizes = [1] * n
    merges = (value.block.tolist(), value.other.tolist(), value.size.tolist())
    for block, other, size in zip(*merges, strict=True):
        _require(block != other and sizes[block] and sizes[other], "something is merged twice")
        sizes[block] += sizes[other]
        sizes[other] = 0
        _require(size == sizes[block], "a merge has not the size of its members")
    _require(value.names is None or len(value.names) == n, "a history has names of others")
    _require(
        isinstance(value.loss_interval, tuple) and len(value.loss_interval) == 2,
        "a history of merges has no interval of losses",
    )


def _curve(value: Any) -> None:
    _require(_is_vector(value.max_loss, None, "f"), "a curve has no limits")
    n_limits = value.max_loss.size
    folds = value.fold_errors
    shaped = isinstance(folds, np.ndarray) and folds.ndim == 2 and folds.shape[1] == n_limits
    inside = isinstance(value.chosen, int) and 0 <= value.chosen < n_limits
    _require(shaped and inside and np.size(value.n_groups) == n_limits, "a curve has wrong lengths")


def _evidence(value: Any) -> None:
    n = value.partition.n_variables
    sizes = (value.history.n_variables, len(value.names), np.size(value.signs))
    gains = (np.size(value.gain.value), np.size(value.gain.standard_error))
    _require(set(sizes + gains) == {n}, "the evidence is of other targets than the groups")
    made = len(value.merges) == len(value.history)
    made = made and value.history.partition() == value.partition
    _require(made, "the evidence is of other merges than the groups")
    for merge in value.merges:
        losers, total = merge.losers, merge.total
        single = np.ndim(total.value) == 0 == np.ndim(total.standard_error)
        inside = np.ndim(losers) == 1 and losers.min(initial=0) >= 0 and losers.max(initial=0) < n
        _require(single and inside, "a merge gains for targets that are not there")


def _lines(value: Any) -> None:
    levels, slopes, centre = np.shape(value.levels), np.shape(value.slopes), np.shape(value.centre)
    finite = all(np.isfinite(part).all() for part in (value.levels, value.slopes, value.centre))
    _require(finite and slopes == levels + centre, "a baseline is not of numbers")


def _streamed(value: Any) -> None:
    """Refuse a model with sums of others than its features."""
    sums = vars(value).get("_sums")
    same = sums is None or (
        isinstance(sums, RunningSums) and sums.widths[1] == value.n_features_in_
    )
    _require(same, "a model keeps sums of other features")


def _is_fitted(known: dict[str, Any], groups: str, others: str) -> bool:
    """Whether a model has its groups; refuse one that has only what fit finds beside them."""
    _require((groups in known) == (others in known), f"a model has not both {groups} and {others}")
    return groups in known


def _aggregator(value: Any) -> None:
    _streamed(value)
    known = vars(value)
    if not _is_fitted(known, "partition_", "labels_"):
        return
    partition, n = value.partition_, value.partition_.n_variables
    labels = partition.labels
    same = np.array_equal(value.labels_, labels) and value.n_groups_ == partition.n_groups
    _require(same and value.history_.n_variables == n, "labels, groups and merges disagree")
    for name in ("signs_", "offsets_", "scales_"):
        _require(name not in known or _is_vector(known[name], n, "f"), f"{name} has a wrong length")
    for name in ("_names", "_labels", "target_names_in_"):
        _require(name not in known or len(known[name]) == n, f"{name} has a wrong length")
    if "scales_" in known:
        sound = np.isfinite(value.offsets_).all() and np.isfinite(value.scales_).all()
        _require(sound and (value.scales_ > 0.0).all(), "targets have no units to be merged in")
        _require((np.abs(value.signs_) == 1.0).all(), "signs_ are not 1 and -1")
    weights, means = known.get("target_weight_"), known.get("baseline_means_")
    _require(weights is None or _is_positive(weights, n), "target_weight_ are no weights")
    if means is not None:
        shape = (n, np.size(means))
        _require(_has_shape(known["baseline_slopes_"], shape), "a baseline has a wrong shape")


def _features(value: Any) -> None:
    _aggregator(value)
    known = vars(value)
    if "partition_" in known:
        labels, width = value.partition_.labels, known.get("n_features_in_")
        same = type(width) is int and width == labels.size
        named = np.shape(known.get("feature_names_in_", labels)) == labels.shape
        _require(same and named, "features are others than their groups")


def _regressor(value: Any) -> None:
    _container(value)
    _streamed(value)
    known = vars(value)
    if not _is_fitted(known, "targets_", "regressors_"):
        return
    partition = value.targets_.partition_
    n, n_groups = partition.n_variables, partition.n_groups
    _one_a_group(value.features_, value.regressors_, n_groups)
    _require(_is_share(value.trust_, n), "trust_ is not a share for each target")
    for features in value.features_:
        same = features.partition_.n_variables == value.n_features_in_
        _require(same, "a group has other features than the model")
    _single_models(known.get("_singles"), n)
    if "stability_" in known:
        _require(_has_shape(value.stability_, (n, n)), "stability_ has a wrong shape")


def _container(value: Any) -> None:
    """Refuse anything but a library of data frames: predictions import it by its name."""
    library = vars(value).get("_library")
    if library not in (None, "pandas", "polars"):
        raise damaged(f"predictions cannot be handed to {shown(library)}")


def _pipeline(value: Any) -> None:
    """Refuse a folder of cached results: joblib would unpickle what lies there."""
    _require(vars(value).get("memory") is None, "a pipeline wants to read results from a folder")


def _one_a_group(features: Sequence[Any], regressors: Sequence[Any], n_groups: int) -> None:
    _require(
        len(features) == n_groups == len(regressors), "there is not one regressor for each group"
    )
    for reduced, regressor in zip(features, regressors, strict=True):
        width = getattr(regressor, "n_features_in_", reduced.partition_.n_groups)
        same = width == reduced.partition_.n_groups
        _require(same, "a group's regressor has other features than the group")


def _single_models(singles: Any, n_targets: int) -> None:
    if singles is not None:
        targets = singles.targets
        inside = _is_vector(targets, None, "i") and all(0 <= t < n_targets for t in targets)
        _require(inside, "a target that is not there has a model of its own")


def _own_inputs(value: Any) -> None:
    _container(value)
    _streamed(value)
    if not _is_fitted(vars(value), "targets_", "_models"):
        return
    partition = value.targets_.partition_
    n, n_groups = partition.n_variables, partition.n_groups
    layout, models, steps = value.layout_, value._models, value._steps
    shaped = isinstance(layout, np.ndarray) and layout.ndim == 2 and layout.dtype.kind == "i"
    _require(shaped and layout.shape[0] == n, "layout_ is of other targets")
    _require(
        layout.min(initial=0) >= -1 and layout.max(initial=-1) < value.n_features_in_,
        "layout_ names columns that are not there",
    )
    slots = layout.shape[1]
    for array, shape, kinds in (
        (models.slots, (n_groups, slots), "b"),
        (models.has, (n, slots), "b"),
        (models.centre, (n, slots + 1), "f"),
        (steps.coef, (n, slots), "f"),
        (steps.centre, (n, slots), "f"),
        (steps.has, (n, slots), "b"),
        (steps.trust, (n,), "f"),
        (value._units.offsets, (n, slots + 1), "f"),
        (value._units.scales, (n, slots + 1), "f"),
    ):
        _require(_has_shape(array, shape, kinds), "models of own inputs have wrong shapes")
    _require(models.aggregate in ("mean", "pool"), "models of own inputs are of no known kind")
    _one_a_group(models.features, models.regressors, n_groups)
    _require(_is_share(steps.trust, n), "trust_ is not a share for each target")
    widths = [features.partition_.n_variables for features in models.features]
    same = np.array_equal(models.slots.sum(axis=1), widths)
    _require(same, "a group's features are not those of its slots")


def _pooled_space(value: Any) -> None:
    arrays = (value._root, value._coordinates, value._metric, value._prediction, *value._pool)
    sound = all(isinstance(a, np.ndarray) and np.isfinite(a).all() for a in arrays)
    _require(sound, "the evidence of tasks is not of numbers")


def _own_rows(value: Any) -> None:
    sums = vars(value).get("_sums")
    same = sums is None or (
        isinstance(sums, TaskSums) and sums.n_columns == value.n_features_in_ + 1
    )
    _require(same, "a model keeps sums of other features")
    if not _is_fitted(vars(value), "targets_", "regressors_"):
        return
    require_apart(value._ids, (TOP, "_ids"))  # predictions look them up
    n, width = value.targets_.partition_.n_variables, value.n_features_in_
    _require(len(value._ids) == n == len(value._names), "there is not one id for each task")
    for array, shape in (
        (value.offsets_, (n,)),
        (value.trust_, (n,)),
        (value.coef_, (n, width)),
        (value._centre, (n, width)),
    ):
        _require(_has_shape(array, shape), "tasks with their own rows have wrong shapes")
    _one_a_group(value.features_, value.regressors_, value.targets_.partition_.n_groups)


def _moments(value: Any) -> None:
    width = np.size(value.mean)
    whole = isinstance(value.n_samples, int) and isinstance(value.weight, float)
    _require(whole and value.n_samples > 0 < value.weight, "sums are not of some rows")
    shaped = _has_shape(value.mean, (width,)) and _has_shape(value.cross, (width, width))
    finite = shaped and np.isfinite(value.mean).all() and np.isfinite(value.cross).all()
    _require(finite, "sums are those of no rows")


def _summary(value: Any) -> None:
    n, width = value.n_samples, value.n_columns
    _require(isinstance(n, int) and isinstance(width, int), "sums do not say of how many rows")
    if value.rows is None:
        same = isinstance(value.sums, Moments) and value.sums.n_samples == n
        _require(same and value.sums.mean.size == width, "sums are of other rows or columns")
        return
    weights = value.weights
    shaped = _has_shape(value.rows, (n, width)) and np.isfinite(value.rows).all()
    weighed = weights is None or (_is_vector(weights, n, "f") and (weights > 0.0).all())
    _require(value.sums is None and shaped and weighed, "rows that are kept have wrong shapes")


def _running_sums(value: Any) -> None:
    widths, folds = value.widths, value.folds
    n_columns = sum(widths)
    _require(
        isinstance(folds, dict)
        and len(folds) <= MOST_FOLDINGS
        and all(isinstance(k, int) and 1 < k < MOST_FOLDS for k in folds.values()),
        "sums are of no folds",
    )
    n_classes = math.prod(folds.values())
    inside = all(isinstance(key, int) and 0 <= key < n_classes for key in value.classes)
    same = all(part.n_columns == n_columns for part in value.classes.values())
    _require(inside and same, "sums are of other folds or columns than they say")
    _require(_is_vector(value.largest, n_columns, "f"), "sums have lost what they were")
    _require(len(value.targets.names) == widths[2], "sums are of other targets")
    starts = (value.next_fold, *(s for times in value.pieces.values() for s in times))
    _require(all(len(start) == len(folds) for start in starts), "pieces are of other folds")


def _task_sums(value: Any) -> None:
    width, n_dealt = value.n_columns, value.n_dealt
    whole = isinstance(n_dealt, int) and isinstance(width, int) and n_dealt >= 0
    _require(whole, "sums of tasks are of no folds")
    for key, part in value.classes.items():
        pair = isinstance(key, tuple) and len(key) == 2 and isinstance(key[1], int)
        # Not "in range(...)", which looks for what is no whole number one by one.
        _require(
            pair and 0 <= key[1] < max(n_dealt, 1), "sums of tasks are of other folds than they say"
        )
        same = part.n_columns == width and _is_vector(value.most.get(key), width, "f")
        _require(same, "sums of tasks are of other columns than they say")
    _require(value.most.keys() == value.classes.keys(), "sums of tasks are of others")
    _require(_is_vector(value.largest, width, "f"), "sums have lost what they were")
    known = value.pieces is None or isinstance(value.pieces, dict)
    _require(known, "sums have lost which pieces came")
    came = value.arrived
    counted = isinstance(came, dict) and all(isinstance(n, int) and n > 0 for n in came.values())
    _require(counted, "sums have lost how many rows of each task came")


def _coordinates(value: Any) -> None:
    for coordinate in value.variables.values():
        shape = tuple(value.sizes[dim] for dim in coordinate.dims)
        _require(np.shape(coordinate.values) == shape, "a coordinate has a wrong shape")


def _tasks(value: Any) -> None:
    apart = len(set(value.dims)) == len(value.dims) <= MOST_FOLDINGS
    _require(apart, "tasks lie along too many dimensions, or along one twice")
    n_cells = 1
    for dim in value.dims:
        n_cells *= value.coords.sizes[dim]
    kept = value.kept
    inside = _is_vector(kept, None, "i") and kept.min(initial=0) >= 0
    _require(inside and kept.max(initial=-1) < n_cells, "tasks lie outside of their grid")


def _geometry(value: Any) -> None:
    bounds, size = value.offsets, np.size(value.wkb)
    shaped = _is_vector(bounds, None, "i") and _is_vector(value.wkb, None, "u") and bounds.size
    _require(shaped, "a map has no outlines")
    ordered = bounds[0] == 0 and bounds[-1] == size and (np.diff(bounds) >= 0).all()
    _require(ordered, "the outlines of a map do not follow each other")


def _labelled(value: Any) -> None:
    if value.plan is not None:
        n = value.estimator.labels_.size
        errors = () if value.held_out is None else value.held_out.errors.values()
        lengths = {value.tasks.n_tasks, *map(len, errors)}
        _require(lengths == {n}, "labelled tasks are others than those of the model")
        weights = value.weights
        _require(weights is None or len(weights) == n, "weights are of other tasks")
        found = value.coefficients
        if found is not None:
            shape, error = (value.estimator.n_groups_, len(found.names)), found.standard_error
            same = error is None or _has_shape(error, shape)
            _require(same and _has_shape(found.value, shape), "coefficients are of other regions")


def _form(value: Any) -> None:
    known = value.library in ("xarray", "pandas", "polars") and isinstance(value.kind, str)
    _require(known, "labelled data are of no known library")


_CHECKS: dict[str, Callable[[Any], None]] = {
    "Partition": _partition,
    "MergeHistory": _history,
    "CutCurve": _curve,
    "MergeEvidence": _evidence,
    "TargetAggregator": _aggregator,
    "FeatureAggregator": _features,
    "CTFARegressor": _regressor,
    "CTFARegressorCV": _regressor,
    "MultiInputCTFARegressor": _own_inputs,
    "PooledCTFARegressor": _own_rows,
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
