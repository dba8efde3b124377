"""The page *What we could and could not reproduce*, written from stored results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ctfa_study.reproduction import _text as text
from ctfa_study.reproduction._case import SHOWN
from ctfa_study.reproduction._reproduce import Reproduction, stored
from ctfa_study.reproduction.compare import (
    AS_LOGGED,
    CANNOT,
    DIFFERS,
    LOG,
    MIXED,
    REPRODUCED,
    RULE,
    WORDS,
    Verdict,
    agrees,
    counts,
    distinct,
    kind,
)
from ctfa_study.reproduction.experiments import EXPERIMENTS

#: Of more numbers than this, those that differ are shown and the others left to the files.
MOST_NUMBERS = 60
#: So many results that cannot be run are named, more are counted.
FEW = 3
INTRODUCTION = """# What we could and could not reproduce

The numbers and statements of the paper, ours beside them, and a verdict. Figures are compared with
the authors' log, which is public with their code. The page is written from stored results by
`ctfa reproduce page`; `make reproduce` runs everything again.

Two protocols stand side by side where they differ. *As the authors ran it* follows their code: its
split, its measure, and which rows it learns from. The *common protocol* (`honest` in the files)
learns from training rows only and judges every method on the same rows by one measure, over several
seeds. Numbers are judged by the protocol nearest to the paper's; the other column is there to
compare methods with each other.

{rule} One whose print differs, where the authors' log has another number and that one agrees, is
*{logged}*.

What the text says is quoted, and judged in every case that it speaks of (data set, regressor, step
of a sweep): *{reproduced}* if it holds in all of them, *{differs}* if in none, *{mixed}* otherwise.
How each one is judged is said beside it.
"""
COUNTED = (
    "Distinct results: a quantity of a method in a setting counts once, however often it is "
    "printed, by the authors' protocol where it was run. Not counted are sizes and choices, what "
    "holds by definition, changes in per cent (they follow from two errors) and times."
)


def write_page(folder: Path, page: Path) -> Path:
    """Write the page from what is stored in ``folder``."""
    made = [stored(name, folder / name) for name in EXPERIMENTS]
    page.parent.mkdir(parents=True, exist_ok=True)
    draft = page.with_name(f".{page.name}")
    draft.write_text(page_text(made, folder, page.parent), encoding="utf-8")
    return draft.replace(page)


def page_text(made: Sequence[Reproduction], folder: Path, beside: Path) -> str:
    """The page; pictures are linked from the folder that it will lie in."""
    first = INTRODUCTION.format(
        rule=RULE, logged=AS_LOGGED, reproduced=REPRODUCED, differs=DIFFERS, mixed=MIXED
    )
    parts = [first, _results(made), _statements(made)]
    for one in made:
        pictures = sorted((folder / one.experiment.name).glob("*.png"))
        links = [Path(os.path.relpath(picture, beside)).as_posix() for picture in pictures]
        place = Path(os.path.relpath(folder / one.experiment.name, beside)).as_posix()
        parts.append(_section(one, place, links))
    return "\n".join([*parts, _cannot(made)])


def _results(made: Sequence[Reproduction]) -> str:
    """How many distinct results have each verdict, and how many more the authors' log has."""
    verdicts = [verdict for one in made for verdict in one.verdicts]
    found = distinct(verdicts)
    rows = [["", "distinct results", *WORDS, "command"]]
    for one in made:
        words = [word for claim, word in found if claim.experiment == one.experiment.name]
        rows.append([_link(one), str(len(words)), *_cells(words),
                     f"`ctfa reproduce {one.experiment.name}`"])  # fmt: skip
    every = [word for _, word in found]
    rows.append(["all", str(len(every)), *_cells(every), ""])
    lines = [COUNTED, "", _markdown(rows), ""]
    more = [word for _, word in distinct(verdicts, "log")]
    if more:
        told = ", ".join(f"{n} {word}" for word, n in counts(more).items() if n)
        lines += [f"Of {len(more)} further numbers that only the authors' log has: {told}.", ""]
    return "\n".join(lines)


def _statements(made: Sequence[Reproduction]) -> str:
    """How many statements have each verdict."""
    words = (REPRODUCED, MIXED, DIFFERS, CANNOT)
    rows = [["", "statements", *words]]
    every: list[str] = []
    for one in made:
        found = [judged.word for judged in one.statements if not judged.statement.identity]
        if found:
            rows.append([_link(one), str(len(found)), *_cells(found, words)])
            every += found
    rows.append(["all", str(len(every)), *_cells(every, words)])
    return _markdown(rows) + "\n"


def _cells(found: Iterable[str], words: Sequence[str] = WORDS) -> list[str]:
    return [str(n or "") for word, n in counts(found).items() if word in words]


def _link(one: Reproduction) -> str:
    return f"[{one.experiment.title}](#{_anchor(one.experiment.title)})"


def _section(made: Reproduction, folder: str, pictures: Sequence[str]) -> str:
    """What the text says first, then pictures, then number by number."""
    lines = [f"## {made.experiment.title}", ""]
    lines += [f"- *{SHOWN[name]}*: {said}" for name, said in made.experiment.protocols.items()]
    lines.append("")
    lines += _incomplete(made)
    lines += _said(made)
    lines += [f"![{_caption(link)}]({link})\n" for link in pictures]
    lines += _numbers(made)
    lines += [
        f"Every number: [verdicts.csv]({folder}/verdicts.csv); every figure of ours, with what it "
        f"cost: [table.txt]({folder}/table.txt), [figures.csv]({folder}/figures.csv). "
        f"{_versions(made)}",
        "",
    ]
    return "\n".join(lines)


