"""A fitted model of labelled data: what it found, as labelled objects, and what it says of it."""

from __future__ import annotations

import base64
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ctfa import _reading as check
from ctfa._errors import InputError, Option
from ctfa._text import visible
from ctfa.core.cut import PREFERRED
from ctfa.core.history import MergeHistory
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray
from ctfa.estimators.evidence import wish_words
from ctfa.estimators.intervals import require_calibration, tell_gaussian
from ctfa.estimators.shown import block
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import beside_zeros
from ctfa.labelled import _form
from ctfa.labelled._form import DataForm
from ctfa.labelled._labels import on_tasks, same_rows, tasks_first
from ctfa.labelled._places import Geometry, label_columns, places, shapes
from ctfa.labelled._reading import (
    Gathered,
    Plan,
    gather_features,
    in_memory,
    named_inputs,
    require_known,
    table,
    tables_of,
)
from ctfa.labelled._tasks import LabelledTasks
from ctfa.labelled._times import Seasons, past_of
from ctfa.labelled._words import CALLED, error_columns, named_errors, several
from ctfa.persistence import save
from ctfa.plotting._axes import COLOURS
from ctfa.plotting._groups_map import colours_of
from ctfa.report import Coefficients, GroupSeries, HeldOut, Material, Places, write
from ctfa.report._places import Rings, drawing_of, thinned
from ctfa.report._words import coverage_words, skill_words

#: The region of a task without data.
NO_REGION = -1
#: What errors may be divided by, in the order of their axes; and what tells rows apart.
DIVISIONS = ("block", "season", "region", "task")
TOLD_BY = {
    "block": "rows in memory that are a series, and two to 24 folds",
    "season": "rows in memory with dates less than half a year apart",
}


