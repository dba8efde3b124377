"""Which problems and methods are run, and how: in parallel, and only what is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctfa_study.comparison._harness import Row, Store, go_through, key_of
from ctfa_study.evidence import PROTOCOL
from ctfa_study.evidence.adversarial import adversarial_cases
from ctfa_study.evidence.families import paper_cases, synthetic_cases
from ctfa_study.evidence.measure import Run, measure
from ctfa_study.evidence.methods import ALONE, DEFAULT, READABLE, Method, all_methods
from ctfa_study.evidence.problem import Case, is_final
from ctfa_study.evidence.sets import real_cases

QUICK_FAMILIES = ("identical", "independent", "flipped", "scales", "memory, groups", "two targets")
QUICK_METHODS = (
    "single", "ridge", "ward", "curds-whey", "true groups", "paper", DEFAULT, READABLE, ALONE,
    "II ours", "II authors",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Cases, seeds and methods."""

    cases: list[Case]
    methods: list[Method]
    seeds: str = "all"  # "all", "tuning" or "final"
    most_seeds: int = 1000
    any_version: bool = False  # take stored rows of ours whatever library wrote them

    def missing(self, store: Store) -> list[Run]:
        """What is not stored yet."""
        runs = [
            Run(case, seed, method)
            for case in self.cases
            for seed in range(min(case.n_seeds, self.most_seeds))
            if self.seeds == "all" or is_final(seed) == (self.seeds == "final")
            for method in self.methods
            if method.applies(case, seed)
        ]
        return [run for run in runs if run.key not in store or not self._serves(store[run.key])]

    def results(self, store: Store) -> list[Row]:
        """Stored rows of this protocol and, for ours, of this library."""
        names = {method.name for method in self.methods}
        rows = (row for row in store.rows.values() if row["method"] in names)
        return [row for row in rows if self._is_current(row)]

    def _serves(self, row: Row) -> bool:
        """Whether a stored row answers; what failed is tried again."""
        return row["status"] == "ok" and self._is_current(row)

    def _is_current(self, row: Row) -> bool:
        method = next(method for method in self.methods if method.name == row["method"])
        same = self.any_version or row["version"] == method.version
        return bool(row["protocol"] == PROTOCOL and same)


def full_plan(**options: Any) -> tuple[Plan, list[str]]:
    """Everything, and a word on the data that are not there."""
    real, absent = real_cases()
    made = synthetic_cases() + adversarial_cases() + paper_cases()
    return Plan(made + real, all_methods(), **options), absent


def quick_plan(**options: Any) -> tuple[Plan, list[str]]:
    """A few families and methods, two tuning seeds: seconds, no data needed."""
    made = synthetic_cases() + adversarial_cases()
    chosen = {case.family: case for case in reversed(made)}
    cases = [chosen[family] for family in QUICK_FAMILIES] + paper_cases()[:1]
    methods = [m for m in all_methods() if m.name in QUICK_METHODS]
    return Plan(cases, methods, most_seeds=4, **options | {"seeds": "tuning"}), []


def open_store(folder: Path) -> Store:
    """Rows that are there: one per case, seed and method, whatever library and protocol made it."""
    return Store(
        folder / "rows.jsonl",
        lambda row: key_of(case=row["case"], seed=row["seed"], method=row["method"]),
    )


def run(plan: Plan, store: Store, *, n_jobs: int, say: Callable[[str], None] = print) -> None:
    """Measure what is missing: fast methods first, so that an early stop leaves a whole table."""
    missing = plan.missing(store)
    n_problems = len({(run.case.name, run.seed) for run in missing})
    say(f"{n_problems} problems, {len(missing)} results to compute, {len(store.rows)} stored")
    # The slowest problems first: no process waits at the end.
    missing.sort(key=lambda run: (run.method.slow, -_weight(run.case)))
    start = time.perf_counter()
    for step in go_through(missing, measure, store, n_jobs=n_jobs, again=lambda _: True):
        if step.number % 500 == 0 or step.number == step.total:
            minutes = (time.perf_counter() - start) / 60
            say(f"  {step.number} of {step.total} results, {minutes:.1f} minutes")


def _weight(case: Case) -> int:
    """A guess of the cost: many targets are slow."""
    words = ("L=400", "L=300", "L=200", "L=100", "n=1000", "oes", "osales")
    return sum(word in case.name for word in words)
