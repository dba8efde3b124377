"""Why targets were merged: what was known of every merge, in numbers and in words."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ctfa import _reading as check
from ctfa._text import visible
from ctfa._threads import one_thread
from ctfa.core.criteria import TARGET_CRITERIA, Criterion, criterion_of
from ctfa.core.history import MergeHistory
from ctfa.core.lags import Lags
from ctfa.core.members import Gain, gain, replay
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.base import Rule
from ctfa.core.tasks.own_inputs import fit_own, gain_over_single, gains_along
from ctfa.core.types import FloatArray, IntArray

#: Number of targets with inputs of their own up to which the effect of every merge on every
#: member is computed.
MEMBER_BY_MEMBER = 1000


class Terms(NamedTuple):
    """The options under which targets were merged, as far as the texts depend on them."""

    criterion: Any
    scan: str
    max_loss: float
    guarded: bool
    standardised: bool  # whether a unit of gain is a target's variance
    gappy: bool  # whether targets have missing values
    chosen: bool = False  # whether the limit was chosen on held-out rows
    refitted: bool = False  # whether a regressor was fitted again to judge
    crosswise: bool = False  # whether models of tasks were then asked about each other's rows
    n_groups: int | None = None  # how many groups were wished
    wish: str = ""  # everything that was wished, and what it costs

    @property
    def limit(self) -> str:
        """Where merging stopped, in words."""
        if self.n_groups is not None:
            return f"cut at {self.n_groups:,} groups"
        return f"limit {_number(self.max_loss)}"

    @property
    def facts(self) -> Criterion:
        """What is known of the criterion, also where predictions of unseen rows judge."""
        found = criterion_of(self.criterion, TARGET_CRITERIA)
        if not self.refitted:
            return found
        what, said = (
            "squared difference without features over what the regressor leaves of it",
            "the difference of two groups is without features over what the regressor leaves of "
            "it, squared,",
        )
        if self.crosswise:
            what, said = (
                "squared errors of both sides under one model over those under one each",
                "the squared errors of two groups are under the models of both over those under "
                "their own",
            )
        return replace(
            found.by_ridge(),
            words=f"what {said} in rows that it was not fitted to (1 breaks even)",
            limit_words=f"{what}, 1 breaks even",
            usual_loss=None,
            weighs_bias=False,
        )

    @property
    def asks_once(self) -> bool:
        """Whether refusals are those at the time of asking, not of the final groups."""
        return SCANS[self.scan].asks_once


@dataclass(frozen=True, eq=False)
class MergeEvidence:
    """What Phase I knew when it merged, per target; in squared units of the scaled targets."""

    history: MergeHistory
    partition: Partition
    names: Sequence[str]
    merges: list[MergeSummary]
    gain: Gain  # of each target's group over its own model
    signs: FloatArray  # of each target in its group's mean
    terms: Terms
    served: Gain | None = None  # of what members are served with, where they add to their group
    held_out: bool = False  # whether gains are those on folds that were held out
    judge: str = ""  # "linear" where the final regressor did not judge

    @classmethod
    def of(
        cls,
        aggregator: Any,
        names: Sequence[str],
        merges: list[MergeSummary],
        gain: Gain | None = None,
        *,
        gappy: bool = False,
        served: Gain | None = None,
        held_out: bool = False,
        judge: str = "",
        refitted: bool = False,
        crosswise: bool = False,
    ) -> Self:
        """Collect what is known of the merges of Phase I; gains that are not given stay unknown."""
        history, partition = aggregator.history_, aggregator.partition_
        unknown = np.full(partition.n_variables, np.nan)
        terms = Terms(
            aggregator.criterion,
            aggregator.scan,
            aggregator.max_loss_,
            guarded=aggregator.guard is not None,
            standardised=aggregator.scale == "standard",
            gappy=gappy,
            chosen=aggregator.cv_curve_ is not None,
            refitted=refitted,
            crosswise=crosswise,
            n_groups=aggregator.n_groups,
            wish=wish_words(aggregator),
        )
        return cls(
            history,
            partition,
            names,
            merges,
            Gain(unknown, unknown) if gain is None else gain,
            getattr(aggregator, "signs_", np.ones(partition.n_variables)),
            terms,
            served,
            held_out,
            judge,
        )

    @cached_property
    def order(self) -> IntArray:
        """Targets in an order in which both sides of each merge are side by side."""
        return self.history.leaf_order()

    @cached_property
    def bounds(self) -> IntArray:
        """Where in that order each merge has its first side, its second side and its end."""
        start = np.argsort(self.order)
        first, second = start[self.history.block], start[self.history.other]
        return np.stack((first, second, first + self.history.size), axis=1)

    def sides(self, step: int) -> tuple[IntArray, IntArray]:
        """Members of the block and those of the other, just before a merge."""
        first, second, end = self.bounds[step].tolist()
        return self.order[first:second], self.order[second:end]

    def steps_of(self, target: int) -> IntArray:
        """Merges that a target took part in."""
        position = int(np.flatnonzero(self.order == target)[0])
        first, end = self.bounds[:, 0], self.bounds[:, 2]
        return np.flatnonzero((first <= position) & (position < end))

    def columns(self) -> dict[str, Any]:
        """One list per column, one entry per merge."""
        rows = [self.row(step) for step in range(len(self.merges))]
        names = (*MergeRow._fields, "variance_saved", "bias_paid")
        return {name: [getattr(row, name) for row in rows] for name in names}

    def row(self, step: int) -> MergeRow:
        """One merge."""
        merge, loss = self.merges[step], float(self.history.loss[step])
        first, second = self.sides(step)
        # A penalised fit has no F, and so none that breaks even.
        no_f = bool(np.isnan(merge.f_statistic))
        return MergeRow(
            step,
            self._named(first),
            self._named(second),
            loss,
            merge.f_statistic,
            np.nan if no_f else merge.f_star,
            float(merge.total.value),
            float(merge.total.standard_error),
            merge.worst,
            self._named(merge.losers),
            merge.score,
        )

    def leader(self, group: int) -> int:
        """The slot by which a final group is known."""
        members = self.partition.groups[group]
        gone = np.isin(members, self.history.other)
        return int(members[~gone][0])

    def signed(self, target: int) -> str:
        """Name of a target as it enters its group's mean: with a minus if its sign is flipped."""
        return f"-{self.names[target]}" if self.signs[target] < 0.0 else self.names[target]

    def _named(self, members: IntArray) -> tuple[str, ...]:
        return tuple(self.signed(i) for i in np.sort(members).tolist())


