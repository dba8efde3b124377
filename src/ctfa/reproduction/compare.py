"""The paper's number, ours, the difference, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ctfa.reproduction._case import AUTHORS, HONEST, Experiment
from ctfa.reproduction._claims import Claim, Claims, Statement
from ctfa.reproduction._results import Figure, Results

REPRODUCED, DIFFERS, CANNOT = "reproduced", "differs", "cannot be run"
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
            holds, shown = experiment.checks[statement.check](results)
            word = REPRODUCED if holds else DIFFERS
        except KeyError as missing:
            word, shown = CANNOT, f"not measured: {missing.args[0]}"
        judged.append(Judged(statement, word, shown))
    return judged


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
        agrees = is_close(claim.meant, claim.spread, ours, claim.repetitions)
        why = f"{claim.meant:g} is meant, which {'agrees' if agrees else 'differs too'}: {why}"
    return DIFFERS, why


#: What a number may be: a result, a size or choice, or a known rerun that the paper has not.
KINDS = ("result", "size", "rerun")
RERUN = "not in the paper"


def kind(claim: Claim) -> str:
    """Which of ``KINDS`` a number is."""
    if claim.source.startswith(RERUN):
        return "rerun"
    return "size" if claim.method in ("data", CHOICE) else "result"


def is_slip(verdict: Verdict) -> bool:
    """Whether the printed number differs, and the one that was meant agrees."""
    claim, ours = verdict.claim, verdict.ours
    if verdict.word != DIFFERS or claim.meant is None or ours is None:
        return False
    return is_close(claim.meant, claim.spread, ours, claim.repetitions)


def counts(verdicts: list[Verdict]) -> dict[str, int]:
    """How many numbers have each verdict, by the protocol nearest to the paper's."""
    first: dict[int, str] = {}
    for verdict in verdicts:
        first.setdefault(id(verdict.claim), verdict.word)
    words = list(first.values())
    return {word: words.count(word) for word in (REPRODUCED, DIFFERS, CANNOT)}


def columns(verdicts: list[Verdict]) -> dict[str, list[Any]]:
    """Verdicts as a table: one row a number and protocol."""
    rows: list[Mapping[str, Any]] = [
        {
            "source": v.claim.source, "setting": v.claim.setting, "method": v.claim.method,
            "quantity": v.claim.quantity, "paper": v.claim.printed, "paper_spread": v.claim.spread,
            "meant": v.claim.meant, "protocol": v.protocol,
            "ours": None if v.ours is None else v.ours.mean,
            "ours_std": None if v.ours is None else v.ours.spread,
            "n": 0 if v.ours is None else v.ours.values.size,
            "difference": v.difference, "verdict": v.word, "why": v.why,
        }
        for v in verdicts
    ]  # fmt: skip
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}
