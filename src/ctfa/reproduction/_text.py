"""Verdicts as a table to read in a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ctfa.reproduction._results import Figure
from ctfa.reproduction.compare import RULE, Verdict, counts

if TYPE_CHECKING:
    from ctfa.reproduction._reproduce import Reproduction

WIDTH = 110


def number(value: float) -> str:
    """A number in as many digits as people print."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def with_spread(value: float, spread: float | None) -> str:
    """A number and what follows its plus-minus sign."""
    return number(value) if spread is None else f"{number(value)} +- {spread:.2g}"


def of_figure(figure: Figure | None) -> str:
    """Ours, or a dash."""
    return "-" if figure is None else with_spread(figure.mean, figure.spread)


def difference(verdict: Verdict) -> str:
    """By how many per cent ours differs from the printed number."""
    return "" if verdict.difference is None else f"{100 * verdict.difference:+.1f} %"


def table(made: Reproduction) -> str:
    """The paper's numbers, ours, differences and verdicts; then the statements."""
    lines = [made.experiment.title, "=" * len(made.experiment.title)]
    for name, text in made.experiment.protocols.items():
        lines += textwrap.wrap(f"{name}: {text}", WIDTH, subsequent_indent="  ")
    source = setting = None
    for verdict in made.verdicts:
        claim = verdict.claim
        if (claim.source, claim.setting) != (source, setting):
            source, setting = claim.source, claim.setting
            lines += ["", f"{source}: {setting}"]
            lines.append(f"  {'':38s} {'paper':>17s} {'ours':>17s} {'difference':>10s}  verdict")
        lines += _lines(verdict)
    for judged in made.statements:
        lines += ["", *textwrap.wrap(f'"{judged.statement.text}"', WIDTH)]
        lines += textwrap.wrap(
            f"{judged.word}: {judged.shown}", WIDTH, initial_indent="  ", subsequent_indent="  "
        )
    told = ", ".join(f"{count} {word}" for word, count in counts(made.verdicts).items())
    lines += ["", f"{sum(counts(made.verdicts).values())} numbers: {told}.", RULE]
    return "\n".join(lines)


def _lines(verdict: Verdict) -> list[str]:
    claim = verdict.claim
    name = f"{claim.method}, {claim.quantity}"
    end = f"{verdict.protocol}: {verdict.word}" if verdict.protocol else verdict.word
    first = (
        f"  {name:38.38s} {with_spread(claim.printed, claim.spread):>17s} "
        f"{of_figure(verdict.ours):>17s} {difference(verdict):>10s}  {end}"
    )
    indent = " " * 8
    why = textwrap.wrap(verdict.why, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [first, *why]
