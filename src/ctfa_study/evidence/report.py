"""Tables as CSV, and one page of markdown that says the losses as plainly as the wins."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn

from ctfa_study.comparison._harness import source
from ctfa_study.evidence import PROTOCOL, plots, tables
from ctfa_study.evidence.methods import ALONE, DEFAULT, READABLE, all_methods

#: Columns of the two wide tables: enough to judge by, few enough to read.
SHOWN = (
    "single", "ridge", "lasso", "pls", "chain", "ward", "forest", "curds-whey", "true groups",
    DEFAULT, READABLE, ALONE, "default, mean head", "Phase I only",
    "least squares judged and served", "with RidgeCV", "flip", "guard", "paper", "paper raw",
)  # fmt: skip
#: Ours and a model per target, with the same regressor in both.
PAIRS = (("forest each", "with forest"), ("mlp each", "with network"), ("ridge", "with RidgeCV"))
TITLES = {
    "synthetic": "Synthetic families",
    "adversarial": "Families built to break the rule",
    "paper": "The paper's data",
    "real": "Real sets, over RidgeCV",
}


def write_report(
    rows: list[dict[str, Any]], folder: Path, *, seeds: str, absent: list[str]
) -> Iterator[Path]:
    """Write everything; give the path of each file."""
    table = tables.frame(rows, seeds)
    cases = tables.ratios(table)
    demands = tables.all_bars(table, cases)
    features = tables.phase_two(table)
    each = tables.members(table)
    points, coverage = tables.gains(each), tables.coverage(each)
    for name, content in {
        "bars": demands,
        "ratios": cases,
        "phase_two": features,
        "gains": points,
        "coverage": coverage,
    }.items():
        path = folder / f"{name}.csv"
        content.to_csv(path, index=False, float_format="%.5g")
        yield path
    page = folder / "report.md"
    parts = [
        heading(rows, table, seeds, absent),
        section("What was asked, and what was measured", demands),
        *kinds(cases),
        lost(cases),
        beyond_linear(cases),
        section(
            "Real sets: targets helped and hurt by more than 1 %",
            tables.hurt_targets(table, DEFAULT),
            f"Of `{DEFAULT}`; geometric mean over the splits of the ratio to RidgeCV.",
        ),
        section(
            "Gains that members of groups are told, and true ones",
            coverage,
            f"Means over members, in variances of a target. Told is `gain` of `why`, true is what "
            f"`{READABLE}` saves against `{ALONE}` on the test rows; covered is the share of true "
            "gains within two standard errors of what is told, `gained less` those below.",
        ),
        section(
            "Phase II: our features against the authors'",
            features.drop(columns=["kind"], errors="ignore"),
            "Ratios of test MSE (on the paper's data, of the excess risk plus the noise).",
        ),
        unavailable(rows),
    ]
    page.write_text("\n".join(part for part in parts if part))
    yield page
    yield from plots.draw_all(cases, points, folder)


def heading(rows: list[dict[str, Any]], table: pd.DataFrame, seeds: str, absent: list[str]) -> str:
    """What was run, with what."""
    problems = table[["case", "seed"]].drop_duplicates()
    minutes = sum(row.get("seconds", 0.0) for row in rows) / 60
    lines = [
        "# Evidence",
        "",
        f"Protocol {PROTOCOL} (`src/ctfa_study/evidence/README.md`), {seeds} seeds: "
        f"{len(problems)} problems, {len(table)} results. The fits of all seeds took "
        f"{minutes:.1f} minutes of one core. Library source {source()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}, Python {platform.python_version()}.",
        "",
        "Ratios are to a model per target on the same data: below one is better. On families and "
        "the paper's data they are of excess risk (prediction against the noise-free signal), to "
        "least squares; on real sets of test error, to RidgeCV.",
        "",
    ]
    if absent:
        lines += ["Skipped: " + "; ".join(absent) + ".", ""]
    lines += ["| method | |", "|---|---|"]
    lines += [f"| {method.name} | {method.text} |" for method in all_methods()]
    return "\n".join([*lines, ""])


def kinds(cases: pd.DataFrame) -> Iterator[str]:
    """For each kind of data: where every method stands, and the ratios one by one."""
    for kind, title in TITLES.items():
        chosen = cases[cases["kind"] == kind]
        if chosen.empty:
            continue
        note = (
            "Geometric mean and worst over families or sets; `worst case` is over sizes too. A "
            "case is won or lost when its ratio is 0.5 % and two standard errors off one."
        )
        yield section(f"{title}: where each method stands", tables.standing(cases, kind), note)
        wide = tables.by_family(chosen)
        wide = wide[[name for name in SHOWN if name in wide]]
        yield section(f"{title}: ratio of each method", wide.reset_index(names="case"))


def lost(cases: pd.DataFrame) -> str:
    """Where ours is worse than no aggregation."""
    methods = [DEFAULT, READABLE, "default, mean head", "Phase I only", "with RidgeCV"]
    worse = tables.losses(cases, [name for name in methods if name in set(cases["method"])])
    note = (
        "Every case with a ratio above 1.005, worst first; `error` is of the log ratio. Families "
        "and the paper's data against least squares, real sets against RidgeCV."
    )
    return section("Where ours loses to a model per target", worse, note)


def beyond_linear(cases: pd.DataFrame) -> str:
    """A forest, a network and ridge: a model per target against a model per group."""
    wide = cases.pivot_table("ratio", ["kind", "family", "case"], "method", sort=False)
    rows = []
    for each, group in PAIRS:
        if not {each, group} <= set(wide.columns):
            continue
        ratio = (wide[group] / wide[each]).dropna().rename("ratio").reset_index()
        for kind, of in ratio.groupby("kind", sort=False):
            rows.append(
                {
                    "regressor": each,
                    "on": kind,
                    "cases": len(of),
                    "group over each, mean": tables.geometric_mean(of["ratio"]),
                    "best": of["ratio"].min(),
                    "worst": of["ratio"].max(),
                    "worst on": of.loc[of["ratio"].idxmax(), "case"],
                }
            )
    note = "Ours with a regressor over the same regressor for every target by itself."
    return section("Other regressors", pd.DataFrame(rows), note)


def unavailable(rows: list[dict[str, Any]]) -> str:
    """What could not be run, and why."""
    bad = pd.DataFrame([row for row in rows if row["status"] != "ok"])
    if bad.empty:
        return ""
    counts = bad.groupby(["method", "status", "why"], sort=False).size().rename("times")
    return section("Not run", counts.reset_index())


def section(title: str, content: pd.DataFrame, note: str = "") -> str:
    """A heading, a note and a table."""
    if content.empty:
        return ""
    lines = [f"## {title}", ""]
    if note:
        lines += [note, ""]
    lines.append("| " + " | ".join(str(name) for name in content.columns) + " |")
    lines.append("|" + "---|" * content.shape[1])
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in content.itertuples(index=False)]
    return "\n".join([*lines, ""])


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return (
            f"{value:.0f}"
            if abs(value) >= 100
            else f"{value:.3g}"
            if abs(value) < 0.1
            else f"{value:.3f}"
        )
    return str(value).replace("|", "/")
