"""Questions of tasks with their own inputs, answered by arrays of any library, on any device."""

import importlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctfa import MultiInputCTFARegressor, TargetAggregator, multi_input_layout
from ctfa.core import backend, progress
from ctfa.core.criteria import TARGET_CRITERIA, target_risk
from ctfa.core.graph import Neighbours
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces.paired import PairedSpace
from ctfa.estimators.given import searched_where_data_lie
from ctfa.kernels import array_rows, devices
from generated import examples
from test_paired_kernel import FLAWS, flawed, graph_of

pytest.importorskip("array_api_strict", reason="the strict arrays are those the rest is tested by")
STRICT, TORCH = "array_api_strict", "torch:cpu"
# Its other devices need numpy 2: with numpy 1 it cannot bring their arrays back.
ELSEWHERE = f"{STRICT}:device1" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else STRICT
needs_torch = pytest.mark.skipif(
    not devices.has_library("torch"), reason="arrays of torch need torch and array-api-compat"
)
DEVICES = [ELSEWHERE, pytest.param(TORCH, marks=needs_torch)]
HERE = [STRICT, *([TORCH] if devices.has_library("torch") else [])]
ALL_PAIRS = ["best-first", "correlation"]
#: Flaws that leave Gram matrices their digits.
FIRM = ["none", "no slot", "constant", "no inputs"]


@pytest.fixture(autouse=True)
def small_problems_are_asked_there(monkeypatch):
    """Few pairs suffice, few are remembered, tiles are small, and the table is cleared often."""
    monkeypatch.setattr(array_rows, "MANY", 0)
    monkeypatch.setattr(array_rows, "REMEMBERED", 4)
    monkeypatch.setattr(array_rows, "PANELS", 3)
    monkeypatch.setattr(array_rows, "AT_ONCE", 1 << 12)


def search(name, space, scan, max_loss, *, criterion=target_risk, graph=None, lowest=-1.0):
    with backend.using(name):
        return SCANS[scan](
            space,
            criterion,
            max_loss=max_loss,
            order=np.arange(space.n_variables),
            neighbours=None if graph is None else Neighbours(graph),
            min_correlation=lowest,
            tolerance=1e-10,
        )


def assert_same_merges(mine, theirs, *, tolerance):
    assert mine.block.tolist() == theirs.block.tolist()
    assert mine.other.tolist() == theirs.other.tolist()
    assert mine.size.tolist() == theirs.size.tolist()
    # The largest number stands for infinite losses, and is told apart from large ones by neither.
    clipped = [np.clip(history.loss, -1e300, 1e300) for history in (mine, theirs)]
    scale = max(1.0, np.abs(clipped[0][clipped[0] < 1e300]).max(initial=0.0))
    np.testing.assert_allclose(*clipped, rtol=tolerance, atol=tolerance * scale)


def assert_same_refusals(mine, theirs, *, tolerance):
    assert ((mine.refused < 0) == (theirs.refused < 0)).all()
    losses = [np.clip(history.refused_loss, -1e300, 1e300) for history in (mine, theirs)]
    np.testing.assert_allclose(*losses, rtol=tolerance, atol=tolerance)
    bounds = [np.clip(history.loss_interval, -1e300, 1e300) for history in (mine, theirs)]
    np.testing.assert_allclose(*bounds, rtol=tolerance, atol=tolerance)


@pytest.mark.more
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("flaw", FLAWS)
def test_arrays_have_the_history_of_numpy(flaw, scan, name):
    tolerance = 1e-9 if flaw in FIRM else 1e-7
    for seed, max_loss in enumerate((0.5, 1.5, np.inf)):
        X, Y = flawed(flaw, seed)
        sizes = np.random.default_rng(seed).integers(1, 4, size=len(X)) if seed else None
        mine, theirs = (
            search(backend_name, PairedSpace.of(X, Y, sizes=sizes), scan, max_loss)
            for backend_name in ("numpy", name)
        )
        assert_same_merges(mine, theirs, tolerance=tolerance)
        if scan != "correlation":  # asked in turn by numpy, whole rows at once by others
            assert_same_refusals(mine, theirs, tolerance=tolerance)
        if flaw == "none" and scan == "best-first":
            assert mine.refused.tolist() == theirs.refused.tolist()


