"""Verdicts and figures as tables to read in a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ctfa_study.reproduction._case import AUTHORS, HONEST, SHOWN
from ctfa_study.reproduction._claims import Claim
from ctfa_study.reproduction._results import Figure, Results
from ctfa_study.reproduction.compare import (
    AS_LOGGED,
    REPRODUCED,
    RULE,
    Judged,
    Verdict,
    agrees,
    counts,
    distinct,
)

if TYPE_CHECKING:
    from ctfa_study.reproduction._reproduce import Reproduction

WIDTH = 120
#: Relative differences beyond this are not told apart.
FAR = 10.0
#: Quantities that every table of figures ends with.
COSTS = ("groups", "features", "models", "seconds")


class Notes:
    """Reasons, each written once and pointed at by its number."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> str:
        """The mark of a reason, such as "[2]"; nothing for none."""
        if not text:
            return ""
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"


def number(value: float) -> str:
    """A number in as many digits as people print."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def with_spread(value: float, spread: float | None) -> str:
    """A number and what follows its plus-minus sign, unless it never varies."""
    return number(value) if not spread else f"{number(value)} +- {spread:.2g}"


def of_figure(figure: Figure | None) -> str:
    """Ours, with its standard deviation over seeds."""
    return "" if figure is None else with_spread(figure.mean, figure.spread)


def percent(difference: float | None) -> str:
    """By how many per cent ours differs from the printed number, while that says something."""
    if difference is None:
        return ""
    far = abs(difference) > FAR
    return f"beyond {FAR:,.0%}".replace("%", " %") if far else f"{100 * difference:+.1f} %"


def by_claim(verdicts: Iterable[Verdict]) -> list[tuple[Claim, dict[str, Verdict]]]:
    """Verdicts of each number, by protocol."""
    grouped: dict[int, tuple[Claim, dict[str, Verdict]]] = {}
    for verdict in verdicts:
        found = grouped.setdefault(id(verdict.claim), (verdict.claim, {}))[1]
        found[verdict.protocol] = verdict
    return list(grouped.values())


def verdict_cell(verdict: Verdict, notes: Notes) -> str:
    """Ours, the difference and the word, in one cell."""
    word = agrees(verdict)
    # A slip of print is as far off as it is, which says nothing.
    ratio = "" if word == AS_LOGGED else percent(verdict.difference)
    parts = (of_figure(verdict.ours), f"({ratio})" * bool(ratio), word,
             notes.mark(verdict.why))  # fmt: skip
    return " ".join(part for part in parts if part)


def protocols_of(verdicts: Iterable[Verdict]) -> list[str]:
    """The protocols that any number was measured by."""
    found = {verdict.protocol for verdict in verdicts}
    return [name for name in (AUTHORS, HONEST) if name in found]


def table(made: Reproduction) -> str:
    """The paper's numbers, ours, differences and verdicts; the statements; every figure."""
    lines = _heading(made.experiment.title, "=")
    if any(row["quick"] for row in made.results.rows):
        lines += ["QUICK: small cases that show that everything runs; verdicts say nothing.", ""]
    for name, text in made.experiment.protocols.items():
        lines += textwrap.wrap(f"{SHOWN[name]}: {text}", WIDTH, subsequent_indent="  ")
    lines += _verdict_lines(made.verdicts)
    for judged in made.statements:
        said = judged.statement
        lines += ["", *textwrap.wrap(f'"{said.quote}" ({said.source})', WIDTH)]
        lines += _indented(f"{judged.verdict}. Asked: {said.asked}. {judged.shown}")
        lines += [line for text in of_cases(judged) for line in _indented(text)]
    lines += ["", *_heading("Every figure, mean and standard deviation over seeds", "-")]
    lines += figure_lines(made.results)
    lines += ["", *textwrap.wrap(f"{in_words(made.verdicts)}. {RULE}", WIDTH)]
    lines += failures(made.results)
    return "\n".join(lines)


def in_words(verdicts: Sequence[Verdict]) -> str:
    """How many distinct results have each verdict."""
    found = [word for _, word in distinct(verdicts)]
    told = ", ".join(f"{count} {word}" for word, count in counts(found).items() if count)
    return f"{len(found)} distinct results: {told}"


def of_cases(judged: Judged) -> list[str]:
    """In which cases a statement holds and in which not, where that is not said already."""
    if len(judged.cases) < 2 or (judged.word == REPRODUCED and judged.shown):
        return []
    found = {"Holds": judged.names(holding=True), "Does not hold": judged.names(holding=False)}
    return [f"{word}: {_gathered(names)}." for word, names in found.items() if names]


