"""Laws of spaces, criteria, scans and linear models, by the public checks of ctfa.testing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge

import problems
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    multi_input_layout,
    nonlinctfa,
    testing,
)
from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.fit import Evidence, Fit
from ctfa.core.graph import ORDERS
from ctfa.core.moments import Moments
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.spaces.features import FactoredFold, FeatureSpace, column_gram
from ctfa.core.spaces.targets import TargetSpace
from ctfa.estimators.models import HEADS
from ctfa_study import baselines
from generated import examples
from oracle import contiguous_folds

FULL_RANK = ["gaussian", "correlated", "nearly_collinear", "scales", "offset", "discrete"]


def target_space(problem, groups=None, *, dense=True):
    design = Design.of(problem.X)
    centred = design.centre(problem.Y)
    if groups is None:
        return TargetSpace.of(design, centred, dense=dense)
    means = np.column_stack([centred[:, group].mean(axis=1) for group in groups])
    sizes = np.array([len(group) for group in groups])
    return TargetSpace.of(design, means, sizes=sizes, dense=dense)


def feature_space(problem, groups=None, *, folds=None):
    X = problem.X
    if groups is not None:
        X = np.column_stack([X[:, group].sum(axis=1) for group in groups])
    design = Design.of(X)
    gram = column_gram(design, X)
    if folds is None:
        return FeatureSpace.of(design, design.centre(problem.y[:, None])[:, 0], gram)
    return FeatureSpace.on_folds([FactoredFold.of(X, *fold) for fold in folds], problem.y, gram)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_target_spaces_obey_the_laws(family, dense):
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        testing.check_space(
            lambda groups, problem=problem: target_space(problem, groups, dense=dense),
            problem.Y.shape[1],
            seed=seed,
        )


@pytest.mark.parametrize("judged", ["in sample", "on folds"])
@pytest.mark.parametrize("family", FULL_RANK)
def test_feature_spaces_obey_the_laws(family, judged):
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        folds = None if judged == "in sample" else contiguous_folds(len(problem.y), 4)
        testing.check_space(
            lambda groups, problem=problem, folds=folds: feature_space(
                problem, groups, folds=folds
            ),
            problem.X.shape[1],
            seed=seed,
            rtol=1e-6,
        )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", TARGET_CRITERIA)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_on_targets(scan, criterion, with_graph):
    for seed in range(4):
        problem = problems.make_problem("correlated", seed)
        n_targets = problem.Y.shape[1]
        upper = np.triu(np.random.default_rng(seed).uniform(size=(n_targets, n_targets)) < 0.3, 1)
        testing.check_scan(
            SCANS[scan],
            lambda problem=problem: target_space(problem),
            TARGET_CRITERIA[criterion],
            max_loss=0.5 if criterion == "risk" else 0.0,
            graph=(upper | upper.T) if with_graph else None,
        )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", FEATURE_CRITERIA)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_on_features(scan, criterion, with_graph):
    for seed in range(4):
        problem = problems.make_problem("correlated", seed)
        n_features = problem.X.shape[1]
        upper = np.triu(np.random.default_rng(seed).uniform(size=(n_features, n_features)) < 0.3, 1)
        testing.check_scan(
            SCANS[scan],
            lambda problem=problem: feature_space(problem),
            FEATURE_CRITERIA[criterion],
            max_loss={"risk": 3.0, "r2": 1e-3, "feature-mse": 0.0}[criterion],
            graph=(upper | upper.T) if with_graph else None,
        )


@pytest.mark.parametrize(("criterion", "degree"), [("mse", 2), ("corollary", 2), ("risk", 0)])
def test_target_criteria_vectorize_and_scale(criterion, degree):
    space = target_space(problems.make_problem("gaussian", 0))
    evidence = space.evidence(0, np.arange(1, space.n_variables))
    testing.check_criterion(TARGET_CRITERIA[criterion], evidence, degree=degree)


@pytest.mark.parametrize(("criterion", "degree"), [("r2", 0), ("feature-mse", 2), ("risk", 0)])
def test_feature_criteria_vectorize_and_scale(criterion, degree):
    space = feature_space(problems.make_problem("gaussian", 0))
    evidence = space.evidence(0, np.arange(1, space.n_variables))
    testing.check_criterion(FEATURE_CRITERIA[criterion], evidence, degree=degree)


def test_the_checks_notice_a_space_that_breaks_a_law():
    problem = problems.make_problem("gaussian", 0)

    class Forgetful(TargetSpace):
        def merge(self, block, other):
            self._size[block] += self._size[other]

    def build(groups):
        space = target_space(problem, groups)
        space.__class__ = Forgetful
        return space

    with pytest.raises(AssertionError, match=r"rebuilding|merging"):
        testing.check_space(build, problem.Y.shape[1])


def test_the_checks_notice_a_criterion_that_does_not_scale():
    space = target_space(problems.make_problem("gaussian", 0))
    evidence = space.evidence(0, np.arange(1, 4))
    with pytest.raises(AssertionError, match="scale"):
        testing.check_criterion(TARGET_CRITERIA["mse"], evidence, degree=0)


@pytest.mark.parametrize("criterion", TARGET_CRITERIA)
def test_groups_do_not_depend_on_the_order_of_targets_when_best_first(criterion):
    for seed in range(5):
        problem = problems.make_problem("correlated", seed)
        shuffled = np.random.default_rng(seed).permutation(problem.Y.shape[1])
        design = Design.of(problem.X)
        found = []
        for columns in (np.arange(shuffled.size), shuffled):
            space = TargetSpace.of(design, design.centre(problem.Y[:, columns]))
            history = SCANS["best-first"](
                space, TARGET_CRITERIA[criterion], max_loss=0.3, order=np.arange(shuffled.size)
            )
            labels = np.empty_like(shuffled)
            labels[columns] = history.partition().labels
            found.append(Partition(labels))
        assert found[0] == found[1]


def test_scaling_targets_scales_the_paper_loss_and_leaves_the_risk_alone():
    problem = problems.make_problem("gaussian", 1)
    design = Design.of(problem.X)
    others = np.arange(1, problem.Y.shape[1])
    once = TargetSpace.of(design, design.centre(problem.Y)).evidence(0, others)
    thrice = TargetSpace.of(design, design.centre(3.0 * problem.Y)).evidence(0, others)
    np.testing.assert_allclose(
        TARGET_CRITERIA["mse"](thrice), 9.0 * TARGET_CRITERIA["mse"](once), rtol=1e-9
    )
    np.testing.assert_allclose(
        TARGET_CRITERIA["risk"](thrice), TARGET_CRITERIA["risk"](once), rtol=1e-9
    )


def test_units_and_offsets_of_features_do_not_change_groups_of_targets():
    problem = problems.make_problem("correlated", 2)
    change = np.random.default_rng(0).uniform(0.01, 100.0, size=problem.X.shape[1])
    losses = []
    for X in (problem.X, problem.X * change + 17.0):
        design = Design.of(X)
        space = TargetSpace.of(design, design.centre(problem.Y))
        losses.append(TARGET_CRITERIA["risk"](space.evidence(0, np.arange(1, 5))))
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-7)


def test_a_copy_of_a_target_merges_at_the_lowest_loss_there_is():
    problem = problems.make_problem("duplicated_targets", 0)
    design = Design.of(problem.X)
    Y = np.column_stack([problem.Y[:, 0], problem.Y[:, 0], problem.Y[:, 1]])
    evidence = TargetSpace.of(design, design.centre(Y)).evidence(0, np.array([1, 2]))
    lowest = -(design.n_samples - design.rank - 2) / (design.n_samples - 1)
    copy, other = TARGET_CRITERIA["risk"](evidence)
    assert copy == pytest.approx(lowest)
    assert other > lowest


def test_the_risk_of_a_group_is_the_exact_gain_of_the_theory():
    """ab/(a+b) r s(d) (F* - F)/(n-1) equals V(P u Q) - V(P) - V(Q) for groups of any size."""
    problem = problems.make_problem("gaussian", 3)
    space = target_space(problem)
    space.merge(0, 1)
    space.merge(0, 2)
    space.merge(3, 4)
    evidence = space.evidence(0, np.array([3]))
    n, r = space.n_samples, space.rank
    f_star = 1.0 + (n - 1) / (n - r - 2)

    def value(fit):
        return fit.size * (fit.explained - r * fit.noise_variance * f_star)

    first, second = evidence.before
    gain = value(evidence.after) - value(first) - value(second)
    difference = evidence.difference
    loss = TARGET_CRITERIA["risk"](evidence)
    expected = 6 / 5 * r * difference.noise_variance * (f_star - 1.0) * (1.0 - loss)
    np.testing.assert_allclose(gain, expected, rtol=1e-8)


@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 39), min_size=1, max_size=5, unique=True),
    offset=st.sampled_from([0.0, 1e4, 1e8]),
)
@settings(max_examples=examples(50), deadline=None)
def test_moments_of_chunks_add_up_to_the_moments_of_all(seed, cuts, offset):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 3)) + offset
    weights = rng.uniform(0.0, 2.0, size=40)
    parts = np.split(np.arange(40), sorted(cuts))
    total = Moments.of(rows[parts[0]], weights[parts[0]])
    for part in parts[1:]:
        total = total + Moments.of(rows[part], weights[part])
    whole = Moments.of(rows, weights)
    assert total.n_samples == whole.n_samples
    np.testing.assert_allclose(total.mean, whole.mean, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(total.cross, whole.cross, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "correlated", "duplicated", "constant", "offset"])
def test_a_space_from_moments_decides_as_one_from_data(family):
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        moments = Moments.of(np.hstack([problem.X, problem.Y]))
        space = problems.target_space_of(moments, problem.X.shape[1])
        order = np.arange(problem.Y.shape[1])
        risk = TARGET_CRITERIA["risk"]
        from_sums = SCANS["best-first"](space, risk, max_loss=1.0, order=order)
        from_data = SCANS["best-first"](target_space(problem), risk, max_loss=1.0, order=order)
        assert from_sums.partition() == from_data.partition()
        np.testing.assert_allclose(from_sums.loss, from_data.loss, rtol=1e-4, atol=1e-6)


def test_orders_are_permutations():
    for space in (target_space(problems.make_problem("constant", 0)),):
        for order in ORDERS.values():
            found = order(space, np.random.default_rng(0))
            assert sorted(found) == list(range(space.n_variables))


def test_the_order_by_correlation_starts_with_the_most_typical():
    rng = np.random.default_rng(0)
    common = rng.normal(size=(80, 1))
    Y = np.hstack([rng.normal(size=(80, 2)), common + 0.1 * rng.normal(size=(80, 5))])
    design = Design.of(rng.normal(size=(80, 3)))
    for dense in (True, False):
        space = TargetSpace.of(design, design.centre(Y), dense=dense)
        order = ORDERS["correlation"](space, rng)
        assert set(order[:5]) == {2, 3, 4, 5, 6}
        expected = np.corrcoef(Y.T).mean(axis=1)
        np.testing.assert_allclose(space.mean_correlation(), expected, rtol=1e-8)


def test_fits_without_anything_to_explain_have_no_f():
    fit = Fit(np.array([0.0, 1.0]), np.array([0.0, 0.0]), 10, 2, 2, 7, 1.0)
    assert fit.f_statistic.tolist() == [0.0, np.inf]
    assert Evidence((fit,), fit, lambda: fit).difference is fit


def related(seed, n_rows=150, n_inputs=6, n_targets=6):
    """Correlated inputs, and targets in two groups."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_inputs)) + 0.7 * rng.normal(size=(n_rows, 1))
    slopes = rng.normal(size=(n_inputs, 2))[:, rng.integers(0, 2, n_targets)]
    return X, X @ slopes + 2.0 * rng.normal(size=(n_rows, n_targets))