@pytest.mark.more
@given(
    flaw=st.sampled_from(FLAWS),
    seed=st.integers(0, 2**20),
    max_loss=st.sampled_from([-np.inf, 0.0, 0.7, 1.5, 30.0, np.inf]),
    scan=st.sampled_from(ALL_PAIRS),
    kind=st.sampled_from([None, None, "ring", "star", "complete", "none"]),
    lowest=st.sampled_from([-1.0, -1.0, 0.2]),
    sized=st.booleans(),
    remembered=st.integers(2, 30),
    name=st.sampled_from(HERE),
)
@settings(max_examples=examples(60), deadline=None)
def test_any_problem_is_searched_as_by_numpy(
    flaw, seed, max_loss, scan, kind, lowest, sized, remembered, name
):
    # Of copies, rounding says which two are nearest.
    assume(flaw != "copies" or scan == "correlation")
    X, Y = flawed(flaw, seed, n_tasks=20)
    rng = np.random.default_rng(seed)
    graph = None if kind is None else graph_of(kind, 20, rng)
    sizes = rng.integers(1, 4, size=20) if sized else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(array_rows, "REMEMBERED", remembered)
        mine, theirs = (
            search(
                one, PairedSpace.of(X, Y, sizes=sizes), scan, max_loss, graph=graph, lowest=lowest
            )
            for one in ("numpy", name)
        )
    assert_same_merges(mine, theirs, tolerance=1e-9 if flaw in FIRM else 1e-7)


@given(
    flaw=st.sampled_from(FLAWS),
    seed=st.integers(0, 2**20),
    merges=st.integers(0, 12),
    name=st.sampled_from([*HERE, ELSEWHERE]),
)
@settings(max_examples=examples(60), deadline=None)
def test_a_block_that_merged_costs_what_numpy_says(flaw, seed, merges, name):
    X, Y = flawed(flaw, seed, n_tasks=16)
    rng = np.random.default_rng(seed)
    plain, there = PairedSpace.of(X, Y), PairedSpace.of(X, Y)
    left = np.arange(16)
    with backend.using(name):
        ask = backend.questions(there, target_risk)
        ask.losses(0, left[1:])  # brings the blocks there
        for _ in range(merges):
            block, other = np.sort(rng.choice(left, size=2, replace=False)).tolist()
            plain.merge(block, other)
            ask.merge(block, other)
            left = left[left != other]
        expected = target_risk(plain.evidence(int(left[0]), left[1:]))
        found = ask.losses(int(left[0]), left[1:])
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3000)),
    count=st.integers(1, 70),
    n_values=st.sampled_from([2, 50, 10**6]),
    seed=st.integers(0, 2**20),
    name=st.sampled_from(HERE),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_smallest_of_a_row_are_those_of_sorting_it(shape, count, n_values, seed, name):
    rng = np.random.default_rng(seed)
    keys = rng.integers(n_values, size=shape).astype(float)
    keys[rng.uniform(size=shape) < 0.1] = np.inf
    count = min(count, shape[1])
    device = devices.Device(name)
    found, places = map(device.numpy, device.smallest(device.array(keys), count))
    assert found.tolist() == np.sort(keys, axis=1)[:, :count].tolist()
    for row, values, where in zip(keys, found, places, strict=True):
        finite = values < np.inf
        assert row[where[finite]].tolist() == values[finite].tolist()
        assert len(set(where[finite].tolist())) == finite.sum()


