"""Where digits are lost, and where degenerate data must not surprise."""

import itertools

import numpy as np
import pytest
from scipy import linalg, sparse

import oracle
import problems
from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    target_path,
)
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.graph import Neighbours
from ctfa.core.moments import Moments
from ctfa.core.scans import SCANS
from ctfa.core.spaces.features import FactoredFold, FeatureSpace
from ctfa.core.spaces.targets import TargetSpace


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("amplitude", [1.0, 1e4, 1e8, 1e11])
@pytest.mark.parametrize("dense", [True, False])
def test_a_strong_part_in_common_does_not_hide_differences(amplitude, scan, dense):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    effects = rng.normal(size=(4, 3))[:, [0, 0, 1, 1, 2, 2]]
    Y = X @ effects + 0.5 * rng.normal(size=(60, 6))
    design = Design.of(X)
    found = []
    for common in (0.0, amplitude):
        space = TargetSpace.of(design, design.centre(Y + common * X[:, [0]]), dense=dense)
        history = SCANS[scan](
            space, TARGET_CRITERIA["risk"], max_loss=1.5, order=np.arange(6), tolerance=1e-10
        )
        found.append(history)
    assert found[0].partition().labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert found[0].partition() == found[1].partition()
    # What is left of the differences after adding and removing the common part.
    losses = [np.sort(history.loss) for history in found]
    np.testing.assert_allclose(*losses, rtol=max(1e-9, amplitude * 1e-14))


@pytest.mark.parametrize("scan", ["grow", "restart", "best-first", "correlation"])
def test_targets_without_a_matrix_keep_to_their_graph(scan):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = problems.make_problem("correlated", seed, n_targets=30)
        upper = np.triu(rng.uniform(size=(30, 30)) < 0.1, 1)
        graph = sparse.csr_array(upper | upper.T)
        design = Design.of(problem.X)
        order = rng.permutation(30)
        found = [
            SCANS[scan](
                TargetSpace.of(design, design.centre(problem.Y), dense=dense),
                TARGET_CRITERIA["risk"],
                max_loss=1.5,
                order=order,
                neighbours=Neighbours(graph),
            )
            for dense in (True, False)
        ]
        assert found[0].partition() == found[1].partition()


def test_more_than_five_thousand_targets_on_a_grid():
    rng = np.random.default_rng(0)
    side, n_targets = 72, 72 * 72
    X = rng.normal(size=(40, 3))
    Y = X @ rng.normal(size=(3, n_targets)) + rng.normal(size=(40, n_targets))
    index = np.arange(n_targets)
    right = index[index % side < side - 1]
    down = index[index < n_targets - side]
    ones = np.ones(right.size + down.size)
    rows, columns = np.concatenate((right, down)), np.concatenate((right + 1, down + side))
    graph = sparse.coo_array((ones, (rows, columns)), shape=(n_targets, n_targets))
    graph = sparse.csr_array(graph + graph.T)
    found = {
        scan: TargetAggregator(scan=scan, connectivity=graph, max_loss=0.2).fit(X, Y)
        for scan in ("grow", "best-first")
    }
    for model in found.values():
        assert 0 < len(model.history_) < n_targets - 1
        for group in model.partition_.groups[:200]:
            inside = graph[group][:, group].toarray()
            assert sparse.csgraph.connected_components(inside)[0] == 1


