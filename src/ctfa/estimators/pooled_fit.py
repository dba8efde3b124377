"""How a regressor of tasks with rows of their own is fitted to rows that are read."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ctfa import _validation as check
from ctfa._collections import OF_SUMS, Wanted, learns_from_sums
from ctfa._streaming import StreamingTasks
from ctfa._threads import one_thread
from ctfa.core.cut import PREFERRED
from ctfa.core.history import Ledger
from ctfa.core.shrinkage import Corrections, correct
from ctfa.core.types import AnyArray, FloatArray
from ctfa.estimators.feature_aggregator import FeatureAggregator
from ctfa.estimators.group_models import keep_features, reduced
from ctfa.estimators.groups import GroupsRegressor
from ctfa.estimators.merge_evidence import PooledEvidence
from ctfa.estimators.merging import settle, settle_history
from ctfa.estimators.pooled_groups import Nearest, fit_group
from ctfa.estimators.pooled_rule import TaskRows, are_short, choose_cut, pose, require_meaning
from ctfa.estimators.target_aggregator import TargetAggregator

#: Residuals below this share of the largest target, about the mean, are rounding: squares of less
#: are not told from zero where offsets are estimated.
ROUNDING = 1e-7


class PooledFit(StreamingTasks, GroupsRegressor):
    """Both phases, then offsets, a regressor a group, and slopes of each task's own."""

    targets: Any
    features: Any
    head: str
    unseen: str
    n_jobs: int | None
    features_: list[FeatureAggregator]
    regressors_: list[Any]
    tasks_: AnyArray
    offsets_: FloatArray
    coef_: FloatArray
    trust_: FloatArray
    global_regressor_: Any
    _ids: list[Any]
    _names: tuple[str, ...]
    _centre: FloatArray
    _nearest: Nearest
    _pooled: PooledEvidence

    def _phases(self) -> tuple[TargetAggregator | None, FeatureAggregator | None]:
        features = None
        if self.features is not None:
            features = check.read_phase(self.features, FeatureAggregator, "features")
        return check.read_phase(self.targets, TargetAggregator, "targets"), features

    def _asks_of(self) -> tuple[list[Wanted], str | None]:
        """Folds that a fit will want of its data, and what in it cannot be had from sums."""
        targets, features = self._phases()
        wanted = []
        if targets is not None:
            require_meaning(targets)
            limit = check.read_target_limit(targets.max_loss, targets.criterion, targets.scan)
            wanted = [Wanted("limit", targets.cv)] if limit is None else []
        if not learns_from_sums(self._template):
            return wanted, f"regressor={type(self._template).__name__}()"
        if features is None:
            return wanted, None
        folded = None if features.cv is None else "cv of FeatureAggregator, with tasks,"
        return wanted, features._needs_rows() or folded

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        self._check_options()
        if not learns_from_sums(self._template):
            check.refuse_streamed_regressor(self._template, OF_SUMS)
        wanted, needs_rows = self._asks_of()
        check.refuse_streaming(needs_rows)
        return wanted

    def _fit_read(
        self, sample: check.Sample, target: FloatArray, known: check.Tasks, groups: Any
    ) -> Self:
        """Fit data that are read, or rows that stand in for others."""
        phases = self._phases()
        self._ids, self.tasks_ = known.ids, check.as_ids(known.ids)
        self._names = tuple(map(str, known.ids))
        rows = TaskRows(
            sample.inputs, target, sample.weights, known.of_row, len(known.ids), sample.counts
        )
        check.require_varying_within(rows.within(target), target)
        # Tasks by themselves are their regressor's business, and an infinite limit asks nobody; one
        # model of all has offsets to find.
        max_loss = -np.inf if phases[0] is None else phases[0].max_loss
        judged = isinstance(max_loss, str) or np.isfinite(max_loss) or self.unseen == "global"
        short = judged and are_short(rows, chosen=isinstance(max_loss, str))
        if rows.counts is None:  # of sums it has been said
            within = rows.within(rows.inputs)
            check.warn_if_slopes_are_doubtful(rows.inputs, within, rows.weights)
        self.targets_ = self._fit_targets(phases[0], sample, rows, groups, short=short)
        self._fit_groups(phases[1], rows)
        return self

    @one_thread()
    def _fit_targets(
        self,
        template: TargetAggregator | None,
        sample: check.Sample,
        rows: TaskRows,
        groups: Any,
        *,
        short: bool,
    ) -> TargetAggregator:
        aggregator = TargetAggregator(max_loss=-np.inf) if template is None else clone(template)
        require_meaning(aggregator)
        limit = check.read_target_limit(aggregator.max_loss, aggregator.criterion, aggregator.scan)
        check.copy_input_names(self, aggregator)
        graph = check.read_graph(aggregator.connectivity, rows.mean_inputs().T, "tasks")
        curve = None
        if limit is None and short:
            limit = -np.inf
        elif limit is None:
            shrink = self.head == "shrink"
            curve = choose_cut(aggregator, sample, rows, graph, groups, self.n_jobs, shrink=shrink)
            limit = PREFERRED if curve is None else float(curve.max_loss[curve.chosen])
        problem = pose(aggregator, rows, graph)
        unit = float(np.average(rows.within(rows.target) ** 2, weights=rows.weights))
        counts = np.array([summary.weight for summary in rows.summaries()])
        self._pooled = PooledEvidence(
            copy.deepcopy(problem.space),  # type: ignore[arg-type]
            1.0 + 1.0 / counts,
            unit if aggregator.scale == "standard" else 1.0,
        )
        self.__dict__.pop("_evidence", None)
        if template is None:
            settle_history(aggregator, Ledger(rows.n_tasks).close(), -np.inf)
        else:
            settle(aggregator, problem, limit, self._names)
        aggregator.cv_curve_ = curve
        return aggregator

    def _fit_groups(self, template: FeatureAggregator | None, rows: TaskRows) -> None:
        """Features, offsets and a regressor for each group, then slopes of each task's own."""
        self.features_ = keep_features(self, self.n_groups_)
        fitted = list(
            Parallel(n_jobs=self.n_jobs)(
                delayed(fit_group)(
                    rows.take(np.arange(rows.index.size), self.labels_ == group),
                    features if template is None else self._named(template),
                    self.regressor,
                    aggregate=template is not None,
                )
                for group, features in enumerate(self.features_)
            )
        )
        self.features_ = [group.features for group in fitted]
        self.regressors_ = [group.regressor for group in fitted]
        self.offsets_ = np.empty(rows.n_tasks)
        for members, group in zip(self.partition_.groups, fitted, strict=True):
            self.offsets_[members] = group.offsets.values
        own = self._correct(rows)
        self.trust_, self._centre = own.trust, own.centre
        self.coef_ = own.coef if self.head == "shrink" else np.zeros(own.coef.shape)
        for name in ("global_regressor_", "_nearest"):
            self.__dict__.pop(name, None)
        if self.unseen == "global":
            identity = keep_features(self, 1)[0]
            everybody = fit_group(rows, identity, self.regressor, aggregate=False)
            self.global_regressor_ = everybody.regressor
        if self.unseen == "nearest":
            self._nearest = Nearest.of(rows, self.labels_)

    def _correct(self, rows: TaskRows) -> Corrections:
        """Slopes of each task's own, from what its group leaves."""
        left = rows.target - self.offsets_[rows.index]
        of_row = self.labels_[rows.index]
        for group in range(self.n_groups_):
            at = of_row == group
            left[at] -= self._predict_group(group, rows.inputs[at])
        with one_thread():
            return correct(
                rows.of_each(rows.inputs),
                rows.of_each(left),
                self.labels_,
                weights=rows.weights_of_each,
                counts=rows.counts_of_each,
                negligible=ROUNDING * float(np.abs(rows.target - rows.target.mean()).max()),
            )

    def _predict_group(self, group: int, inputs: FloatArray) -> FloatArray:
        """What a group's model says; -1 is the one of all tasks."""
        regressor = self.global_regressor_ if group < 0 else self.regressors_[group]
        columns = inputs if group < 0 else reduced(self.features_[group], inputs)
        means = np.asarray(regressor.predict(columns)).reshape(-1, 1)
        check.require_finite_prediction(means, [regressor])
        return means[:, 0]

    def _named(self, template: FeatureAggregator) -> FeatureAggregator:
        aggregator: FeatureAggregator = clone(template)
        check.copy_input_names(self, aggregator)
        return aggregator
