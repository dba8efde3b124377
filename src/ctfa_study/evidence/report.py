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
from ctfa_study.evidence.methods import all_methods

#: Columns of the two wide tables: enough to judge by, few enough to read.
SHOWN = (
    "ridge", "lasso", "pls", "chain", "ward", "forest", "curds-whey", "true groups", "paper",
    "paper raw", "ours 1.5", "ours", "ours shrink", "ours flip", "ours guard", "ours I+II",
    "ours ridge", "ours ridge shrink",
)  # fmt: skip
BEYOND = ("forest each", "ours, forest", "mlp each", "ours, mlp", "ridge", "ours, RidgeCV")


def write_report(
    rows: list[dict[str, Any]], folder: Path, *, seeds: str, absent: list[str]
) -> Iterator[Path]:
    """Write everything; give the path of each file."""
    table = tables.frame(rows, seeds)
    cases = tables.ratios(table)
    demands = tables.all_bars(table, cases)
    features = tables.phase_two(table)
    mean_head = "ours" if "ours" in set(table["method"]) else "ours 1.5"
    points = tables.gains(table, mean_head)
    for name, content in {
        "bars": demands,
        "ratios": cases,
        "phase_two": features,
        "gains": points,
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
            tables.hurt_targets(table, mean_head),
            f"Of `{mean_head}`; geometric mean over the splits of the ratio to least squares.",
        ),
        section(
            "Phase II: our features against the authors'",
            features.drop(columns=["kind"], errors="ignore"),
            "Ratios of test MSE (on the paper's data, of the excess risk plus the noise).",
        ),
        section(
            "Gain promised by accepted merges, and realised",
            tables.gain_summary(points),
            f"Of `{mean_head}`, in variances of a target, mean over targets and problems.",
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
        "Ratios are to single-task least squares on the same data: below one is better. On "
        "synthetic families and the paper's data they are of excess risk (prediction against the "
        "noise-free signal), on real sets of test error.",
        "",
    ]
    if absent:
        lines += ["Skipped: " + "; ".join(absent) + ".", ""]
    lines += ["| method | |", "|---|---|"]
    lines += [f"| {method.name} | {method.text} |" for method in all_methods()]
    return "\n".join([*lines, ""])


def kinds(cases: pd.DataFrame) -> Iterator[str]:
    """For each kind of data: where every method stands, and the ratios one by one."""
    titles = {"synthetic": "Synthetic families", "paper": "The paper's data", "real": "Real sets"}
    for kind, title in titles.items():
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
    methods = ["ours", "ours 1.5", "ours shrink", "ours I+II"]
    worse = tables.losses(cases, [name for name in methods if name in set(cases["method"])])
    note = "Every case with a ratio above 1.005, worst first; `error` is of the log ratio."
    return section("Where ours loses to single-task least squares", worse, note)


def beyond_linear(cases: pd.DataFrame) -> str:
    """A forest, a network and ridge: a model a target against a model a group."""
    pairs = [("forest each", "ours, forest"), ("mlp each", "ours, mlp"), ("ridge", "ours, RidgeCV")]
    wide = cases.pivot_table("ratio", ["kind", "family", "case"], "method", sort=False)
    rows = []
    for each, group in pairs:
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
    note = "A model a group over a model a target, the same regressor in both."
    return section("Beyond least squares", pd.DataFrame(rows), note)


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
