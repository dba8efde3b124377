"""Windows of time on the authors' own drought task: ours beside their printed scores.

    CTFA_DATA=folder python -m ctfa_study.evidence.po_vhi [-o results/po_vhi]

Nine sub-basins of the Po (the tenth is a copy of another from 2010 on), vegetation health every
eight days from 25 lags of temperature and of precipitation. Everything is learned from the rows
before 2015. Two figures for each method: R2 in the years of test, 2015 to 2019, and over seven
blocks of two years before 2015, each predicted from the others; a mean over basins.
"""

from __future__ import annotations

import argparse
import importlib
import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import FeatureAggregator, labelled
from ctfa.core.types import AnyArray, BoolArray, FloatArray
from ctfa.datasets import load_po_vhi
from ctfa.estimators.features import usual_limit
from ctfa.plotting import plot_windows

#: Where results go, in the folder one is in: ``make po-vhi`` runs in the project's own.
RESULTS = Path("results", "po_vhi")
N_LAGS, TEST = 25, (2015, 2019)
#: Years that are predicted from the others, two at a time.
BLOCKS = [(year, year + 1) for year in range(2001, 2015, 2)]
PENALTIES = np.logspace(-1, 5, 19)
#: Printed scores of sets of features that were chosen on the years before 2015, as their notebooks
#: call them: method, inputs, selection, note.
PRINTED = {
    "authors: NonLinCFA, CMI best 5": (
        "NonLinCFA, internal ordering", "temp+prec", "CMI best 5", "features are in po_vhi.npz",
    ),
    "authors: NonLinCFA, wrapper best 5": (
        "NonLinCFA, internal ordering", "temp+prec", "wrapper best 5", "features are in po_vhi.npz",
    ),
}  # fmt: skip


class Windows:
    """Ours: windows for each basin, or for each region that is found."""

    def __init__(self, **options: Any) -> None:
        self.options = {"max_loss": -math.inf, "lags": range(N_LAGS)} | options

    def __call__(self, data: Any, train: BoolArray) -> tuple[FloatArray, Any]:
        """Predictions for all rows, and the fit."""
        options: dict[str, Any] = {
            "target": "vhi",
            "aggregate": "pool",
            "held_out": None,
        } | self.options
        fit = labelled.fit(data.isel(time=train), **options)
        return np.asarray(fit.predict(data)), fit


def ridge(data: Any, train: BoolArray, *, own: bool, lags: bool = True) -> tuple[FloatArray, None]:
    """One ridge regression per basin on every lag."""
    columns = [data[name] for name in ("temperature", "precipitation")] if lags else []
    past = [array.shift(time=lag) for array in columns for lag in range(N_LAGS)]
    past += [data.vhi.shift(time=1)] if own else []
    X, y = np.stack([array.values for array in past], axis=-1), data.vhi.values
    found = np.full(y.shape, np.nan)
    for basin in range(y.shape[1]):
        whole = np.isfinite(X[:, basin]).all(axis=1)
        rows = whole & train & np.isfinite(y[:, basin])
        model = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        model.fit(X[rows, basin], y[rows, basin])
        found[whole, basin] = model.predict(X[whole, basin])
    return found, None


def persistence(data: Any, train: BoolArray) -> tuple[FloatArray, None]:
    """The value of eight days before."""
    return data.vhi.shift(time=1).values, None


def looser(**options: Any) -> Windows:
    """Windows up to the limit for rows that do not depend on each other."""
    features = FeatureAggregator(max_loss=usual_limit(639), min_correlation=-1.0)
    return Windows(merge_features=features, **options)


METHODS: dict[str, Callable[..., tuple[FloatArray, Any]]] = {
    "windows, one model per basin": Windows(),
    "the same, limit for independent rows": looser(),
    "the same, yearly cycle taken off": Windows(anomalies="dayofyear"),
    "windows, basins merged (auto)": Windows(max_loss="auto"),
    "ridge on all 50 lags": partial(ridge, own=False),
    "windows and own past, one model per basin": Windows(own_past=1),
    "the same with own past, limit for independent rows": looser(own_past=1),
    "windows and own past, basins merged (auto)": Windows(own_past=1, max_loss="auto"),
    "ridge on all 50 lags and own past": partial(ridge, own=True),
    "own past alone (regression)": partial(ridge, own=True, lags=False),
    "persistence": persistence,
}


