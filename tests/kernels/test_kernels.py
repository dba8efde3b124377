"""Compiled scans make the decisions of the numpy code and of the refitting oracle."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import oracle
import problems
import test_core_against_oracle as against
from ctfa import FeatureAggregator, TargetAggregator, kernels
from ctfa.core import backend
from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.graph import Neighbours
from ctfa.core.members import MemberRisk
from ctfa.core.ridge import Ridge
from ctfa.core.scans import SCANS
from ctfa.core.spaces.features import FactoredFold, FeatureSpace
from ctfa.core.spaces.targets import TargetSpace

needs_numba = pytest.mark.skipif(not kernels.has_numba(), reason="compiled scans need numba")
GROWING = ["grow", "restart"]
TARGET_CASES = [("mse", 0.0), ("corollary", 0.0), ("risk", 0.5), ("risk", 1.5), ("risk", np.inf)]
FEATURE_CASES = [
    ("feature-mse", 0.0, None),
    ("risk", 3.0, None),
    *(("r2", limit, n_folds) for limit in (1e-3, np.inf) for n_folds in (None, 2, 5)),
]


def target_space(problem, weights=None, sizes=None):
    design = Design.of(problem.X, weights)
    return TargetSpace.of(design, design.centre(problem.Y), sizes=sizes)


def feature_space(problem, n_folds=None, weights=None):
    if n_folds is None:
        design = Design.of(problem.X, weights)
        return FeatureSpace.of(design, design.centre(problem.y[:, None])[:, 0])
    folds = FactoredFold.each(problem.X, oracle.contiguous_folds(len(problem.y), n_folds), weights)
    return FeatureSpace.on_folds(folds, problem.y)


def run(name, space, criterion, scan, max_loss, *, order=None, **options):
    order = np.arange(space.n_variables) if order is None else order
    with backend.using(name):
        return SCANS[scan](space, criterion, max_loss=max_loss, order=order, **options)


def taken(space, criterion):
    """Whether a kernel takes the problem."""
    order = np.arange(space.n_variables)
    with backend.using("numba"):
        found = backend.grow(space, criterion, limit=0.0, order=order, restart=True)
    return found is not None


def assert_same_history(left, right, rtol=1e-7):
    for name in ("block", "other", "size"):
        assert getattr(left, name).tolist() == getattr(right, name).tolist()
    assert left.n_comparisons == right.n_comparisons
    scale = rtol * max(1.0, np.abs(left.loss[left.loss < 1e300]).max(initial=0.0))
    # Infinite losses are told apart from large ones by neither.
    pairs = [
        (left.loss, right.loss),
        (left.refused_loss, right.refused_loss),
        (np.array(left.loss_interval), np.array(right.loss_interval)),
    ]
    for mine, theirs in pairs:
        clipped = [np.clip(part, -1e300, 1e300) for part in (mine, theirs)]
        np.testing.assert_allclose(*clipped, rtol=rtol, atol=scale)
    assert ((left.refused < 0) == (right.refused < 0)).all()


def both(make_space, criterion, scan, max_loss, **options):
    assert taken(make_space(), criterion)
    return [run(n, make_space(), criterion, scan, max_loss, **options) for n in ("numpy", "numba")]


@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize(("criterion", "max_loss"), TARGET_CASES)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_targets_have_the_history_of_numpy(family, criterion, max_loss, scan):
    for seed in range(6):
        problem = problems.make_problem(family, seed)
        if problem.X.shape[0] <= problem.X.shape[1] + 3:
            continue
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0.2, 3.0, size=len(problem.y)) if seed % 2 else None
        n_targets = problem.Y.shape[1]
        sizes = rng.integers(1, 5, size=n_targets) if seed % 3 == 1 else None
        histories = both(
            lambda p=problem, w=weights, s=sizes: target_space(p, w, s),
            TARGET_CRITERIA[criterion],
            scan,
            max_loss,
            order=rng.permutation(n_targets),
            tolerance=1e-10,
        )
        assert_same_history(*histories)


@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize(("criterion", "max_loss"), TARGET_CASES)
def test_many_targets_have_the_history_of_numpy(criterion, max_loss, scan):
    for seed, noise in enumerate((0.3, 3.0, 7.5)):
        problem = problems.paper_data(90, 12, 150, noise, seed)
        make = lambda p=problem: target_space(p)  # noqa: E731
        histories = both(make, TARGET_CRITERIA[criterion], scan, max_loss)
        assert_same_history(*histories)
        assert histories[0].refused.tolist() == histories[1].refused.tolist()


@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize("amplitude", [1e4, 1e8, 1e11])
def test_a_strong_part_in_common_is_subtracted_explicitly(amplitude, scan):
    problem = problems.make_problem("gaussian", 1, n_targets=12)
    shifted = problems.Problem("", problem.X, problem.Y + amplitude * problem.X[:, [0]], problem.y)
    risk = TARGET_CRITERIA["risk"]
    histories = both(lambda: target_space(shifted), risk, scan, 1.5, tolerance=1e-10)
    assert_same_history(*histories, rtol=max(1e-9, amplitude * 1e-13))
    plain = run("numba", target_space(problem), risk, scan, 1.5, tolerance=1e-10)
    assert plain.partition() == histories[1].partition()


@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize(("criterion", "max_loss", "n_folds"), FEATURE_CASES)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_features_have_the_history_of_numpy(family, criterion, max_loss, scan, n_folds):
    for seed in range(4):
        problem = problems.make_problem(family, seed)
        rng = np.random.default_rng(seed)
        weights = rng.uniform(0.2, 3.0, size=len(problem.y)) if seed % 2 else None
        make = lambda p=problem, w=weights: feature_space(p, n_folds, w)  # noqa: E731
        if not make().foresees:
            assert not taken(make(), FEATURE_CRITERIA[criterion])  # less than full rank
            continue
        histories = both(
            make,
            FEATURE_CRITERIA[criterion],
            scan,
            max_loss,
            order=rng.permutation(problem.X.shape[1]),
            tolerance=1e-10,
        )
        # Columns that differ by a millionth leave ten digits.
        assert_same_history(*histories, rtol=1e-5 if family == "nearly_collinear" else 1e-7)


@needs_numba
@pytest.mark.parametrize("n_folds", [None, 5])
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize("max_loss", [0.0, 1e-5, 1e-3, 1.0])
def test_many_features_have_the_history_of_numpy(max_loss, scan, n_folds):
    for seed in range(3):
        problem = problems.paper_data(200, 70, 4, 3.0, seed)
        make = lambda p=problem: feature_space(p, n_folds)  # noqa: E731
        histories = both(make, FEATURE_CRITERIA["r2"], scan, max_loss)
        assert_same_history(*histories)
        assert histories[0].refused.tolist() == histories[1].refused.tolist()


@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_features_of_a_penalised_fit_have_the_history_of_numpy(family, scan):
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        centred = problem.y - problem.y.mean()
        ridge = Ridge.of(problem.X, centred[:, None])
        make = lambda r=ridge, c=centred: FeatureSpace.penalised(r, c)  # noqa: E731
        for criterion, max_loss in (("risk", 3.0), ("r2", 1e-3), ("feature-mse", 0.0)):
            if make().foresees:
                histories = both(make, FEATURE_CRITERIA[criterion], scan, max_loss, tolerance=1e-10)
                assert_same_history(*histories, rtol=1e-6)


@needs_numba
@pytest.mark.parametrize("power", [3, 5, 7, 9])
@pytest.mark.parametrize("scan", GROWING)
def test_a_bad_condition_does_not_part_them(power, scan):
    for seed in range(8):
        problem = problems.ill_conditioned(10.0**power, seed, n_features=24, n_samples=80)
        rtol = max(1e-9, 10.0 ** (power - 14))
        cases = [
            (lambda p=problem: feature_space(p), FEATURE_CRITERIA["risk"], 3.0),
            (lambda p=problem: feature_space(p, 5), FEATURE_CRITERIA["r2"], 1e-3),
            (lambda p=problem: target_space(p), TARGET_CRITERIA["mse"], 0.0),
            (lambda p=problem: target_space(p), TARGET_CRITERIA["risk"], 1.5),
        ]
        for make, criterion, max_loss in cases:
            histories = both(make, criterion, scan, max_loss, tolerance=1e-10)
            assert_same_history(*histories, rtol=rtol)


@pytest.mark.more
@needs_numba
@pytest.mark.parametrize("scan", GROWING)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_they_decide_as_by_refitting(family, scan):
    compared = 0
    with backend.using("numba"):
        for seed in range(4):
            problem = problems.make_problem(family, seed)
            folds = oracle.contiguous_folds(len(problem.y), 5)
            runs = [
                against.run_features(problem, criterion, scan, limit)
                for criterion, limit in against.FEATURE_CASES
            ]
            runs.append(against.run_features(problem, "r2", scan, 0.02, folds=folds))
            if family != "tight":  # too few degrees of freedom for the oracle
                runs += [
                    against.run_targets(problem, criterion, scan, limit)
                    for criterion, limit in against.CASES
                ]
            compared += sum(against.assert_same_decisions(*each) for each in runs)
    assert compared >= 8


@needs_numba
@pytest.mark.parametrize("power", [5, 7, 9])
def test_they_decide_as_by_refitting_at_a_bad_condition(power):
    compared = 0
    with backend.using("numba"):
        for seed in range(6):
            problem = problems.ill_conditioned(10.0**power, seed, n_features=12)
            folds = oracle.contiguous_folds(len(problem.y), 3)
            for history, expected, limit in (
                against.run_targets(problem, "risk", "restart", 1.5),
                against.run_features(problem, "risk", "restart", 3.0),
                against.run_features(problem, "r2", "restart", 1e-3, folds=folds),
            ):
                if expected.margin(limit) > 1e-5:  # nearer, a refit itself is in doubt
                    compared += 1
                    assert history.partition().labels.tolist() == list(expected.labels)
    assert compared >= 9


@needs_numba
def test_what_a_kernel_cannot_do_is_left_to_numpy():
    problem = problems.make_problem("correlated", 0)
    n_targets = problem.Y.shape[1]
    risk = TARGET_CRITERIA["risk"]
    assert taken(target_space(problem), risk)
    assert not taken(target_space(problem), lambda evidence: 2.0 * risk(evidence))
    design = Design.of(problem.X)
    factored = TargetSpace.of(design, design.centre(problem.Y), dense=False)
    assert not taken(factored, risk)
    flipping = TargetSpace.of(design, design.centre(problem.Y), flip=True)
    assert not taken(flipping, risk)
    guarded = target_space(problem)
    guarded.protect(MemberRisk.in_sample(design, *design.coordinates(design.centre(problem.Y))))
    assert not taken(guarded, risk)
    merged = target_space(problem)
    merged.merge(0, 1)
    assert not taken(merged, risk)
    features = feature_space(problem)
    features.merge(0, 1)
    assert not taken(features, FEATURE_CRITERIA["risk"])
    assert not taken(feature_space(problem, 5), FEATURE_CRITERIA["risk"])
    graph = against.graph_matrix(np.eye(n_targets, k=1) + np.eye(n_targets, k=-1))
    for options in ({"neighbours": graph}, {"min_correlation": 0.3}):
        found = []
        for name in ("numpy", "numba"):
            given = {k: Neighbours(v) if k == "neighbours" else v for k, v in options.items()}
            found.append(run(name, target_space(problem), risk, "restart", 1.5, **given))
        assert found[0].loss.tolist() == found[1].loss.tolist()


@needs_numba
def test_a_kernel_leaves_the_space_as_it_was():
    problem = problems.make_problem("correlated", 0)
    for make, criterion, max_loss in (
        (lambda: target_space(problem), TARGET_CRITERIA["risk"], 1.5),
        (lambda: feature_space(problem), FEATURE_CRITERIA["risk"], 3.0),
        (lambda: feature_space(problem, 5), FEATURE_CRITERIA["r2"], 1e-2),
    ):
        space = make()
        first = run("numba", space, criterion, "restart", max_loss)
        assert len(first)
        assert_same_history(first, run("numba", space, criterion, "restart", max_loss), rtol=0.0)
        assert_same_history(first, run("numpy", space, criterion, "restart", max_loss))


@needs_numba
def test_small_problems_are_left_to_numpy_unless_a_backend_is_named(monkeypatch):
    used = []
    kernel_of = kernels.kernel_of
    monkeypatch.setattr(kernels, "kernel_of", lambda name: used.append(name) or kernel_of(name))
    small, large = problems.make_problem("gaussian", 0), problems.paper_data(200, 60, 60)
    for name, expected in (("auto", ["targets", "features"]), ("numpy", [])):
        with backend.using(name):
            for problem in (small, large):
                TargetAggregator("mse", max_loss=0.0, scan="restart").fit(problem.X, problem.Y)
                FeatureAggregator(
                    "r2", max_loss=1e-4, scan="restart", min_correlation=-1.0, cv=3
                ).fit(problem.X, problem.y)
        assert used == expected
        used.clear()


def test_an_unknown_backend_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="'fortran', which is none of 'auto', 'numpy', 'numba'"):
        backend.using("fortran").__enter__()
    monkeypatch.setenv("CTFA_BACKEND", "fortran")
    problem = problems.make_problem("gaussian", 0)
    with pytest.raises(ValueError, match="CTFA_BACKEND names the backend 'fortran'"):
        TargetAggregator(max_loss=1.5, scan="grow").fit(problem.X, problem.Y)


def test_a_backend_that_is_not_installed_says_what_to_install(monkeypatch):
    absent = backend.BACKENDS["numba"]._replace(is_installed=lambda: False)
    monkeypatch.setitem(backend.BACKENDS, "numba", absent)
    with pytest.raises(ImportError, match=r"pip install 'ctfa\[fast\]'"):
        backend.using("numba").__enter__()
    monkeypatch.setenv("CTFA_BACKEND", "auto")
    problem = problems.paper_data(200, 10, 60)
    assert TargetAggregator(max_loss=1.5, scan="grow").fit(problem.X, problem.Y).n_groups_ >= 1


def test_a_numba_that_cannot_be_imported_is_done_without(monkeypatch, caplog):
    def fail(name):
        raise ImportError("Numba needs NumPy 2.3 or less")

    kernels.kernel_of.cache_clear()
    monkeypatch.setattr(kernels.importlib, "import_module", fail)
    space = target_space(problems.paper_data(200, 10, 60))
    given = {"limit": 1.5, "order": np.arange(60), "restart": True}
    risk = TARGET_CRITERIA["risk"]
    try:
        with caplog.at_level(logging.INFO, logger="ctfa"):
            assert kernels.grow(space, risk, **given, where_it_pays=True) is None
        assert "Numba needs NumPy" in caplog.text
        with pytest.raises(ImportError, match="Numba needs NumPy"):
            kernels.grow(space, risk, **given, where_it_pays=False)
    finally:
        kernels.kernel_of.cache_clear()


def test_importing_the_package_does_not_import_numba():
    code = "import sys, ctfa, ctfa.kernels; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.more
@needs_numba
def test_kernels_compile_where_no_cache_can_be_written(tmp_path):
    code = """
import numba.core.caching as caching
# No locator finds a place, as in a read-only installation without a home.
caching.CacheImpl._locator_classes = []
from ctfa.kernels.compiling import compiled
print(compiled(lambda x: x + 1)(1))
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.strip() == "2", done.stderr


def test_an_interrupt_in_compiled_code_is_an_interrupt():
    pressed = SystemError("a kernel returned a result with an exception set")
    pressed.__cause__ = KeyboardInterrupt()
    assert backend.interrupted(pressed) is pressed.__cause__
    fault = SystemError("a fault")
    assert backend.interrupted(fault) is fault
