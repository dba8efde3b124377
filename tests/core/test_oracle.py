"""The oracle itself: against scikit-learn, against formulas worked by hand, against known scans."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_score

import oracle
from generated import examples
from problems import (
    FAMILIES,
    RANK_DEFICIENT,
    ill_conditioned,
    make_problem,
    paper_data,
    problems,
)

SCANS = list(oracle.SCANS)
PROBLEM = make_problem("correlated", 0)
WEIGHTS = np.random.default_rng(0).uniform(0.2, 3, size=len(PROBLEM.X))

# Four rows, and three contrasts of squared norm 4, orthogonal to each other and to the intercept.
A = np.array([-1.0, -1.0, 1.0, 1.0])
B = np.array([1.0, -1.0, 1.0, -1.0])
C = np.array([1.0, -1.0, -1.0, 1.0])


# -- Least squares, against scikit-learn -----------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_fit_is_scikit_learns(weights):
    X, y = PROBLEM.X, PROBLEM.y
    fit = oracle.least_squares(X, y, weights)
    model = LinearRegression().fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(fit.predict(X), model.predict(X))
    np.testing.assert_allclose(fit.r2, r2_score(y, model.predict(X), sample_weight=weights))
    np.testing.assert_allclose(fit.explained + fit.residual, fit.total)
    assert fit.rank == X.shape[1]


def test_a_comparison_on_folds_is_cross_val_score():
    X, y = PROBLEM.X, PROBLEM.y
    before = [(i,) for i in range(X.shape[1])]
    after = [(0, 1), *before[2:]]
    expected = [
        cross_val_score(LinearRegression(), oracle.mean_columns(X, blocks), y, cv=KFold(5)).mean()
        for blocks in (before, after)
    ]
    loss = oracle.r2_loss(X, y, before, after, folds=oracle.contiguous_folds(len(y), 5))
    np.testing.assert_allclose(loss, expected[0] - expected[1])


def test_held_out_r2_with_weights_is_scikit_learns():
    X, y = PROBLEM.X, PROBLEM.y
    train, test = oracle.contiguous_folds(len(y), 3)[1]
    model = LinearRegression().fit(X[train], y[train], sample_weight=WEIGHTS[train])
    expected = r2_score(y[test], model.predict(X[test]), sample_weight=WEIGHTS[test])
    np.testing.assert_allclose(oracle.held_out_r2(X, y, train, test, WEIGHTS), expected)


def test_contiguous_folds_are_kfold():
    for ours, theirs in zip(
        oracle.contiguous_folds(23, 5), KFold(5).split(np.ones(23)), strict=True
    ):
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


@pytest.mark.parametrize("family", RANK_DEFICIENT)
def test_minimum_norm_is_that_of_the_original_coefficients(family):
    X, y = make_problem(family, 1).X, make_problem(family, 1).y
    D = X.shape[1]
    blocks = [(0, 2, 3), *((i,) for i in range(D) if i not in (0, 2, 3))]
    # P projects on coefficients equal within blocks: the restricted minimum norm is pinv(X P) y.
    P = np.zeros((D, D))
    for block in blocks:
        P[np.ix_(block, block)] = 1 / len(block)
    Xc = X - X.mean(axis=0)
    coef = np.linalg.pinv(Xc @ P, rcond=1e-12) @ (y - y.mean())
    fit = oracle.least_squares(oracle.model_columns(X, blocks), y)
    new = np.random.default_rng(0).normal(size=X.shape)
    expected = (new - X.mean(axis=0)) @ coef + y.mean()
    np.testing.assert_allclose(fit.predict(oracle.model_columns(new, blocks)), expected, atol=1e-9)


# -- Criteria, by hand -----------------------------------------------------------------------------


def test_target_criteria_worked_by_hand():
    X = A[:, None]  # n = 4, D = 1: n - D - 1 = 2
    y_1, y_2 = 2 * A + B, A + C  # TSS 20 and 8, RSS 4 and 4
    # the mean is 1.5 A + B/2 + C/2: TSS 11, RSS 2
    s2_1, s2_2, s2_mean = 4 / 2, 4 / 2, 2 / 2
    variance_gain = min(s2_1, s2_2) / 3 - s2_mean / 3
    signal_1 = (16 / 20) * (20 / 3 - s2_1)
    signal_2 = (4 / 8) * (8 / 3 - s2_2)
    signal_mean = (9 / 11) * (11 / 3 - s2_mean)
    mse = -(variance_gain + signal_mean - (signal_1 + signal_2) / 2)
    corollary = -(variance_gain + 9 / 3 - (signal_1 + signal_2) / 2)
    np.testing.assert_allclose(oracle.mse_loss(X, y_1, y_2, 1, 1), mse)
    np.testing.assert_allclose(oracle.corollary_loss(X, y_1, y_2, 1, 1), corollary)
    # the difference is A + B - C: F = (4/1) / (8/2) = 1
    np.testing.assert_allclose(oracle.target_risk_loss(X, y_1, y_2, 1, 1), 0, atol=1e-14)
    # against A - C the difference 3 A + ... has F = 36/4 = 9, times (n - r - 2)/(n - 1) = 1/3
    np.testing.assert_allclose(oracle.target_risk_loss(X, y_1, -y_2, 1, 1), 8 / 3)


def test_feature_criteria_worked_by_hand():
    X, y = np.column_stack([A, B]), 2 * A + B + C  # TSS 24, RSS 4 on 4 - 2 - 1 degrees of freedom
    # on the mean of both the common coefficient is 3/2: explained (3/2)^2 8 = 18, RSS 6
    before, after = [(0,), (1,)], [(0, 1)]
    np.testing.assert_allclose(oracle.r2_loss(X, y, before, after), 2 / 24)
    np.testing.assert_allclose(oracle.feature_risk_loss(X, y, before, after), 2 / 4)
    expected = (24 / 3 - 4) * (2 / 24) - 4 / 3
    np.testing.assert_allclose(oracle.feature_mse_loss(X, y, before, after), expected)


@pytest.mark.parametrize("criterion", ["mse", "corollary"])
def test_the_mean_of_targets_is_weighted_by_their_sizes(criterion):
    X, Y = PROBLEM.X, PROBLEM.Y[:, :4]
    options = {"criterion": criterion, "scan": "grow"}
    merged = oracle.phase_one(X, Y, np.inf, **options).decisions[-1]
    assert merged.block == (0, 1, 2)
    means = np.column_stack([Y[:, :3].mean(axis=1), Y[:, 3]])
    rebuilt = oracle.phase_one(X, means, np.inf, sizes=[3, 1], **options).decisions[-1]
    np.testing.assert_allclose(rebuilt.loss, merged.loss)


@pytest.mark.parametrize("criterion", oracle.TARGET_CRITERIA)
def test_only_relative_weights_count_and_rows_of_no_weight_are_absent(criterion):
    X, Y = PROBLEM.X, PROBLEM.Y
    weights = WEIGHTS * (np.arange(len(X)) % 5 > 0)
    used = weights > 0
    options = {"criterion": criterion, "scan": "best-first"}
    full = oracle.phase_one(X, Y, 0.5, weights=weights, **options)
    rest = oracle.phase_one(X[used], Y[used], 0.5, weights=100 * weights[used], **options)
    np.testing.assert_allclose([d.loss for d in full.decisions], [d.loss for d in rest.decisions])


def test_equal_weights_are_no_weights():
    X, y = PROBLEM.X, PROBLEM.y
    for criterion in oracle.FEATURE_CRITERIA:
        options = {"criterion": criterion, "scan": "correlation"}
        plain = oracle.phase_two(X, y, 0.1, **options)
        weighted = oracle.phase_two(X, y, 0.1, weights=np.full(len(y), 7.0), **options)
        np.testing.assert_allclose(
            [d.loss for d in weighted.decisions], [d.loss for d in plain.decisions], atol=1e-13
        )


def test_copies_cost_nothing():
    X, Y = make_problem("duplicated_targets", 3).X, make_problem("duplicated_targets", 3).Y
    copies = [0, Y.shape[1] // 2, Y.shape[1] - 1]
    result = oracle.phase_one(X, Y[:, copies], -0.1, criterion="risk", scan="grow")
    n, r = len(X), X.shape[1]
    assert result.groups == [[0, 1, 2]]
    np.testing.assert_allclose([d.loss for d in result.decisions], -(n - r - 2) / (n - 1))
    X, y = make_problem("duplicated", 3).X, make_problem("duplicated", 3).y
    before = [(i,) for i in range(X.shape[1])]
    after = [(0, X.shape[1] // 2), *(b for b in before if b not in ((0,), (X.shape[1] // 2,)))]
    for loss in (oracle.r2_loss, oracle.feature_risk_loss):
        assert abs(loss(X, y, before, after)) < 1e-10


def test_no_degrees_of_freedom_is_an_error():
    X, Y = PROBLEM.X[:7, :5], PROBLEM.Y[:7]
    with pytest.raises(ValueError, match="n - rank - 2"):
        oracle.phase_one(X, Y, 1.0, criterion="risk", scan="grow")
    with pytest.raises(ValueError, match="degrees of freedom"):
        oracle.phase_one(X[:6], Y[:6], 1.0, criterion="mse", scan="grow")


# -- Scans, on losses made by hand -----------------------------------------------------------------


def distances(places):
    """A loss: how far apart the mean places of two blocks are."""
    places = np.asarray(places, dtype=float)
    return lambda block, other, rest: abs(places[list(block)].mean() - places[list(other)].mean())


def nearness(places):
    loss = distances(places)
    return lambda block, other: -loss(block, other, [])


def test_grow_takes_one_pass_and_restart_looks_again():
    loss = distances([0, 2, 1])  # 1 is too far from 0, but not from the middle of 0 and 2
    assert oracle.grow(3, loss, 1.5).groups == [[0, 2], [1]]
    assert oracle.restart(3, loss, 1.5).groups == [[0, 1, 2]]
    asked = [(d.block, d.other, d.loss, d.accepted) for d in oracle.restart(3, loss, 1.5).decisions]
    assert asked == [((0,), (1,), 2.0, False), ((0,), (2,), 1.0, True), ((0, 2), (1,), 1.5, True)]


def test_restart_asks_the_earlier_refused_again_before_the_later():
    result = oracle.restart(5, distances([0, 5, 1, 5, 9]), 1.5)
    asked = [(d.block, d.other) for d in result.decisions[:5]]
    assert asked == [((0,), (1,)), ((0,), (2,)), ((0, 2), (1,)), ((0, 2), (3,)), ((0, 2), (4,))]


def test_seeds_and_candidates_follow_the_order():
    result = oracle.grow(3, distances([0, 2, 1]), 1.5, order=[2, 1, 0])
    assert [(d.block, d.other) for d in result.decisions] == [((2,), (1,)), ((1, 2), (0,))]
    assert result.groups == [[0, 1, 2]]


def test_best_first_merges_the_nearest_pair_first():
    loss = distances([0, 1, 1.5, 10])
    assert oracle.grow(4, loss, 1.2).groups == [[0, 1, 2], [3]]
    result = oracle.best_first(4, loss, 1.2)
    assert result.groups == [[0], [1, 2], [3]]
    assert result.decisions == [((1,), (2,), 0.5, True), ((0,), (1, 2), 1.25, False)]
    assert result.margin(1.2) == pytest.approx(0.05)
    assert result.order_gap == pytest.approx(0.5)


def test_ties_go_to_the_smallest_indices():
    result = oracle.best_first(4, distances([5, 0, 6, 1]), 1.0)
    assert result.decisions[0][:2] == ((0,), (2,))
    assert result.order_gap == 0
    nearly = distances([5, 0, 6 + 1e-12, 1])
    assert oracle.best_first(4, nearly, 1.1).decisions[0][:2] == ((1,), (3,))
    assert oracle.best_first(4, nearly, 1.1, tie=1e-9).decisions[0][:2] == ((0,), (2,))


def test_correlation_asks_a_refused_pair_again_only_when_a_block_changed():
    correlations = {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.1, (0, 3): 0.0, (1, 3): 0.0, (2, 3): -1.0}

    def strongest(block, other):
        return max(correlations[min(i, j), max(i, j)] for i in block for j in other)

    def loss(block, other, rest):
        return 0.0 if 2 in block + other and 3 not in block + other else 1.0

    result = oracle.correlation(4, loss, 0.5, correlation=strongest)
    assert [(d.block, d.other, d.accepted) for d in result.decisions] == [
        ((0,), (1,), False),
        ((0,), (2,), True),
        ((0, 2), (1,), True),
        ((0, 1, 2), (3,), False),
    ]


def test_a_scan_is_told_every_other_block():
    def loss(block, other, rest):
        members = [i for b in [block, other, *rest] for i in b]
        assert sorted(members) == list(range(5))
        return distances([0, 1, 5, 6, 2])(block, other, rest)

    for scan in oracle.SCANS.values():
        assert scan(5, loss, 1.6, correlation=nearness([0, 1, 5, 6, 2])).groups == [
            [0, 1, 4],
            [2, 3],
        ]


@pytest.mark.parametrize("scan", SCANS)
def test_an_infinite_max_loss_gives_one_group_per_component_and_minus_infinity_none(scan):
    places = np.random.default_rng(1).normal(size=7)
    options = {"correlation": nearness(places)}
    run = oracle.SCANS[scan]
    assert run(7, distances(places), np.inf, **options).groups == [list(range(7))]
    assert run(7, distances(places), -np.inf, **options).groups == [[i] for i in range(7)]
    chains = {(0, 5), (2, 5), (2, 3), (1, 6)}  # 0-5-2-3, 1-6, 4
    adjacency = np.zeros((7, 7), dtype=bool)
    for i, j in chains:
        adjacency[j, i] = True
    for neighbours in (chains, adjacency):
        result = run(7, distances(places), np.inf, neighbours=neighbours, **options)
        assert result.groups == [[0, 2, 3, 5], [1, 6], [4]]
        assert result.labels.tolist() == [0, 1, 0, 0, 2, 0, 1]


@pytest.mark.parametrize("scan", SCANS)
def test_pairs_below_the_least_correlation_are_never_asked(scan):
    places = [0.0, 0.1, 0.5, 0.6]
    options = {"correlation": nearness(places), "min_correlation": -0.2}
    result = oracle.SCANS[scan](4, distances(places), np.inf, **options)
    assert result.groups == [[0, 1], [2, 3]]
    assert sorted(d[:2] for d in result.decisions) == [((0,), (1,)), ((2,), (3,))]


@pytest.mark.parametrize("scan", SCANS)
def test_the_tolerance_accepts_what_rounding_refuses(scan):
    options = {"correlation": nearness([0, 1])}
    assert len(oracle.SCANS[scan](2, distances([0, 1]), 1 - 1e-12, **options).groups) == 2
    options["tolerance"] = 1e-10
    assert len(oracle.SCANS[scan](2, distances([0, 1]), 1 - 1e-12, **options).groups) == 1


def test_the_correlation_of_a_constant_mean_is_zero():
    X = make_problem("one_hot", 0).X
    correlation = oracle.correlation_of_means(X, None, None)
    assert correlation((0, 1, 2), (3,)) == 0
    np.testing.assert_allclose(correlation((0,), (1, 2)), -1)
    expected = np.corrcoef(X[:, 0], X[:, 3])[0, 1]
    np.testing.assert_allclose(correlation((0,), (3,)), expected)


# -- The phases and the whole method ---------------------------------------------------------------


@pytest.mark.more
@settings(max_examples=examples(40), deadline=None)
@given(problems())
def test_every_criterion_and_scan_runs_on_every_problem(problem):
    X, Y, y = problem.X, problem.Y, problem.y
    for scan in SCANS:
        for criterion in oracle.TARGET_CRITERIA:
            result = oracle.phase_one(X, Y, 0.1, criterion=criterion, scan=scan)
            assert sorted(i for group in result.groups for i in group) == list(range(Y.shape[1]))
            assert all(d.accepted == (d.loss <= 0.1) for d in result.decisions)
        for criterion in oracle.FEATURE_CRITERIA:
            result = oracle.phase_two(X, y, 0.1, criterion=criterion, scan=scan)
            assert len(set(result.labels)) == len(result.groups)


@pytest.mark.more
@pytest.mark.parametrize("family", FAMILIES)
def test_families_have_both_merges_and_refusals(family):
    phase_one, phase_two = set(), set()
    for seed in range(6):
        problem = make_problem(family, seed)
        result = oracle.phase_one(problem.X, problem.Y, 0.0, criterion="mse", scan="grow")
        phase_one |= {d.accepted for d in result.decisions}
        folds = oracle.contiguous_folds(len(problem.y), 5)
        result = oracle.phase_two(
            problem.X, problem.y, 1e-3, criterion="r2", scan="grow", folds=folds
        )
        phase_two |= {d.accepted for d in result.decisions}
    assert phase_one == phase_two == {False, True}


def test_rank_deficient_families_are_and_the_others_are_not():
    for family in FAMILIES:
        problem = make_problem(family, 0)
        fit = oracle.least_squares(problem.X, problem.y)
        assert (fit.rank < problem.X.shape[1]) == (family in RANK_DEFICIENT), family


@pytest.mark.parametrize("condition", [1e3, 1e6, 1e9])
def test_ill_conditioned_inputs_have_the_condition_asked_for(condition):
    X = ill_conditioned(condition, 0).X
    np.testing.assert_allclose(np.linalg.cond(X - X.mean(axis=0)), condition, rtol=1e-4)


def test_min_correlation_keeps_dissimilar_features_apart():
    X = np.column_stack([A, A + 0.1 * B, -A + 0.1 * C])
    result = oracle.phase_two(
        np.vstack([X] * 4),
        np.random.default_rng(0).normal(size=16),
        np.inf,
        criterion="risk",
        scan="grow",
        min_correlation=0.2,
    )
    assert result.groups == [[0, 1], [2]]
    assert [(d.block, d.other) for d in result.decisions] == [((0,), (1,))]


@pytest.mark.parametrize("algorithm", [oracle.authors, oracle.printed])
def test_the_method_finds_the_two_groups_of_the_papers_data(algorithm):
    problem = paper_data(n=80, D=8, L=6, noise=2.0, seed=1)
    model = algorithm(problem.X, problem.Y, 0.0, 1e-3)
    signs = np.sign([np.corrcoef(y, problem.X.sum(axis=1))[0, 1] for y in problem.Y.T])
    assert len(model.target_groups) == 2
    assert all(len(set(signs[group])) == 1 for group in model.target_groups)
    assert all(1 <= len(groups) < 8 for groups in model.feature_groups)
    # each target is predicted by the regression of its group's mean on the reduced features
    group, reduced = model.target_groups[1], model.feature_groups[1]
    columns = np.column_stack([problem.X[:, features].mean(axis=1) for features in reduced])
    target = problem.Y[:, group].mean(axis=1)
    expected = LinearRegression().fit(columns, target).predict(columns)
    predicted = model.predict(problem.X)
    assert predicted.shape == problem.Y.shape
    for member in group:
        np.testing.assert_allclose(predicted[:, member], expected)


def test_epsilon_1_has_the_sign_of_the_papers_tables():
    problem = paper_data(n=60, D=4, L=5, noise=2.0, seed=0)
    assert len(oracle.authors(problem.X, problem.Y, 1e6, 0.0).target_groups) == 5
    assert len(oracle.authors(problem.X, problem.Y, -1e6, 0.0).target_groups) == 1
