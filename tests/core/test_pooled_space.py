"""Tasks with their own rows: the laws, the decisions of refits, and where pooling breaks even."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle_own
import problems
from ctfa import testing
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.graph import Neighbours
from ctfa.core.members import gain
from ctfa.core.scans import SCANS
from ctfa.core.spaces.pooled import Pool, PooledSpace, break_even
from generated import examples
from test_core_against_oracle import assert_same_decisions, graph_matrix

FAMILIES = [family for family in problems.FAMILIES if family not in ("tight", "duplicated_targets")]
RISK = TARGET_CRITERIA["risk"]


def own_rows(family, seed, *, n_tasks=7):
    """Tasks of unequal length, in three groups of nearly equal slopes."""
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    D = int(rng.integers(4, 8))
    noise = 10 ** rng.uniform(-0.5, 0.5)
    slopes = rng.normal(size=(3, D))[rng.integers(0, 3, size=n_tasks)]
    slopes = slopes + 0.2 * rng.normal(size=slopes.shape)
    inputs, targets = [], []
    for task in range(n_tasks):
        n = int(rng.integers(D + 5, 40))
        X = problems.INPUTS[family](rng, n, D)
        spread = X.std(axis=0)
        centred = (X - X.mean(axis=0)) / np.where(
            spread > 1e-9 * np.abs(X).max(axis=0), spread, np.inf
        )
        inputs.append(X + rng.normal() * (family != "offset"))
        targets.append(centred @ slopes[task] / np.sqrt(D) + noise * rng.normal(size=n) + task)
    return inputs, targets


def dummy_rows(seed, n_tasks=6):
    """Dummy variables of which each task knows some: ranks differ from task to task."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(2, 8))[rng.integers(0, 2, size=n_tasks)]
    inputs, targets = [], []
    for task in range(n_tasks):
        n = int(rng.integers(18, 40))
        known = rng.choice(5, size=int(rng.integers(2, 5)), replace=False)
        dummies = np.eye(5)[rng.choice(known, size=n)]
        X = np.hstack([dummies, rng.normal(size=(n, 3))])
        if task % 2:
            X[:, 6] = 0.3
        inputs.append(X)
        targets.append(X @ slopes[task] + rng.normal(size=n))
    return inputs, targets


def run(inputs, targets, scan, max_loss, *, graph=None):
    history = SCANS[scan](
        PooledSpace.of(inputs, targets),
        RISK,
        max_loss=max_loss,
        order=np.arange(len(inputs)),
        neighbours=None if graph is None else Neighbours(graph_matrix(graph)),
        tolerance=1e-10,
    )
    expected = oracle_own.pooled_groups(
        inputs, targets, max_loss, scan=scan, neighbours=graph, tolerance=1e-10, tie=1e-9
    )
    return history, expected, max_loss + 1e-10


@pytest.mark.parametrize("family", FAMILIES)
def test_pooled_spaces_obey_the_laws(family):
    for seed in range(3):
        inputs, targets = own_rows(family, seed)
        testing.check_space(
            lambda groups, inputs=inputs, targets=targets: PooledSpace.of(
                inputs, targets, groups=groups
            ),
            len(inputs),
            seed=seed,
        )


def test_pooled_spaces_obey_the_laws_where_ranks_differ():
    for seed in range(5):
        inputs, targets = dummy_rows(seed)
        testing.check_space(
            lambda groups, inputs=inputs, targets=targets: PooledSpace.of(
                inputs, targets, groups=groups
            ),
            len(inputs),
            seed=seed,
        )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_on_own_rows(scan, with_graph):
    for seed in range(3):
        inputs, targets = own_rows("correlated", seed)
        upper = np.triu(np.random.default_rng(seed).uniform(size=(7, 7)) < 0.4, 1)
        testing.check_scan(
            SCANS[scan],
            lambda inputs=inputs, targets=targets: PooledSpace.of(inputs, targets),
            RISK,
            max_loss=0.5,
            graph=(upper | upper.T) if with_graph else None,
        )