@pytest.mark.more
@pytest.mark.parametrize("name", DEVICES)
def test_the_space_is_asked_only_where_digits_were_lost(name, monkeypatch):
    asked = []
    losses = backend.Questions.losses
    monkeypatch.setattr(
        backend.Questions,
        "losses",
        lambda self, block, others: asked.append(others.size) or losses(self, block, others),
    )
    for flaw, is_asked in (("none", False), ("collinear", True), ("alike", True)):
        asked.clear()
        for seed in range(6):
            search(name, PairedSpace.of(*flawed(flaw, seed)), "best-first", 1.5)
        assert bool(asked) is is_asked


@pytest.mark.more
@pytest.mark.parametrize("name", DEVICES)
def test_any_limit_within_the_interval_merges_the_same(name):
    for seed in range(4):
        X, Y = flawed("none", seed)
        history = search(name, PairedSpace.of(X, Y), "correlation", 1.0)
        asked_in_turn = search("numpy", PairedSpace.of(X, Y), "correlation", 1.0)
        worst, refused = history.loss_interval
        assert worst == pytest.approx(asked_in_turn.loss_interval[0])
        assert worst < refused <= asked_in_turn.loss_interval[1] + 1e-9
        for limit in (worst + 1e-9, refused - 1e-9):
            again = search(name, PairedSpace.of(X, Y), "correlation", limit - 1e-10)
            assert again.block.tolist() == history.block.tolist()
            assert again.other.tolist() == history.other.tolist()


@pytest.mark.parametrize("scan", ALL_PAIRS)
@pytest.mark.parametrize("name", DEVICES)
def test_a_search_that_is_stopped_has_made_the_first_merges_of_the_whole_one(scan, name):
    X, Y = flawed("none", 4, n_tasks=40)
    whole = search("numpy", PairedSpace.of(X, Y), scan, 1.5)
    with (
        progress.reporting_to(lambda record: record.n_merges < 5, every=0.0),
        pytest.warns(progress.SearchStopped, match="stopped after 5 merges"),
    ):
        part = search(name, PairedSpace.of(X, Y), scan, 1.5)
    assert not part.complete
    assert len(whole) > len(part) == 5
    assert part.block.tolist() == whole.block[:5].tolist()
    assert part.other.tolist() == whole.other[:5].tolist()


@pytest.mark.parametrize("scan", ALL_PAIRS)
def test_rows_filled_up_to_one_shape_for_a_compiler_are_the_same(scan, monkeypatch):
    X, Y = flawed("no slot", 1)
    expected = search("numpy", PairedSpace.of(X, Y), scan, 1.5)
    monkeypatch.setattr(devices.Device, "compiles", True)
    shapes = set()

    def compiled(self, function):
        def call(table, places):
            shapes.add((function.__name__, table.shape[1], places.shape[0]))
            return function(table, places)

        return np.errstate(all="ignore")(call)

    monkeypatch.setattr(devices.Device, "compiled", compiled)
    assert_same_merges(expected, search(STRICT, PairedSpace.of(X, Y), scan, 1.5), tolerance=1e-9)
    at_first = {width for name, n_blocks, width in shapes if name == "_selected" and n_blocks == 24}
    assert len(at_first - {1}) == 1


@pytest.mark.parametrize("criterion", TARGET_CRITERIA)
def test_other_criteria_are_left_to_the_host(criterion):
    X, Y = flawed("none", 0)
    mine, theirs = (
        search(name, PairedSpace.of(X, Y), "best-first", 0.0, criterion=TARGET_CRITERIA[criterion])
        for name in ("numpy", STRICT)
    )
    assert_same_merges(mine, theirs, tolerance=1e-9)


def basins(seed, *, gaps=False):
    """Tasks in groups, of which some lack a slot, with weights of rows and of targets."""
    rng = np.random.default_rng(seed)
    X, Y = flawed("none", seed, n_tasks=18)
    data, layout = multi_input_layout(X.transpose(1, 0, 2))
    layout[rng.choice(18, size=6, replace=False), 2] = -1
    if gaps:
        Y[rng.uniform(size=Y.shape) < 0.05] = np.nan
    weights = rng.uniform(0.5, 2.0, size=len(Y))
    return data, Y, layout, {"sample_weight": weights, "target_weight": rng.uniform(1, 3, size=18)}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("scan", ALL_PAIRS)