@dataclass(frozen=True, eq=False)
class LabelledFit:
    """What ``ctfa.labelled.fit`` returns: print it.

    Attributes
    ----------
    estimator : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        The fitted model.
    tasks, plan, form
        The tasks with their coordinates; where the arrays were found in the data; and in which form
        the data came. For internal use.
    confounds : Seasons or None
        The seasons and trends that were taken off; None without ``anomalies`` and ``detrend``.
    held_out : HeldOut or None
        Errors on held-out rows, by method; None with ``held_out=None``.
    history : MergeHistory or None
        Every merge up to an infinite limit; None where it was not worked out.
    coefficients : Coefficients or None
        Coefficients of each region's model; None where the models are not linear. ``coef`` and
        ``coef_error`` are the same with labels.
    series : GroupSeries or None
        The mean target of each region at every sample; None where it was not worked out.
    geometry : Geometry or None
        Outlines of the tasks, where they were given.
    weights : array of shape (n_tasks,) or None
        How much each task counts in the mean of its region; None counts all equally.
    notes : tuple of str
        What was done to the data: masked tasks, gaps, rows left out, seasons and trends taken off.
    title : str
        Title of the report page.
    span : tuple of (str, str, int)
        The first and the last sample, and how many there are.
    worth : Coefficients or None
        What each feature is worth to each region, where the models are not linear.

    Examples
    --------
    >>> import ctfa
    >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
    >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
    >>> fit.n_regions
    2
    >>> fit.coef.dims
    ('region', 'feature')
    """

    estimator: Any
    plan: Plan
    tasks: LabelledTasks
    form: DataForm
    confounds: Seasons | None
    held_out: HeldOut | None
    history: MergeHistory | None
    coefficients: Coefficients | None
    series: GroupSeries | None
    geometry: Geometry | None
    weights: FloatArray | None  # of the tasks in means over a region
    notes: tuple[str, ...]
    title: str
    span: tuple[str, str, int]  # the first and the last sample, and how many
    worth: Coefficients | None = None  # of features, where models are not linear

    @property
    def n_regions(self) -> int:
        """Number of groups."""
        return int(self.estimator.n_groups_)

    @property
    def regions(self) -> Any:
        """Region of each task, numbered from 0; -1 for a task without data.

        A DataArray on the dimensions of the tasks, with all their coordinates; for tables a series
        by task.
        """
        attrs = {
            "long_name": f"region of each {self.tasks.what}, predicted by one model",
            "n_regions": self.n_regions,
        }
        if self.tasks.n_masked:
            attrs["masked"] = f"{NO_REGION}: no data"
        name, labels = self.tasks.group, self.estimator.labels_.astype(np.int64)
        found = _form.dataset(self.form, self.tasks, {name: labels}, NO_REGION)[name]
        return found.assign_attrs(attrs) if self.form.kind == "xarray" else found

    @property
    def coef(self) -> Any:
        """Coefficients of each region's model, by region and feature."""
        return self._coefficients("coef")

    @property
    def coef_error(self) -> Any:
        """Standard errors of ``coef``; NaN where there are none, and ``notes`` say why.

        They take the regions as given and rows as independent: for autocorrelated series the true
        ones are larger (three to four times for daily values with a correlation of 0.95).
        """
        return self._coefficients("coef_error")

    def importance(self, data: Any, *, n_repeats: int = 5, random_state: Any = None) -> Any:
        """Tell what each feature is worth to each region, on rows of data with the target.

        The R2 that a region's tasks lose on average when the feature is shuffled, for any
        regressor; a mean of features is shuffled, and named, as one. On the data of fit it says
        what the model relies on, on other years what a feature is good for.

        Parameters
        ----------
        data : as in fit
            With the target and the features under their names.
        n_repeats, random_state
            How often each feature is shuffled, and the seed.

        Returns
        -------
        DataFrame
            One row per region and feature: ``importance`` and its standard deviation, ``error``.
        """
        options = {"n_repeats": n_repeats, "random_state": random_state}
        if self.form.kind == "rows":
            given = [*_form.rows_in(self, data)]
        else:
            *given, columns = self._rows(data)
            options |= {} if columns is None else {"confounds": columns}
        found = self.estimator.importance(*given, **options)
        return found.rename(columns={"group": self.tasks.group})

    def _features(self, data: Any) -> tuple[list[Any], dict[str, IntArray], IntArray]:
        """Features in other data, those of the past too; places along each side, tasks chosen."""
        arrays, places, chosen = gather_features(data, self.plan, self.tasks)
        if self.plan.step is not None:
            named = zip(self.plan.sources, arrays, strict=True)
            arrays = past_of({source.name: array for source, array in named}, self.plan)
        return arrays, places, chosen

    def _rows(self, data: Any) -> tuple[Any, FloatArray, FloatArray | None]:
        """Inputs, targets and confounds of other data, as the estimator takes them."""
        plan, tasks = self.plan, self.tasks
        target = on_tasks(_form.target_in(self, data), tasks.coords, tasks.dims)
        features, _, chosen = self._features(_form.read_again(self, data)[0])
        _form.require_members(self, chosen)
        target, features = same_rows(target, features, plan.sample, [])
        Y, slots = tables_of(Gathered(target, features, plan, []))
        Y, *slots = in_memory([Y, *slots])
        inputs, rows = self._inputs(slots)
        columns = None
        if self.confounds is not None:
            columns = self.confounds.columns(target[plan.sample])[rows]
        return inputs, np.asarray(Y[rows][:, tasks.kept], dtype=np.float64), columns

    def _inputs(self, slots: list[Any]) -> tuple[Any, BoolArray]:
        """Tables of features as the estimator takes them; and the rows that it can predict."""
        X, layout = table(slots, self.plan, self.tasks)
        rows = np.ones(len(X), dtype=bool) if layout is not None else ~np.isnan(X).any(axis=1)
        return named_inputs(X[rows], self.plan), rows

    @property
    def errors(self) -> Any:
        """Held-out errors of each task by method, its skill, and the gain over its own model.

        A Dataset on the dimensions of the tasks; for tables a frame by task. Errors are mean
        squares in units of each task's variance (of what is left where seasons or a trend are taken
        off). Three methods predict the same rows without features. ``climatology_error`` is that of
        the mean of the training rows; with dates of two years or more, of each calendar month (for
        finer steps, a smooth yearly cycle; with ``anomalies`` and ``detrend``, what these take
        off). ``persistence_error`` is that of the task's value one step before,
        ``anomaly_persistence_error`` that of climatology plus the anomaly one step before. The
        value one step before is used whether or not its row is held out; where it is missing,
        climatology is used instead. ``skill``, ``skill_over_persistence`` and
        ``skill_over_anomaly_persistence`` are the shares of these errors that the model saves;
        ``attrs`` say what they are, or why there is no persistence. ``coverage_90`` is the share of
        the same rows that 90 % intervals held (``predict_interval``), each from a model that did
        not see the row; ``skill("season")`` gives it by season.
        """
        held_out = self.need_held_out()
        own = {"gain": held_out.gain, "trust": self.estimator.trust_}
        columns: dict[str, Any] = error_columns(held_out) | own
        covered = held_out.covered(["task"], self.estimator.labels_)
        if covered is not None:
            columns["coverage_90"] = covered
        found = _form.dataset(self.form, self.tasks, columns)
        if hasattr(found, "attrs"):  # a polars frame has none
            found.attrs |= self.error_attrs()
        return found

    def skill(self, by: Any = "region") -> Any:
        """Held-out errors and skill by season, by held-out block, by region, or by several of them.

        Parameters
        ----------
        by : str or sequence of str, default="region"
            Any of ``"season"`` (December to February, ... of rows of months or finer steps, else
            quarters), ``"block"`` (the rows held out together, named by their first and last) and
            ``"region"`` or ``"task"``. An empty list gives the figures of the summary.

        Returns
        -------
        Dataset or DataFrame
            The variables of ``errors`` (see there) for each part, as weighted means over the tasks,
            each in units of its own variance. A Dataset if fit was given arrays, else a frame.

        Examples
        --------
        >>> import ctfa
        >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
        >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
        >>> fit.skill("season").skill.dims
        ('season',)
        """
        by = [by] if isinstance(by, str) else list(by)
        labels = self._parts
        for part in by:
            check.require(part, list(DIVISIONS), "by")
            if part not in labels:
                raise ValueError(f"by={part!r} needs {TOLD_BY[part]}: leave it out.")
        if len({*by}) < len(by) or {"region", "task"} <= {*by}:
            raise ValueError(f"by={by}: name each once, and one of 'region' and 'task'.")
        columns, tasks = self._skills(by), self.tasks
        order = [part for part in DIVISIONS if part in by]
        dims = [tasks.group if part == "region" else part for part in order]
        if self.form.kind != "xarray":
            pandas = need("pandas")
            flat = pandas.DataFrame({name: np.ravel(values) for name, values in columns.items()})
            if order:
                names = [tasks.dims[0] if dim == "task" else dim for dim in dims]
                each = [labels[part] for part in order]
                flat.index = pandas.MultiIndex.from_product(each, names=names)
            if len(order) == 1:
                flat.index = flat.index.get_level_values(0)
            return _form.native(self.form, flat, with_index=bool(order))
        coords = {dim: np.asarray(labels[part]) for dim, part in zip(dims, order, strict=True)}
        held = {name: (dims, values) for name, values in columns.items()}
        if "task" in by:
            *dims, _ = dims
            coords.pop("task")
            coords |= dict(tasks.coords.to_xarray())
            held = {
                name: ([*tasks.dims, *dims], tasks.spread(np.moveaxis(values, -1, 0), np.nan))
                for name, values in columns.items()
            }
        found = need("xarray").Dataset(held, coords=coords, attrs=self.error_attrs())
        return found.transpose(*dims, ...)

    @property
    def _parts(self) -> dict[str, Any]:
        """What held-out errors can be divided by, and what its parts are called."""
        labels: dict[str, Any] = {"region": range(self.n_regions), "task": self.tasks.names}
        parts = self.need_held_out().parts
        found = {} if parts is None else {"season": parts.seasons, "block": parts.blocks}
        return {name: known for name, known in found.items() if len(known)} | labels

    def _skills(self, by: Sequence[str]) -> dict[str, FloatArray]:
        held_out, labels = self.need_held_out(), self.estimator.labels_
        errors = held_out.divided(by, labels)
        zeros = {name: errors[name] for name in held_out.zeros}
        found = named_errors(errors) | beside_zeros(next(iter(errors.values())), zeros)
        covered = held_out.covered(by, labels)
        return found if covered is None else found | {"coverage_90": covered}

    def each_division(self) -> Iterator[tuple[str, list[str], dict[str, FloatArray]]]:
        """Give errors and skill in all, by season, by block and by region, as far as known.

        Returns
        -------
        iterator of (str, list of str, dict of str to array)
            By what the errors are divided; the names of the parts; and by the name of each variable
            of ``errors`` one number per part.
        """
        for by, names in {"all": ["all"], **self._parts}.items():
            if by != "task":
                columns = self._skills([by] if by != "all" else [])
                yield by, list(map(str, names)), {n: np.atleast_1d(v) for n, v in columns.items()}

    def error_attrs(self) -> dict[str, str]:
        """Say what errors are in units of, and what they are compared with.

        Returns
        -------
        dict of str to str
            The ``attrs`` of ``errors`` and ``skill``.
        """
        held_out = self.need_held_out()
        attrs = {"units": self.variance, "held_out": held_out.how, **held_out.zero_words}
        if held_out.persistence is None and held_out.climatology is not None:
            attrs["persistence"] = f"none: {held_out.before}"
        return {name.replace(" ", "_"): words for name, words in attrs.items()}

    @property
    def windows(self) -> Any:
        """Windows of time in each region's model, one row each, as a pandas DataFrame.

        A window goes from ``first`` to ``last``, counted in ``unit`` before the row. ``coef`` is
        the coefficient of the mean over the window, the sum over its lags; NaN where models are not
        linear. Empty without ``lags`` and ``own_past``.
        """
        found, fitted = self.coefficients, FittedGroups.of(self.estimator)
        rows = []
        for region in range(self.n_regions):
            for columns, window in fitted.windows(region):
                coef = np.nan if found is None else float(found.value[region, columns].sum())
                error = np.nan
                if found is not None and found.standard_error is not None:
                    error = float(found.standard_error[region, columns].sum())
                rows.append((region, window.words, *window, coef, error))
        names = (self.tasks.group, "window", "feature", "first", "last", "unit")
        return need("pandas").DataFrame(rows, columns=[*names, "coef", "coef_error"])

    @property
    def merges(self) -> Any:
        """Every merge and its evidence, one row each, as a pandas DataFrame."""
        return self.estimator.merges_

    def predict(self, data: Any) -> Any:
        """Predict the target, labelled as it was in fit; lazy where the data are.

        Parameters
        ----------
        data : as in fit
            With the features; tasks are matched by label and may come in another order, more of
            them, or only some (a window of a grid, a few basins): those are predicted, with their
            labels of fit and in its order. A model of features that all tasks share predicts every
            task. Where a region is predicted from mean features, all its members are needed. A
            task that was masked in fit stays missing. Features in other units are converted to
            those of fit, with a warning, or refused. With ``anomalies`` there is a warning about
            rows in months (seasons, hours) that fit did not see, and about another step of time.

        Returns
        -------
        DataArray, DataFrame or Series
            The target on the dimensions it had in fit, in its own units; NaN where features are
            missing. For tables the same kind of table as was given.

        Examples
        --------
        >>> import ctfa
        >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
        >>> past, later = basins.isel(time=slice(0, 84)), basins.isel(time=slice(84, None))
        >>> fit = ctfa.labelled.fit(past, target="flow", sample="time", task="basin")
        >>> dict(fit.predict(later).sizes)
        {'time': 12, 'basin': 20}
        """
        return self._predicted(data)

    def predict_interval(self, data: Any, coverage: float = 0.9) -> Any:
        """Predict intervals that hold the target with a given probability; lazy where data are.

        They are calibrated on held-out blocks of rows (``predict_interval`` of the estimator says
        how). With ``anomalies`` they are wide in seasons with large errors.

        Parameters
        ----------
        data : as in ``predict``
        coverage : float, default=0.9
            Probability with which an interval should hold the target, above 0 and below 1.

        Returns
        -------
        DataArray or DataFrame
            With a dimension ``bound`` of ``"lower"`` and ``"upper"`` after those of ``predict``;
            for tables the columns of predictions, ending in ``_lower`` and ``_upper``.

        Examples
        --------
        >>> import ctfa
        >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
        >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
        >>> fit.predict_interval(basins, coverage=0.8).sizes["bound"]
        2
        """
        calibration, coverage = require_calibration(self.estimator, coverage)
        tell_gaussian(calibration)
        lower = self._predicted(data, coverage, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what has just been said
            upper = self._predicted(data, coverage, 1)
        name, ends = self.plan.target, ("lower", "upper")
        if self.form.kind == "xarray":
            xarray = need("xarray")
            along = xarray.Variable("bound", np.array(ends, dtype=object))
            both = xarray.concat([lower, upper], dim="bound").assign_coords(bound=along)
            words = self.plan.target_words or name
            told = {"long_name": f"{100.0 * coverage:g} % prediction interval of {words}"}
            both = both.transpose(*lower.dims, "bound").rename(f"{name}_interval")
            return both.assign_attrs(told, coverage=coverage)
        pairs = list(zip(ends, (lower, upper), strict=True))
        columns = {f"{name}_{end}": one for end, one in pairs}
        if hasattr(lower, "columns"):
            columns = {f"{c}_{end}": one[c] for c in lower.columns for end, one in pairs}
        return need("polars" if self.form.library == "polars" else "pandas").DataFrame(columns)

    def _predicted(self, data: Any, *interval: Any) -> Any:
        """Predictions, or of an interval, its coverage, one end."""
        if self.form.kind == "rows":
            return _form.predict_rows(self, data, *interval)
        dataset, hand_back = _form.read_again(self, data)
        arrays, places, chosen = self._features(dataset)
        _form.require_members(self, chosen)
        with warnings.catch_warnings():
            if self.form.kind == "long":  # says itself what is missing of the rows it was asked
                warnings.filterwarnings("ignore", ".*predictions are NaN because", RuntimeWarning)
            found = self._predict_arrays(arrays, places, chosen, interval)
        return hand_back(found)

    def why(self, task: Any) -> Any:
        """Say why a task is in its region: print the answer.

        Parameters
        ----------
        task : label
            A value of the task's coordinate; a pair of them for a grid; or the task's name.

        Returns
        -------
        Explanation
            Printed, it names the members of the region, the merges with their evidence, and what
            the task was refused with.
        """
        position = self.tasks.position(task)
        if self.form.kind == "rows":
            return self.estimator.why(self.estimator.tasks_[position])
        return self.estimator.why(FittedGroups.of(self.estimator).names[position])

    def to_regions(self, values: Any) -> Any:
        """Average over each region, weighted as in fit: a dimension of regions replaces the tasks.

        Parameters
        ----------
        values : DataArray on the tasks' dimensions (and others), array (n_tasks, ...), or series by
            task. NaN is left out of the mean.

        Returns
        -------
        DataArray or array
            Of a DataArray one with the dimension ``region`` first; else an array of shape
            (n_regions, ...). NaN for a region without values.
        """
        array, others = self.tasks_first(values)
        weight = np.ones(self.tasks.n_tasks) if self.weights is None else self.weights
        weight = weight.reshape(-1, *(1,) * (array.ndim - 1))
        known = ~np.isnan(array)
        labels = self.estimator.labels_
        total = np.zeros((self.n_regions, *array.shape[1:]))
        count = np.zeros_like(total)
        np.add.at(total, labels, np.where(known, array * weight, 0.0))
        np.add.at(count, labels, known * weight)
        with np.errstate(invalid="ignore"):
            mean = np.where(count > 0.0, total / count, np.nan)
        if others is None:
            return mean
        coords = {self.tasks.group: np.arange(self.n_regions)} | {
            name: coord
            for name, coord in values.coords.items()
            if not set(coord.dims) & set(self.tasks.dims)
        }
        told = {"name": values.name, "attrs": values.attrs}
        return need("xarray").DataArray(mean, coords, (self.tasks.group, *others), **told)

    def to_tasks(self, values: Any) -> Any:
        """Give every task the value of its region: the inverse of ``to_regions`` for its means.

        Parameters
        ----------
        values : DataArray with the dimension ``region`` (and others), or array (n_regions, ...)

        Returns
        -------
        DataArray or array
            Of a DataArray one on the dimensions of the tasks, NaN for tasks without data; else an
            array of shape (n_tasks, ...).
        """
        if not hasattr(values, "dims"):
            return np.asarray(values)[self.estimator.labels_]
        region = self.tasks.group
        others = [dim for dim in values.dims if dim != region]
        array = np.asarray(values.transpose(region, *others).values, dtype=np.float64)
        whole = self.tasks.spread(array[self.estimator.labels_], np.nan)
        dims, told = (*self.tasks.dims, *others), {"name": values.name, "attrs": values.attrs}
        built = need("xarray").DataArray(whole, self.tasks.coords.to_xarray(), dims, **told)
        built = built.assign_coords(
            {name: coord for name, coord in values.coords.items() if region not in coord.dims}
        )
        same = set(built.dims) == set(self.plan.dims)
        return built.transpose(*self.plan.dims) if same else built

    def path(self) -> Any:
        """Give the number of groups and the held-out error for every limit that was tried.

        Returns
        -------
        DataFrame
            One row per limit. Where the limit was not chosen on held-out rows, one row per merge:
            ``max_loss`` and ``n_groups``.
        """
        pandas = need("pandas")
        curve = self.estimator.cv_curve_
        if curve is not None:
            return pandas.DataFrame(curve.columns())
        history = self.history if self.history is not None else self.estimator.history_
        worst = np.maximum.accumulate(history.loss) if len(history) else history.loss
        n_groups = history.n_variables - 1 - np.arange(worst.size)
        return pandas.DataFrame({"max_loss": worst, "n_groups": n_groups})

    def region_table(self) -> Any:
        """Give a table of the tasks: label, place, region, gain, trust and held-out errors.

        Returns
        -------
        DataFrame or GeoDataFrame
            One row per task; a GeoDataFrame where outlines are known.
        """
        tasks = self.tasks
        columns = label_columns(tasks)
        positions = tasks.positions()
        if positions is not None and len(columns) == 1:
            columns |= {"east": positions[:, 0], "north": positions[:, 1]}
        columns[tasks.group] = self.estimator.labels_
        columns["predicted_gain"] = FittedGroups.of(self.estimator).evidence.gain.value
        columns["trust"] = self.estimator.trust_
        if self.held_out is not None:
            columns |= error_columns(self.held_out)
            columns["held_out_gain"] = self.held_out.gain
        frame = need("pandas").DataFrame(columns)
        geometry = shapes(tasks, self.geometry)
        if geometry is None:
            return frame
        return need("geopandas").GeoDataFrame(frame, geometry=geometry.reset_index(drop=True))

    def region_outlines(self) -> Any:
        """Give the outline of each region with its number of tasks and its coefficients.

        Returns
        -------
        GeoDataFrame
            One row per region: ``region``, ``n_tasks``, and ``coef_...`` where models are linear.
        """
        geometry = shapes(self.tasks, self.geometry)
        if geometry is None:
            raise ValueError(
                "it is not known where the tasks lie: fit with neighbours= or places= polygons, or "
                "with coordinates such as lon and lat."
            )
        frame = need("geopandas").GeoDataFrame(
            {self.tasks.group: self.estimator.labels_}, geometry=geometry.reset_index(drop=True)
        )
        joined = frame.dissolve(self.tasks.group).reset_index()
        joined["n_tasks"] = self.estimator.partition_.sizes
        if self.coefficients is not None:
            found = self.coefficients
            for name, values in zip(found.names, found.value.T, strict=True):
                joined[f"coef_{name}"] = values
        return joined

    def report_material(self) -> Material:
        """Gather what the report page is made of.

        Returns
        -------
        Material
        """
        return Material(
            self.estimator,
            title=self.title,
            target=self.plan.target_words,
            target_units=self.plan.target_units,
            feature_units={slot.name: slot.units for slot in self.plan.slots},
            task=self.tasks.what,
            sample=self.plan.sample,
            names=self.tasks.names,
            places=self.places(),
            held_out=self.held_out,
            history=self.history,
            **{name: getattr(self, name) for name in ("series", "coefficients", "worth", "notes")},
            again=(
                "ctfa fit run.toml --regions {n} -o again",
                "ctfa.labelled.fit(..., n_regions={n})",
            ),
        )

    def places(self) -> Places | None:
        """Tell where the tasks lie, for maps: outlines, the cells of a grid, or positions.

        Returns
        -------
        Places or None
            None where it is not known.
        """
        return places(self.tasks, self.geometry)

    def report(self, path: Any) -> Path:
        """Write the report page; the same as ``ctfa.report.write(fit, path)``.

        Parameters
        ----------
        path : str or path
            The HTML file; one that is there is replaced.

        Returns
        -------
        Path
            Of the file.
        """
        return write(self, path)

    def save(self, path: Any) -> None:
        """Write to a file that ``ctfa.labelled.load`` reads.

        Parameters
        ----------
        path : str or path
            Any name; ``.ctfa`` is customary. A file that is there is replaced.

        Returns
        -------
        None
        """
        save(self, path)

    def summary(self) -> str:
        """Say what came out, as ``print(fit)`` does.

        Returns
        -------
        str
            Several lines: regions, held-out errors, who is helped and hurt, the limit, notes.
        """
        return summarise(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return page(self)

    def _predict_arrays(
        self, arrays: list[Any], places: dict[str, IntArray], chosen: IntArray, interval: Any
    ) -> Any:
        """Predict from DataArrays, one per slot: the tasks chosen, at places on dimensions."""
        xarray = need("xarray")
        plan, dims = self.plan, self.tasks.dims
        core = [[] if slot.shared else list(dims) for slot in plan.slots]
        samples = arrays[0][plan.sample] if plan.sample in arrays[0].coords else None
        given = list(arrays)
        if self.confounds is not None:
            if samples is None:
                raise ValueError(
                    f"the data to predict from has no {plan.sample!r} coordinate: seasons and "
                    "trends were taken off in fit, and need it."
                )
            require_known(samples.to_index(), plan.sample)
            for doubt in self.confounds.doubts(samples):
                warnings.warn(doubt, UserWarning, stacklevel=3)
            columns = xarray.DataArray(
                self.confounds.columns(samples), dims=(plan.sample, "_confounds")
            )
            given.append(columns.assign_coords({plan.sample: samples}))
            core.append(["_confounds"])
        # Rows as they are chunked: left to itself dask cuts them finer for every chunk of tasks.
        given = [
            array if array.chunks is None else array.chunk(dict.fromkeys(along, -1))
            for array, along in zip(given, core, strict=True)
        ]
        found = xarray.apply_ufunc(
            self._predict_block,
            *given,
            input_core_dims=core,
            output_core_dims=[list(dims)],
            join="exact",
            kwargs={"chosen": chosen, "interval": interval},
            dask="parallelized",
            output_dtypes=[np.float64],
            dask_gufunc_kwargs={"allow_rechunk": True, "output_sizes": self.tasks.coords.sizes},
        )
        found = found.drop_vars([n for n in found.coords if set(found[n].dims) & set(dims)])
        found = found.assign_coords(self.tasks.coords.to_xarray())
        if any(at.size < found.sizes[dim] for dim, at in places.items()):
            found = found.isel(places)
        return found.transpose(*plan.dims).rename(plan.target).assign_attrs(plan.target_attrs)

    def _predict_block(
        self, *blocks: AnyArray, chosen: IntArray, interval: tuple[Any, ...]
    ) -> FloatArray:
        """Predict the tasks chosen in some rows, ``(rows, *tasks)`` each; NaN for the others."""
        n_rows, n_tasks = blocks[0].shape[0], self.tasks.n_tasks
        tables = [np.asarray(block, dtype=np.float64).reshape(n_rows, -1) for block in blocks]
        columns = None if self.confounds is None else tables.pop()
        whole = np.full((n_rows, int(np.prod(self.tasks.shape))), np.nan)
        inputs, rows = self._inputs(tables)
        if rows.any():
            columns = None if columns is None else columns[rows]
            if chosen.size < n_tasks or interval:  # nothing is said of others
                fitted = FittedGroups.of(self.estimator)
                if interval:
                    coverage, end = interval
                    found = fitted.predict_bounds(inputs, coverage, columns)[end]
                else:
                    found = fitted.predict_values(inputs, columns)
                found = found[:, chosen]
                check.warn_if_unpredictable(found, [self.tasks.names[k] for k in chosen])
            else:
                options = {} if columns is None else {"confounds": columns}
                found = np.reshape(self.estimator.predict(inputs, **options), (-1, n_tasks))
            whole[np.ix_(rows, self.tasks.kept[chosen])] = found
        return whole.reshape(n_rows, *self.tasks.shape)

    def tasks_first(self, values: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
        """Put the tasks along the first axis of some values.

        Parameters
        ----------
        values : DataArray on the tasks' dimensions (and others), array (n_tasks, ...), or series by
            task.

        Returns
        -------
        array of shape (n_tasks, ...)
            The numbers.
        tuple of str or None
            The names of the other dimensions; None where values were not a DataArray.
        """
        array, others = tasks_first(values, self.tasks, "values")
        if array.shape[:1] != (self.tasks.n_tasks,):
            raise ValueError(
                f"values has shape {array.shape}: give one for each of the "
                f"{self.tasks.n_tasks:,} tasks along the first axis."
            )
        return array, others

    def _coefficients(self, which: str) -> Any:
        found = self.coefficients
        if found is None:
            kind = type(self.estimator.regressors_[0]).__name__
            raise ValueError(
                f"{which} is of linear models, and these are {kind}: fit.importance(data) says "
                "what each feature is worth to a region."
            )
        values = found.value if which == "coef" else found.standard_error
        values = np.full_like(found.value, np.nan) if values is None else values
        region, features = self.tasks.group, list(found.names)
        if self.form.kind != "xarray":
            frame = need("pandas").DataFrame(values, columns=features)
            return _form.native(self.form, frame.rename_axis(region), with_index=True)
        units = ("feature", [slot.units for slot in self.plan.slots])
        coords = {region: np.arange(len(values)), "feature": features, "feature_units": units}
        attrs = {"long_name": "coefficient of each region's model", "units": found.units}
        if which == "coef_error":
            attrs["long_name"] = f"standard error of the {attrs['long_name']}"
            given = "given the regions and independent rows: autocorrelated series have larger ones"
            attrs["comment"] = "; ".join(filter(None, (given, found.no_error)))
        dims = (region, "feature")
        return need("xarray").DataArray(values, coords, dims, name=which, attrs=attrs)

    @property
    def price(self) -> Any:
        """What the options ``n_regions`` to ``apart`` cost on held-out rows; None without any."""
        return self.estimator.price_

    @property
    def variance(self) -> str:
        """What errors are shares of, in words."""
        return FittedGroups.of(self.estimator).variance(self.tasks.what)

    def need_held_out(self) -> HeldOut:
        """Give the errors on held-out rows, or raise an error where no rows were held out.

        Returns
        -------
        HeldOut
        """
        if self.held_out is None:
            raise InputError(
                "no rows were held out: fit with ", Option("held_out", 5), ", say, for errors."
            )
        return self.held_out


# -- What a fit came to, in words


#: Number of regions whose windows of time are shown.
WINDOWS_SHOWN = 5
#: Errors closer than this share count as even.
EVEN = 0.005


def summarise(fit: Any) -> str:
    """A headline, the errors, who is helped and hurt, how the limit was found, and notes."""
    return "\n".join(map(visible, _lines(fit)))


def _lines(fit: Any) -> Iterator[str]:
    tasks, model = fit.tasks, fit.estimator
    first, last, n_samples = fit.span
    yield (
        f"{several(tasks.n_tasks, tasks.what)} -> {several(fit.n_regions, tasks.group)}"
        f"{f', {tasks.n_masked:,} masked' if tasks.n_masked else ''}"
    )
    span = f"{first} to {last}" if first else ""
    yield (
        f"  {fit.plan.target} from {_features(fit.plan)}; {several(n_samples, 'sample')}"
        f"{f', {span}' if span else ''}"
    )
    if fit.held_out is not None:
        yield from _errors(fit)
    chosen, counted = "chosen on held-out rows", FittedGroups.of(model).aggregator.n_groups
    if model.cv_curve_ is None:
        asked = FittedGroups.of(model).aggregator.max_loss == "auto"
        chosen = "not chosen, because there was nothing to choose it by" if asked else "as given"
    limit = f"limit max_loss = {model.max_loss_:g}, {chosen}"
    if counted is not None:
        limit = f"cut at {several(counted, fit.tasks.group)}, as requested"
    yield f"  {limit}; {_served(fit)}"
    wish = wish_words(FittedGroups.of(model).aggregator, CALLED)
    if wish:
        yield f"  requested: {wish}"
    yield from _windows(fit)
    yield from (f"  note: {note}" for note in fit.notes)


def _windows(fit: Any) -> Iterator[str]:
    """The windows of the largest regions, a line each."""
    fitted = FittedGroups.of(fit.estimator)
    largest = np.argsort(-fitted.partition.sizes, kind="stable")[:WINDOWS_SHOWN].tolist()
    table = fit.windows
    for region in largest if len(table) else ():
        own = table[table[fit.tasks.group] == region]
        first = fit.tasks.names[int(fitted.partition.groups[region][0])]
        said = "; ".join(
            f"{w.feature} {w.window}" + ("" if np.isnan(w.coef) else f" ({w.coef:+.2f})")
            for w in own.itertuples()
        )
        others = ", ..." if fitted.partition.sizes[region] > 1 else ""
        yield f"  {fit.tasks.group} {region} ({first}{others}): {said}"
    if len(table) and fit.n_regions > len(largest):
        others = several(fit.n_regions - len(largest), fit.tasks.group)
        yield f"  and windows of {others} more in fit.windows"


def _features(plan: Plan) -> str:
    """How many features there are, the first by name, and at how many lags."""
    sources, own = plan.sources, [slot for slot in plan.slots if slot.source == plan.target]
    names = [source.name for source in sources if not own or source.name != plan.target]
    first = f"{', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
    found = f"{several(len(names), 'feature')} ({first})"
    if len(plan.slots) > len(sources):
        found += f" at {several(len(plan.slots) - len(own), 'lag')} in all"
    return f"{found} and its own past" if own else found


def _errors(fit: Any) -> Iterator[str]:
    errors = fit.held_out.errors
    mine = fit.held_out.mean("ctfa")
    against = []
    for name in errors:
        if name != "ctfa":
            theirs = fit.held_out.mean(name)
            rival = "single-task models" if name == "single-task" else name
            change = mine / theirs - 1.0 if theirs else np.nan
            said = f"{100 * abs(change):.0f} % {'better' if change < 0 else 'worse'}"
            against.append(f"{theirs:.3f} by {rival} ({'even' if abs(change) < EVEN else said})")
    yield f"  held-out error {mine:.3f} of {fit.variance}, against {' and '.join(against)}"
    labels = fit.estimator.labels_
    yield from (f"  {said}" for said in skill_words(fit.held_out, labels, fit.tasks.group))
    yield from (f"  {said}" for said in coverage_words(fit.held_out, labels))
    gain = fit.held_out.gain
    helped, hurt = int(fit.held_out.helped.sum()), int(fit.held_out.hurt.sum())
    fitted = FittedGroups.of(fit.estimator)
    own = f"a model of their own{' on all features' if fitted.averages else ''}"
    line = f"  {helped:,} helped, {hurt:,} made worse than by {own}"
    if fitted.is_single_task:  # others than in the folds, on which it is judged
        line = (
            f"  where it chose again without the held-out rows, {helped:,} helped, {hurt:,} made "
            f"worse than by {own}"
        )
    if hurt:
        worst = int(np.nanargmin(gain))
        line += f" (most: {fit.tasks.names[worst]}, {gain[worst]:+.3f})"
    yield f"{line}; {fit.held_out.how}"


def _served(fit: Any) -> str:
    if fit.n_regions == fit.tasks.n_tasks:
        on = ", on averaged features" if FittedGroups.of(fit.estimator).averages else ""
        return f"every {fit.tasks.what} keeps a model of its own{on}{_at_what_price(fit)}"
    aggregate = getattr(fit.estimator, "aggregate_", None)
    inputs = "features" if len(fit.plan.slots) > 1 else "feature"
    if aggregate == "pool":
        return f"members of a region share coefficients and keep their own {inputs}"
    if aggregate == "mean":
        return f"a region is predicted by its mean {inputs}"
    return "one model per region"


def _at_what_price(fit: Any) -> str:
    """What merging at the usual limit would have come to, where folds preferred none."""
    curve = fit.estimator.cv_curve_
    if curve is None or np.isfinite(fit.estimator.max_loss_):
        return ""
    at = int(np.argmin(np.abs(curve.max_loss - PREFERRED)))
    cost = curve.error[at] / curve.error[curve.chosen] - 1.0
    return (
        f" (max_loss = {curve.max_loss[at]:g}: about {curve.n_groups[at]:.0f} {fit.tasks.group}s, "
        f"held-out error {100 * cost:+.2g} %)"
    )


# -- What a notebook shows of a labelled fit: its summary, and the map of its regions beside it


#: Width and height of a map at most, in pixels.
WIDE, HIGH = 360, 300
#: Outlines are drawn with so many corners; more dots than this are pixels.
CORNERS, DOTS = 12_000, 1500
#: A pixel with no dot nearer than so many pixels stays empty.
NEAR = 1.6
#: Whole numbers to which the corners of a drawing go.
GRID = 65535


def page(fit: Any) -> str:
    """The summary, with the map where it is known where tasks lie."""
    title, *lines = (line.strip() for line in fit.summary().split("\n"))
    where = fit.places()
    aside = "" if where is None else picture(where, fit.estimator.partition_)
    return block(title, lines, aside)


def picture(where: Places, partition: Any) -> str:
    """Regions on a map, neighbours in different colours; an SVG without anything from outside."""
    drawn = drawing_of(where)
    west, south, east, north = drawn.box
    across, up = max((east - west) * drawn.squeeze, 1e-12), max(north - south, 1e-12)
    scale = min(WIDE / across, HIGH / up)
    width, height = max(across * scale, 8.0), max(up * scale, 8.0)
    pairs = drawn.pairs
    if drawn.kind != "dots":
        rings = np.repeat(drawn.owner, np.diff(drawn.starts))
        inside = drawn.across < partition.n_variables
        pairs = np.column_stack([rings, drawn.across])[inside]
    colour = (colours_of(partition, pairs) % len(COLOURS))[partition.labels]
    if drawn.kind == "outlines" and len(where.positions) < CORNERS // 4:
        drawing = _outlines(drawn, colour, width, height)
    elif drawn.kind == "dots" and len(where.positions) <= DOTS:
        drawing = _dots(drawn.corners, colour, width, height)
    else:
        drawing = _pixels(where, drawn, colour, width, height)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' role='img' aria-label='map of the regions' "
        f"width='{width:.0f}' height='{height:.0f}' viewBox='-6 -6 {width + 12:.0f} "
        f"{height + 12:.0f}' style='max-width:100%;height:auto;flex:none'>{drawing}</svg>"
    )


def _outlines(drawn: Any, colour: IntArray, width: float, height: float) -> str:
    """One path for each colour, corners to a tenth of a pixel."""
    kept = thinned(Rings(drawn.corners, drawn.starts, drawn.owner), CORNERS)
    points = kept.corners / GRID * [width, -height] + [0.0, height]
    paths = []
    for number in np.unique(colour).tolist():
        rings = np.flatnonzero(colour[kept.owner] == number)
        path = "".join(
            "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points[slice(*kept.starts[k : k + 2])])
            + "Z"
            for k in rings.tolist()
        )  # fmt: skip
        paths.append(f"<path fill='{COLOURS[number]}' d='{path}'/>")
    line = "stroke='#80808060' stroke-width='.5' fill-rule='evenodd'"
    return f"<g {line}>{''.join(paths)}</g>"


def _dots(corners: IntArray, colour: IntArray, width: float, height: float) -> str:
    points = corners / GRID * [width, -height] + [0.0, height]
    radius = float(np.clip(0.4 * np.sqrt(width * height / len(points)), 1.5, 5.0))
    circles = (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.1f}' fill='{COLOURS[k]}'/>"
        for (x, y), k in zip(points, colour.tolist(), strict=True)
    )
    return "".join(circles)


def _pixels(where: Places, drawn: Any, colour: IntArray, width: float, height: float) -> str:
    """A small picture: of a grid a pixel for each cell where there is room, of others the nearest.

    Tasks that fall on one pixel share it with the last.
    """
    west, south, east, north = drawn.box
    places = (np.asarray(where.positions) - [west, south]) / [
        max(east - west, 1e-12), max(north - south, 1e-12),
    ]  # fmt: skip
    if where.cell is not None:
        cells = np.array([(east - west) / where.cell[0], (north - south) / where.cell[1]])
        shape = np.clip(np.rint(cells), 1, [WIDE, HIGH]).astype(int)
    else:
        shape = np.array([int(width), int(height)])
    at = np.minimum((places * shape).astype(int), shape - 1)
    image = np.zeros((shape[1], shape[0]), dtype=np.uint8)
    if where.cell is not None:
        image[shape[1] - 1 - at[:, 1], at[:, 0]] = colour + 1
    else:
        rows, columns = np.indices(image.shape)
        pixels = np.column_stack([columns.ravel(), shape[1] - 1 - rows.ravel()])
        off, near = cKDTree(places * shape).query(pixels + 0.5)
        spread = NEAR * max(1.0, np.sqrt(np.prod(shape) / len(places)))
        image[rows.ravel(), columns.ravel()] = np.where(off <= spread, colour[near] + 1, 0)
    data = base64.b64encode(_png(image)).decode("ascii")
    return (
        f"<image width='{width:.1f}' height='{height:.1f}' preserveAspectRatio='none' "
        f"style='image-rendering:pixelated' href='data:image/png;base64,{data}'/>"
    )


def _png(image: Any) -> bytes:
    """An image of colours, 0 nothing, as PNG."""
    palette = b"\0\0\0" + b"".join(bytes.fromhex(colour[1:]) for colour in COLOURS)
    rows = np.column_stack([np.zeros(len(image), dtype=np.uint8), image])
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", image.shape[1], image.shape[0], 8, 3, 0, 0, 0)),
        (b"PLTE", palette),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    held = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(held)
