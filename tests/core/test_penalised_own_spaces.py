"""Own inputs and own rows by ridge regression: laws, refits, fewer rows than inputs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_own
from ctfa import testing
from ctfa.core.criteria import cross_validated_risk, target_risk
from ctfa.core.graph import Neighbours
from ctfa.core.ridge import Ridge
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.small_fits import PENALTIES, judge, judge_columns, residual_as_if_left_out
from ctfa.core.spaces.base import CrossValidated
from ctfa.core.spaces.paired import PairedSpace, Penalised
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.spaces.targets import TargetSpace
from generated import examples
from test_core_against_oracle import TIED_FAMILIES, assert_same_decisions, graph_matrix
from test_gappy_paired_space import PATTERNS, own_series, series_of
from test_paired_space import FAMILIES
from test_pooled_space import FAMILIES as ROW_FAMILIES
from test_pooled_space import dummy_rows, own_rows

LIMITS = (0.5, 1.0, 2.0)


def short_series(seed, *, gaps=False, n_tasks=6, n_rows=12, n_inputs=16):
    """Fewer rows than inputs, tasks in two groups of nearly equal slopes."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_inputs, n_rows))
    inputs = common + 0.4 * rng.normal(size=(n_tasks, n_inputs, n_rows))
    slopes = rng.normal(size=(2, n_inputs))[np.arange(n_tasks) % 2]
    targets = np.einsum("lkn,lk->ln", inputs, slopes) + rng.normal(size=(n_tasks, n_rows))
    values = np.concatenate((inputs, targets[:, None]), axis=1)
    if gaps:
        for task in range(n_tasks):
            values[task, rng.integers(0, n_inputs + 1), : rng.integers(0, 4)] = np.nan
    return values


