"""The theorems against simulation, against closed forms by hand, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctfa import theory

# ---------------------------------------------------------------------------- simulation


def assert_simulated(draws, expected, *, precision):
    """The mean of the draws is the expected value, known to the given relative precision."""
    draws, expected = np.asarray(draws), np.asarray(expected)
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    scale = np.max(np.abs(expected))
    assert np.max(error) < precision * scale, f"too few draws: {error} of {expected}"
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - expected), 4 * error)


def random_covariance(rng, size, *, n_draws=None):
    factor = rng.normal(size=(size, n_draws or 2 * size))
    return factor @ factor.T / factor.shape[1]


def gaussian_rows(rng, shape, covariance):
    return rng.normal(size=(*shape, len(covariance))) @ np.linalg.cholesky(covariance).T


def least_squares(inputs, targets, *, intercept):
    """Stacked fits: offsets (runs, m) and coefficients (runs, d, m)."""
    input_mean = inputs.mean(axis=1, keepdims=True) * intercept
    target_mean = targets.mean(axis=1, keepdims=True) * intercept
    inputs, targets = inputs - input_mean, targets - target_mean
    transposed = inputs.transpose(0, 2, 1)
    coefficients = np.linalg.solve(transposed @ inputs, transposed @ targets)
    return (target_mean - input_mean @ coefficients)[:, 0], coefficients


def mean_square(offsets, coefficients, covariance):
    """E over zero-mean x of (offset + coefficients' x)**2, (runs, m)."""
    return offsets**2 + np.sum(coefficients * (covariance @ coefficients), axis=1)


def group_means(groups, n_tasks):
    """Columns that average each group: task -> group and back, (L, L) by task."""
    average = np.zeros((n_tasks, n_tasks))
    for group in groups:
        average[np.ix_(group, group)] = 1 / len(group)
    return average


class LinearTasks:
    """Gaussian inputs, linear signals ``coef' x``, correlated noise: everything is known."""

    def __init__(self, seed, *, n_inputs, n_tasks, spread=0.3):
        self.rng = np.random.default_rng(seed)
        self.covariance = random_covariance(self.rng, n_inputs)
        common = self.rng.normal(size=(n_inputs, 1))
        self.coef = common + spread * self.rng.normal(size=(n_inputs, n_tasks))
        self.noise = 0.5 * np.eye(n_tasks) + 0.5 * random_covariance(self.rng, n_tasks)
        self.signal = self.coef.T @ self.covariance @ self.coef

    def draw(self, n_runs, n_samples):
        inputs = gaussian_rows(self.rng, (n_runs, n_samples), self.covariance)
        noise = gaussian_rows(self.rng, (n_runs, n_samples), self.noise)
        return inputs, inputs @ self.coef + noise

    def excess_risk(self, offsets, coefficients):
        """Test MSE less the noise, (runs, L)."""
        return mean_square(offsets, coefficients - self.coef, self.covariance)

    def difference(self, group_a, group_b):
        """Noise and signal variance of the difference of two mean targets."""
        weights = np.zeros(len(self.noise))
        weights[group_a], weights[group_b] = 1 / len(group_a), -1 / len(group_b)
        return weights @ self.noise @ weights, weights @ self.signal @ weights

    def parts(self, task, group, *, n_samples, design):
        """`decompose_mse` of a task served by the mean of its group, on all inputs."""
        weights = np.zeros(len(self.noise))
        weights[group] = 1 / len(group)
        return theory.decompose_mse(
            noise_variance=self.noise[task, task],
            noise_variance_mean=theory.mean_noise_variance(self.noise, group),
            n_samples=n_samples,
            n_inputs=len(self.covariance),
            signal_variance=self.signal[task, task],
            explained_variance=weights @ self.signal @ weights,
            explained_covariance=self.signal[task] @ weights,
            design=design,
        )


def gaussian_expectation(n_variables, n_nodes=40):
    """Points (q, n_variables) and weights (q,) of Gauss-Hermite quadrature for N(0, I)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    points = np.stack(np.meshgrid(*[nodes] * n_variables), axis=-1).reshape(-1, n_variables)
    mass = np.ones(())
    for _ in range(n_variables):
        mass = np.multiply.outer(mass, weights / weights.sum())
    return points, mass.reshape(-1)


def nonlinear_signals(x):
    """Three zero-mean functions of two Gaussian inputs."""
    first, second = x[..., 0], x[..., 1]
    return np.stack(
        [np.sin(first) + 0.5 * (second**2 - 1), first * second + first, np.tanh(second) + first],
        axis=-1,
    )


def nonlinear_basis(x):
    """Four zero-mean, correlated basis functions of the same inputs."""
    first, second = x[..., 0], x[..., 1]
    square = second**2 - 1
    return np.stack([first, first**3 + square, square + second, first * second + second], axis=-1)


# ---------------------------------------------------------------------------- Theorem 1


def noise_fit_variance(seed, *, n_samples, n_inputs, n_runs, n_noises, intercept, noise_variance):
    """Variance of the fit to pure noise, one value per training set."""
    rng = np.random.default_rng(seed)
    covariance = random_covariance(rng, n_inputs)
    inputs = gaussian_rows(rng, (n_runs, n_samples), covariance)
    noise = np.sqrt(noise_variance) * rng.normal(size=(n_runs, n_samples, n_noises))
    fits = least_squares(inputs, noise, intercept=intercept)
    return mean_square(*fits, covariance).mean(axis=1)


def test_asymptotic_variance_is_the_simulated_one_for_many_samples():
    draws = noise_fit_variance(
        1, n_samples=2000, n_inputs=5, n_runs=300, n_noises=20, intercept=False, noise_variance=3.0
    )
    assert_simulated(draws, theory.model_variance(3.0, 2000, 5), precision=0.01)


@pytest.mark.parametrize(("n_samples", "n_inputs"), [(250, 100), (30, 10), (12, 2)])
def test_gaussian_variance_is_the_simulated_one_for_few_samples(n_samples, n_inputs):
    draws = noise_fit_variance(
        2,
        n_samples=n_samples,
        n_inputs=n_inputs,
        n_runs=60_000 // n_samples,
        n_noises=10,
        intercept=True,
        noise_variance=2.0,
    )
    expected = theory.model_variance(2.0, n_samples, n_inputs, design="gaussian")
    assert_simulated(draws, expected, precision=0.01)


def test_asymptotic_variance_is_under_three_fifths_of_the_truth_at_the_papers_setting():
    draws = noise_fit_variance(
        3, n_samples=250, n_inputs=100, n_runs=240, n_noises=10, intercept=True, noise_variance=1.0
    )
    assert theory.model_variance(1.0, 250, 100) / draws.mean() == pytest.approx(0.585, abs=0.015)


def test_variance_holds_for_nonlinear_inputs_and_the_mean_of_correlated_noises():
    points, mass = gaussian_expectation(2)
    basis = nonlinear_basis(points)
    rng = np.random.default_rng(25)
    noise_covariance = random_covariance(rng, 3)
    inputs = nonlinear_basis(rng.normal(size=(500, 2000, 2)))
    noise = gaussian_rows(rng, (500, 2000), noise_covariance).mean(axis=-1, keepdims=True)
    fits = least_squares(inputs, noise, intercept=False)
    simulated = mean_square(*fits, (basis.T * mass) @ basis).mean()
    expected = theory.model_variance(theory.mean_noise_variance(noise_covariance), 2000, 4)
    assert simulated == pytest.approx(expected, rel=0.07)  # four standard errors and the 1/n term


def test_the_two_designs_agree_for_many_samples_but_for_the_intercept():
    n_samples = 10**7
    gaussian = theory.model_variance(2.0, n_samples, 9, design="gaussian")
    with_intercept = theory.model_variance(2.0, n_samples, 9 + 1)
    assert gaussian == pytest.approx(with_intercept, rel=1e-5)


def test_variance_broadcasts_over_noises_and_sample_sizes():
    table = theory.model_variance([[1.0], [2.0]], [11, 21, 31], 2, design="gaussian")
    assert table.shape == (2, 3)
    assert table[1, 2] == theory.model_variance(2.0, 31, 2, design="gaussian")


@pytest.mark.parametrize("n_inputs", [1, 2, 3, 7])
def test_appendix_sum_of_partial_variances_is_the_number_of_inputs(n_inputs):
    covariance = random_covariance(np.random.default_rng(4), n_inputs)
    variances = theory.partial_variances(covariance)
    correlations = theory.partial_correlations(covariance)
    total = 0.0
    for k in range(n_inputs):
        total += covariance[k, k] / variances[k]
        for j in set(range(n_inputs)) - {k}:
            total -= covariance[k, j] * correlations[k, j] / np.sqrt(variances[k] * variances[j])
    assert total == pytest.approx(n_inputs)


# ---------------------------------------------------------------------------- mean noise


def test_mean_noise_variance_is_that_of_the_simulated_mean():
    rng = np.random.default_rng(5)
    covariance = random_covariance(rng, 5)
    noise = gaussian_rows(rng, (200_000,), covariance)
    for members in ([0, 2, 3], [4], range(5)):
        squares = noise[:, members].mean(axis=1) ** 2
        expected = theory.mean_noise_variance(covariance, members)
        assert_simulated(squares, expected, precision=0.01)


@given(
    size=st.integers(1, 9),
    noise_variance=st.floats(0.01, 100),
    position=st.floats(0, 1),
)
def test_the_two_forms_of_mean_noise_variance_agree(size, noise_variance, position):
    lowest = theory.mean_correlation_bound(size) if size > 1 else -1.0
    rho = lowest + position * (1 - lowest)
    covariance = noise_variance * ((1 - rho) * np.eye(size) + rho)
    matrix_form = theory.mean_noise_variance(covariance)
    assert matrix_form == pytest.approx(
        theory.mean_noise_variance(noise_variance, size, rho), abs=1e-9 * noise_variance
    )
    if size > 1:
        assert theory.mean_correlation(covariance) == pytest.approx(rho, abs=1e-12)


def test_mean_noise_variance_binds_each_form_by_position_and_by_name():
    covariance = np.array([[2.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 7.0]])
    pair = [
        theory.mean_noise_variance(covariance, [0, 1]),
        theory.mean_noise_variance(covariance, members=[0, 1]),
        theory.mean_noise_variance(members=[True, True, False], noise_covariance=covariance),
        theory.mean_noise_variance(2.0, 2, 0.25),
        theory.mean_noise_variance(2.0, 2, mean_correlation=0.25),
        theory.mean_noise_variance(2.0, size=2, mean_correlation=0.25),
        theory.mean_noise_variance(mean_correlation=0.25, size=2, noise_variance=2.0),
    ]
    np.testing.assert_allclose(pair, 1.25)
    assert theory.mean_noise_variance(noise_covariance=covariance) == pytest.approx(12 / 9)
    with pytest.raises(TypeError, match="mean_correlation"):
        theory.mean_noise_variance(2.0, size=2)


def test_mean_correlation_counts_each_pair_once():
    covariance = np.array([[4.0, 1.0, 0.0], [1.0, 1.0, 1.5], [0.0, 1.5, 9.0]])
    assert theory.mean_correlation(covariance) == pytest.approx((0.5 + 0.0 + 0.5) / 3)
    assert theory.mean_correlation(covariance, [0, 1]) == pytest.approx(0.5)
    assert theory.mean_correlation(np.ones((4, 4))) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_noises_that_sum_to_zero_attain_the_correlation_bound(size):
    covariance = np.eye(size) - 1 / size
    bound = theory.mean_correlation_bound(size)
    assert theory.mean_correlation(covariance) == pytest.approx(bound)
    assert theory.mean_noise_variance(covariance) == pytest.approx(0, abs=1e-15)
    assert theory.mean_noise_variance(1.0, size, bound) == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match=r"below 1/\(1-K\)"):
        theory.mean_noise_variance(1.0, size + 1, bound)


def test_fully_correlated_noises_save_nothing_and_independent_ones_a_factor_of_their_number():
    assert theory.mean_noise_variance(3.0, 6, 1.0) == pytest.approx(3.0)
    assert theory.mean_noise_variance(3.0, 6, 0.0) == pytest.approx(0.5)


# ---------------------------------------------------------------------------- Lemma 1


@pytest.mark.parametrize(
    ("design", "n_samples", "n_runs"), [("asymptotic", 1000, 1000), ("gaussian", 14, 60_000)]
)
def test_coefficients_have_the_moments_of_lemma_1(design, n_samples, n_runs):
    tasks = LinearTasks(6, n_inputs=3, n_tasks=1)
    inputs, targets = tasks.draw(n_runs, n_samples)
    coefficients = least_squares(inputs, targets, intercept=design == "gaussian")[1][..., 0]
    moments = theory.coefficient_moments(
        tasks.covariance,
        tasks.covariance @ tasks.coef[:, 0],
        tasks.noise[0, 0],
        n_samples,
        design=design,
    )
    np.testing.assert_allclose(moments.mean, tasks.coef[:, 0])
    assert_simulated(coefficients, moments.mean, precision=0.01)
    deviation = coefficients - moments.mean
    products = deviation[:, :, None] * deviation[:, None, :]
    assert_simulated(products, moments.covariance, precision=0.05)


def test_coefficients_of_a_nonlinear_signal_have_the_mean_of_lemma_1():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(1000, 1000, 2))
    signal = x[..., :1] ** 3 - x[..., :1] * x[..., 1:] ** 2
    coefficients = least_squares(x, signal, intercept=False)[1][..., 0]
    moments = theory.coefficient_moments(np.eye(2), [3.0 - 1.0, 0.0], 0.0, 1000)
    np.testing.assert_allclose(moments.mean, [2, 0])
    assert_simulated(coefficients, moments.mean, precision=0.01)


@pytest.mark.parametrize("design", ["asymptotic", "gaussian"])
def test_model_variance_is_the_trace_of_lemma_1_with_the_input_covariance(design):
    covariance = random_covariance(np.random.default_rng(8), 4)
    coefficients = theory.coefficient_moments(covariance, np.zeros(4), 2.0, 30, design=design)
    slopes = np.trace(covariance @ coefficients.covariance)
    if design == "gaussian":
        slopes = slopes * (1 + 1 / 30) + 2.0 / 30
    assert slopes == pytest.approx(theory.model_variance(2.0, 30, 4, design=design))


def test_coefficient_covariance_broadcasts_over_sample_sizes():
    stack = theory.coefficient_moments(np.eye(2), [1.0, 1.0], 1.0, [11, 21]).covariance
    np.testing.assert_allclose(stack, [np.eye(2) / 10, np.eye(2) / 20])


# ---------------------------------------------------------------------------- by hand


def test_two_inputs_by_hand():
    a, b, c = (
        4.0,
        9.0,
        3.0,
    )  # variances and covariance: the inverse is [[b, -c], [-c, a]]/(ab - c^2)
    determinant = a * b - c**2
    covariance, cross = [[a, c], [c, b]], np.array([2.0, -1.0])
    np.testing.assert_allclose(
        theory.partial_variances(covariance), [determinant / b, determinant / a]
    )
    # Given no other input the partial correlation is the plain one, sign included.
    assert theory.partial_correlations(covariance)[0, 1] == pytest.approx(c / np.sqrt(a * b))
    coef = np.array([b * cross[0] - c * cross[1], a * cross[1] - c * cross[0]]) / determinant
    moments = theory.coefficient_moments(covariance, cross, 5.0, 11)
    np.testing.assert_allclose(moments.mean, coef)
    np.testing.assert_allclose(moments.covariance, 0.5 * np.array([[b, -c], [-c, a]]) / determinant)
    rho_1, rho_2, rho_12 = cross[0] / 2 / 3, cross[1] / 3 / 3, c / 6  # sd 2, 3; var(y) = 9
    by_hand = (rho_1**2 + rho_2**2 - 2 * rho_1 * rho_2 * rho_12) / (1 - rho_12**2)
    r2 = theory.r2_from_partial_correlations(covariance, cross, 9.0)
    assert r2 == pytest.approx(by_hand)
    assert theory.single_task_bias(9.0, r2) == pytest.approx(9.0 - cross @ coef)


def test_three_inputs_by_hand():
    r, s, t = (
        0.5,
        -0.3,
        0.2,
    )  # correlations 12, 13, 23 of unit-variance inputs; inverse by cofactors
    cofactors = np.array(
        [
            [1 - t**2, s * t - r, r * t - s],
            [s * t - r, 1 - s**2, r * s - t],
            [r * t - s, r * s - t, 1 - r**2],
        ]
    )
    determinant = 1 + 2 * r * s * t - r**2 - s**2 - t**2
    covariance = np.array([[1, r, s], [r, 1, t], [s, t, 1]])
    np.testing.assert_allclose(
        theory.partial_variances(covariance), determinant / np.diag(cofactors)
    )
    partial = theory.partial_correlations(covariance)
    assert partial[0, 1] == pytest.approx((r - s * t) / np.sqrt((1 - s**2) * (1 - t**2)))
    assert partial[0, 2] == pytest.approx((s - r * t) / np.sqrt((1 - r**2) * (1 - t**2)))
    assert partial[1, 2] == pytest.approx((t - r * s) / np.sqrt((1 - r**2) * (1 - s**2)))
    cross = np.array([0.4, 0.1, -0.2])
    moments = theory.coefficient_moments(covariance, cross, 2.0, 21)
    np.testing.assert_allclose(moments.mean, cofactors @ cross / determinant)
    np.testing.assert_allclose(moments.covariance, 0.1 * cofactors / determinant)
    assert theory.r2_from_partial_correlations(covariance, cross, 1.0) == pytest.approx(
        cross @ cofactors @ cross / determinant
    )


def test_independent_inputs_have_r2_that_add_and_variances_that_stay():
    variances, cross = np.array([1.0, 4.0, 0.25]), np.array([0.5, -1.0, 0.1])
    covariance = np.diag(variances)
    np.testing.assert_allclose(theory.partial_variances(covariance), variances)
    np.testing.assert_allclose(theory.partial_correlations(covariance), np.eye(3), atol=1e-15)
    correlations = cross / np.sqrt(variances * 2.0)
    r2 = theory.r2_from_partial_correlations(covariance, cross, 2.0)
    assert r2 == pytest.approx(np.sum(correlations**2))


# ---------------------------------------------------------------------------- R2 lemma


@settings(deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_inputs=st.integers(1, 8))
def test_r2_lemma_equals_the_quadratic_form(seed, n_inputs):
    rng = np.random.default_rng(seed)
    joint = random_covariance(rng, n_inputs + 1, n_draws=4 * (n_inputs + 1))
    covariance, cross, total = joint[:-1, :-1], joint[:-1, -1], joint[-1, -1]
    expected = cross @ np.linalg.solve(covariance, cross) / total
    r2 = theory.r2_from_partial_correlations(covariance, cross, total)
    assert r2 == pytest.approx(expected, rel=1e-9)
    assert theory.explained_moments(covariance, cross) == pytest.approx(r2 * total, rel=1e-9)


def test_partial_correlations_are_those_of_regression_residuals():
    x = np.random.default_rng(9).normal(size=(60, 5)) @ np.random.default_rng(10).normal(
        size=(5, 5)
    )
    x -= x.mean(axis=0)
    others, pair = x[:, 2:], x[:, :2]
    residuals = pair - others @ np.linalg.lstsq(others, pair, rcond=None)[0]
    partial = theory.partial_correlations(np.cov(x, rowvar=False))
    assert partial[0, 1] == pytest.approx(np.corrcoef(residuals, rowvar=False)[0, 1])


def test_the_inverse_covariance_needs_the_minus_signs_the_proof_omits():
    covariance = random_covariance(np.random.default_rng(11), 4)
    root = np.sqrt(theory.partial_variances(covariance))
    off_diagonal = theory.partial_correlations(covariance) - np.eye(4)
    corrected = (np.eye(4) - off_diagonal) / np.outer(root, root)
    printed = (np.eye(4) + off_diagonal) / np.outer(root, root)
    np.testing.assert_allclose(corrected @ covariance, np.eye(4), atol=1e-12)
    assert np.max(np.abs(printed @ covariance - np.eye(4))) > 0.1
    cross = covariance @ np.array([1.0, -0.5, 0.3, 0.0])
    r2 = theory.r2_from_partial_correlations(covariance, cross, 10.0)
    assert r2 == pytest.approx(cross @ corrected @ cross / 10)
    assert r2 != pytest.approx(cross @ printed @ cross / 10, rel=0.1)


# ---------------------------------------------------------------------------- Theorem 2


def test_bias_for_nonlinear_signals_and_basis_functions_is_the_simulated_one():
    points, mass = gaussian_expectation(2)
    basis, signals = nonlinear_basis(points), nonlinear_signals(points)
    psi = signals.mean(axis=1)
    together = np.column_stack([signals, psi])
    np.testing.assert_allclose(mass @ together, 0, atol=1e-12)
    np.testing.assert_allclose(mass @ basis, 0, atol=1e-12)
    explained = theory.explained_moments((basis.T * mass) @ basis, (basis.T * mass) @ together)
    expected = theory.model_bias(mass @ signals**2, explained[-1, -1], explained[:-1, -1])

    rng = np.random.default_rng(12)
    x = rng.normal(size=(400, 2000, 2))
    noisy = nonlinear_signals(x) + rng.normal(size=(400, 2000, 3))
    coefficients = least_squares(
        nonlinear_basis(x), noisy.mean(axis=-1, keepdims=True), intercept=False
    )[1][..., 0]
    mean_model = basis @ coefficients.mean(axis=0)
    simulated = mass @ (mean_model[:, None] - signals) ** 2
    np.testing.assert_allclose(simulated, expected, rtol=0.01)
    # A bias between nothing and the whole signal, so that the test could fail.
    assert np.all((expected > 0.1) & (expected < 0.8 * (mass @ signals**2)))


def test_paper_second_form_of_theorem_2_is_the_first():
    rng = np.random.default_rng(13)
    joint = random_covariance(rng, 6)  # four inputs, f_i, psi
    covariance, cross, outer = joint[:4, :4], joint[:4, 4:], joint[4:, 4:]
    explained = theory.explained_moments(covariance, cross)
    first = theory.model_bias(outer[0, 0], explained[1, 1], explained[0, 1])
    partial = outer - explained
    gap, partial_gap = outer[1, 0] - outer[1, 1], partial[1, 0] - partial[1, 1]
    assert first == pytest.approx(outer[0, 0] - explained[1, 1] + 2 * (partial_gap - gap))


def test_bias_of_a_group_of_one_is_that_of_corollary_1():
    joint = random_covariance(np.random.default_rng(14), 4)
    explained = theory.explained_moments(joint[:3, :3], joint[:3, 3])
    r2 = theory.r2_from_partial_correlations(joint[:3, :3], joint[:3, 3], joint[3, 3])
    bias = theory.model_bias(joint[3, 3], explained, explained)
    assert bias == pytest.approx(theory.single_task_bias(joint[3, 3], r2))


def test_corollary_1_is_wrong_when_r2_is_against_the_noisy_target():
    signal, noise, explained = 4.0, 4.0, 3.0
    against_signal = theory.single_task_bias(signal, explained / signal)
    against_target = theory.single_task_bias(signal, explained / (signal + noise))
    assert against_signal == pytest.approx(signal - explained)
    assert against_target == pytest.approx(2.5 * against_signal)


def test_explained_moments_allow_collinear_and_constant_inputs():
    joint = random_covariance(np.random.default_rng(15), 5)
    covariance, cross = joint[:3, :3], joint[:3, 3:]
    # The fourth input is a copy in other units of a sum of two others, the fifth a constant.
    extend = np.vstack([np.eye(3), [1e4, 1e4, 0], [0, 0, 0]])
    np.testing.assert_allclose(
        theory.explained_moments(extend @ covariance @ extend.T, extend @ cross),
        theory.explained_moments(covariance, cross),
    )


# ---------------------------------------------------------------------------- MSE


def test_decomposition_of_the_mse_is_the_simulated_one_with_aggregated_targets_and_features():
    tasks = LinearTasks(16, n_inputs=6, n_tasks=4)
    groups, n_samples = [[0, 1, 2], [3]], 25
    pairs = np.kron(np.eye(3), [[0.5], [0.5]])  # three means of two features each
    inputs, targets = tasks.draw(12_000, n_samples)
    average = group_means(groups, 4)
    offsets, coefficients = least_squares(inputs @ pairs, targets @ average, intercept=True)
    simulated = tasks.excess_risk(offsets, pairs @ coefficients) + np.diag(tasks.noise)

    mean_signal = average.T @ tasks.signal @ average
    explained = theory.explained_moments(
        pairs.T @ tasks.covariance @ pairs,
        pairs.T @ tasks.covariance @ np.hstack([tasks.coef, tasks.coef @ average]),
    )
    left = np.diag(mean_signal) - np.diag(explained)[4:]  # acts as noise on the coefficients
    parts = theory.decompose_mse(
        noise_variance=np.diag(tasks.noise),
        noise_variance_mean=np.diag(average.T @ tasks.noise @ average) + left,
        n_samples=n_samples,
        n_inputs=3,
        signal_variance=np.diag(tasks.signal),
        explained_variance=np.diag(explained)[4:],
        explained_covariance=np.diag(explained[:4, 4:]),
        design="gaussian",
    )
    assert_simulated(simulated, parts.mse, precision=0.01)
    assert np.all(parts.variance > 0.02 * parts.mse)
    assert np.all(parts.bias > 0.02 * parts.mse)


def test_asymptotic_decomposition_is_the_simulated_one_for_many_samples():
    tasks = LinearTasks(17, n_inputs=4, n_tasks=3)
    group, n_samples = [0, 1, 2], 500
    inputs, targets = tasks.draw(3000, n_samples)
    average = group_means([group], 3)
    fits = least_squares(inputs, targets @ average, intercept=False)
    bias = [tasks.parts(i, group, n_samples=n_samples, design="asymptotic").bias for i in group]
    variance = tasks.parts(0, group, n_samples=n_samples, design="asymptotic").variance
    # Less the bias, which is a hundred times the variance here and would hide it.
    excess = tasks.excess_risk(*fits) - np.array(bias)
    assert_simulated(excess.mean(axis=1), variance, precision=0.02)


def test_change_from_single_to_multi_task_is_appendix_c():
    tasks = LinearTasks(18, n_inputs=4, n_tasks=3)
    single = tasks.parts(1, [1], n_samples=41, design="asymptotic")
    merged = tasks.parts(1, [0, 1, 2], n_samples=41, design="asymptotic")
    change = theory.mse_change(single, merged)
    mean_noise = tasks.noise.mean()
    assert change.variance_decrease == pytest.approx((tasks.noise[1, 1] - mean_noise) / 40 * 4)
    explained_i, explained_mean = tasks.signal[1, 1], tasks.signal.mean()
    explained_covariance = tasks.signal[1].mean()
    assert change.bias_increase == pytest.approx(
        explained_i + explained_mean - 2 * explained_covariance
    )
    # The same as what the inputs explain of f_i - psi, hence never negative.
    gap = tasks.coef[:, 1] - tasks.coef.mean(axis=1)
    assert change.bias_increase == pytest.approx(gap @ tasks.covariance @ gap)
    assert change.gain == pytest.approx(single.mse - merged.mse)


def test_change_from_full_to_aggregated_features_is_appendix_c():
    noise, signal, n_samples, r2 = 2.0, 3.0, 41, {10: 0.9, 4: 0.7}
    full, aggregated = (
        theory.decompose_mse(
            noise_variance=noise,
            noise_variance_mean=noise,
            n_samples=n_samples,
            n_inputs=n_inputs,
            signal_variance=signal,
            explained_variance=signal * r2[n_inputs],
            explained_covariance=signal * r2[n_inputs],
        )
        for n_inputs in (10, 4)
    )
    change = theory.mse_change(full, aggregated)
    assert change.variance_decrease == pytest.approx(noise / 40 * 6)
    assert change.bias_increase == pytest.approx(signal * (0.9 - 0.7))
    eq_7 = theory.feature_gain(noise, signal, r2[10], r2[4], n_samples, 10, 4)
    assert change.gain == pytest.approx(eq_7)


def test_variance_decrease_of_equally_noisy_tasks_is_appendix_c():
    size, rho = 4, 0.3
    mean = theory.mean_noise_variance(2.0, size, rho)
    decrease = theory.model_variance(2.0, 101, 5) - theory.model_variance(mean, 101, 5)
    assert decrease == pytest.approx((size - 1) / size * 2.0 * (1 - rho) / 100 * 5)


# ---------------------------------------------------------------------------- gains


def simulated_gain(tasks, before, after, *, n_samples, n_runs):
    """Fall of each task's MSE from one partition to another, the same samples for both."""
    inputs, targets = tasks.draw(n_runs, n_samples)
    n_tasks = targets.shape[-1]
    fits = [
        least_squares(inputs, targets @ group_means(groups, n_tasks), intercept=True)
        for groups in (before, after)
    ]
    return tasks.excess_risk(*fits[0]) - tasks.excess_risk(*fits[1])


@pytest.mark.parametrize("spread", [0.05, 0.8])
def test_two_task_gains_are_the_simulated_ones(spread):
    tasks = LinearTasks(19, n_inputs=5, n_tasks=2, spread=spread)
    gains = theory.two_task_gain(
        *np.diag(tasks.noise),
        theory.mean_noise_variance(tasks.noise),
        24,
        5,
        *np.diag(tasks.signal),
        tasks.signal.mean(),
        design="gaussian",
    )
    draws = simulated_gain(tasks, [[0], [1]], [[0, 1]], n_samples=24, n_runs=20_000)
    assert_simulated(draws, gains, precision=0.02)
    assert (min(gains) > 0) == (spread == 0.05)


@pytest.mark.parametrize("design", ["asymptotic", "gaussian"])
def test_two_task_gains_are_the_members_changes_of_mse(design):
    tasks = LinearTasks(20, n_inputs=5, n_tasks=2)
    gains = theory.two_task_gain(
        tasks.noise[0, 0],
        tasks.noise[1, 1],
        tasks.noise.mean(),
        30,
        5,
        tasks.signal[0, 0],
        tasks.signal[1, 1],
        tasks.signal.mean(),
        design=design,
    )
    for task, gain in enumerate(gains):
        change = theory.mse_change(
            tasks.parts(task, [task], n_samples=30, design=design),
            tasks.parts(task, [0, 1], n_samples=30, design=design),
        )
        assert gain == pytest.approx(change.gain)
    total = theory.group_gain(1, 1, *tasks.difference([0], [1]), 30, 5, design=design)
    assert sum(gains) == pytest.approx(total)


def test_a_merge_that_pays_in_total_can_cost_the_less_noisy_member():
    quiet, noisy = 0.1, 10.0
    gains = theory.two_task_gain(quiet, noisy, (quiet + noisy) / 4, 51, 5, 1.0, 1.0, 1.0)
    assert gains[0] < 0 < gains[1]
    assert theory.group_gain(1, 1, quiet + noisy, 0.0, 51, 5) == pytest.approx(sum(gains))
    assert sum(gains) > 0


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size_a=st.integers(1, 6),
    size_b=st.integers(1, 6),
    design=st.sampled_from(["asymptotic", "gaussian"]),
)
def test_group_gain_is_the_sum_of_the_members_changes_of_mse(seed, size_a, size_b, design):
    tasks = LinearTasks(seed, n_inputs=3, n_tasks=size_a + size_b)
    everyone = list(range(size_a + size_b))
    first, second = everyone[:size_a], everyone[size_a:]
    changes = [
        tasks.parts(i, group, n_samples=20, design=design).mse
        - tasks.parts(i, everyone, n_samples=20, design=design).mse
        for group in (first, second)
        for i in group
    ]
    gain = theory.group_gain(size_a, size_b, *tasks.difference(first, second), 20, 3, design=design)
    scale = np.sum(np.diag(tasks.signal)) + np.sum(np.diag(tasks.noise))
    assert gain == pytest.approx(sum(changes), abs=1e-10 * scale)


