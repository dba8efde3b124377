"""Targets with missing values: every answer is that of a refit on the rows both groups have."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import problems
from ctfa import testing
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.graph import ORDERS
from ctfa.core.scans import SCANS
from ctfa.core.spaces import gappy
from ctfa.core.spaces.gappy import GappyTargetSpace, RowSubsets
from ctfa.core.spaces.targets import TargetSpace
from gap_problems import (
    GAPS,
    common,
    group_series,
    random_weights,
    refit_correlation,
    refit_loss,
    with_gaps,
)
from generated import examples

RISK = TARGET_CRITERIA["risk"]
TIE = 1e-8


def space_of(X, Y, weights=None, groups=None):
    row_scale = None if weights is None else np.sqrt(weights)
    if groups is None:
        return GappyTargetSpace.of(X, Y, row_scale=row_scale)
    return GappyTargetSpace.of(
        X,
        np.column_stack([group_series(Y, group) for group in groups]),
        row_scale=row_scale,
        counts=np.column_stack([(~np.isnan(Y[:, group])).sum(axis=1) for group in groups]),
        sizes=np.array([len(group) for group in groups]),
    )


def assert_answers_are_refits(space, X, Y, blocks, weights=None, rtol=1e-7):
    """Compare the fits of everybody against everybody, where there are enough rows."""
    slots = np.array(sorted(blocks))
    loss, correlation = refit_loss(X, Y, weights), refit_correlation(Y, weights)
    for slot in slots.tolist():
        others = slots[slots != slot]
        evidence = space.evidence(slot, others)
        losses, correlations = RISK(evidence), space.correlation(slot, others)
        for k, other in enumerate(others.tolist()):
            pair = blocks[slot], blocks[other]
            np.testing.assert_allclose(losses[k], loss(*pair), rtol=rtol, atol=rtol)
            np.testing.assert_allclose(correlations[k], correlation(*pair), atol=1e-9)
            if losses[k] == np.inf:
                continue
            rows, first, second = common(Y, *pair)
            kept = None if weights is None else weights[rows]
            a, b = len(pair[0]), len(pair[1])
            series = (first, second, (a * first + b * second) / (a + b), first - second)
            fits = (*evidence.before, evidence.after, evidence.difference)
            scale = rtol * sum(oracle.least_squares(X[rows], y, kept).total for y in series[:2])
            for found, y in zip(fits, series, strict=True):
                expected = oracle.least_squares(X[rows], y, kept)
                for name in ("explained", "residual"):
                    np.testing.assert_allclose(
                        getattr(found, name)[k], getattr(expected, name), rtol=rtol, atol=scale
                    )
                assert found.n_samples[k] == rows.size
                assert found.rank[k] == expected.rank
                assert found.dof[k] == rows.size - expected.rank - 1


# -- Answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_every_answer_is_a_refit_on_the_common_rows(family, kind, monkeypatch):
    seed = len(kind)
    problem = problems.make_problem(family, seed)
    X, Y = with_gaps(problem, kind)
    weights = random_weights(len(X)) if seed % 2 else None
    space = space_of(X, Y, weights)
    blocks = {k: (k,) for k in range(Y.shape[1])}
    rng = np.random.default_rng(seed)
    # Directions that differ by a millionth: a refit itself has lost the other digits.
    rtol = 1e-5 if family == "nearly_collinear" else 1e-7
    # All are solved in a batch, some share a factorization, all do, and what was kept is stale.
    for shared in (10**9, 4, 1, 1):
        monkeypatch.setattr(gappy, "SHARED", shared)
        assert_answers_are_refits(space, X, Y, blocks, weights, rtol)
        block, other = rng.choice(sorted(blocks), size=2, replace=False).tolist()
        space.merge(block, other)
        blocks[block] += blocks.pop(other)


@pytest.mark.more
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_without_gaps_it_is_the_space_of_complete_targets(family):
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        weights = random_weights(len(problem.X), seed) if seed else None
        design = Design.of(problem.X, weights)
        complete = TargetSpace.of(design, design.centre(problem.Y))
        gapless = space_of(problem.X, problem.Y, weights)
        assert gapless.total_variance == pytest.approx(complete.total_variance)
        np.testing.assert_allclose(
            gapless.mean_correlation(), complete.mean_correlation(), rtol=1e-9, atol=1e-12
        )
        everyone = np.arange(problem.Y.shape[1])
        for _ in range(3):
            for slot in everyone.tolist():
                others = everyone[everyone != slot]
                one, two = complete.evidence(slot, others), gapless.evidence(slot, others)
                np.testing.assert_allclose(RISK(one), RISK(two), rtol=1e-8, atol=1e-10)
                np.testing.assert_allclose(one.f_star, two.f_star)
                for x, y in zip(
                    (*one.before, one.after, one.difference),
                    (*two.before, two.after, two.difference),
                    strict=True,
                ):
                    scale = 1e-10 * float(np.max(x.total))
                    for name in ("explained", "residual"):
                        both = np.broadcast_arrays(getattr(x, name), getattr(y, name))
                        np.testing.assert_allclose(*both, rtol=1e-8, atol=scale)
                    assert np.all(x.dof == y.dof)
                    assert np.all(x.size == y.size)
            complete.merge(int(everyone[0]), int(everyone[1]))
            gapless.merge(int(everyone[0]), int(everyone[1]))
            everyone = np.delete(everyone, 1)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("family", [f for f in problems.FAMILIES if f != "tight"])
def test_without_gaps_the_decisions_are_those_of_complete_targets(family, scan):
    problem = problems.make_problem(family, 1)
    design = Design.of(problem.X)
    options = {"max_loss": 1.0, "order": np.arange(problem.Y.shape[1]), "tolerance": 1e-10}
    space = TargetSpace.of(design, design.centre(problem.Y))
    complete = SCANS[scan](space, RISK, **options)
    gapless = SCANS[scan](space_of(problem.X, problem.Y), RISK, **options)
    assert gapless.partition() == complete.partition()
    if family != "duplicated_targets":  # ties, where rounding may have a block look again
        assert gapless.n_comparisons == complete.n_comparisons
    np.testing.assert_allclose(gapless.loss, complete.loss, rtol=1e-8, atol=1e-10)


# -- Laws ------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("family", ["gaussian", "correlated", "offset", "one_hot", "constant"])
def test_spaces_with_gaps_obey_the_laws(family, kind):
    for seed in range(3):
        X, Y = with_gaps(problems.make_problem(family, seed), kind, seed)
        weights = random_weights(len(X), seed) if seed else None
        testing.check_space(
            lambda groups, X=X, Y=Y, w=weights: space_of(X, Y, w, groups), Y.shape[1], seed=seed
        )


@pytest.mark.parametrize("kind", GAPS)
def test_the_risk_vectorizes_where_every_candidate_has_its_own_rows(kind):
    X, Y = with_gaps(problems.make_problem("gaussian", 0), kind)
    evidence = space_of(X, Y).evidence(0, np.arange(1, Y.shape[1]))
    testing.check_criterion(RISK, evidence, degree=0)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_with_gaps(scan, with_graph):
    for seed, kind in enumerate(GAPS):
        X, Y = with_gaps(problems.make_problem("correlated", seed), kind, seed)
        n_targets = Y.shape[1]
        upper = np.triu(np.random.default_rng(seed).uniform(size=(n_targets, n_targets)) < 0.3, 1)
        graph = (upper | upper.T) if with_graph else None
        testing.check_scan(
            SCANS[scan], lambda X=X, Y=Y: space_of(X, Y), RISK, max_loss=0.5, graph=graph
        )


def test_merges_give_the_mean_of_all_observed_members_in_any_order():
    X, Y = with_gaps(problems.make_problem("gaussian", 4, n_targets=6), "at_random")
    one, two = space_of(X, Y), space_of(X, Y)
    for block, other in ((0, 1), (2, 3), (0, 2)):
        one.merge(block, other)
    for block, other in ((0, 3), (0, 2), (0, 1)):
        two.merge(block, other)
    others = np.array([4, 5])
    np.testing.assert_allclose(RISK(one.evidence(0, others)), RISK(two.evidence(0, others)))


def test_a_copy_of_the_space_goes_its_own_way():
    X, Y = with_gaps(problems.make_problem("gaussian", 2), "in_blocks")
    space = space_of(X, Y)
    others = np.arange(2, Y.shape[1])
    before = RISK(space.evidence(0, others))
    copy.deepcopy(space).merge(0, 1)
    np.testing.assert_array_equal(RISK(space.evidence(0, others)), before)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_are_permutations_with_gaps(order):
    X, Y = with_gaps(problems.make_problem("gaussian", 2), "apart")
    found = ORDERS[order](space_of(X, Y), np.random.default_rng(0))
    assert sorted(found) == list(range(Y.shape[1]))


# -- Decisions -------------------------------------------------------------------------------------


def decided_as_by_refitting(X, Y, scan, max_loss, weights=None, tie=TIE):
    """Run both; say whether they could be compared, which is not so where rounding decides."""
    history = SCANS[scan](
        space_of(X, Y, weights),
        RISK,
        max_loss=max_loss,
        order=np.arange(Y.shape[1]),
        tolerance=1e-10,
    )
    expected = oracle.SCANS[scan](
        Y.shape[1],
        refit_loss(X, Y, weights),
        max_loss,
        correlation=refit_correlation(Y, weights),
        tolerance=1e-10,
        tie=1e-9,
    )
    if expected.margin(max_loss) < tie or expected.order_gap < tie:
        return False
    assert history.partition().labels.tolist() == list(expected.labels)
    accepted = [decision.loss for decision in expected.decisions if decision.accepted]
    np.testing.assert_allclose(history.loss, accepted, rtol=1e-5, atol=1e-5)
    return True


@pytest.mark.more
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("kind", GAPS)
def test_targets_with_gaps_are_grouped_as_by_refitting(kind, scan):
    compared = 0
    for seed, family in enumerate(problems.FAMILIES):
        X, Y = with_gaps(problems.make_problem(family, seed), kind, seed)
        weights = random_weights(len(X), seed) if seed % 2 else None
        max_loss = (0.5, 1.5)[seed % 2]
        compared += decided_as_by_refitting(X, Y, scan, max_loss, weights)
    assert compared >= 9  # copies tie


@given(
    problem=problems.problems(),
    kind=st.sampled_from(list(GAPS)),
    scan=st.sampled_from(list(SCANS)),
    max_loss=st.sampled_from([0.0, 1.0, 3.0]),
    seed=st.integers(0, 99),
    weighted=st.booleans(),
)
@settings(max_examples=examples(200), deadline=None)
def test_any_generated_gaps_are_decided_as_by_refitting(
    problem, kind, scan, max_loss, seed, weighted
):
    n, L = problem.Y.shape
    Y = np.where(GAPS[kind](np.random.default_rng(seed), n, max(L, 3))[:, :L], problem.Y, np.nan)
    weights = random_weights(n, seed) if weighted else None
    decided_as_by_refitting(problem.X, Y, scan, max_loss, weights)


def test_what_is_kept_for_later_may_be_dropped_at_any_time(monkeypatch):
    monkeypatch.setattr(gappy, "KEPT_BYTES", 1)
    for scan in SCANS:
        X, Y = with_gaps(problems.make_problem("correlated", 5), "in_blocks")
        assert decided_as_by_refitting(X, Y, scan, 1.0)


@pytest.mark.parametrize("scan", SCANS)
def test_two_with_too_few_common_rows_never_merge_below_an_infinite_limit(scan):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4))
    Y = np.repeat(X[:, :1], 2, axis=1) + 0.1 * rng.normal(size=(40, 2))
    for shared_rows in (0, 1, 2, 5, 6):  # n <= rank + 2
        gaps = Y.copy()
        gaps[20 + shared_rows :, 0] = gaps[:20, 1] = np.nan
        run = {"order": np.arange(2)}
        assert len(SCANS[scan](space_of(X, gaps), RISK, max_loss=1e300, **run)) == 0
        assert len(SCANS[scan](space_of(X, gaps), RISK, max_loss=np.inf, **run)) == 1


def test_two_that_never_meet_may_join_through_a_third():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = X[:, :1] + rng.normal(size=(60, 3))
    Y[30:, 0] = Y[:30, 1] = np.nan
    history = SCANS["best-first"](space_of(X, Y), RISK, max_loss=3.0, order=np.arange(3))
    assert history.partition().n_groups == 1


def test_targets_without_any_row_or_with_a_constant_stay_numbers():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 3)), rng.normal(size=(30, 6))
    Y[:, 0] = np.nan
    Y[:, 1] = 0.1
    Y[:, 3] = Y[:, 2]
    Y[1:, 4] = np.nan
    space = space_of(X, Y)
    assert np.isfinite(space.total_variance)
    assert np.isfinite(space.mean_correlation()).all()
    for slot in range(6):
        others = np.delete(np.arange(6), slot)
        evidence = space.evidence(slot, others)
        assert not np.isnan(RISK(evidence)).any()
        for fit in (*evidence.before, evidence.after, evidence.difference):
            assert np.isfinite(fit.explained).all()
            assert np.isfinite(fit.residual).all()
            assert np.isfinite(fit.noise_variance).all()
    copies = float(RISK(space.evidence(2, np.array([3])))[0])
    assert copies == pytest.approx(-(30 - 3 - 2) / 29)


# -- Numbers ---------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("power", [3, 5, 6, 8])
def test_decisions_with_gaps_hold_where_inputs_are_ill_conditioned(power):
    compared = 0
    for seed in range(4):
        problem = problems.ill_conditioned(10.0**power, seed)
        for kind in ("at_random", "in_blocks"):
            X, Y = with_gaps(problem, kind, seed)
            for scan in SCANS:
                compared += decided_as_by_refitting(X, Y, scan, 1.5, tie=1e-5)
    assert compared >= 24


@pytest.mark.parametrize("closeness", [1e-2, 1e-4, 1e-6, 0.0])
def test_inputs_may_be_collinear_on_the_common_rows_alone(closeness):
    rng = np.random.default_rng(0)
    n = 60
    X = rng.normal(size=(n, 5))
    X[:40, 1] = X[:40, 0] + closeness * rng.normal(size=40)
    X[:40, 2] = 0.1 if closeness == 0.0 else X[:40, 2]
    Y = X[:, :2].sum(axis=1, keepdims=True) + rng.normal(size=(n, 6))
    Y[40:, [0, 3, 4, 5]] = np.nan
    Y[rng.uniform(size=Y.shape) < 0.1] = np.nan
    blocks = {k: (k,) for k in range(6)}
    assert_answers_are_refits(space_of(X, Y), X, Y, blocks, rtol=1e-6)


@pytest.mark.parametrize(("noise", "rtol"), [(1e-7, 1e-6), (1e-12, 1e-2)])
def test_a_nearly_perfect_fit_keeps_its_residual(noise, rtol):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    Y = X @ rng.normal(size=(4, 5)) + noise * rng.normal(size=(50, 5))
    Y[rng.uniform(size=Y.shape) < 0.1] = np.nan
    evidence = space_of(X, Y).evidence(0, np.arange(1, 5))
    for k in range(1, 5):
        rows, first, second = common(Y, (0,), (k,))
        expected = oracle.least_squares(X[rows], first - second)
        np.testing.assert_allclose(
            evidence.difference.residual[k - 1], expected.residual, rtol=rtol
        )


def test_offsets_of_targets_do_not_matter():
    """Each target's own offset would, but the caller has taken it out; a common one must not."""
    X, Y = with_gaps(problems.make_problem("gaussian", 3), "at_random")
    others = np.arange(1, Y.shape[1])
    near, far = space_of(X, Y), space_of(X, Y + 1e6)
    for space in (near, far):
        space.merge(0, 1)
    np.testing.assert_allclose(
        RISK(near.evidence(0, others[1:])), RISK(far.evidence(0, others[1:])), rtol=1e-7
    )


def test_subsets_are_solved_in_batches_of_any_size(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(40, 3)), np.arange(40) < 3])
    series, kept = rng.normal(size=(30, 40)), rng.uniform(size=(30, 40)) < 0.6
    kept[:5, :3] = False  # the last column is constant there
    kept[5:8, 2:] = False
    inputs = RowSubsets(X)
    whole = inputs.squares(series, kept)
    monkeypatch.setattr("ctfa.core.spaces.gappy.BATCH", 1)
    for one, other in zip(whole, inputs.squares(series, kept), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    for k in np.flatnonzero(kept.sum(axis=1) > 2):
        expected = oracle.least_squares(X[kept[k]], series[k, kept[k]])
        (explained, residual), (_, rank) = (part[:, k] for part in whole)
        assert rank == expected.rank
        np.testing.assert_allclose(explained, expected.explained, rtol=1e-10)
        np.testing.assert_allclose(residual, expected.residual, rtol=1e-10, atol=1e-25)
