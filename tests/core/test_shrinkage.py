"""Offsets and slopes of a task's own: against slow formulas, by their laws, and where they help."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctfa.core.mixed import correct
from ctfa.core.offsets import random_intercepts, summarise
from generated import examples


def tasks(seed, *, n_tasks=12, slopes_differ=0.0, offsets_differ=1.0, n_inputs=4, noise=1.0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_inputs)
    inputs, targets = [], []
    for _ in range(n_tasks):
        n = int(rng.integers(3, 40))
        X = rng.normal(size=(n, n_inputs)) + rng.normal(size=n_inputs)
        own = common + slopes_differ * np.eye(n_inputs)[0] * rng.normal()
        level = 5.0 + offsets_differ * rng.normal()
        inputs.append(X)
        targets.append(X @ own + level + noise * rng.normal(size=n))
    return inputs, targets


def offsets_of(inputs, targets, weights=None):
    weights = [None] * len(inputs) if weights is None else weights
    return random_intercepts(
        [summarise(*task) for task in zip(inputs, targets, weights, strict=True)]
    )


# -- Offsets ---------------------------------------------------------------------------------------


def slow_deviance(ratio, inputs, targets):
    """Minus twice the restricted log-likelihood from the covariance matrix of all rows."""
    member = np.repeat(np.arange(len(inputs)), [len(y) for y in targets])
    y, X = np.concatenate(targets), np.vstack(inputs)
    X = np.column_stack([np.ones(len(y)), X])
    V = np.eye(len(y)) + ratio * (member[:, None] == member)
    inverse = np.linalg.inv(V)
    gram = X.T @ inverse @ X
    beta = np.linalg.solve(gram, X.T @ inverse @ y)
    left = y - X @ beta
    dof = len(y) - X.shape[1]
    deviance = dof * np.log(left @ inverse @ left)
    deviance += np.linalg.slogdet(V)[1] + np.linalg.slogdet(gram)[1]
    effects = ratio * np.stack(
        [(inverse @ left)[member == task].sum() for task in range(len(inputs))]
    )
    return deviance, beta, effects


@pytest.mark.parametrize("seed", range(4))
def test_offsets_are_those_of_the_mixed_model(seed):
    inputs, targets = tasks(seed)
    found = offsets_of(inputs, targets)
    least, beta, effects = slow_deviance(found.ratio, inputs, targets)
    np.testing.assert_allclose(found.slopes, beta[1:], rtol=1e-8)
    assert found.intercept == pytest.approx(beta[0], rel=1e-8)
    np.testing.assert_allclose(found.values, effects, rtol=1e-7, atol=1e-10)
    for ratio in (0.0, 0.8 * found.ratio, 1.25 * found.ratio, 10.0):
        assert least <= slow_deviance(ratio, inputs, targets)[0] + 1e-2


def test_offsets_without_variance_are_zero():
    inputs, targets = tasks(1, offsets_differ=0.0)
    found = offsets_of(inputs, targets)
    assert np.abs(found.values).max() < 0.2
    X, y = np.vstack(inputs), np.concatenate(targets)
    slopes = np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0][1:]
    np.testing.assert_allclose(found.slopes, slopes, atol=0.05)


def test_a_task_of_few_rows_keeps_less_of_its_offset():
    found = offsets_of(*tasks(2))
    lengths = [len(y) for y in tasks(2)[1]]
    assert (np.diff(found.kept[np.argsort(lengths)]) >= 0.0).all()
    assert 0.0 < found.kept.min() < found.kept.max() < 1.0


def test_repeated_rows_are_rows_of_weight_two():
    inputs, targets = tasks(3)
    weights = [np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0) for y in targets]
    once = random_intercepts(
        [
            summarise(*task)._replace(n_rows=int(task[2].sum()))
            for task in zip(inputs, targets, weights, strict=True)
        ]
    )
    twice = offsets_of(
        [np.repeat(x, w.astype(int), axis=0) for x, w in zip(inputs, weights, strict=True)],
        [np.repeat(y, w.astype(int)) for y, w in zip(targets, weights, strict=True)],
    )
    np.testing.assert_allclose(once.values, twice.values, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(once.slopes, twice.slopes, rtol=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=examples(60), deadline=None)
def test_offsets_and_corrections_are_always_numbers(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 6))
    lengths = rng.integers(1, 8, size=int(rng.integers(1, 6)))
    inputs = [rng.integers(0, 2, size=(n, D)).astype(float) for n in lengths]
    targets = [rng.integers(0, 3, size=n).astype(float) for n in lengths]
    found = offsets_of(inputs, targets)
    left = [
        y - found.intercept - x @ found.slopes - offset
        for x, y, offset in zip(inputs, targets, found.values, strict=True)
    ]
    made = correct(inputs, left, np.zeros(len(lengths), dtype=int))
    for number in (*found, *made):
        assert np.isfinite(number).all()
    assert ((made.trust >= 0.0) & (made.trust <= 1.0)).all()


def test_inputs_that_do_not_vary_within_tasks_are_learned_from_their_means():
    rng = np.random.default_rng(0)
    inputs, targets = tasks(4, n_tasks=60, offsets_differ=0.3)
    kinds = rng.integers(0, 2, size=60).astype(float)
    inputs = [np.column_stack([x, np.full(len(x), k)]) for x, k in zip(inputs, kinds, strict=True)]
    targets = [y + 4.0 * k for y, k in zip(targets, kinds, strict=True)]
    assert offsets_of(inputs, targets).slopes[-1] == pytest.approx(4.0, abs=0.4)


# -- Slopes ----------------------------------------------------------------------------------------


def residuals_of(inputs, targets):
    found = offsets_of(inputs, targets)
    return [y - x @ found.slopes for x, y in zip(inputs, targets, strict=True)]


@pytest.mark.parametrize("seed", range(3))
def test_corrections_are_ridge_regressions_of_the_residuals(seed):
    inputs, targets = tasks(seed, slopes_differ=1.5)
    left = residuals_of(inputs, targets)
    labels = np.arange(12) % 2
    made = correct(inputs, left, labels)
    centred = [x - x.mean(axis=0) for x in inputs]
    dof = sum(len(x) - 1 for x in centred)
    spread = np.sqrt(sum((x**2).sum(axis=0) for x in centred) / dof)
    for task in range(12):
        unit = centred[task] / spread
        drawn = np.diag(made.variance)
        own = drawn @ np.linalg.solve(unit.T @ unit @ drawn + np.eye(4), unit.T @ left[task])
        np.testing.assert_allclose(made.coef[task], own / spread, rtol=1e-6, atol=1e-9)


def test_the_input_on_which_tasks_differ_is_found():
    inputs, targets = tasks(5, n_tasks=40, slopes_differ=2.0)
    made = correct(inputs, residuals_of(inputs, targets), np.zeros(40, dtype=int))
    assert made.variance[0] > 10.0 * made.variance[1:].max()


def test_corrections_bring_tasks_nearer_to_their_own_slopes():
    gained = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        own = rng.normal(size=4) + np.array([1.0, 0.2, 0.0, 0.0]) * rng.normal(size=(20, 4))
        inputs = [rng.normal(size=(15, 4)) for _ in own]
        targets = [x @ w + rng.normal(size=15) for x, w in zip(inputs, own, strict=True)]
        common = offsets_of(inputs, targets).slopes
        made = correct(inputs, residuals_of(inputs, targets), np.zeros(20, dtype=int))
        alone = [
            np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
            for x, y in zip(inputs, targets, strict=True)
        ]
        errors = [((w - own) ** 2).sum() for w in (common + made.coef, common, np.array(alone))]
        gained.append(errors)
    shrunk, pooled, alone = np.mean(gained, axis=0)
    assert shrunk < 0.7 * min(pooled, alone)


def test_a_task_by_itself_has_nothing_to_correct():
    inputs, targets = tasks(6, n_tasks=1)
    made = correct(inputs, residuals_of(inputs, targets), np.zeros(1, dtype=int))
    np.testing.assert_array_equal(made.coef, 0.0)
    assert made.trust[0] == 1.0


def test_units_of_inputs_do_not_matter_to_corrections():
    inputs, targets = tasks(7, slopes_differ=1.0)
    left, labels = residuals_of(inputs, targets), np.zeros(12, dtype=int)
    units = np.array([1e-3, 1.0, 50.0, 1e4])
    made, scaled = correct(inputs, left, labels), correct([x * units for x in inputs], left, labels)
    np.testing.assert_allclose(scaled.coef * units, made.coef, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(scaled.trust, made.trust, rtol=1e-8)


@pytest.mark.parametrize("level", [0.1, -1e3, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_an_input_that_every_member_has_constant_changes_no_correction(level, weighted):
    inputs, targets = tasks(8, slopes_differ=1.0)
    left, labels, rng = residuals_of(inputs, targets), np.arange(12) % 3, np.random.default_rng(0)
    weights = [rng.uniform(0.5, 2.0, len(y)) for y in targets] if weighted else None
    more = [np.column_stack((x, np.full(len(x), level * k))) for k, x in enumerate(inputs)]
    plain, made = (correct(x, left, labels, weights=weights) for x in (inputs, more))
    np.testing.assert_allclose(made.coef[:, :-1], plain.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(made.coef[:, -1], 0.0)
    np.testing.assert_allclose(made.trust, plain.trust, rtol=1e-9)


def test_rows_of_weight_zero_do_not_count():
    rng = np.random.default_rng(8)
    inputs, targets = tasks(8, slopes_differ=1.0)
    left, labels = residuals_of(inputs, targets), np.zeros(12, dtype=int)
    longer = [np.vstack([x, rng.normal(size=(5, 4))]) for x in inputs]
    padded = [np.append(e, rng.normal(size=5)) for e in left]
    weights = [np.append(np.ones(len(e)), np.zeros(5)) for e in left]
    made, masked = correct(inputs, left, labels), correct(longer, padded, labels, weights=weights)
    np.testing.assert_allclose(masked.coef, made.coef, rtol=1e-9, atol=1e-12)


def test_stacked_members_are_a_list_of_members():
    rng = np.random.default_rng(9)
    inputs, left = rng.normal(size=(6, 20, 3)), rng.normal(size=(6, 20))
    labels = np.array([0, 0, 1, 1, 1, 2])
    one, two = correct(inputs, left, labels), correct(list(inputs), list(left), labels)
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)