def test_the_risk_of_pooling_vectorizes_and_has_no_unit():
    space = PooledSpace.of(*dummy_rows(0))
    evidence = space.evidence(0, np.arange(1, space.n_variables))
    testing.check_criterion(RISK, evidence, degree=0)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("max_loss", [0.5, 1.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_own_rows_are_grouped_as_by_refitting(family, max_loss, scan):
    compared = 0
    for seed in range(4):
        compared += assert_same_decisions(*run(*own_rows(family, seed), scan, max_loss))
    assert compared


@pytest.mark.parametrize("scan", ["grow", "restart", "best-first"])
@pytest.mark.parametrize("max_loss", [0.5, 1.5])
def test_tasks_of_different_rank_are_grouped_as_by_refitting(max_loss, scan):
    compared = 0
    for seed in range(8):
        compared += assert_same_decisions(*run(*dummy_rows(seed), scan, max_loss))
    assert compared > 4


@given(
    family=st.sampled_from(FAMILIES),
    seed=st.integers(0, 2**20),
    max_loss=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    scan=st.sampled_from(list(SCANS)),
    density=st.sampled_from([None, 0.3, 0.6]),
)
@settings(max_examples=examples(80), deadline=None)
def test_any_generated_problem_of_own_rows_is_decided_as_by_refitting(
    family, seed, max_loss, scan, density
):
    inputs, targets = own_rows(family, seed, n_tasks=5)
    graph = None
    if density is not None:
        upper = np.triu(np.random.default_rng(seed).uniform(size=(5, 5)) < density, 1)
        graph = upper | upper.T
    assert_same_decisions(*run(inputs, targets, scan, max_loss, graph=graph))


def test_units_and_offsets_of_inputs_and_tasks_change_no_loss():
    inputs, targets = own_rows("correlated", 2)
    rng = np.random.default_rng(0)
    units = rng.uniform(0.01, 100.0, size=inputs[0].shape[1])
    others = np.arange(1, len(inputs))
    changed = PooledSpace.of(
        [x * units + rng.normal(scale=10.0) for x in inputs],
        [3.0 * y + rng.normal(scale=10.0) for y in targets],
    )
    space = PooledSpace.of(inputs, targets)
    for question in (lambda s: RISK(s.evidence(0, others)), lambda s: s.correlation(0, others)):
        np.testing.assert_allclose(question(changed), question(space), rtol=1e-7)


def test_correlation_is_that_of_predictions_over_all_rows():
    inputs, targets = own_rows("gaussian", 3)
    space = PooledSpace.of(inputs, targets)
    space.merge(0, 2)
    expected = oracle_own.pooled_correlation(inputs, targets)
    np.testing.assert_allclose(
        space.correlation(0, np.array([1, 3])), [expected((0, 2), (1,)), expected((0, 2), (3,))]
    )
    singles = PooledSpace.of(inputs, targets)
    matrix = [[expected((i,), (j,)) for j in range(7)] for i in range(7)]
    np.testing.assert_allclose(singles.mean_correlation(), np.mean(matrix, axis=1))


# -- Where a task has too few rows -----------------------------------------------------------------


def test_a_task_without_degrees_of_freedom_joins_the_group_from_which_it_differs_least():
    rng = np.random.default_rng(1)
    slopes = 3.0 * rng.normal(size=(2, 6))
    tasks = [(60, 0), (60, 1), (6, 1)]
    inputs = [rng.normal(size=(n, 6)) for n, _ in tasks]
    targets = [
        x @ slopes[g] + rng.normal(size=len(x)) for x, (_, g) in zip(inputs, tasks, strict=True)
    ]
    space = PooledSpace.of(inputs, targets)
    losses = RISK(space.evidence(2, np.array([0, 1])))
    assert np.isfinite(losses).all()
    assert (losses <= 0.01).all()
    assert losses[1] < losses[0]
    assert RISK(space.evidence(0, np.array([1])))[0] > 1.5


def test_nothing_is_known_where_no_task_has_degrees_of_freedom():
    rng = np.random.default_rng(2)
    inputs = [rng.normal(size=(n, 6)) for n in (4, 5, 7, 1, 2)]
    targets = [rng.normal(size=len(x)) for x in inputs]
    space = PooledSpace.of(inputs, targets)
    for block in range(5):
        others = np.delete(np.arange(5), block)
        np.testing.assert_allclose(RISK(space.evidence(block, others)), 0.0, atol=1e-12)
        for number in gain(space.evidence(block, others)):
            assert np.isfinite(number).all()


def test_tasks_without_a_slope_in_common_lose_and_gain_nothing():
    rng = np.random.default_rng(3)
    inputs = [np.zeros((20, 4)) + 0.1, *(np.zeros((20, 4)) for _ in range(2)), np.ones((9, 4))]
    inputs[1][:, :2], inputs[2][:, 2:] = rng.normal(size=(2, 20, 2))
    targets = [rng.normal(size=len(x)) for x in inputs]
    space = PooledSpace.of(inputs, targets)
    evidence = space.evidence(1, np.array([0, 2, 3]))
    assert (RISK(evidence) == 0.0).all()
    assert (gain(evidence).value == 0.0).all()
    space.merge(0, 3)
    space.merge(1, 2)
    assert np.isfinite(RISK(space.evidence(0, np.array([1])))).all()


@given(seed=st.integers(0, 10_000))
@settings(max_examples=examples(60), deadline=None)
def test_no_loss_is_ever_nan(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 6))
    lengths = rng.integers(1, 2 * D + 4, size=5)
    inputs = [rng.integers(0, 2, size=(n, D)).astype(float) for n in lengths]
    targets = [rng.integers(0, 3, size=n).astype(float) for n in lengths]
    for scan in SCANS.values():
        space = PooledSpace.of(inputs, targets)
        evidence = space.evidence(0, np.arange(1, 5))
        assert not np.isnan(RISK(evidence)).any()
        assert not any(np.isnan(number).any() for number in gain(evidence))
        history = scan(space, RISK, max_loss=np.inf, order=np.arange(5))
        assert history.partition().n_groups == 1


# -- Break-even ------------------------------------------------------------------------------------


def wishart(rng, lengths, varying, n_inputs):
    """Cross-products within tasks of Gaussian inputs of which some vary."""
    total = np.zeros((n_inputs, n_inputs))
    for n in lengths:
        X = np.zeros((n, n_inputs))
        X[:, varying] = rng.normal(size=(n, len(varying)))
        X -= X.mean(axis=0)
        total += X.T @ X
    return total


def simulated_break_even(rng, p, q, varying_p, varying_q, n_draws):
    """E[F] (numerator over its noise) where the true risk of pooling equals that of two fits.

    The noise is averaged over exactly; the inputs are drawn. New rows are predicted about each
    task's own training mean, hence ``1 + 1/n``.
    """
    D = max(*varying_p, *varying_q) + 1
    sees_p, sees_q = (np.isin(np.arange(D), v).astype(float) for v in (varying_p, varying_q))
    shared = np.flatnonzero(sees_p * sees_q)
    weight_p, weight_q = (sum(1.0 + 1.0 / n for n in lengths) for lengths in (p, q))
    saved = bias = rise = 0.0
    for _ in range(n_draws):
        in_p, in_q = wishart(rng, p, varying_p, D), wishart(rng, q, varying_q, D)
        inverse_p, inverse_q, inverse = (
            np.linalg.pinv(gram, rcond=1e-10) for gram in (in_p, in_q, in_p + in_q)
        )
        saved += weight_p * np.diag(inverse_p) @ sees_p + weight_q * np.diag(inverse_q) @ sees_q
        saved -= np.diag(inverse) @ (weight_p * sees_p + weight_q * sees_q)
        # Slopes d for P and none for Q; pooled, both get the same.
        for j in shared:
            pooled = inverse @ in_p[:, j]
            error = pooled.copy()
            error[j] -= 1.0
            bias += (weight_p * error**2 @ sees_p + weight_q * pooled**2 @ sees_q) / shared.size
            rise += (in_p[j] @ inverse @ in_q[:, j]) / shared.size
    return 1.0 + saved / bias * rise / n_draws / shared.size


EIGHT = list(range(8))
DESIGNS = [
    ([20], [60], EIGHT, EIGHT),
    ([30], [30], EIGHT, EIGHT),
    ([20, 20], [40, 20], EIGHT, EIGHT),
    ([12, 12, 12], [30, 10, 20], EIGHT, EIGHT),
    ([12, 25, 8], [40, 15], EIGHT, EIGHT),
    ([6, 6, 6, 6, 6], [20, 8, 8, 30, 12], EIGHT, EIGHT),
    ([6, 6, 6, 6, 6], [30, 30], EIGHT, EIGHT),
    ([20, 20], [15, 15, 15], [0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]),
    ([25], [60], EIGHT, [6, 7]),
]


def group(lengths, rank):
    n, n_tasks = sum(lengths), len(lengths)
    weight = sum(1.0 + 1.0 / length for length in lengths)
    return Pool(*(np.array([float(x)]) for x in (0.0, 0.0, rank, n, n_tasks, weight)))


@pytest.mark.parametrize(("p", "q", "varying_p", "varying_q"), DESIGNS)
def test_pooling_breaks_even_where_stated(p, q, varying_p, varying_q):
    shared = np.array([float(len(set(varying_p) & set(varying_q)))])
    stated = break_even(group(p, len(varying_p)), group(q, len(varying_q)), shared)[0][0]
    rng = np.random.default_rng(0)
    simulated = simulated_break_even(rng, p, q, varying_p, varying_q, 1000)
    assert stated == pytest.approx(simulated, rel=0.03)


@pytest.mark.more
@pytest.mark.parametrize(("p", "q"), [([20], [60]), ([12] * 3, [10] * 5), ([6] * 5, [30] * 2)])
def test_the_gain_of_pooling_is_unbiased(p, q):
    """Least squares on drawn rows, slopes that differ; the true risk of what was fitted."""
    rng = np.random.default_rng(1)
    D = 5
    slopes = rng.normal(size=D), rng.normal(size=D)
    slopes = slopes[0], slopes[0] + 0.2 * slopes[1]
    lengths = [*p, *q]
    member = np.repeat([0, 1], [len(p), len(q)])
    gap = []
    for _ in range(1500):
        inputs = [rng.normal(size=(n, D)) for n in lengths]
        targets = [
            x @ slopes[g] + rng.normal(size=len(x)) for x, g in zip(inputs, member, strict=True)
        ]
        groups = [list(range(len(p))), list(range(len(p), len(lengths)))]
        space = PooledSpace.of(inputs, targets, groups=groups)
        predicted = float(gain(space.evidence(0, np.array([1]))).value[0])
        true_gain = 0.0
        for sign, blocks in ((1.0, groups), (-1.0, [groups[0] + groups[1]])):
            for block in blocks:
                coef = within_slopes(inputs, targets, block)
                for task in block:
                    intercept = targets[task].mean() - inputs[task].mean(axis=0) @ coef
                    error = coef - slopes[member[task]]
                    true_gain += sign * (error @ error + intercept**2)
        gap.append(predicted - true_gain)
    assert abs(np.mean(gap)) < 3.5 * np.std(gap) / np.sqrt(len(gap))


@pytest.mark.parametrize("seed", range(3))
def test_the_gains_of_both_sides_add_up_to_that_of_the_merge(seed):
    space = PooledSpace.of(*dummy_rows(seed))
    space.merge(0, 2)
    for other in (1, 3, 4):
        sides = space.side_gains(0, other)
        total = sides[0] * space.weight[0] + sides[1] * space.weight[other]
        expected = gain(space.evidence(0, np.array([other]))).value[0]
        assert total == pytest.approx(expected, rel=1e-9)


@pytest.mark.more
def test_the_gain_of_each_side_is_unbiased():
    """The longer group has less to win: the side says so."""
    rng = np.random.default_rng(2)
    D, lengths, member = 4, [14, 14, 60], np.array([0, 0, 1])
    slopes = rng.normal(size=D)
    slopes = np.stack([slopes, slopes + 0.15 * rng.normal(size=D)])
    gap = []
    for _ in range(1500):
        inputs = [rng.normal(size=(n, D)) for n in lengths]
        targets = [
            x @ slopes[g] + rng.normal(size=len(x)) for x, g in zip(inputs, member, strict=True)
        ]
        space = PooledSpace.of(inputs, targets, groups=[[0, 1], [2]])
        predicted = np.array(space.side_gains(0, 1)) * space.weight
        true_gain = np.zeros(2)
        for sign, blocks in ((1.0, ([0, 1], [2])), (-1.0, ([0, 1, 2],))):
            for block in blocks:
                coef = within_slopes(inputs, targets, block)
                for task in block:
                    intercept = targets[task].mean() - inputs[task].mean(axis=0) @ coef
                    error = coef - slopes[member[task]]
                    true_gain[member[task]] += sign * (error @ error + intercept**2)
        gap.append(predicted - true_gain)
    bound = 3.5 * np.std(gap, axis=0) / np.sqrt(len(gap))
    assert (np.abs(np.mean(gap, axis=0)) < bound).all()


def test_weighted_rows_are_repeated_rows():
    inputs, targets = own_rows("gaussian", 5)
    weights = [np.where(np.arange(len(y)) % 2 == 0, 2.0, 1.0) for y in targets]
    weighted = PooledSpace.of(inputs, targets, row_weights=weights)
    repeated = PooledSpace.of(
        [np.repeat(x, w.astype(int), axis=0) for x, w in zip(inputs, weights, strict=True)],
        [np.repeat(y, w.astype(int)) for y, w in zip(targets, weights, strict=True)],
    )
    others = np.arange(1, 7)
    one, two = weighted.evidence(0, others), repeated.evidence(0, others)
    np.testing.assert_allclose(one.difference.explained, two.difference.explained, rtol=1e-9)
    np.testing.assert_allclose(one.difference.residual, two.difference.residual, rtol=1e-9)


def test_a_task_against_the_rest_of_its_group_is_asked_as_if_they_had_been_pooled():
    inputs, targets = own_rows("gaussian", 6)
    pair = PooledSpace.of(inputs, targets).one_by_one(np.array([0, 2, 3, 5]), 2)
    expected = PooledSpace.of(inputs, targets, groups=[[2], [0, 3, 5]])
    np.testing.assert_allclose(pair.side_gains(0, 1), expected.side_gains(0, 1), rtol=1e-8)


def within_slopes(inputs, targets, block):
    rows = np.vstack([inputs[task] - inputs[task].mean(axis=0) for task in block])
    y = np.concatenate([targets[task] - targets[task].mean() for task in block])
    return np.linalg.lstsq(rows, y, rcond=None)[0]