def test_folds_whose_training_rows_repeat_are_fitted_as_given():
    rng = np.random.default_rng(0)
    compared = 0
    for seed in range(10):
        problem = problems.make_problem("correlated", seed)
        n = len(problem.y)
        folds = [(rng.integers(n, size=n), rng.permutation(n)[: n // 3]) for _ in range(4)]
        found = FeatureAggregator(
            "r2", max_loss=0.01, scan="grow", min_correlation=-1.0, cv=folds
        ).fit(problem.X, problem.y)
        expected = oracle.phase_two(
            problem.X, problem.y, 0.01, criterion="r2", scan="grow", folds=folds
        )
        if expected.margin(0.01) > 1e-8:
            compared += 1
            assert found.labels_.tolist() == list(expected.labels)
    assert compared >= 8


@pytest.mark.parametrize("weighted", [False, True])
def test_folds_factored_together_answer_as_folds_factored_apart(weighted):
    for seed in range(5):
        problem = problems.make_problem("correlated", seed, n_samples=60)
        weights = np.random.default_rng(seed).uniform(0.0, 2.0, size=60) if weighted else None
        if weighted:
            weights[:5] = 0.0
        folds = oracle.contiguous_folds(60, 4)
        together = FactoredFold.each(problem.X, folds, weights)
        apart = [FactoredFold.of(problem.X, *fold, weights) for fold in folds]
        others = np.arange(1, problem.X.shape[1])
        answers = [
            FeatureSpace.on_folds(part, problem.y).evidence(0, others).difference.explained
            for part in (together, apart)
        ]
        np.testing.assert_allclose(*answers, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("scan", SCANS)
def test_targets_that_share_their_noise_exactly_merge_at_an_infinite_limit_only(scan):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = X @ rng.normal(size=(3, 4)) + rng.normal(size=(30, 1))
    assert TargetAggregator(scan=scan, scale="none", max_loss=1e6).fit(X, Y).n_groups_ == 4
    assert TargetAggregator(scan=scan, scale="none", max_loss=np.inf).fit(X, Y).n_groups_ == 1


@pytest.mark.parametrize("scan", SCANS)
def test_copies_merge_at_the_limit_itself_whatever_rounding_says(scan):
    for seed in range(10):
        problem = problems.make_problem("gaussian", seed)
        Y = np.column_stack([problem.Y[:, 0], 1e3 * problem.Y[:, 1], problem.Y[:, 0]])
        model = TargetAggregator("mse", max_loss=0.0, scan=scan, scale="none").fit(problem.X, Y)
        assert model.labels_[0] == model.labels_[2]


def test_moments_with_weights_give_the_space_of_the_weighted_data():
    problem = problems.make_problem("gaussian", 0)
    weights = np.random.default_rng(0).uniform(0.0, 5.0, size=len(problem.y))
    moments = Moments.of(np.hstack([problem.X, problem.Y]), weights)
    design = Design.of(problem.X, weights)
    others = np.arange(1, problem.Y.shape[1])
    for criterion in TARGET_CRITERIA.values():
        np.testing.assert_allclose(
            criterion(problems.target_space_of(moments, problem.X.shape[1]).evidence(0, others)),
            criterion(TargetSpace.of(design, design.centre(problem.Y)).evidence(0, others)),
            rtol=1e-6,
            atol=1e-8,
        )


@pytest.mark.parametrize("scan", ["best-first", "correlation"])
def test_the_nearest_refusal_of_each_group_is_the_nearest(scan):
    for seed in range(6):
        problem = problems.make_problem("correlated", seed, n_targets=14)
        model = TargetAggregator(scan=scan, max_loss=0.5).fit(problem.X, problem.Y)
        groups = model.partition_.groups
        assert len(groups) > 1
        values = (problem.Y - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
        means = np.column_stack([values[:, group].mean(axis=1) for group in groups])
        history = model.history_
        for number, group in enumerate(groups):
            losses = [
                oracle.target_risk_loss(problem.X, means[:, number], means[:, k], 1, 1)
                for k in range(len(groups))
                if k != number
            ]
            leader = next(member for member in group if history.refused[member] >= 0)
            assert history.refused_loss[leader] == pytest.approx(min(losses), rel=1e-6)


@pytest.mark.parametrize("scan", SCANS)
def test_the_interval_of_max_loss_is_true_up_to_its_ends(scan):
    for seed in range(8):
        problem = problems.make_problem("correlated", seed)
        for model, arguments in (
            (TargetAggregator(scan=scan, max_loss=0.5), (problem.X, problem.Y)),
            (FeatureAggregator(scan=scan, max_loss=2.0), (problem.X, problem.y)),
        ):
            model.fit(*arguments)
            low, high = model.loss_interval_
            labels = model.labels_.tolist()
            for limit in (low, high - 1e-9 * abs(high), np.nextafter(high, -np.inf)):
                if np.isfinite(limit) and low <= limit < high:
                    again = type(model)(scan=scan, max_loss=float(limit)).fit(*arguments)
                    assert again.labels_.tolist() == labels


def test_a_path_of_best_first_is_nested():
    problem = problems.make_problem("correlated", 3, n_targets=20)
    path = target_path(problem.X, problem.Y, np.linspace(-1.0, 6.0, 30))
    for finer, coarser in itertools.pairwise(path):
        assert all(
            len(set(coarser.partition.labels[group])) == 1 for group in finer.partition.groups
        )


@pytest.mark.parametrize("scale", [1e-120, 1e-200, 1e120])
@pytest.mark.parametrize("which", ["X", "Y"])
def test_units_whose_squares_cannot_be_computed_are_refused(which, scale):
    problem = problems.make_problem("gaussian", 0)
    X, Y = problem.X.copy(), problem.Y.copy()
    (X if which == "X" else Y)[:, 1] *= scale
    with pytest.raises(ValueError, match=rf"(?i)input {which} .*use other units"):
        CTFARegressor().fit(X, Y)


def test_a_masked_value_is_a_gap():
    problem = problems.make_problem("gaussian", 0)
    X = np.ma.masked_greater(problem.X, 1.5)
    with pytest.raises(ValueError, match="masked values"):
        CTFARegressor().fit(X, problem.Y)


def test_a_doubtful_design_warns_once_for_both_phases():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    X[:, 3] = X[:, 2] + 1e-11 * rng.normal(size=50)
    Y = X[:, :2] @ rng.normal(size=(2, 3)) + rng.normal(size=(50, 3))
    with pytest.warns(RuntimeWarning, match="condition number") as caught:
        CTFARegressor().fit(X, Y)
    assert len(caught) == 1


def nearly_copied(seed, exponent, shape=(60, 6)):
    """Inputs of which one copies another up to a power of two of its spread."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape)
    X[:, 1] = X[:, 0] + 2.0**-exponent * rng.normal(size=shape[0])
    return X, X[:, [0]] + rng.normal(size=(shape[0], 4))


@pytest.mark.more
@pytest.mark.parametrize("exponent", [31, 36, 40, 43, 45, 47, 48])
def test_near_copies_are_never_taken_for_copies_without_a_word(exponent):
    for seed in range(10):
        X, Y = nearly_copied(seed, exponent)
        with pytest.warns(RuntimeWarning, match="condition number"):
            TargetAggregator().fit(X, Y)
        with pytest.warns(RuntimeWarning, match="condition number"):
            FeatureAggregator().fit(X, Y[:, 0])


@pytest.mark.more
@pytest.mark.parametrize("exponent", [31, 40, 45, 48])
def test_near_copies_are_told_where_tasks_have_rows_or_inputs_of_their_own(exponent):
    X, Y = nearly_copied(0, exponent, (120, 4))
    with pytest.warns(RuntimeWarning, match="X within tasks has a condition number"):
        PooledCTFARegressor().fit(X, Y[:, 0], tasks=np.repeat(np.arange(4), 30))
    layout = np.tile(np.arange(4), (4, 1))
    with pytest.warns(RuntimeWarning, match="inputs of target 'y0': X has a condition number"):
        MultiInputCTFARegressor(layout).fit(X, Y)


@pytest.mark.more
def test_exact_dependences_are_no_reason_for_a_warning():  # which would be an error here
    for seed, n_rows in itertools.product(range(5), (25, 200, 2000)):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(n_rows, 5))
        months = (np.arange(n_rows) % 12)[:, None] == np.arange(12)
        for X in (
            np.column_stack([z, z[:, 0], 3.0 * z[:, 1] + 7.0]),
            np.column_stack([z, z.mean(axis=1), z[:, 0] + z[:, 1]]),
            np.column_stack([273.15 + 10.0 * z, 1.8 * (273.15 + 10.0 * z[:, 0]) - 459.67]),
            np.column_stack([z[:, :2], months, np.ones(n_rows)]),
            np.column_stack([z * 10.0 ** np.arange(-6, 4, 2), 2e3 * z[:, 4] + 1e-6 * z[:, 0]]),
        ):
            Y = z[:, :3] + rng.normal(size=(n_rows, 3))
            TargetAggregator(max_loss=1.0).fit(X, Y)
            tasks = np.arange(n_rows) % 3
            model = PooledCTFARegressor(targets=TargetAggregator(max_loss=1.0))
            if n_rows > 25:
                model.fit(X, Y[:, 0], tasks=tasks)


def test_singular_values_are_found_where_the_faster_routine_gives_up(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    X[:, 3] = X[:, 2]
    expected = Design.of(X)
    found = linalg.svd

    def gives_up(*args, lapack_driver="gesdd", **options):
        if lapack_driver == "gesdd":
            raise linalg.LinAlgError("SVD did not converge")
        return found(*args, lapack_driver=lapack_driver, **options)

    monkeypatch.setattr(linalg, "svd", gives_up)
    design = Design.of(X)
    assert design.rank == expected.rank == 3
    np.testing.assert_allclose(design.root.T @ design.root, expected.root.T @ expected.root)


@pytest.mark.parametrize("features", ["passthrough", None])
@pytest.mark.parametrize("with_confounds", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_mean_in_single_precision_does_not_blow_up_predictions(features, with_confounds, gaps):
    """Of temperatures whose mean is their mean in the rows learned from, and not in later ones."""
    rng = np.random.default_rng(0)
    season = 10.0 + 8.0 * np.cos(np.arange(240) * np.pi / 6.0)
    low = (season + rng.normal(size=240)).astype(np.float32)
    high = (low + 8.0 + rng.normal(size=240)).astype(np.float32)
    mean = (low + high) / np.float32(2.0)
    mean[120:] += (0.3 * rng.random(120)).astype(np.float32)
    X = np.column_stack([low, high, mean])
    Y = low[:, None] * rng.normal(size=6) + rng.normal(size=(240, 6))
    target = Y[:120].copy()
    if gaps:
        target[::7, 2] = np.nan
    months = np.tile(np.eye(12), (20, 1))
    known, other = ({"confounds": months[:120]}, {"confounds": months[120:]})
    if not with_confounds:
        known, other = {}, {}
    options = {} if features is None else {"features": features}
    model = CTFARegressor(**options).fit(X[:120], target, **known)
    wrong = model.predict(X[120:], **other) - Y[120:]
    assert np.mean(wrong**2) < 2.0  # noise of variance one; it was 1e8
