"""What a report is made of: the fitted model, what is known beside it, and the data of its fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ctfa import _reading as check
from ctfa.core.history import MergeHistory
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.estimators.held_out import SAME
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import CLIMATOLOGY, ZEROS, beside_zeros, words_of

#: What held-out errors call the groups' models without what targets add to them.
GROUPS_ALONE = "group models alone"


@dataclass(frozen=True, eq=False)
class Places:
    """Where targets lie: outlines, or positions with the size of a cell where they are a grid.

    Parameters
    ----------
    positions : array of shape (n_targets, 2)
        East and north of each target, in degrees if geographic.
    outlines : sequence of sequences of arrays of shape (n_corners, 2), optional
        The rings of each target's area, outer ones and holes alike; one list per target.
    cell : pair of floats, optional
        Width and height of the cell around each position, where positions are a regular grid.
    geographic : bool
        Whether positions are longitude and latitude.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.report import Places
    >>> Places(np.array([[0.0, 0.0], [5000.0, 0.0]]), cell=(5000.0, 5000.0)).geographic
    False
    """

    positions: FloatArray
    outlines: Sequence[Sequence[FloatArray]] | None = None
    cell: tuple[float, float] | None = None
    geographic: bool = False


@dataclass(frozen=True, eq=False)
class Parts:
    """Squared errors on held-out rows by block and season, in units of each target's variance.

    The attribute ``parts`` of a ``HeldOut``.

    Parameters
    ----------
    blocks : sequence of str
        Names of the held-out blocks; empty where they are not told apart (``n_blocks`` is then 1).
    seasons : sequence of str
        Names of the seasons; empty where they are not told apart (``n_seasons`` is then 1).
    squares : mapping of str to array of shape (n_blocks, n_seasons, n_targets)
        By method, squared errors summed over the rows of each part.
    weight : array of shape (n_blocks, n_seasons, n_targets)
        Weight of the rows summed.
    inside : array of shape (n_blocks, n_seasons, n_targets), optional
        Weight of the rows that 90 % intervals held; None where there are no intervals.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_gauges
    >>> from ctfa.report import Material, complete
    >>> gauges = make_gauges(random_state=0)
    >>> model = CTFARegressor().fit(gauges.data, gauges.target)
    >>> parts = complete(Material(model), (gauges.data, gauges.target)).held_out.parts
    >>> parts.weight.shape
    (5, 1, 12)
    """

    blocks: Sequence[str]
    seasons: Sequence[str]
    squares: Mapping[str, FloatArray]
    weight: FloatArray
    inside: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Mean squared errors on rows left out, in units of each target's variance.

    Parameters
    ----------
    errors : mapping of str to array of shape (n_targets,)
        By method, the model itself first, then "single-task", then other rivals.
    how : str
        How rows were left out, in words: "5 blocks of consecutive months".
    weights : array of shape (n_targets,), optional
        How much each target counts.
    climatology : array of shape (n_targets,), optional
        Errors on the same rows of a prediction without features, learned on the same training
        rows: a target's mean there, with dates of each calendar month or day, with confounds its
        seasons and trend.
    reference : str
        What that prediction is, in words.
    persistence : array of shape (n_targets,), optional
        Errors on the same rows of the target's value one step before.
    anomaly_persistence : array of shape (n_targets,), optional
        The same of climatology plus the anomaly one step before.
    before : str
        What is one step before, in words: "of the month before"; or why there is no persistence.
    parts : Parts, optional
        The same errors by held-out block and by season.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.report import HeldOut
    >>> errors = {"ctfa": np.array([0.4, 0.6]), "single-task": np.array([0.5, 0.7])}
    >>> held_out = HeldOut(errors, "the last year", climatology=np.array([1.0, 1.0]))
    >>> held_out.mean("ctfa"), held_out.mean_skill("ctfa")
    (0.5, 0.5)
    """

    errors: Mapping[str, FloatArray]
    how: str
    weights: FloatArray | None = None
    climatology: FloatArray | None = None
    reference: str = "the mean of the training rows"
    persistence: FloatArray | None = None
    anomaly_persistence: FloatArray | None = None
    before: str = ""
    parts: Parts | None = None

    @property
    def zeros(self) -> dict[str, FloatArray]:
        """Errors of what predicts without features, by name, as far as they are known."""
        each = (self.climatology, self.persistence, self.anomaly_persistence)
        known = zip(ZEROS, each, strict=True)
        return {name: np.asarray(errors) for name, errors in known if errors is not None}

    @property
    def zero_words(self) -> dict[str, str]:
        """What each of these predicts."""
        known = words_of(self.reference, self.before)
        return {name: known[name] for name in self.zeros}

    @property
    def hardest(self) -> str | None:
        """The form of persistence that has the smaller error; None where there is none."""
        forms = [name for name in self.zeros if name != CLIMATOLOGY]
        return min(forms, key=self.mean, default=None)

    @property
    def to_beat(self) -> list[str]:
        """Climatology, and the harder form of persistence, as far as they are known."""
        return [zero for zero in (CLIMATOLOGY, self.hardest) if zero in self.zeros]

    @property
    def every(self) -> dict[str, FloatArray]:
        """Errors by method, with what predicts without features."""
        return {name: np.asarray(e) for name, e in self.errors.items()} | self.zeros

    @property
    def judged(self) -> BoolArray:
        """Targets that every method was judged on."""
        return np.asarray(np.isfinite(np.sum(list(self.errors.values()), axis=0)))

    def mean(self, method: str) -> float:
        """Give the weighted mean error of a method.

        Parameters
        ----------
        method : str
            A key of ``every``.

        Returns
        -------
        float
            Over the targets that every method was judged on; NaN where there are none.
        """
        judged = self.judged
        if not judged.any():
            return float("nan")
        weights = None if self.weights is None else self.weights[judged]
        return float(np.average(self.every[method][judged], weights=weights))

    def mean_skill(self, method: str, zero: str = CLIMATOLOGY) -> float | None:
        """Give the share of the error of climatology that a method saves.

        Parameters
        ----------
        method : str
            A key of ``every``.
        zero : str, default="climatology"
            What to compare with: a key of ``zeros``.

        Returns
        -------
        float or None
            1 minus the ratio of the mean errors; None where ``zero`` is not known.
        """
        error = self.mean(zero) if zero in self.zeros else 0.0
        return 1.0 - self.mean(method) / error if error > 0.0 else None

    @property
    def skills(self) -> dict[str, FloatArray]:
        """Skill of the model for each target against each zero, by the names of columns."""
        return skills_over(next(iter(self.errors.values())), self.zeros)

    @property
    def gain(self) -> FloatArray:
        """What each target gains over a model of its own; NaN where it was not judged."""
        mine, alone = list(self.errors.values())[:2]
        return np.asarray(alone - mine)

    @property
    def helped(self) -> BoolArray:
        """Targets that gain by more than nothing to speak of."""
        return np.asarray(self.gain > SAME)

    @property
    def hurt(self) -> BoolArray:
        """Targets that lose by more than nothing to speak of."""
        return np.asarray(self.gain < -SAME)

    def divided(self, by: Sequence[str], labels: IntArray) -> dict[str, FloatArray]:
        """Divide errors by held-out block, season, and group or target.

        Parameters
        ----------
        by : sequence of str
            Any of ``"block"``, ``"season"``, and ``"region"`` or ``"task"``.
        labels : array of shape (n_targets,)
            Group of each target.

        Returns
        -------
        dict of str to array
            By method, with one axis for each part, in the order above. Means over targets are
            those of ``mean``. NaN where no row was judged.
        """
        if self.parts is None:
            whole = {name: errors[None, None] for name, errors in self.every.items()}
            return self._in_parts(whole, np.ones((1, 1, labels.size)), by, labels)
        each = {name: self.parts.squares[name] for name in self.every}
        return self._in_parts(each, self.parts.weight, by, labels)

    def covered(self, by: Sequence[str], labels: IntArray) -> FloatArray | None:
        """Give the share of held-out values inside their 90 % intervals.

        Parameters
        ----------
        by : sequence of str
            As in ``divided``.
        labels : array of shape (n_targets,)
            Group of each target.

        Returns
        -------
        array or None
            With the axes of ``divided``; None where there are no intervals.
        """
        if self.parts is None or self.parts.inside is None:
            return None
        return self._in_parts({"": self.parts.inside}, self.parts.weight, by, labels)[""]

    def _in_parts(
        self, each: dict[str, FloatArray], weight: FloatArray, by: Sequence[str], labels: IntArray
    ) -> dict[str, FloatArray]:
        axes = tuple(axis for axis, part in enumerate(("block", "season")) if part not in by)
        weight = weight.sum(axis=axes)
        counts = np.where(weight > 0.0, weight, np.nan)
        each = {name: one.sum(axis=axes) / counts for name, one in each.items()}
        judged = np.isfinite(np.sum([*each.values()], axis=0)) & self.judged
        if "task" in by:
            return {name: np.where(judged, one, np.nan) for name, one in each.items()}
        # Means over the targets of a group, or over all of them, of those that were judged.
        group = labels if "region" in by else np.zeros_like(labels)
        members = sparse.csr_array((np.ones(group.size), (np.arange(group.size), group)))
        count = np.atleast_2d(judged * (1.0 if self.weights is None else self.weights))
        total = (count.reshape(-1, group.size) @ members).reshape(*judged.shape[:-1], -1)
        total = np.where(total > 0.0, total, np.nan)
        for name, one in each.items():
            known = (np.where(judged, one, 0.0) * count).reshape(-1, group.size)
            mean = (known @ members).reshape(total.shape) / total
            each[name] = mean if "region" in by else mean[..., 0]
        return each


