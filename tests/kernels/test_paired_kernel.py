"""Compiled questions of tasks with their own inputs: the decisions of numpy and of refits."""

import importlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import test_paired_space as own
from ctfa import kernels
from ctfa.core import backend, progress
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.graph import Neighbours
from ctfa.core.history import Ledger
from ctfa.core.scans import SCANS
from ctfa.core.spaces.paired import PairedSpace
from ctfa.core.spaces.targets import TargetSpace
from generated import examples
from test_core_against_oracle import assert_same_decisions
from test_kernels import assert_same_history

needs_numba = pytest.mark.skipif(not kernels.has_numba(), reason="compiled questions need numba")
pytestmark = needs_numba
CASES = [*own.CASES, ("risk", -np.inf), ("risk", np.inf)]
ON_GRAPHS = ["best-first", "correlation"]
FLAWS = ["none", "collinear", "copies", "no slot", "constant", "no inputs", "cancelling", "alike"]


def flawed(flaw, seed, n_tasks=24, n_samples=40, n_inputs=5):
    """Tasks in groups, with what breaks Gram matrices."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_samples, n_inputs))
    X = 0.8 * common + 0.4 * rng.normal(size=(n_tasks, n_samples, n_inputs))
    slopes = rng.normal(size=(4, n_inputs))[rng.integers(0, 4, size=n_tasks)]
    Y = np.einsum("lnd,ld->nl", X, slopes) + rng.normal(size=(n_samples, n_tasks))
    some = rng.choice(n_tasks, size=n_tasks // 3, replace=False)
    if flaw == "collinear":
        X[some, :, 1] = X[some, :, 0] + 10.0 ** -rng.integers(1, 12) * X[some, :, 1]
    elif flaw == "copies":
        X[some], Y[:, some] = X[some[:1]], Y[:, some[:1]]
    elif flaw == "no slot":
        X[some, :, 2] = 0.0
        X[some[:2], :, 3] = 0.0
    elif flaw == "constant":
        Y[:, some] = 3.0
    elif flaw == "no inputs":
        X[some] = 1.0
    elif flaw == "cancelling":
        X[some[1::2], :, 0] = -X[some[0], :, 0]
        X[some[::2], :, 0] = X[some[0], :, 0]
    elif flaw == "alike":
        Y += 10.0 ** rng.integers(2, 6) * rng.normal(size=(n_samples, 1))
    return X, Y


def ring(n_tasks, rng):
    """A graph of about six neighbours per task, in two parts."""
    near = np.abs(np.subtract.outer(np.arange(n_tasks), np.arange(n_tasks))) <= 3
    near &= rng.uniform(size=near.shape) < 0.9
    near[: n_tasks // 4, n_tasks // 4 :] = False
    return sparse.csr_array(near | near.T)


def histories(X, Y, criterion, scan, max_loss, *, graph=None, lowest=-1.0, sizes=None):
    found = []
    for name in ("numpy", "numba"):
        space = PairedSpace.of(X, Y, sizes=sizes)
        with backend.using(name):
            history = SCANS[scan](
                space,
                TARGET_CRITERIA[criterion],
                max_loss=max_loss,
                order=np.arange(X.shape[0]),
                neighbours=None if graph is None else Neighbours(graph),
                min_correlation=lowest,
                tolerance=1e-10 * (1.0 if criterion == "risk" else space.total_variance),
            )
        found.append((history, space))
    return found


def assert_same_outcome(numpy, numba, rtol=1e-6):
    """The same history, and a space that stands the same."""
    assert_same_history(numpy[0], numba[0], rtol=rtol)
    left = np.setdiff1d(np.arange(numpy[0].n_variables), numpy[0].other)
    for mine, theirs in zip(numpy[1].start(), numba[1].start(), strict=True):
        scale = np.abs(mine[left]).max(initial=1e-300)
        np.testing.assert_allclose(mine[left], theirs[left], rtol=1e-6, atol=1e-9 * scale)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("criterion", "max_loss"), CASES)
@pytest.mark.parametrize("flaw", FLAWS)
def test_paired_tasks_have_the_history_of_numpy(flaw, criterion, max_loss, scan):
    if flaw == "copies" and criterion != "risk" and scan == "best-first":
        pytest.skip("copies gain nothing by the paper's rule: rounding says which comes first")
    for seed in range(3):
        X, Y = flawed(flaw, seed)
        rng = np.random.default_rng(seed)
        graph = ring(X.shape[0], rng) if seed else None
        sizes = rng.integers(1, 4, size=X.shape[0]) if seed == 2 else None
        pair = histories(X, Y, criterion, scan, max_loss, graph=graph, sizes=sizes)
        assert_same_outcome(*pair, rtol=1e-5)


def graph_of(kind, n_tasks, rng):
    """Graphs that a scan may meet: hubs, islands, everybody with everybody, nobody."""
    near = np.zeros((n_tasks, n_tasks), dtype=bool)
    if kind == "ring":
        return ring(n_tasks, rng)
    if kind == "star":
        near[:, rng.choice(n_tasks, size=2)] = True
    elif kind == "islands":
        island = rng.integers(0, 5, size=n_tasks)
        near = (island[:, None] == island) & (rng.uniform(size=near.shape) < 0.5)
    elif kind == "complete":
        near[:] = True
    elif kind == "sparse":
        near = rng.uniform(size=near.shape) < 1.5 / n_tasks
    return sparse.csr_array(near | near.T)


@pytest.mark.more
@given(
    flaw=st.sampled_from(FLAWS),
    kind=st.sampled_from(["ring", "star", "islands", "complete", "sparse", "none"]),
    seed=st.integers(0, 2**20),
    case=st.sampled_from([*CASES, ("risk", 3.0), ("risk", 30.0)]),
    scan=st.sampled_from(ON_GRAPHS),
    lowest=st.sampled_from([-1.0, 0.0, 0.3]),
    budget=st.sampled_from([1, 100, 320_000]),
    sized=st.booleans(),
)
@settings(max_examples=examples(300), deadline=None)
def test_any_graph_is_walked_as_by_numpy(flaw, kind, seed, case, scan, lowest, budget, sized):
    # Of copies, rounding says which is nearest by the paper's rule: they gain nothing.
    assume(flaw != "copies" or (scan == "correlation"))
    X, Y = flawed(flaw, seed)
    rng = np.random.default_rng(seed)
    graph = graph_of(kind, X.shape[0], rng)
    sizes = rng.integers(1, 4, size=X.shape[0]) if sized else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels.kernel_of("paired"), "BUDGET", budget)
        pair = histories(X, Y, case[0], scan, case[1], graph=graph, lowest=lowest, sizes=sizes)
    assert_same_outcome(*pair, rtol=1e-5)
    if flaw == "none":  # elsewhere two neighbours may be as near, to rounding
        assert pair[0][0].refused.tolist() == pair[1][0].refused.tolist()


@pytest.mark.parametrize("scan", ON_GRAPHS)
def test_a_walk_that_is_stopped_has_made_the_first_merges_of_the_whole_one(scan, monkeypatch):
    monkeypatch.setattr(kernels.kernel_of("paired"), "BUDGET", 1)
    X, Y = flawed("none", 4, n_tasks=60)
    graph = ring(60, np.random.default_rng(4))
    (whole, _), _ = histories(X, Y, "risk", scan, 1.5, graph=graph)
    with (
        progress.reporting_to(lambda record: record.n_merges < 5, every=0.0),
        pytest.warns(progress.SearchStopped, match="stopped after 5 merges"),
    ):
        (mine, _), (part, space) = histories(X, Y, "risk", scan, 1.5, graph=graph)
    assert not part.complete
    assert len(whole) > len(part) == 5
    assert part.block.tolist() == whole.block[:5].tolist()
    assert part.other.tolist() == whole.other[:5].tolist()
    assert part.loss_interval == (part.loss.max(), part.loss.max())
    assert space.start()[1].max() == part.size.max()
    assert mine.n_comparisons == part.n_comparisons


@pytest.mark.parametrize("scan", ON_GRAPHS)
def test_a_walk_asks_the_space_where_digits_are_lost(scan, monkeypatch):
    kernel = kernels.kernel_of("paired")
    reasons = set()
    turns = kernel._turns
    monkeypatch.setattr(kernel, "_turns", lambda *state: reasons.add(why := turns(*state)) or why)
    for flaw in ("none", "collinear", "copies"):
        for seed in range(6):
            X, Y = flawed(flaw, seed)
            graph = graph_of("complete", 24, np.random.default_rng(seed))
            histories(X, Y, "risk", scan, 1.5, graph=graph)
        if flaw == "none":
            assert reasons == {kernel.DONE}
    asked = kernel.ASK_ROW if scan == "best-first" else kernel.ASK
    assert reasons >= {asked, kernel.MERGE}


@given(n_blocks=st.integers(2, 12), seed=st.integers(0, 2**20), n_steps=st.integers(1, 80))
@settings(max_examples=examples(60), deadline=None)
def test_pairs_leave_the_heap_in_order_and_only_while_they_are_pairs(n_blocks, seed, n_steps):
    waiting = importlib.import_module("ctfa.kernels.paired")
    rng = np.random.default_rng(seed)
    edges = [(i, j) for j in range(n_blocks) for i in range(j)]
    heap, changed, expected = waiting.heap_for(len(edges)), np.zeros(n_blocks, np.int64), {}
    for now in range(1, n_steps):
        block = int(rng.integers(n_blocks))  # changes, and all its pairs with it
        changed[block] = now
        mine = [pair for pair in edges if block in pair]
        waiting.make_room(heap, len(mine), changed)
        for first, second in mine:
            key = float(rng.integers(0, 4))
            waiting.put(heap, key, first * n_blocks + second, now)
            expected[first, second] = key
        for _ in range(int(rng.integers(0, 4))):
            at = waiting.take(heap, changed)
            if not expected:
                assert at == -1
                break
            pair = min(expected, key=lambda pair: (expected[pair], pair))
            assert divmod(int(heap.pair[at]), n_blocks) == pair
            assert heap.key[at] == expected.pop(pair)


@given(
    family=st.sampled_from(own.FAMILIES),
    seed=st.integers(0, 2**20),
    alike=st.floats(0.0, 1.0),
    case=st.sampled_from(own.CASES),
    scan=st.sampled_from(list(SCANS)),
    density=st.sampled_from([None, 0.3, 0.6]),
    lowest=st.sampled_from([-1.0, 0.2]),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_generated_problem_is_decided_as_by_refitting(
    family, seed, alike, case, scan, density, lowest
):
    X, Y = own.own_inputs(family, seed, alike=alike, n_tasks=6)
    graph = None
    if density is not None:
        upper = np.triu(np.random.default_rng(seed).uniform(size=(6, 6)) < density, 1)
        graph = upper | upper.T
    with backend.using("numba"):
        found = own.run(X, Y, case[0], scan, case[1], graph=graph, lowest=lowest)
    assert_same_decisions(*found)


@given(flaw=st.sampled_from(FLAWS), seed=st.integers(0, 2**20), merges=st.integers(0, 12))
@settings(max_examples=examples(120), deadline=None)
def test_any_pair_of_blocks_costs_what_numpy_says(flaw, seed, merges):
    X, Y = flawed(flaw, seed, n_tasks=16)
    rng = np.random.default_rng(seed)
    plain, compiled = PairedSpace.of(X, Y), PairedSpace.of(X, Y)
    left = np.arange(16)
    with backend.using("numba"):
        for criterion in TARGET_CRITERIA.values():
            ask = backend.questions(compiled, criterion)
            for _ in range(merges // 3):
                block, other = np.sort(rng.choice(left, size=2, replace=False))
                plain.merge(int(block), int(other))
                ask.merge(int(block), int(other))
                left = left[left != other]
            block, others = int(left[0]), left[1:]
            expected = criterion(plain.evidence(block, others))
            found = ask.losses(np.full(others.size, block), others)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
            assert ask.losses(block, others).tolist() == found.tolist()


def test_the_space_is_asked_where_gram_matrices_lose_their_digits(monkeypatch):
    asked = []
    evidence = PairedSpace.evidence

    def counted(space, block, others):
        asked.append(others.size)
        return evidence(space, block, others)

    monkeypatch.setattr(PairedSpace, "evidence", counted)
    for flaw, is_asked in (
        ("none", False),
        ("no slot", False),
        ("collinear", True),
        ("copies", True),
    ):
        asked.clear()
        with backend.using("numba"):
            space = PairedSpace.of(*flawed(flaw, 5))
            backend.questions(space, TARGET_CRITERIA["risk"]).losses(0, np.arange(1, 24))
            for block in range(1, 23):
                ask = backend.questions(space, TARGET_CRITERIA["risk"])
                ask.losses(block, np.arange(block + 1, 24))
        assert bool(asked) == is_asked


def test_only_tasks_with_their_own_inputs_and_known_criteria_are_taken():
    X, Y = flawed("none", 0)
    risk = TARGET_CRITERIA["risk"]

    class Other(PairedSpace):
        """May answer differently."""

    with backend.using("numba"):
        assert backend.questions(PairedSpace.of(X, Y), risk) is not None
        assert (
            backend.questions(PairedSpace.of(X, Y), lambda evidence: 2.0 * risk(evidence)) is None
        )
        assert backend.questions(Other.of(X, Y), risk) is None
        assert not issubclass(TargetSpace, PairedSpace)
    with backend.using("numpy"):
        assert backend.questions(PairedSpace.of(X, Y), risk) is None
    with backend.using("auto"):
        assert backend.questions(PairedSpace.of(X, Y), risk) is None  # too few to pay
        many = PairedSpace.of(*flawed("none", 0, n_tasks=120))
        assert backend.questions(many, risk) is not None


def test_walks_are_taken_where_questions_are_and_there_are_enough_of_them():
    X, Y = flawed("none", 0)
    risk, nobody = TARGET_CRITERIA["risk"], np.empty(0, dtype=np.intp)

    def left(space, criterion=risk):
        edges = nobody, nobody, np.empty(0)
        ledger = Ledger(space.n_variables)
        return backend.on_graph(
            space, criterion, ledger, edges, limit=1.0, min_correlation=-1.0, by_loss=False
        )

    with backend.using("numba"):
        assert [part.size for part in left(PairedSpace.of(X, Y))] == [0, 0]
        assert left(PairedSpace.of(X, Y), lambda evidence: 2.0 * risk(evidence)) is None
    with backend.using("numpy"):
        assert left(PairedSpace.of(X, Y)) is None
    with backend.using("auto"):
        assert left(PairedSpace.of(X, Y)) is None  # too few to pay
        assert left(PairedSpace.of(*flawed("none", 0, n_tasks=600))) is not None
