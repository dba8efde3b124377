"""The paper's figures, drawn from our results: sweeps with intervals, schemes and maps."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ctfa import CTFARegressor, MultiInputCTFARegressor, TargetAggregator
from ctfa.core.partition import Partition
from ctfa.core.types import FloatArray
from ctfa.datasets import make_basins
from ctfa.plotting import plot_data_flow, plot_groups_map
from ctfa_study.reproduction._case import HONEST
from ctfa_study.reproduction._results import Figure, Results
from ctfa_study.reproduction.experiments.generated._repetition import (
    BASE,
    BOTH,
    BY_NAME,
    PHASE_1,
    RIDGE,
    RISK_1,
    RISK_BOTH,
    RISK_RIDGE,
    SINGLE,
    SINGLE_RIDGE,
    Setting,
    Sweep,
)

DPI = 110
#: Basins of the map, in a quick run and else, and the limit at which neighbours are merged.
N_BASINS, MAX_LOSS = {True: 300, False: 1500}, 3.0
#: Degrees north in the middle of the map of basins, where degrees to the east are shorter.
LATITUDE = 53.0
DARK, WARM, GREY, GREEN = "#1b4965", "#c8553d", "#777777", "#2a7f4f"


#: Values too near to others for a label of their own.
UNLABELLED = (200, 300, 400, 750, 1500)


class Look(NamedTuple):
    """How a method is drawn; told apart without colours too."""

    colour: str
    line: str
    marker: str
    filled: bool = True


LOOKS = {
    SINGLE: Look(GREY, "-", "^"),
    PHASE_1: Look(DARK, "-", "o"),
    BOTH: Look(WARM, "-", "s"),
    RISK_1: Look(DARK, "--", "o", filled=False),
    RISK_BOTH: Look(WARM, "--", "s", filled=False),
    SINGLE_RIDGE: Look(GREY, ":", "v", filled=False),
    RISK_RIDGE: Look(GREEN, ":", "D", filled=False),
}
NAMES = {PHASE_1: "Phase I, paper's rule", BOTH: "Phase I+II, paper's rule"}
AXES = {
    "n": "training rows n",
    "D": "features D",
    "L": "tasks L",
    "sigma": "standard deviation of the noise",
    "epsilon_1": "epsilon_1 (squared units of a target)",
    "epsilon_2": "epsilon_2 (R2)",
    "noise_correlation": "correlation of the noise of two tasks",
}
#: From results, a setting and a method to what is drawn, one value per repetition.
Measure = Callable[[Results, str, str], FloatArray | None]


def draw(results: Results, folder: Path) -> list[Path]:
    """Write all pictures that there are results for."""
    quick = any(row["quick"] for row in results.rows)
    sizes = ("n", "D", "L", "sigma")
    pictures = {
        "figure3.png": (sizes, ERRORS, "Test error by size and noise"),
        "figure4.png": (("epsilon_1", "epsilon_2"), ERRORS, "Test error by epsilon"),
        "noise_correlation.png": (("noise_correlation",), ERRORS, "Correlated noise"),
        "r2.png": ((*sizes, "noise_correlation"), R2, "The same in R2"),
    }
    made = {"figure1.png": _schemes(), "figure2.png": _maps(quick=quick)}
    for name, (parameters, rows, title) in pictures.items():
        made[name] = _sweeps(results, parameters, rows, title)
    written = []
    for name, figure in made.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=DPI, bbox_inches="tight", pad_inches=0.15)
            written.append(folder / name)
    return written


def _of(quantity: str) -> Measure:
    def values(results: Results, name: str, method: str) -> FloatArray | None:
        found = results.get(HONEST, name, method, quantity)
        return None if found is None else found.values

    return values


def _gain_in_r2(results: Results, name: str, method: str) -> FloatArray | None:
    own, single = results.paired(HONEST, name, (method, SINGLE), "r2")
    return np.asarray(own - single) if own.size else None


ERRORS = {"test MSE": _of("mse"), "decrease of the MSE (%)": _of("mse decrease %")}
R2 = {"test R2": _of("r2"), "R2 less that of\nsingle tasks": _gain_in_r2}


def _sweeps(
    results: Results, parameters: Sequence[str], rows: dict[str, Measure], title: str
) -> Any | None:
    """A row for each measure, a column for each parameter; None where nothing was measured."""
    base = results.get(HONEST, BASE, SINGLE, "mse")
    if base is None:
        return None
    figure = _new(max(3.6 * len(parameters) + 0.4, 7.0), 6.6)
    panels = figure.subplots(len(rows), len(parameters), sharex="col", squeeze=False)
    for (label, measure), line in zip(rows.items(), panels, strict=True):
        for parameter, ax in zip(parameters, line, strict=True):
            _panel(ax, results, BY_NAME[parameter], measure)
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(axis="y", color="#eeeeee")
            if label == "test MSE":
                _logarithmic(ax)
        line[0].set_ylabel(label)
    for parameter, ax in zip(parameters, panels[-1], strict=True):
        ax.set_xlabel(AXES[parameter])
    known: dict[str, Any] = {}
    for ax in panels.flat:
        known |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    labels = [NAMES.get(method, method) for method in LOOKS if NAMES.get(method, method) in known]
    figure.legend(
        [known[label] for label in labels], labels, loc="outside lower center", frameon=False,
        ncols=7 if len(parameters) > 2 else 3,
    )  # fmt: skip
    n_repetitions = base.values.size
    means = f"means of {n_repetitions} repetitions with 95 % intervals"
    figure.suptitle(f"{title}: {means if n_repetitions > 1 else 'one repetition'}")
    return figure


def _panel(ax: Any, results: Results, sweep: Sweep, measure: Measure) -> None:
    """One measure of every method along one sweep."""
    values = sweep.points()
    if sweep.parameter == "D":
        values = [*values, 300.0]
    names = [sweep.name_of(value) for value in values]
    places = np.arange(len(values), dtype=float) if sweep.scale == "even" else np.array(values)
    for method, look in LOOKS.items():
        if sweep.scale == "even" and method in (RISK_1, RISK_BOTH):
            level = measure(results, BASE, method)
            if level is not None:
                ax.axhline(level.mean(), color=look.colour, linestyle=look.line, linewidth=1.0,
                           label=NAMES.get(method, method))  # fmt: skip
            continue
        if method in RIDGE and sweep.parameter != "D":
            continue
        _line(ax, places, [measure(results, name, method) for name in names], method, look)
    if sweep.scale == "log":
        ax.set_xscale("log")
        kept = [value for value in values if value not in UNLABELLED]
        ax.set_xticks(kept, [f"{value:g}" for value in kept])
        ax.set_xticks([], minor=True)
    if sweep.scale == "even":
        ax.set_xticks(places, [f"{value:g}" for value in values], rotation=45)


def _line(
    ax: Any, places: FloatArray, found: Sequence[FloatArray | None], method: str, look: Look
) -> None:
    there = [k for k, values in enumerate(found) if values is not None]
    if not there:
        return
    figures = [Figure(np.asarray(found[k])) for k in there]
    ax.errorbar(
        places[there],
        [figure.mean for figure in figures],
        [figure.half_width or 0.0 for figure in figures],
        color=look.colour, linestyle=look.line, marker=look.marker, markersize=4.5,
        markerfacecolor=look.colour if look.filled else "white", linewidth=1.2, elinewidth=0.9,
        capsize=2, label=NAMES.get(method, method),
    )  # fmt: skip


def _logarithmic(ax: Any) -> None:
    """Errors that differ by much on a logarithmic axis, with plain numbers."""
    low, high = ax.dataLim.intervaly
    if high < 2.0 * low:
        return
    ticker = importlib.import_module("matplotlib.ticker")
    ax.set_yscale("log")
    steps = (1.0, 2.0, 5.0) if high > 20.0 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    ax.yaxis.set_major_locator(ticker.LogLocator(subs=steps))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(ticker.NullLocator())


def _schemes() -> Any:
    """Figure 1: both block schemes, of models fitted here."""
    made = Setting().data(0)
    shared = CTFARegressor().fit(made.data[:250], made.target[:250])
    basins, own = _basins(N_BASINS[True])
    figure = _new(11.0, 9.0)
    upper, lower = figure.subplots(2, 1, height_ratios=(4, 7))
    plot_data_flow(shared, n_samples=250, ax=upper)
    upper.set_title("(a) Inputs that all targets share: " + upper.get_title())
    plot_data_flow(own, n_samples=len(basins.target), ax=lower)
    lower.set_title("(b) Each target with inputs of its own: " + lower.get_title())
    return figure


def _maps(*, quick: bool) -> Any:
    """Figure 2: basins before and after, on generated data."""
    basins, model = _basins(N_BASINS[quick])
    figure = _new(9.6, 7.0)
    left, right = figure.subplots(1, 2)
    n_basins = basins.target.shape[1]
    plot_groups_map(Partition.singletons(n_basins), basins.polygons, ax=left)
    left.set_title(f"(a) {n_basins:,} generated basins, 16 inputs each")
    plot_groups_map(model, basins.polygons, ax=right)
    right.set_title(f"(b) {model.n_groups_:,} groups of neighbours, one model each")
    for ax in (left, right):
        ax.set_aspect(1.0 / np.cos(np.deg2rad(LATITUDE)))
    return figure


def _basins(n_basins: int) -> tuple[Any, MultiInputCTFARegressor]:
    basins = make_basins(n_basins, random_state=0)
    targets = TargetAggregator(connectivity=basins.connectivity, max_loss=MAX_LOSS)
    model = MultiInputCTFARegressor(basins.layout, targets=targets, aggregate="mean", head="mean")
    return basins, model.fit(basins.data, basins.target)


def _new(width: float, height: float) -> Any:
    """A figure of its own: none that pyplot knows is touched."""
    kind = importlib.import_module("matplotlib.figure").Figure
    return kind(figsize=(width, height), layout="constrained")