def in_si_units(z):
    """Pressure in Pa beside a flux in kg m-2 s-1, made of numbers about one."""
    return np.column_stack([101325.0 + 800.0 * z[:, 0], 3e-5 + 2e-5 * z[:, 1]])


#: Linear models that any unit of any column must leave as they are.
ONE_BY_ONE = {
    "default": CTFARegressor(features="passthrough"),
    "explicit": CTFARegressor(LinearRegression(), features="passthrough"),
    "mean": CTFARegressor(features="passthrough", head="mean"),
    "explicit mean": CTFARegressor(LinearRegression(), features="passthrough", head="mean"),
    "single": CTFARegressor(targets="passthrough", features="passthrough"),
    "limit": CTFARegressor(targets=TargetAggregator(max_loss=1.2), features="passthrough"),
    "flip": CTFARegressor(targets=TargetAggregator(flip=True), features="passthrough"),
    "guard": CTFARegressor(targets=TargetAggregator(guard="member"), features="passthrough"),
    "searched": CTFARegressorCV(features="passthrough"),
    "groups alone": TargetAggregator(scan="correlation"),
}
#: And those that average features in the units given.
TOGETHER = {
    "default": CTFARegressor(),
    "searched": CTFARegressorCV(),
    "mean": CTFARegressor(head="mean"),
    "explicit": CTFARegressor(LinearRegression()),
    "folds": CTFARegressor(features=FeatureAggregator("r2", max_loss=1e-3, cv=5)),
    "averaged": CTFARegressor(features=FeatureAggregator()),
}


