"""Families built to break the rule: what a default must not lose on."""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import numpy as np

from ctfa_study.evidence.families import (
    Draw,
    Size,
    assemble,
    balanced,
    grouped,
    independent,
    inputs,
    maps,
    mix_neighbours,
    persistent,
    slow_seeds,
)
from ctfa_study.evidence.problem import Case, Problem, stream


def unequal_noise(rng: np.random.Generator, size: Size) -> Problem:
    """Groups in which the share of noise runs from a tenth to almost everything."""
    labels = balanced(rng, size.n_targets, size.n_groups)
    B = maps(rng, size.n_inputs, size.n_groups)[:, labels]
    share = rng.uniform(0.1, 0.97, size=size.n_targets)
    return assemble(rng, size, lambda X: X @ B, labels, noise_share=share)


def overlapping(rng: np.random.Generator, size: Size) -> Problem:
    """Each target belongs to two of K maps at once, half to each: no partition is right."""
    B = maps(rng, size.n_inputs, size.n_groups)
    pairs = np.array([rng.choice(size.n_groups, 2, replace=False) for _ in range(size.n_targets)])
    own = (B[:, pairs[:, 0]] + B[:, pairs[:, 1]]) / np.sqrt(2.0)
    return assemble(rng, size, lambda X: X @ own, None)


def remembering(rng: np.random.Generator, size: Size, memory: float, **how: Any) -> Problem:
    """Inputs and noise that remember most of the row before; groups or (K = L) unrelated."""
    keep = partial(persistent, memory=memory)

    def draw_inputs(rng: np.random.Generator, n_samples: int, n_inputs: int) -> np.ndarray:
        return mix_neighbours(keep(rng, n_samples, n_inputs))

    how = {"noise": keep, "draw_inputs": draw_inputs} | how
    if size.n_groups == size.n_targets:
        return independent(rng, size, **how)
    return grouped(rng, size, **how)


def outlier(rng: np.random.Generator, size: Size) -> Problem:
    """Groups, and one row of eight times the usual length with errors to match."""
    plain = grouped(rng, size)
    row = int(rng.integers(size.n_samples))
    plain.X[row] *= 8.0
    plain.Y[row] = 8.0 * rng.normal(size=size.n_targets)
    return plain


def sparse_differences(rng: np.random.Generator, size: Size) -> Problem:
    """Groups whose members differ from each other in the coefficient of one input only."""
    labels = balanced(rng, size.n_targets, size.n_groups)
    B = maps(rng, size.n_inputs, size.n_groups)[:, labels]
    which = rng.integers(size.n_inputs, size=size.n_targets)
    B[which, np.arange(size.n_targets)] += 0.6 * rng.choice([-1.0, 1.0], size=size.n_targets)
    return assemble(rng, size, lambda X: X @ B, None)


def tree(rng: np.random.Generator, size: Size) -> Problem:
    """Groups within groups: maps of a tree in which every level adds its own part."""
    B = np.zeros((size.n_inputs, size.n_targets))
    order = rng.permutation(size.n_targets)
    for level, share in enumerate((0.5, 0.25, 0.15, 0.1)):
        n_nodes = min(2 ** (level + 1), size.n_targets)
        node = np.arange(size.n_targets) * n_nodes // size.n_targets
        B[:, order] += np.sqrt(share) * maps(rng, size.n_inputs, n_nodes)[:, node]
    return assemble(rng, size, lambda X: X @ B, None)