def _said(made: Reproduction) -> list[str]:
    """Each statement with its verdict; what holds by construction after them."""
    lines: list[str] = []
    for judged in made.statements:
        said = judged.statement
        if said.identity:
            continue
        lines.append(f'- "{said.quote}" ({said.source}): **{judged.verdict}**. '
                     f"Asked: {said.asked}. {judged.shown}".rstrip())  # fmt: skip
        lines += [f"    - {told}" for told in text.of_cases(judged)]
    known = [judged for judged in made.statements if judged.statement.identity]
    if known:
        told = "; ".join(f'"{j.statement.quote}" ({j.statement.source}): {_held(j.cases)}'
                         for j in known)  # fmt: skip
        lines += ["", f"By construction, and therefore checked but not counted: {told}."]
    return [*lines, ""] if lines else []


def _held(cases: Mapping[str, bool]) -> str:
    return f"holds in {sum(cases.values())} of {len(cases)}"


def _numbers(made: Reproduction) -> list[str]:
    """Tables of results that were run, and the reasons that they point at."""
    notes = text.Notes()
    shown = [v for v in made.verdicts if _is_shown(v)]
    n_numbers = len({id(v.claim) for v in shown})
    body: list[str] = []
    if n_numbers > MOST_NUMBERS:
        shown = [v for v in shown if kind(v.claim) == "result"]
        n_numbers = len({id(v.claim) for v in shown})
        far = {id(v.claim) for v in shown if agrees(v) == DIFFERS}
        body += [f"{n_numbers - len(far)} of {n_numbers} numbers agree; these differ:", ""]
        shown = [v for v in shown if id(v.claim) in far]
    for heading, rows in text.verdict_tables(shown, notes).items():
        body += [f"**{heading}**", "", _markdown(rows), ""]
    body += _sizes(made.verdicts, notes)
    if notes.texts:
        body += ["What the marks say:", ""]
        body += [f"- [{place}] {why}" for place, why in enumerate(notes.texts, start=1)]
        body.append("")
    return body


def _is_shown(verdict: Verdict) -> bool:
    """Whether a number has a row: results, and the changes in per cent beside them."""
    claim = verdict.claim
    changes = kind(claim) == "none" and not claim.not_counted and not claim.source.startswith(LOG)
    return verdict.word != CANNOT and (kind(claim) == "result" or changes)


def _sizes(verdicts: Sequence[Verdict], notes: text.Notes) -> list[str]:
    """Sizes and choices in a line: how many agree, and which do not."""
    first: dict[int, Verdict] = {}
    for verdict in verdicts:
        if kind(verdict.claim) == "size" and verdict.ours is not None:
            first.setdefault(id(verdict.claim), verdict)
    if not first:
        return []
    far = [v for v in first.values() if v.word == DIFFERS]
    line = f"Sizes and choices: {len(first) - len(far)} of {len(first)} as printed"
    told = [
        f"{v.claim.setting}, {v.claim.quantity}: {text.number(v.claim.printed)} printed, "
        f"{text.of_figure(v.ours)} here {notes.mark(v.why)}"
        for v in far
    ]
    return [f"{line}; otherwise {'; '.join(told)}." if told else f"{line}.", ""]


def _cannot(made: Sequence[Reproduction]) -> str:
    """Results that cannot be run, by reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for one in made:
        why_of = {id(v.claim): v.why for v in one.verdicts}
        for claim, word in distinct(one.verdicts):
            if word == CANNOT:
                places = reasons.setdefault(why_of[id(claim)], {})
                printed = f"{claim.method}, {claim.quantity} {text.number(claim.printed)}"
                places.setdefault(f"{claim.source}: {claim.setting}", []).append(printed)
    if not reasons:
        return ""
    lines = ["## What cannot be run", ""]
    for why, places in reasons.items():
        told = (
            f"**{place}** ({'; '.join(found) if len(found) <= FEW else f'{len(found)} results'})"
            for place, found in places.items()
        )
        lines.append(f"- {', '.join(told)}. {why}")
    return "\n".join([*lines, ""])


def _incomplete(made: Reproduction) -> list[str]:
    """A warning where a run that was stopped, or whose cases failed, left means of fewer seeds."""
    missing = made.results.n_missing
    if not missing:
        return []
    total = missing + len(made.results.rows)
    return [f"**Not complete: {missing:,} of {total:,} cases are not stored, so that means may be "
            "over fewer seeds than stated here.**", ""]  # fmt: skip


def _versions(made: Reproduction) -> str:
    """What the stored figures were measured with; of the library itself, its version."""
    known: dict[str, None] = {}
    for row in made.results.rows:
        parts = {name: version.partition(" (")[0] for name, version in row["versions"].items()}
        known[", ".join(f"{name} {version}" for name, version in parts.items())] = None
    return f"Measured with {'; with '.join(known)}." if known else "Nothing is stored yet."


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _caption(link: str) -> str:
    return Path(link).stem.replace("_", " ")
