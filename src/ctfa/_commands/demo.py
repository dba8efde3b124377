"""``ctfa demo``: both phases on generated gauges, then a report page on generated basins."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.utils import Bunch

from ctfa import labelled
from ctfa._commands._terminal import note, say
from ctfa._text import csv_text, write_whole
from ctfa.core.types import FloatArray
from ctfa.datasets import make_basins, make_gauges
from ctfa.estimators.multi_input import MultiInputCTFARegressor
from ctfa.estimators.shared import CTFARegressor
from ctfa.estimators.targets import TargetAggregator
from ctfa.report import write

N_TRAIN = 60
#: Basins, months and inputs of the map.
BASINS = (160, 96, 5)


#: Squared errors of each target on rows that no method saw, by method.
Errors = Mapping[str, FloatArray]


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    try:
        say(*_gauges(options.output, options.seed))
        say("", *_basins(options.output, options.seed))
    except OSError as error:
        note(f"ctfa demo: cannot write to {options.output}: {error.strerror}")
        return 1
    return 0


def _gauges(output: Path, seed: int) -> Iterator[str]:
    """Fit, compare with single-task regression, write the result, and say what came out."""
    gauges = make_gauges(n_years=N_TRAIN + 1000, random_state=seed)
    X, Y = gauges.data, gauges.target
    model = CTFARegressor()
    methods = {
        "mse_single_task": LinearRegression(),
        "mse_ridge": RidgeCV(np.logspace(-1, 3, 25), alpha_per_target=True),
        "mse_grouped": model,
    }
    errors = {}
    for name, method in methods.items():
        predicted = method.fit(X[:N_TRAIN], Y[:N_TRAIN]).predict(X[N_TRAIN:])
        errors[name] = np.mean((predicted - Y[N_TRAIN:]) ** 2, axis=0)
    _write(output, model, gauges, errors)
    yield from _summary(model, gauges, errors, output)


def _basins(output: Path, seed: int) -> Iterator[str]:
    """Group the basins of a map, write the report page, and say what came out."""
    basins = make_basins(*BASINS, n_regions=8, random_state=seed)
    page, title = output / "report.html", f"River flow of {BASINS[0]} basins"
    labels = all(find_spec(name) is not None for name in ("xarray", "h5netcdf", "geopandas"))
    if labels:
        data, places = basins.to_xarray(), basins.to_geopandas()
        options: dict[str, Any] = {"aggregate": "pool", "title": title}
        labelled.fit(data, target="flow", neighbours=places, **options).report(page)
    else:  # the same without the libraries of labelled data: numbers in the place of names
        neighbours = TargetAggregator(connectivity=basins.connectivity)
        model = MultiInputCTFARegressor(basins.layout, targets=neighbours, aggregate="pool")
        model.fit(basins.data, basins.target)
        given = {"target": "flow", "task": "basin", "sample": "month", "names": basins.target_names}
        both = basins.data, basins.target
        write(model, page, data=both, places=basins.polygons, title=title, **given)
    yield f"{BASINS[0]} basins on a map, each with its own weather"
    yield f"The page that tells which were merged, and why: {page}"
    if labels:
        labelled.write(data, output / "basins.nc")
        labelled.write(places, output / "basins.gpkg")
        yield (
            f"The same from files: ctfa fit {output / 'basins.nc'} -t flow --sample time "
            f"--task basin --neighbours {output / 'basins.gpkg'} -o run"
        )


def _summary(model: CTFARegressor, gauges: Bunch, errors: Errors, output: Path) -> Iterator[str]:
    n_targets, n_features = len(gauges.target_names), len(gauges.feature_names)
    yield f"{n_targets} river gauges, {n_features} monthly features, {N_TRAIN} years to learn from"
    yield ""
    yield f"Phase I: {n_targets} gauges -> {model.n_groups_} groups (max_loss {model.max_loss_:g})"
    for group, members in enumerate(model.partition_.groups):
        names = ", ".join(gauges.target_names[member] for member in members)
        yield f"  group {group}: {names}"
    yield ""
    n_means = [aggregator.n_groups_ for aggregator in model.features_]
    yield f"Phase II: {n_features} features -> {' / '.join(map(str, n_means))} for each group"
    for group, (features, effects) in enumerate(_effects(model, gauges)):
        strongest = np.argsort(-np.abs(effects))[:4]
        terms = [f"{effects[k]:+.2f} {features[k]}" for k in strongest]
        yield f"  group {group}, strongest effects in standard deviations of the flow:"
        yield from (f"    {term}" for term in terms)
    yield ""
    single, ridge, grouped = (part.mean() for part in errors.values())
    helped = int(np.count_nonzero(errors["mse_grouped"] < errors["mse_single_task"]))
    yield "Mean squared error on 1000 years not seen in training"
    yield f"  one regression per gauge       {single:7.3f}"
    yield f"  one ridge regression per gauge {ridge:7.3f}   ({ridge / single - 1:+.1%})"
    yield f"  groups and averaged features   {grouped:7.3f}   ({grouped / single - 1:+.1%})"
    yield (
        f"  {helped} of {n_targets} gauges predicted better than by their own regression, "
        f"{n_targets - helped} worse"
    )
    yield ""
    yield f"Written to {output}: summary.json, targets.csv, features.csv, merges.csv"


def _write(output: Path, model: CTFARegressor, gauges: Bunch, errors: Errors) -> None:
    """Write all files, each whole or not at all."""
    names, history = gauges.target_names, model.history_
    summary = {
        "n_targets": len(names),
        "n_groups": model.n_groups_,
        "n_features": len(gauges.feature_names),
        "n_feature_means": [aggregator.n_groups_ for aggregator in model.features_],
    } | {name: float(error.mean()) for name, error in errors.items()}
    merges = zip(history.block, history.other, history.loss, history.size, strict=True)
    found = enumerate(_effects(model, gauges))
    effects = ((group, *one) for group, each in found for one in zip(*each, strict=True))
    texts = {
        "summary.json": json.dumps(summary, indent=2) + "\n",
        "targets.csv": csv_text(
            ("target", "group", *errors),
            zip(names, model.labels_, *errors.values(), strict=True),
        ),
        "features.csv": csv_text(("group", "feature_mean", "coefficient"), effects),
        "merges.csv": csv_text(
            ("block", "other", "loss", "size"),
            ((names[block], names[other], loss, size) for block, other, loss, size in merges),
        ),
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(text.encode(), output / name)


def _effects(model: CTFARegressor, gauges: Bunch) -> Iterator[tuple[Sequence[str], FloatArray]]:
    """Names of the averaged features of each group, and their coefficients."""
    for aggregator, regressor in zip(model.features_, model.regressors_, strict=True):
        yield aggregator.get_feature_names_out(gauges.feature_names), regressor.coef_