def r2(y: FloatArray, predicted: FloatArray) -> FloatArray:
    """R2 of each basin, about its mean over these rows."""
    known = np.isfinite(y) & np.isfinite(predicted)
    y = np.where(known, y, np.nan)
    left = np.nansum(np.where(known, y - predicted, 0.0) ** 2, axis=0)
    return np.asarray(1.0 - left / np.nansum((y - np.nanmean(y, axis=0)) ** 2, axis=0))


def measure(name: str, data: Any, years: AnyArray, known: BoolArray) -> tuple[pd.DataFrame, Any]:
    """One method in the years of test and over blocks of years before, basin by basin."""
    make, y = METHODS[name], data.vhi.values
    predicted, fit = make(data, known)
    test = (years >= TEST[0]) & (years <= TEST[1])
    over = np.full(y.shape, np.nan)
    for block in BLOCKS:
        held = np.isin(years, block)
        over[held] = make(data, known & ~held)[0][held]
    before = np.isfinite(over).any(axis=1)
    windows = np.full(y.shape[1], np.nan)
    if fit is not None:
        of_weather = fit.windows[fit.windows.feature != "vhi"]
        count = of_weather.groupby("region").size()
        windows = count.loc[fit.estimator.labels_].to_numpy()
    table = pd.DataFrame({
        "method": name, "basin": data.basin.values, "test": r2(y[test], predicted[test]),
        "blocks": r2(y[before], over[before]), "windows": windows,
    })  # fmt: skip
    return table, fit


def printed(scores: Any, basins: list[str]) -> Iterator[pd.DataFrame]:
    """The authors' scores of the same basins, as printed."""
    table = pd.DataFrame(scores)
    for name, (method, inputs, selection, note) in PRINTED.items():
        own = table[
            (table.metric == "R2") & (table.method == method) & (table.inputs == inputs)
            & (table.selection == selection) & (table.note == note)
        ]  # fmt: skip
        test = own.assign(test=own.test.astype(float)).groupby("basin").test.mean()
        yield pd.DataFrame({"method": name, "basin": basins, "test": test.loc[basins].to_numpy()})


def summary(scores: pd.DataFrame) -> str:
    """A mean over basins for each method, as a table of Markdown."""
    lines = ["| method | R2, 2015-2019 | R2, blocks of years before | windows per basin |"]
    lines.append("|---|---|---|---|")
    for name, own in scores.groupby("method", sort=False):
        blocks, windows = own.blocks.mean(), own.windows
        counted = "" if windows.isna().all() else f"{windows.min():.0f} to {windows.max():.0f}"
        before = "" if math.isnan(blocks) else f"{blocks:.3f}"
        lines.append(f"| {name} | {own.test.mean():.3f} | {before} | {counted} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every method, write tables and the picture, print the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    loaded = load_po_vhi(distinct=True)
    data = loaded.to_xarray()
    years = data.time.dt.year.values
    warnings.filterwarnings("ignore", "the past of|.*predictions are NaN", append=False)
    tables, fits = [], {}
    for name in METHODS:
        table, fits[name] = measure(name, data, years, years < TEST[0])
        tables.append(table)
        print(f"{name}: {table.test.mean():.3f}", flush=True)
    tables += printed(loaded.authors_scores, loaded.target_names)
    scores = pd.concat(tables, ignore_index=True)
    scores.round(4).to_csv(folder / "scores.csv", index=False)
    text = summary(scores)
    (folder / "table.md").write_text(text, encoding="utf-8")
    found = fits["windows, one model per basin"]
    names = dict(enumerate(loaded.target_names))
    windows = found.windows.assign(basin=found.windows.region.map(names))
    windows.round(4).to_csv(folder / "windows.csv", index=False)
    importlib.import_module("matplotlib").use("Agg")
    axes = plot_windows(found)
    axes.set_title("Windows of time in the vegetation health of nine basins of the Po")
    axes.figure.savefig(folder / "windows.png", dpi=100, metadata={"Software": None})
    print(text, end="")


if __name__ == "__main__":
    main()
