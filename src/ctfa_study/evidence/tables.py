"""Ratios to single-task least squares, what follows from them, and what was asked beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ctfa_study.evidence.methods import REFERENCE, all_methods
from ctfa_study.evidence.problem import is_final

#: A case counts as won or lost when the mean log ratio is two standard errors off zero...
CLEAR = 2.0
#: ... and the ratio itself this far from one.
MATTERS = 0.005


def frame(rows: list[dict[str, Any]], seeds: str) -> pd.DataFrame:
    """Good rows of the tuning or the final seeds, with the reference's score beside each."""
    table = pd.DataFrame([row for row in rows if row["status"] == "ok"])
    if seeds != "all":
        table = table[table["seed"].map(is_final) == (seeds == "final")]
    single = table[table["method"] == REFERENCE].set_index(["case", "seed"])
    columns = ["score", "loss", "mse", "scores"]
    single = single.reindex(columns=columns).add_prefix("single_")
    table = table.join(single, on=["case", "seed"])
    order = {method.name: place for place, method in enumerate(all_methods())}
    return table.sort_values(["method"], key=lambda names: names.map(order), kind="stable")


def ratios(table: pd.DataFrame, against: str = REFERENCE) -> pd.DataFrame:
    """One row a case and method: ratio, its standard error, seeds, time, groups."""
    score = table.pivot_table("score", ["case", "seed"], "method")[against].rename("base")
    joined = table.join(score, on=["case", "seed"]).dropna(subset=["base"])
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
    real = cases["kind"] != "synthetic"
    named = cases.assign(row=np.where(real, cases["case"], cases["family"]))
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
    """Cases where one of these methods is worse than single-task least squares, worst first."""
    worse = cases[cases["method"].isin(methods) & (cases["ratio"] > 1.0 + MATTERS)]
    return worse.sort_values("ratio", ascending=False)[
        ["method", "kind", "case", "ratio", "error", "groups", "targets"]
    ]


def hurt_targets(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Real sets: targets that a method makes more than 1 % worse or better, mean over splits."""
    of = table[(table["kind"] == "real") & (table["method"] == method)]
    rows = []
    for case, group in of.groupby("case", sort=False):
        widest = int(group["L"].max())
        # A split on which a target was constant has fewer: it cannot be compared target by target.
        whole = group[group["L"] == widest]
        ours = np.array(whole["scores"].tolist())
        single = np.array(whole["single_scores"].tolist())
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


def gains(table: pd.DataFrame, method: str) -> pd.DataFrame:
    """Promised and realised gain of every problem, a target."""
    of = table[table["method"] == method].dropna(subset=["promised"])
    return pd.DataFrame(
        {
            "kind": of["kind"],
            "family": of["family"],
            "case": of["case"],
            "seed": of["seed"],
            "promised": of["promised"],
            "realised": of["single_loss"] - of["loss"],
        }
    ).reset_index(drop=True)


def gain_summary(points: pd.DataFrame) -> pd.DataFrame:
    """Means of promised and realised gain over each family, and their ratio."""
    means = points.groupby(["kind", "family"], sort=False)[["promised", "realised"]].mean()
    means["promised / realised"] = means["promised"] / means["realised"]
    return means.reset_index()


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


def all_bars(table: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """Every demand, in the order in which it was made."""
    bars = [
        *synthetic_bars(cases),
        *paper_bars(table),
        *real_bars(cases),
        *ridge_bars(table),
        *feature_bars(table),
        *gain_bars(table),
    ]
    return pd.DataFrame(bars)


def synthetic_bars(cases: pd.DataFrame) -> Iterator[Bar]:
    """Excess risk on the synthetic families."""
    for method in ("ours", "ours shrink", "ours 1.5", "paper"):
        column = _families(cases, "synthetic", method)
        what = "synthetic: geometric mean of the ratio over families"
        yield Bar.at_most(what, method, 0.45, geometric_mean(column))
        yield Bar.at_most("synthetic: worst family", method, 1.03, _worst(column))


def paper_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """Test error against that of the true groups on the paper's data, L = 100."""
    chosen = table[(table["kind"] == "paper") & table["case"].str.contains("L=100")]
    means = chosen.pivot_table("mse", "case", "method")
    for method in ("ours", "ours 1.5", "paper"):
        worst = float("nan")
        if method in means and "true groups" in means:
            worst = float((means[method] / means["true groups"]).max())
        what = "the paper's data, L = 100: test MSE over that of the true groups"
        yield Bar.at_most(what, method, 1.03, worst)


def real_bars(cases: pd.DataFrame) -> Iterator[Bar]:
    """Test error on real sets."""
    shrink, mean = (_families(cases, "real", name) for name in ("ours shrink", "ours"))
    yield Bar.at_most("real sets: worst", "ours shrink", 1.01, _worst(shrink))
    what = "real sets: geometric mean"
    yield Bar.at_most(what, "ours", 1.005, geometric_mean(mean))


def ridge_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """With ridge inside, against single-task ridge."""
    real = table[table["kind"] == "real"]
    for method in ("ours ridge", "ours ridge shrink", "ours, RidgeCV"):
        worst = float("nan")
        if {method, "ridge"} <= set(real["method"]):
            against = ratios(real[real["method"].isin([method, "ridge"])], "ridge")
            worst = float(against.loc[against["method"] == method, "ratio"].max())
        yield Bar.at_most("real sets: worst, over single-task RidgeCV", method, 1.01, worst)


def feature_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """Phase II against the authors' five folds."""
    features = phase_two(table)
    for kind, name in (("paper", "the paper's data"), ("real", "real sets")):
        of = features[features["kind"] == kind] if len(features) else features
        accuracy = geometric_mean(of["ours / authors"]) if len(of) else float("nan")
        total = worst = float("nan")
        if len(of):
            ours, refitting = of["seconds, ours"], of["seconds, authors by refitting"]
            total, worst = ours.sum() / refitting.sum(), (ours / refitting).max()
        what = f"Phase II, {name}"
        yield Bar.at_most(f"{what}: MSE over the authors' rule", "II ours", 1.0, accuracy)
        yield Bar.at_most(f"{what}: cost over refitting, all cases", "II ours", 0.01, total)
        yield Bar.at_most(f"{what}: cost over refitting, worst case", "II ours", 0.01, worst)


def gain_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """Promised over realised gain, over all synthetic problems.

    Gains are ten times larger where n is near D, so that this family decides the ratio of means:
    the others are shown without it too.
    """
    for method in ("ours", "ours 1.5"):
        points = gains(table, method) if "promised" in table else pd.DataFrame()
        points = points[points["kind"] != "real"] if len(points) else points
        others = points[points["family"] != "n near D"] if len(points) else points
        for what, of in (("", points), (", without n near D", others)):
            ratio = float("nan")
            if len(of):
                ratio = float(of["promised"].mean() / of["realised"].mean())
            met = None if np.isnan(ratio) else bool(0.75 <= ratio <= 1.25)
            title = f"promised over realised gain, synthetic{what}"
            yield Bar(title, method, "0.75 to 1.25", ratio, met)


def _families(cases: pd.DataFrame, kind: str, method: str) -> pd.Series:
    families = by_family(cases[cases["kind"] == kind])
    return families[method].dropna() if method in families else pd.Series(dtype=float)


def _worst(column: pd.Series) -> float:
    return float(column.max()) if len(column) else float("nan")
