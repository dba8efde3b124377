"""Every method on the same splits, stored as it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ctfa._text import nearest
from ctfa_study.comparison._data import read_data
from ctfa_study.comparison._describe import describe
from ctfa_study.comparison._harness import (
    Row,
    Step,
    Store,
    attempt,
    go_through,
    key_of,
    made_with,
    versions,
)
from ctfa_study.comparison._methods import Method, as_method
from ctfa_study.comparison._metrics import errors_of_tasks
from ctfa_study.comparison._problem import Problem
from ctfa_study.comparison._registry import METHODS, REFERENCE
from ctfa_study.comparison._splits import SPLITS, make_split
from ctfa_study.comparison._summary import Comparison

#: Part of the key of every stored run: raise it when splits, units or measures change.
PROTOCOL = 3
FILE = "runs.jsonl"


@dataclass(frozen=True)
class Setting:
    """How rows are divided."""

    split: str
    test_size: float
    gap: int


class Run(NamedTuple):
    """One method on one split."""

    problem: Problem
    setting: Setting
    name: str
    method: Method
    seed: int

    @property
    def key(self) -> str:
        """Name of the run by all that decides its result."""
        problem, setting = self.problem, self.setting
        return key_of(
            protocol=PROTOCOL, data=problem.digest, split=setting.split, gap=setting.gap,
            test_size=setting.test_size, seed=self.seed, method=self.name,
            scale=self.method.scale, recipe=describe(self.estimator), versions=versions(),
        )  # fmt: skip

    @property
    def estimator(self) -> Any:
        """The estimator that the method makes for all rows, not fitted."""
        problem = self.problem
        if problem.kind == "own inputs" and not self.method.knows(problem.kind):
            problem, _ = problem.stacked()
        return self.method.make(problem, self.seed)

    @property
    def recipe(self) -> str:
        """The estimator in words, for people to read."""
        return str(self.estimator.__repr__(N_CHAR_MAX=100_000))


def compare(
    data: Any,
    methods: Any = None,
    *,
    seeds: int | Iterable[int] = 5,
    split: str | None = None,
    test_size: float = 0.3,
    gap: int | None = None,
    reference: str | None = None,
    folder: Any = None,
    n_jobs: int | None = None,
    quick: bool = False,
    rerun: bool = False,
    progress: Callable[[Step], None] | None = None,
) -> Comparison:
    """Compare methods on the same splits of one data set.

    Features and targets are put into standard units of the training rows for every method (one
    unit for all tasks that have rows of their own), and predictions back into their own; penalties
    are chosen on folds of the training rows. Missing inputs of shared rows become the training
    median of their column, which the table says; missing targets are for methods that take them.

    Parameters
    ----------
    data : str, Bunch, Problem or tuple
        A name of ``ctfa_study.comparison.DATA`` ("school", "sarcos", ...), a data set of
        ``ctfa.datasets``, or ``(X, Y)``, ``(X, y, tasks)``, ``(X, Y, layout)``.
    methods : sequence of str, mapping or None, default=None
        Names of ``ctfa_study.comparison.METHODS``; or a mapping from names to estimators (or
        functions of the training problem that make one), among which None stands for the method of
        that name.
        None: all that can serve this kind of data.
    seeds : int or iterable of int, default=5
        Splits: as many from seed 0 on, or these.
    split : {"random", "blocked", "grouped"} or None, default=None
        Rows at random (of each task, where tasks have their own), a block of consecutive rows, or
        whole groups; None is the data set's own, random where it has none.
    test_size : float, default=0.3
        Share of the rows to be judged by.
    gap : int or None, default=None
        Rows on each side of a block that are not used; None is the data set's own.
    reference : str or None, default=None
        The method that others are paired with; None is "single LR" where it runs, else the first
        that does.
    folder : path or None, default=None
        Where finished runs are stored (``runs.jsonl``); runs that are there are not run again.
    n_jobs : int or None, default=None
        Runs at the same time, through joblib.
    quick : bool, default=False
        Leave out slow methods where ``methods`` is None, and choose parameters from few values.
    rerun : bool, default=False
        Run what is stored again: what a run is stored under knows the data, the split, the
        estimator with its parameters and the versions of the libraries, not all code behind them.
    progress : callable or None, default=None
        Called with a ``Step`` after each run.

    Returns
    -------
    Comparison
        Prints as a table; ``summary(metric)``, ``to_frame()``, ``plot()``.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from ctfa_study.comparison import compare
    >>> from ctfa.datasets import make_paper_synthetic
    >>> XY = make_paper_synthetic(120, 40, 4, random_state=0)
    >>> result = compare(XY, {"single LR": None, "mine": Ridge(10.0)}, seeds=3)
    >>> [row.method for row in result.summary("nrmse")]
    ['mine', 'single LR']
    """
    problem, own_split, own_gap = read_data(data)
    split = split or own_split
    gap = gap if gap is not None else own_gap if split == own_split else 0
    setting = read_setting(split, test_size, gap)
    problem = replace(problem, in_order=setting.split != "random", quick=quick)
    chosen, left_out = read_methods(methods, problem, quick=quick)
    if reference is not None and reference not in chosen:
        hint = nearest(reference, chosen)
        raise ValueError(f"reference={reference!r} is not among the methods compared{hint}.")
    given = range(seeds) if isinstance(seeds, int) else map(int, seeds)
    wanted = list(dict.fromkeys(given))  # one split given twice is one split
    if not wanted:
        raise ValueError(f"seeds={seeds!r} gives no split: use one or more.")
    store = Store(None if folder is None else Path(folder) / FILE)
    runs = [
        Run(problem, setting, name, method, seed)
        for seed in wanted
        for name, method in chosen.items()
    ]
    rows: list[Row] = []
    failed: list[Row] = []
    for step in go_through(runs, run_one, store, n_jobs=n_jobs, again=lambda _: rerun):
        (failed if "error" in step.row else rows).append(step.row)
        if progress is not None:
            progress(step)
    # With several jobs they end in any order; what is made of them must not depend on it.
    place = {(run.name, run.seed): number for number, run in enumerate(runs)}
    for ended in (rows, failed):
        ended.sort(key=lambda row: place[row["method"], row["seed"]])
    if not rows:
        raise RuntimeError(f"no method could be run; the first said: {failed[0]['error']}")
    if reference is None:
        finished = dict.fromkeys(row["method"] for row in rows)
        reference = REFERENCE if REFERENCE in finished else next(iter(finished))
    return Comparison(rows, failed, reference=reference, left_out=left_out)


def read_methods(
    methods: Any, problem: Problem, *, quick: bool = False
) -> tuple[dict[str, Method], dict[str, str]]:
    """Methods by name, all of which can serve the problem; and why others were left out."""
    if methods is None:
        reasons = {
            name: method.why_not(problem) or ("slow" if quick and method.slow else None)
            for name, method in METHODS.items()
        }
        chosen = {name: METHODS[name] for name, reason in reasons.items() if reason is None}
        return chosen, {name: reason for name, reason in reasons.items() if reason is not None}
    if isinstance(methods, str):
        methods = [methods]
    asked: Mapping[str, Any] = (
        methods if isinstance(methods, Mapping) else dict.fromkeys(_names(methods))
    )
    chosen = {}
    for name, value in asked.items():
        if value is None and name not in METHODS:
            raise ValueError(f"there is no method {name!r}{nearest(name, METHODS)}.")
        method = METHODS[name] if value is None else as_method(value, name)
        reason = method.why_not(problem)
        if reason is not None:
            wrap = problem.kind != "shared" and value is not None
            hint = "; SingleTaskRegressor(...) around it serves each task by itself" * wrap
            raise ValueError(f"method {name!r} cannot serve {problem.name}: it {reason}{hint}.")
        chosen[name] = method
    if not chosen:
        raise ValueError("methods is empty: give one or more.")
    return chosen, {}


def read_setting(split: str, test_size: float, gap: int) -> Setting:
    if split not in SPLITS:
        raise ValueError(f"split={split!r} is not one of {', '.join(map(repr, SPLITS))}.")
    if not 0.0 < test_size < 1.0:
        raise ValueError(f"test_size={test_size!r}: give a share of the rows, between 0 and 1.")
    if gap < 0 or (gap and split != "blocked"):
        raise ValueError(
            f"gap={gap!r} with split={split!r}: a gap is a number of rows beside the block of "
            "split='blocked', zero or more; leave it out for other splits."
        )
    return Setting(split, float(test_size), int(gap))


def _names(methods: Iterable[Any]) -> list[str]:
    names = list(methods)
    strangers = [name for name in names if not isinstance(name, str)]
    if strangers:
        raise TypeError(
            f"methods holds {strangers[0]!r}, which is not a name: pass a mapping, such as "
            f"{{'mine': {type(strangers[0]).__name__}()}}."
        )
    return names


def run_one(run: Run) -> Row:
    """Learn, predict and measure; a method that fails says why and is not stored."""
    problem, setting = run.problem, run.setting
    row: Row = {
        "key": run.key, "data": problem.name, "kind": problem.kind, "method": run.name,
        "seed": run.seed, "split": setting.split, "test_size": setting.test_size,
        "gap": setting.gap,
    }  # fmt: skip
    made = make_split(problem, setting.split, run.seed, setting.test_size, setting.gap)
    train, test = problem.take(made.train), problem.take(made.test)
    done = attempt(lambda: run.method.predict(train, test, run.seed))
    if done.error is not None:
        return row | {"error": done.why}
    predicted, model = done.result
    lost = int(np.count_nonzero(~np.isfinite(predicted[test.judged])))
    if lost:
        return row | {"error": f"predicted NaN or infinity for {lost} of the rows judged"}
    return row | {
        "n_train": int(made.train.size),
        "n_test": int(made.test.size),
        "n_filled": int(np.isnan(problem.X).sum()) if problem.kind == "shared" else 0,
        "quick": problem.quick,
        "tasks": problem.task_names,
        "errors": {k: v.tolist() for k, v in errors_of_tasks(train, test, predicted).items()},
        "seconds": done.seconds,
        "notes": _notes(model),
        "warnings": done.warnings,
        "recipe": run.recipe,
        "versions": made_with(),
    }


def _notes(model: Any) -> dict[str, Any]:
    """What a fitted model tells of itself: groups, chosen parameters, how well it converged."""
    notes: dict[str, Any] = {}
    inner = getattr(model, "best_estimator_", model)
    if hasattr(model, "best_params_"):
        notes["chosen"] = {name: _plain(value) for name, value in model.best_params_.items()}
        notes["at_edge"] = at_edge(model.best_params_, model.cv_results_["params"])
    for name in ("n_groups_", "gap_", "rank_", "aggregate_"):
        value = getattr(inner, name, None)
        if value is not None:
            notes[name.rstrip("_")] = _plain(value)
    return notes


def at_edge(chosen: Mapping[str, Any], tried: Iterable[Mapping[str, Any]]) -> list[str]:
    """Parameters whose value is the least or the largest of three or more that were tried.

    Where the least is as little as there can be, no penalty or one of something, it is not an edge.
    """
    tried = list(tried)
    found = []
    for name, value in chosen.items():
        values = {one[name] for one in tried if isinstance(one[name], int | float)}
        whole = isinstance(value, int)
        least = value == min(values, default=value) and value > (1 if whole else 0.0)
        if len(values) > 2 and (least or value == max(values)):
            found.append(name.rpartition("__")[2])
    return found


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