class MergeSummary(NamedTuple):
    """What one merge saves, without an entry for each member."""

    total: Gain
    worst: float  # gain of the member that gains least
    losers: IntArray
    f_statistic: float
    f_star: float
    score: float = np.nan  # what it saved on folds; NaN where no folds were used

    @classmethod
    def of(
        cls,
        total: Gain,
        members: IntArray,
        gains: FloatArray,
        f_statistic: float = np.nan,
        f_star: float = np.nan,
        score: float = np.nan,
    ) -> MergeSummary:
        """Reduce the gains of members to what is reported of a merge."""
        worst = float(gains.min()) if gains.size else np.nan
        return cls(total, worst, members[gains < 0.0], f_statistic, f_star, score)


class MergeRow(NamedTuple):
    """One merge and its evidence; gains in squared units of the targets as scaled.

    Targets whose sign is flipped in their group's mean have a minus before their name.
    """

    step: int
    group: tuple[str, ...]
    joined: tuple[str, ...]
    loss: float
    f_statistic: float  # NaN for a penalised fit, which has none
    f_star: float
    gain: float  # predicted, of all members together
    gain_error: float
    worst_gain: float  # of the member that gains least
    losers: tuple[str, ...]  # members predicted to lose
    #: What it saved on held-out blocks of rows. A score, not an estimate of what it saves on new
    #: rows: the pair was chosen on all of these rows. NaN where no folds were used.
    score: float = np.nan

    @property
    def variance_saved(self) -> float:
        """What the merge saves because one model fewer is estimated, over all its members."""
        return (self.f_star - 1.0) * self._unit

    @property
    def bias_paid(self) -> float:
        """What the merge costs because its two sides differ; below zero by chance.

        The gain is the variance saved less this. By the risk rule the loss of a merge is the bias
        paid for each unit of variance saved.
        """
        return (self.f_statistic - 1.0) * self._unit

    @property
    def _unit(self) -> float:
        # The gain is proportional to F_star - F; a merge that breaks even exactly does not tell.
        apart = self.f_star - self.f_statistic
        return self.gain / apart if apart else float("nan")


def co_clustering(evidence: MergeEvidence, together: FloatArray) -> list[float]:
    """Mean share of subsamples in which the two sides of each merge are found together."""
    sides = map(evidence.sides, range(len(evidence.merges)))
    return [float(together[np.ix_(first, second)].mean()) for first, second in sides]


