"""Everything a page tells, as plain numbers, strings and arrays: no browser needed to test it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from importlib import metadata
from typing import Any

import numpy as np

from ctfa.core.history import MergeHistory
from ctfa.core.lags import Lags
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.types import IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import CLIMATOLOGY
from ctfa.report._coefficients import coefficients_of
from ctfa.report._complete import complete
from ctfa.report._material import Coefficients, GroupSeries, HeldOut, Material
from ctfa.report._places import drawing_of, read_places, tiles_of
from ctfa.report._words import BIBTEX, headline, methods, plural, verdict

#: Names of members predicted to lose that are listed for a merge; the others are counted.
LOSERS_NAMED = 8
#: Numbers about single groups (series, coefficients) that a page holds; the largest groups first.
MOST_DETAIL = 700_000


def collect(
    model: Any, *, data: Any = None, places: Any = None, title: str | None = None, **material: Any
) -> dict[str, Any]:
    """Everything a report tells of a model, computed and ready to be rendered.

    Parameters
    ----------
    model, data, places, title, **material
        As in ``write``.

    Returns
    -------
    dict
        Strings, numbers, lists and NumPy arrays, nested.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.report import collect
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> page = collect(CTFARegressor().fit(X, Y))
    >>> page["headline"]
    '6 targets are predicted by 2 models.'
    """
    known = model
    if not isinstance(model, Material):
        is_told = hasattr(model, "report_material")
        known = model.report_material() if is_told else Material(model)
    allowed = {field.name for field in fields(Material)} - {"model"}
    unknown = sorted(set(material) - allowed)
    if unknown:
        raise TypeError(
            f"{unknown[0]!r} is not a field of a report: give any of {', '.join(sorted(allowed))}."
        )
    fitted = FittedGroups.of(known.model)
    given = {"places": places, "title": title}
    known = replace(known, **material, **{k: v for k, v in given.items() if v is not None})
    if known.places is not None:
        known = replace(known, places=read_places(known.places, fitted.partition.n_variables))
    _require_fitting(known, fitted)
    return _page(fitted, known if data is None else complete(known, data))


def _require_fitting(material: Material, fitted: FittedGroups) -> None:
    """Refuse material of another model than this."""
    n_targets, n_groups = fitted.partition.n_variables, fitted.partition.n_groups
    sizes: dict[str, tuple[int, int, str]] = {}
    if material.names is not None:
        sizes["names"] = len(material.names), n_targets, "targets"
    for name, errors in (material.held_out.errors if material.held_out else {}).items():
        sizes[f"held_out.errors[{name!r}]"] = np.size(errors), n_targets, "targets"
    if material.history is not None:
        sizes["history"] = material.history.n_variables, n_targets, "targets"
    if material.series is not None:
        sizes["series.mean"] = np.shape(material.series.mean)[1], n_groups, "groups"
    if material.coefficients is not None:
        sizes["coefficients.value"] = len(material.coefficients.value), n_groups, "groups"
    for what, (size, expected, of) in sizes.items():
        if size != expected:
            raise ValueError(
                f"{what} has {size} entries and the model has {expected} {of}: give one for each."
            )


def _page(fitted: FittedGroups, material: Material) -> dict[str, Any]:
    partition, evidence, held_out = fitted.partition, fitted.evidence, material.held_out
    n_targets, version = partition.n_variables, metadata.version("ctfa")
    history = _replayed(fitted, material.history)
    found = verdict(held_out, partition.labels)
    if found is not None:
        found["chose_again"] = fitted.is_single_task
    coefficients = material.coefficients or coefficients_of(fitted)
    what = "coefficient"
    if coefficients is None and material.worth is not None:
        coefficients, what = material.worth, "importance"
    n_means = None if fitted.means is None else float(np.median(fitted.means.max(axis=1) + 1))
    places = material.places
    drawing = tiles_of(history.leaf_order()) if places is None else drawing_of(places)
    kept = _detailed(partition, material.series, coefficients)
    return {
        "title": material.title or f"{n_targets:,} {plural(material.task, n_targets)} in groups",
        "source": material.source,
        "headline": headline(fitted, material, found),
        "version": version,
        "model": type(fitted.model).__name__,
        "task": material.task,
        "tasks": plural(material.task),
        "target": material.target,
        "target_units": material.target_units,
        "sample": material.sample,
        "names": list(map(str, fitted.names if material.names is None else material.names)),
        "n_targets": n_targets,
        "n_groups": partition.n_groups,
        "n_features": len(fitted.features) or None,
        "n_means": n_means,
        "shares": fitted.shares,
        "variance": fitted.variance(material.task),
        "standardised": evidence.terms.standardised,
        "gain_name": "gain on folds" if evidence.held_out else "predicted gain",
        "labels": partition.labels,
        "rule": _rule(fitted, history, material.again),
        "history": {"block": history.block, "other": history.other, "loss": history.loss},
        "evidence": _evidence(fitted),
        "curve": _curve(fitted),
        "held_out": found,
        "targets": _targets(fitted, held_out),
        "refusals": _refusals(fitted),
        "details": kept,
        "features": _features(fitted, material, coefficients, kept, what),
        "series": _series(material.series, kept),
        "drawing": {**drawing._asdict(), "box": list(drawing.box)},
        "methods": methods(fitted, material, found, version),
        "bibtex": BIBTEX,
    }


def _replayed(fitted: FittedGroups, full: MergeHistory | None) -> MergeHistory:
    """The history to replay: up to infinity where it comes by the groups of the model."""
    if full is None:
        return fitted.history
    stop = len(fitted.history)
    same = (
        np.array_equal(full.block[:stop], fitted.history.block)
        and np.array_equal(full.other[:stop], fitted.history.other)
        and full.joined == fitted.history.joined
        and full.after(stop) == fitted.partition
    )
    return full if same else fitted.history


def _rule(fitted: FittedGroups, history: MergeHistory, again: Sequence[str]) -> dict[str, Any]:
    """The terms of merging, as far as the slider needs them."""
    terms = fitted.evidence.terms
    low, high = fitted.aggregator.loss_interval_
    return {
        "criterion": terms.facts.name or "own",
        "limit_words": terms.facts.limit_words,
        "usual_loss": terms.facts.usual_loss,
        "limit": float(terms.max_loss),
        "interval": [float(low), float(high)],
        "chosen": fitted.aggregator.cv_curve_ is not None,
        "nested": SCANS[terms.scan].nested,
        "asks_once": terms.asks_once,
        "complete": len(history) > len(fitted.history) or fitted.partition.n_groups == 1,
        "n_own": len(fitted.history),
        "n_joined": history.joined,
        "counted": terms.n_groups is not None,
        # Other paths are not those that a number of groups is cut from.
        "again": [*again] if SCANS[terms.scan].nested and fitted.aggregator.min_size == 1 else [],
    }


def _evidence(fitted: FittedGroups) -> dict[str, Any] | None:
    """What each merge of the model saved and paid."""
    merges = fitted.evidence.merges
    if not merges:
        return None
    gain, gain_error = np.array([merge.total for merge in merges], dtype=np.float64).T
    told = [(merge.f_statistic, merge.f_star, merge.score, merge.worst) for merge in merges]
    f, f_star, score, worst = np.array(told, dtype=np.float64).T
    f_star = np.where(np.isnan(f), np.nan, f_star)
    apart = f_star - f
    # As in MergeRow: the gain is so many times F_star - F.
    unit = np.divide(gain, apart, out=np.full(gain.shape, np.nan), where=apart != 0.0)
    named = [np.sort(merge.losers)[:LOSERS_NAMED] for merge in merges]
    return {
        "gain": gain,
        "gain_error": gain_error,
        "score": score if np.isfinite(score).any() else None,
        "f": f,
        "f_star": f_star,
        "saved": (f_star - 1.0) * unit,
        "paid": (f - 1.0) * unit,
        "worst": worst,
        "n_losers": np.array([len(merge.losers) for merge in merges], dtype=np.intp),
        "losers": np.concatenate([*named, np.empty(0, dtype=np.intp)]).astype(np.intp),
        "losers_end": np.cumsum([0, *map(len, named)]).astype(np.intp),
        "together": fitted.together,
    }


def _curve(fitted: FittedGroups) -> dict[str, Any] | None:
    curve = fitted.aggregator.cv_curve_
    if curve is None:
        return None
    return {
        "limit": np.asarray(curve.max_loss),
        "error": curve.error,
        "standard_error": curve.standard_error,
        "n_groups": np.asarray(curve.n_groups),
        "chosen": int(curve.chosen),
    }


def _targets(fitted: FittedGroups, held_out: HeldOut | None) -> dict[str, Any]:
    """One entry per target."""
    gain = np.asarray(fitted.gain.value, dtype=np.float64)
    error = np.asarray(fitted.gain.standard_error, dtype=np.float64)
    known = bool(np.isfinite(gain).any())
    found: dict[str, Any] = {
        "gain": gain if known else None,
        "gain_error": error if known and np.isfinite(error).any() else None,
        "trust": fitted.trust,
        "stability": fitted.stability,
        "signs": fitted.evidence.signs.astype(np.intp),
        "held_out_gain": None,
        "errors": {},
        "zeros": {},
        "skills": {},
    }
    if held_out is None:
        return found
    if len(held_out.errors) > 1:  # zero where it is nothing to speak of
        moved = held_out.helped | held_out.hurt | np.isnan(held_out.gain)
        found["held_out_gain"] = np.where(moved, held_out.gain, 0.0)
    found["errors"] = {k: np.asarray(v, dtype=np.float64) for k, v in held_out.errors.items()}
    found["zeros"] = held_out.zeros
    skills = dict(zip(held_out.zeros, held_out.skills.values(), strict=True))
    named = {CLIMATOLOGY: "skill", held_out.hardest: "skill over persistence"}
    found["skills"] = {named[zero]: skills[zero] for zero in held_out.to_beat}
    return found


def _refusals(fitted: FittedGroups) -> dict[str, Any]:
    """Whom each group refused at the smallest loss, and why: reasons by number, in words once."""
    each = [fitted.refusal(group) for group in range(fitted.partition.n_groups)]
    reasons = list(dict.fromkeys(refusal.reason for refusal in each))
    candidate = [fitted.candidate(g) if refusal.candidate else -1 for g, refusal in enumerate(each)]
    return {
        "candidate": np.array(candidate, dtype=np.intp),
        "loss": np.array([refusal.loss for refusal in each], dtype=np.float64),
        "reason": np.array([reasons.index(refusal.reason) for refusal in each], dtype=np.intp),
        "by_guard": np.array([refusal.by_guard for refusal in each], dtype=bool),
        "reasons": reasons,
    }


def _detailed(
    partition: Partition, series: GroupSeries | None, coefficients: Coefficients | None
) -> IntArray:
    """Groups whose series and coefficients go into the page: all, or the largest."""
    each = 3 * len(series.samples) if series is not None else 0
    each += 3 * len(coefficients.names) if coefficients is not None else 0
    most = partition.n_groups if each == 0 else max(1, MOST_DETAIL // each)
    return np.sort(np.argsort(-partition.sizes, kind="stable")[:most]).astype(np.intp)


def _features(
    fitted: FittedGroups,
    material: Material,
    coefficients: Coefficients | None,
    kept: IntArray,
    what: str,
) -> dict[str, Any] | None:
    """Names, the mean that each feature is in, and coefficients or worth, of the groups kept."""
    if fitted.means is None:
        return None
    names: Sequence[str] = fitted.features
    value, error = None, None
    if coefficients is not None and len(coefficients.names) == len(names):
        names, value = coefficients.names, np.asarray(coefficients.value, dtype=np.float64)[kept]
        if coefficients.standard_error is not None:
            error = np.asarray(coefficients.standard_error, dtype=np.float64)[kept]
    names = list(map(str, names))
    return {
        "what": what,
        "names": names,
        "units": [str(material.feature_units.get(name, "")) for name in names],
        "lags": _lags(names),
        "means": fitted.means[kept],
        "value": value,
        "standard_error": error,
        "coefficient_units": "" if coefficients is None else coefficients.units,
        "no_error": "" if coefficients is None else coefficients.no_error,
    }


def _lags(names: list[str]) -> dict[str, Any] | None:
    """Which features are of the past: the series, how far back, which of its lags; None of none."""
    lags = Lags(names)
    if not lags:
        return None
    series = list(dict.fromkeys(lag.series for lag in lags.of if lag is not None))
    return {
        "series": series,
        "of": np.array([-1 if lag is None else series.index(lag.series) for lag in lags.of]),
        "back": np.array([-1 if lag is None else lag.first for lag in lags.of]),
        "rank": np.array([lags.rank(number) for number in range(len(names))]),
        "unit": next(lag.unit for lag in lags.of if lag is not None),
    }


def _series(series: GroupSeries | None, kept: IntArray) -> dict[str, Any] | None:
    if series is None:
        return None
    each = {"mean": series.mean, "low": series.low, "high": series.high}
    shown = {name: np.asarray(v, dtype=np.float64)[:, kept].T for name, v in each.items()}
    return {"samples": list(map(str, series.samples)), **shown}
