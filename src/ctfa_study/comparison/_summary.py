"""What a comparison says: means over splits, paired differences, a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from ctfa import _reading as check
from ctfa._text import visible
from ctfa.core.types import FloatArray
from ctfa_study.comparison._data import DATA
from ctfa_study.comparison._harness import Row
from ctfa_study.comparison._metrics import METRICS, known_mean

#: Share of a bound interval.
CONFIDENCE = 0.95
#: Figures that differ by less than this part are equal: it is rounding.
TIE = 1e-9
#: Splits below which a test has too few differences to go by.
FEW_SPLITS = 5
#: Methods above which some differ by chance.
MANY_METHODS = 6
#: Name of the warning of a solver that was stopped.
UNCONVERGED = ConvergenceWarning.__name__


class MethodSummary(NamedTuple):
    """One method on all splits, and beside the reference.

    ``spread`` is the standard deviation over splits. ``low`` and ``high`` bound the mean difference
    to the reference and ``p_value`` tests it, both by the corrected resampled t-test (Nadeau and
    Bengio 2003): splits of one data set share rows, and the plain test is far too sure.
    """

    method: str
    mean: float
    spread: float
    difference: float
    low: float
    high: float
    p_value: float
    tasks_better: int
    n_tasks: int
    n_splits: int
    seconds: float
    notes: str


class Comparison:
    """Finished runs of several methods on the same splits; prints as a table."""

    def __init__(
        self,
        rows: Sequence[Row],
        failed: Sequence[Row] = (),
        *,
        reference: str,
        left_out: Mapping[str, str] | None = None,
    ) -> None:
        self.rows = list(rows)
        self.failed = list(failed)
        self.reference = reference
        self.left_out = dict(left_out or {})  # methods that were not asked, and why

    @property
    def methods(self) -> list[str]:
        """Methods with at least one finished run."""
        return list(dict.fromkeys(row["method"] for row in self.rows))

    @property
    def title(self) -> str:
        """What was compared on."""
        first = self.rows[0]
        n_splits = len({row["seed"] for row in self.rows})
        quick = ", quick" if any(row["quick"] for row in self.rows) else ""
        return (
            f"{first['data']}: {_count(len(first['tasks']), 'task')}, {first['n_train']} rows to "
            f"learn from, {first['n_test']} to be judged by, "
            f"{_count(n_splits, first['split'] + ' split')}{quick}"
        )

    def label(self, metric: str) -> str:
        """What a metric is, in words."""
        self._require(metric)
        return METRICS[metric].label

    def of_splits(self, metric: str, method: str) -> FloatArray:
        """Figures of a method, one per split."""
        return METRICS[metric].of_split(self.of_tasks(metric, method))

    def of_tasks(self, metric: str, method: str) -> FloatArray:
        """Figures of a method, (n_splits, n_tasks), splits in the order of seeds."""
        self._require(metric)
        measure = METRICS[metric].of_tasks
        parts = [_arrays(row) for row in self._runs(method)]
        return np.stack([measure(part) for part in parts])

    def summary(self, metric: str = "nrmse") -> list[MethodSummary]:
        """One record a method, the best first."""
        self._require(metric)
        rows = [self._summarise(method, metric) for method in self.methods]
        sign = -1.0 if METRICS[metric].greater_is_better else 1.0
        return sorted(rows, key=lambda row: sign * row.mean)

    def to_frame(self, metric: str | None = None) -> Any:
        """The summary of one metric, or one line per method, split and task with all of them."""
        if metric is not None:
            summary = self.summary(metric)
            columns = {
                field: [getattr(row, field) for row in summary] for field in MethodSummary._fields
            }
            return check.as_pandas(columns, "to_frame()")
        return check.as_pandas(self.columns(), "to_frame()")

    def columns(self) -> dict[str, list[Any]]:
        """One entry per method, split and task of every column: which it is, and every metric."""
        names = ("data", "split", "seed", "method", "task")
        columns: dict[str, list[Any]] = {name: [] for name in (*names, *METRICS)}
        for row in self.rows:
            parts = _arrays(row)
            for name in names[:-1]:
                columns[name] += [row[name]] * len(row["tasks"])
            columns["task"] += row["tasks"]
            for name, measure in METRICS.items():
                columns[name] += measure.of_tasks(parts).tolist()
        return columns

    def plot(self, metric: str = "nrmse", *, ax: Any = None) -> Any:
        """Draw the summary with its intervals; see ``ctfa.plotting.plot_comparison``."""
        from ctfa.plotting import plot_comparison  # noqa: PLC0415 - matplotlib is an extra

        return plot_comparison(self, metric, ax=ax)

    def table(self, metric: str = "nrmse") -> str:
        """The summary as text."""
        summary = self.summary(metric)
        head = ("method", "mean", "std", f"vs {self.reference}", "95 % interval", "p",
                "tasks better", "seconds", "")  # fmt: skip
        lines = [head, *(self._line(row) for row in summary)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        shown = [
            "  ".join(
                cell.ljust(width) if place in (0, len(widths) - 1) else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        parts = [
            self.title,
            self.label(metric),
            "",
            shown[0],
            "-" * max(map(len, shown)),
            *shown[1:],
        ]
        parts += [*self._failures(), "", *self._cautions(metric), self._made_with()]
        return "\n".join(map(visible, parts))

    __str__ = table

    def __repr__(self) -> str:
        data = self.rows[0]["data"]
        return f"<Comparison of {len(self.methods)} methods on {data}: print it for the table>"

    def _line(self, row: MethodSummary) -> tuple[str, ...]:
        own = row.method == self.reference
        test = not own and np.isfinite(row.p_value)
        return (
            row.method,
            f"{row.mean:.4f}",
            f"{row.spread:.4f}" if row.n_splits > 1 else "",
            "reference" if own else f"{row.difference:+.4f}",
            f"{row.low:+.4f} to {row.high:+.4f}" if test else "",
            (f"{row.p_value:.3f}" if row.p_value >= 0.0005 else "<.001") if test else "",
            "" if own else f"{row.tasks_better} of {row.n_tasks}",
            f"{row.seconds:.1f}",
            row.notes,
        )

    def _made_with(self) -> str:
        """Seeds and versions, as far as the runs agree on them."""
        seeds = sorted({row["seed"] for row in self.rows})
        apart = len(seeds) > 1 and seeds != list(range(seeds[0], seeds[-1] + 1))
        shown = ", ".join(map(str, seeds)) if apart or len(seeds) < 3 else f"{seeds[0]}-{seeds[-1]}"
        versions: dict[str, set[str]] = {}
        for row in self.rows:
            for name, version in row["versions"].items():
                versions.setdefault(name, set()).add(version)
        with_what = ", ".join(f"{name} {'/'.join(sorted(v))}" for name, v in versions.items())
        return f"{'seed' if len(seeds) == 1 else 'seeds'} {shown}; {with_what}"

    def _cautions(self, metric: str) -> list[str]:
        """What a reader should know before believing the table."""
        known = DATA.get(self.rows[0]["data"])
        words = [known.caution] if known is not None and known.caution else []
        names = np.array(self.rows[0]["tasks"])
        silent = np.isnan(self.of_tasks(metric, self.methods[0])).all(axis=0)
        if silent.any():
            shown = ", ".join(names[silent][:6]) + (", ..." if silent.sum() > 6 else "")
            words.append(
                f"{silent.sum()} of {names.size} tasks have no figure and do not count ({shown}): "
                "no row to be judged by, or a target that does not vary."
            )
        filled = max(row["n_filled"] for row in self.rows)
        if filled:
            words.append(f"{filled} missing inputs became the training median of their column.")
        n_splits = len({row["seed"] for row in self.rows})
        if 1 < n_splits < FEW_SPLITS:
            words.append(f"{n_splits} splits are few to go by: read p as a hint.")
        if n_splits > 1 and len(self.methods) > MANY_METHODS:
            words.append(
                f"p is of each method by itself: of {len(self.methods) - 1} alike, one in twenty "
                "is below .05 by chance."
            )
        if any(row["quick"] for row in self.rows):
            words.append("Quick: penalties were chosen from few values, which costs some methods.")
        reasons = dict.fromkeys(self.left_out.values())
        for reason in reasons:
            those = ", ".join(name for name, why in self.left_out.items() if why == reason)
            words.append(f"Left out ({reason}): {those}.")
        return words

    def _failures(self) -> list[str]:
        said = {row["method"]: row["error"] for row in reversed(self.failed)}
        counts = {name: sum(r["method"] == name for r in self.failed) for name in said}
        return [
            f"{name} failed on {_count(counts[name], 'split')}: {error}"
            for name, error in said.items()
        ]

    def _runs(self, method: str) -> list[Row]:
        """Finished runs of a method, in the order of seeds."""
        mine = sorted((r for r in self.rows if r["method"] == method), key=lambda r: r["seed"])
        if not mine:
            raise ValueError(f"no finished run of {method!r}: there are {', '.join(self.methods)}.")
        return mine

    def _summarise(self, method: str, metric: str) -> MethodSummary:
        mine = self._runs(method)
        figures = self.of_tasks(metric, method)
        of_splits = self.of_splits(metric, method)
        ours, theirs = self._pairs(method, metric)
        paired = (np.nan,) * 4
        better = np.zeros(0, dtype=bool)
        if len(ours):
            measure = METRICS[metric]
            shares = mine[0]["n_test"] / mine[0]["n_train"]
            paired = paired_test(measure.of_split(ours) - measure.of_split(theirs), shares)
            gain = known_mean(ours - theirs, axis=0) * (1 if measure.greater_is_better else -1)
            better = gain > TIE * np.abs(known_mean(theirs, axis=0))
        return MethodSummary(
            method,
            float(of_splits.mean()),
            float(of_splits.std(ddof=1)) if of_splits.size > 1 else float("nan"),
            *paired,
            int(np.count_nonzero(better)),
            int(np.count_nonzero(~np.isnan(figures).all(axis=0))),
            figures.shape[0],
            float(np.mean([row["seconds"] for row in mine])),
            _remarks(mine, len({row["seed"] for row in self.rows})),
        )

    def _pairs(self, method: str, metric: str) -> tuple[FloatArray, FloatArray]:
        """Figures of a method and of the reference, on the splits that both have."""
        if self.reference not in self.methods:
            return np.empty((0, 0)), np.empty((0, 0))
        sides = []
        for name in (method, self.reference):
            seeds = [row["seed"] for row in self._runs(name)]
            sides.append(dict(zip(seeds, self.of_tasks(metric, name), strict=True)))
        mine, theirs = sides
        both = [seed for seed in mine if seed in theirs]
        return np.array([mine[seed] for seed in both]), np.array([theirs[seed] for seed in both])

    @staticmethod
    def _require(metric: str) -> None:
        if metric not in METRICS:
            raise ValueError(f"metric={metric!r} is not one of {', '.join(map(repr, METRICS))}.")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _arrays(row: Row) -> dict[str, FloatArray]:
    return {name: np.array(values, dtype=float) for name, values in row["errors"].items()}


def paired_test(differences: FloatArray, test_share: float) -> tuple[float, float, float, float]:
    """Mean difference over splits, its interval and its p-value, corrected for shared rows.

    The variance of the mean of J differences is ``(1/J + n_test/n_train) s^2``.
    """
    n = differences.size
    mean = float(differences.mean())
    if n < 2 or np.isnan(mean):
        return mean, float("nan"), float("nan"), float("nan")
    error = float(np.sqrt((1.0 / n + test_share) * differences.var(ddof=1)))
    reach = float(stats.t.ppf(0.5 + CONFIDENCE / 2.0, n - 1)) * error
    p_value = float(2.0 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0.0 else float(mean == 0)
    return mean, mean - reach, mean + reach, p_value


def _remarks(rows: Sequence[Row], n_splits: int) -> str:
    """Groups found, whether a solver ended early or a choice was at the edge of its values."""
    words = [] if len(rows) == n_splits else [f"{len(rows)} of {n_splits} splits only"]
    groups = [row["notes"]["n_groups"] for row in rows if "n_groups" in row["notes"]]
    if groups:
        words.append(f"{np.mean(groups):.3g} group{'' if set(groups) == {1} else 's'}")
    early = sum(any(t.startswith(UNCONVERGED) for t in row["warnings"]) for row in rows)
    if early:
        words.append(f"not converged on {early}")
    edges = Counter(name for row in rows for name in row["notes"].get("at_edge", ()))
    if edges:
        shown = ", ".join(f"{name} {count}" for name, count in edges.items())
        words.append(f"at the edge: {shown}")
    return ", ".join(words)
