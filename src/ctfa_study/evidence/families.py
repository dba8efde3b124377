"""Synthetic families with a known truth, each in two sizes, and the paper's own setting."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ctfa.datasets import make_paper_synthetic
from ctfa_study.evidence.problem import Case, Problem, stream

N_TEST = 2000
#: Correlation of neighbouring inputs.
INPUT_CORRELATION = 0.5


@dataclass(frozen=True)
class Size:
    """Rows, inputs, targets, share of a target's variance that is signal, different maps."""

    n_samples: int
    n_inputs: int
    n_targets: int
    r2: float
    n_groups: int

    def __str__(self) -> str:
        sizes = f"n={self.n_samples} D={self.n_inputs} L={self.n_targets}"
        return f"{sizes} K={self.n_groups}"


Draw = Callable[[np.random.Generator, Size], Problem]


# ------------------------------------------------------------------------- what a family is made of


def inputs(rng: np.random.Generator, n_samples: int, n_inputs: int) -> np.ndarray:
    """Gaussian inputs, neighbours correlated."""
    X = rng.normal(size=(n_samples, n_inputs))
    return mix_neighbours(X)


def mix_neighbours(X: np.ndarray) -> np.ndarray:
    """Give independent columns of variance one the correlation of an autoregression."""
    own = np.sqrt(1.0 - INPUT_CORRELATION**2)
    for column in range(1, X.shape[1]):
        X[:, column] = INPUT_CORRELATION * X[:, column - 1] + own * X[:, column]
    return X


def maps(rng: np.random.Generator, n_inputs: int, n_maps: int) -> np.ndarray:
    """Gaussian coefficients of signals with variance one."""
    B = rng.normal(size=(n_inputs, n_maps))
    lag = np.abs(np.subtract.outer(np.arange(n_inputs), np.arange(n_inputs)))
    covariance = INPUT_CORRELATION**lag
    return np.asarray(B / np.sqrt(np.einsum("ij,ik,kj->j", B, covariance, B)))


def balanced(rng: np.random.Generator, n_targets: int, n_groups: int) -> np.ndarray:
    """Groups of nearly equal size, in random order."""
    return rng.permutation(np.arange(n_targets) % n_groups)


def white(rng: np.random.Generator, n_samples: int, n_targets: int) -> np.ndarray:
    """Independent Gaussian noise of variance one."""
    return rng.normal(size=(n_samples, n_targets))


def common(rng: np.random.Generator, n_samples: int, n_targets: int) -> np.ndarray:
    """Noise of which 80 % is the same for all targets."""
    shared = rng.normal(size=(n_samples, 1))
    own = rng.normal(size=(n_samples, n_targets))
    return np.asarray(np.sqrt(0.8) * shared + np.sqrt(0.2) * own)


def student(rng: np.random.Generator, n_samples: int, n_targets: int) -> np.ndarray:
    """Noise of three degrees of freedom, scaled to variance one."""
    return np.asarray(rng.standard_t(3, size=(n_samples, n_targets)) / np.sqrt(3.0))


def persistent(
    rng: np.random.Generator, n_samples: int, n_columns: int, memory: float = 0.7
) -> np.ndarray:
    """Columns of variance one that remember a share of the row before."""
    values = rng.normal(size=(n_samples, n_columns))
    own = np.sqrt(1.0 - memory**2)
    for row in range(1, n_samples):
        values[row] = memory * values[row - 1] + own * values[row]
    return values


def assemble(
    rng: np.random.Generator,
    size: Size,
    signal: Callable[[np.ndarray], np.ndarray],
    labels: np.ndarray | None,
    *,
    noise: Callable[..., np.ndarray] = white,
    noise_share: np.ndarray | None = None,
    draw_inputs: Callable[..., np.ndarray] = inputs,
) -> Problem:
    """Draw rows, add noise of the wanted share, and keep the noise-free signal of the test rows."""
    X = draw_inputs(rng, size.n_samples, size.n_inputs)
    X_test = draw_inputs(rng, N_TEST, size.n_inputs)
    share = np.full(size.n_targets, 1.0 - size.r2) if noise_share is None else noise_share
    # Signals have variance r2 where they are not null: y has variance one.
    strength = np.sqrt(1.0 - share)
    wanted = signal(X_test) * strength
    Y = signal(X) * strength + np.sqrt(share) * noise(rng, size.n_samples, size.n_targets)
    variance = wanted.var(axis=0) + share
    return Problem(X, Y, X_test, wanted, variance, float(np.mean(share / variance)), labels)


