"""Real data with shared inputs: where they lie, how they are split, filled in and reduced."""

from __future__ import annotations

import gzip
import os
from functools import cache, partial
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from evidence.problem import Case, Problem, is_final, stream

N_SPLITS = 8
#: Mulan sets and the number of their targets, the last columns.
MULAN = {
    "andro": 6, "atp1d": 6, "atp7d": 6, "edm": 2, "enb": 2, "jura": 3, "oes10": 16,
    "oes97": 16, "osales": 12, "scpf": 3, "sf1": 3, "sf2": 3, "slump": 3, "wq": 14,
}  # fmt: skip
#: Sets in time order, and the rows left out on each side of a test block.
ORDERED = {"andro": 5, "atp1d": 10, "atp7d": 10}
#: Rows of SARCOS: training region, gap, test block.
SARCOS_REGION, SARCOS_GAP, SARCOS_TEST = 1000, 50, 400


def data_file(*parts: str) -> Path | None:
    """A file of the folder named by CTFA_DATA, or None."""
    folder = os.environ.get("CTFA_DATA")
    path = Path(folder or "", *parts)
    return path if folder and path.exists() else None


def need(*parts: str) -> Path:
    """A file that was there a moment ago."""
    path = data_file(*parts)
    if path is None:
        raise FileNotFoundError(f"CTFA_DATA does not hold {'/'.join(parts)}")
    return path


# ---------------------------------------------------------------------------------------- loading


@cache
def sarcos_table() -> np.ndarray:
    """Rows of the robot arm, in time order: 21 inputs, 7 torques."""
    return np.asarray(loadmat(need("sarcos", "sarcos_inv_test.mat"))["sarcos_inv_test"], float)


@cache
def arrays(folder: str, file: str) -> tuple[np.ndarray, np.ndarray]:
    """X and Y of an npz file."""
    with np.load(need(folder, file)) as stored:
        return stored["X"].astype(float), stored["Y"].astype(float).reshape(len(stored["X"]), -1)


@cache
def ordinary_molecules() -> tuple[np.ndarray, np.ndarray]:
    """QM9 without the 427 molecules of which a target is ten robust deviations off the median.

    The rotational constants of a few tiny molecules are a thousand times those of the others: one
    of them among the test rows would decide the mean.
    """
    X, Y = arrays("qm9", "qm9_tabular.npz")
    lower, median, upper = np.percentile(Y, [25, 50, 75], axis=0)
    ordinary = (np.abs(Y - median) <= 10.0 * (upper - lower) / 1.35).all(axis=1)
    return X[ordinary], Y[ordinary]


@cache
def mulan_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (a nominal one as a column for each level but the first) and targets; gaps are NaN."""
    with gzip.open(need("mulan", f"{name}.arff.gz"), "rt") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("%")]
    start = next(i for i, line in enumerate(lines) if line.lower().startswith("@data"))
    kinds = [line for line in lines[:start] if line.lower().startswith("@attribute")]
    rows = [[entry.strip() for entry in line.split(",")] for line in lines[start + 1 :]]
    columns: list[np.ndarray] = []
    inputs = len(kinds) - MULAN[name]
    for kind, entries in zip(kinds[:inputs], zip(*rows, strict=True), strict=False):
        columns.extend(_numbers(kind, entries))
    targets = np.array([[float(v) if v != "?" else np.nan for v in row[inputs:]] for row in rows])
    return np.column_stack(columns), targets


def _numbers(kind: str, entries: tuple[str, ...]) -> list[np.ndarray]:
    if "{" not in kind:
        return [np.array([float(v) if v != "?" else np.nan for v in entries])]
    levels = [v.strip() for v in kind[kind.index("{") + 1 : kind.index("}")].split(",")]
    return [np.array([float(v == level) for v in entries]) for level in levels[1:]]


# --------------------------------------------------------------------------------------- splitting


def prepare(X: np.ndarray, Y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Problem:
    """Drop rows without a target, fill gaps, standardise, reduce; by the training rows alone."""
    known = np.isfinite(Y).all(axis=1)
    train, test = train[known[train]], test[known[test]]
    X = np.where(np.isfinite(X), X, np.nan)
    present = np.isfinite(X[train]).any(axis=0)
    X = X[:, present]
    centre = np.nanmean(X[train], axis=0)
    X = np.where(np.isnan(X), centre, X)
    varies = Y[train].std(axis=0) > 1e-12 * np.abs(Y[train]).max(axis=0)
    Y = Y[:, varies]
    problem = Problem(X[train], Y[train], X[test], Y[test], Y[train].var(axis=0)).standardised()
    n_samples, n_inputs = problem.X.shape
    return problem.reduced(n_samples // 4) if needs_reduction(n_samples, n_inputs) else problem


def needs_reduction(n_samples: int, n_inputs: int) -> bool:
    """Whether least squares would be left with less than a fifth of the rows for the noise."""
    return n_samples - n_inputs < n_samples / 5


def shuffled_split(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """70 % of the rows for training, at random."""
    rows = np.random.default_rng([stream(seed), n_rows]).permutation(n_rows)
    cut = round(0.7 * n_rows)
    return np.sort(rows[:cut]), np.sort(rows[cut:])


def blocked_split(n_rows: int, gap: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A test block of 30 % whose place moves with the seed; ``gap`` rows on each side unused."""
    length = round(0.3 * n_rows)
    start = round(seed * (n_rows - length) / (N_SPLITS - 1))
    rows = np.arange(n_rows)
    near = (rows >= start - gap) & (rows < start + length + gap)
    return rows[~near], rows[start : start + length]