class PooledEvidence(NamedTuple):
    """Tasks as they were before any merge, and what gains are measured in."""

    space: PooledSpace
    weight: FloatArray  # of each task in the total risk
    unit: float  # squared; one for units of the target

    def merges(self, history: MergeHistory) -> list[MergeSummary]:
        """Every merge again, with its predicted gain."""
        space = copy.deepcopy(self.space)
        members = [np.array([task]) for task in range(space.n_variables)]
        summaries = []
        for block, other in zip(history.block.tolist(), history.other.tolist(), strict=True):
            evidence = space.evidence(block, np.array([other]))
            total = gain(evidence)
            sides = space.side_gains(block, other)
            each = [
                side * self.weight[members[slot]] / self.unit
                for side, slot in zip(sides, (block, other), strict=True)
            ]
            members[block] = np.concatenate((members[block], members[other]))
            scaled = Gain(total.value[0] / self.unit, total.standard_error[0] / self.unit)
            f = float(np.asarray(evidence.difference.f_statistic)[0])
            f_star = float(np.asarray(evidence.f_star)[0])
            made = MergeSummary.of(scaled, members[block], np.concatenate(each), f, f_star)
            summaries.append(made)
            space.merge(block, other)
        return summaries

    def gains(self, partition: Partition) -> Gain:
        """Predicted gain of every task by its group, computed one by one; NaN where unknown."""
        groups = partition.groups
        each = [self.gain_of(t, groups[group]) for t, group in enumerate(partition.labels)]
        value, error = np.array(each, dtype=np.float64).T
        return Gain(np.where(np.isfinite(value), value, np.nan), error)

    def gain_of(self, task: int, members: IntArray) -> tuple[float, float]:
        """What a task gains by the others of its group, and the standard error of that merge.

        Infinite where it has no degrees of freedom of its own: alone it cannot be fitted.
        """
        if members.size == 1:
            return 0.0, 0.0
        pair = self.space.one_by_one(members, task)
        if not pair.is_estimable[0]:
            return np.inf, 0.0
        total = gain(pair.evidence(0, np.array([1])))
        value = pair.side_gains(0, 1)[0] * pair.weight[0]
        # The error of the merge is mostly that of its smaller side.
        return float(value / self.unit), float(total.standard_error[0] / self.unit)


@one_thread()
def own_evidence(
    rule: Rule, series: Series, names: Sequence[str], aggregator: Any, aggregate: str
) -> MergeEvidence:
    """Replay the merges, and compute what each target gains by its group.

    For targets with inputs of their own; the series in the units in which they were merged.
    """
    # By the fits that merges were judged by, whatever the regressor.
    rule = replace(rule, penalised=rule.solver == "ridge")
    return MergeEvidence.of(
        aggregator,
        names,
        _merges(rule, series, aggregator.history_, aggregate) if len(aggregator.history_) else [],
        gain_over_single(rule, aggregate, series, aggregator.partition_),
        # Members that share coefficients each have their own rows, whatever the others lack.
        gappy=aggregate == "mean" and not series.is_complete,
    )


def _merges(
    rule: Rule, series: Series, history: MergeHistory, aggregate: str
) -> list[MergeSummary]:
    no_members = np.empty(0, dtype=np.intp), np.empty(0)
    each: Iterable[tuple[IntArray, FloatArray]] = [no_members] * len(history)
    if series.n_tasks <= MEMBER_BY_MEMBER:
        each = gains_along(fit_own(rule, series, aggregate), history)
    if rule.solver != "ridge":
        found = replay(fit_own(rule, series, aggregate).space(), history)
        return [
            MergeSummary.of(Gain(total, error), *members, float(f), float(f_star))
            for (f, f_star, total, error), members in zip(found.T, each, strict=True)
        ]
    # No F: what a merge gains is what its members do, as cross-validation judges them.
    shares = np.ones(series.n_tasks) if series.task_weights is None else series.task_weights
    summaries = []
    for who, gains in each:
        total = (gains * shares[who]).sum() if gains.size else np.nan
        summaries.append(MergeSummary.of(Gain(np.asarray(total), np.asarray(np.nan)), who, gains))
    return summaries


class Sharing(NamedTuple):
    """What the members of a group have in common, in words."""

    made_by: str  # what a merge makes of its members
    served: str  # how a group of ``n``, ``others`` of them listed, serves each member
    differ: str  # why most merges are refused
    task: str = "target"
    own: str = "a model of its own"
    mixed: str = ""  # whose gain is told where predictions are mixed by trust
    always_trusts: bool = False  # whether trust is known whatever the head
    one_unit: str | None = None  # what all gains are shares of; None for each one's own variance