def gradient(rng: np.random.Generator, size: Size) -> Problem:
    """Targets on a square, each coefficient a plane over it: neighbours hardly differ."""
    side = int(np.ceil(np.sqrt(size.n_targets)))
    place = np.array([(k % side, k // side) for k in range(size.n_targets)]) / max(side - 1, 1)
    ends = maps(rng, size.n_inputs, 3)
    B = 0.5 * ends[:, [0]] + ends[:, 1:] @ (place - 0.5).T * 2.0
    B /= np.sqrt(np.mean((inputs(rng, 2000, size.n_inputs) @ B) ** 2, axis=0))
    return assemble(rng, size, lambda X: X @ B, None)


def windows(rng: np.random.Generator, size: Size, *, alike: bool) -> Problem:
    """Inputs in blocks of five that correlate; within a block one coefficient, or opposed ones."""
    block = np.arange(size.n_inputs) // 5
    labels = balanced(rng, size.n_targets, size.n_groups)
    weights = rng.normal(size=(block.max() + 1, size.n_groups))[block]
    if not alike:
        weights = weights * rng.choice([-1.0, 1.0], size=weights.shape)

    def draw_inputs(rng: np.random.Generator, n_samples: int, n_inputs: int) -> np.ndarray:
        common = rng.normal(size=(n_samples, block.max() + 1))[:, block]
        return np.asarray(
            np.sqrt(0.7) * common + np.sqrt(0.3) * rng.normal(size=(n_samples, n_inputs))
        )

    B = weights / np.sqrt(np.mean((draw_inputs(rng, 4000, size.n_inputs) @ weights) ** 2, axis=0))
    B = B[:, labels]
    return assemble(rng, size, lambda X: X @ B, labels, draw_inputs=draw_inputs)


def one_strong(rng: np.random.Generator, size: Size) -> Problem:
    """One target that inputs explain well, among pure noise."""
    B = maps(rng, size.n_inputs, size.n_targets)
    share = np.ones(size.n_targets)
    share[0] = 1.0 - size.r2
    labels = np.minimum(np.arange(size.n_targets), 1)
    return assemble(rng, size, lambda X: X @ B, labels, noise_share=share)


ADVERSARIAL: dict[str, tuple[Draw, tuple[Size, ...]]] = {
    "unequal noise": (unequal_noise, (Size(100, 20, 20, 0.4, 4), Size(60, 10, 40, 0.4, 2))),
    "overlapping": (overlapping, (Size(100, 20, 20, 0.4, 4), Size(80, 10, 40, 0.3, 3))),
    "memory, groups": (
        partial(remembering, memory=0.9),
        (Size(400, 10, 12, 0.4, 3), Size(250, 8, 24, 0.3, 3)),
    ),
    "memory, unrelated": (
        partial(remembering, memory=0.9),
        (Size(400, 10, 12, 0.4, 12), Size(300, 8, 10, 0.6, 10)),
    ),
    "outlier row": (outlier, (Size(100, 10, 20, 0.4, 4), Size(250, 20, 12, 0.4, 3))),
    "n below D": (grouped, (Size(45, 60, 20, 0.6, 3), Size(60, 50, 12, 0.6, 12))),
    "L far above n": (grouped, (Size(50, 8, 400, 0.3, 8), Size(40, 10, 300, 0.3, 300))),
    "sparse differences": (
        sparse_differences,
        (Size(100, 20, 20, 0.5, 2), Size(200, 10, 30, 0.5, 3)),
    ),
    "tree": (tree, (Size(100, 20, 24, 0.4, 1), Size(60, 10, 48, 0.4, 1))),
    "gradient": (gradient, (Size(100, 15, 36, 0.4, 1), Size(200, 10, 100, 0.3, 1))),
    "few weak targets": (grouped, (Size(100, 10, 3, 0.1, 1), Size(150, 15, 4, 0.08, 4))),
    "two targets": (grouped, (Size(80, 10, 2, 0.5, 1), Size(80, 10, 2, 0.5, 2))),
    "hardly any noise": (grouped, (Size(100, 10, 12, 0.99, 12), Size(60, 10, 12, 0.95, 3))),
    "windows": (
        partial(windows, alike=True),
        (Size(100, 30, 12, 0.4, 3), Size(150, 20, 6, 0.3, 6)),
    ),
    "opposed windows": (
        partial(windows, alike=False),
        (Size(100, 30, 12, 0.6, 3), Size(150, 20, 6, 0.6, 6)),
    ),
    "one strong target": (one_strong, (Size(100, 10, 12, 0.6, 2), Size(60, 15, 30, 0.6, 2))),
}


def draw(seed: int, *, family: str, size: Size) -> Problem:
    """The problem of a seed: its own stream for every family and size."""
    make, _ = ADVERSARIAL[family]
    numbers = np.random.default_rng([stream(seed), zlib.crc32(f"{family} {size}".encode())])
    return make(numbers, size)


def adversarial_cases() -> list[Case]:
    """Every family in every size."""
    return [
        Case(
            f"{family}, {size}",
            family,
            "adversarial",
            partial(draw, family=family, size=size),
            n_slow_seeds=slow_seeds(size.n_targets),
        )
        for family, (_, sizes) in ADVERSARIAL.items()
        for size in sizes
    ]
