"""Fit labelled data: find it, prepare it, group the tasks, judge the result on rows left out."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, RidgeCV

from ctfa import _reading as check
from ctfa._errors import InputError, Message, Option
from ctfa._reading.sums import Classes, Collection, Wanted, learns_from_sums
from ctfa.core import progress
from ctfa.core.libraries import need
from ctfa.core.series import NO_COLUMN
from ctfa.core.types import FloatArray
from ctfa.estimators.features import FeatureAggregator
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.pooled import PooledCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import Summing, Zeros
from ctfa.labelled import _doubts as doubts
from ctfa.labelled._form import DataForm, as_pandas, is_table, library_of, read_rows, read_table
from ctfa.labelled._labels import lie_along, selected, tasks_first, to_repeat
from ctfa.labelled._places import Geometry, area_weights, match_polygons, read_neighbours
from ctfa.labelled._reading import (
    Arrays,
    Gathered,
    Plan,
    Slot,
    arrange,
    gather,
    named_inputs,
    told_of,
    without_layers,
)
from ctfa.labelled._result import LabelledFit
from ctfa.labelled._tasks import Coordinate, Coordinates, LabelledTasks
from ctfa.labelled._times import (
    Seasons,
    apart_from_past,
    untreated,
    windows_in,
    with_past,
    zeros_of,
)
from ctfa.labelled._units import without_quantity
from ctfa.labelled._words import CALLED, kind_of, row_labels, several, word
from ctfa.report import Given, Judging, Material, complete
from ctfa.report._complete import HELD_OUT

#: What a fit is of the work, to a bar, where it is judged on held-out rows after it.
FITTING = 0.5
#: Name of a row in a table in which every task has its own rows, and values of options that ask
#: for nothing there.
ROW, USUAL = "row", (False, "auto", "ols")
#: What judges merges for ``solver="ridge"``; penalties where features have about unit variance.
RIDGE = RidgeCV(np.logspace(-3, 5, 25))
#: What to use instead of options that people expect.
INSTEAD = dict.fromkeys(("n_groups", "n_clusters", "k"), "a number of regions is n_regions")


def fit(
    data: Any,
    *,
    target: Any = None,
    features: Any = None,
    sample: str | None = None,
    task: Any = None,
    select: Mapping[str, Any] | None = None,
    neighbours: Any = None,
    places: Any = None,
    anomalies: str | None = None,
    detrend: bool = False,
    standardise: bool = True,
    weights: Any = None,
    masked: str = "auto",
    regressor: Any = None,
    aggregate: str = "auto",
    head: str | None = None,
    max_loss: float | str = "auto",
    n_regions: int | None = None,
    tolerance: float | None = None,
    min_size: int = 1,
    together: Any = None,
    apart: Any = None,
    solver: str | None = None,
    merge_features: Any = None,
    cv: Any = 10,
    held_out: Any = "auto",
    lags: Any = None,
    own_past: Any = None,
    title: str | None = None,
    n_jobs: int | None = None,
    **unknown: Any,
) -> LabelledFit:
    """Group the tasks of labelled data into regions, and fit one model per region.

    Parameters
    ----------
    data : xarray Dataset or DataArray, pandas, polars or geopandas table
        A table is long (a row for every sample and task), wide (``target`` names several columns,
        which share the features), has columns in pairs (variable, task), or, without ``sample``,
        has one row per observation of a task with its own rows. Dask arrays without missing values
        stay in chunks: they are read once, a few chunks at a time.
    target : str, DataArray or list of columns
        What is predicted.
    features : str, list or DataArray(s), default=None
        What it is predicted from: on the dimensions of the target (each task has its own) or along
        ``sample`` alone (all tasks share it). None takes every other variable along ``sample``.
    sample : str, default=None
        Dimension or column of the rows, such as time; sorted, without duplicates. None takes one
        with such a name. Blocks of consecutive samples are held out.
    task : str or pair of str, default=None
        Dimension or column of the tasks; two for the cells of a grid. None takes what is left.
    select : dict, default=None
        Part of the data, by labels: ``{"level": 850, "time": slice("2000", "2010")}``. One label
        drops its dimension; a list, or a slice that includes both ends, keeps a part. Numbers are
        matched up to rounding. ``predict`` selects the same, except rows and tasks.
    neighbours : default=None
        Which tasks may be merged; regions stay connected. ``"rook"`` or ``"queen"`` on a grid;
        ``"border"`` for outlines, or a GeoDataFrame of them; ``"nearest:6"`` for positions; a
        libpysal graph; pairs of labels; a matrix.
    places : GeoDataFrame or GeoSeries, default=None
        Outlines for maps, if ``neighbours`` does not have them.
    anomalies : {"month", "season", "hour", "dayofyear"}, default=None
        Subtract the mean of each from every series; for "dayofyear" a smooth yearly cycle.
    detrend : bool, default=False
        Subtract a linear trend from every series.
    standardise : bool, default=True
        Divide the target of every task, and its own features, by their spread; features that all
        tasks share are averaged in their own units. Like anomalies and trends this is learned on
        training rows alone, also in every fold, and put back in predictions.
    weights : "area" or one number per task, default=None
        How much each task counts in the mean of its region and in the total error.
    masked : {"auto", "leave", "error"}, default="auto"
        Tasks without a single value: "leave" leaves them out, missing in all results; "error"
        refuses them. "auto" leaves them out on a grid (the ocean) and refuses them elsewhere.
    regressor : estimator, default=None
        Any scikit-learn regressor, cloned for each region. None is ridge regression for features
        that all tasks share (see ``CTFARegressor``), and least squares for others.
    aggregate : {"auto", "mean", "pool"}, default="auto"
        What to do with features that each task has for itself: "mean" averages them over a region,
        "pool" keeps them and shares the coefficients; "auto" compares both on held-out blocks, at
        the cost of both.
    head : {"levels", "mean"}, default=None
        Whether a region's model alone predicts its members ("mean"), or is shifted towards each
        member's own model ("levels"). None is "levels".
    max_loss : float or "auto", default="auto"
        Merge while the loss is at most this; 1 breaks even. "auto" is chosen on held-out blocks.
    n_regions : int, default=None
        Merge to exactly this number of regions. With neighbours there is at least one region for
        each unconnected part of the map.
    tolerance : float, default=None
        Take the fewest regions whose held-out error is at most this share above the best: 0.01 is
        one per cent. None: within one standard error if features are shared.
    min_size : int, default=1
        Regions of fewer tasks are merged further, smallest loss first.
    together, apart : list of pairs of labels, default=None
        Tasks that must be, or must never be, in one region; a cell of a grid is a pair (lat, lon).
        ``fit.price`` says what these constraints cost on held-out rows.
    solver : {"ols", "ridge"} or None, default=None
        How merges are judged. None: by the regressor that predicts; one that is not linear is
        fitted again without each block, and without each pair of blocks. "ols": by least squares,
        the cheap judge for an expensive regressor. "ridge": for fewer samples than features.
    merge_features : bool or FeatureAggregator, default=None
        Whether Phase II merges features of a region. None merges lags, and features that all tasks
        share if held-out rows prefer it.
    cv : int or splitter, default=10
        Blocks on which ``max_loss``, ``aggregate`` and the shrinkage are chosen.
    held_out : "auto", int, splitter or None, default="auto"
        Rows on which the result is judged against single-task models: five blocks, each held out
        once; the last fifth for more than 2,000 tasks. None skips this.
    lags : iterable of int, or dict, default=None
        Earlier time steps from which features are taken too, such as ``{"rain": range(0, 25)}``;
        without names, for all features. Lags of a feature form a chain: Phase II joins neighbours
        to windows, ``mean(rain, 3-8 weeks before)``, within each region (``merge_features=False``
        keeps every lag). A lag is a distance in time, whatever rows are missing; rows whose past is
        not in the data are left out. ``predict`` reads the past from the data it is given.
    own_past : int or iterable of int, default=None
        Earlier time steps from which the target of each task is used as a feature. As many rows
        beside a held-out block are left out of its training rows.
    title : str, default=None
        Title of the report page.
    n_jobs : int or None, default=None
        Number of groups and folds to work on at the same time.
    **unknown
        None: an argument that does not exist is refused, with the name that was probably meant.

    Returns
    -------
    LabelledFit
        Print it; ``regions``, ``coef``, ``errors``, ``predict``, ``why``, ``report``, ``save``.

    Examples
    --------
    >>> import ctfa
    >>> basins = ctfa.datasets.make_basins(60, 100, 3, n_regions=3, random_state=0).to_xarray()
    >>> fit = ctfa.labelled.fit(
    ...     basins, target="flow", sample="time", task="basin", neighbours="nearest:5"
    ... )
    >>> fit.regions.dims
    ('basin',)
    >>> fit.predict(basins.isel(time=slice(90, None))).sizes["time"]
    10
    """
    check.refuse_unknown(unknown, inspect.signature(fit), "ctfa.labelled.fit", INSTEAD)
    if solver is not None:
        check.require(solver, ["ols", "ridge"], "solver")
    scale = "standard" if standardise else "center"
    targets = TargetAggregator(
        max_loss=max_loss, n_groups=n_regions, tolerance=tolerance, min_size=min_size,
        together=together, apart=apart, scale=scale, cv=cv,
    )  # fmt: skip
    common: dict[str, Any] = {
        "regressor": regressor,
        "targets": targets,
        "n_jobs": n_jobs,
    } | ({} if head is None else {"head": head})
    if is_table(data) and sample is None and isinstance(task, str) and isinstance(target, str):
        _refuse_for_rows(
            anomalies=anomalies, detrend=detrend, weights=weights, places=places,
            masked=masked, aggregate=aggregate, solver=solver, lags=lags, own_past=own_past,
        )  # fmt: skip
        model: Any = PooledCTFARegressor(features=_merging(merge_features), **common)
        return _fit_rows(model, data, target, features, task, neighbours, held_out, title, select)
    gathered, form, geometry = read_labelled(data, target, features, sample, task, select)
    has_past = not (lags is None and own_past is None)
    if has_past:
        gathered = with_past(gathered, lags, own_past)
    plan = gathered.plan
    arrays = arrange(gathered, masked)
    tasks = arrays.tasks
    outlines = read_outlines(places, neighbours, geometry, tasks)
    graph = read_neighbours(neighbours, tasks, outlines)
    judge = RIDGE if solver == "ridge" else None
    if solver == "ols" and not check.judges(regressor):
        judge = LinearRegression()
    targets.set_params(connectivity=graph, regressor=judge, **_pairs(targets, tasks))
    weight = _weights(weights, tasks, outlines)
    confounds = Seasons.of(anomalies, detrend, arrays.samples)
    arrays = replace(arrays, confounds=confounds)
    common["features"] = _merging(merge_features, shared=plan.is_shared)
    if has_past:
        common["features"] = windows_in(merge_features, plan, arrays.some, arrays.columns)
    if own_past is not None and not arrays.is_lazy:
        gap = max(slot.lag for slot in plan.slots if slot.source == plan.target)
        cv, held_out = (apart_from_past(splits, gap, tasks.n_tasks) for splits in (cv, held_out))
        targets.set_params(cv=cv)
    if arrays.layout is None:
        model = CTFARegressor(**common)
    else:
        model = MultiInputCTFARegressor(arrays.layout, aggregate=aggregate, **common)

    def look_closely() -> Arrays:
        return replace(arrange(gathered, masked, closely=True), confounds=confounds)

    with _in_words():
        arrays, known = learn(model, arrays, weight, held_out, look_closely)
    tasks, merged = arrays.tasks, common["features"] != "passthrough"
    notes = [*arrays.notes, *_doubts(arrays, merged, anomalies, detrend)]
    if confounds is not None:
        notes.append(confounds.words(plan.sample))
    if weight is not None:
        by_area = isinstance(weights, str)
        notes.append("tasks count by their area" if by_area else "tasks have weights")
    times = row_labels(arrays.samples)
    span = word(times[0]), word(times[-1]), len(times)
    beside = {"confounds": confounds, "geometry": outlines, "weights": weight}
    return _result(known, plan, tasks, form, notes, title, span=span, **beside)


@contextmanager
def _in_words() -> Iterator[None]:
    """Refuse options by the names under which they were given."""
    try:
        yield
    except InputError as error:
        raise error.renamed(CALLED) from error


def _pairs(targets: TargetAggregator, tasks: LabelledTasks) -> dict[str, list[tuple[int, int]]]:
    """Pairs of labels, as they were given to the aggregator, by the positions of their tasks."""
    found: dict[str, list[tuple[int, int]]] = {}
    for name in ("together", "apart"):
        given = getattr(targets, name)
        if given is None:
            continue
        example = f"{name}=[({tasks.labels[0]!r}, {tasks.labels[-1]!r})]"
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"{name}={given!r} is not a list of pairs: give {example}.")
        found[name] = []
        for pair in given:
            two = () if isinstance(pair, str) or not isinstance(pair, Iterable) else tuple(pair)
            if len(two) == 2 * len(tasks.dims) > 2:  # cells of a grid with all numbers in a row
                two = two[: len(tasks.dims)], two[len(tasks.dims) :]
            if len(two) != 2:
                raise ValueError(f"{name} holds {pair!r}, which is not a pair: give {example}.")
            try:
                one, other = (tasks.position(tasks.typed(label)) for label in two)
            except KeyError as error:
                raise ValueError(f"{name}: {error.args[0]}") from error
            found[name].append((one, other))
    return found


def _result(
    known: Material,
    plan: Plan,
    tasks: LabelledTasks,
    form: DataForm,
    notes: list[str],
    title: str | None,
    **beside: Any,
) -> LabelledFit:
    """What was fitted, with what is known of it."""
    found = known.coefficients
    if found is not None and found.no_error:  # why there are no standard errors
        notes = [*notes, f"coefficients: {found.no_error}"]
    for name in ("held_out", "history", "coefficients", "worth", "series"):
        beside.setdefault(name, getattr(known, name))
    title = title or f"{plan.target_words}: {several(tasks.n_tasks, tasks.what)}"
    return LabelledFit(known.model, plan, tasks, form, notes=tuple(notes), title=title, **beside)


def _merging(features: Any, *, shared: bool = False) -> Any:
    """How features are merged, from what is asked for: yes, no, or by which aggregator.

    If nothing is asked for, and all tasks share them, held-out rows decide.
    """
    if features is None and shared:
        return None
    return FeatureAggregator() if features is True else features or "passthrough"


def _doubts(arrays: Arrays, merged: bool, anomalies: Any, detrend: Any) -> Iterator[str]:
    """Copies among features, and seasons and trends of the target that were left in, in words.

    Of data in chunks only the first rows are looked at, where a season may look like a trend.
    """
    target, some = arrays.plan.target, told_of(arrays.some, arrays.plan)
    where = doubts.in_first(len(some[target]), len(arrays.samples))
    yield from map(str, doubts.same_variables(target, some, where, merged=merged))
    if where:
        return
    for found in untreated(some, arrays.samples, anomalies=anomalies, detrend=detrend):
        if found.in_target:
            yield str(found)


def read_labelled(
    data: Any, target: Any, features: Any, sample: Any, task: Any, select: Any = None
) -> tuple[Gathered, DataForm, Any]:
    """Target and features, the form they came in, and the shapes that came with a table."""
    lying: dict[str, tuple[str, ...]] = {}
    if is_table(data):
        if select:
            lying = lie_along(select, [as_pandas(data)])
        gathered, form, geometry = read_table(data, target, features, sample, task, select)
    else:
        if select:
            several = features if isinstance(features, list | tuple) else [features]
            given = (data, target, *several)
            lying = lie_along(select, [one for one in given if hasattr(one, "dims")])
            data, target, *several = (selected(x, select, lenient=list(lying)) for x in given)
            features = several if isinstance(features, list | tuple) else several[0]
        gathered = gather(data, target, features, sample, task)
        form, geometry = DataForm("xarray"), None
    plan = replace(gathered.plan, select=to_repeat(select, lying, gathered.plan.dims))
    return gathered._replace(plan=plan), form, geometry


def read_outlines(
    places: Any, neighbours: Any, geometry: Any, tasks: LabelledTasks
) -> Geometry | None:
    """Outlines of the tasks, wherever they were given."""
    for given in (places, neighbours, geometry):
        if hasattr(given, "geom_type") or hasattr(given, "geometry"):
            return match_polygons(given, tasks)
    if places is not None:
        raise ValueError(
            f"places is {kind_of(places)}: give a GeoDataFrame or a GeoSeries of outlines."
        )
    return None


def _weights(weights: Any, tasks: LabelledTasks, outlines: Geometry | None) -> FloatArray | None:
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "area":
            raise InputError(
                Option("weights", weights), " is not known: use 'area' or one number per task."
            )
        found = area_weights(tasks, outlines)
    else:
        numbers = weights
        if hasattr(weights, "dims"):
            weights = without_quantity(without_layers(weights, None, tasks.dims, []))
            numbers = weights.values
        check.require_plain_numbers(numbers, "weights")
        found, others = tasks_first(weights, tasks, "weights")
        if others:
            raise ValueError(
                f"weights has {weights.sizes[others[0]]:,} values along {others[0]!r} for each "
                f"task: choose one of them (weights.isel({others[0]}=0))."
            )
    if found.shape != (tasks.n_tasks,) or not (np.isfinite(found) & (found > 0.0)).all():
        raise ValueError(
            f"weights has shape {found.shape} for {tasks.n_tasks:,} tasks: give one positive "
            "number for each."
        )
    return np.asarray(found / found.mean())


def _fit_rows(
    model: PooledCTFARegressor,
    data: Any,
    target: str,
    features: Any,
    task: str,
    neighbours: Any,
    held_out: Any,
    title: str | None,
    select: Any,
) -> LabelledFit:
    """Group tasks with their own rows: pupils of schools, patients of clinics."""
    X, y, of, whole = read_rows(data, target, features, task, select)
    names = list(X.columns)
    notes = []
    if not whole.all():
        notes.append(f"{several(int((~whole).sum()), 'row')} lacking a value, left out")
    seen = {target: y[:, None], **dict(zip(names, X.to_numpy().T[:, :, None], strict=True))}
    notes += map(str, doubts.doubtful_fills(seen))
    merged = model.features != "passthrough"
    notes += map(str, doubts.same_variables(target, seen, merged=merged))
    for name in names:
        notes += map(str, doubts.flat_feature(name, doubts.never_changes(seen[name]), list, task))
    X, y, ids = X[whole].reset_index(drop=True), y[whole], of[whole]
    labels = np.unique(ids)
    coords = Coordinates({task: Coordinate((task,), labels, {})}, {}, {task: labels.size})
    tasks = LabelledTasks((task,), coords, np.arange(labels.size))
    model.targets.set_params(connectivity=read_neighbours(neighbours, tasks))
    pairs = _pairs(model.targets, tasks)
    model.targets.set_params(
        **{  # tasks are known by their ids, which may be numbers
            name: [tuple(labels[list(pair)].tolist()) for pair in some]
            for name, some in pairs.items()
        }
    )
    with warnings.catch_warnings(), _in_words():
        warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)  # noted above
        model.fit(X, y, tasks=ids)
        known = complete(Material(model), Given(X, y, ids, held_out=held_out))
    slots = tuple(Slot(name, {}, False) for name in names)
    lying = lie_along(select, [as_pandas(data)])
    plan = Plan(target, {}, (ROW, task), ROW, slots, select=to_repeat(select, lying, [task]))
    form = DataForm("rows", library_of(data))
    beside = dict.fromkeys(("confounds", "geometry", "weights", "series"))
    return _result(known, plan, tasks, form, notes, title, span=("", "", len(y)), **beside)


def _refuse_for_rows(**options: Any) -> None:
    """Refuse options that mean nothing where every task has rows of its own."""
    for name, value in options.items():
        plain = value is None or (isinstance(value, str | bool) and value in USUAL)
        if not plain:
            raise InputError(
                Option(name, value),
                " is for tasks that share their samples: leave it out, or name the column of the "
                "samples (",
                Option("sample", "time"),
                ").",
            )


# -- Fit an estimator to tables, in memory or in chunks, and work out what it says of itself


#: What is left out of what is said of a fit to sums.
SUMMED = "read in chunks, once: no series in the report, no ridge regressions to compare with"


def learn(
    model: Any,
    arrays: Arrays,
    weights: FloatArray | None,
    held_out: Any,
    look_closely: Callable[[], Arrays],
) -> tuple[Arrays, Material]:
    """Fit the model: what it was fitted to, with notes on it, and what it says of itself.

    ``look_closely`` gives the same tables once all their rows were looked at.
    """
    with warnings.catch_warnings():
        # Noted with the name of the variable, of which an estimator knows the column.
        warnings.filterwarnings("ignore", check.LOOKS_MISSING, UserWarning)
        if arrays.is_lazy:
            return _from_chunks(model, arrays, weights, held_out, look_closely)
        return _from_rows(model, arrays, weights, held_out)


def _from_rows(
    model: Any, arrays: Arrays, weights: FloatArray | None, held_out: Any
) -> tuple[Arrays, Material]:
    index = [word(value) for value in row_labels(arrays.samples)]
    Y = need("pandas").DataFrame(arrays.Y, columns=arrays.tasks.names, index=index)
    X = named_inputs(arrays.X, arrays.plan)
    zeros = zeros_of(arrays.samples, arrays.confounds)
    given = Given(X, Y, None, arrays.columns, weights, held_out, zeros)
    with progress.part():
        with progress.part(1.0 if held_out is None else FITTING):
            model.fit(X, Y, **given.options)
        if arrays.layout is not None:
            _name_slots(model, arrays.plan)
        return arrays, complete(Material(model), given)


def _from_chunks(
    model: Any,
    arrays: Arrays,
    weights: FloatArray | None,
    held_out: Any,
    look_closely: Callable[[], Arrays],
) -> tuple[Arrays, Material]:
    """Sum all rows up in one pass; gather them where sums are not enough."""
    data = _collection(arrays)
    wanted, needs_rows = model.__ctfa_asks__(arrays.tasks.n_tasks)
    if model.targets.regressor is RIDGE:  # in the words that asked for it
        needs_rows = Message(Option("solver", "ridge"), ", which judges row by row,")
    if arrays.has_gaps:
        what = "" if arrays.layout is None else " or features"
        needs_rows = f"a fit to {arrays.plan.target}{what} with missing values"
    if needs_rows is not None:
        return _from_rows(model, _gathered(data, arrays, needs_rows), weights, held_out)
    judging, unjudged = None, ""
    asked = held_out is not None and held_out is not False
    if model.regressor is not None and not learns_from_sums(model.regressor):
        unjudged = f"{type(model.regressor).__name__} learns from rows, which stay in chunks"
    elif asked:
        judging = Judging.of(held_out, wanted, arrays.tasks.n_tasks)
        unjudged = "" if judging is not None else "in chunks it is numbers of blocks that are"
    folds = wanted if judging is None else [*wanted, *judging.wanted]
    if not data.has_room_for_sums(folds):  # then the rows, else sums without judging
        if data.has_room_for(sum(data.widths)):
            why = "a fit to so many tasks and features"
            return _from_rows(model, _gathered(data, arrays, why), weights, held_out)
        judging, unjudged = None, "sums of so many columns in folds are too many"
        folds = wanted
    sums, classes, zeros = _look(data, arrays, judging, folds)
    if any(sums.trouble) and arrays.is_presumed:
        return _from_chunks(model, look_closely(), weights, held_out, look_closely)
    data.refuse(sums)
    together = None
    if arrays.layout is not None:  # inputs that are in one fit, task by task
        together = [columns[columns != NO_COLUMN] for columns in arrays.layout]
    sample, targets, _ = data.stand_in(sums, classes, together)
    targets = check.read_target_weight(weights, targets)
    model.__ctfa_fit__(sample, targets, data.input_names, data)
    if arrays.layout is not None:
        _name_slots(model, arrays.plan)
    notes = [*arrays.notes, SUMMED]
    if unjudged and asked:
        notes.append(f"nothing was held out: {unjudged}")
    known = complete(Material(model), Given(sample, targets, held_out=judging, times=zeros()))
    return replace(arrays, notes=notes), known


def _look(
    data: Collection, arrays: Arrays, judging: Judging | None, folds: list[Wanted]
) -> tuple[Any, Classes, Callable[[], Zeros]]:
    """Sums of all rows; and, once nothing troubles them, what predicts rows without features."""
    zeros = zeros_of(arrays.samples, arrays.confounds)
    if judging is None:
        return (*data.look(folds), lambda: zeros)
    held = Classes.of([judging.folds], data.n_rows, None, None)
    asking = Summing.of(zeros, arrays.columns, held.tested(HELD_OUT, data.n_rows))
    sums, classes = data.look(folds, beside=asking)
    return sums, classes, lambda: asking.errors(sums.more, zeros)


def _collection(arrays: Arrays) -> Collection:
    """The tables with their names, in chunks."""
    xarray = need("xarray")
    is_shared = arrays.layout is None
    coords = {"feature": [slot.name for slot in arrays.plan.slots]} if is_shared else {}
    X = xarray.DataArray(arrays.X, dims=("row", "feature"), coords=coords)
    Y = xarray.DataArray(arrays.Y, dims=("row", "task"), coords={"task": arrays.tasks.names})
    return Collection.of(X, Y, None, arrays.columns, gaps=not is_shared)


def _gathered(data: Collection, arrays: Arrays, why: str) -> Arrays:
    """The same tables in memory; refused where they are too many."""
    rows = data.gathered(why, "Fill the gaps or use fewer rows")
    X, Y = (np.asarray(table, dtype=np.float64) for table in (rows.X, rows.y))
    return replace(arrays, X=X, Y=Y)


def _name_slots(model: Any, plan: Plan) -> None:
    """Call features of each task's own by their names in what each group says of them."""
    names = np.array([slot.name for slot in plan.slots], dtype=object)
    fitted = FittedGroups.of(model)
    for group, features in enumerate(model.features_):
        features.feature_names_in_ = names[fitted.columns(group)]
