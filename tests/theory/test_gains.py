"""Predicted gains are what merges gain, on average, and vary as much as they say."""

import numpy as np
import pytest

import oracle
import problems
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.members import gain
from ctfa.core.spaces.features import FeatureSpace
from ctfa.core.spaces.paired import PairedSpace
from ctfa.core.spaces.targets import TargetSpace


def target_gain(X, Y, sizes):
    """Gain of merging the first targets with the rest."""
    design = Design.of(X)
    space = TargetSpace.of(design, design.centre(Y))
    a, b = sizes
    for other in range(1, a):
        space.merge(0, other)
    for other in range(a + 1, a + b):
        space.merge(a, other)
    predicted = gain(space.evidence(0, np.array([a])))
    return float(predicted.value[0]), float(predicted.standard_error[0])


@pytest.mark.parametrize(
    ("n", "D", "sizes", "apart"),
    [(30, 5, (1, 1), 0.0), (30, 5, (2, 3), 0.2), (40, 20, (1, 4), 0.1), (25, 10, (3, 3), 0.4)],
)
def test_the_gain_of_targets_is_unbiased_for_gaussian_inputs(n, D, sizes, apart):
    rng = np.random.default_rng(0)
    a, b = sizes
    W = rng.normal(size=(D, 1)) + apart * rng.normal(size=(D, a + b))
    spread = rng.uniform(0.5, 2.0, size=a + b)
    gap = []
    for _ in range(2000):
        X = rng.normal(size=(n, D))
        Y = X @ W + spread * rng.normal(size=(n, a + b))
        coef = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(axis=0), rcond=None)[0]
        first, second = coef[:, :a].mean(axis=1), coef[:, a:].mean(axis=1)
        both = coef.mean(axis=1)
        apart_risk = ((W[:, :a] - first[:, None]) ** 2).sum() + (
            (W[:, a:] - second[:, None]) ** 2
        ).sum()
        true_gain = apart_risk - ((W - both[:, None]) ** 2).sum()
        gap.append(target_gain(X, Y, sizes)[0] - true_gain)
    assert abs(np.mean(gap)) < 3.5 * np.std(gap) / np.sqrt(len(gap))


def spread_and_stated_error(n, D, sizes, apart):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, D))
    signal = X @ (rng.normal(size=(D, 1)) + apart * rng.normal(size=(D, sum(sizes))))
    runs = (target_gain(X, signal + rng.normal(size=signal.shape), sizes) for _ in range(3000))
    values, errors = zip(*runs, strict=True)
    return np.std(values), np.sqrt(np.mean(np.square(errors)))


@pytest.mark.more
@pytest.mark.parametrize(
    ("n", "D", "sizes", "apart"),
    [(30, 5, (1, 1), 0.3), (30, 5, (2, 3), 0.5), (40, 15, (1, 4), 0.2), (25, 8, (3, 1), 1.0)],
)
def test_the_standard_error_is_the_spread_over_gaussian_noise(n, D, sizes, apart):
    spread, stated = spread_and_stated_error(n, D, sizes, apart)
    assert stated == pytest.approx(spread, rel=0.1)


def test_the_standard_error_is_cautious_where_targets_are_the_same():
    # A noncentrality that is zero cannot be estimated below zero.
    spread, stated = spread_and_stated_error(30, 5, (1, 1), 0.0)
    assert spread <= stated <= 1.2 * spread


def test_the_gain_is_the_formula_and_is_zero_where_the_loss_is_m():
    problem = problems.make_problem("gaussian", 3)
    design = Design.of(problem.X)
    space = TargetSpace.of(design, design.centre(problem.Y))
    space.merge(0, 1)
    others = np.arange(2, problem.Y.shape[1])
    evidence = space.evidence(0, others)
    n, r = design.n_samples, design.rank
    noise = evidence.difference.noise_variance
    for m in (0.5, 1.0, 2.0):
        f_star = 1.0 + m * (n - 1) / (n - r - 2)
        f = evidence.difference.f_statistic
        expected = 2.0 / 3.0 * r * noise * (f_star - f) / (n - 1)
        np.testing.assert_allclose(gain(evidence, m).value, expected, rtol=1e-10)
    for k, loss in enumerate(TARGET_CRITERIA["risk"](evidence)):
        np.testing.assert_allclose(gain(evidence, float(loss)).value[k], 0.0, atol=1e-12)


def test_copies_gain_nothing_and_are_sure_of_it():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    value, error = target_gain(X, np.hstack([y, y]), (1, 1))
    assert value == 0.0
    assert error == 0.0
    space = PairedSpace.of(np.stack([X, X]), np.hstack([y, y]))
    predicted = gain(space.evidence(0, np.array([1])))
    np.testing.assert_allclose(predicted.value, 0.0, atol=1e-12)


@pytest.mark.more
@pytest.mark.parametrize(("n", "D", "apart"), [(30, 5, 0.0), (30, 5, 0.3), (25, 12, 0.5)])
def test_the_gain_of_features_is_unbiased_for_gaussian_inputs(n, D, apart):
    """One coefficient for two features, independent and of one unit: the true risk of both fits."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=D)
    w[1] = w[0] + apart
    gap = []
    for _ in range(3000):
        X = rng.normal(size=(n, D))
        y = X @ w + rng.normal(size=n)
        design = Design.of(X)
        space = FeatureSpace.of(design, design.centre(y[:, None])[:, 0])
        full = oracle.least_squares(X, y).coef
        merged = oracle.least_squares(np.column_stack([X[:, 0] + X[:, 1], X[:, 2:]]), y).coef
        merged = np.concatenate((merged[:1], merged))
        true_gain = ((full - w) ** 2).sum() - ((merged - w) ** 2).sum()
        predicted = float(np.ravel(gain(space.evidence(0, np.array([1]))).value)[0])
        gap.append(predicted - true_gain)
    assert abs(np.mean(gap)) < 3.5 * np.std(gap) / np.sqrt(len(gap))


def test_the_gain_of_features_is_the_fall_of_hockings_criterion():
    problem = problems.make_problem("gaussian", 4)
    design = Design.of(problem.X)
    centred = design.centre(problem.y[:, None])[:, 0]
    evidence = FeatureSpace.of(design, centred).evidence(0, np.array([1, 2, 3]))
    (before,), after = evidence.before, evidence.after

    def s_p(fit):
        return fit.residual / (fit.dof * (fit.dof - 1.0)) * (fit.n_samples - 2.0)

    np.testing.assert_allclose(gain(evidence).value, s_p(before) - s_p(after), rtol=1e-9)
