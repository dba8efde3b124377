"""Partitions for many limits from one factorization, against a fit for each limit."""

import numpy as np
import pytest

from ctfa import FeatureAggregator, TargetAggregator, feature_path, target_path
from problems import make_problem

SCANS = ["best-first", "correlation", "grow", "restart"]
FAMILIES = ["gaussian", "correlated", "discrete", "duplicated", "duplicated_targets"]
WEIGHTS = np.random.default_rng(0).uniform(size=200)

TARGET_CASES = {
    "risk": ({}, [-1.0, 0.3, 1.0, 1.5, 4.0, np.inf]),
    "mse": ({"criterion": "mse", "scale": "none"}, [-np.inf, -0.1, 0.0, 0.02, 0.3, np.inf]),
    "corollary": ({"criterion": "corollary", "scale": "center"}, [-0.1, 0.0, 0.1, 1.0]),
}
FEATURE_CASES = {
    "risk": ({}, [-np.inf, 0.1, 1.0, 3.0, 20.0, np.inf]),
    "r2": ({"criterion": "r2", "min_correlation": -1.0}, [0.0, 1e-4, 1e-2, 0.1, 1.0]),
    "folds": (
        {"criterion": "r2", "cv": 3, "min_correlation": -1.0},
        [-0.1, 0.0, 1e-4, 0.05, np.inf],
    ),
    "feature-mse": ({"criterion": "feature-mse"}, [-0.01, 0.0, 0.1, 2.0]),
}


def assert_equals_separate_fits(points, max_losses, fit):
    assert [point.max_loss for point in points] == list(max_losses)
    for point in points:
        fitted = fit(point.max_loss)
        assert point.partition == fitted.partition_
        assert point.n_groups == fitted.n_groups_
        np.testing.assert_allclose(point.loss_interval, fitted.loss_interval_, rtol=1e-6, atol=1e-9)


def inside(interval, rng):
    """Values of an interval that may be infinite: its lower end, and some between."""
    low, high = interval
    bottom = low if np.isfinite(low) else min(high, 0.0) - 1.0
    top = high if np.isfinite(high) else max(bottom, 0.0) + 1.0
    return [
        *([low] if np.isfinite(low) else []),
        *(bottom + (top - bottom) * rng.uniform(0.01, 0.99, 3)),
    ]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", TARGET_CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_target_path_is_a_fit_at_each_limit(family, criterion, scan):
    options, max_losses = TARGET_CASES[criterion]
    problem = make_problem(family, 1)
    points = target_path(problem.X, problem.Y, max_losses, scan=scan, **options)
    assert_equals_separate_fits(
        points,
        max_losses,
        lambda value: TargetAggregator(max_loss=value, scan=scan, **options).fit(
            problem.X, problem.Y
        ),
    )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", FEATURE_CASES)
@pytest.mark.parametrize("family", FAMILIES[:4])
def test_a_feature_path_is_a_fit_at_each_limit(family, criterion, scan):
    options, max_losses = FEATURE_CASES[criterion]
    problem = make_problem(family, 2)
    points = feature_path(problem.X, problem.y, max_losses, scan=scan, **options)
    assert_equals_separate_fits(
        points,
        max_losses,
        lambda value: FeatureAggregator(max_loss=value, scan=scan, **options).fit(
            problem.X, problem.y
        ),
    )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", TARGET_CASES)
def test_targets_stay_the_same_inside_the_interval(criterion, scan):
    options, max_losses = TARGET_CASES[criterion]
    problem, rng = make_problem("correlated", 3), np.random.default_rng(0)
    for point in target_path(problem.X, problem.Y, max_losses, scan=scan, **options):
        low, high = point.loss_interval
        assert low <= point.max_loss < high or point.max_loss == high == np.inf
        for value in inside(point.loss_interval, rng):
            again = TargetAggregator(max_loss=value, scan=scan, **options)
            assert again.fit(problem.X, problem.Y).partition_ == point.partition


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", FEATURE_CASES)
def test_features_stay_the_same_inside_the_interval(criterion, scan):
    options, max_losses = FEATURE_CASES[criterion]
    problem, rng = make_problem("correlated", 4), np.random.default_rng(0)
    for point in feature_path(problem.X, problem.y, max_losses, scan=scan, **options):
        low, high = point.loss_interval
        assert low <= point.max_loss < high or point.max_loss == high == np.inf
        for value in inside(point.loss_interval, rng):
            again = FeatureAggregator(max_loss=value, scan=scan, **options)
            assert again.fit(problem.X, problem.y).partition_ == point.partition


