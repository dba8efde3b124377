"""What was asked of the method beforehand, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence import tables


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
        yield Bar.at_most(what, method, 0.45, tables.geometric_mean(column))
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
    yield Bar.at_most(what, "ours", 1.005, tables.geometric_mean(mean))


def ridge_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """With ridge inside, against single-task ridge."""
    real = table[table["kind"] == "real"]
    for method in ("ours ridge", "ours ridge shrink", "ours, RidgeCV"):
        worst = float("nan")
        if {method, "ridge"} <= set(real["method"]):
            against = tables.ratios(real[real["method"].isin([method, "ridge"])], "ridge")
            worst = float(against.loc[against["method"] == method, "ratio"].max())
        yield Bar.at_most("real sets: worst, over single-task RidgeCV", method, 1.01, worst)


def feature_bars(table: pd.DataFrame) -> Iterator[Bar]:
    """Phase II against the authors' five folds."""
    features = tables.phase_two(table)
    for kind, name in (("paper", "the paper's data"), ("real", "real sets")):
        of = features[features["kind"] == kind] if len(features) else features
        accuracy = tables.geometric_mean(of["ours / authors"]) if len(of) else float("nan")
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
        points = tables.gains(table, method) if "promised" in table else pd.DataFrame()
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
    families = tables.by_family(cases[cases["kind"] == kind])
    return families[method].dropna() if method in families else pd.Series(dtype=float)


def _worst(column: pd.Series) -> float:
    return float(column.max()) if len(column) else float("nan")