def short_rows(seed, *, n_tasks=6, n_inputs=10):
    """Most tasks have fewer rows than inputs."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(2, n_inputs))[np.arange(n_tasks) % 2]
    inputs = [rng.normal(size=(int(rng.integers(4, 14)), n_inputs)) for _ in range(n_tasks)]
    targets = [x @ slope + rng.normal(size=len(x)) for x, slope in zip(inputs, slopes, strict=True)]
    return inputs, targets


def penalised_pools(*rows, **given):
    return PooledSpace.of(*rows, **given, penalised=True)


def grouped_space(values, groups, weights=None):
    means, counts = [], []
    for group in groups:
        count = (~np.isnan(values[group])).sum(axis=0)
        means.append(np.nansum(values[group], axis=0) / np.where(count, count, np.nan))
        counts.append(count)
    return PairedSpace.of_series(
        series_of(np.array(means), weights),
        Penalised(),
        sizes=np.array([len(group) for group in groups]),
        counts=np.array(counts) if np.isnan(values).any() else None,
    )


def run(values, scan, max_loss, *, graph=None, weights=None):
    history = SCANS[scan](
        PairedSpace.of_series(series_of(values, weights), Penalised()),
        cross_validated_risk,
        max_loss=max_loss,
        order=np.arange(values.shape[0]),
        neighbours=None if graph is None else Neighbours(graph_matrix(graph)),
        tolerance=1e-10,
    )
    expected = oracle_own.penalised_series_groups(
        values, max_loss, scan=scan, weights=weights, neighbours=graph, tolerance=1e-10, tie=1e-9
    )
    history = replace(history, loss=np.maximum(history.loss, -oracle_own.HOPELESS))
    return history, expected, max_loss + 1e-10


def run_pooled(inputs, targets, scan, max_loss, *, graph=None):
    history = SCANS[scan](
        penalised_pools(inputs, targets),
        cross_validated_risk,
        max_loss=max_loss,
        order=np.arange(len(inputs)),
        neighbours=None if graph is None else Neighbours(graph_matrix(graph)),
        tolerance=1e-10,
    )
    expected = oracle_own.penalised_pooled_groups(
        inputs, targets, max_loss, scan=scan, neighbours=graph, tolerance=1e-10, tie=1e-9
    )
    return history, expected, max_loss + 1e-10


def random_graph(rng, n_tasks, density):
    upper = np.triu(rng.uniform(size=(n_tasks, n_tasks)) < density, 1)
    return upper | upper.T


def cross_validated_ridge(X, centred):
    """One ridge regression at a time, each target with the penalty of the smallest error.

    Of those tried, as if each row were left out at the average leverage.
    """
    factored = Ridge.factor(X)
    errors = [
        (factored.with_penalty(np.full(centred.shape[1], p)).cross_validated(centred) ** 2).sum(0)
        for p in PENALTIES
    ]
    return factored.with_penalty(PENALTIES[np.argmin(errors, axis=0)])


# -- Many ridge regressions at once ----------------------------------------------------------------


@given(
    seed=st.integers(0, 2**20),
    n_rows=st.integers(3, 40),
    n_inputs=st.integers(1, 20),
    noise=st.sampled_from([1.0, 1e-2, 1e-5]),
)
@settings(max_examples=examples(60), deadline=None)
def test_many_ridge_fits_are_those_of_one_by_one(seed, n_rows, n_inputs, noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4, n_rows, n_inputs))
    Y = X[:, :, 0] + noise * rng.normal(size=(4, n_rows))
    X -= X.mean(axis=1, keepdims=True)
    Y -= Y.mean(axis=1, keepdims=True)
    columns = np.concatenate((X.swapaxes(1, 2), Y[:, None]), axis=1)
    found = judge(columns, np.full(4, float(n_rows)), 1.0)
    for k in range(4):
        ridge = cross_validated_ridge(X[k], Y[k][:, None])
        left = ridge.cross_validated(Y[k][:, None])
        np.testing.assert_allclose(found.residual[k], (left**2).sum(), rtol=1e-6)
        vector = residual_as_if_left_out(columns[k], float(n_rows))
        np.testing.assert_allclose(vector @ vector, found.residual[k], rtol=1e-6)


def test_rows_that_are_not_used_change_no_fit():
    columns = np.random.default_rng(0).normal(size=(3, 6, 20))
    columns[:, :, 12:] = 0.0
    columns[:, :, :12] -= columns[:, :, :12].mean(axis=2, keepdims=True)
    for solve in (judge, judge_columns):
        whole = solve(columns, np.full(3, 12.0), np.ones(3))
        short = solve(columns[:, :, :12], np.full(3, 12.0), np.ones(3))
        np.testing.assert_allclose(whole.residual, short.residual, rtol=1e-10)
        np.testing.assert_allclose(whole.used, short.used, rtol=1e-9)


# -- Own inputs, averaged --------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("gaps", PATTERNS)
@pytest.mark.parametrize("family", FAMILIES)
def test_penalised_spaces_obey_the_laws(family, gaps):
    values = own_series(family, 1, gaps=gaps, n_tasks=7)
    weights = np.random.default_rng(1).uniform(0.2, 2.0, values.shape[2])
    for w in (None, weights):
        testing.check_space(
            lambda groups, w=w: grouped_space(values, groups, w), 7, seed=1, rtol=1e-6
        )


@pytest.mark.parametrize("gaps", [False, True])
def test_spaces_of_fewer_rows_than_inputs_obey_the_laws(gaps):
    values = short_series(0, gaps=gaps)
    testing.check_space(lambda groups: grouped_space(values, groups), 6, rtol=1e-6)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_on_penalised_spaces(scan, with_graph):
    for seed in range(2):
        values = own_series("correlated", seed, gaps=PATTERNS[seed])
        graph = random_graph(np.random.default_rng(seed), 6, 0.5) if with_graph else None
        testing.check_scan(
            SCANS[scan],
            lambda v=values: PairedSpace.of_series(series_of(v), Penalised()),
            cross_validated_risk,
            max_loss=1.0,
            graph=graph,
        )


def test_the_penalised_risk_vectorizes_and_has_no_unit():
    space = PairedSpace.of_series(series_of(own_series("gaussian", 0)), Penalised())
    testing.check_criterion(cross_validated_risk, space.evidence(0, np.arange(1, 6)), degree=0)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("family", FAMILIES)
def test_penalised_tasks_are_grouped_as_by_refitting(family, scan):
    compared = 0
    for seed, max_loss in enumerate((1.0, 0.5, 2.0, 1.0)):
        values = own_series(family, seed, gaps=PATTERNS[seed], alike=(0.9, 0.5, 0.98, 0.7)[seed])
        compared += assert_same_decisions(*run(values, scan, max_loss))
    assert compared or (family in TIED_FAMILIES and scan in ("best-first", "correlation"))


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("scan", SCANS)
def test_fewer_rows_than_inputs_are_grouped_as_by_refitting(scan, gaps):
    compared = merged = 0
    for seed in range(5):
        history, expected, limit = run(short_series(seed, gaps=gaps), scan, 1.0)
        compared += assert_same_decisions(history, expected, limit)
        merged += len(history)
    assert compared
    assert merged


@given(
    family=st.sampled_from(FAMILIES),
    seed=st.integers(0, 2**20),
    gaps=st.sampled_from(PATTERNS),
    lacking=st.sampled_from([0.0, 0.3]),
    alike=st.floats(0.0, 1.0),
    max_loss=st.sampled_from(LIMITS),
    scan=st.sampled_from(list(SCANS)),
    density=st.sampled_from([None, 0.6]),
    weighted=st.booleans(),
)
@settings(max_examples=examples(80), deadline=None)
def test_any_generated_problem_is_decided_as_by_refitting_ridge(
    family, seed, gaps, lacking, alike, max_loss, scan, density, weighted
):
    values = own_series(family, seed, gaps=gaps, lacking=lacking, alike=alike, n_tasks=5)
    rng = np.random.default_rng(seed)
    graph = None if density is None else random_graph(rng, 5, density)
    weights = None
    if weighted:
        n = values.shape[2]
        weights = rng.uniform(0.2, 2.0, size=n) * (rng.uniform(size=n) < 0.95)
    assert_same_decisions(*run(values, scan, max_loss, graph=graph, weights=weights))


def test_inputs_that_all_tasks_share_give_the_losses_of_one_ridge_fit():
    """Where every fit has the same penalty: of targets that depend strongly on few inputs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    Y = 1e3 * X @ rng.normal(size=(4, 5)) + rng.normal(size=(60, 5))
    space = PairedSpace.of_series(Series.of(X, np.tile(np.arange(4), (5, 1)), Y), Penalised())
    centred = Y - Y.mean(axis=0)
    ridge = cross_validated_ridge(X, centred)
    assert len(set(ridge.penalty)) == 1
    columns = ridge.about_mean(centred), ridge.cross_validated(centred)
    shared = TargetSpace(columns, np.ones(5), CrossValidated(60, 4, ridge.rank))
    others = np.arange(1, 5)
    np.testing.assert_allclose(
        cross_validated_risk(space.evidence(0, others)),
        cross_validated_risk(shared.evidence(0, others)),
        rtol=1e-5,
    )


