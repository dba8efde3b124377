"""Compiled questions of tasks that share coefficients: the losses and decisions of numpy."""

import numpy as np
import pytest

from ctfa import kernels
from ctfa.core import backend
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.graph import Neighbours
from ctfa.core.scans import SCANS
from ctfa.core.spaces.pooled import PooledSpace
from test_kernels import assert_same_history
from test_paired_kernel import FLAWS, flawed, ring

pytestmark = pytest.mark.skipif(not kernels.has_numba(), reason="compiled questions need numba")
RISK = TARGET_CRITERIA["risk"]


def space_of(flaw, seed, n_tasks=24):
    """Tasks with flaws, some of them short, with rows and tasks that count more and less."""
    X, Y = flawed(flaw, seed, n_tasks)
    rng = np.random.default_rng(seed)
    # Six rows determine five slopes and a level; the shortest have no degree of freedom left.
    n_rows = rng.choice([5, 6, 7, 12, 40], size=n_tasks) if seed % 2 else np.full(n_tasks, 40)
    weights = [rng.choice([0.0, 0.5, 2.0], size=n, p=[0.1, 0.4, 0.5]) for n in n_rows]
    given = {"row_weights": weights, "weights": rng.uniform(0.5, 2.0, n_tasks)}
    rows = [(X[task][:n], Y[:n, task]) for task, n in enumerate(n_rows)]
    return PooledSpace.of(*map(list, zip(*rows, strict=True)), **(given if seed > 1 else {}))


@pytest.mark.parametrize("flaw", FLAWS)
def test_losses_are_those_of_the_space_before_and_after_merges(flaw):
    for seed in range(4):
        space = space_of(flaw, seed)
        asked = kernels.questions(space, RISK, where_it_pays=False)
        for first, second in ((0, 1), (2, 3), (0, 2), (5, 9), (0, 5)):
            others = np.setdiff1d(np.arange(10, 24), [first, second])
            expected = RISK(space.evidence(first, others))
            np.testing.assert_allclose(asked.losses(first, others), expected, rtol=1e-9, atol=1e-9)
            pairs = np.full(others.size, first), others
            np.testing.assert_allclose(asked.losses(*pairs), expected, rtol=1e-9, atol=1e-9)
            asked.merge(first, second)
        alone = space_of(flaw, seed)
        for first, second in ((0, 1), (2, 3), (0, 2), (5, 9), (0, 5)):
            alone.merge(first, second)
        left = np.setdiff1d(np.arange(24), [1, 2, 3, 5, 9])
        for mine, theirs in zip(space.start()[1], alone.start()[1], strict=True):
            np.testing.assert_allclose(mine[left], theirs[left], rtol=1e-9, atol=1e-12)
        mine, theirs = space.correlation(0, left), alone.correlation(0, left)
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_what_keeps_its_digits_is_answered_without_the_space():
    space = space_of("none", 0)
    asked = kernels.questions(space, RISK, where_it_pays=False)
    expected = RISK(space.evidence(0, np.arange(1, 24)))
    space.evidence = None
    np.testing.assert_allclose(asked.losses(0, np.arange(1, 24)), expected, rtol=1e-9)


@pytest.mark.parametrize("scan", ["best-first", "correlation", "grow"])
@pytest.mark.parametrize("on_graph", [False, True])
def test_shared_coefficients_have_the_history_of_numpy(scan, on_graph):
    for seed in range(4):
        found = []
        for name in ("numpy", "numba"):
            graph = ring(24, np.random.default_rng(seed)) if on_graph else None
            with backend.using(name):
                found.append(
                    SCANS[scan](
                        space_of(FLAWS[seed], seed),
                        RISK,
                        max_loss=3.0,
                        order=np.arange(24),
                        neighbours=None if graph is None else Neighbours(graph),
                        tolerance=1e-10,
                    )
                )
        assert_same_history(*found, rtol=1e-9)


def test_another_criterion_is_asked_of_the_space():
    space = space_of("none", 0)
    assert kernels.questions(space, lambda evidence: evidence.f_star, where_it_pays=False) is None
