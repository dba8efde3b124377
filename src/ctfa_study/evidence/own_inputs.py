"""Targets with inputs of their own, on real series: every method on the same blocks of time.

    CTFA_DATA=folder python -m ctfa_study.evidence.own_inputs [--sets "Po basins" ...] [--jobs 2]

Three splits: each third of the rows is left out once, everything is chosen on the others. The
figure is the mean squared error on the rows left out, in units of each target's variance over the
training rows, over that of one ridge regression a target (penalty by generalised cross-validation).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

from ctfa import MultiInputCTFARegressor, TargetAggregator, multi_input_layout
from ctfa.core.types import FloatArray
from ctfa.datasets import load_cru_iberia, load_french_basins, load_po_basins, load_traffic
from ctfa.datasets._catalogue import records
from ctfa_study.comparison import Method, Problem, Split, read_problem
from ctfa_study.comparison._harness import attempt
from ctfa_study.comparison._metrics import errors_of_tasks

#: Ten sub-basins of the Po, weekly: vegetation from rain and temperature, snow for seven. 330 cells
#: of Iberia, monthly: rain from temperatures, the months before, and the season. 207 road sensors:
#: speed in a quarter of an hour from that of the last half hour. 19 French catchments: log
#: streamflow from rain of the last days and months, temperature and evaporation.
SETS: dict[str, Callable[[], Any]] = {
    "Po basins": partial(load_po_basins, lakes=False),
    "CRU Iberia": partial(load_cru_iberia, indices=False),
    "traffic": load_traffic,
    "French basins": load_french_basins,
}
#: What figures on a set should be read with.
CAUTIONS = {"Po basins": records()["po_basins"].leak}
RIVAL = "ridge, one a target"


def _of(regressor: Any = None, **options: Any) -> Method:
    """Our estimator, on series as they are."""

    def make(problem: Problem) -> MultiInputCTFARegressor:
        return MultiInputCTFARegressor(problem.layout, regressor, **options)

    return Method(make, ("own inputs",), scale="none")


#: The regressor of every penalised method.
RIDGE = RidgeCV(np.logspace(-3, 4, 20))
#: Every series in units of its own spread, and no merge.
SINGLE = TargetAggregator(max_loss=-np.inf)
METHODS: dict[str, Method] = {
    RIVAL: _of(RIDGE, targets=SINGLE),
    "least squares, one a target": _of(targets=SINGLE),
    "mean (the paper's variant), auto": _of(aggregate="mean", head="mean"),
    "the default": _of(),
    "auto, head='mean', ridge": _of(RIDGE, head="mean"),
    "auto, head='levels', ridge": _of(RIDGE),
    "the same, merged by ridge too": _of(RIDGE, targets=TargetAggregator(regressor=RIDGE)),
}


class Result(NamedTuple):
    """One method on one split."""

    data: str
    method: str
    error: float
    groups: int
    aggregate: str
    seconds: float


def measure(problem: Problem, method: str, split: Split) -> Result:
    """Learn from the training rows, be judged by the others."""
    train, test = problem.take(split.train), problem.take(split.test)
    done = attempt(lambda: METHODS[method].predict(train, test))
    if done.error is not None:
        raise done.error
    predicted, model = done.result
    errors = errors_of_tasks(train, test, predicted)
    share = errors["n_test"] / errors["n_test"].sum()
    error = float(np.nansum(share * errors["mse"] / errors["train_variance"]))
    return Result(problem.name, method, error, model.n_groups_, model.aggregate_, done.seconds)


def table(results: list[Result]) -> Iterator[str]:
    """Ratios to the rival, split by split."""
    names = list(dict.fromkeys(result.data for result in results))
    for name in names:
        rival = _errors(results, name, RIVAL)
        yield f"\n{name}: {RIVAL} errs by {', '.join(f'{e:.3f}' for e in rival)} of a variance"
        if name in CAUTIONS:
            yield f"  {CAUTIONS[name]}"
        for method in METHODS:
            own = [result for result in results if (result.data, result.method) == (name, method)]
            ratio = _errors(results, name, method) / rival
            groups = "/".join(str(row.groups) for row in own)
            kinds = "/".join(dict.fromkeys(row.aggregate for row in own))
            yield (
                f"  {method:34s} {ratio.mean():.3f}  [{' '.join(f'{r:.3f}' for r in ratio)}]"
                f"  groups {groups} {kinds}  {sum(row.seconds for row in own):.0f} s"
            )
    counted = [name for name in names if name != "French basins"]
    for method in METHODS if counted else ():
        means = [
            _errors(results, name, method).mean() / _errors(results, name, RIVAL).mean()
            for name in counted
        ]
        overall = np.exp(np.mean(np.log(means)))
        yield f"geometric mean without French basins, {method}: {overall:.3f}"


def _errors(results: list[Result], name: str, method: str) -> FloatArray:
    return np.array([r.error for r in results if (r.data, r.method) == (name, method)])


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
        # Every target by itself, also where several have a series in common.
        X, layout = multi_input_layout(data.inputs)
        problem = read_problem((X, data.target, layout), name)
        splits = [Split(*rows) for rows in KFold(3).split(problem.Y)]
        jobs += [(problem, method, split) for method in METHODS for split in splits]
    results = Parallel(n_jobs=options.jobs)(delayed(measure)(*job) for job in jobs)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
