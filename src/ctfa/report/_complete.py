"""What a fitted model can say of itself once it has the data of its fit, or rows in their place.

Merges beyond its limit, series of its groups, coefficients with standard errors, and errors on rows
left out: of the model, of the same for each target by itself, and of a plain rival.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import _reading as check
from ctfa._errors import InputError, Option
from ctfa._reading.sums import Wanted
from ctfa.core import progress
from ctfa.core.history import MergeHistory
from ctfa.core.scans import SCANS
from ctfa.core.tasks.shared import Anomalies
from ctfa.core.types import FloatArray
from ctfa.estimators.held_out import Split, held_out_errors
from ctfa.estimators.intervals import without_intervals
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import CLIMATOLOGY, ZEROS, Zeros, read_zeros
from ctfa.report._coefficients import coefficients_of, rows_of, worth_of
from ctfa.report._material import GROUPS_ALONE, Given, GroupSeries, HeldOut, Material, Parts

#: What the merges beyond the limit are of the work beside the fit, to a bar.
HISTORY = 0.1
#: Shares of the members between which the spread of a group is drawn.
SPREAD = (0.1, 0.9)
#: Numbers of group means over the rows that are worked out at most.
MOST_SERIES = 2_000_000
#: Up to so many targets five blocks are held out, and a ridge regression of each target is a rival;
#: above it the last block alone, and no rival that is fitted target by target.
MANY = 2000
#: Blocks that are held out in turn.
BLOCKS = 5
#: Penalties that the rival chooses from, in units of a standardised feature.
PENALTIES = np.logspace(-2, 4, 13)
#: What the model and those it is compared with are called.
MODEL, ALONE, RIDGE = "ctfa", "single-task", "single-task ridge"
#: How rows were held out.
IN_BLOCKS = "{} blocks of consecutive rows, each held out once"
LAST_BLOCK = "the last fifth of the rows"
#: What the folds that are held out are for.
HELD_OUT = "held out"


def complete(material: Material, data: Any) -> Material:
    """Work out from the data of fit what a material does not hold yet.

    Parameters
    ----------
    material : Material
        With a fitted model.
    data : tuple or Given
        ``(X, Y)``, or ``(X, y, tasks)`` for tasks with rows of their own.

    Returns
    -------
    Material
        With held-out errors (the model is fitted five times more), merges beyond the limit that was
        used, the series of the groups, and coefficients with standard errors or the worth of
        features. What the material held already is kept.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.report import Material, complete
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> known = complete(Material(CTFARegressor().fit(X, Y)), (X, Y))
    >>> known.coefficients.value.shape
    (2, 20)
    """
    fitted = FittedGroups.of(material.model)
    given = Given.of(data, own_rows=fitted.own_rows)
    coefficients = material.coefficients or coefficients_of(fitted, rows_of(fitted, given))
    return replace(
        material,
        history=material.history or _full_history(fitted, given),
        series=material.series or _series(fitted, given),
        coefficients=coefficients,
        worth=None if coefficients is not None else material.worth or worth_of(fitted, given),
        held_out=material.held_out or judged(fitted, given),
    )


def _full_history(fitted: FittedGroups, given: Given) -> MergeHistory | None:
    """Every merge up to an infinite limit; None where the order of merges depends on the limit."""
    model, rule = fitted.model, fitted.aggregator
    is_passed = isinstance(getattr(model, "targets", None), str)
    if not SCANS[rule.scan].nested or is_passed or fitted.partition.n_variables < 2:
        return None
    whole = clone(rule).set_params(max_loss=np.inf, n_groups=None, tolerance=None, min_size=1)
    if fitted.own_inputs or fitted.own_rows:
        # One group for each component of the graph: the models of so few cost nothing.
        simple = {"regressor": None, "targets": whole, "features": "passthrough", "head": "mean"}
        if fitted.own_inputs:
            simple["aggregate"] = model.aggregate_
        whole = (fitted.anew() if fitted.own_inputs else clone(model)).set_params(**simple)
    elif rule.regressor is None:
        whole.set_params(regressor=fitted.judge)
    with progress.part(HISTORY, "merges beyond the limit"), without_intervals():
        history: MergeHistory = given.fit(whole).history_
    return history


def _series(fitted: FittedGroups, given: Given) -> GroupSeries | None:
    """Mean and spread of each group in the units in which targets were merged."""
    partition = fitted.partition
    if given.stands_in or fitted.own_rows or len(given.Y) * partition.n_groups > MOST_SERIES:
        return None
    units, means = FittedGroups.of(fitted.aggregator).in_units(given.Y, given.confounds)
    index = getattr(given.Y, "index", None)
    samples = range(len(units)) if index is None or len(index) != len(units) else index
    units = units * fitted.aggregator.signs_
    bounds = np.empty((len(SPREAD), *means.shape))
    for group, members in enumerate(partition.groups):
        # Sorted, NaN last: a quantile is between two of the first, however many are observed.
        own = np.sort(units[:, members], axis=1)
        last = np.maximum(np.count_nonzero(~np.isnan(own), axis=1) - 1, 0)
        for bound, share in zip(bounds, SPREAD, strict=True):
            below = np.floor(share * last).astype(np.intp)
            ends = np.stack((below, np.minimum(below + 1, last)), axis=1)
            low, high = np.take_along_axis(own, ends, axis=1).T
            bound[:, group] = low + (share * last - below) * (high - low)
    return GroupSeries(list(map(str, samples)), means, *bounds)


class Judging(NamedTuple):
    """Folds on which a result is judged, those its fits want inside them, and how that is said.

    For internal use: a fit of chunks or batches reads all folds in one pass.

    Attributes
    ----------
    folds : Wanted
        The held-out blocks.
    inside : list of Wanted
        The folds that fits want within each training part.
    how : str
        How rows are held out, in words.

    Examples
    --------
    >>> from ctfa.report import Judging
    >>> Judging.of("auto", [], n_targets=12).how
    '5 blocks of consecutive rows, each held out once'
    """

    folds: Wanted
    inside: list[Wanted]
    how: str

    @classmethod
    def of(cls, held_out: Any, wanted: list[Wanted], n_targets: int) -> Judging | None:
        """Hold out blocks of consecutive rows.

        Parameters
        ----------
        held_out : "auto", int, splitter or None
            As in ``ctfa.labelled.fit``.
        wanted : list of Wanted
            The folds that a fit wants.
        n_targets : int
            Number of targets: "auto" holds out the last fifth alone where they are many.

        Returns
        -------
        Judging or None
            None where other folds than blocks are asked for.
        """
        number, is_last, how = _read_held_out(held_out, n_targets)
        if number is None or any(not isinstance(want.cv, int) for want in wanted):
            return None
        folds = Wanted(HELD_OUT, number, is_last_alone=is_last)
        return cls(folds, [replace(want, within=folds) for want in wanted], how)

    @property
    def wanted(self) -> list[Wanted]:
        """All of them."""
        return [self.folds, *self.inside]


def _read_held_out(held_out: Any, n_targets: int) -> tuple[int | None, bool, str]:
    """How many blocks are held out, None for other folds; whether the last alone; in words."""
    if isinstance(held_out, str):
        if held_out != "auto":
            raise InputError(
                Option("held_out", held_out),
                " is not known: use 'auto', a number of blocks, a splitter or None.",
            )
        is_last = n_targets > MANY
        return BLOCKS, is_last, LAST_BLOCK if is_last else IN_BLOCKS.format(BLOCKS)
    if isinstance(held_out, int) and not isinstance(held_out, bool):
        return held_out, False, IN_BLOCKS.format(held_out)
    return None, False, ""


def _fit_of_folds(given: Given, splits: list[Split]) -> Callable[[Any, int], Any]:
    """How to fit a model to the rows that a fold learns from, with the folds inside them.

    These rows stand in for others.
    """
    sample, targets, judging = given.X, given.Y, given.held_out

    @lru_cache(maxsize=1)  # factored once for all methods
    def training(fold: int) -> Any:
        train, _ = splits[fold]
        inner = {
            want.purpose: [
                (np.searchsorted(train, learn), np.searchsorted(train, test))
                for learn, test in sample.folds[want.inside(fold)]
            ]
            for want in judging.inside
        }
        return replace(sample.take(train), folds=inner)

    def fit(model: Any, fold: int) -> Any:
        part = targets._replace(values=targets.values[splits[fold][0]])
        return model.__ctfa_fit__(training(fold), part)

    return fit


def judged(fitted: FittedGroups, given: Given) -> HeldOut | None:
    """Mean squared error of each target by each method, in units of the target's variance.

    Every model is fitted again to the training rows of each fold, with everything it chooses. None
    where nothing is to be held out, or where, with a warning, folds leave a target too few rows.
    Rows that stand in for others have no ridge regression beside the model.
    """
    if fitted.is_aggregator or given.held_out is None or given.held_out is False:
        return None
    if fitted.own_rows:
        return _judged_rows(fitted, given)
    sample, targets = given.read(fitted)
    if given.stands_in:
        splits, how = sample.folds[HELD_OUT], given.held_out.how
        require = partial(_require_rows, fitted, sample, splits)
    else:
        splits, how = choose_splits(given.held_out, sample, targets.values)
        require = partial(fitted.require_observed, sample, targets, splits)
    try:
        require()
    except ValueError as error:
        warnings.warn(f"Nothing was held out: {error}", UserWarning, stacklevel=2)
        return None
    methods = _methods(fitted, ridge=not given.stands_in and targets.values.shape[1] <= MANY)
    zeros = given.times
    if not isinstance(zeros, Zeros):
        zeros = read_zeros(zeros, given.X, given.Y, sample)
    found = held_out_errors(
        methods,
        sample,
        targets.values,
        splits,
        zeros,
        target_weight=targets.weights,
        n_jobs=None if given.stands_in else fitted.model.n_jobs,
        fit=_fit_of_folds(given, splits) if given.stands_in else None,
    )
    errors = {name: found.errors(name) for name in found.squares}
    climatology, persistence, anomalies = (errors.pop(name, None) for name in ZEROS)
    blocks = [zeros.span(test, fold) for fold, (_, test) in enumerate(splits)]
    blocks = blocks if zeros.squares is None else list(zeros.blocks)
    blocks = blocks if len(blocks) == len(found.weight) else []
    return HeldOut(
        errors,
        how,
        targets.weights,
        climatology,
        zeros.climatology,
        persistence,
        anomalies,
        zeros.persistence,
        Parts(blocks, zeros.seasons, found.squares, found.weight, found.inside),
    )


def _require_rows(fitted: FittedGroups, sample: check.Sample, splits: list[Split]) -> None:
    """Refuse folds of sums that stand for too few rows."""
    left = Anomalies.of(sample, np.empty((len(sample.inputs), 0)))
    rank = len(fitted.features) if fitted.own_inputs else left.judged.design.rank
    needed = rank + left.n_spent + 3
    for fold, (train, _) in enumerate(splits):
        n_samples = sample.take(train).n_samples
        if n_samples < needed:
            raise ValueError(
                f"fold {fold} leaves {n_samples} rows to learn from and least squares needs "
                f"{needed}."
            )


def choose_splits(
    held_out: Any, sample: check.Sample, values: FloatArray
) -> tuple[list[Split], str]:
    """Rows to hold out, and how that is said."""
    n_rows, n_targets = values.shape
    number, is_last, how = _read_held_out(held_out, n_targets)
    if isinstance(held_out, str):
        least = BLOCKS if is_last else 2 * BLOCKS
        if n_rows < least:
            raise InputError(
                f"there are {n_rows} rows, too few to hold some of them out and judge the fit by "
                f"them: {least} or more are needed, or none held out (",
                Option("held_out", None),
                ").",
            )
    if is_last:
        start = n_rows - n_rows // BLOCKS
        return [(np.arange(start), np.arange(start, n_rows))], how
    asked = held_out if number is None else number
    splits = check.read_folds(asked, sample, values, option="held_out")
    if isinstance(held_out, check.BlockedKFold):
        beside = f", without {held_out.gap} beside it" if held_out.gap else ""
        return splits, IN_BLOCKS.format(held_out.n_splits) + beside
    return splits, how or f"{len(splits)} folds of {type(held_out).__name__}"


def _methods(fitted: FittedGroups, *, ridge: bool) -> dict[str, Any]:
    """The model and its rivals, not fitted, by name."""
    if fitted.own_rows:
        single = {"targets": "passthrough", "features": "passthrough", "head": "mean"}
        model, alone = clone(fitted.model), clone(fitted.model).set_params(**single)
    else:
        model, alone = fitted.anew(), fitted.alone()
    found = {MODEL: model, ALONE: alone}
    if fitted.shares == "mean" and fitted.model.head == "levels" and not fitted.is_single_task:
        found[GROUPS_ALONE] = clone(model).set_params(head="mean")
    if ridge:
        chosen = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        found[RIDGE] = clone(alone).set_params(regressor=chosen)
    return found


def _judged_rows(fitted: FittedGroups, given: Given) -> HeldOut:
    """The same for tasks with rows of their own: some rows of every task are held out."""
    X, y = np.asarray(given.X, dtype=np.float64), np.asarray(given.Y, dtype=np.float64)
    ids = np.asarray(given.tasks)
    labels, position = np.unique(ids, return_inverse=True)
    position = np.asarray(position).reshape(-1)
    n_folds, *_ = _read_held_out(given.held_out, labels.size)
    splitter, how = given.held_out, f"folds of {type(given.held_out).__name__}"
    if n_folds is not None:
        enough = int(np.bincount(position).min()) >= n_folds
        kind = StratifiedKFold if enough else KFold
        splitter = kind(n_folds, shuffle=True, random_state=0)
        how = f"{n_folds} folds of the rows of every task, dealt at random"
    methods = _methods(fitted, ridge=labels.size <= MANY)
    squares = {name: np.full(y.size, np.nan) for name in (*methods, CLIMATOLOGY)}
    for train, test in splitter.split(X, position):
        seen = test[np.isin(position[test], position[train])]
        count = np.bincount(position[train], minlength=labels.size)
        mean = np.bincount(position[train], y[train], labels.size) / np.maximum(count, 1)
        squares[CLIMATOLOGY][seen] = (y[seen] - mean[position[seen]]) ** 2
        for name, method in methods.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of short folds: what was said of fit is enough
                own = clone(method).fit(X[train], y[train], tasks=ids[train])
            squares[name][seen] = (y[seen] - own.predict(X[seen], tasks=ids[seen])) ** 2
    errors = {}
    with np.errstate(invalid="ignore", divide="ignore"):
        n_rows = np.bincount(position)
        centred = y - (np.bincount(position, y) / n_rows)[position]
        variance = np.bincount(position, centred**2) / n_rows
        for name, own in squares.items():  # mean over the rows of each task that were judged
            known = np.isfinite(own)
            total = np.bincount(position, np.where(known, own, 0.0))
            errors[name] = total / np.bincount(position, known) / variance
    zero = errors.pop(CLIMATOLOGY)
    reference = "the mean of the training rows of each task"
    no_order = "rows of each task's own have no order in time"
    return HeldOut(errors, how, None, zero, reference, before=no_order)
