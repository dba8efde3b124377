"""What a fitted model can say of itself once rows stand in for the data of its fit.

The same as from the rows themselves, where squared errors are all that is asked; series and the
ridge regressions that a model is compared with are not, and are left out.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._collections import Collection, Wanted
from ctfa.core.baseline import Baseline
from ctfa.core.history import MergeHistory
from ctfa.core.tasks.shared import Anomalies
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.held_out import Climatology
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.view import FittedGroups
from ctfa.report._coefficients import coefficients_of, rows_of_read
from ctfa.report._held_out import ALONE, BLOCKS, MANY, MODEL, reference_of
from ctfa.report._material import HeldOut, Material

#: What the folds that are held out are for.
HELD_OUT = "held out"


class Judging(NamedTuple):
    """Folds on which a result is judged, those its fits want inside them, and how that is said."""

    folds: Wanted
    inside: list[Wanted]
    how: str

    @classmethod
    def of(cls, held_out: Any, wanted: list[Wanted], n_targets: int) -> Judging | None:
        """Blocks of consecutive rows; None where others are asked for."""
        is_auto = isinstance(held_out, str)
        if is_auto and held_out != "auto":
            raise ValueError(
                f"held_out={held_out!r} is not known: use 'auto', a number of blocks, or None."
            )
        is_number = isinstance(held_out, int) and not isinstance(held_out, bool)
        if not (is_auto or is_number) or any(not isinstance(want.cv, int) for want in wanted):
            return None
        is_last = is_auto and n_targets > MANY
        number = BLOCKS if is_auto else int(held_out)
        folds = Wanted(HELD_OUT, number, is_last_alone=is_last)
        how = f"{number} blocks of consecutive rows, each held out once"
        if is_last:
            how = "the last fifth of the rows"
        return cls(folds, [replace(want, within=folds) for want in wanted], how)

    @property
    def wanted(self) -> list[Wanted]:
        """All of them."""
        return [self.folds, *self.inside]


def fit_stand_ins(
    model: Any,
    sample: check.Sample,
    targets: check.Targets,
    names: Any = None,
    data: Collection | None = None,
) -> Any:
    """Fit a regressor to rows that stand in for others, with their folds.

    ``names`` are of the inputs; ``data`` are asked for rows where a regressor learns from them.
    """
    check.tell_input_names(model, sample.inputs.shape[1], names)
    if isinstance(model, MultiInputCTFARegressor):
        model._check_options()
        return model._fit_read(*model._received(sample, targets, None), None, data)
    model._check_options(weighed=False)
    model._sums = None
    return model._fit_read(*model._received(sample, targets), *model._phases(), None, data)


def complete_from_sums(
    material: Material, sample: check.Sample, targets: check.Targets, judging: Judging | None
) -> Material:
    """Work out what rows that stand in for the data tell, and nobody has told yet."""
    fitted = FittedGroups(material.model)
    rows = rows_of_read(fitted, sample, targets)
    judged = None if judging is None else _judged(fitted.model, sample, targets, judging)
    return replace(
        material,
        history=material.history or _full_history(fitted, sample, targets),
        coefficients=material.coefficients or coefficients_of(fitted, rows),
        held_out=material.held_out or judged,
    )


def _full_history(
    fitted: FittedGroups, sample: check.Sample, targets: check.Targets
) -> MergeHistory | None:
    """Every merge up to an infinite limit; None where the order of merges depends on the limit."""
    rule = fitted.aggregator
    is_passed = isinstance(fitted.model.targets, str)
    if rule.scan != "best-first" or is_passed or fitted.partition.n_variables < 2:
        return None
    every = clone(rule).set_params(max_loss=np.inf)
    simple = {"regressor": None, "targets": every, "features": "passthrough", "head": "mean"}
    whole: Any = CTFARegressor(**simple)
    if isinstance(fitted.model, MultiInputCTFARegressor):
        whole = fitted.model._anew().set_params(**simple, aggregate=fitted.model.aggregate_)
    fit_stand_ins(whole, sample, targets)
    history: MergeHistory = whole.history_
    return history


def _judged(
    model: Any, sample: check.Sample, targets: check.Targets, judging: Judging
) -> HeldOut | None:
    """Mean squared error of each target by each method, in units of the target's variance."""
    assert sample.folds is not None
    values = targets.values
    left = Anomalies.of(sample, values[:, :0])
    own_inputs = isinstance(model, MultiInputCTFARegressor)
    rank = model.layout_.shape[1] if own_inputs else left.judged.design.rank
    needed = rank + left.n_spent + 3
    splits = sample.folds[HELD_OUT]
    methods = {MODEL: model._anew(), ALONE: model._single_task()}
    total = np.zeros((len(methods) + 1, values.shape[1]))
    count = 0.0
    for fold, (train, test) in enumerate(splits):
        own = _with_folds(sample, train, fold, judging)
        if own.n_samples < needed:
            warnings.warn(
                f"Nothing was held out: fold {fold} leaves {own.n_samples} rows to learn from and "
                f"least squares needs {needed}.",
                UserWarning,
                stacklevel=2,
            )
            return None
        weights = np.ones(test.size) if sample.weights is None else sample.weights[test]
        count += float(weights.sum())
        part = targets._replace(values=values[train])
        known = {} if sample.baseline is None else {"baseline": sample.baseline[test]}
        zero = Climatology().fit(
            own.inputs, part.values, own.weights, n_samples=own.n_samples, baseline=own.baseline
        )
        fits = [fit_stand_ins(clone(method), own, part) for method in methods.values()]
        for number, fit in enumerate([*fits, zero]):
            predicted = np.asarray(fit.predict(sample.inputs[test], **known))
            total[number] += weights @ (values[test] - predicted.reshape(test.size, -1)) ** 2
    *errors, nothing = total / count / _variance(sample, values)
    named = dict(zip(methods, errors, strict=True))
    reference = reference_of(sample.baseline)
    return HeldOut(named, judging.how, targets.weights, nothing, reference)


def _with_folds(sample: check.Sample, train: IntArray, fold: int, judging: Judging) -> check.Sample:
    """Rows that a fold learns from, with the folds inside them."""
    assert sample.folds is not None
    inner = {
        want.purpose: [
            (np.searchsorted(train, learn), np.searchsorted(train, test))
            for learn, test in sample.folds[want.inside(fold)]
        ]
        for want in judging.inside
    }
    return replace(sample.take(train), folds=inner)


def _variance(sample: check.Sample, values: FloatArray) -> FloatArray:
    """Variance of each target, of what the baseline leaves of it."""
    left = values
    if sample.baseline is not None:
        rows = values.T.copy()
        Baseline.of(sample.baseline, sample.weights).take_off(rows)
        left = rows.T
    centred = left - np.average(left, axis=0, weights=sample.weights)
    return np.asarray(np.average(centred**2, axis=0, weights=sample.weights))
