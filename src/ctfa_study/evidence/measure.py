"""One method on one problem: a row of the study."""

from __future__ import annotations

import statistics
import time
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LinearRegression

from ctfa_study.comparison._harness import Row, attempt, key_of
from ctfa_study.evidence import PROTOCOL
from ctfa_study.evidence.methods import ALONE, READABLE, Method
from ctfa_study.evidence.problem import Case, Problem


class Run(NamedTuple):
    """One method on one problem."""

    case: Case
    seed: int
    method: Method

    @property
    def key(self) -> str:
        """Name of the run among those stored."""
        return key_of(case=self.case.name, seed=self.seed, method=self.method.name)


def measure(run: Run) -> Row:
    """The row of a run; what a problem does not have is not available, any other error a failure.

    Doubtful conditions and iterations that end early are part of what a method is, so that their
    warnings are not kept.
    """
    case, seed, method = run
    row: Row = {
        "case": case.name, "family": case.family, "kind": case.kind, "seed": seed,
        "method": method.name, "protocol": PROTOCOL, "version": method.version,
    }  # fmt: skip
    done = attempt(lambda: outcome(draw(case, seed), method), n_threads=1)
    if isinstance(done.error, NotImplementedError):
        return row | {"status": "not available", "why": str(done.error)}
    if done.error is not None:
        return row | {"status": "failed", "why": done.why.partition("\n")[0]}
    return {**row, **done.result}


@lru_cache(maxsize=2)
def draw(case: Case, seed: int) -> Problem:
    """The problem of a seed, drawn once for the methods that come one after the other."""
    problem = case.make(seed)
    return problem if case.kind == "real" else problem.standardised()


def outcome(problem: Problem, method: Method) -> Row:
    """Score, seconds of one core, groups, and the gains that targets are told."""
    if method.needs_rows and len(problem.X) <= problem.X.shape[1] + 2:
        raise NotImplementedError("there are no more rows than inputs")
    offset, scale = problem.Y.mean(axis=0), problem.Y.std(axis=0)
    Z = problem.Y if method.raw else (problem.Y - offset) / scale
    model = method.make(problem)
    start = time.process_time()
    model.fit(problem.X, Z)
    seconds = time.process_time() - start
    predicted = np.asarray(model.predict(problem.X_test)).reshape(problem.wanted.shape)
    if not method.raw:
        predicted = predicted * scale + offset
    scores = problem.score(predicted)
    # In the units in which gains are told: variances of the training rows.
    losses = scores * problem.variance / scale**2
    row: Row = {
        "status": "ok",
        "score": float(scores.mean()),
        "mse": float(scores.mean()) + problem.noise,
        "loss": float(losses.mean()),
        "seconds": seconds,
        "n": len(problem.X),
        "D": problem.X.shape[1],
        "L": problem.Y.shape[1],
        "grouped": problem.is_grouped,
    }
    if problem.noise == 0.0:
        row["scores"] = _digits(scores)
    if hasattr(model, "n_groups_"):
        row["groups"] = int(model.n_groups_)
    if method.name in (READABLE, ALONE):
        row["losses"] = _digits(losses)
    if method.name == READABLE:
        gain, error = model.told()
        row |= {"told": _digits(gain), "told_error": _digits(error)}
    if method.name.startswith("II "):
        row |= feature_costs(model, problem)
    return row


def _digits(values: np.ndarray) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def feature_costs(model: Any, problem: Problem) -> Row:
    """Features left, and what the comparisons would have cost by refitting two models per fold."""
    comparisons = sum(aggregator.history_.n_comparisons for aggregator in model.features_)
    rows = slice(0, (4 * len(problem.X)) // 5)
    times = []
    for _ in range(15):
        start = time.process_time()
        LinearRegression().fit(problem.X[rows], problem.Y[rows, 0])
        times.append(time.process_time() - start)
    return {
        "features": float(np.mean([aggregator.n_groups_ for aggregator in model.features_])),
        "comparisons": comparisons,
        "refit_seconds": comparisons * 2 * 5 * statistics.median(times),
    }
