"""Why targets were merged: the evidence of every merge, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctfa._names import visible
from ctfa.core.types import FloatArray
from ctfa.estimators.merge_evidence import MergeEvidence, MergeRow, Terms


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
    members: tuple[str, ...]  # with a minus before the name of those that are turned round
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

    @property
    def max_loss(self) -> float:
        """The limit used."""
        return self.terms.max_loss

    @property
    def expected_to_lose(self) -> bool:
        """Whether the target is predicted to be worse off than by itself.

        By more than one standard error: a smaller loss is about even.
        """
        return self.gain < -self.gain_error

    def __str__(self) -> str:
        lines = [*self._group_lines(), *self._merge_lines(), self._refusal_line()]
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
            others=listed([self._marked(name) for name in others]),
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
        return SHARING[self.shares]

    def _gained(self) -> str:
        """What the target gains, and whose gain that is where it is not plain."""
        own = self._words.own
        if self._words.one_unit and np.isinf(self.gain):
            return f"It has too few rows for {own}"
        mixed = self._words.mixed if self.shrunk else ""
        error = np.nan if self._words.one_unit else self.gain_error
        amount = self._amount(self.gain, error, "its variance")
        return f"Predicted gain{mixed} over {own}: {amount}{self._verdict()}"

    def _trusts(self) -> str:
        # With inputs or rows of its own, how far a target trusts its group is found by the head
        # that asks.
        if not (self.shrunk or self._words.always_trusts):
            return ""
        use = "" if self.shrunk else " (used by head='shrink' only)"
        return f"; it trusts its group {percent(self.trust)}{use}"

    def _marked(self, name: str) -> str:
        return f"{name} (turned round)" if name in self.turned else name

    def _verdict(self) -> str:
        if self.expected_to_lose:
            return " (it is expected to LOSE)"
        return " (about even)" if self.gain < 0.0 else ""

    def _merge_lines(self) -> list[str]:
        lines = []
        for row in self.merges:
            lines.append(
                f"  merge {row.step}: {self._side(row.group)} with {self._side(row.joined)}: "
                f"{self._judged(row)}; predicted gain "
                f"{self._amount(row.gain, row.gain_error, 'a variance')}, summed over its "
                f"{len(row.group) + len(row.joined)} members."
            )
            if row.losers:
                lines.append(f"    predicted to lose by it: {listed(row.losers)}.")
        return lines

    def _judged(self, row: MergeRow) -> str:
        """What was asked of a merge: its loss, beside the F that loss is made of."""
        loss, limit = _number(row.loss), _number(self.max_loss)
        if np.isnan(row.f_statistic):
            even = self.terms.facts.break_even
            breaks = "" if even is None else f"{even:g} breaks even, "
            return f"loss {loss} ({breaks}limit {limit})"
        # With gaps the gain is of each member on its own rows, and may say something else.
        rows = " on the rows both have" if self.terms.gappy else ""
        f = f"F = {_number(row.f_statistic)}{rows}, break-even {_number(row.f_star)}"
        if self.terms.facts.weighs_bias:
            return f"{f} (loss {loss}, limit {limit})"
        # Other losses are not made of F.
        return f"loss {loss}, limit {limit} ({f}, by the risk rule)"

    def _refusal_line(self) -> str:
        refusal = self.refusal
        if refusal.by_guard:
            return f"  The guard refused every remaining merge: {refusal.reason}."
        if not refusal.candidate:
            return f"  Nobody was refused: {refusal.reason}."
        asked = " when it was asked," if self.terms.asks_once else ""
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
    evidence: MergeEvidence,
    target: int,
    trust: FloatArray,
    together: FloatArray | None,
    *,
    shrunk: bool,
    shares: str = "mean",
    gain: tuple[float, float] | None = None,
) -> Explanation:
    """Put together what is known of one target; its gain is the evidence's where none is given."""
    if gain is None:
        gain = float(evidence.gain.value[target]), float(evidence.gain.standard_error[target])
    group = int(evidence.partition.labels[target])
    members = evidence.partition.groups[group].tolist()
    signed = {i: evidence.signed(i) for i in members}
    return Explanation(
        evidence.names[target],
        tuple(signed.values()),
        tuple(signed[i] for i in members if evidence.signs[i] < 0.0),
        tuple(evidence.row(step) for step in evidence.steps_of(target).tolist()),
        *gain,
        float(trust[target]),
        refusal_of(evidence, group, shares),
        None if together is None else {signed[i]: float(together[target, i]) for i in members},
        evidence.terms,
        shrunk,
        shares,
    )


def refusal_of(evidence: MergeEvidence, group: int, shares: str = "mean") -> Refusal:
    """The nearest candidate that a final group did not take."""
    history, terms, words = evidence.history, evidence.terms, SHARING[shares]
    leader = evidence.leader(group)
    candidate, loss = int(history.refused[leader]), float(history.refused_loss[leader])
    if candidate < 0:
        return _nobody_refused(evidence, words.task)
    reason = _reason(terms, loss, words.differ)
    if terms.asks_once:
        # Asked by itself: the group it is in now was made later, and nobody asked for that one.
        return Refusal((evidence.names[candidate],), loss, reason)
    theirs = evidence.partition.groups[int(evidence.partition.labels[candidate])]
    return Refusal(tuple(map(evidence.signed, theirs.tolist())), loss, reason)


def _nobody_refused(evidence: MergeEvidence, task: str) -> Refusal:
    """Why a group has refused nobody."""
    history, by_guard = evidence.history, False
    if not history.n_comparisons:
        reason = f"no two {task}s were compared"
    elif evidence.partition.n_groups == 1:
        reason = f"every {task} is in this group"
    elif not history.complete:
        reason = "the search was stopped before it had asked everybody"
    elif evidence.terms.guarded:
        reason, by_guard = "some member would lose by each", True
    else:
        reason = "it has no neighbour left to ask"
    return Refusal((), np.inf, reason, by_guard=by_guard)


def _reason(terms: Terms, loss: float, differ: str) -> str:
    """Why a merge of this loss was refused."""
    if terms.max_loss == -np.inf and terms.chosen:
        return "held-out rows preferred no merge at all"
    if terms.max_loss == -np.inf:
        return "merging is switched off (max_loss=-inf)"
    even = terms.facts.break_even
    if even is None:
        return "the criterion given says so"
    if loss < even:
        return (
            f"merging was predicted to gain, but max_loss={terms.max_loss:g} is stricter than "
            f"break-even ({even:g})"
        )
    return differ


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
