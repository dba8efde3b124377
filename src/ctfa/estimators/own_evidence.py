"""What is known of every merge of targets with inputs of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ctfa import _validation as check
from ctfa._threads import one_thread
from ctfa.core.gains import Gain
from ctfa.core.history import MergeHistory
from ctfa.core.partition import Partition
from ctfa.core.replay import replay
from ctfa.core.series import Series
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.own_inputs import OwnFits, fit_own, gain_over_single, gains_along
from ctfa.core.types import FloatArray, IntArray
from ctfa.estimators.evidence import EvidenceMixin
from ctfa.estimators.explanation import TOO_WELL_TOLD_APART, Explanation, Refusal, listed, percent
from ctfa.estimators.held_out import Split
from ctfa.estimators.merge_evidence import MergeEvidence, MergeSummary, Terms
from ctfa.estimators.rule import fewest_rows, group_rows
from ctfa.estimators.targets import TargetAggregator

#: Up to so many targets it is worked out what every merge does to every member.
MEMBER_BY_MEMBER = 1000


class Kept(NamedTuple):
    """What the evidence is worked out from."""

    rule: Rule
    series: Series  # in the units in which targets were merged
    names: Sequence[str]


@dataclass(frozen=True, eq=False)
class OwnExplanation(Explanation):
    """Why a target with inputs of its own is where it is: print it."""

    def _served_with(self, others: list[str]) -> str:
        return (
            f"is predicted from the mean of {len(self.members)} targets and the means of their "
            f"inputs, with {listed(others)}"
        )

    def _gain_of(self) -> str:
        return " of the group's model" if self.shrunk else ""

    def _trusts(self) -> str:
        # How far a target trusts its group is found by the head that asks.
        return f"; it trusts its group {percent(self.trust)}" if self.shrunk else ""


@dataclass(frozen=True, eq=False)
class SharedExplanation(OwnExplanation):
    """The same for members that share coefficients."""

    made_by: ClassVar[str] = "pool"

    def _served_with(self, others: list[str]) -> str:
        noun = "target" if len(others) == 1 else "targets"
        return f"shares its coefficients with {len(others)} other {noun}: {listed(others)}"


class OwnEvidenceMixin(EvidenceMixin):
    """What a regressor of targets with inputs of their own can say for itself."""

    layout_: IntArray
    aggregate_: str
    max_loss_: float
    targets: Any
    regressor: Any
    _rule: Callable[..., Rule]
    _series: Callable[..., Series]

    def why(self, target: Any) -> OwnExplanation:
        """Say why a target is in its group: print the answer.

        A target is given by name, or by position where that is not a name.
        """
        known = vars(super().why(target))
        if self.aggregate_ == "mean":
            return OwnExplanation(**known)
        return SharedExplanation(**known | {"refusal": in_words_of_sharing(known["refusal"])})

    def _keep(self, rule: Rule, scaled: Series, names: Sequence[str]) -> None:
        """Remember what the evidence is worked out from, when it is first asked for.

        The series and not what was given, which may change after fit.
        """
        self.__dict__.pop("_evidence", None)
        self._kept: Kept | None = Kept(rule, scaled, names)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the data behind: the evidence is worked out before it goes."""
        if getattr(self, "_kept", None) is not None:
            self._evidence  # noqa: B018  # a cached property
        state: Any = super().__getstate__()
        return dict(state)

    @cached_property
    def _evidence(self) -> MergeEvidence:  # type: ignore[override]
        """What is known of every merge, and of every target's group.

        Worked out when first asked for: at 30,000 targets it takes as long as the fit.
        """
        check_is_fitted(self, "targets_")
        assert self._kept is not None
        evidence = evidence_of(self._kept, self.targets_, self.aggregate_)
        self._kept = None
        return evidence

    def _single_task(self) -> Any:
        """The same regressor for each target by itself, not fitted, in the same units."""
        targets = self.targets
        if not isinstance(targets, str):
            scale, solver = self.targets_.scale, self.targets_.solver
            # Nobody is anybody's neighbour: without a graph every pair would be asked, and refused.
            nobody = sparse.csr_array((len(self.layout_), len(self.layout_)))
            targets = TargetAggregator(
                max_loss=-np.inf, scale=scale, solver=solver, connectivity=nobody
            )
        kind: Any = type(self)
        return kind(self.layout_, self.regressor, targets=targets)

    def _anew(self) -> Any:
        """The same regressor, not fitted, for the same data as arrays without names."""
        return clone(self).set_params(layout=self.layout_)

    def _regroup(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> list[Partition]:
        """Groups found on the training rows of each split, with the limit that was used."""
        rule = self._rule(self.targets_, targets.values, passthrough=False)
        series = self._series(sample, targets)
        return list(
            Parallel(n_jobs=self.n_jobs)(
                delayed(group_rows)(rule, series, rows, self.aggregate_, self.max_loss_)
                for rows, _ in splits
            )
        )

    def _require_observed(
        self, sample: check.Sample, targets: check.Targets, splits: Sequence[Split]
    ) -> None:
        """Refuse folds that leave a target too few rows."""
        series = self._series(sample, targets)
        fewest = fewest_rows(check.read_phase(self.targets, TargetAggregator, "targets"), series)
        for fold, (train, _) in enumerate(splits):
            where = f"the training rows of fold {fold} of cv"
            check.require_series(series.take(train), targets.names, fewest=fewest, where=where)


def in_words_of_sharing(refusal: Refusal) -> Refusal:
    """Why two groups do not share coefficients."""
    if refusal.reason == TOO_WELL_TOLD_APART:
        return refusal._replace(reason="their coefficients differ by more than sharing saves")
    return refusal


@one_thread()
def evidence_of(kept: Kept, aggregator: TargetAggregator, aggregate: str) -> MergeEvidence:
    """Go through the merges again, and see what each target has of its group."""
    rule, series, names = kept
    # By the fits that merges were judged by, whatever the regressor.
    rule = replace(rule, penalised=rule.solver == "ridge")
    history, partition = aggregator.history_, aggregator.partition_
    terms = Terms(
        aggregator.criterion,
        aggregator.scan,
        aggregator.max_loss_,
        guarded=False,
        standardised=aggregator.scale == "standard",
        # Members that share coefficients have each its own rows, whatever the others lack.
        gappy=aggregate == "mean" and not series.is_complete,
        chosen=aggregator.cv_curve_ is not None,
    )
    return MergeEvidence(
        history,
        partition,
        names,
        _merges(rule, series, history, aggregate) if len(history) else [],
        gain_over_single(rule, aggregate, series, partition),
        aggregator.signs_,
        terms,
    )


def _merges(
    rule: Rule, series: Series, history: MergeHistory, aggregate: str
) -> list[MergeSummary]:
    each: Iterable[tuple[IntArray, FloatArray]] = [(_NOBODY, _NOTHING)] * len(history)
    if series.n_tasks <= MEMBER_BY_MEMBER:
        each = gains_along(fit_own(rule, series, aggregate), history)
    if rule.solver == "ridge":
        # No F: what a merge gains is what its members do, as cross-validation judges them.
        shares = np.ones(series.n_tasks) if series.task_weights is None else series.task_weights
        return [
            _summary(Gain(_sum(gains * shares[who]), _UNKNOWN), who, gains) for who, gains in each
        ]
    replayed = replay(OwnFits(rule, series, aggregate).space(), history)
    return [
        _summary(
            Gain(replayed.gain[step], replayed.standard_error[step]),
            who,
            gains,
            float(replayed.f_statistic[step]),
            float(replayed.f_star[step]),
        )
        for step, (who, gains) in enumerate(each)
    ]


def _summary(
    total: Gain,
    who: IntArray,
    gains: FloatArray,
    f_statistic: float = np.nan,
    f_star: float = np.nan,
) -> MergeSummary:
    worst = float(gains.min()) if gains.size else np.nan
    return MergeSummary(total, worst, who[gains < 0.0], f_statistic, f_star)


def _sum(gains: FloatArray) -> FloatArray:
    return np.asarray(gains.sum() if gains.size else np.nan)


_NOBODY, _NOTHING = np.empty(0, dtype=np.intp), np.empty(0)
_UNKNOWN = np.asarray(np.nan)