@pytest.mark.more
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_linear_models_do_not_depend_on_units(name):
    for seed in range(3):
        X, Y = related(seed)
        testing.check_units(ONE_BY_ONE[name], X, Y, seed=seed)
        weights = np.random.default_rng(seed).uniform(0.2, 2.0, len(X))
        testing.check_units(ONE_BY_ONE[name], X, Y, seed=seed, sample_weight=weights)


@pytest.mark.more
@pytest.mark.parametrize("n_rows", [5, 9, 14])
@pytest.mark.parametrize("name", ["default", "mean", "single", "limit", "groups alone"])
def test_units_do_not_matter_where_ridge_regression_judges_few_rows(name, n_rows):
    for seed in range(3):
        X, Y = related(seed, n_rows)
        testing.check_units(ONE_BY_ONE[name], X, Y, seed=seed)


@pytest.mark.more
@pytest.mark.parametrize("name", TOGETHER)
def test_means_of_features_do_not_depend_on_offsets_and_a_common_unit(name):
    for seed in range(3):
        X, Y = related(seed)
        testing.check_units(TOGETHER[name], X, Y, one_factor=True, seed=seed)


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_units_do_not_matter_beside_a_season_or_gaps(head):
    model = CTFARegressor(features="passthrough", head=head)
    X, Y = related(0)
    months = np.arange(len(X)) * (2.0 * np.pi / 12.0)
    season = np.column_stack([np.sin(months), np.cos(months)])
    testing.check_units(model, X, Y, confounds=season)
    gaps = np.random.default_rng(0).random(Y.shape) < 0.1
    testing.check_units(model, X, np.where(gaps, np.nan, Y))


