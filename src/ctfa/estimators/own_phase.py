"""Phase I of a regressor whose targets have inputs of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._collections import (
    OF_SUMS,
    Collection,
    Wanted,
    is_collection,
    learns_from_sums,
)
from ctfa._streaming import StreamingTargets
from ctfa._threads import one_thread
from ctfa.core.series import NO_COLUMN, Series, Units
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.feature_aggregator import FeatureAggregator
from ctfa.estimators.merging import MergeProblem, settle, settle_chosen
from ctfa.estimators.own_choice import choose_on_folds, fewest_rows, read_rule, suited_to
from ctfa.estimators.own_rule import OwnRule
from ctfa.estimators.target_aggregator import TargetAggregator


class Found(NamedTuple):
    """What Phase I hands on."""

    series: Series  # in the units in which targets were merged
    temper: float


class OwnPhaseMixin(StreamingTargets):
    """How such a regressor reads its rows, chooses what is to be chosen, and merges."""

    _input_gaps = True
    targets: Any
    features: Any
    aggregate: str
    head: str
    n_jobs: int | None
    aggregate_: str
    aggregate_errors_: dict[str, float]
    targets_: TargetAggregator
    _template: Any
    _units: Units
    _read: Callable[..., tuple[check.Sample, check.Targets]]
    _received: Callable[..., tuple[check.Sample, check.Targets]]
    _check_options: Callable[[], None]
    _read_layout: Callable[[int, int], IntArray]
    _fit_read: Callable[..., Any]
    _series: Callable[..., Series]
    _keep: Callable[..., None]

    def _asks_of(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit will want of its data, and what in it cannot be had from sums."""
        targets = check.read_phase(self.targets, TargetAggregator, "targets")
        features = None
        if self.features is not None:
            features = check.read_phase(self.features, FeatureAggregator, "features")
        wanted: list[Wanted] = []
        if targets is not None:
            wanted += targets._folds_wanted(n_targets)
            if not wanted and n_targets > 1 and (self.aggregate == "auto" or self.head == "shrink"):
                wanted = [Wanted("limit", targets.cv, lowered=True)]
        if features is not None:
            wanted += features._folds_wanted()
        needs = [phase._needs_rows() for phase in (targets, features) if phase is not None]
        if self.aggregate != "mean" and features is not None and features.cv is not None:
            needs.append(f"cv of FeatureAggregator with aggregate={self.aggregate!r}")
        if not learns_from_sums(self._template):
            name = type(self._template).__name__
            if self.aggregate != "mean":
                needs.append(f"aggregate={self.aggregate!r} with {name}()")
            elif self.head == "shrink":
                needs.append(f"head='shrink' with {name}()")
        return wanted, next(filter(None, needs), None)

    def _together(self, layout: IntArray) -> list[IntArray]:
        """Inputs that are in one fit, task by task."""
        return [columns[columns != NO_COLUMN] for columns in layout]

    def _read_collection(
        self,
        data: Collection,
        wanted: Sequence[Wanted],
        needs_rows: str | None,
        groups: Any,
        target_weight: Any,
    ) -> tuple[check.Sample, check.Targets]:
        """Check options, and read data as rows that stand in for theirs, or all of them."""
        self._check_options()
        check.tell_input_names(self, data.widths[1], data.input_names)
        together = self._fitted_together(data.widths)
        read = data.read_or_gather(self, wanted, groups, needs_rows, together)
        if read.rows is not None:
            return self._read(*read.rows, target_weight)
        if data.weights is not None:
            check.require_weighable(self._template)
        return self._received(*read.found, target_weight)

    def _fitted_together(self, widths: tuple[int, int, int]) -> list[IntArray]:
        return self._together(self._read_layout(*widths[1:]))

    def _asks_of_stream(self, n_targets: int) -> list[Wanted]:
        self._check_options()
        if not learns_from_sums(self._template):
            check.refuse_streamed_regressor(self._template, OF_SUMS)
        wanted, needs_rows = self._asks_of(n_targets)
        check.refuse_streaming(needs_rows)
        return wanted

    def _fit_stand_ins(self, sample: check.Sample, targets: check.Targets) -> None:
        self._fit_read(*self._received(sample, targets, None), None)

    @one_thread()
    def _fit_targets(
        self,
        template: TargetAggregator | None,
        sample: check.Sample,
        targets: check.Targets,
        series: Series,
        groups: Any,
    ) -> Found:
        """Choose what is to be chosen, and merge."""
        aggregator = TargetAggregator() if template is None else clone(template)
        check.copy_input_names(self, aggregator)
        rule = self._rule(aggregator, targets.values, passthrough=template is None)
        check.require_levels(sample.baseline, rule.scale)
        check.refuse_for_target_weight(targets, aggregator, self.aggregate)
        if template is None:
            return self._keep_apart(aggregator, rule, targets, series)
        limit = check.read_target_limit(aggregator.max_loss, aggregator.criterion, aggregator.scan)
        choice = choose_on_folds(
            rule, sample, series, limit, self.aggregate, (aggregator.cv, groups), self.n_jobs
        )
        self.aggregate_, self.aggregate_errors_ = choice.aggregate, choice.errors
        scaled = self._in_units(series, rule.scale, targets.names)
        judged = scaled.free_rows().compressed()
        space = rule.space(judged, choice.aggregate)
        aggregator._remember(targets)
        aggregator._set_units(*self._units.of_targets())
        names = None if targets.labels is None else targets.names
        chosen = choice.curve is not None and series.is_complete
        (settle_chosen if chosen else settle)(
            aggregator, rule.problem(space), choice.max_loss, names
        )
        aggregator.cv_curve_ = choice.curve
        self.targets_ = aggregator
        self._keep(rule, judged, targets.names)
        return Found(scaled, choice.temper)

    def _pose(self, *data: Any) -> MergeProblem:
        """Check everything, as ``_read`` takes it, and make the problem of Phase I."""
        *rows, target_weight = data
        if is_collection(*rows):
            collection = Collection.of(*rows, gaps=True)
            needs_rows = self._asks_of(collection.widths[2])[1]
            asked = collection, (), needs_rows, None, target_weight
            sample, targets = self._read_collection(*asked)
        else:
            sample, targets = self._read(*data)
        return self._pose_read(sample, targets)

    @one_thread()
    def _pose_read(self, sample: check.Sample, targets: check.Targets) -> MergeProblem:
        series = self._series(sample, targets)
        aggregator = suited_to(self.targets, series, targets.names)
        check.require_series(series, targets.names, fewest=fewest_rows(aggregator, series))
        check.require_varying(targets.values, targets.names)
        rule = self._rule(aggregator, targets.values, passthrough=False)
        check.require_levels(sample.baseline, rule.scale)
        check.refuse_for_target_weight(targets, aggregator, self.aggregate)
        scaled = series.standardised(rule.scale, overwrite=True)[0].free_rows().compressed()
        return rule.problem(rule.space(scaled, self.aggregate, overwrite=True))

    def _rule(
        self, aggregator: TargetAggregator, values: FloatArray, *, passthrough: bool
    ) -> OwnRule:
        """Check the options of Phase I."""
        shrinks = self.head == "shrink" and not passthrough
        return read_rule(aggregator, values, self.aggregate, self._template, shrinks=shrinks)

    def _keep_apart(
        self,
        aggregator: TargetAggregator,
        rule: OwnRule,
        targets: check.Targets,
        series: Series,
    ) -> Found:
        """Leave every target by itself."""
        scale = "none" if series.baseline is None else "center"
        scaled = self._in_units(series, scale, targets.names)
        self.aggregate_ = "pool" if self.aggregate == "pool" else "mean"
        self.aggregate_errors_ = {}
        aggregator.set_params(scale=scale)
        self.targets_ = aggregator._fit_identity(targets)
        aggregator._set_units(*self._units.of_targets())
        self._keep(rule, scaled.free_rows(), targets.names)
        return Found(scaled, 0.0)

    def _in_units(self, series: Series, scale: str, names: Sequence[str]) -> Series:
        """Bring series, whose array is taken over, to units that are kept for predictions."""
        scaled, self._units = series.standardised(scale, overwrite=True)
        if series.baseline is not None:
            left = np.nan_to_num(scaled.values[:, -1]) != 0.0
            check.require_more_than_baseline(left.any(axis=1), names)
        return scaled
