"""Real data with shared inputs: where they lie, how they are split and filled in."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from ctfa.datasets import (
    get_data_home,
    list_datasets,
    load_mulan,
    load_qm9,
    load_sarcos,
    load_tecator,
)
from ctfa_study.comparison._splits import Split, block_at
from ctfa_study.evidence.problem import Case, Problem, is_final, stream

#: Half of them for tuning, half for the final table.
N_SPLITS = 16
#: Sets of Mulan.
MULAN = tuple(line.name for line in list_datasets() if line.loader.startswith("load_mulan"))
#: Sets in time order, and the rows left out on each side of a test block.
ORDERED = {"andro": 5, "atp1d": 10, "atp7d": 10}
#: Rows of SARCOS: training region, gap, test block.
SARCOS_REGION, SARCOS_GAP, SARCOS_TEST = 1000, 50, 400


# ---------------------------------------------------------------------------------------- loading


@cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets; gaps are NaN."""
    loaders = {"sarcos": load_sarcos, "tecator": load_tecator}
    load = loaders.get(name) or partial(load_mulan, name)
    X, Y = load(return_X_y=True, download_if_missing=False)
    return X, Y


@cache
def ordinary_molecules() -> tuple[np.ndarray, np.ndarray]:
    """QM9 without the 427 molecules of which a target is ten robust deviations off the median.

    The rotational constants of a few tiny molecules are a thousand times those of the others: one
    of them among the test rows would decide the mean.
    """
    X, Y = load_qm9(return_X_y=True, download_if_missing=False)
    lower, median, upper = np.percentile(Y, [25, 50, 75], axis=0)
    ordinary = (np.abs(Y - median) <= 10.0 * (upper - lower) / 1.35).all(axis=1)
    return X[ordinary], Y[ordinary]


# --------------------------------------------------------------------------------------- splitting


def prepare(X: np.ndarray, Y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Problem:
    """Drop rows without a target, fill gaps, standardise; by the training rows alone."""
    known = np.isfinite(Y).all(axis=1)
    train, test = train[known[train]], test[known[test]]
    X = np.where(np.isfinite(X), X, np.nan)
    present = np.isfinite(X[train]).any(axis=0)
    X = X[:, present]
    centre = np.nanmean(X[train], axis=0)
    X = np.where(np.isnan(X), centre, X)
    varies = Y[train].std(axis=0) > 1e-12 * np.abs(Y[train]).max(axis=0)
    Y = Y[:, varies]
    return Problem(X[train], Y[train], X[test], Y[test], Y[train].var(axis=0)).standardised()


def shuffled_split(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """70 % of the rows for training, at random."""
    rows = np.random.default_rng([stream(seed), n_rows]).permutation(n_rows)
    cut = round(0.7 * n_rows)
    return np.sort(rows[:cut]), np.sort(rows[cut:])


def place(seed: int) -> float:
    """Where a block lies, from 0 to 1: those of final seeds between those of tuning seeds.

    Final ones lay at sevenths, at odd sixteenths, at (k + 0.3)/8 and (k + 0.7)/8 in the protocols
    before.
    """
    n_each = N_SPLITS // 2
    return (seed // 2 + 0.1) / n_each if is_final(seed) else seed // 2 / (n_each - 1)


def blocked_split(n_rows: int, gap: int, seed: int) -> Split:
    """A test block of 30 % whose place moves with the seed; ``gap`` rows on each side unused."""
    length = round(0.3 * n_rows)
    start = round(place(seed) * (n_rows - length))
    return block_at(start, n_rows, length, gap)


def sarcos(seed: int, *, n_samples: int) -> Problem:
    """Evenly spaced rows of a training region; later, after a gap, the test block.

    Tuning seeds live in the first half of the recording, final ones in the second.
    """
    X, Y = table("sarcos")
    half = len(X) // 2
    room = half - SARCOS_REGION - SARCOS_GAP - SARCOS_TEST
    start = half * is_final(seed) + round(place(seed) * room)
    train = start + np.arange(n_samples) * SARCOS_REGION // n_samples
    test = start + SARCOS_REGION + SARCOS_GAP + np.arange(SARCOS_TEST)
    return prepare(X, Y, train, test)


def qm9(seed: int, *, n_samples: int) -> Problem:
    """A draw of molecules and 3000 others to test; odd rows for final seeds, even for tuning."""
    X, Y = ordinary_molecules()
    rows = np.arange(int(is_final(seed)), len(X), 2)
    rows = np.random.default_rng([stream(seed), 9]).permutation(rows)[: n_samples + 3000]
    return prepare(X, Y, rows[:n_samples], rows[n_samples:])


def tecator(seed: int) -> Problem:
    """Spectra at random."""
    X, Y = table("tecator")
    return prepare(X, Y, *shuffled_split(len(X), seed))


def mulan(seed: int, *, name: str) -> Problem:
    """A split at random, or in blocks where rows are ordered."""
    X, Y = table(name)
    if name in ORDERED:
        return prepare(X, Y, *blocked_split(len(X), ORDERED[name], seed))
    return prepare(X, Y, *shuffled_split(len(X), seed))


def real_cases() -> tuple[list[Case], list[str]]:
    """The sets that are there, and a word on those that are not."""
    present = {line.name: line.present for line in list_datasets()}
    wanted = [
        Case(f"{name} n={n}", name, "real", partial(draw, n_samples=n), N_SPLITS)
        for name, draw in (("sarcos", sarcos), ("qm9", qm9))
        for n in (100, 300, 1000)
    ]
    wanted.append(Case("tecator", "tecator", "real", tecator, N_SPLITS))
    wanted += [Case(name, name, "real", partial(mulan, name=name), N_SPLITS) for name in MULAN]
    there = [case for case in wanted if present[case.family]]
    absent = [
        f"{case.name}: its data are not in {get_data_home()} (ctfa datasets {case.family})"
        for case in wanted
        if not present[case.family]
    ]
    return there, absent
