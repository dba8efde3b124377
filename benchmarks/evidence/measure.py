"""One method on one problem: a row of the study."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from evidence import PROTOCOL
from evidence.gains import predicted_gain
from evidence.methods import Method
from evidence.problem import Case, Problem

Row = dict[str, Any]


def measure(case: Case, seed: int, methods: Iterable[Method], limit: Any) -> list[Row]:
    """The rows of several methods on one problem, with one BLAS thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        # Doubtful conditions and iterations that end early are part of what a method is.
        warnings.simplefilter("ignore")
        problem = case.make(seed).standardised() if case.kind != "real" else case.make(seed)
        head = {"case": case.name, "family": case.family, "kind": case.kind, "seed": seed}
        return [
            head
            | {"method": method.name, "protocol": PROTOCOL, "version": method.version(limit)}
            | attempt(problem, method, limit)
            for method in methods
        ]


def attempt(problem: Problem, method: Method, limit: Any) -> Row:
    """Fit and score; what the library does not have yet is not available, the rest goes on."""
    try:
        return outcome(problem, method, limit)
    except NotImplementedError as error:
        return {"status": "not available", "why": str(error)}
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return {"status": "failed", "why": f"{type(error).__name__}: {first_line}"}


def outcome(problem: Problem, method: Method, limit: Any) -> Row:
    """Score, seconds of one core, groups, and the gain that was promised."""
    offset, scale = problem.Y.mean(axis=0), problem.Y.std(axis=0)
    Z = problem.Y if method.raw else (problem.Y - offset) / scale
    model = method.make(problem, limit)
    start = time.process_time()
    model.fit(problem.X, Z)
    seconds = time.process_time() - start
    predicted = np.asarray(model.predict(problem.X_test)).reshape(problem.wanted.shape)
    if not method.raw:
        predicted = predicted * scale + offset
    scores = problem.score(predicted)
    row: Row = {
        "status": "ok",
        "score": float(scores.mean()),
        "mse": float(scores.mean()) + problem.noise,
        # In the units in which gains are promised: variances of the training rows.
        "loss": float(np.mean(scores * problem.variance / scale**2)),
        "seconds": seconds,
        "n": len(problem.X),
        "D": problem.X.shape[1],
        "L": problem.Y.shape[1],
    }
    if problem.noise == 0.0:
        row["scores"] = [float(f"{score:.6g}") for score in scores]
    if hasattr(model, "n_groups_"):
        row["groups"] = int(model.n_groups_)
    if method.name in ("ours", "ours 1.5"):
        row["promised"] = predicted_gain(model, problem.X, Z) / Z.shape[1]
        row["max_loss"] = float(model.max_loss_)
    if method.name.startswith("II "):
        row |= feature_costs(model, problem)
    return row


def feature_costs(model: Any, problem: Problem) -> Row:
    """Features left, and what the comparisons would have cost by refitting two models a fold."""
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
