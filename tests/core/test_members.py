"""Predicted risk of single members: formulas written out, simulated truth, refits."""

import numpy as np
import pytest

from ctfa import CTFARegressor, TargetAggregator
from ctfa.core.criteria import target_risk
from ctfa.core.design import Design
from ctfa.core.history import Ledger
from ctfa.core.members import MemberRisk
from ctfa.core.partition import Partition
from ctfa.core.ridge import Ridge
from ctfa.core.scans import SCANS
from ctfa.core.tasks.shared import LinearFit
from problems import make_problem

FAMILIES = ["gaussian", "correlated", "collinear", "constant", "tight"]
# How the noise of four targets is made of four independent ones.
MIXING = np.array([[1.0, 0, 0, 0], [0.5, 0.8, 0, 0], [0, 0, 1.5, 0], [0.3, 0, 0, 0.7]])
PARTITION = Partition.from_groups([[0, 3, 4], [1], [2, 5]])


def least_squares_fit(problem):
    design = Design.of(problem.X)
    return LinearFit(design, design.centre(problem.Y))


def matrices(problem):
    """Unbiased covariances of signals (M) and of noise (N), and what noise costs a model (c)."""
    X, Y = problem.X - problem.X.mean(axis=0), problem.Y - problem.Y.mean(axis=0)
    n, rank = len(X), np.linalg.matrix_rank(X)
    fitted = X @ np.linalg.lstsq(X, Y, rcond=1e-12)[0]
    S = (Y - fitted).T @ (Y - fitted)
    M = (fitted.T @ fitted - rank * S / (n - rank - 1)) / (n - 1)
    return M, S / (n - rank - 1), rank / (n - rank - 2)


def risk_by_formula(problem, member, mean):
    """``N_ii + (e_i - a)' M (e_i - a) + c a' N a``."""
    M, N, c = matrices(problem)
    gap = np.eye(len(mean))[member] - mean
    return N[member, member] + gap @ M @ gap + c * mean @ N @ mean


def mean_of(group, n_targets):
    weights = np.zeros(n_targets)
    weights[group] = 1.0 / len(group)
    return weights


def merge_all(fit, scan="best-first"):
    space = fit.space()
    order = np.arange(space.n_variables)
    return SCANS[scan](space, target_risk, max_loss=np.inf, order=order)


# -- Against the formula ---------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_gains_over_single_models_are_differences_of_the_formula(family):
    problem = make_problem(family, 1, n_targets=6)
    gain = least_squares_fit(problem).members.gain_over_single(PARTITION)
    for member, label in enumerate(PARTITION.labels):
        alone = risk_by_formula(problem, member, mean_of([member], 6))
        grouped = risk_by_formula(problem, member, mean_of(PARTITION.groups[label], 6))
        assert gain.value[member] == pytest.approx(alone - grouped, rel=1e-8, abs=1e-10)
    assert gain.value[1] == gain.standard_error[1] == 0.0


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("family", FAMILIES)
def test_gains_along_a_history_are_differences_of_the_formula(family, scan):
    problem = make_problem(family, 2, n_targets=7)
    fit = least_squares_fit(problem)
    history = merge_all(fit, scan)
    blocks = {i: [i] for i in range(7)}
    M, N, _ = matrices(problem)
    n, rank = len(problem.X), fit.factored.rank
    steps = list(fit.members.along(history))
    assert len(steps) == len(history)
    for step, block, other in zip(steps, history.block, history.other, strict=True):
        first, second = blocks.pop(int(block)), blocks.pop(int(other))
        blocks[int(block)] = first + second
        assert step.members.tolist() == first + second
        assert step.n_first == len(first)
        for member, gain in zip(step.members, step.gain, strict=True):
            old = mean_of(first if member in first else second, 7)
            new = mean_of(first + second, 7)
            saved = risk_by_formula(problem, member, old) - risk_by_formula(problem, member, new)
            assert gain == pytest.approx(saved, rel=1e-8, abs=1e-10)
        assert step.total.value == pytest.approx(step.gain.sum(), rel=1e-8, abs=1e-10)
        a, b = len(first), len(second)
        gap = mean_of(first, 7) - mean_of(second, 7)
        noise, signal = gap @ N @ gap, gap @ M @ gap
        f = ((n - 1) * signal / rank + noise) / noise
        assert step.f_statistic == pytest.approx(f, rel=1e-8)
        group_gain = a * b / (a + b) * rank * noise * (step.f_star - f) / (n - 1)
        assert step.total.value == pytest.approx(group_gain, rel=1e-8, abs=1e-10)


