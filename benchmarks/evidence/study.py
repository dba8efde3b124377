"""Which problems and methods are run, and how: in parallel, and only what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from evidence import PROTOCOL
from evidence.families import paper_cases, synthetic_cases
from evidence.measure import measure
from evidence.methods import Method, all_methods
from evidence.problem import Case, is_final
from evidence.sets import real_cases
from evidence.store import Row, Store

QUICK_FAMILIES = ("identical", "independent", "flipped", "scales")
QUICK_METHODS = (
    "single", "ridge", "ward", "curds-whey", "true groups", "paper", "ours", "ours 1.5",
    "ours shrink", "II ours", "II authors",
)  # fmt: skip


Job = tuple[Case, int, list[Method]]


@dataclass(frozen=True)
class Plan:
    """Cases, seeds, methods, and the limit of ours."""

    cases: list[Case]
    methods: list[Method]
    seeds: str = "all"  # "all", "tuning" or "final"
    most_seeds: int = 1000
    limit: Any = "auto"
    any_version: bool = False  # take stored rows of ours whatever library wrote them

    def missing(self, store: Store) -> list[Job]:
        """What is not stored yet, a list of methods for each problem."""
        work = []
        for case in self.cases:
            for seed in range(min(case.n_seeds, self.most_seeds)):
                if self.seeds != "all" and is_final(seed) != (self.seeds == "final"):
                    continue
                wanted = [m for m in self.methods if self._is_missing(store, case, seed, m)]
                if wanted:
                    work.append((case, seed, wanted))
        return work

    def results(self, store: Store) -> list[Row]:
        """Stored rows of this protocol and, for ours, of this library and limit."""
        versions = {method.name: method.version(self.limit) for method in self.methods}
        return [
            row
            for row in store.rows.values()
            if row["protocol"] == PROTOCOL
            and row["method"] in versions
            and (self.any_version or row["version"] == versions[row["method"]])
        ]

    def _is_missing(self, store: Store, case: Case, seed: int, method: Method) -> bool:
        if not method.applies(case, seed):
            return False
        version = None if self.any_version else method.version(self.limit)
        return not store.has((case.name, seed, method.name), PROTOCOL, version)


def full_plan(**options: Any) -> tuple[Plan, list[str]]:
    """Everything, and a word on the data that are not there."""
    real, absent = real_cases()
    return Plan(synthetic_cases() + paper_cases() + real, all_methods(), **options), absent


def quick_plan(**options: Any) -> tuple[Plan, list[str]]:
    """A few families and methods, two tuning seeds: seconds, no data needed."""
    chosen = {case.family: case for case in reversed(synthetic_cases())}
    cases = [chosen[family] for family in QUICK_FAMILIES] + paper_cases()[:1]
    methods = [m for m in all_methods() if m.name in QUICK_METHODS]
    return Plan(cases, methods, most_seeds=4, **options | {"seeds": "tuning"}), []


def run(plan: Plan, store: Store, *, n_jobs: int, say: Callable[[str], None] = print) -> None:
    """Measure what is missing: fast methods first, so that an early stop leaves a whole table."""
    work = plan.missing(store)
    n_rows = sum(len(methods) for _, _, methods in work)
    say(f"{len(work)} problems, {n_rows} results to compute, {len(store.rows)} stored")
    for slow in (False, True):
        chosen = [
            (case, seed, [method for method in methods if method.slow == slow])
            for case, seed, methods in work
        ]
        jobs = [job for job in chosen if job[2]]
        # The slowest problems first: no process waits at the end.
        jobs.sort(key=lambda job: -_weight(job[0]))
        _run(jobs, plan.limit, store, n_jobs, say)


def _run(
    jobs: list[Job], limit: Any, store: Store, n_jobs: int, say: Callable[[str], None]
) -> None:
    start = time.perf_counter()
    results = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
        delayed(measure)(case, seed, methods, limit) for case, seed, methods in jobs
    )
    for done, rows in enumerate(results, 1):
        store.append(rows)
        if done % 50 == 0 or done == len(jobs):
            minutes = (time.perf_counter() - start) / 60
            say(f"  {done} of {len(jobs)} problems, {minutes:.1f} minutes")


def _weight(case: Case) -> int:
    """A guess of the cost: many targets are slow."""
    return sum(word in case.name for word in ("L=200", "L=100", "n=1000", "oes", "osales"))


def results_folder() -> Path:
    """The project's own folder of results."""
    return Path(__file__).resolve().parents[2] / "results" / "evidence"
