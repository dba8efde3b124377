"""What looks wrong in numbers that can be fitted, in words: for ``ctfa doctor`` and for ``fit``.

Nothing is changed: a number that stands for a missing value is reported and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctfa import _reading as check
from ctfa.core.types import BoolArray, FloatArray, IntArray
from ctfa.labelled._words import listed, several

#: Correlation from which two features are nearly one, and from which one is a copy of the other.
SAME, COPY = 0.999, 1.0 - 1e-9
#: Tasks whose features are compared with each other, spread over all: at most and at least; and
#: features, at most.
N_LOOKED_AT, FEWEST, MOST_COMPARED = 200, 5, 500
#: Multiplications that comparing them may take, where there are more than the fewest tasks.
PRODUCTS = 2_000_000_000
#: Pairs that are named.
MOST_PAIRS = 3


#: Gives the names of all tasks; asked where one is said, as those of a large grid take seconds.
Names = Callable[[], Sequence[str]]


def in_first(n_seen: int, n_rows: int) -> str:
    """Which rows were seen, where these are not all."""
    return "" if n_seen == n_rows else f" in the first {n_seen:,} rows"


class Doubt(NamedTuple):
    """What was seen, and what to do about it."""

    what: str
    do: str

    def __str__(self) -> str:
        return f"{self.what}: {self.do}"


def spread_over(n_tasks: int, at_most: int) -> IntArray:
    """Some tasks of all, evenly."""
    return np.unique(np.linspace(0, n_tasks - 1, min(n_tasks, at_most)).astype(np.intp))


def doubtful_fills(variables: Mapping[str, FloatArray], where: str = "") -> Iterator[Doubt]:
    """Numbers that look like missing values; ``where`` says which rows, if not all, were seen."""
    counts: dict[float, dict[str, int]] = {}
    for name, values in variables.items():
        for fill in check.fills_in(values):
            counts.setdefault(fill.number, {})[name] = fill.times
    for number, found in counts.items():
        names = list(found)
        has = "has" if len(names) == 1 else "have"
        yield Doubt(
            f"{listed(names, 6)} {has} {number:g} {several(sum(found.values()), 'time')}{where}, "
            "which looks like a missing value that the data do not declare",
            f"mask it with .where({names[0]} != {number:g}), or declare it (_FillValue in NetCDF, "
            "an empty cell in a table); until then it counts as a number",
        )


def never_changes(values: Any) -> Any:
    """Which columns have two values or more, all the same; lazy where the values are."""
    there = ~np.isnan(values)
    low = np.where(there, values, np.inf).min(axis=0)
    high = np.where(there, values, -np.inf).max(axis=0)
    return (low == high) & (there.sum(axis=0) > 1)


def flat_feature(
    name: str, flat: BoolArray, names: Names, what: str, where: str = ""
) -> Iterator[Doubt]:
    """A feature that never changes, in some tasks or in all; one column is of all tasks.

    ``where`` says which rows, if not all, were seen.
    """
    if not flat.any():
        return
    unless = ", unless it changes later" if where else ""
    if flat.all():
        do = f"leave {name} out{unless or ': it explains nothing'}"
        yield Doubt(f"{name} never changes{where}", do)
        return
    first = names()[int(np.argmax(flat))]
    yield Doubt(
        f"{name} never changes{where} in {int(flat.sum()):,} of {several(flat.size, what)} (the "
        f"first: {first})",
        f"it explains nothing there; leave {name} out, or those{unless}",
    )


def copied_targets(
    name: str, values: FloatArray, changes: BoolArray, names: Names, what: str
) -> Iterator[Doubt]:
    """Tasks whose target changes and is, value by value, that of a task before them."""
    first: dict[bytes, int] = {}
    copies: list[tuple[int, int]] = []
    for column in np.flatnonzero(changes).tolist():
        key = (values[:, column] + 0.0).tobytes()  # no -0.0
        if first.setdefault(key, column) != column:
            copies.append((first[key], column))
    if copies:
        one, other = copies[0]
        yield Doubt(
            f"{name} of {several(len(copies), what)} is an exact copy of that of another (the "
            f"first: {names()[other]}, of {names()[one]})",
            "merging copies gains nothing, and they count twice in every mean; leave them out",
        )


def same_variables(
    target: str, variables: Mapping[str, FloatArray], where: str = "", *, merged: bool = False
) -> Iterator[Doubt]:
    """Features that are nearly the same, or the target itself, in the tasks that are looked at.

    A variable has one column per task, or one for all. Where features are ``merged``, those that
    are nearly the same do not matter, and only copies are named. ``where`` says which rows, if not
    all, were seen.
    """
    names = [target, *(name for name in variables if name != target)]
    if len(names) > MOST_COMPARED:
        return
    alike = _alike([variables[name] for name in names], COPY if merged else SAME)
    pairs = [pair for pair in alike if pair[0]]
    for (i, j), share in alike.items():
        if not i:
            yield Doubt(
                f"{names[j]} is nearly {names[0]} itself, which is to be predicted (|r| > {SAME}"
                f"{_in_share(share)}){where}",
                f"leave {names[j]} out, unless it is known before {names[0]} is",
            )
    if pairs:
        named = ", ".join(f"{names[i]} and {names[j]}" for i, j in pairs[:MOST_PAIRS])
        more = f", and {several(len(pairs) - MOST_PAIRS, 'more pair')}," * (len(pairs) > MOST_PAIRS)
        are = "are copies (|r| = 1" if merged else f"are nearly the same (|r| > {SAME}"
        yield Doubt(
            f"{named}{more} {are}{_in_share(max(alike[pair] for pair in pairs))}){where}",
            "leave one of each pair out, or use ridge regression",
        )


def _in_share(share: float) -> str:
    return "" if share == 1.0 else f" in {100 * share:.2g} % of the tasks looked at"


def _alike(columns: list[FloatArray], above: float) -> dict[tuple[int, int], float]:
    """Pairs of variables that are one, with the share of tasks where they are; 0 is the target."""
    n_tasks = max(values.shape[1] for values in columns)
    affordable = PRODUCTS // (len(columns[0]) * len(columns) ** 2)
    n_looked_at = max(min(N_LOOKED_AT, affordable), FEWEST)
    counts: dict[tuple[int, int], int] = {}
    n_seen = 0
    for task in spread_over(n_tasks, n_looked_at).tolist():
        part = np.column_stack([c[:, task if c.shape[1] > 1 else 0] for c in columns])
        rows = np.isfinite(part[:, ~np.isnan(part).all(axis=0)]).all(axis=1)
        if rows.sum() <= len(columns):
            continue
        n_seen += 1
        for pair in _related(part[rows], above):
            counts[pair] = counts.get(pair, 0) + 1
    return {pair: count / n_seen for pair, count in sorted(counts.items())}


def _related(part: FloatArray, above: float) -> Iterator[tuple[int, int]]:
    """Pairs of columns of complete rows that are one; constant and empty ones are like none."""
    centred = part - part.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    varies = length > 1e-12 * np.abs(part).max(axis=0) * np.sqrt(len(part))
    unit = np.where(varies, centred, 0.0) / np.where(varies, length, 1.0)
    limit = np.full((part.shape[1], 1), above)
    limit[0] = SAME
    for i, j in zip(*np.nonzero(np.triu(np.abs(unit.T @ unit) > limit, 1)), strict=True):
        yield int(i), int(j)