TOO_WELL_TOLD_APART = "the features predict the difference of the two too well to give it up"
#: By what is shared.
SHARING = {
    "mean": Sharing(
        "mean",
        "is predicted from the mean of {n} targets, with {others}",
        TOO_WELL_TOLD_APART,
        always_trusts=True,
    ),
    "mean inputs": Sharing(
        "mean",
        "is predicted from the mean of {n} targets and the means of their inputs, with {others}",
        TOO_WELL_TOLD_APART,
        mixed=" of the group's model",
    ),
    "coefficients": Sharing(
        "pool",
        "shares its coefficients with {more}: {others}",
        "their coefficients differ by more than sharing saves",
        mixed=" of the group's model",
    ),
    "slopes": Sharing(
        "pool",
        "shares its slopes with {more}: {others}",
        "their slopes differ by more than pooling saves",
        task="task",
        own="slopes of its own",
        one_unit="the variance within tasks",
    ),
}


def sharing(shares: str, terms: Terms) -> Sharing:
    """What the members of a group have in common, on these terms."""
    words = SHARING[shares]
    if not terms.crosswise:
        return words
    served = "shares its model with {more}: {others}"
    differ = "the models of both predict the rows of each other worse than sharing saves"
    return words._replace(served=served, differ=differ, own="a model of its own")


