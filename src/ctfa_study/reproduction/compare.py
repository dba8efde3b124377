"""The paper's number, ours, the difference, and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa_study.reproduction._case import AUTHORS, HONEST, Experiment
from ctfa_study.reproduction._claims import Claim, Claims, Statement
from ctfa_study.reproduction._results import Figure, Results

REPRODUCED, DIFFERS, CANNOT = "reproduced", "differs", "cannot be run"
#: Of a statement that holds in some cases and not in others; of a result that the paper prints more
#: than once, where some of its numbers agree.
MIXED = "mixed"
#: Of a result whose printed number differs, where the one that the authors' log has agrees.
AS_LOGGED = "as in the log"
#: Every verdict on a result, in the order of tables.
WORDS = (REPRODUCED, AS_LOGGED, MIXED, DIFFERS, CANNOT)
#: The method of numbers that were chosen and not measured.
CHOICE = "choice"
#: Relative difference within which a number counts as reproduced whatever the spreads.
CLOSE = 0.03
#: A spread counts up to this part of a number: what scatters wildly would agree with any.
WIDEST = 0.10
#: Standard errors within which two means of repetitions agree.
ERRORS = 2.0
RULE = (
    "A number is reproduced when ours is within 3 % of it; or within the spread, what the paper "
    "prints after the plus-minus sign or our standard deviation over seeds, which counts up to a "
    "tenth of the number; or, where it is known how many repetitions the number is a mean of, "
    "within two standard errors of the difference of the two means."
)


class Verdict(NamedTuple):
    """One number of the paper under one protocol."""

    claim: Claim
    protocol: str  # "" where nothing could be run
    ours: Figure | None
    word: str  # REPRODUCED, DIFFERS or CANNOT
    why: str

    @property
    def difference(self) -> float | None:
        """Ours over the paper's, less one; None where there is no such ratio."""
        if self.ours is None or self.claim.printed == 0.0:
            return None
        return self.ours.mean / self.claim.printed - 1.0


class Judged(NamedTuple):
    """A statement of the paper, and what ours show."""

    statement: Statement
    word: str
    shown: str
    #: In which cases it holds; of other data than the paper's where the verdict is ``CANNOT``.
    cases: Mapping[str, bool]

    @property
    def verdict(self) -> str:
        """The word, and in how many cases it holds where there are several."""
        held = f"holds in {sum(self.cases.values())} of {len(self.cases)}"
        if self.word == CANNOT:
            return f"{CANNOT}; elsewhere it {held}" if self.cases else CANNOT
        return f"{self.word} ({held})" if len(self.cases) > 1 else self.word

    def names(self, *, holding: bool) -> list[str]:
        """The cases in which it holds, or those in which it does not."""
        return [name for name, holds in self.cases.items() if holds is holding]


def judge(
    claims: Claims, results: Results, choices: Mapping[str, float] | None = None
) -> list[Verdict]:
    """Every number under every protocol it was measured by, and once where it was by none.

    A number of the method "choice" is compared with what an experiment of ours chose.
    """
    verdicts = []
    for claim in claims.numbers:
        if claim.method == CHOICE and choices and results.rows and not claim.cannot:
            ours = Figure(np.array([choices[claim.quantity]]))
            verdicts.append(Verdict(claim, HONEST, ours, *_word(claim, HONEST, ours)))
        else:
            verdicts += _verdicts(claim, results)
    return verdicts


def judge_statements(claims: Claims, experiment: Experiment, results: Results) -> list[Judged]:
    """Every statement, by the check that it names."""
    judged = []
    for statement in claims.statements:
        try:
            found = experiment.checks[statement.check](results)
        except KeyError as missing:
            judged.append(Judged(statement, CANNOT, f"not measured: {missing.args[0]}", {}))
            continue
        word = CANNOT if found.elsewhere else _of_cases(found.cases)
        judged.append(Judged(statement, word, found.shown, found.cases))
    return judged


def _of_cases(cases: Mapping[str, bool]) -> str:
    """The verdict on a statement that holds in some cases."""
    if all(cases.values()):
        return REPRODUCED
    return MIXED if any(cases.values()) else DIFFERS


def is_close(
    claimed: float, spread: float | None, ours: Figure, repetitions: int | None = None
) -> bool:
    """Whether ours agrees with a number; see ``RULE``."""
    own = ours.spread or 0.0
    if repetitions is not None:  # a spread of repetitions says how far means are apart, not more
        own *= ERRORS * (1.0 / ours.values.size + 1.0 / repetitions) ** 0.5
    else:
        own = min(own, WIDEST * abs(claimed))
    printed = min(spread or 0.0, WIDEST * abs(claimed))
    allowed = max(CLOSE * abs(claimed), printed, own)
    # A number that both print alike agrees, though rounding may have moved it a little further.
    return abs(ours.mean - claimed) <= allowed * (1.0 + 1e-9)