@pytest.mark.parametrize("gaps", ["none", "scattered"])
def test_copies_merge_first_and_no_loss_is_less(gaps):
    values = own_series("gaussian", 4, gaps=gaps, lacking=0.0)
    values[4] = values[1]
    space = PairedSpace.of_series(series_of(values), Penalised())
    losses = cross_validated_risk(space.evidence(1, np.array([0, 2, 3, 4, 5])))
    assert losses.argmin() == 3
    history = SCANS["best-first"](
        space, cross_validated_risk, max_loss=1.0, order=np.arange(6), tolerance=1e-10
    )
    n_rows = (~np.isnan(values[1]).any(axis=0)).sum()
    assert history.loss[0] == pytest.approx(1.0 - (n_rows - 1))


def test_a_merge_that_raises_the_residual_is_refused_by_every_finite_limit_and_in_order():
    """Averages of inputs that have nothing in common predict neither target."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(4, 1, 200))
    targets = np.array([1.0, -1.0, -1.0, 1.0])[:, None] * inputs[:, 0]
    targets += np.array([0.1, 0.1, 0.7, 0.1])[:, None] * rng.normal(size=(4, 200))
    values = np.concatenate((inputs, targets[:, None]), axis=1)
    space = PairedSpace.of_series(series_of(values), Penalised())
    losses = cross_validated_risk(space.evidence(0, np.arange(1, 4)))
    assert np.isfinite(losses).all()
    assert losses[0] > losses[1] > 1e9  # the better their own inputs, the more is lost
    assert 1.0 < losses[2] < 1e9


def test_tasks_without_inputs_break_even():
    values = np.random.default_rng(0).normal(size=(3, 2, 30))
    values[:, 0] = np.arange(3.0)[:, None]
    space = PairedSpace.of_series(series_of(values), Penalised())
    assert cross_validated_risk(space.evidence(0, np.array([1, 2]))).tolist() == [1.0, 1.0]


def test_units_and_offsets_change_no_penalised_loss():
    values = own_series("correlated", 2, lacking=0.0)
    rng = np.random.default_rng(0)
    units = np.append(rng.uniform(0.01, 100.0, size=values.shape[1] - 1), 3.0)
    changed = values * units[:, None] + rng.normal(scale=10.0, size=(1, values.shape[1], 1))
    others = np.arange(1, 6)
    for question in (
        lambda s: cross_validated_risk(s.evidence(0, others)),
        lambda s: s.correlation(0, others),
    ):
        np.testing.assert_allclose(
            question(PairedSpace.of_series(series_of(changed), Penalised())),
            question(PairedSpace.of_series(series_of(values), Penalised())),
            rtol=1e-6,
        )


def test_blocks_with_two_common_rows_never_merge():
    values = np.random.default_rng(0).normal(size=(3, 3, 20))
    values[0, 0, 11:] = np.nan
    values[1, 1, :9] = np.nan
    space = PairedSpace.of_series(series_of(values), Penalised())
    assert space.allows(0, np.array([1, 2])).tolist() == [False, True]
    assert cross_validated_risk(space.evidence(0, np.array([1])))[0] > 1e100
    for scan in SCANS.values():
        pair = PairedSpace.of_series(series_of(values[:2]), Penalised())
        assert not len(scan(pair, cross_validated_risk, max_loss=np.inf, order=np.arange(2)))


def test_directions_of_complete_series_are_correlations():
    values = own_series("gaussian", 0, gaps="none")
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=values.shape[2])
    space = PairedSpace.of_series(series_of(values, weights), Penalised())
    space.merge(0, 3)
    unit = space.directions(slice(None))
    others = np.array([1, 2, 4, 5])
    np.testing.assert_allclose(unit[others] @ unit[0], space.correlation(0, others), atol=1e-12)


# -- Own rows, shared coefficients -----------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("family", ROW_FAMILIES)
def test_penalised_pools_obey_the_laws(family):
    for rows in (own_rows(family, 0), dummy_rows(0), short_rows(0)):
        inputs, targets = rows
        rng = np.random.default_rng(0)
        weights = [rng.uniform(0.2, 2.0, size=len(y)) for y in targets]
        for w in (None, weights):
            testing.check_space(
                lambda groups, i=inputs, t=targets, w=w: penalised_pools(
                    i, t, groups=groups, row_weights=w
                ),
                len(inputs),
            )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_on_penalised_pools(scan, with_graph):
    for seed, (inputs, targets) in enumerate((own_rows("correlated", 0), short_rows(0))):
        n_tasks = len(inputs)
        graph = random_graph(np.random.default_rng(seed), n_tasks, 0.5) if with_graph else None
        testing.check_scan(
            SCANS[scan],
            lambda i=inputs, t=targets: penalised_pools(i, t),
            cross_validated_risk,
            max_loss=1.0,
            graph=graph,
        )


def test_the_penalised_risk_of_pooling_vectorizes_and_has_no_unit():
    space = penalised_pools(*dummy_rows(0))
    evidence = space.evidence(0, np.arange(1, space.n_variables))
    testing.check_criterion(cross_validated_risk, evidence, degree=0)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("family", ROW_FAMILIES)
def test_pools_are_grouped_as_by_refitting_ridge(family, scan):
    compared = 0
    for seed, max_loss in enumerate(LIMITS):
        compared += assert_same_decisions(*run_pooled(*own_rows(family, seed), scan, max_loss))
    assert compared


@pytest.mark.more
@pytest.mark.parametrize("scan", SCANS)
def test_tasks_of_fewer_rows_than_inputs_are_pooled_as_by_refitting(scan):
    compared = merged = 0
    for seed in range(6):
        history, expected, limit = run_pooled(*short_rows(seed), scan, LIMITS[seed % 3])
        compared += assert_same_decisions(history, expected, limit)
        merged += len(history)
    assert compared
    assert merged


@given(
    family=st.sampled_from([*ROW_FAMILIES, "dummies", "short"]),
    seed=st.integers(0, 2**20),
    max_loss=st.sampled_from(LIMITS),
    scan=st.sampled_from(list(SCANS)),
    density=st.sampled_from([None, 0.6]),
)
@settings(max_examples=examples(60), deadline=None)
def test_any_generated_pool_is_decided_as_by_refitting_ridge(family, seed, max_loss, scan, density):
    special = {"dummies": dummy_rows, "short": short_rows}
    rows = special[family](seed) if family in special else own_rows(family, seed, n_tasks=5)
    n_tasks = len(rows[0])
    rng = np.random.default_rng(seed)
    graph = None if density is None else random_graph(rng, n_tasks, density)
    assert_same_decisions(*run_pooled(*rows, scan, max_loss, graph=graph))


def test_weak_penalties_give_the_losses_of_least_squares_up_to_r_over_n():
    rng = np.random.default_rng(1)
    n_inputs, slopes = 4, rng.normal(size=4)
    worst = []
    for n in (100, 1000, 10000):
        inputs = [rng.normal(size=(n + 10 * task, n_inputs)) for task in range(6)]
        targets = [
            x @ (slopes + 1.5 * rng.normal(size=n_inputs) / np.sqrt(n))
            + 0.1 * rng.normal(size=len(x)) * 10.0
            for x in inputs
        ]
        others = np.arange(1, 6)
        penalised = cross_validated_risk(penalised_pools(inputs, targets).evidence(0, others))
        plain = target_risk(PooledSpace.of(inputs, targets).evidence(0, others))
        worst.append(np.abs((penalised - plain) / (1.0 + np.abs(plain))).max())
    assert worst[0] < 0.5
    assert worst[2] < 0.02
    assert worst[2] < worst[0]


def test_units_and_offsets_change_no_loss_of_penalised_pools():
    rng = np.random.default_rng(0)
    for inputs, targets in (own_rows("correlated", 2), short_rows(1)):
        units = rng.uniform(0.01, 100.0, size=inputs[0].shape[1])
        others = np.arange(1, len(inputs))
        changed = penalised_pools(
            [x * units + rng.normal(scale=10.0) for x in inputs],
            [3.0 * y + rng.normal(scale=10.0) for y in targets],
        )
        space = penalised_pools(inputs, targets)
        for question in (
            lambda s, o=others: cross_validated_risk(s.evidence(0, o)),
            lambda s, o=others: s.correlation(0, o),
        ):
            np.testing.assert_allclose(question(changed), question(space), rtol=1e-6, atol=1e-8)


def test_copies_of_rows_are_pooled_first():
    inputs, targets = own_rows("gaussian", 0)
    inputs[4], targets[4] = inputs[1], targets[1] + 5.0
    history = SCANS["best-first"](
        penalised_pools(inputs, targets),
        cross_validated_risk,
        max_loss=1.0,
        order=np.arange(7),
    )
    assert {int(history.block[0]), int(history.other[0])} == {1, 4}
    assert history.loss[0] < 0.0


def test_a_task_of_one_row_costs_nobody_anything():
    inputs, targets = own_rows("gaussian", 0)
    inputs.append(np.ones((1, inputs[0].shape[1])))
    targets.append(np.array([3.0]))
    space = penalised_pools(inputs, targets)
    losses = cross_validated_risk(space.evidence(7, np.arange(7)))
    np.testing.assert_allclose(losses, 0.0, atol=1e-12)


def test_rows_of_weight_zero_do_not_count():
    inputs, targets = own_rows("gaussian", 0)
    rng = np.random.default_rng(0)
    weights = [(rng.uniform(size=len(y)) < 0.8).astype(float) for y in targets]
    kept = [w > 0.0 for w in weights]
    others = np.arange(1, 7)
    losses = [
        cross_validated_risk(space.evidence(0, others))
        for space in (
            penalised_pools(inputs, targets, row_weights=weights),
            penalised_pools(
                [x[k] for x, k in zip(inputs, kept, strict=True)],
                [y[k] for y, k in zip(targets, kept, strict=True)],
            ),
        )
    ]
    np.testing.assert_allclose(*losses, rtol=1e-9)
