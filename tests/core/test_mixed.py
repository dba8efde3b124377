"""The mixed model of tasks in groups: against covariance matrices of all rows, and by its laws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctfa import PooledCTFARegressor, TargetAggregator
from ctfa.core.mixed import CommonUnits, estimate, solve
from ctfa.core.small_fits import RowMoments
from ctfa.core.tasks.own_rows import MixedRows, TaskRows
from generated import examples


def drawn(seed, *, n_tasks=12, n_inputs=3, slopes=0.6, levels=1.0, shortest=3, longest=25):
    """Tasks of one group, unless told otherwise."""
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(n_tasks), rng.integers(shortest, longest, n_tasks))
    X = rng.normal(size=(index.size, n_inputs)) + rng.normal(size=(n_tasks, n_inputs))[index]
    coef = rng.normal(size=n_inputs) + slopes * rng.normal(size=(n_tasks, n_inputs))
    y = 5.0 + levels * rng.normal(size=n_tasks)[index] + np.einsum("ij,ij->i", X, coef[index])
    return TaskRows(X, y + rng.normal(size=index.size), None, index, n_tasks)


def dense(rows, model, labels, variance):
    """Coefficients and restricted deviance from the covariance matrix of all rows."""
    A, y = model.units.columns(rows.inputs), rows.target - model.level
    group, width = labels[rows.index], A.shape[1]
    fixed = np.zeros((len(y), width * (labels.max() + 1)))
    for at in range(labels.max() + 1):
        fixed[group == at, width * at : width * (at + 1)] = A[group == at]
    same = rows.index[:, None] == rows.index
    alone = (np.bincount(labels)[labels] < 2)[rows.index]
    V = np.eye(len(y)) + np.where(same & ~alone[:, None], (A * variance) @ A.T, 0.0)
    inverse = np.linalg.inv(V)
    gram = fixed.T @ inverse @ fixed
    common = np.linalg.solve(gram, fixed.T @ inverse @ y)
    left = y - fixed @ common
    own = np.array(
        [
            ((A * variance) * (rows.index == task)[:, None]).T @ inverse @ left
            for task in range(rows.n_tasks)
        ]
    )
    own[np.bincount(labels)[labels] < 2] = 0.0
    dof = len(y) - len(common)
    deviance = dof * np.log(left @ inverse @ left) + np.linalg.slogdet(V)[1]
    return common.reshape(-1, width), own, deviance + np.linalg.slogdet(gram)[1]


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_are_those_of_the_covariance_matrix_of_all_rows(seed):
    rows = drawn(seed, shortest=6)
    model, labels = MixedRows.of(rows), np.arange(12) % 2
    variance = np.array([2.0, 0.3, 0.0, 0.1])
    found = solve(model.moments, labels, variance)
    common, own, _ = dense(rows, model, labels, variance)
    np.testing.assert_allclose(found.common, common, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.own, own, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_variances_are_the_likeliest_of_restricted_likelihood(seed, groups):
    rows = drawn(seed, n_tasks=24, shortest=8)
    model, labels = MixedRows.of(rows), np.arange(24) % groups
    found = estimate(model.moments, labels)
    least = dense(rows, model, labels, found)[2]
    for at in range(4):
        for factor in (0.7, 1.4):
            other = found.copy()
            other[at] *= factor
            # Held together by a task's worth of their mean, they are not quite the likeliest.
            assert least <= dense(rows, model, labels, other)[2] + 0.2


def test_pairs_tell_how_much_tasks_differ_though_half_of_it_is_in_their_mean():
    found = []
    for seed in range(4):
        rows = drawn(seed, n_tasks=120, slopes=0.5, levels=0.5, shortest=20, longest=30)
        model = MixedRows.of(rows)
        found.append(estimate(model.moments, np.arange(120) // 2)[1:] / model.units.scale**2)
    assert np.mean(found) == pytest.approx(0.25, rel=0.15)


def test_without_variance_tasks_are_pooled():
    rows = drawn(1)
    model = MixedRows.of(rows)
    found = solve(model.moments, np.zeros(12, dtype=int), np.zeros(4))
    pooled = np.linalg.lstsq(
        model.units.columns(rows.inputs), rows.target - model.level, rcond=None
    )[0]
    np.testing.assert_allclose(found.common[0], pooled, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.own, 0.0)
    np.testing.assert_array_equal(found.trust, 1.0)


def test_with_variance_without_bound_every_task_has_its_own_fit():
    rows = drawn(2, shortest=8)
    model = MixedRows.of(rows)
    found = solve(model.moments, np.zeros(12, dtype=int), np.full(4, 1e8))
    columns = model.units.columns(rows.inputs)
    for task, at in enumerate(rows.rows):
        alone = np.linalg.lstsq(columns[at], rows.target[at] - model.level, rcond=None)[0]
        np.testing.assert_allclose(found.common[0] + found.own[task], alone, rtol=1e-5, atol=1e-6)
    assert found.trust.max() < 1e-6


def test_tasks_that_do_not_differ_are_found_to_have_no_variance_of_slopes():
    found = []
    for seed in range(10):
        rows = drawn(seed, slopes=0.0, n_tasks=30, shortest=10)
        found.append(estimate(MixedRows.of(rows).moments, np.zeros(30, dtype=int))[1:].max())
    assert np.median(found) < 0.02
    assert min(found) == 0.0


def test_the_input_on_which_tasks_differ_is_found():
    rng = np.random.default_rng(5)
    rows = drawn(5, n_tasks=40, slopes=0.0, shortest=10)
    more = 2.0 * rng.normal(size=40)[rows.index] * rows.inputs[:, 0]
    rows = TaskRows(rows.inputs, rows.target + more, None, rows.index, 40)
    variance = estimate(MixedRows.of(rows).moments, np.zeros(40, dtype=int))
    assert variance[1] > 10.0 * variance[2:].max()


def test_a_row_of_weight_two_is_a_row_given_twice():
    rows = drawn(3)
    twice = np.repeat(np.arange(rows.index.size), 1 + np.arange(rows.index.size) % 2)
    weights = 1.0 + np.arange(rows.index.size) % 2
    once = TaskRows(rows.inputs, rows.target, weights, rows.index, 12, weights)
    copied = TaskRows(rows.inputs[twice], rows.target[twice], None, rows.index[twice], 12)
    labels, each = np.zeros(12, dtype=int), []
    for some in (once, copied):
        model = MixedRows.of(some)
        each.append(
            (
                estimate(model.moments, labels),
                solve(model.moments, labels, estimate(model.moments, labels)).own,
            )
        )
    for one, other in zip(*each, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_a_task_alone_keeps_its_least_squares_fit_and_says_nothing_of_variances():
    rows = drawn(4, shortest=8)
    model, labels = MixedRows.of(rows), np.append(np.zeros(11, dtype=int), 1)
    variance = estimate(model.moments, labels)
    found = solve(model.moments, labels, variance)
    at = rows.rows[11]
    alone = np.linalg.lstsq(
        model.units.columns(rows.inputs[at]), rows.target[at] - model.level, rcond=None
    )[0]
    np.testing.assert_allclose(found.common[1], alone, rtol=1e-8)
    np.testing.assert_array_equal(found.own[11], 0.0)
    others = model.moments._replace(moment=model.moments.moment.copy())
    others.moment[11] *= 7.0
    np.testing.assert_array_equal(estimate(others, labels), variance)


def test_variances_of_many_tasks_are_those_of_two_thousand_of_them():
    rng = np.random.default_rng(0)
    inputs, own = rng.normal(size=(6000, 3, 12)), 1.0 + 0.5 * rng.normal(size=(6000, 3))
    target = np.einsum("lkn,lk->ln", inputs, own) + rng.normal(size=(6000, 12))
    moments = RowMoments.of(inputs, target, np.full(6000, 12.0))._replace(n_levels=np.zeros(6000))
    for labels in (np.zeros(6000, dtype=int), np.arange(6000) // 5):
        np.testing.assert_allclose(estimate(moments, labels), 0.25, rtol=0.2)
    found = solve(moments, labels, np.full(3, 0.25))
    few = RowMoments(*(column[:10] for column in moments))
    alike = solve(few, labels[:10], np.full(3, 0.25))
    np.testing.assert_allclose(found.own[:10], alike.own, rtol=1e-9)


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_do_not_know_where_inputs_begin_and_what_their_unit_is(seed, head):
    rows = drawn(seed, n_tasks=8, n_inputs=4)
    rng = np.random.default_rng(seed)
    scale, shift = (
        10.0 ** rng.uniform(-4.0, 4.0, 4),
        rng.normal(size=4) * 10.0 ** rng.uniform(0, 5, 4),
    )
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=3.0), head=head)
    ids = rows.index
    plain = model.fit(rows.inputs, rows.target, tasks=ids).predict(rows.inputs, tasks=ids)
    other = rows.inputs * scale + shift * scale
    moved = model.fit(other, rows.target, tasks=ids).predict(other, tasks=ids)
    np.testing.assert_allclose(moved, plain, rtol=1e-6, atol=1e-6)


def test_intercepts_and_slopes_are_shrunk_together():
    # A level far from the origin of an input is a slope's business as much as an intercept's:
    # predictions are those of the joint model, not of offsets first and slopes after.
    rows = drawn(7, n_tasks=30, slopes=1.0)
    fitted = PooledCTFARegressor(targets=TargetAggregator(max_loss=np.inf), head="levels")
    fitted.fit(rows.inputs, rows.target, tasks=rows.index)
    model, labels = MixedRows.of(rows), np.zeros(30, dtype=int)
    variance = estimate(model.moments, labels)
    common, own, _ = dense(rows, model, labels, variance)
    coef = (common[0] + own)[rows.index]
    joint = model.level + np.einsum("ij,ij->i", model.units.columns(rows.inputs), coef)
    np.testing.assert_allclose(fitted.predict(rows.inputs, tasks=rows.index), joint, rtol=1e-7)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=examples(60), deadline=None)
def test_every_answer_is_a_number(seed):
    rng = np.random.default_rng(seed)
    n_tasks, width = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    index = np.repeat(np.arange(n_tasks), rng.integers(1, 8, n_tasks))
    X = rng.integers(0, 2, size=(index.size, width)).astype(float)
    rows = TaskRows(X, rng.integers(0, 3, size=index.size).astype(float), None, index, n_tasks)
    model, labels = MixedRows.of(rows), rng.integers(0, 2, n_tasks)
    labels = np.unique(labels, return_inverse=True)[1]
    variance = estimate(model.moments, labels)
    found = solve(model.moments, labels, variance)
    for number in (variance, *found):
        assert np.isfinite(number).all()
    assert ((found.trust >= 0.0) & (found.trust <= 1.0)).all()


def test_a_constant_column_is_no_direction_wherever_it_lies():
    rows = np.column_stack((np.arange(5.0), np.full(5, 0.1), np.full(5, 1e8)))
    np.testing.assert_array_equal(CommonUnits.of(rows).columns(rows)[:, 2:], 0.0)