def test_the_break_even_f_is_where_the_loss_is_one():
    fit = least_squares_fit(make_problem("gaussian", 0, n_targets=6))
    history = merge_all(fit)
    for step, loss in zip(fit.members.along(history), history.loss, strict=True):
        assert (step.f_statistic - 1.0) / (step.f_star - 1.0) == pytest.approx(loss)
        assert (step.total.value > 0.0) == (loss < 1.0)


# -- Against simulated truth -----------------------------------------------------------------------


def simulate(n_repeats, *, n=24, D=5, fixed_inputs, seed=0):
    """Predicted gains (value, error, total, its error) and true ones of one grouping of four."""
    rng = np.random.default_rng(seed)
    coef = 0.4 * rng.normal(size=(D, 1)) + 0.15 * rng.normal(size=(D, 4))
    fixed = rng.normal(size=(n, D))
    pair = Partition(np.array([0, 0, 0, 1]))
    predicted, errors, totals, total_errors, true = [], [], [], [], []
    for _ in range(n_repeats):
        X = fixed if fixed_inputs else rng.normal(size=(n, D))
        Y = X @ coef + rng.normal(size=(n, 4)) @ MIXING.T
        design = Design.of(X)
        risk = MemberRisk.in_sample(design, *design.coordinates(design.centre(Y)))
        gain = risk.gain_over_single(pair)
        predicted.append(gain.value)
        errors.append(gain.standard_error)
        history = _one_merge(4, 0, 1)
        (step,) = risk.along(history)
        totals.append(float(step.total.value))
        total_errors.append(float(step.total.standard_error))
        estimate = np.linalg.lstsq(np.column_stack((X, np.ones(n))), Y, rcond=None)[0]
        shared = np.tile(estimate[:, :3].mean(axis=1, keepdims=True), (1, 4))
        true.append(_true_risk(estimate, coef) - _true_risk(shared, coef))
    return map(np.array, (predicted, errors, totals, total_errors, true))


def _true_risk(estimate, coef):
    """For inputs of mean zero and unit covariance, without the noise of the row predicted."""
    return ((estimate[:-1] - coef) ** 2).sum(axis=0) + estimate[-1] ** 2


def _one_merge(n_targets, block, other):
    ledger = Ledger(n_targets)
    ledger.accept(block, other, 0.0)
    return ledger.close()


@pytest.mark.more
def test_predicted_gains_are_unbiased_for_gaussian_inputs():
    predicted, _, _, _, true = simulate(2500, fixed_inputs=False)
    # Apart from (1 + 1/n): the mean of the inputs is estimated too.
    gap = (1.0 + 1.0 / 24) * predicted[:, :3] - true[:, :3]
    # What the intercepts lose is common to both sides only where the noise has one variance; take
    # it out by its expectation, noise / n.
    covariance = MIXING @ MIXING.T
    intercepts = (np.diag(covariance)[:3] - covariance[:3, :3].mean()) / 24
    error = gap.std(axis=0) / np.sqrt(len(gap))
    assert (np.abs(gap.mean(axis=0) + intercepts) < 4 * error).all()
    assert (error < 0.3 * np.abs(true[:, :3].mean(axis=0))).all()  # the test can tell


@pytest.mark.more
def test_standard_errors_of_gains_are_those_of_repeated_noise():
    predicted, errors, totals, total_errors, _ = simulate(2000, fixed_inputs=True)
    spread = predicted[:, :3].std(axis=0)
    np.testing.assert_allclose(np.sqrt((errors[:, :3] ** 2).mean(axis=0)), spread, rtol=0.12)
    assert np.sqrt((total_errors**2).mean()) == pytest.approx(totals.std(), rel=0.12)


# -- Trust -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["ols", "ridge"])
@pytest.mark.parametrize("family", FAMILIES)
def test_trust_minimises_the_predicted_risk_of_a_group_on_a_fine_grid(family, solver):
    problem = make_problem(family, 3, n_targets=6)
    design = Design.of(problem.X)
    centred = design.centre(problem.Y)
    if solver == "ols":
        risk = LinearFit(design, centred).members
    else:
        risk = LinearFit(Ridge.of(problem.X, centred), centred).members
    trust = risk.trust(PARTITION)
    assert ((trust >= 0.0) & (trust <= 1.0)).all()
    assert trust[1] == 1.0
    grid = np.linspace(0.0, 1.0, 2001)
    for members, group in zip(PARTITION.groups, risk.groups(PARTITION), strict=True):
        if members.size == 1:
            continue
        total = np.zeros(grid.size)
        for i in members:
            models = risk.model[i] + grid[:, None] * (group - risk.model[i])
            total += -2.0 * models @ risk.own[i] + models**2 @ risk.weight
        # One weight for all members, where they together are served best.
        np.testing.assert_allclose(trust[members], grid[total.argmin()], atol=6e-4)


