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
    """

    positions: FloatArray
    outlines: Sequence[Sequence[FloatArray]] | None = None
    cell: tuple[float, float] | None = None
    geographic: bool = False


@dataclass(frozen=True, eq=False)
class Parts:
    """Squared errors on rows left out by held-out block and season, in units of the variance."""

    blocks: Sequence[str]  # what they are called; empty where they are not told apart
    seasons: Sequence[str]
    squares: Mapping[str, FloatArray]  # by method: (n_blocks, n_seasons, n_targets), summed
    weight: FloatArray  # of the rows summed
    inside: FloatArray | None = None  # of those that intervals of 90 % hold, where there are any


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
        """Mean error of a method, by weight, over the targets that every method was judged on."""
        judged = self.judged
        if not judged.any():
            return float("nan")
        weights = None if self.weights is None else self.weights[judged]
        return float(np.average(self.every[method][judged], weights=weights))

    def mean_skill(self, method: str, zero: str = CLIMATOLOGY) -> float | None:
        """Share of the error of climatology that a method saves; None where that is not known."""
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
        """Errors by method in parts: any of "block", "season", and "region" or "task".

        In this order, one axis each; ``labels`` are the groups of the targets. Means over targets
        are those of ``mean``. NaN where no row was judged.
        """
        if self.parts is None:
            whole = {name: errors[None, None] for name, errors in self.every.items()}
            return self._in_parts(whole, np.ones((1, 1, labels.size)), by, labels)
        each = {name: self.parts.squares[name] for name in self.every}
        return self._in_parts(each, self.parts.weight, by, labels)

    def covered(self, by: Sequence[str], labels: IntArray) -> FloatArray | None:
        """Share of held-out targets in their 90 % intervals, in the same parts; None if unknown."""
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
    """The mean target of each group over the samples, and the spread of its members."""

    samples: Sequence[str]
    mean: FloatArray  # (n_samples, n_groups); NaN where no member is observed
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of each group's model, where it is linear."""

    names: Sequence[str]  # of the raw features
    value: FloatArray  # (n_groups, n_features); NaN where a group has no such feature
    standard_error: FloatArray | None = None
    units: str = ""
    no_error: str = ""  # why standard errors are missing, where any are


@dataclass(frozen=True, eq=False)
class Material:
    """Everything a report tells; only the model is needed."""

    model: Any
    title: str = ""
    source: str = ""  # where the data came from
    target: str = "target"  # what is predicted: "vegetation health"
    target_units: str = ""
    feature_units: Mapping[str, str] = field(default_factory=dict)
    task: str = "target"  # what one target is: "basin", "cell"
    sample: str = "row"  # what one row is: "time"
    names: Sequence[str] | None = None  # of the targets, where the model's own are not for people
    places: Places | None = None
    held_out: HeldOut | None = None
    history: MergeHistory | None = None  # the merges up to an infinite limit
    series: GroupSeries | None = None
    coefficients: Coefficients | None = None
    worth: Coefficients | None = None  # of features to groups whose models are not linear
    notes: Sequence[str] = ()  # what was done to the data: masked cells, gaps, anomalies
    #: What gives as many groups as the slider shows, where {n} is their number: in Python, and on
    #: the command line.
    again: Sequence[str] = ("TargetAggregator(n_groups={n})", "ctfa fit ... --regions {n}")


class Given(NamedTuple):
    """Data of a fit beside which a model can say more of itself.

    Where squared errors are all that is asked rows may stand in for them: ``X`` is then a
    ``Sample``, ``Y`` are its ``Targets``, and ``held_out`` is a ``Judging`` or None.
    """

    X: Any
    Y: Any
    tasks: Any = None  # of tasks with rows of their own, whose row each is
    confounds: FloatArray | None = None
    target_weight: FloatArray | None = None
    held_out: Any = "auto"  # rows to judge on, as in ``ctfa.labelled.fit``
    times: Any = None  # dates or numbers of the rows, or Zeros; None: those of Y or X for an index

    @classmethod
    def of(cls, data: Any, *, own_rows: bool) -> Given:
        """Read ``(X, Y)``, or ``(X, y, tasks)`` for tasks with rows of their own."""
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
        """Fit a model to all of them."""
        if self.stands_in:
            return model.__ctfa_fit__(self.X, self.Y)
        return model.fit(self.X, self.Y, **self.options)

    def read(self, fitted: FittedGroups) -> Any:
        """Rows and targets, as a model like this learns from them."""
        if self.stands_in:
            return self.X, self.Y
        return fitted.read(self.X, self.Y, None, self.confounds)