def _gathered(names: Iterable[str]) -> str:
    """Cases, with what several of them begin with before a bar given once."""
    places: dict[str, list[str]] = {}
    for name in names:
        place, _, rest = name.rpartition(" | ")
        places.setdefault(place, []).append(rest)
    told = ((f"({place}) " * bool(place), "; ".join(found)) for place, found in places.items())
    return "; ".join(f"{place}{rest}" for place, rest in told)


def figure_lines(results: Results) -> list[str]:
    """One table per protocol and setting: methods by quantities, with what they cost."""
    lines: list[str] = []
    for heading, header, rows in figure_tables(results):
        lines += ["", heading, *aligned([header, *rows])]
    return lines


def figure_tables(results: Results) -> list[tuple[str, list[str], list[list[str]]]]:
    """Heading, header and rows of the table of each setting and protocol."""
    tables: dict[str, list[tuple[str, dict[str, Figure]]]] = {}
    for place, figures in results:
        if place["method"] == "data":  # its sizes are not figures of a method, and stand above
            continue
        heading = f"{place['setting']}, {SHOWN[place['protocol']]}"
        tables.setdefault(heading, []).append((place["method"], figures))
    made = []
    for heading, methods in tables.items():
        known = list(dict.fromkeys(name for _, figures in methods for name in figures))
        names = [n for n in known if n not in COSTS] + [n for n in COSTS if n in known]
        rows = [
            [method, *(_cell(name, figures.get(name)) for name in names)]
            for method, figures in methods
        ]
        made.append((heading, ["", *names], rows))
    return made


def _cell(quantity: str, figure: Figure | None) -> str:
    """A figure with its spread; of a time, the mean alone."""
    if figure is not None and quantity in ("seconds", "minutes"):
        return f"{figure.mean:.2g}" if figure.mean < 100 else number(round(figure.mean))
    return of_figure(figure)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]  # fmt: skip


def verdict_tables(verdicts: Sequence[Verdict], notes: Notes) -> dict[str, list[list[str]]]:
    """Header and rows of the numbers of each place of the paper; reasons go to ``notes``."""
    # A number that nothing was run for has its reason in the first column, whatever that is of.
    protocols = protocols_of(verdicts) or [""]
    tables: dict[str, list[list[str]]] = {}
    for claim, of_claim in by_claim(verdicts):
        header = ["", "paper", *(SHOWN.get(name, name) for name in protocols)]
        rows = tables.setdefault(f"{claim.source}: {claim.setting}", [header])
        found = {protocol or protocols[0]: verdict for protocol, verdict in of_claim.items()}
        nearest, *_ = found
        # Judged once, by the protocol nearest to the paper's: another measure gives other numbers.
        cells = [
            verdict_cell(found[name], notes)
            if name == nearest
            else of_figure(found[name].ours if name in found else None)
            for name in protocols
        ]
        rows.append([f"{claim.method}, {claim.quantity}", _printed(claim, notes), *cells])
    return tables


def _printed(claim: Claim, notes: Notes) -> str:
    """The paper's number, with a note on what it prints after the plus-minus sign."""
    of_spread = f"The paper's +-: {claim.spread_is}" if claim.spread and claim.spread_is else ""
    printed = f"{number(claim.printed)}"
    if claim.spread:
        printed += f" +- {claim.spread:g}"  # as many digits as are printed
    return f"{printed} {notes.mark(of_spread)}".rstrip()


def _verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    lines: list[str] = []
    notes = Notes()
    for heading, rows in verdict_tables(verdicts, notes).items():
        lines += ["", heading, *aligned(rows)]
    if notes.texts:
        lines.append("")
    for place, text in enumerate(notes.texts, start=1):
        lines += textwrap.wrap(f"[{place}] {text}", WIDTH, subsequent_indent="    ")
    return lines


def failures(results: Results) -> list[str]:
    """What could not be run, each reason once with how many cases it stopped."""
    said = Counter(row["error"] for row in results.failed)
    lines = []
    for error, count in said.items():
        first = next(row for row in results.failed if row["error"] == error)
        where = f"{first['setting']}, {first['method']}"
        more = f" and {count - 1} more" if count > 1 else ""
        lines += textwrap.wrap(f"Failed: {where}{more}: {error}", WIDTH, subsequent_indent="  ")
    return ["", *lines] if lines else []


def _heading(text: str, line: str) -> list[str]:
    return [text, line * len(text)]


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
