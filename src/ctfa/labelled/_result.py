"""A fitted model of labelled data: what it found, as labelled objects, and what it says of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._errors import InputError, Option
from ctfa._text import visible
from ctfa.core.cut import PREFERRED
from ctfa.core.history import MergeHistory
from ctfa.core.libraries import need
from ctfa.core.types import AnyArray, FloatArray, IntArray
from ctfa.estimators.evidence import wish_words
from ctfa.estimators.intervals import require_calibration, tell_gaussian
from ctfa.estimators.view import FittedGroups
from ctfa.labelled import _form, _html
from ctfa.labelled._arrays import named_inputs, table
from ctfa.labelled._form import DataForm
from ctfa.labelled._gather import Plan, gather_features, require_known
from ctfa.labelled._geometry import Geometry, label_columns, places, shapes
from ctfa.labelled._matching import on_tasks, same_rows, tasks_first
from ctfa.labelled._past import past_of
from ctfa.labelled._seasons import Seasons
from ctfa.labelled._tasks import Tasks
from ctfa.labelled._words import CALLED, error_columns, several
from ctfa.persistence import save
from ctfa.report import Coefficients, GroupSeries, HeldOut, Material, Places, write
from ctfa.report._words import coverage_words, skill_words

#: The region of a task without data.
NO_REGION = -1


@dataclass(frozen=True, eq=False)
class LabelledFit:
    """What ``ctfa.labelled.fit`` returns: print it.

    Attributes
    ----------
    estimator : CTFARegressor, MultiInputCTFARegressor or PooledCTFARegressor
        The fitted model.
    tasks, plan, form
        The tasks with their coordinates; where in the data the arrays were; how the data came.
    held_out : HeldOut or None
        Errors on rows left out, by method.
    notes : tuple of str
        What was done to the data: masked tasks, gaps, rows left out, seasons and trends taken off.
    """

    estimator: Any
    plan: Plan
    tasks: Tasks
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
        """Their standard errors; NaN where there are none, and notes say why.

        Given the regions, and as if rows did not depend on each other: those of series that
        remember are larger (three to four times for daily values with a correlation of 0.95).
        """
        return self._coefficients("coef_error")

    def importance(self, data: Any, *, n_repeats: int = 5, random_state: Any = None) -> Any:
        """Tell what each feature is worth to each region, on rows of data with the target.

        The R2 that a region's tasks lose on average where the feature's rows are shuffled, whatever
        the regressor; means of features are shuffled, and named, as one. Data of fit say what the
        model rests on, other years what a feature is good for.

        Parameters
        ----------
        data : as in fit
            With the target and the features under their names.
        n_repeats, random_state
            Times that each feature is shuffled, and the seed.

        Returns
        -------
        DataFrame
            One row per region and feature: ``importance`` and its standard deviation, ``error``.
        """
        options = {"n_repeats": n_repeats, "random_state": random_state}
        if self.form.kind == "rows":
            X, y, tasks = _form.rows_in(self, data)
            found = self.estimator.importance(X, y, tasks, **options)
        else:
            X, Y, columns = self._rows(data)
            options |= {} if columns is None else {"confounds": columns}
            found = self.estimator.importance(X, Y, **options)
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
        arrays, _, chosen = self._features(_form.features_in(self, data)[0])
        _form.require_members(self, chosen)
        target, arrays = same_rows(target, arrays, plan.sample, [])
        slots = [
            np.asarray(one.transpose(plan.sample, ...).values, dtype=np.float64) for one in arrays
        ]
        n_rows = target.sizes[plan.sample]
        X, layout = table([slot.reshape(n_rows, -1) for slot in slots], plan, tasks)
        Y = target.transpose(plan.sample, *tasks.dims).values.reshape(n_rows, -1)[:, tasks.kept]
        rows = np.ones(n_rows, dtype=bool) if layout is not None else ~np.isnan(X).any(axis=1)
        columns = None
        if self.confounds is not None:
            columns = self.confounds.columns(target[plan.sample])[rows]
        return named_inputs(X[rows], plan), np.asarray(Y[rows], dtype=np.float64), columns

    @property
    def errors(self) -> Any:
        """Held-out errors of each task by method, its skill, and the gain over a model of its own.

        Mean squares in units of each task's variance (with seasons or a trend taken off, of what
        these leave). Three predict without features on the same rows: ``climatology_error`` is of
        the mean of the training rows, of each calendar month where there are dates of two years or
        more (where steps are finer, of a smooth yearly cycle; with ``anomalies`` and ``detrend``,
        of what these take off); ``persistence_error`` of the task's value one step before;
        ``anomaly_persistence_error`` of climatology plus its anomaly one step before. A value one
        step before is one that a forecaster knows, whether or not its row is held out; where it is
        missing climatology stands for it. ``skill``, ``skill_over_persistence`` and
        ``skill_over_anomaly_persistence`` are the shares of these errors that the model saves;
        ``attrs`` say what they are, or why there is no persistence. ``coverage_90`` is the share of
        the same rows that 90 % intervals held (``predict_interval``), of models that had not seen
        them; ``skill("season")`` tells it by season. A Dataset on the dimensions of
        the tasks; for tables a frame by task.
        """
        held_out = self.need_held_out()
        columns: dict[str, Any] = dict(error_columns(held_out))
        columns["gain"] = held_out.gain
        columns["trust"] = self.estimator.trust_
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
            quarters), ``"block"`` (the rows held out together, called by their first and last) and
            ``"region"`` or ``"task"``. An empty one gives the figures of the summary.

        Returns
        -------
        Dataset or DataFrame
            The variables of ``errors`` (see there) along what was asked for, means over the tasks
            by their weights, each in units of its own variance. A Dataset where fit was given
            arrays, else a frame.

        Examples
        --------
        >>> import ctfa
        >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
        >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
        >>> fit.skill("season").skill.dims
        ('season',)
        """
        return _form.divided(self, [by] if isinstance(by, str) else list(by))

    def each_division(self) -> Iterator[tuple[str, list[str], dict[str, FloatArray]]]:
        """Errors and skill in all, by season, by block and by region, as far as they are known."""
        return _form.each_division(self)

    def error_attrs(self) -> dict[str, str]:
        """What errors are in units of, and what they are compared with, in words."""
        held_out = self.need_held_out()
        attrs = {"units": self.variance, "held_out": held_out.how, **held_out.zero_words}
        if held_out.persistence is None and held_out.climatology is not None:
            attrs["persistence"] = f"none: {held_out.before}"
        return {name.replace(" ", "_"): words for name, words in attrs.items()}

    @property
    def windows(self) -> Any:
        """Windows of time in each region's model, one row each, as a pandas DataFrame.

        From ``first`` to ``last`` of ``unit`` before the row; ``coef`` is of the mean over the
        window, what its lags have together in ``coef``, NaN where models are not linear. Empty
        where nothing was asked of the past (``lags``, ``own_past``).
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
            those of fit, with a warning, or refused. With ``anomalies``, rows in months (seasons,
            hours) that fit had none of, and rows in another step of time, are warned of.
        """
        return self._predicted(data)

    def predict_interval(self, data: Any, coverage: float = 0.9) -> Any:
        """Predict intervals that hold the target with a given probability; lazy where data are.

        Calibrated on held-out blocks of rows (``predict_interval`` of the estimator says how). With
        ``anomalies`` they are wide in seasons in which the model errs much.

        Parameters
        ----------
        data : as in ``predict``
        coverage : float, default=0.9
            Probability with which an interval is to hold, above 0 and below 1.

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
        return _form.bounds(self, lower, upper, coverage)

    def _predicted(self, data: Any, *interval: Any) -> Any:
        """Predictions, or of an interval, its coverage, one end."""
        if self.form.kind == "rows":
            return _form.predict_rows(self, data, *interval)
        dataset, hand_back = _form.features_in(self, data)
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
        """
        position = self.tasks.position(task)
        if self.form.kind == "rows":
            return self.estimator.why(self.estimator.tasks_[position])
        return self.estimator.why(FittedGroups.of(self.estimator).names[position])

    def to_regions(self, values: Any) -> Any:
        """Mean over each region, weighted as in fit: the tasks' dimensions become one of regions.

        Parameters
        ----------
        values : DataArray on the tasks' dimensions (and others), array (n_tasks, ...), or series by
            task. NaN is left out of the mean.
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
        return need("xarray").DataArray(
            mean,
            dims=(self.tasks.group, *others),
            coords=coords,
            name=values.name,
            attrs=values.attrs,
        )

    def to_tasks(self, values: Any) -> Any:
        """Give every task the value of its region: the inverse of ``to_regions`` for its means."""
        if not hasattr(values, "dims"):
            return np.asarray(values)[self.estimator.labels_]
        region = self.tasks.group
        others = [dim for dim in values.dims if dim != region]
        array = np.asarray(values.transpose(region, *others).values, dtype=np.float64)
        built = need("xarray").DataArray(
            self.tasks.spread(array[self.estimator.labels_], np.nan),
            dims=(*self.tasks.dims, *others),
            coords=self.tasks.coords.to_xarray(),
            name=values.name,
            attrs=values.attrs,
        )
        built = built.assign_coords(
            {name: coord for name, coord in values.coords.items() if region not in coord.dims}
        )
        same = set(built.dims) == set(self.plan.dims)
        return built.transpose(*self.plan.dims) if same else built

    def path(self) -> Any:
        """Groups and held-out error for every limit that was tried, as a pandas DataFrame.

        Without a limit chosen on held-out rows, the groups at every merge of the history.
        """
        pandas = need("pandas")
        curve = self.estimator.cv_curve_
        if curve is not None:
            return pandas.DataFrame(curve.columns())
        history = self.history if self.history is not None else self.estimator.history_
        worst = np.maximum.accumulate(history.loss) if len(history) else history.loss
        n_tasks = history.n_variables
        return pandas.DataFrame(
            {"max_loss": worst, "n_groups": n_tasks - 1 - np.arange(worst.size)}
        )

    def region_table(self) -> Any:
        """One row per task: its label, place, region, gain, trust and held-out errors.

        A GeoDataFrame where outlines are known, else a pandas DataFrame.
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
        """One row per region: its outline, number of tasks and coefficients; a GeoDataFrame."""
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
        """What the report page is made of."""
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
            series=self.series,
            coefficients=self.coefficients,
            worth=self.worth,
            notes=self.notes,
            again=(
                "ctfa fit run.toml --regions {n} -o again",
                "ctfa.labelled.fit(..., n_regions={n})",
            ),
        )

    def places(self) -> Places | None:
        """Where tasks lie, for maps: outlines, the cells of a grid, or positions."""
        return places(self.tasks, self.geometry)

    def report(self, path: Any) -> Path:
        """Write the report page; the same as ``ctfa.report.write(fit, path)``."""
        return write(self, path)

    def save(self, path: Any) -> None:
        """Write to a file that ``ctfa.labelled.load`` reads."""
        save(self, path)

    def summary(self) -> str:
        """What came out, in words."""
        return summarise(self)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return _html.page(self)

    def _predict_arrays(
        self,
        arrays: list[Any],
        places: dict[str, IntArray],
        chosen: IntArray,
        interval: tuple[Any, ...],
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
            dask_gufunc_kwargs={
                "allow_rechunk": True,
                "output_sizes": self.tasks.coords.sizes,
            },
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
        columns = None
        if self.confounds is not None:
            *blocks, columns = blocks  # type: ignore[assignment]
            columns = np.asarray(columns, dtype=np.float64)
        n_rows = blocks[0].shape[0]
        slots = [np.asarray(block, dtype=np.float64).reshape(n_rows, -1) for block in blocks]
        whole = np.full((n_rows, int(np.prod(self.tasks.shape))), np.nan)
        X, layout = table(slots, self.plan, self.tasks)
        rows = np.ones(n_rows, dtype=bool) if layout is not None else ~np.isnan(X).any(axis=1)
        if rows.any():
            columns = None if columns is None else columns[rows]
            inputs = named_inputs(X[rows], self.plan)
            predicted = self._predict_table(inputs, columns, chosen, interval)
            whole[np.ix_(rows, self.tasks.kept[chosen])] = predicted
        return whole.reshape(n_rows, *self.tasks.shape)

    def _predict_table(
        self,
        inputs: Any,
        columns: FloatArray | None,
        chosen: IntArray,
        interval: tuple[Any, ...],
    ) -> AnyArray:
        """Predict the tasks chosen; of the others nothing may be known, and nothing is said."""
        if chosen.size < self.tasks.n_tasks or interval:
            fitted = FittedGroups.of(self.estimator)
            if interval:
                coverage, end = interval
                found = fitted.predict_bounds(inputs, coverage, columns)[end][:, chosen]
            else:
                found = fitted.predict_values(inputs, columns)[:, chosen]
            check.warn_if_unpredictable(found, [self.tasks.names[k] for k in chosen])
            return np.asarray(found)
        options = {} if columns is None else {"confounds": columns}
        predicted = np.asarray(self.estimator.predict(inputs, **options))
        return predicted.reshape(-1, self.tasks.n_tasks)

    def tasks_first(self, values: Any) -> tuple[FloatArray, tuple[str, ...] | None]:
        """Numbers with tasks along the first axis, and the names of the other dimensions."""
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
        return _form.coefficients(self, found, values, which)

    @property
    def price(self) -> Any:
        """What ``n_regions`` to ``apart`` cost on held-out rows; None where nothing was wished."""
        return self.estimator.price_

    @property
    def variance(self) -> str:
        """What errors are shares of, in words."""
        return FittedGroups.of(self.estimator).variance(self.tasks.what)

    def need_held_out(self) -> HeldOut:
        """Errors on rows left out; an error where none were."""
        if self.held_out is None:
            raise InputError(
                "no rows were held out: fit with ", Option("held_out", 5), ", say, for errors."
            )
        return self.held_out


# -- What a fit came to, in words


#: Regions whose windows of time are told.
WINDOWS_SHOWN = 5
#: Errors closer than this share are no difference worth words.
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
        chosen = "not chosen, for there was nothing to choose it by" if asked else "as given"
    limit = f"limit max_loss = {model.max_loss_:g}, {chosen}"
    if counted is not None:
        limit = f"cut at {several(counted, fit.tasks.group)}, as wished"
    yield f"  {limit}; {_served(fit)}"
    wish = wish_words(FittedGroups.of(model).aggregator, CALLED)
    if wish:
        yield f"  wished: {wish}"
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
            against.append(f"{theirs:.3f} by {rival} ({_compared(mine, theirs)})")
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


def _compared(mine: float, theirs: float) -> str:
    change = mine / theirs - 1.0 if theirs else np.nan
    if abs(change) < EVEN:
        return "even"
    return f"{100 * abs(change):.0f} % {'better' if change < 0 else 'worse'}"


def _served(fit: Any) -> str:
    if fit.n_regions == fit.tasks.n_tasks:
        on = ", on averaged features" if FittedGroups.of(fit.estimator).averages else ""
        return f"every {fit.tasks.what} keeps a model of its own{on}{_at_what_price(fit)}"
    aggregate = getattr(fit.estimator, "aggregate_", None)
    if aggregate == "pool":
        return f"members of a region share coefficients and keep their own {_inputs(fit)}"
    if aggregate == "mean":
        return f"a region is predicted by its mean {_inputs(fit)}"
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


def _inputs(fit: Any) -> str:
    return "features" if len(fit.plan.slots) > 1 else "feature"