class Refusal(NamedTuple):
    """The nearest candidate that a group did not take, and why."""

    candidate: tuple[str, ...]  # the single target asked, by scans that ask once
    loss: float
    reason: str
    by_guard: bool = False  # whether everything left was refused by the guard


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why a target, or a task, is where it is: print it.

    For tasks with rows of their own ``gain_error`` is of the task and the rest of its group
    together: it tells a loss from an even outcome, and is not shown beside the gain of the task.
    """

    target: str
    members: tuple[str, ...]  # with a minus before the names of those whose sign is flipped
    turned: tuple[str, ...]  # members that are
    merges: tuple[MergeRow, ...]
    gain: float  # predicted, over a model of its own
    gain_error: float
    trust: float
    refusal: Refusal
    together: dict[str, float] | None  # co-clustering with each member, once computed
    terms: Terms
    shrunk: bool  # whether predictions are mixed by trust
    shares: str = "mean"  # what members have in common, see ``SHARING``
    held_out: bool = False  # whether gains are those on held-out blocks of rows
    served_gain: float = np.nan  # of what the target adds to its group's model, too
    judge: str = ""  # "linear" where the final regressor did not judge
    windows: tuple[str, ...] = ()  # of time, that its group's model is made of

    @property
    def max_loss(self) -> float:
        """The limit used."""
        return self.terms.max_loss

    @property
    def expected_to_lose(self) -> bool:
        """Whether the target is predicted to be worse off in its group than alone.

        By more than one standard error: a smaller loss counts as about even.
        """
        return self.gain < -self.gain_error

    def __str__(self) -> str:
        lines = [*self._group_lines(), *self._merge_lines(), self._refusal_line()]
        if self.terms.wish:
            lines.append(f"  Requested: {self.terms.wish}.")
        if self.windows:
            lines.append(f"  Its model: {'; '.join(self.windows)}.")
        return "\n".join(map(visible, lines))

    def _group_lines(self) -> list[str]:
        if len(self.members) == 1:
            return [f"{self.target} stays by itself."]
        is_turned = f"-{self.target}" in self.turned
        own = f"-{self.target}" if is_turned else self.target
        others = [name for name in self.members if name != own]
        served = self._words.served.format(
            n=len(self.members),
            more=f"{len(others)} other {self._words.task}{'s' if len(others) > 1 else ''}",
            others=listed([f"{n} (turned round)" if n in self.turned else n for n in others]),
        )
        lines = [
            f"{self.target}{' (turned round)' if is_turned else ''} {served}.",
            f"  {self._gained()}{self._trusts()}.",
        ]
        if self.together is not None:
            weakest = min(others, key=self.together.__getitem__)
            lines.append(
                f"  Found together in {percent(self.together[weakest])} of subsamples or more "
                f"(least with {weakest})."
            )
        return lines

    @property
    def _words(self) -> Sharing:
        return sharing(self.shares, self.terms)

    def _gained(self) -> str:
        """What the target gains, and by which model where that is not obvious.

        On held-out blocks, with its group found again without them, if folds were used.
        """
        words = self._words
        if words.one_unit and np.isinf(self.gain):
            return f"It has too few rows for {words.own}"
        mixed = words.mixed if self.shrunk else ""
        said, lost = f"Predicted gain{mixed} over {words.own}", "it is expected to LOSE"
        error = np.nan if words.one_unit else self.gain_error
        if self.held_out:
            kind, error, lost = f"{self.judge} model".strip(), self.gain_error, "it LOSES by it"
            said = f"Gain of the group's {kind} over a {kind} of its own, on held-out blocks"
        verdict = f" ({lost})" if self.expected_to_lose else " (about even)"
        said += f": {self._amount(self.gain, error, 'its variance')}"
        said += verdict if self.gain < 0.0 else ""
        if self.held_out and self.shrunk and not np.isnan(self.served_gain):
            with_own = self._amount(self.served_gain, np.nan, "its variance")
            said += f"; with what the target adds to it: {with_own}"
        return said

    def _trusts(self) -> str:
        # With inputs or rows of its own, how far a target trusts its group is found by the head
        # that asks.
        if not (self.shrunk or self._words.always_trusts):
            return ""
        use = "" if self.shrunk else " (used by head='levels' only)"
        return f"; it trusts its group {percent(self.trust)}{use}"

    def _merge_lines(self) -> list[str]:
        lines = []
        for row in self.merges:
            gain = self._amount(row.gain, row.gain_error, "a variance")
            told = f"predicted gain {gain}"
            if not np.isnan(row.score):
                score = self._amount(row.score, np.nan, "a variance")
                gain = self._amount(row.gain, np.nan, "a variance")
                told = f"score on held-out blocks {score} (predicted {gain})"
            lines.append(
                f"  merge {row.step}: {self._side(row.group)} with {self._side(row.joined)}: "
                f"{self._judged(row)}; {told}, summed over its "
                f"{len(row.group) + len(row.joined)} members."
            )
            if row.losers:
                lines.append(f"    predicted to lose by it: {listed(row.losers)}.")
        return lines

    def _judged(self, row: MergeRow) -> str:
        """How a merge was judged: its loss, beside the F that the loss is made of."""
        loss, limit = _number(row.loss), self.terms.limit
        if np.isnan(row.f_statistic):
            even = self.terms.facts.break_even
            breaks = "" if even is None else f"{even:g} breaks even, "
            return f"loss {loss} ({breaks}{limit})"
        # With gaps the gain is of each member on its own rows, and may differ.
        rows = " on the rows both have" if self.terms.gappy else ""
        f = f"F = {_number(row.f_statistic)}{rows}, break-even {_number(row.f_star)}"
        if self.terms.facts.weighs_bias:
            return f"{f} (loss {loss}, {limit})"
        # Other losses are not made of F.
        return f"loss {loss}, {limit} ({f}, by the risk rule)"

    def _refusal_line(self) -> str:
        refusal = self.refusal
        if refusal.by_guard:
            return f"  The guard refused every remaining merge: {refusal.reason}."
        if not refusal.candidate:
            return f"  No candidate was refused: {refusal.reason}."
        asked = " when it was asked," if self.terms.asks_once else ""
        if self.terms.n_groups is not None:
            return (
                f"  Next would be {self._side(refusal.candidate)}, loss {_number(refusal.loss)}: "
                f"{refusal.reason}."
            )
        return (
            f"  Nearest refused: {self._side(refusal.candidate)}, loss {_number(refusal.loss)}"
            f"{asked} above the limit {_number(self.max_loss)}: {refusal.reason}."
        )

    def _side(self, names: Sequence[str]) -> str:
        return names[0] if len(names) == 1 else f"{self._words.made_by}({listed(names)})"

    def _amount(self, value: float, error: float, whole: str) -> str:
        if np.isnan(value):
            return "not worked out"
        has_error = not np.isnan(error)  # a penalised fit of own inputs has none
        if self.terms.standardised:
            within = f" ± {100 * error:.1f}" if has_error else ""
            return f"{100 * value:+.1f}{within} % of {self._words.one_unit or whole}"
        within = f" ± {error:.2g}" if has_error else ""
        return f"{value:+.3g}{within} in squared units of the targets"


def explain(
    model: Any,
    evidence: MergeEvidence,
    target: int,
    shares: str,
    gain: tuple[float, float] | None = None,
) -> Explanation:
    """Collect what is known of one target; its gain is the evidence's where none is given."""
    if gain is None:
        gain = float(evidence.gain.value[target]), float(evidence.gain.standard_error[target])
    group = int(evidence.partition.labels[target])
    members = evidence.partition.groups[group].tolist()
    signed = {i: evidence.signed(i) for i in members}
    together = vars(model).get("stability_")
    return Explanation(
        evidence.names[target],
        tuple(signed.values()),
        tuple(signed[i] for i in members if evidence.signs[i] < 0.0),
        tuple(evidence.row(step) for step in evidence.steps_of(target).tolist()),
        *gain,
        float(model.trust_[target]),
        refusal_of(evidence, group, shares),
        None if together is None else {signed[i]: float(together[target, i]) for i in members},
        evidence.terms,
        model.head == "levels",
        shares,
        evidence.held_out,
        np.nan if evidence.served is None else float(evidence.served.value[target]),
        evidence.judge,
        _windows_of(model, group),
    )