def test_trust_is_the_closed_form_of_one_weight_for_a_group():
    problem = make_problem("gaussian", 4, n_targets=6)
    M, N, c = matrices(problem)
    trust = least_squares_fit(problem).members.trust(PARTITION)
    for members in PARTITION.groups:
        if members.size == 1:
            continue
        mean = mean_of(members, 6)
        steps = [mean - np.eye(6)[i] for i in members]
        slope = sum(c * (N[i, i] - N[i] @ mean) for i in members)
        best = slope / sum(step @ (M + c * N) @ step for step in steps)
        np.testing.assert_allclose(trust[members], np.clip(best, 0.0, 1.0))


# -- Copies, and targets that are nearly the same --------------------------------------------------


def test_copies_gain_nothing_and_trust_each_other():
    problem = make_problem("gaussian", 5, n_targets=6)
    Y = problem.Y.copy()
    Y[:, 1], Y[:, 2] = Y[:, 0], 3.0 * Y[:, 0] + 1.0
    model = CTFARegressor(targets=TargetAggregator(max_loss=-0.5)).fit(problem.X, Y)
    frame = model.merges_.iloc[:2]
    assert (frame["f_statistic"] == 0.0).all()
    assert (frame["worst_gain"] == 0.0).all()
    assert (frame["losers"].map(len) == 0).all()
    if model.partition_.sizes[0] == 3:
        assert (model.trust_[:3] == 1.0).all()


def test_gains_keep_their_digits_when_targets_have_a_strong_part_in_common():
    problem = make_problem("gaussian", 6, n_targets=6)
    strong = 1e7 * problem.X @ np.ones((problem.X.shape[1], 1))
    plain = least_squares_fit(problem).members.gain_over_single(PARTITION)
    shifted = Design.of(problem.X)
    risk = LinearFit(shifted, shifted.centre(problem.Y + strong)).members
    gain = risk.gain_over_single(PARTITION)
    np.testing.assert_allclose(gain.value, plain.value, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gain.standard_error, plain.standard_error, rtol=1e-4, atol=1e-7)


# -- Rows left out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_validated_risks_are_those_of_refits(weighted):
    problem = make_problem("correlated", 7, n_samples=14, n_features=20, n_targets=6)
    X, Y = problem.X, problem.Y
    weights = np.random.default_rng(0).uniform(0.3, 2.0, size=14) if weighted else np.ones(14)
    weights *= 14 / weights.sum()
    mean = weights @ Y / 14
    centred = (Y - mean) * np.sqrt(weights)[:, None]
    ridge = Ridge.of(X, centred, weights if weighted else None)
    risk = LinearFit(ridge, centred).members
    gain = risk.gain_over_single(PARTITION)
    target = centred * 14 / 13
    unit = (X - weights @ X / 14) * np.sqrt(weights)[:, None] / ridge.length
    alone = np.empty((14, 6))
    for column, penalty in enumerate(ridge.penalty):
        hat = np.zeros((14, 14))  # at an infinite penalty
        if np.isfinite(penalty):
            hat = unit @ np.linalg.solve(unit.T @ unit + penalty * np.eye(20), unit.T)
        residual = centred[:, column] - hat @ centred[:, column]
        alone[:, column] = target[:, column] - residual / (1.0 - (np.trace(hat) + 1.0) / 14)
    grouped = PARTITION.spread(PARTITION.mean(alone))
    errors = [(target - predicted) ** 2 for predicted in (alone, grouped)]
    saved = errors[0] - errors[1]
    np.testing.assert_allclose(gain.value, saved.mean(axis=0), rtol=1e-7, atol=1e-10)
    expected = saved.std(axis=0, ddof=1) / np.sqrt(14)
    np.testing.assert_allclose(gain.standard_error, expected, rtol=1e-7, atol=1e-10)
    totals = [step.total for step in risk.along(_one_merge(6, 2, 5))]
    assert float(totals[0].value) == pytest.approx(saved[:, [2, 5]].sum(axis=1).mean())
    both = saved[:, [2, 5]].sum(axis=1)
    assert float(totals[0].standard_error) == pytest.approx(both.std(ddof=1) / np.sqrt(14))


def test_turning_targets_round_turns_their_models_round():
    problem = make_problem("gaussian", 8, n_targets=6)
    design = Design.of(problem.X)
    signs = np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
    centred = design.centre(problem.Y)
    turned = LinearFit(design, centred * signs).members
    flipped = LinearFit(design, centred).members.flipped(signs)
    np.testing.assert_allclose(flipped.trust(PARTITION), turned.trust(PARTITION))
    one, two = flipped.gain_over_single(PARTITION), turned.gain_over_single(PARTITION)
    np.testing.assert_allclose(one.value, two.value)
    np.testing.assert_allclose(one.standard_error, two.standard_error)
