"""Ratios to a model per target, what follows from them, and what was asked beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ctfa_study.evidence.methods import (
    ALONE,
    DEFAULT,
    OF_REAL,
    READABLE,
    REFERENCE,
    all_methods,
)
from ctfa_study.evidence.problem import is_final

#: A case counts as won or lost when the mean log ratio is two standard errors off zero...
CLEAR = 2.0
#: ... and the ratio itself this far from one.
MATTERS = 0.005


def frame(rows: list[dict[str, Any]], seeds: str) -> pd.DataFrame:
    """Good rows of the tuning or the final seeds, with the error of least squares beside each."""
    table = pd.DataFrame([row for row in rows if row["status"] == "ok"])
    if seeds != "all":
        table = table[table["seed"].map(is_final) == (seeds == "final")]
    single = table[table["method"] == REFERENCE].set_index(["case", "seed"])
    table = table.join(single["mse"].rename("single_mse"), on=["case", "seed"])
    order = {method.name: place for place, method in enumerate(all_methods())}
    return table.sort_values(["method"], key=lambda names: names.map(order), kind="stable")


def reference(kind: str) -> str:
    """What a kind of data is held against: a model per target, on real sets a penalised one."""
    return OF_REAL if kind == "real" else REFERENCE


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """One row per case and method: ratio to the reference, its error, seeds, time, groups."""
    of_reference = table["method"] == table["kind"].map(reference)
    base = table[of_reference].set_index(["case", "seed"])["score"].rename("base")
    joined = table.join(base, on=["case", "seed"]).dropna(subset=["base"])
    keys = ["kind", "family", "case", "method"]
    rows = [
        dict(zip(keys, names, strict=True)) | _ratio(group, names[0])
        for names, group in joined.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows)


def _ratio(group: pd.DataFrame, kind: str) -> dict[str, float]:
    logs = np.log(group["score"] / group["base"])
    pooled = group["score"].sum() / group["base"].sum()
    return {
        # Splits of a real set differ in difficulty, draws of a family only by chance.
        "ratio": geometric_mean(np.exp(logs)) if kind == "real" else pooled,
        "error": logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan,
        "seeds": len(logs),
        "seconds": group["seconds"].mean(),
        "groups": group["groups"].mean() if "groups" in group else np.nan,
        "targets": group["L"].mean(),
    }


def by_family(cases: pd.DataFrame) -> pd.DataFrame:
    """Families (a real case is its own) by methods; a family is the geometric mean of its sizes."""
    drawn = cases["kind"].isin(("synthetic", "adversarial"))
    named = cases.assign(row=np.where(drawn, cases["family"], cases["case"]))
    methods = list(dict.fromkeys(cases["method"]))
    rows = list(dict.fromkeys(named["row"]))
    table = named.pivot_table("ratio", "row", "method", aggfunc=geometric_mean, sort=False)
    return table.reindex(index=sorted(rows, key=rows.index), columns=methods)


def geometric_mean(values: Any) -> float:
    """Of positive numbers; NaN of none."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    return float(np.exp(np.log(values).mean())) if values.size else float("nan")


def standing(cases: pd.DataFrame, kind: str) -> pd.DataFrame:
    """For each method: geometric mean and worst over families or sets, cases won and lost."""
    chosen = cases[cases["kind"] == kind]
    families = by_family(chosen)
    rows = []
    for method in families:
        of = chosen[chosen["method"] == method]
        clear = (np.log(of["ratio"]).abs() > CLEAR * of["error"]) & (
            (of["ratio"] - 1).abs() > MATTERS
        )
        column = families[method].dropna()
        rows.append(
            {
                "method": method,
                "mean": geometric_mean(column),
                "worst": column.max(),
                "worst on": column.idxmax(),
                "worst case": of["ratio"].max(),
                "won": int((clear & (of["ratio"] < 1)).sum()),
                "even": int((~clear).sum()),
                "lost": int((clear & (of["ratio"] > 1)).sum()),
                "groups / targets": (of["groups"] / of["targets"]).mean(),
                "seconds": of["seconds"].mean(),
            }
        )
    return pd.DataFrame(rows)


def losses(cases: pd.DataFrame, methods: list[str]) -> pd.DataFrame:
    """Cases where one of these methods is worse than a model per target, worst first."""
    worse = cases[cases["method"].isin(methods) & (cases["ratio"] > 1.0 + MATTERS)]
    return worse.sort_values("ratio", ascending=False)[
        ["method", "kind", "case", "ratio", "error", "groups", "targets"]
    ]