def _windows_of(model: Any, group: int) -> tuple[str, ...]:
    """Lags and their means in a group's model, with their coefficients where it is linear."""
    features = model.features_[group]
    lags = Lags(getattr(features, "feature_names_in_", ()))
    if not lags:
        return ()
    coef = getattr(model.regressors_[group], "coef_", None)
    values = [None] * features.n_groups_ if coef is None else np.ravel(coef).tolist()
    parts = zip(features.partition_.groups, features.get_feature_names_out(), values, strict=True)
    return tuple(
        name if value is None else f"{value:+.2g} {name}"
        for columns, name, value in parts
        if lags.window(columns) is not None
    )


def refusal_of(evidence: MergeEvidence, group: int, shares: str = "mean") -> Refusal:
    """The nearest candidate that a final group did not take."""
    history, terms, partition = evidence.history, evidence.terms, evidence.partition
    words = sharing(shares, terms)
    leader = evidence.leader(group)
    candidate, loss = int(history.refused[leader]), float(history.refused_loss[leader])
    if candidate >= 0:
        reason = _reason(terms, loss, words.differ)
        if terms.asks_once:
            # Asked as a single target: its present group was formed later, and was not asked about.
            return Refusal((evidence.names[candidate],), loss, reason)
        theirs = partition.groups[int(partition.labels[candidate])]
        return Refusal(tuple(map(evidence.signed, theirs.tolist())), loss, reason)
    by_guard = False
    if not history.n_comparisons:
        reason = f"no two {words.task}s were compared"
    elif partition.n_groups == 1:
        reason = f"every {words.task} is in this group"
    elif not history.complete:
        reason = "the search was stopped before it had asked every candidate"
    elif terms.guarded:
        reason, by_guard = "some member would lose by each", True
    else:
        reason = "it has no neighbour left to ask"
    return Refusal((), np.inf, reason, by_guard=by_guard)


def _reason(terms: Terms, loss: float, differ: str) -> str:
    """Why a merge of this loss was refused."""
    even = terms.facts.break_even
    if terms.n_groups is not None:
        return f"the number of groups asked for is reached ({terms.n_groups:,})"
    if terms.max_loss == -np.inf:
        if terms.chosen:
            return "held-out rows preferred no merge at all"
        return "merging is switched off (max_loss=-inf)"
    if even is None:
        return "the criterion given says so"
    if loss < even:
        return (
            f"merging was predicted to gain, but max_loss={terms.max_loss:g} is stricter than "
            f"break-even ({even:g})"
        )
    return differ


def wish_words(aggregator: Any, names: Mapping[str, Any] | None = None) -> str:
    """All wishes, and what they cost; empty where there are none.

    ``names`` are those of options, and of groups, where these are not as in Python.
    """
    given, price = check.wishes_of(aggregator), getattr(aggregator, "price_", None)
    names = names or {}
    if not given or price is None:
        return ""
    said = ", ".join(
        f"{names.get(name, name)}={value!r}"
        if name not in ("together", "apart")
        else f"{len(value):,} {name}"
        for name, value in given.items()
    )
    price_words = price.words(names.get("groups", "groups"))
    return f"{said}; it {price_words}" if price.is_known else f"{said}; {price_words}"


def listed(names: Sequence[str], at_most: int = 6) -> str:
    """The first names, and how many more there are."""
    shown = list(names[:at_most])
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _number(value: float) -> str:
    """Two decimals; scans write an infinite loss as the largest number there is."""
    return f"{value:.2f}" if abs(value) < 1e6 else "inf" if value > 1e300 else f"{value:.2g}"


def percent(share: float) -> str:
    """A share in whole percent."""
    return f"{100 * share:.0f} %"
