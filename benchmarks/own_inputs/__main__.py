"""Targets with inputs of their own, on real series: every method on the same blocks of time.

    CTFA_DATA=folder python benchmarks/own_inputs [--sets "Po basins" ...] [--jobs 2]

Three splits: each third of the rows is left out once, everything is chosen on the others. The
figure is the mean squared error on the rows left out, in units of each target's variance over the
training rows, over that of one ridge regression a target (penalty by generalised cross-validation).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sets import CAUTIONS, SETS, OwnInputs
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from ctfa import MultiInputCTFARegressor, TargetAggregator, multi_input_layout

PENALTIES = np.logspace(-3, 4, 20)
RIVAL = "ridge, one a target"


def ridge() -> RidgeCV:
    """The regressor of every penalised method."""
    return RidgeCV(PENALTIES)


METHODS: dict[str, Callable[[np.ndarray], Any]] = {
    RIVAL: lambda layout: MultiInputCTFARegressor(layout, ridge(), targets=SINGLE),
    "least squares, one a target": lambda layout: MultiInputCTFARegressor(layout, targets=SINGLE),
    "mean (the paper's variant), auto": MultiInputCTFARegressor,
    "auto, head='mean', ridge": lambda layout: MultiInputCTFARegressor(
        layout, ridge(), aggregate="auto"
    ),
    "auto, head='shrink', ridge": lambda layout: MultiInputCTFARegressor(
        layout, ridge(), aggregate="auto", head="shrink"
    ),
    "the same, merged by ridge too": lambda layout: MultiInputCTFARegressor(
        layout,
        ridge(),
        targets=TargetAggregator(solver="ridge"),
        aggregate="auto",
        head="shrink",
    ),
}
#: Every series in units of its own spread, and no merge.
SINGLE = TargetAggregator(max_loss=-np.inf)


class Result(NamedTuple):
    """One method on one split."""

    data: str
    method: str
    error: float
    groups: int
    aggregate: str
    seconds: float


def measure(name: str, data: OwnInputs, method: str, split: tuple[Any, Any]) -> Result:
    """Fit on the training rows, judge on the others."""
    X, layout = multi_input_layout(data.inputs)
    train, test = split
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method](layout).fit(X[train], data.target[train])
        predicted = model.predict(X[test])
    unit = np.nanvar(data.target[train], axis=0)
    # Rows that a single target could not predict are judged for nobody.
    own = ~np.isnan(np.where(np.isnan(data.inputs[test]).all(axis=0), 0.0, data.inputs[test]))
    judged = own.all(axis=2) & ~np.isnan(data.target[test])
    squares = ((np.nan_to_num(predicted) - np.nan_to_num(data.target[test])) ** 2 / unit)[judged]
    taken = time.perf_counter() - start
    return Result(name, method, float(squares.mean()), model.n_groups_, model.aggregate_, taken)


def table(results: list[Result]) -> Iterator[str]:
    """Ratios to the rival, split by split."""
    for name in dict.fromkeys(result.data for result in results):
        rows = [result for result in results if result.data == name]
        rival = np.array([row.error for row in rows if row.method == RIVAL])
        shown = ", ".join(f"{error:.3f}" for error in rival)
        yield f"\n{name}: {RIVAL} errs by {shown} of a variance"
        if name in CAUTIONS:
            yield f"  {CAUTIONS[name]}"
        for method in METHODS:
            own = [row for row in rows if row.method == method]
            ratio = np.array([row.error for row in own]) / rival
            groups = "/".join(str(row.groups) for row in own)
            kinds = "/".join(dict.fromkeys(row.aggregate for row in own))
            yield (
                f"  {method:34s} {ratio.mean():.3f}  [{' '.join(f'{r:.3f}' for r in ratio)}]"
                f"  groups {groups} {kinds}  {sum(row.seconds for row in own):.0f} s"
            )
    for method in METHODS:
        means = [
            np.mean([r.error for r in results if (r.data, r.method) == (name, method)])
            / np.mean([r.error for r in results if (r.data, r.method) == (name, RIVAL)])
            for name in dict.fromkeys(result.data for result in results)
            if name != "French basins"
        ]
        if means:
            overall = np.exp(np.mean(np.log(means)))
            yield f"geometric mean without French basins, {method}: {overall:.3f}"


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = []
    for name in options.sets:
        data = SETS[name]()
        splits = list(KFold(3).split(data.target))
        jobs += [(name, data, method, split) for method in METHODS for split in splits]
    results = Parallel(n_jobs=options.jobs)(delayed(measure)(*job) for job in jobs)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
