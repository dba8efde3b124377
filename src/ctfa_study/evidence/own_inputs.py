"""Targets with inputs or rows of their own, on real data: every method on the same splits.

    CTFA_DATA=folder python -m ctfa_study.evidence.own_inputs [--sets "Po basins" ...] [--jobs 2]

Own inputs: each third of the rows is left out once. Own rows: rows of each task at random, four
times, other draws for tuning than for the table. Everything is chosen on the others, the penalties
of rivals by cross-validation on them (`make rivals` has the same grids). The figure is the mean
squared error on the rows left out, in units of each target's variance over the training rows, or
the mean over tasks of the root mean squared error; over that of one ridge regression per target
(penalty by generalised cross-validation).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.model_selection import KFold

from ctfa import (
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    multi_input_layout,
)
from ctfa.core.types import FloatArray
from ctfa.datasets import (
    load_cru_iberia,
    load_french_basins,
    load_parkinson,
    load_po_basins,
    load_school,
    load_traffic,
)
from ctfa.datasets._catalogue import records
from ctfa_study.baselines import SingleTaskRegressor
from ctfa_study.comparison import METHODS as REGISTERED
from ctfa_study.comparison import SPLITS, Method, Problem, Split, read_problem
from ctfa_study.comparison._harness import attempt
from ctfa_study.comparison._metrics import errors_of_tasks
from ctfa_study.evidence.problem import is_final, stream

#: Ten sub-basins of the Po, weekly: vegetation from rain and temperature, snow for seven. 330 cells
#: of Iberia, monthly: rain from temperatures, the months before, and the season. 207 road sensors:
#: speed in a quarter of an hour from that of the last half hour. 19 French catchments: log
#: streamflow from rain of the last days and months, temperature and evaporation.
OWN_INPUTS: dict[str, Callable[[], Any]] = {
    "Po basins": partial(load_po_basins, lakes=False),
    "CRU Iberia": partial(load_cru_iberia, indices=False),
    "traffic": load_traffic,
    "French basins": load_french_basins,
}


class OwnRows(NamedTuple):
    """Rows of tasks' own: the share of each task's that is left out, and the unit of errors."""

    load: Callable[[], Any]
    left_out: float
    unit: float = 1.0


#: Exam scores of 139 schools, in ranges of a score; symptoms of 42 patients from their voices.
OWN_ROWS = {"School": OwnRows(load_school, 0.3, 69.0), "Parkinson": OwnRows(load_parkinson, 0.7)}
SETS = [*OWN_INPUTS, *OWN_ROWS]
SEEDS = range(8)
#: What figures on a set should be read with.
CAUTIONS = {
    "Po basins": records()["po_basins"].leak,
    "Parkinson": "A patient's recordings of one day are nearly copies, and here on both sides.",
}
RIVAL = "ridge, one per target"
BOTH = ("own inputs", "own rows")


def _of(regressor: Any = None, kinds: tuple[str, ...] = BOTH, **options: Any) -> Method:
    """Our estimator of each kind."""

    def make(problem: Problem) -> Any:
        if problem.kind == "own rows":
            return PooledCTFARegressor(regressor, **options)
        return MultiInputCTFARegressor(problem.layout, regressor, **options)

    return Method(make, kinds)


#: The regressor of every penalised method.
RIDGE = RidgeCV(np.logspace(-3, 4, 20))
#: No merge, and one group.
SINGLE, ONE = TargetAggregator(max_loss=-np.inf), TargetAggregator(max_loss=np.inf)
INPUTS = ("own inputs",)


def _alone(regressor: Any) -> Method:
    """One per target: by our estimator where series have gaps and targets lack some."""
    ours = _of(regressor, INPUTS, targets=SINGLE).recipe
    return Method({"own inputs": ours, "own rows": SingleTaskRegressor(regressor)})


METHODS: dict[str, Method] = {
    RIVAL: _alone(RIDGE),
    "least squares, one per target": _alone(LinearRegression()),
    "one pooled ridge with offsets": REGISTERED["pooled ridge + offsets"],
    "mean-regularised": REGISTERED["mean-regularised"],
    "clustered multi-task (CMTL)": REGISTERED["CMTL"],
    "one mixed model, no groups": _of(targets=ONE),
    "mean (the paper's variant), auto": _of(None, INPUTS, aggregate="mean", head="mean"),
    "the default": _of(),
    "auto, head='mean', ridge": _of(RIDGE, head="mean"),
    "auto, head='levels', ridge": _of(RIDGE),
    "the same, merged by ridge too": _of(RIDGE, INPUTS, targets=TargetAggregator(regressor=RIDGE)),
}
#: Of the larger sets this sees the first split alone.
SLOW, LARGE = "the same, merged by ridge too", ("CRU Iberia", "traffic")


class Result(NamedTuple):
    """One method on one split."""

    data: str
    method: str
    split: int
    error: float
    groups: int | None
    aggregate: str
    seconds: float


def problem_of(name: str) -> Problem:
    """A set, every target by itself, also where several have a series in common."""
    if name in OWN_ROWS:
        return read_problem(OWN_ROWS[name].load(), name)
    data = OWN_INPUTS[name]()
    X, layout = multi_input_layout(data.inputs)
    return replace(read_problem((X, data.target, layout), name), in_order=True)


def splits_of(problem: Problem, *, final: bool) -> list[Split]:
    """Thirds of the rows; rows of each task at random where they are its own."""
    if problem.kind == "own inputs":
        return [Split(*rows) for rows in KFold(3).split(problem.Y)]
    size = OWN_ROWS[problem.name].left_out
    seeds = [stream(seed) for seed in SEEDS if is_final(seed) == final]
    return [SPLITS["random"](problem, seed, size, 0) for seed in seeds]


def measure(problem: Problem, method: str, number: int, split: Split) -> Result:
    """Learn from the training rows, be judged by the others."""
    recipe = METHODS[method]
    if not recipe.knows(problem.kind):
        problem = _complete(problem)
    train, test = problem.take(split.train), problem.take(split.test)
    done = attempt(lambda: recipe.predict(train, test))
    if done.error is not None:
        raise done.error
    predicted, model = done.result
    errors = errors_of_tasks(train, test, predicted)
    if problem.kind == "own rows":
        error = float(np.nanmean(np.sqrt(errors["mse"]))) / OWN_ROWS[problem.name].unit
    else:
        share = errors["n_test"] / errors["n_test"].sum()
        error = float(np.nansum(share * errors["mse"] / errors["train_variance"]))
    groups, aggregate = getattr(model, "n_groups_", None), getattr(model, "aggregate_", "")
    return Result(problem.name, method, number, error, groups, aggregate, done.seconds)


def _complete(problem: Problem) -> Problem:
    """An input that says nothing where a target lacks one, for methods that stack targets."""
    if problem.layout is None:
        return problem
    X = np.column_stack((problem.X, np.zeros(problem.n_rows)))
    layout = np.where(problem.layout < 0, problem.X.shape[1], problem.layout)
    return replace(problem, X=X, layout=layout)


def table(results: list[Result], name: str) -> Iterator[str]:
    """Ratios to the rival on a set, split by split."""
    rival = _errors(results, name, RIVAL)
    unit = "(mean root squared error)" if name in OWN_ROWS else "of a variance"
    yield f"\n{name}: {RIVAL} errs by {', '.join(f'{e:.3f}' for e in rival)} {unit}"
    if name in CAUTIONS:
        yield f"  {CAUTIONS[name]}"
    for method in METHODS:
        own = [result for result in results if (result.data, result.method) == (name, method)]
        if not own:
            continue
        error = _errors(results, name, method)
        ratio = error / rival[: error.size]
        groups = "/".join(str(row.groups) for row in own if row.groups)
        kinds = "/".join(dict.fromkeys(row.aggregate for row in own))
        errs = f"errs by {error.mean():.4f}" if error.size == rival.size else "first split alone"
        yield (
            f"  {method:34s} {ratio.mean():.3f}  [{' '.join(f'{r:.3f}' for r in ratio)}]"
            f"  {errs}{f'  groups {groups} {kinds}'.rstrip() if groups else ''}"
            f"  {sum(row.seconds for row in own):.0f} s"
        )


def overall(results: list[Result]) -> Iterator[str]:
    """Geometric means over sets with inputs of their own, French basins aside."""
    names = [name for name in OWN_INPUTS if name != "French basins"]
    for method in METHODS:
        means = []
        for name in names:
            error = _errors(results, name, method)
            if error.size:
                means.append(error.mean() / _errors(results, name, RIVAL)[: error.size].mean())
        if len(means) == len(names):
            mean = np.exp(np.mean(np.log(means)))
            yield f"geometric mean of {', '.join(names)}, {method}: {mean:.3f}"


def _errors(results: list[Result], name: str, method: str) -> FloatArray:
    return np.array([r.error for r in results if (r.data, r.method) == (name, method)])


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", choices=["tuning", "final"], default="final")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    results: list[Result] = []
    for name in options.sets:
        jobs = []
        problem = problem_of(name)
        splits = splits_of(problem, final=options.seeds == "final")
        for method in dict.fromkeys([RIVAL, *options.methods]):
            if not METHODS[method].serves(_complete(problem)):
                continue
            some = splits[:1] if name in LARGE and method == SLOW else splits
            jobs += [(problem, method, number, split) for number, split in enumerate(some)]
        results += Parallel(n_jobs=options.jobs)(delayed(measure)(*job) for job in jobs)
        print("\n".join(table(results, name)), flush=True)
    print("\n".join(overall(results)))


if __name__ == "__main__":
    main()