@pytest.mark.more
@pytest.mark.parametrize("features", ["passthrough", None])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_units_do_not_matter_to_tasks_with_rows_of_their_own(head, features):
    for seed in range(2):
        X, Y = related(seed, n_rows=240)
        tasks = np.random.default_rng(seed).integers(0, 6, len(X))
        X[:, -1] = tasks % 3  # a property of the task
        y = Y[np.arange(len(X)), tasks]
        model = PooledCTFARegressor(head=head, features=features)
        testing.check_units(model, X, y, one_factor=features is None, seed=seed, tasks=tasks)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_units_do_not_matter_to_targets_with_inputs_of_their_own(head, aggregate):
    rng = np.random.default_rng(0)
    own = 0.6 * rng.normal(size=(120, 5, 3)) + rng.normal(size=(120, 1, 3))
    slopes = rng.normal(size=(3, 2))[:, [0, 0, 1, 1, 0]]
    Y = np.einsum("nlk,kl->nl", own, slopes) + 2.0 * rng.normal(size=(120, 5))
    X, layout = multi_input_layout(own)
    testing.check_units(MultiInputCTFARegressor(layout, aggregate=aggregate, head=head), X, Y)


def test_the_law_of_units_finds_a_penalty_that_has_units():
    X, Y = related(0)
    with pytest.raises(AssertionError, match="depend on units"):
        testing.check_units(CTFARegressor(Ridge(10.0), features="passthrough"), X, Y)