# --------------------------------------------------------------------------------------- families


def grouped(rng: np.random.Generator, size: Size, **how: Any) -> Problem:
    """Groups of targets with one map each."""
    labels = balanced(rng, size.n_targets, size.n_groups)
    B = maps(rng, size.n_inputs, size.n_groups)[:, labels]
    return assemble(rng, size, lambda X: X @ B, labels, **how)


def heterogeneous(rng: np.random.Generator, size: Size) -> Problem:
    """Groups around a common map; 0.2 of each signal's variance is its own."""
    labels = balanced(rng, size.n_targets, size.n_groups)
    B = np.sqrt(0.8) * maps(rng, size.n_inputs, size.n_groups)[:, labels]
    B += np.sqrt(0.2) * maps(rng, size.n_inputs, size.n_targets)
    return assemble(rng, size, lambda X: X @ B, labels)


def independent(rng: np.random.Generator, size: Size, **how: Any) -> Problem:
    """A map for each target: nothing to share."""
    B = maps(rng, size.n_inputs, size.n_targets)
    return assemble(rng, size, lambda X: X @ B, np.arange(size.n_targets), **how)


def null_tasks(rng: np.random.Generator, size: Size) -> Problem:
    """Half of the targets are pure noise, the others come in groups."""
    labels = balanced(rng, size.n_targets, 2 * size.n_groups)
    B = maps(rng, size.n_inputs, size.n_groups)
    B = np.hstack([B, np.zeros_like(B)])[:, labels]
    share = np.where(labels < size.n_groups, 1.0 - size.r2, 1.0)
    true = np.minimum(labels, size.n_groups)
    return assemble(rng, size, lambda X: X @ B, true, noise_share=share)


def correlated_noise(rng: np.random.Generator, size: Size) -> Problem:
    """Noise mostly in common; groups, or (one group per target) nothing to share."""
    if size.n_groups == size.n_targets:
        return independent(rng, size, noise=common)
    return grouped(rng, size, noise=common)


def scales(rng: np.random.Generator, size: Size) -> Problem:
    """Groups, in units that differ by up to a million, and with offsets."""
    plain = grouped(rng, size)
    unit = 10.0 ** rng.uniform(-3.0, 3.0, size=size.n_targets)
    offset = 10.0 * unit * rng.normal(size=size.n_targets)
    return Problem(
        plain.X,
        plain.Y * unit + offset,
        plain.X_test,
        plain.wanted * unit + offset,
        plain.variance * unit**2,
        plain.noise,
        plain.labels,
    )


def flipped(rng: np.random.Generator, size: Size) -> Problem:
    """Groups in which half of the members have the opposite sign."""
    labels = balanced(rng, size.n_targets, 2 * size.n_groups)
    B = maps(rng, size.n_inputs, size.n_groups)
    B = np.hstack([B, -B])[:, labels]
    return assemble(rng, size, lambda X: X @ B, labels)


def heavy_tails(rng: np.random.Generator, size: Size) -> Problem:
    """Groups under noise of three degrees of freedom."""
    return grouped(rng, size, noise=student)


def nonlinear(rng: np.random.Generator, size: Size) -> Problem:
    """Groups whose signal is linear to 60 %, the rest a wave and a product of two directions."""
    labels = balanced(rng, size.n_targets, size.n_groups)
    linear, one, two, wave = (maps(rng, size.n_inputs, size.n_groups) for _ in range(4))

    def signal(X: np.ndarray) -> np.ndarray:
        bent = np.sqrt(0.6) * (X @ linear)
        bent += np.sqrt(0.2) * (X @ one) * (X @ two)
        bent += np.sqrt(0.4) * np.sin(2.0 * (X @ wave))
        return np.asarray(bent[:, labels])

    return assemble(rng, size, signal, labels)


def smooth(rng: np.random.Generator, size: Size) -> Problem:
    """Targets along a line, maps that drift from one end to the other."""
    place = np.linspace(0.0, 1.0, size.n_targets)
    centres = np.linspace(0.0, 1.0, 4)
    weights = np.exp(-0.5 * ((place - centres[:, None]) / 0.25) ** 2)
    weights /= np.sqrt((weights**2).sum(axis=0))
    B = maps(rng, size.n_inputs, 4) @ weights
    B /= np.sqrt(np.mean((inputs(rng, N_TEST, size.n_inputs) @ B) ** 2, axis=0))
    return assemble(rng, size, lambda X: X @ B, None)