@pytest.mark.parametrize(("size_a", "size_b"), [(1, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("spread", [0.05, 0.8])
def test_group_gain_is_the_simulated_change_of_the_total_mse(size_a, size_b, spread):
    everyone = list(range(size_a + size_b))
    first, second = everyone[:size_a], everyone[size_a:]
    tasks = LinearTasks(21, n_inputs=6, n_tasks=len(everyone), spread=spread)
    draws = simulated_gain(tasks, [first, second], [everyone], n_samples=30, n_runs=8000)
    gain = theory.group_gain(
        size_a, size_b, *tasks.difference(first, second), 30, 6, design="gaussian"
    )
    assert_simulated(draws.sum(axis=1), gain, precision=0.03)
    assert (gain > 0) == (spread == 0.05)


def regression_f(inputs, target):
    """F statistic and residual variance of each run's regression with an intercept."""
    _, n_samples, n_inputs = inputs.shape
    offsets, coefficients = least_squares(inputs, target[..., None], intercept=True)
    residuals = target - offsets - (inputs @ coefficients)[..., 0]
    total = np.sum((target - target.mean(axis=1, keepdims=True)) ** 2, axis=1)
    residual_sum = np.sum(residuals**2, axis=1)
    residual_variance = residual_sum / (n_samples - n_inputs - 1)
    return (total - residual_sum) / n_inputs / residual_variance, residual_variance


@pytest.mark.parametrize(("size_a", "size_b"), [(1, 1), (3, 2), (5, 1)])
@pytest.mark.parametrize("spread", [0.0, 0.8])
def test_gain_from_f_is_unbiased_up_to_a_common_factor(size_a, size_b, spread):
    n_samples, n_inputs = 20, 6
    everyone = list(range(size_a + size_b))
    first, second = everyone[:size_a], everyone[size_a:]
    tasks = LinearTasks(22, n_inputs=n_inputs, n_tasks=len(everyone), spread=spread)
    inputs, targets = tasks.draw(10_000, n_samples)
    difference = targets[..., first].mean(axis=-1) - targets[..., second].mean(axis=-1)
    f, residual_variance = regression_f(inputs, difference)
    estimates = theory.group_gain_from_f(size_a, size_b, residual_variance, f, n_samples, n_inputs)
    noise, explained = tasks.difference(first, second)
    weight = size_a * size_b / (size_a + size_b)
    truth = weight * (noise * n_inputs / (n_samples - n_inputs - 2) - explained)
    assert_simulated(estimates, truth, precision=0.05)

    # The same gain from test errors, when each target keeps its own offset; 1 + 1/n comes from
    # centring new inputs at the training mean.
    input_mean, target_mean = inputs.mean(axis=1, keepdims=True), targets.mean(axis=1)
    risk = []
    for groups in ([first, second], [everyone]):
        average = group_means(groups, len(everyone))
        _, coefficients = least_squares(inputs, targets @ average, intercept=True)
        offsets = target_mean - (input_mean @ coefficients)[:, 0]
        risk.append(tasks.excess_risk(offsets, coefficients).sum(axis=1))
    assert_simulated(risk[0] - risk[1], (1 + 1 / n_samples) * truth, precision=0.05)


def test_gain_from_f_is_the_value_of_the_groups_in_sums_of_squares():
    rng = np.random.default_rng(23)
    n_samples, n_inputs, first, second = 30, 4, [0, 1, 2], [3, 4]
    inputs, targets = rng.normal(size=(1, n_samples, n_inputs)), rng.normal(size=(1, n_samples, 5))
    break_even = theory.break_even_f(n_samples, n_inputs, 1.5)

    def value(group):
        f, s = regression_f(inputs, targets[..., group].mean(axis=-1))
        return len(group) * n_inputs * s * (f - break_even) / (n_samples - 1)

    f, s = regression_f(inputs, targets[..., first].mean(-1) - targets[..., second].mean(-1))
    gain = theory.group_gain_from_f(3, 2, s, f, n_samples, n_inputs, margin=1.5)
    np.testing.assert_allclose(gain, value(first + second) - value(first) - value(second))


def test_break_even_f_is_where_the_estimated_gain_changes_sign():
    break_even = theory.break_even_f(50, 8, 1.5)
    assert break_even == pytest.approx(1 + 1.5 * 49 / 40)
    gains = theory.group_gain_from_f(
        2, 3, 1.7, break_even + np.array([-0.1, 0.0, 0.1]), 50, 8, margin=1.5
    )
    np.testing.assert_array_equal(np.sign(gains), [1, 0, -1])


@pytest.mark.more
@pytest.mark.parametrize(("noise_variance", "pays"), [(0.2, False), (6.0, True)])
def test_feature_gain_is_the_simulated_one_for_many_samples(noise_variance, pays):
    rng = np.random.default_rng(24)
    n_samples, n_runs = 400, 4000
    covariance = 0.25 * np.eye(6) + np.kron(np.eye(3), np.ones((2, 2)))  # three similar pairs
    coef = np.repeat(rng.normal(size=(3, 1)), 2, axis=0) + 0.1 * rng.normal(size=(6, 1))
    pairs = np.kron(np.eye(3), [[0.5], [0.5]])
    signal = (coef.T @ covariance @ coef).item()
    explained = theory.explained_moments(
        pairs.T @ covariance @ pairs, (pairs.T @ covariance @ coef)[:, 0]
    )
    gain = theory.feature_gain(noise_variance, signal, 1.0, explained / signal, n_samples, 6, 3)

    inputs = gaussian_rows(rng, (n_runs, n_samples), covariance)
    noise = np.sqrt(noise_variance) * rng.normal(size=(n_runs, n_samples, 1))
    _, full = least_squares(inputs, inputs @ coef + noise, intercept=False)
    _, reduced = least_squares(inputs @ pairs, inputs @ coef + noise, intercept=False)
    simulated = mean_square(0, full - coef, covariance)
    simulated -= mean_square(0, pairs @ reduced - coef, covariance)
    assert (gain > 0) == pays
    np.testing.assert_allclose(simulated.mean(), gain, rtol=0.04)


def test_feature_gain_is_the_variance_saved_less_the_bias_paid():
    gain = theory.feature_gain(2.0, 3.0, 0.9, [0.9, 0.85, 0.5], 51, 10, 4)
    np.testing.assert_allclose(gain, 2.0 / 50 * 6 - 3.0 * (0.9 - np.array([0.9, 0.85, 0.5])))


# ---------------------------------------------------------------------------- borders


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: theory.model_variance(1.0, 10, 2, design="exact"), "design is 'exact'"),
        (lambda: theory.model_variance(1.0, 12, 10, design="gaussian"), "more than 12.0 samples"),
        (lambda: theory.model_variance(1.0, [30, 1], 1), "more than 1.0 samples"),
        (lambda: theory.model_variance([1.0, -2.0], 10, 2), "noise_variance is -2"),
        (lambda: theory.model_variance(np.nan, 10, 2), "noise_variance is nan"),
        (lambda: theory.break_even_f(10, 8), "n_samples is 10.0 for 8.0 inputs"),
        (lambda: theory.single_task_bias(1.0, 1.2), "r2 is 1.2"),
        (lambda: theory.model_bias(1.0, -0.1, 0.0), "explained_variance is -0.1"),
        (lambda: theory.group_gain(0, 1, 1.0, 1.0, 10, 2), "size_a is 0"),
        (lambda: theory.feature_gain(1.0, 1.0, 0.5, 0.5, 20, 3, 4), "n_reduced is 4.0"),
        (lambda: theory.mean_correlation_bound(1), "size is 1"),
        (lambda: theory.mean_noise_variance(1.0, 3, 1.1), "mean_correlation is 1.1"),
        (lambda: theory.mean_noise_variance(1.0, 3, -0.6), "mean_correlation_bound"),
        (lambda: theory.mean_noise_variance(2.0, 3), r"shape \(\)"),
        (lambda: theory.mean_noise_variance([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite"),
        (lambda: theory.mean_noise_variance([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: theory.mean_noise_variance([[np.inf]]), "finite"),
        (lambda: theory.mean_noise_variance(np.eye(3), [0, 3]), "does not fit 3 tasks"),
        (lambda: theory.mean_noise_variance(np.eye(3), []), "does not fit 3 tasks"),
        (lambda: theory.mean_noise_variance(np.eye(3), [1, 1]), "each only once"),
        (lambda: theory.mean_noise_variance(np.eye(3), [False] * 3), "at least one task"),
        (lambda: theory.mean_correlation(np.eye(3), [1]), "at least two members"),
        (lambda: theory.mean_correlation(np.diag([1.0, 0.0])), "each with noise"),
        (lambda: theory.partial_variances(np.ones((2, 2))), "2 inputs has rank 1"),
        (lambda: theory.explained_moments(np.eye(2), [1.0, 2.0, 3.0]), r"has shape \(3,\)"),
        (
            lambda: theory.r2_from_partial_correlations(np.eye(1), [1.0], 0.0),
            "target_variance is 0",
        ),
    ],
)
def test_a_bad_input_is_answered_with_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_rounding_past_a_bound_is_put_back_on_it():
    assert theory.single_task_bias(2.0, 1 + 1e-15) == 0
    assert theory.mean_noise_variance(2.0, 5, 1 + 1e-15) == 2.0
    assert theory.mean_noise_variance(2.0, 5, -0.25 - 1e-12) == 0


def test_every_public_function_has_an_example():
    public = [name for name in theory.__all__ if not isinstance(getattr(theory, name), type)]
    assert len(public) >= 18
    assert [name for name in public if ">>>" not in getattr(theory, name).__doc__] == []