@pytest.mark.more
def test_pressure_beside_a_flux_is_explained_as_well_as_numbers_about_one():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 2))
    Y = z @ np.array([[1.0, 1.0, 0.3], [0.5, 0.5, -1.0]]) + 0.3 * rng.normal(size=(200, 3))
    X, tasks = in_si_units(z), np.repeat(np.arange(4), 50)
    for model in (CTFARegressor(), nonlinctfa(), baselines.SingleTaskRegressor()):
        assert model.fit(X, Y).score(X, Y) == pytest.approx(model.fit(z, Y).score(z, Y), abs=1e-3)
        assert model.score(z, Y) > 0.9
    pooled = PooledCTFARegressor()
    expected = pooled.fit(z, Y[:, 0], tasks=tasks).score(z, Y[:, 0], tasks=tasks)
    assert pooled.fit(X, Y[:, 0], tasks=tasks).score(X, Y[:, 0], tasks=tasks) == (
        pytest.approx(expected, abs=1e-9)
    )


@pytest.mark.parametrize("way", ["tall", "Dask", "pieces"])
@pytest.mark.parametrize("head", HEADS)
def test_sums_of_rows_do_not_depend_on_units(way, head):
    dask = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20_000, 2))
    Y = z @ np.array([[1.0, 1.0, 0.3], [0.5, 0.5, -1.0]]) + rng.normal(size=(20_000, 3))
    scores = []
    for X in (z, in_si_units(z)):
        model = CTFARegressor(features="passthrough", head=head)
        if way == "tall":
            model.fit(X, Y)
        elif way == "Dask":
            model.fit(dask.from_array(X, chunks=(3000, 2)), dask.from_array(Y, chunks=(3000, 3)))
        else:
            model.partial_fit(zip(np.split(X, 4), np.split(Y, 4), strict=True))
        scores.append(model.score(X, Y))
    assert scores[0] > 0.3
    assert scores[1] == pytest.approx(scores[0], abs=1e-9)


@pytest.mark.parametrize("head", HEADS)
def test_least_squares_sees_directions_of_a_condition_number_of_1e8(head):
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(2, 200))
    X, y = np.column_stack([x, x + 1e-8 * u]), u + 0.1 * rng.normal(size=200)
    model = CTFARegressor(LinearRegression(), features="passthrough", head=head)
    assert model.fit(X, y).score(X, y) > 0.98


def test_options_of_a_least_squares_regressor_are_obeyed():
    X, Y = related(0)
    for regressor in (LinearRegression(positive=True), LinearRegression(fit_intercept=False)):
        model = CTFARegressor(regressor, targets="passthrough", features="passthrough").fit(X, Y)
        expected = clone(regressor).fit(X, Y[:, 2])
        assert_allclose(model.regressors_[2].coef_, expected.coef_)
        assert model.regressors_[2].get_params() == regressor.get_params()
