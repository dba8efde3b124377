"""The data sets by name; adding one is one line here, or an entry of ``DATA`` at run time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from ctfa import datasets
from ctfa._text import nearest
from ctfa.datasets._catalogue import records
from ctfa.datasets._loaders import MULAN
from ctfa_study.comparison._problem import Problem, read_problem


class Data(NamedTuple):
    """Where a data set comes from, and how its rows are to be divided unless said otherwise."""

    load: Callable[[], Any]
    split: str = "random"
    gap: int = 0
    together: str = ""  # dates that stay together in grouped splits: "Y" for years, "D" for days
    caution: str = ""  # what figures on these data should be read with


def _some(load: Callable[[], Any], n_rows: int) -> Any:
    """Some rows of a large set, drawn once and for all."""
    data = load()
    rows = np.sort(np.random.default_rng(0).permutation(len(data["data"]))[:n_rows])
    return Bunch(**data | {"data": data["data"][rows], "target": data["target"][rows]})


def _in_time(load: Callable[[], Any], column: str) -> Any:
    """The rows of each task in the order of a feature that is a time."""
    data = load()
    time = data["data"][:, data["feature_names"].index(column)]
    order = np.lexsort((time, data["tasks"]))
    parts = {name: data[name][order] for name in ("data", "target", "tasks")}
    return Bunch(**data | parts)


#: Rows of Mulan's sets in time order that overlap their neighbours.
OVERLAP = {"andro": 5, "atp1d": 10, "atp7d": 10}

DATA: dict[str, Data] = {
    # Generated.
    "paper": Data(partial(datasets.make_paper_synthetic, 500, random_state=0)),
    "paper-noisy": Data(partial(datasets.make_paper_synthetic, 500, noise=10.0, random_state=0)),
    "groups": Data(partial(datasets.make_task_groups, random_state=0)),
    "groups-own-rows": Data(partial(datasets.make_task_groups, rows="own", random_state=0)),
    "basins": Data(
        partial(datasets.make_basins, 60, 120, 6, n_regions=6, random_state=0), "blocked"
    ),
    # Tasks with rows of their own.
    "school": Data(datasets.load_school),
    "school-27": Data(partial(datasets.load_school, n_schools=27)),
    # A patient's recordings of one day, six of them, are nearly copies.
    "parkinson": Data(partial(_in_time, datasets.load_parkinson, "test_time"), "blocked", gap=6),
    "computer": Data(datasets.load_computer),
    # Targets with the same inputs. A robot's rows are a tenth of a second apart.
    "sarcos": Data(datasets.load_sarcos, "blocked", gap=50),
    "tecator": Data(datasets.load_tecator),
    "qm9-2000": Data(partial(_some, datasets.load_qm9, 2000)),
    **{
        name: Data(
            partial(datasets.load_mulan, name),
            "blocked" if name in OVERLAP else "random",
            OVERLAP.get(name, 0),
        )
        for name in MULAN
    },
    # Tasks with inputs of their own, in time.
    "po-basins": Data(
        datasets.load_po_basins,
        "blocked",
        gap=24,
        together="Y",
        caution=records()["po_basins"].leak,
    ),
    "cru-iberia": Data(datasets.load_cru_iberia, "blocked", gap=2, together="Y"),
    "french-basins": Data(datasets.load_french_basins, "blocked", gap=13, together="Y"),
    "traffic": Data(datasets.load_traffic, "blocked", gap=9, together="D"),
}


def read_data(data: Any) -> tuple[Problem, str, int]:
    """A problem, its split and its gap, from a name or from the data themselves."""
    if not isinstance(data, str):
        in_order = hasattr(data, "get") and (data.get("time") is not None or data.get("ordered"))
        return read_problem(data), "blocked" if in_order else "random", 0
    name = read_name(data)
    entry = DATA[name]
    data = entry.load()
    if entry.together:
        data["groups"] = data["time"].astype(f"datetime64[{entry.together}]")
    return read_problem(data, name), entry.split, entry.gap


def read_name(name: str) -> str:
    """A data set's name here; loaders spell it with an underscore."""
    for known in (name, name.replace("_", "-")):
        if known in DATA:
            return known
    raise ValueError(f"there is no data set {name!r}{nearest(name, DATA)}.")
