"""Draw the pictures of the documents from generated data: ``make figures``.

``python docs/figures.py`` draws all of them into ``docs/img``; names draw some; ``--output`` draws
elsewhere. The same versions of the libraries give the same files, byte by byte. ``report`` is the
page of ``ctfa demo`` as a browser shows it, and needs one (see ``make browser``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import xarray as xr

import ctfa
from ctfa import CTFARegressor, MultiInputCTFARegressor, TargetAggregator
from ctfa.datasets import make_basins, make_gauges
from ctfa.plotting import (
    plot_coefficients,
    plot_cv_curve,
    plot_data_flow,
    plot_gains,
    plot_groups_map,
    plot_merge_tree,
    plot_merges,
    plot_path,
    plot_stability,
    plot_windows,
)

HERE = Path(__file__).parent
#: Dots an inch: sharp enough on a page, and a small file.
DPI = 100


@cache
def gauges() -> tuple[Any, Any]:
    """Twelve river gauges with the same 24 monthly features, and their model."""
    made = make_gauges(random_state=0, as_frame=True)
    return made, CTFARegressor().fit(made.data, made.target)


@cache
def basins() -> tuple[Any, Any]:
    """Sixty basins on a map, each with inputs of its own, and their model."""
    made = make_basins(60, 60, 8, n_regions=5, within=0.1, random_state=1)
    model = MultiInputCTFARegressor(
        made.layout,
        targets=TargetAggregator(connectivity=made.connectivity),
        aggregate="pool",
    )
    made.named = pd.DataFrame(made.target, columns=made.target_names)
    return made, model.fit(made.data, made.named)


def groups_map() -> Any:
    """Groups of basins on their map."""
    made, model = basins()
    return plot_groups_map(model, made.polygons)


def values_map() -> Any:
    """What each basin gains, on the same map."""
    made, model = basins()
    gain = compared()["gain"]
    return plot_groups_map(model, made.polygons, values=gain, label="gain on held-out rows")


@cache
def compared() -> Any:
    """Held-out errors of the basins beside those of models of their own."""
    made, model = basins()
    return model.compare(made.data, made.named)


def merge_tree() -> Any:
    """Every merge of the basins, up to the limit."""
    return plot_merge_tree(basins()[1])


def path() -> Any:
    """Groups and held-out error by limit."""
    return plot_path(basins()[1])


def cv_curve() -> Any:
    """The same errors, to judge a limit by."""
    return plot_cv_curve(basins()[1])


def merges() -> Any:
    """What each merge of basins saved and paid."""
    return plot_merges(basins()[1])


def coefficients() -> Any:
    """Effects of monthly features on groups of gauges."""
    return plot_coefficients(gauges()[1])


def windows() -> Any:
    """Windows of time of weekly series that were made of the past."""
    rng = np.random.default_rng(0)
    weather = rng.normal(size=(2, 412, 8))
    rain, heat = (ctfa.lagged(one, range(13)).columns.reshape(412, 8, 13) for one in weather)
    flow = rain[..., 3:9].mean(axis=-1) + 0.25 * rng.normal(size=(412, 8))
    flow[:, 4:] -= heat[:, 4:, :4].mean(axis=-1)
    held = {"flow": flow, "rain": weather[0], "heat": weather[1]}
    places = [f"{side} {number}" for side in ("north", "south") for number in range(1, 5)]
    weeks = pd.date_range("2018-01-01", periods=412, freq="7D")
    data = xr.Dataset(
        {name: (("time", "place"), values) for name, values in held.items()},
        coords={"time": weeks, "place": places},
    ).isel(time=slice(12, None))
    return plot_windows(ctfa.labelled.fit(data, target="flow", lags=range(13), held_out=None))


def gains() -> Any:
    """Predicted gains of the basins."""
    return plot_gains(basins()[1])


def held_out_gains() -> Any:
    """Gains on held-out rows beside those predicted."""
    return plot_gains(compared())


def stability() -> Any:
    """Basins found together on subsamples."""
    made, model = basins()
    model.stability(made.data, made.named, random_state=0)
    return plot_stability(model)


def data_flow() -> Any:
    """The model of the gauges as blocks."""
    made, model = gauges()
    return plot_data_flow(model, n_samples=len(made.data))


#: What is photographed and not drawn.
REPORT = "report"
FIGURES: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        groups_map,
        values_map,
        merge_tree,
        path,
        cv_curve,
        merges,
        coefficients,
        windows,
        gains,
        held_out_gains,
        stability,
        data_flow,
    )
}


def photograph(folder: Path) -> Path:
    """The report page of the demo, as it opens on a wide screen."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # for this picture alone

    from ctfa._commands.demo import write_page  # noqa: PLC0415

    browser = os.environ.get("CTFA_BROWSER") or shutil.which("chromium")
    if browser is None:
        raise SystemExit("report: no browser is installed (make browser says how)")
    file = folder / "report.png"
    with tempfile.TemporaryDirectory() as place, sync_playwright() as driver:
        write_page(Path(place))
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = opened.new_page(viewport={"width": 1280, "height": 1180})
        page.goto((Path(place) / "report.html").as_uri())
        page.wait_for_timeout(1000)
        page.screenshot(path=file)
        opened.close()
    return file


def draw(name: str, folder: Path) -> Path:
    """Draw one picture into a folder."""
    if name == REPORT:
        return photograph(folder)
    from matplotlib import pyplot  # noqa: PLC0415  # after the backend is chosen

    with mpl.rc_context({"savefig.dpi": DPI, "font.family": "DejaVu Sans"}):
        figure = FIGURES[name]().figure
        file = folder / f"{name}.png"
        # The name of the library's version would change the file and say nothing.
        figure.savefig(file, metadata={"Software": None})
        pyplot.close(figure)
    return file


def main(given: list[str] | None = None) -> None:
    """Draw what is asked for, and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    every = [*FIGURES, REPORT]
    parser.add_argument("names", nargs="*", help=f"of {', '.join(every)}; all for none")
    parser.add_argument("--output", type=Path, default=HERE / "img", help="folder to draw into")
    asked = parser.parse_args(given)
    unknown = sorted(set(asked.names) - set(every))
    if unknown:
        parser.error(f"no picture is called {unknown[0]!r}: choose from {', '.join(every)}")
    mpl.use("Agg")
    asked.output.mkdir(parents=True, exist_ok=True)
    for name in asked.names or every:
        file = draw(name, asked.output)
        print(f"{file} ({file.stat().st_size / 1024:.0f} kB)")


if __name__ == "__main__":
    main()