def _verdicts(claim: Claim, results: Results) -> list[Verdict]:
    if claim.cannot:
        return [Verdict(claim, "", None, CANNOT, claim.cannot)]
    found = []
    protocols = (claim.protocol,) if claim.protocol else (AUTHORS, HONEST)
    for protocol in protocols:
        ours = results.get(protocol, claim.setting, claim.method, claim.quantity)
        if ours is not None:
            found.append(Verdict(claim, protocol, ours, *_word(claim, protocol, ours)))
    if found:
        return found
    failed = results.why_not(protocols, claim.setting, claim.method)
    why = failed or f"not run yet: ctfa reproduce {claim.experiment}"
    return [Verdict(claim, "", None, CANNOT, why)]


def _word(claim: Claim, protocol: str, ours: Figure) -> tuple[str, str]:
    if is_close(claim.printed, claim.spread, ours, claim.repetitions):
        return REPRODUCED, claim.but.get(protocol, claim.but.get("", ""))
    unknown = "not explained"
    if claim.repetitions is not None:
        unknown += ": further than two standard errors, as one number in twenty is by chance"
    why = claim.why.get(protocol, claim.why.get("", unknown))
    if claim.meant is not None:
        close = is_close(claim.meant, claim.spread, ours, claim.repetitions)
        place = "is meant" if kind(claim) == "size" else "is in the authors' log"
        why = f"{claim.meant:g} {place}, which {'agrees' if close else 'differs too'}: {why}"
    return DIFFERS, why


#: What a number may be: a result that the paper prints or plots, one that is in its authors' log
#: alone, a size or choice, a known rerun, or none of its own (see ``not_counted``).
KINDS = ("result", "log", "size", "rerun", "none")
RERUN, LOG = "not in the paper", "authors' log"


def kind(claim: Claim) -> str:
    """Which of ``KINDS`` a number is."""
    if claim.source.startswith(RERUN):
        return "rerun"
    if claim.method in ("data", CHOICE):
        return "size"
    # A change in per cent follows from two errors, which count.
    if claim.not_counted or claim.quantity.endswith("%"):
        return "none"
    return "log" if claim.source.startswith(LOG) else "result"


def agrees(verdict: Verdict) -> str:
    """The verdict on a number, which may be that only the one in the authors' log agrees."""
    claim, ours = verdict.claim, verdict.ours
    if verdict.word != DIFFERS or claim.meant is None or ours is None:
        return verdict.word
    close = is_close(claim.meant, claim.spread, ours, claim.repetitions)
    return AS_LOGGED if close else DIFFERS


def distinct(verdicts: Iterable[Verdict], of_kind: str = "result") -> list[tuple[Claim, str]]:
    """Each distinct result once, by the first number that the paper prints of it, and its verdict.

    A result is a quantity of a method in a setting, however often it is printed. Each of its
    numbers is judged by the protocol nearest to the paper's. Of those in the authors' log, the ones
    that the paper does not have.
    """
    first: dict[int, Verdict] = {}
    for verdict in verdicts:
        first.setdefault(id(verdict.claim), verdict)
    printed = {v.claim.result for v in first.values() if kind(v.claim) == "result"}
    results: dict[tuple[str, str, str], list[Verdict]] = {}
    for verdict in first.values():
        again = of_kind != "result" and verdict.claim.result in printed
        if kind(verdict.claim) == of_kind and not again:
            results.setdefault(verdict.claim.result, []).append(verdict)
    return [(found[0].claim, _of_numbers([*map(agrees, found)])) for found in results.values()]


def _of_numbers(words: Sequence[str]) -> str:
    """The verdict on a result, from those on its numbers."""
    judged = [word for word in words if word != CANNOT]
    if not judged:
        return CANNOT
    far = judged.count(DIFFERS)
    if far:
        return DIFFERS if far == len(judged) else MIXED
    return AS_LOGGED if AS_LOGGED in judged else REPRODUCED


def counts(words: Iterable[str]) -> dict[str, int]:
    """How many have each verdict."""
    known = list(words)
    return {word: known.count(word) for word in WORDS}


def _counted_as(claim: Claim) -> str:
    """The result that a number is counted as, or why it is not."""
    if kind(claim) in ("result", "log"):
        return "; ".join(claim.result)
    return claim.not_counted and f"not counted: {claim.not_counted}"


def columns(verdicts: list[Verdict]) -> dict[str, list[Any]]:
    """Verdicts as a table: one row per number and protocol."""
    rows: list[Mapping[str, Any]] = [
        {
            "source": v.claim.source, "setting": v.claim.setting, "method": v.claim.method,
            "quantity": v.claim.quantity, "paper": v.claim.printed, "paper_spread": v.claim.spread,
            "meant": v.claim.meant, "protocol": v.protocol,
            "ours": None if v.ours is None else v.ours.mean,
            "ours_std": None if v.ours is None else v.ours.spread,
            "n": 0 if v.ours is None else v.ours.values.size,
            "difference": v.difference, "verdict": v.word, "why": v.why,
            "counted_as": _counted_as(v.claim),
        }
        for v in verdicts
    ]  # fmt: skip
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}