def hurt_targets(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Real sets: targets that a method makes more than 1 % worse or better, mean over splits."""
    real = table[table["kind"] == "real"]
    if real.empty:
        return pd.DataFrame()
    base = real[real["method"] == OF_REAL].set_index(["case", "seed"])["scores"].rename("base")
    of = real[real["method"] == method].join(base, on=["case", "seed"]).dropna(subset=["base"])
    rows = []
    for case, group in of.groupby("case", sort=False):
        widest = int(group["L"].max())
        # A split on which a target was constant has fewer: it cannot be compared target by target.
        whole = group[group["L"] == widest]
        ours = np.array(whole["scores"].tolist())
        single = np.array(whole["base"].tolist())
        change = np.exp(np.log(ours / single).mean(axis=0))
        rows.append(
            {
                "set": case,
                "targets": widest,
                "groups": group["groups"].mean(),
                "helped": int((change < 0.99).sum()),
                "hurt": int((change > 1.01).sum()),
                "worst target": int(np.argmax(change)),
                "its ratio": float(change.max()),
            }
        )
    return pd.DataFrame(rows)


def members(table: pd.DataFrame) -> pd.DataFrame:
    """Members of merged groups: the gain that each is told, its error, and what it gains in truth.

    That is the error of our ridge regression of the target by itself less that of its group's
    model, on the test rows, in variances of the training rows.
    """
    names = ["losses", "told", "told_error"]
    if not set(names) <= set(table):
        return pd.DataFrame()
    key = ["kind", "family", "case", "seed", "grouped"]
    read = table[table["method"] == READABLE].set_index(key)[names]
    alone = table[table["method"] == ALONE].set_index(key)["losses"].rename("alone")
    both = read.join(alone, how="inner").explode([*names, "alone"])
    each = both.astype(float).dropna().reset_index()
    gained = each["alone"] - each["losses"]
    return each[[*key, "told", "told_error"]].assign(gained=gained)


def gains(each: pd.DataFrame) -> pd.DataFrame:
    """Told and true gain of every problem with a merge, mean over members of merged groups."""
    if each.empty:
        return pd.DataFrame()
    keys = ["kind", "family", "case", "seed"]
    return each.groupby(keys, sort=False)[["told", "gained"]].mean().reset_index()


def coverage(each: pd.DataFrame) -> pd.DataFrame:
    """Share of members whose true gain is within two standard errors of what they are told.

    A family once with groups in truth, once without. Real sets are left out: theirs are not known.
    """
    if each.empty:
        return pd.DataFrame()
    known = each[each["kind"] != "real"]
    known = known.assign(covered=_covered(known), below=_below(known))
    rows = known.groupby(["kind", "family", "grouped"], sort=False).agg(
        members=("told", "size"),
        told=("told", "mean"),
        gained=("gained", "mean"),
        error=("told_error", "mean"),
        covered=("covered", "mean"),
        below=("below", "mean"),
    )
    return rows.reset_index().rename(columns={"grouped": "groups", "below": "gained less"})


def _covered(each: pd.DataFrame) -> pd.Series:
    return (each["told"] - each["gained"]).abs() <= 2.0 * each["told_error"]


def _below(each: pd.DataFrame) -> pd.Series:
    """Who gains less than two standard errors below what it is told."""
    return each["gained"] < each["told"] - 2.0 * each["told_error"]


def phase_two(table: pd.DataFrame) -> pd.DataFrame:
    """Our features against the authors', case by case: accuracy, features, cost."""
    wide = table[table["method"].isin(["II ours", "II authors"])]
    if wide.empty:
        return pd.DataFrame()
    rows = []
    for case, group in wide.groupby("case", sort=False):
        ours = group[group["method"] == "II ours"].set_index("seed")
        authors = group[group["method"] == "II authors"].set_index("seed")
        both = ours.index.intersection(authors.index)
        if both.empty:
            continue
        ours, authors = ours.loc[both], authors.loc[both]
        rows.append(
            {
                "case": case,
                "kind": ours["kind"].iloc[0],
                "D": ours["D"].mean(),
                "ours / single": geometric_mean(ours["mse"] / ours["single_mse"]),
                "authors / single": geometric_mean(authors["mse"] / authors["single_mse"]),
                "ours / authors": geometric_mean(ours["mse"] / authors["mse"]),
                "features, ours": ours["features"].mean(),
                "features, authors": authors["features"].mean(),
                "seconds, ours": ours["seconds"].mean(),
                "seconds, authors in closed form": authors["seconds"].mean(),
                "seconds, authors by refitting": authors["refit_seconds"].mean(),
                "refitting / ours": authors["refit_seconds"].sum() / ours["seconds"].sum(),
            }
        )
    return pd.DataFrame(rows)


# --------------------------------------------------------------------- what was asked beforehand


class Bar(NamedTuple):
    """One demand: what, the limit, the figure."""

    what: str
    method: str
    limit: str
    measured: float
    met: bool | None  # None: nothing to measure

    @classmethod
    def at_most(cls, what: str, method: str, limit: float, measured: float) -> Bar:
        """A figure that must not exceed a limit."""
        met = None if np.isnan(measured) else bool(measured <= limit)
        return cls(what, method, f"<= {limit:g}", measured, met)

    @classmethod
    def at_least(cls, what: str, method: str, limit: float, measured: float) -> Bar:
        """A figure that must not fall below a limit."""
        met = None if np.isnan(measured) else bool(measured >= limit)
        return cls(what, method, f">= {limit:g}", measured, met)


def all_bars(table: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Every demand, in the order in which it was made."""
    bars = [
        *family_bars(cases),
        *memory_bars(cases),
        *real_bars(cases),
        *paper_bars(table),
        *coverage_bars(members(table)),
    ]
    return pd.DataFrame(bars)


#: Geometric mean and worst family asked, by kind and method.
ASKED = {
    ("synthetic", DEFAULT): (0.31, 1.03),
    ("synthetic", READABLE): (0.32, 1.05),
    ("adversarial", DEFAULT): (0.55, 1.03),
}


def family_bars(cases: pd.DataFrame) -> Iterator[Bar]:
    """Excess risk on the families, over that of single-task least squares."""
    for (kind, method), (mean, worst) in ASKED.items():
        column = _families(cases, kind, method)
        what = f"{kind}: geometric mean of the ratio over families"
        yield Bar.at_most(what, method, mean, geometric_mean(column))
        yield Bar.at_most(f"{kind}: worst family", method, worst, _worst(column))


def memory_bars(cases: pd.DataFrame) -> Iterator[Bar]:
    """Rows that remember the row before: groups are to be found, and none where there are none."""
    column = _families(cases, "adversarial", DEFAULT)
    for family, limit in (("memory, groups", 0.50), ("memory, unrelated", 1.02)):
        measured = float(column.get(family, np.nan))
        yield Bar.at_most(f"adversarial: {family}", DEFAULT, limit, measured)


def real_bars(cases: pd.DataFrame) -> Iterator[Bar]:
    """Test error on real sets, over that of RidgeCV."""
    column = _families(cases, "real", DEFAULT)
    what = "real sets, over RidgeCV: geometric mean"
    yield Bar.at_most(what, DEFAULT, 1.00, geometric_mean(column))
    yield Bar.at_most("real sets, over RidgeCV: worst", DEFAULT, 1.01, _worst(column))


def paper_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """Test error of both phases over that of single-task least squares on the paper's data."""
    chosen = table[(table["kind"] == "paper") & (table["method"] == DEFAULT)]
    means = chosen.groupby("case")[["mse", "single_mse"]].mean()
    what = "the paper's data, both phases: test MSE over single-task"
    ratio = geometric_mean(means["mse"] / means["single_mse"])
    yield Bar.at_most(f"{what}, geometric mean", DEFAULT, 0.63, ratio)


def coverage_bars(each: pd.DataFrame) -> Iterator[Bar]:
    """Whether members gain what they are told, where the truth is known."""
    known = each[each["kind"] != "real"] if len(each) else each
    for name, kept in (
        ("", (True, False)),
        (", with groups", (True,)),
        (", without groups", (False,)),
    ):
        of = known[known["grouped"].isin(kept)] if len(known) else known
        share = float(_covered(of).mean()) if len(of) else float("nan")
        what = f"true gains within two standard errors of what members are told{name}"
        yield Bar.at_least(what, READABLE, 0.85, share)


def _families(cases: pd.DataFrame, kind: str, method: str) -> pd.Series:
    families = by_family(cases[cases["kind"] == kind])
    return families[method].dropna() if method in families else pd.Series(dtype=float)


def _worst(column: pd.Series) -> float:
    return float(column.max()) if len(column) else float("nan")
