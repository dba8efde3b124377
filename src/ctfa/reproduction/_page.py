"""The page *What we could and could not reproduce*, written from stored results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctfa.reproduction import _text as text
from ctfa.reproduction import compare
from ctfa.reproduction._reproduce import Reproduction, stored
from ctfa.reproduction.compare import CANNOT, DIFFERS, REPRODUCED, RULE, counts
from ctfa.reproduction.experiments import EXPERIMENTS

#: Longer lists are folded, or left to the files.
MOST_NUMBERS, MOST_TABLES = 100, 12
INTRODUCTION = """# What we could and could not reproduce

Every number of the paper, ours, and a verdict. Numbers of figures are those of the authors' log,
which is public with their code. The page is written from stored results by `ctfa reproduce page`;
`make reproduce` runs everything again.

Two protocols stand side by side where they differ. *As the authors ran it* follows their code:
their split, their measure and what leaks from test to training rows, each named below. *Honest*
learns from training rows only, judges every method by one measure on the same splits, and shows the
spread over seeds.

{rule}
"""


def write_page(folder: Path, page: Path) -> Path:
    """Write the page from what is stored in ``folder``."""
    made = [stored(name, folder / name) for name in EXPERIMENTS]
    page.parent.mkdir(parents=True, exist_ok=True)
    draft = page.with_name(f".{page.name}")
    draft.write_text(page_text(made, folder, page.parent), encoding="utf-8")
    return draft.replace(page)


def page_text(made: Sequence[Reproduction], folder: Path, beside: Path) -> str:
    """The page; pictures are linked from the folder that it will lie in."""
    parts = [INTRODUCTION.format(rule=RULE), _overview(made), _in_short(made)]
    for one in made:
        pictures = sorted((folder / one.experiment.name).glob("*.png"))
        links = [Path(os.path.relpath(picture, beside)).as_posix() for picture in pictures]
        place = Path(os.path.relpath(folder / one.experiment.name, beside)).as_posix()
        parts.append(_section(one, place, links))
    return "\n".join(parts)


def _overview(made: Iterable[Reproduction]) -> str:
    """How many results have each verdict; what is no result of the paper is counted apart."""
    words = (REPRODUCED, DIFFERS, CANNOT)
    rows = [[
        "", "results", *words, "differs by a slip of print only", "sizes and choices that agree",
        "statements that hold", "command",
    ]]  # fmt: skip
    for one in made:
        of_kind = {
            kind: [v for v in one.verdicts if compare.kind(v.claim) == kind]
            for kind in compare.KINDS
        }
        found, sizes = counts(of_kind["result"]), counts(of_kind["size"])
        slips = sum(compare.is_slip(v) for v in of_kind["result"])
        held = sum(judged.word == REPRODUCED for judged in one.statements)
        rows.append([
            f"[{one.experiment.title}](#{_anchor(one.experiment.title)})",
            str(sum(found.values())), *(str(found[word]) for word in words), str(slips or ""),
            f"{sizes[REPRODUCED]} of {sum(sizes.values())}" if sum(sizes.values()) else "",
            f"{held} of {len(one.statements)}", f"`ctfa reproduce {one.experiment.name}`",
        ])  # fmt: skip
    first = (
        "Each result of the paper or of the authors' log once: by the authors' protocol where it "
        "was run, else by the honest one. Sizes of data and choices are counted apart, and numbers "
        "of earlier reruns of the authors' code, which the paper does not print, not at all."
    )
    return f"{first}\n\n{_markdown(rows)}\n"


def _in_short(made: Iterable[Reproduction]) -> str:
    """What the text says of each part, by what became of it."""
    words = {REPRODUCED: "holds", DIFFERS: "does not hold", CANNOT: "cannot be run"}
    lines = ["What became of what the text says, statement by statement:", ""]
    for one in made:
        told = []
        for word, said in words.items():
            texts = [judged.statement.text.rstrip(".") for judged in one.statements
                     if judged.word == word]  # fmt: skip
            told += [f"*{said}*: {'; '.join(texts)}."] if texts else []
        if told:
            lines.append(f"- **{one.experiment.title}**. {' '.join(told)}")
    return "\n".join(lines) + "\n"


def _section(made: Reproduction, folder: str, pictures: Sequence[str]) -> str:
    """What the text says first, then pictures, then number by number; long tables are folded."""
    lines = [f"## {made.experiment.title}", ""]
    lines += [f"- *{name}*: {said}" for name, said in made.experiment.protocols.items()]
    lines.append("")
    lines += _incomplete(made)
    if made.statements:
        lines += ["What the text says, and what ours show:", ""]
        for said, word, shown in made.statements:
            lines.append(f'- "{said.text}" ({said.source}): **{word}**. {shown}')
        lines.append("")
    lines += [f"![{_caption(link)}]({link})\n" for link in pictures]
    lines += _numbers(made)
    tables = text.figure_tables(made.results)
    if len(tables) <= MOST_TABLES:
        body = [part for heading, header, rows in tables
                for part in (f"*{heading}*", "", _markdown([header, *rows]), "")]  # fmt: skip
        lines += _folded("Every figure, with what it cost", body)
    lines += [
        f"All figures: [figures.csv]({folder}/figures.csv); verdicts: "
        f"[verdicts.csv]({folder}/verdicts.csv). {_versions(made)}",
        "",
    ]
    return "\n".join(lines)


def _numbers(made: Reproduction) -> list[str]:
    """A table a source and setting, and the reasons that they point at."""
    notes = text.Notes()
    tables = text.verdict_tables(made.verdicts, notes)
    body = [part for heading, rows in tables.items()
            for part in (f"**{heading}**", "", _markdown(rows), "")]  # fmt: skip
    n_numbers = sum(len(rows) - 1 for rows in tables.values())
    if n_numbers > MOST_NUMBERS:
        body = _folded(f"Number by number ({n_numbers})", body)
    if notes.texts:
        body += ["What the marks say:", ""]
        body += [f"- [{place}] {why}" for place, why in enumerate(notes.texts, start=1)]
        body.append("")
    return body


def _folded(title: str, body: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *body, "</details>", ""]


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