def skills_over(errors: FloatArray, zeros: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Share of the error of what predicts without features that is saved, by names of columns."""
    columns = beside_zeros(errors, zeros)
    return {name: values for name, values in columns.items() if name.startswith("skill")}


@dataclass(frozen=True, eq=False)
class GroupSeries:
    """The mean target of each group over the samples, and the spread of its members.

    The attribute ``series`` of a ``Material``, and of what ``ctfa.labelled.fit`` returns.

    Parameters
    ----------
    samples : sequence of str
        Names of the samples, such as dates.
    mean : array of shape (n_samples, n_groups)
        In the units in which targets were merged; NaN where no member is observed.
    low, high : array of shape (n_samples, n_groups)
        The 10 % and 90 % quantiles of the members.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa.report import GroupSeries
    >>> mean = np.array([[0.1], [0.3]])
    >>> GroupSeries(["2020", "2021"], mean, mean - 0.1, mean + 0.1).mean.shape
    (2, 1)
    """

    samples: Sequence[str]
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of each group's model, where it is linear.

    The attribute ``coefficients`` of a ``Material``, and of what ``ctfa.labelled.fit`` returns.

    Parameters
    ----------
    names : sequence of str
        Names of the raw features.
    value : array of shape (n_groups, n_features)
        NaN where a group does not have the feature.
    standard_error : array of shape (n_groups, n_features), optional
        None, or NaN in places, where there are none.
    units : str
        What the coefficients are in, in words.
    no_error : str
        Why standard errors are missing, where any are.

    Examples
    --------
    >>> import ctfa
    >>> basins = ctfa.datasets.make_basins(20, 96, 3, n_regions=2, random_state=0).to_xarray()
    >>> fit = ctfa.labelled.fit(basins, target="flow", sample="time", task="basin")
    >>> list(fit.coefficients.names), fit.coefficients.value.shape
    (['temperature', 'precipitation', 'snow'], (2, 3))
    """

    names: Sequence[str]
    value: FloatArray
    standard_error: FloatArray | None = None
    units: str = ""
    no_error: str = ""


@dataclass(frozen=True, eq=False)
class Material:
    """Everything a report tells; only the model is needed.

    Parameters
    ----------
    model : fitted estimator
        As in ``write``.
    title : str
        Title of the page; an empty one is made from the model.
    source : str
        Where the data came from.
    target : str
        What is predicted: "vegetation health".
    target_units : str
        Units of the target.
    feature_units : mapping of str to str
        Units by the name of the feature.
    task : str
        What one target is: "basin", "cell".
    sample : str
        What one row is: "time".
    names : sequence of str, optional
        Names of the targets; None takes those of the model.
    places : Places, optional
        Where the targets lie; None draws tiles.
    held_out : HeldOut, optional
        Errors on held-out rows.
    history : MergeHistory, optional
        The merges up to an infinite limit; None shows those of the model.
    series : GroupSeries, optional
        The mean target of each group.
    coefficients : Coefficients, optional
        Of the groups' models.
    worth : Coefficients, optional
        What features are worth to groups whose models are not linear.
    notes : sequence of str
        What was done to the data: masked cells, gaps, anomalies.
    again : pair of str
        What gives as many groups as the slider shows, in Python and on the command line; ``{n}``
        stands for their number.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.report import Material, collect
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> material = Material(CTFARegressor().fit(X, Y), title="Six targets", task="gauge")
    >>> collect(material)["title"]
    'Six targets'
    """

    model: Any
    title: str = ""
    source: str = ""
    target: str = "target"
    target_units: str = ""
    feature_units: Mapping[str, str] = field(default_factory=dict)
    task: str = "target"
    sample: str = "row"
    names: Sequence[str] | None = None
    places: Places | None = None
    held_out: HeldOut | None = None
    history: MergeHistory | None = None
    series: GroupSeries | None = None
    coefficients: Coefficients | None = None
    worth: Coefficients | None = None
    notes: Sequence[str] = ()
    again: Sequence[str] = ("TargetAggregator(n_groups={n})", "ctfa fit ... --regions {n}")


class Given(NamedTuple):
    """The data of a fit, with which a report can say more about its model.

    Where only squared errors are needed, sums may stand in for the rows: ``X`` is then a
    ``Sample``, ``Y`` are its ``Targets``, and ``held_out`` is a ``Judging`` or None.

    Parameters
    ----------
    X, Y : as in fit
    tasks : optional
        For tasks with rows of their own, the task of each row.
    confounds : array of shape (n_samples, n_confounds), optional
        As in fit.
    target_weight : array of shape (n_targets,), optional
        As in fit.
    held_out : "auto", int, splitter or None, default="auto"
        Rows to judge on, as in ``ctfa.labelled.fit``.
    times : array of shape (n_samples,) or Zeros, optional
        Dates or numbers of the rows; None takes the index of ``Y`` or ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_gauges
    >>> from ctfa.report import Given, Material, complete
    >>> gauges = make_gauges(random_state=0)
    >>> weight = np.ones(gauges.target.shape[1])
    >>> model = CTFARegressor().fit(gauges.data, gauges.target, target_weight=weight)
    >>> data = Given(gauges.data, gauges.target, target_weight=weight)
    >>> complete(Material(model), data).held_out.how
    '5 blocks of consecutive rows, each held out once'
    """

    X: Any
    Y: Any
    tasks: Any = None
    confounds: FloatArray | None = None
    target_weight: FloatArray | None = None
    held_out: Any = "auto"
    times: Any = None

    @classmethod
    def of(cls, data: Any, *, own_rows: bool) -> Given:
        """Read ``(X, Y)``, or ``(X, y, tasks)`` for tasks with rows of their own.

        Parameters
        ----------
        data : Given or tuple
            A ``Given`` is returned as it is.
        own_rows : bool
            Whether tasks have rows of their own.

        Returns
        -------
        Given
        """
        if isinstance(data, Given):
            return data
        parts = tuple(data) if isinstance(data, tuple | list) else ()
        form = "(X, y, tasks)" if own_rows else "(X, Y)"
        if len(parts) != (3 if own_rows else 2):
            raise ValueError(
                f"data is {type(data).__name__} of {len(parts)} parts: give {form}, the data of "
                "fit."
            )
        return cls(*parts)

    @property
    def options(self) -> dict[str, Any]:
        """What the fit was told beside the data."""
        named = ("tasks", "confounds", "target_weight")
        return {name: getattr(self, name) for name in named if getattr(self, name) is not None}

    @property
    def stands_in(self) -> bool:
        """Whether rows stand in for others."""
        return isinstance(self.X, check.Sample)

    def fit(self, model: Any) -> Any:
        """Fit a model to these data.

        Parameters
        ----------
        model : estimator

        Returns
        -------
        estimator
            The same, fitted.
        """
        if self.stands_in:
            return model.__ctfa_fit__(self.X, self.Y)
        return model.fit(self.X, self.Y, **self.options)

    def read(self, fitted: FittedGroups) -> Any:
        """Read rows and targets as the model learns from them.

        Parameters
        ----------
        fitted : FittedGroups
            A view of the fitted model.

        Returns
        -------
        tuple of (X, Y)
        """
        if self.stands_in:
            return self.X, self.Y
        return fitted.read(self.X, self.Y, None, self.confounds)