def series(rng: np.random.Generator, size: Size) -> Problem:
    """Groups in time: inputs and noise remember the row before."""

    def draw_inputs(rng: np.random.Generator, n_samples: int, n_inputs: int) -> np.ndarray:
        return mix_neighbours(persistent(rng, n_samples, n_inputs))

    return grouped(rng, size, noise=persistent, draw_inputs=draw_inputs)


def paper(seed: int, *, n_targets: int, noise: float) -> Problem:
    """The paper's setting; the signal is the same draw without noise."""
    draw = partial(make_paper_synthetic, 250 + 1000, 100, n_targets, random_state=stream(seed))
    X, Y = draw(noise=noise)
    _, signal = draw(noise=0.0)
    labels = (signal.T @ X.sum(axis=1) > 0).astype(int)
    variance = signal.var(axis=0) + noise**2
    return Problem(
        X[:250],
        Y[:250],
        X[250:],
        signal[250:],
        variance,
        float(np.mean(noise**2 / variance)),
        labels,
    )


FAMILIES: dict[str, tuple[Draw, tuple[Size, ...]]] = {
    "identical": (grouped, (Size(60, 10, 30, 0.3, 1), Size(200, 20, 10, 0.2, 1))),
    "grouped": (grouped, (Size(100, 20, 20, 0.4, 4), Size(250, 50, 100, 0.3, 5))),
    "heterogeneous": (heterogeneous, (Size(100, 20, 20, 0.4, 4), Size(60, 10, 50, 0.3, 3))),
    "independent": (independent, (Size(100, 20, 20, 0.4, 20), Size(150, 10, 10, 0.5, 10))),
    "null tasks": (null_tasks, (Size(80, 15, 30, 0.4, 2), Size(200, 30, 20, 0.3, 2))),
    "correlated noise": (correlated_noise, (Size(100, 20, 20, 0.4, 4), Size(100, 20, 20, 0.4, 20))),
    "scales": (scales, (Size(100, 20, 20, 0.4, 4), Size(60, 10, 30, 0.3, 3))),
    "flipped": (flipped, (Size(100, 20, 20, 0.4, 2), Size(60, 10, 30, 0.3, 1))),
    "many tasks": (grouped, (Size(80, 10, 200, 0.3, 10), Size(150, 30, 200, 0.3, 10))),
    "n near D": (grouped, (Size(40, 30, 20, 0.6, 2), Size(60, 50, 20, 0.6, 4))),
    "heavy tails": (heavy_tails, (Size(100, 20, 20, 0.4, 4), Size(200, 20, 40, 0.2, 4))),
    "nonlinear": (nonlinear, (Size(150, 10, 20, 0.4, 4), Size(300, 10, 20, 0.6, 4))),
    "smooth": (smooth, (Size(100, 20, 30, 0.4, 30), Size(60, 10, 60, 0.3, 60))),
    "series": (series, (Size(100, 10, 20, 0.4, 4), Size(200, 20, 50, 0.3, 5))),
}


def draw(seed: int, *, family: str, size: Size) -> Problem:
    """The problem of a seed: its own stream for every family and size."""
    make, _ = FAMILIES[family]
    numbers = np.random.default_rng([stream(seed), zlib.crc32(f"{family} {size}".encode())])
    return make(numbers, size)


def slow_seeds(n_targets: int) -> int:
    """Seeds on which a forest or a network per target is fitted: fewer where targets are many."""
    return 4 if n_targets < 100 else 2


def synthetic_cases() -> list[Case]:
    """Every family in every size."""
    return [
        Case(
            f"{family}, {size}",
            family,
            "synthetic",
            partial(draw, family=family, size=size),
            n_slow_seeds=slow_seeds(size.n_targets),
        )
        for family, (_, sizes) in FAMILIES.items()
        for size in sizes
    ]


def paper_cases() -> list[Case]:
    """The paper's data with ten and a hundred targets, at the noise printed and the one said."""
    return [
        Case(
            f"paper, L={n_targets} sigma={noise:g}",
            "paper",
            "paper",
            partial(paper, n_targets=n_targets, noise=noise),
            n_seeds=8,
            n_slow_seeds=slow_seeds(n_targets),
        )
        for n_targets in (10, 100)
        for noise in (7.5, 10.0)
    ]