def sarcos(seed: int, *, n_samples: int) -> Problem:
    """Evenly spaced rows of a training region; later, after a gap, the test block.

    Tuning seeds live in the first half of the recording, final ones in the second.
    """
    table = sarcos_table()
    half = len(table) // 2
    room = half - SARCOS_REGION - SARCOS_GAP - SARCOS_TEST
    start = half * is_final(seed) + round(seed // 2 * room / (N_SPLITS // 2 - 1))
    train = start + np.arange(n_samples) * SARCOS_REGION // n_samples
    test = start + SARCOS_REGION + SARCOS_GAP + np.arange(SARCOS_TEST)
    return prepare(table[:, :21], table[:, 21:28], train, test)


def qm9(seed: int, *, n_samples: int) -> Problem:
    """A draw of molecules and 3000 others to test; odd rows for final seeds, even for tuning."""
    X, Y = ordinary_molecules()
    rows = np.arange(int(is_final(seed)), len(X), 2)
    rows = np.random.default_rng([stream(seed), 9]).permutation(rows)[: n_samples + 3000]
    return prepare(X, Y, rows[:n_samples], rows[n_samples:])


def tecator(seed: int) -> Problem:
    """Spectra at random."""
    X, Y = arrays("tecator", "tecator.npz")
    return prepare(X, Y, *shuffled_split(len(X), seed))


def mulan(seed: int, *, name: str) -> Problem:
    """A split at random, or in blocks where rows are ordered."""
    X, Y = mulan_table(name)
    if name in ORDERED:
        return prepare(X, Y, *blocked_split(len(X), ORDERED[name], seed))
    return prepare(X, Y, *shuffled_split(len(X), seed))


def real_cases() -> tuple[list[Case], list[str]]:
    """The sets that are there, and a word on those that are not."""
    wanted = [
        (Case(f"sarcos n={n}", "sarcos", "real", partial(sarcos, n_samples=n), N_SPLITS),
         ("sarcos", "sarcos_inv_test.mat"))
        for n in (100, 300, 1000)
    ]  # fmt: skip
    wanted += [
        (Case(f"qm9 n={n}", "qm9", "real", partial(qm9, n_samples=n), N_SPLITS),
         ("qm9", "qm9_tabular.npz"))
        for n in (100, 300, 1000)
    ]  # fmt: skip
    wanted.append(
        (Case("tecator", "tecator", "real", tecator, N_SPLITS), ("tecator", "tecator.npz"))
    )
    wanted += [
        (Case(name, name, "real", partial(mulan, name=name), N_SPLITS),
         ("mulan", f"{name}.arff.gz"))
        for name in MULAN
    ]  # fmt: skip
    there = [case for case, parts in wanted if data_file(*parts)]
    absent = [f"{case.name}: CTFA_DATA does not hold {'/'.join(parts)}"
              for case, parts in wanted if not data_file(*parts)]  # fmt: skip
    return there, absent
