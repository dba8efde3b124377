"""The past of features, and of the target itself, as features; windows of time in Phase II."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ctfa import _validation as check
from ctfa.core.lags import Lags, Window, read_lags, read_step
from ctfa.core.libraries import need
from ctfa.core.types import FloatArray
from ctfa.estimators.features import FeatureAggregator, usual_limit
from ctfa.labelled._gather import Gathered, Plan, Slot
from ctfa.labelled._steps import TimeStep
from ctfa.labelled._words import hint, listed, several
from ctfa.report._complete import BLOCKS, MANY

#: Ridge penalties where features have unit variance, to look at what a regression leaves.
PENALTIES = np.logspace(-1, 5, 13)


def with_past(gathered: Gathered, lags: Any, own_past: Any) -> Gathered:
    """Give every feature its lags, and the target those of its own, as features.

    Rows whose past is not in the data are left out; a past value that is missing is a gap.
    """
    plan, (target, features) = gathered.plan, gathered.before
    back = _by_name(lags, [slot.name for slot in plan.slots])
    sample, option = plan.sample, "own_past" if lags is None else "lags"
    step = TimeStep.of(target[sample], option)
    slots: list[Slot] = []
    for slot in plan.slots:
        slots += _lagged(slot, back[slot.name], step) if slot.name in back else [slot]
    if own_past is not None:
        itself = Slot(plan.target, plan.target_attrs, False)
        slots += _lagged(itself, read_lags(own_past, "own_past", 1), step)
    held = {slot.name: array for slot, array in zip(plan.slots, features, strict=True)}
    held[plan.target] = target
    at = np.array([step.places(target[sample], held[s.read][sample], s.lag) for s in slots])
    rows = np.flatnonzero((at >= 0).all(axis=0))
    longest = max(slot.lag for slot in slots)
    if not rows.size:
        raise ValueError(
            f"no row has its whole past of {several(longest, 'step')} in the "
            f"data ({target.sizes[sample]:,} rows): take shorter lags."
        )
    notes = list(gathered.notes)
    n_lost = target.sizes[sample] - rows.size
    if n_lost:
        count, unit = read_step(step.words)
        far = several(count * longest, unit)
        notes.append(
            f"{several(n_lost, 'row')} whose past of up to {far} is not in the data, left out"
        )
    kept = target.isel({sample: rows})
    found = [_taken(held[s.read], at[k, rows], s, kept, sample) for k, s in enumerate(slots)]
    past = plan.replaced(slots=tuple(slots), step=(step.words, step.length))
    return gathered._replace(target=kept, features=found, plan=past, notes=notes, whole=None)


def past_of(given: Mapping[str, Any], plan: Plan) -> list[Any]:
    """The features of a fitted model from series in other data, by name; NaN without their past."""
    assert plan.step is not None
    step, sample = TimeStep(*plan.step), plan.sample
    first = next(slot for slot in plan.slots if slot.read != plan.target)
    rows = given[first.read]
    at = np.array([step.places(rows[sample], given[s.read][sample], s.lag) for s in plan.slots])
    lost = (at < 0).any(axis=0)
    if lost.any():
        far = plan.slots[int(np.argmax([s.lag for s in plan.slots]))]
        back = far.name.removeprefix(f"{far.read}, ")
        whose = f"the past of {several(int(lost.sum()), 'row')} of {lost.size:,} is"
        said = (
            f"{whose} not in the data, which must reach back to {far.read} {back} every row that "
            f"is to be predicted, without gaps in {sample}"
        )
        if lost.all():
            raise ValueError(f"nothing can be predicted: {said}.")
        warnings.warn(f"{said}: their predictions are NaN.", UserWarning, stacklevel=4)
    return [_taken(given[s.read], at[k], s, rows, sample) for k, s in enumerate(plan.slots)]


def windows_in(
    features: Any, plan: Plan, seen: Mapping[str, FloatArray], columns: FloatArray | None
) -> Any:
    """Phase II for lagged features: asked for by them, in a chain, with a limit for series."""
    chain = Lags([slot.name for slot in plan.slots]).chain()
    if isinstance(features, FeatureAggregator):
        given = clone(features)
        return given if given.connectivity is not None else given.set_params(connectivity=chain)
    if not (features is None or features is True):
        return features or "passthrough"
    limit = limit_for_series(plan, seen, columns)
    return FeatureAggregator(connectivity=chain, min_correlation=-1.0, max_loss=limit)


def apart_from_past(splits: Any, gap: int, n_tasks: int) -> Any:
    """Blocks of rows with as many left out beside them as the past reaches back to.

    A row after a block would bring the block's targets into the training rows as inputs.
    """
    if splits == "auto" and n_tasks <= MANY:
        splits = BLOCKS
    is_count = isinstance(splits, int) and not isinstance(splits, bool) and splits > 1
    return check.BlockedKFold(splits, gap=gap) if is_count else splits


def limit_for_series(
    plan: Plan, seen: Mapping[str, FloatArray], columns: FloatArray | None = None
) -> float:
    """Up to which F neighbouring lags are joined, for rows that depend on each other.

    The greater of the Bayesian criterion's ``log n`` and ``2 log D``, which the largest of D
    statistics comes to by chance, times what memory inflates F by: ``1 + 2 sum r_e(k) r_x(k)`` of
    the autocorrelations of what a ridge regression leaves and of its features.
    """
    target = seen[plan.target]
    memories, sizes = [], []
    for task in range(target.shape[1]):
        X = np.column_stack(
            [seen[s.name][:, min(task, seen[s.name].shape[1] - 1)] for s in plan.slots]
        )
        whole = np.isfinite(X).all(axis=1) & np.isfinite(target[:, task])
        if whole.sum() > 10:
            beside = None if columns is None else columns[: len(whole)][whole]
            memories.append(_memory(X[whole], target[whole, task], beside))
            sizes.append(int(whole.sum()))
    if not sizes:
        return usual_limit(len(target))
    memory = max(float(np.mean(memories)), 1.0)
    usual = usual_limit(int(np.median(sizes)))
    return memory * max(usual, 2.0 * float(np.log(len(plan.slots))))


def _memory(X: FloatArray, y: FloatArray, columns: FloatArray | None) -> float:
    """What the memory of rows multiplies the variance of a coefficient by."""
    ones = np.ones((len(y), 1))
    basis = np.linalg.qr(ones if columns is None else np.column_stack([ones, columns]))[0]
    X, y = X - basis @ (basis.T @ X), y - basis @ (basis.T @ y)
    spread = X.std(axis=0)
    X = X[:, spread > 0.0] / spread[spread > 0.0]
    left, values, _ = np.linalg.svd(X, full_matrices=False)
    turned = left.T @ y
    scores = []
    for penalty in PENALTIES:  # generalised cross-validation
        kept = values**2 / (values**2 + penalty)
        gone = y - left @ (kept * turned)
        scores.append(gone @ gone / (len(y) - kept.sum()) ** 2)
    kept = values**2 / (values**2 + PENALTIES[int(np.argmin(scores))])
    n_steps = int(np.sqrt(len(y)))
    fade = 1.0 - np.arange(1, n_steps + 1) / (n_steps + 1.0)
    rest = _remembered((y - left @ (kept * turned))[:, None], n_steps)
    return float(1.0 + 2.0 * fade @ (rest * _remembered(X, n_steps)))


def _remembered(series: FloatArray, n_steps: int) -> FloatArray:
    """Autocorrelations of columns at 1, 2, ... steps, a mean over those that vary."""
    total = (series**2).sum(axis=0)
    known = np.flatnonzero(total > 0.0)
    own, total = series[:, known], total[known]
    if not known.size:
        return np.zeros(n_steps)
    each = [((own[k:] * own[:-k]).sum(axis=0) / total).mean() for k in range(1, n_steps + 1)]
    return np.array(each)


def _by_name(lags: Any, names: Sequence[str]) -> dict[str, list[int]]:
    """Lags by feature; the same for all where no feature is named."""
    if lags is None:
        return {}
    if not isinstance(lags, Mapping):
        return dict.fromkeys(names, read_lags(lags))
    for name in lags:
        if name not in names:
            raise ValueError(
                f"lags names {name!r}{hint(str(name), names)}: the features are {listed(names)}."
            )
    return {str(name): read_lags(own) for name, own in lags.items()}


def _lagged(slot: Slot, lags: Sequence[int], step: TimeStep) -> list[Slot]:
    """One slot a lag, called by how far back it is."""
    count, unit = read_step(step.words)
    named = [(str(Window(slot.name, count * lag, count * lag, unit)), lag) for lag in lags]
    return [Slot(name, slot.attrs, slot.shared, slot.name, lag) for name, lag in named]


def _taken(array: Any, at: Any, slot: Slot, rows: Any, sample: str) -> Any:
    """Values of some rows under the labels of others; NaN where there is no row."""
    bare = array.drop_vars([name for name, c in array.coords.items() if sample in c.dims])
    found = bare.isel({sample: np.maximum(at, 0)})
    if (at < 0).any():
        found = found.where(need("xarray").DataArray(at >= 0, dims=sample))
    if sample in rows.coords:
        found = found.assign_coords({sample: rows[sample]})
    return found.rename(slot.name)