def test_the_next_merge_is_made_at_the_end_of_the_interval():
    problem = make_problem("gaussian", 5)
    fitted = TargetAggregator(max_loss=1.0).fit(problem.X, problem.Y)
    high = fitted.loss_interval_[1]
    assert np.isfinite(high)
    more = TargetAggregator(max_loss=high).fit(problem.X, problem.Y)
    assert more.n_groups_ < fitted.n_groups_


def test_an_interval_holds_its_own_limit_also_at_a_tie():
    problem = make_problem("duplicated_targets", 0)
    # Copies merge at a loss of zero up to rounding.
    fitted = TargetAggregator("mse", max_loss=0.0, scale="none").fit(problem.X, problem.Y)
    low, high = fitted.loss_interval_
    assert low <= 0.0 < high
    (point,) = target_path(problem.X, problem.Y, [0.0], criterion="mse", scale="none")
    assert point.partition == fitted.partition_
    assert point.loss_interval[0] <= 0.0


@pytest.mark.parametrize("scan", SCANS)
def test_limits_may_be_unordered_and_repeated(scan):
    problem = make_problem("correlated", 6)
    values = [1.5, -1.0, np.inf, 1.5, 0.2, -1.0]
    points = target_path(problem.X, problem.Y, iter(values), scan=scan)
    assert [point.max_loss for point in points] == values
    ordered = {
        p.max_loss: p for p in target_path(problem.X, problem.Y, sorted(set(values)), scan=scan)
    }
    assert [point.partition for point in points] == [ordered[v].partition for v in values]
    assert points[0].n_groups <= points[4].n_groups <= points[1].n_groups


def test_no_limits_give_no_points():
    problem = make_problem("gaussian", 0)
    assert target_path(problem.X, problem.Y, []) == []
    assert feature_path(problem.X, problem.y, np.array([])) == []


@pytest.mark.parametrize("scan", SCANS)
def test_paths_take_weights_and_graphs(scan):
    problem = make_problem("correlated", 7)
    weights = WEIGHTS[: len(problem.X)] * (np.arange(len(problem.X)) > 2)
    for path, kind, target in (
        (target_path, TargetAggregator, problem.Y),
        (feature_path, FeatureAggregator, problem.y),
    ):
        size = (problem.Y if target.ndim == 2 else problem.X).shape[1]
        chain = np.eye(size, k=1) + np.eye(size, k=-1)
        options = {"scan": scan, "connectivity": chain, "order": "random", "random_state": 3}
        values = [0.5, 2.0, np.inf]
        points = path(problem.X, target, values, sample_weight=weights, **options)
        for point in points:
            fitted = kind(max_loss=point.max_loss, **options)
            fitted.fit(problem.X, target, sample_weight=weights)
            assert point.partition == fitted.partition_


def test_the_space_is_asked_once_for_limits_between_the_same_losses(monkeypatch):
    import ctfa.estimators.search as module

    problem = make_problem("gaussian", 8)
    low, high = TargetAggregator(max_loss=1.0, scan="grow").fit(problem.X, problem.Y).loss_interval_
    solved = []
    solve = module.MergeProblem.solve
    monkeypatch.setattr(
        module.MergeProblem, "solve", lambda self, v: solved.append(v) or solve(self, v)
    )
    target_path(problem.X, problem.Y, np.linspace(low, high, 9)[:-1], scan="grow")
    assert len(solved) == 1