@pytest.mark.parametrize("name", DEVICES)
def test_a_fit_with_slots_that_some_lack_and_weights_is_numpys(name, scan, gaps):
    X, Y, layout, weights = basins(3, gaps=gaps)
    model = MultiInputCTFARegressor(layout, targets=TargetAggregator(max_loss=1.0, scan=scan))
    with backend.using("numpy"):
        expected = model.fit(X, Y, **weights)
        history, predicted = expected.history_, expected.predict(X)
    with backend.using(name):
        model.fit(X, Y, **weights)
    assert_same_merges(history, model.history_, tolerance=1e-9)
    np.testing.assert_allclose(model.predict(X), predicted)


@pytest.mark.parametrize("library", [STRICT, pytest.param("torch", marks=needs_torch)])
def test_arrays_of_a_library_are_fitted_and_predictions_are_such_arrays(library):
    pytest.importorskip("array_api_compat")
    xp = importlib.import_module(library)
    X, Y, layout, weights = basins(5)
    there = {name: xp.asarray(values) for name, values in weights.items()}
    model = MultiInputCTFARegressor(layout, targets=TargetAggregator(max_loss=1.0))
    expected = model.fit(X, Y, **weights).predict(X)
    assert model.fit(xp.asarray(X), xp.asarray(Y), **there) is model
    found = model.predict(xp.asarray(X))
    assert type(found) is type(xp.asarray(X))
    np.testing.assert_allclose(np.asarray(found), expected)
    assert isinstance(model.predict(X), np.ndarray)


def test_data_on_a_device_are_searched_there_unless_a_backend_is_named(monkeypatch):
    class Device(str):
        @property
        def type(self):
            return self.partition(":")[0]

    class Array:
        __module__ = "torch"
        shape = (3,)

        def __init__(self, device):
            self.device = Device(device)

    seen = []

    @searched_where_data_lie
    def fit(model, X, *, weights=None):
        seen.append(backend.named())

    monkeypatch.setattr(backend, "_require", lambda name, asked_by: None)
    fit(None, Array("cpu"))
    fit(None, Array("cpu"), weights=Array("cuda:1"))
    fit(None, np.zeros(3), weights=[1.0])
    with backend.using("numpy"):
        fit(None, Array("cuda:0"))
    assert seen == ["auto", "torch:cuda:1", "auto", "numpy"]


def test_what_cannot_be_had_is_said(monkeypatch):
    space = PairedSpace.of(*flawed("none", 0))
    with pytest.raises(ValueError, match=r"'array_api_strict:moon' names the device 'moon'"):
        search("array_api_strict:moon", space, "best-first", 1.0)
    xp = importlib.import_module(STRICT)
    with monkeypatch.context() as patch:
        patch.setattr(xp, "zeros", lambda *shape, **how: xp.asarray([0.0], dtype=xp.float32))
        with pytest.raises(ValueError, match=r"no numbers of 64 bits.*'cpu', 'cuda'"):
            devices.Device(STRICT)
    with pytest.raises(ValueError, match="'numba:cuda', which is none of"):
        backend.using("numba:cuda").__enter__()
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: None)
    devices.has_library.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'ctfa\[arrays\]' cupy, or choose 'auto'"):
        backend.using("cupy:0").__enter__()
    devices.has_library.cache_clear()


def test_slots_that_no_task_has_are_left_to_the_space():
    values = np.random.default_rng(0).normal(size=(6, 3, 30))
    has = np.zeros((6, 2), dtype=bool)
    mine, theirs = (
        search(name, PairedSpace.of_series(Series(values.copy(), has)), "best-first", 1.0)
        for name in ("numpy", STRICT)
    )
    assert_same_merges(mine, theirs, tolerance=1e-9)
