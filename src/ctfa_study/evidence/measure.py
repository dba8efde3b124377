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
from ctfa_study.evidence.methods import Method
from ctfa_study.evidence.problem import Case, Problem


class Run(NamedTuple):
    """One method on one problem; the limit is of ours."""

    case: Case
    seed: int
    method: Method
    limit: Any

    @property
    def key(self) -> str:
        """Name of the run among those stored."""
        return key_of(case=self.case.name, seed=self.seed, method=self.method.name)


def measure(run: Run) -> Row:
    """The row of a run; what a problem does not have is not available, any other error a failure.

    Doubtful conditions and iterations that end early are part of what a method is, so that their
    warnings are not kept.
    """
    case, seed, method, limit = run
    row: Row = {
        "case": case.name, "family": case.family, "kind": case.kind, "seed": seed,
        "method": method.name, "protocol": PROTOCOL, "version": method.version(limit),
    }  # fmt: skip
    done = attempt(lambda: outcome(draw(case, seed), method, limit), n_threads=1)
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


def predicted_gain(model: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """Sum over merges of the predicted gain, in variances of scaled targets, over all members.

    The library's own figures (``merges_``) where it has them, and the same from its history.
    """
    merges = getattr(model, "merges_", None)
    if merges is not None:
        return float(np.sum(merges["gain"]))
    return replayed_gain(model.history_, X, Y)


def replayed_gain(history: Any, X: np.ndarray, Y: np.ndarray) -> float:
    """The gain ``ab/(a+b) r/(n-1) s(d) (F_star - F(d))`` of every merge of a history.

    ``d`` is the difference of the two means of standardised targets, ``s`` its residual variance
    and F its regression F on the inputs, of rank r; ``F_star = 1 + (n-1)/(n-r-2)`` breaks even.
    """
    n_samples = len(X)
    centred = X - X.mean(axis=0)
    axes, spread, _ = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:, spread > spread[0] * 1e-10]
    rank = axes.shape[1]
    sums = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    sizes = np.ones(sums.shape[1])
    f_star = 1.0 + (n_samples - 1) / (n_samples - rank - 2)
    total = 0.0
    for block, other in zip(history.block, history.other, strict=True):
        difference = sums[:, block] / sizes[block] - sums[:, other] / sizes[other]
        explained = float(np.sum((axes.T @ difference) ** 2))
        residual = float(difference @ difference) - explained
        noise = residual / (n_samples - rank - 1)
        weight = sizes[block] * sizes[other] / (sizes[block] + sizes[other])
        total += weight / (n_samples - 1) * (rank * noise * f_star - explained)
        sums[:, block] += sums[:, other]
        sizes[block] += sizes[other]
    return total
