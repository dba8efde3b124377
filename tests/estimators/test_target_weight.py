"""Targets that count for more than others: a weight of two is a target given twice."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    MultiInputCTFARegressor,
    TargetAggregator,
    multi_input_layout,
    target_path,
)
from ctfa._reading import read_sample
from ctfa.core.criteria import target_risk
from ctfa.core.levels import TEMPERS, Levels, Tempers
from ctfa.core.members import gain
from ctfa.core.partition import Partition
from ctfa.core.ridge import Factors
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.core.series import Series
from ctfa.core.spaces.paired import LeastSquares, PairedSpace, Penalised
from ctfa.core.spaces.pooled import PooledSpace
from ctfa.core.tasks.shared import SharedInputs
from ctfa.estimators.models import HEADS
from ctfa.estimators.search import read_rule
from generated import examples
from problems import JUDGES, RIDGE, averaged

WEIGHTS = np.array([1, 3, 2, 1, 2, 4])
#: Each target as often as it counts, and where each is first.
COPIES = np.repeat(np.arange(6), WEIGHTS)
FIRST = np.concatenate(([0], np.cumsum(WEIGHTS)[:-1]))


def shared(seed=0, n=80, D=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    coef = np.where(np.arange(6) < 3, 1.0, -1.0) * rng.uniform(0.5, 1.5, size=(D, 1))
    coef = coef + 0.3 * rng.normal(size=(D, 6))
    return X, X @ coef + 2.0 * rng.normal(size=(n, 6)) + np.arange(6.0)


def own(seed=0, n=80, K=3, gaps=0.0, lacking=False):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, 1, K)) + 0.5 * rng.normal(size=(n, 6, K))
    coef = np.where(np.arange(6)[:, None] < 3, 1.0, -1.0) + 0.2 * rng.normal(size=(6, K))
    Y = np.einsum("nlk,lk->nl", inputs, coef) + 1.5 * rng.normal(size=(n, 6)) + np.arange(6.0)
    inputs[rng.uniform(size=inputs.shape) < gaps] = np.nan
    Y[rng.uniform(size=Y.shape) < gaps] = np.nan
    X, layout = multi_input_layout(inputs)
    if lacking:
        layout[1, 2] = layout[4, 0] = -1
    return X, layout, Y


def fixed(max_loss=1.0, **options):
    return TargetAggregator(max_loss=max_loss, **options)


def same_groups(weighed, repeated):
    """Whether the groups are the same, copies with each other."""
    return Partition(weighed.labels_[COPIES]) == repeated.partition_


@pytest.mark.more
@settings(max_examples=examples(50), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["standard", "center"]),
    st.sampled_from([None, *JUDGES.values()]),
    st.sampled_from([None, LinearRegression(), Ridge(3.0)]),
    st.sampled_from(HEADS),
    st.sampled_from(["best-first", "correlation"]),
    st.sampled_from([0.0, 1.0, 3.0, np.inf]),
)
def test_shared_inputs_a_weight_of_two_is_a_target_given_twice(
    seed, scale, judge, regressor, head, scan, max_loss
):
    X, Y = shared(seed)
    if judge is RIDGE or isinstance(regressor, Ridge):
        max_loss = np.inf  # with penalties some pairs are even better than copies, and merge first
    targets = fixed(max_loss, scale=scale, regressor=judge, scan=scan)
    weighed = CTFARegressor(regressor, targets=targets, head=head)
    weighed.fit(X, Y, target_weight=WEIGHTS)
    repeated = CTFARegressor(regressor, targets=targets, head=head).fit(X, Y[:, COPIES])
    assert same_groups(weighed, repeated)
    np.testing.assert_allclose(weighed.predict(X), repeated.predict(X)[:, FIRST], atol=1e-8)
    np.testing.assert_allclose(weighed.trust_, repeated.trust_[FIRST], atol=1e-8)
    one, two = weighed._evidence, repeated._evidence
    assert one.held_out == two.held_out == (regressor is None)
    # A target by itself saves nothing; its copies form a group, whose model is tempered.
    merged = weighed.partition_.sizes[weighed.labels_] > 1
    for mine, theirs in zip(one.gain, two.gain, strict=True):
        np.testing.assert_allclose(mine[merged], theirs[FIRST][merged], atol=1e-8)
    # Merges of copies gain nothing, and every other is that of weights of mean one.
    for name in ("gain", "score"):
        total = weighed.merges_[name].sum(), repeated.merges_[name].sum()
        assert total[0] == pytest.approx(total[1] / WEIGHTS.mean(), abs=1e-8)


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, *JUDGES.values(), Ridge(3.0)]))
def test_shared_inputs_weighted_targets_answer_like_merged_copies(seed, judge):
    X, Y = shared(seed)
    rule = read_rule(fixed(), judge)
    sample, share = read_sample(TargetAggregator(), X, None), WEIGHTS / WEIGHTS.mean()
    weighed = SharedInputs(sample, Y, share).fits(rule).space()
    repeated = SharedInputs(sample, Y[:, COPIES]).fits(rule).space()
    for first, weight in zip(FIRST.tolist(), WEIGHTS.tolist(), strict=True):
        for copy in range(first + 1, first + weight):
            repeated.merge(first, copy)
    loss = rule.criterion.by_ridge().loss if rule.solver == "ridge" else target_risk
    for block, other in ((0, 1), (2, 3), (0, 2)):
        others = np.array([task for task in range(6) if task not in (block, 3)])
        mine = weighed.evidence(block, others)
        theirs = repeated.evidence(int(FIRST[block]), FIRST[others])
        np.testing.assert_allclose(loss(mine), loss(theirs), rtol=1e-6, atol=1e-8)
        expected = gain(theirs).value / WEIGHTS.mean()
        np.testing.assert_allclose(gain(mine).value, expected, rtol=1e-6, atol=1e-9)
        weighed.merge(block, other)
        repeated.merge(int(FIRST[block]), int(FIRST[other]))


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 3), min_size=6, max_size=6),
    st.one_of(
        st.sampled_from(TEMPERS).map(lambda one: Tempers(*(Factors((k,)) for k in one))),
        st.sampled_from(TEMPERS).map(
            lambda one: Tempers(*(Factors((1.0, k, 1 / 8), (0.5, 0.3, 0.2)) for k in one))
        ),
    ),
)
def test_models_of_groups_of_weighted_targets_are_those_of_copies(seed, labels, temper):
    X, Y = shared(seed)
    Y = Y - Y.mean(axis=0)
    factored = RidgeFit.factor(X)
    partition, copies = Partition(np.array(labels)), Partition(np.array(labels)[COPIES])
    weighed = Levels(factored, Y, WEIGHTS / WEIGHTS.mean())
    repeated = Levels(factored, Y[:, COPIES])
    one, two = weighed.parts(partition), repeated.parts(copies)
    np.testing.assert_allclose(one.mean_penalty, two.mean_penalty)
    # The penalty of deviations is one of their weighted squares; copies do not deviate.
    np.testing.assert_allclose(one.apart_penalty, two.apart_penalty)
    for verb, k, columns in (
        ("group_coefficients", temper.mean, slice(None)),
        ("deviations", temper.apart, FIRST),
    ):
        mine, theirs = getattr(weighed, verb)(one, k), getattr(repeated, verb)(two, k)
        np.testing.assert_allclose(mine, theirs[:, columns], atol=1e-10)
    trust = repeated.trust(two, temper.apart)[FIRST]
    np.testing.assert_allclose(weighed.trust(one, temper.apart), trust)


@pytest.mark.parametrize("judge", [None, *JUDGES.values()])
def test_shared_inputs_limits_are_judged_by_weighted_errors(judge):
    X, Y = shared()
    weighed = TargetAggregator(cv=4, regressor=judge).fit(X, Y, target_weight=WEIGHTS)
    repeated = TargetAggregator(cv=4, regressor=judge).fit(X, Y[:, COPIES])
    one, two = weighed.cv_curve_, repeated.cv_curve_
    at = one.max_loss >= 0.0  # below, copies would not merge
    np.testing.assert_allclose(one.fold_errors[:, at], two.fold_errors[:, at], rtol=1e-8)
    np.testing.assert_array_equal(one.n_groups[at], two.n_groups[at])


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, LeastSquares(), Penalised()]),
    st.booleans(),
    st.booleans(),
)
def test_own_inputs_spaces_of_weighted_tasks_answer_like_merged_copies(
    seed, reading, gappy, lacking
):
    gappy = gappy and reading is not None
    X, layout, Y = own(seed, gaps=0.1 if gappy else 0.0, lacking=lacking)
    series = Series.of(X, layout, Y).standardised("standard")[0]
    share = WEIGHTS / WEIGHTS.mean()
    counts = {}
    if reading is not None:  # row by row, by this reading
        least = (share / share.min())[:, None, None]
        counts = {"counts": np.broadcast_to(least, series.values.shape)}
    reading = reading or LeastSquares()
    weighed = PairedSpace.of_series(series, reading, sizes=share, **counts)
    copies = series.of_tasks(COPIES)
    ones = {name: np.ones(copies.values.shape) for name in counts}
    repeated = PairedSpace.of_series(copies, reading, **ones)
    for first, weight in zip(FIRST.tolist(), WEIGHTS.tolist(), strict=True):
        for copy in range(first + 1, first + weight):
            repeated.merge(first, copy)
    living = list(range(6))
    for block, other in ((0, 1), (2, 3), (0, 2)):
        others = np.array([task for task in living if task != block])
        mine = weighed.evidence(block, others)
        theirs = repeated.evidence(int(FIRST[block]), FIRST[others])
        np.testing.assert_allclose(target_risk(mine), target_risk(theirs), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            gain(mine).value, gain(theirs).value / WEIGHTS.mean(), rtol=1e-6, atol=1e-9
        )
        correlations = weighed.correlation(block, others)
        expected = repeated.correlation(int(FIRST[block]), FIRST[others])
        np.testing.assert_allclose(correlations, expected, atol=1e-9)
        weighed.merge(block, other)
        repeated.merge(int(FIRST[block]), int(FIRST[other]))
        living.remove(other)


@pytest.mark.parametrize("max_loss", [0.0, 1.0, np.inf])
@pytest.mark.parametrize("gaps", [0.0, 0.05])
@pytest.mark.parametrize("judge", [LinearRegression(), Ridge(3.0), RIDGE])
@pytest.mark.parametrize("scale", ["standard", "none"])
def test_own_inputs_a_weight_of_two_is_a_target_given_twice(max_loss, gaps, judge, scale):
    X, layout, Y = own(gaps=gaps, lacking=True)
    # Copies first: with inputs of their own some pairs are even better than copies.
    targets = fixed(max_loss, scan="correlation", regressor=judge, scale=scale)
    weighed = averaged(layout, targets=targets)
    weighed.fit(X, Y, target_weight=WEIGHTS)
    repeated = averaged(layout[COPIES], targets=targets).fit(X, Y[:, COPIES])
    assert same_groups(weighed, repeated)
    assert weighed.n_groups_ < 6
    whole = np.where(np.isnan(X), 0.0, X)
    np.testing.assert_allclose(weighed.predict(whole), repeated.predict(whole)[:, FIRST], atol=1e-8)
    total = weighed.merges_["gain"].sum(), repeated.merges_["gain"].sum()
    assert total[0] == pytest.approx(total[1] / WEIGHTS.mean(), rel=1e-5, abs=1e-8)
    mine, theirs = weighed._evidence.gain.value, repeated._evidence.gain.value
    np.testing.assert_allclose(mine, theirs[FIRST], atol=1e-8)


@pytest.mark.more
@pytest.mark.parametrize("gaps", [0.0, 0.05])
def test_own_inputs_limits_are_judged_by_weighted_errors(gaps):
    X, layout, Y = own(gaps=gaps)
    targets = TargetAggregator(cv=4, scan="correlation")
    weighed = averaged(layout, targets=targets)
    one = weighed.fit(X, Y, target_weight=WEIGHTS).cv_curve_
    two = averaged(layout[COPIES], targets=targets).fit(X, Y[:, COPIES]).cv_curve_
    at = one.max_loss >= 0.0
    np.testing.assert_allclose(one.fold_errors[:, at], two.fold_errors[:, at], rtol=1e-8)


def test_shared_coefficients_are_judged_by_weighted_errors():
    X, layout, Y = own()
    train, test = np.arange(20, 80), np.arange(20)
    targets = TargetAggregator(cv=[(train, test)])
    model = averaged(layout, targets=targets, aggregate="pool")
    curve = model.fit(X, Y, target_weight=WEIGHTS).cv_curve_
    for k in (0, 7, curve.max_loss.size - 1):
        alone = averaged(layout, targets=fixed(curve.max_loss[k]), aggregate="pool")
        alone.fit(X[train], Y[train], target_weight=WEIGHTS)
        gap = (Y[test] - alone.predict(X[test])) / model.targets_.scales_
        expected = np.average((gap**2).mean(axis=0), weights=WEIGHTS)
        assert curve.fold_errors[0, k] == pytest.approx(expected)


def test_coefficients_are_shared_where_the_weighted_risk_falls():
    X, layout, Y = own(n=40)
    share = WEIGHTS / WEIGHTS.mean()
    model = MultiInputCTFARegressor(layout, targets=fixed(np.inf), aggregate="pool")
    merges = model.fit(X, Y, target_weight=WEIGHTS).merges_
    plain = model.fit(X, Y).merges_
    assert not np.allclose(merges["f_star"], plain["f_star"])
    scaled = Series.of(X, layout, Y).standardised("standard")[0].values
    tasks = [task[:-1].T for task in scaled], [task[-1] for task in scaled]
    weighed, alike = PooledSpace.of(*tasks, weights=share), PooledSpace.of(*tasks)
    mean_gain = alike.side_gains(1, 4)
    # What each of the two gains does not depend on what it counts; the sum does.
    expected = (1.0 + 1.0 / 40.0) * (share[[1, 4]] @ mean_gain)
    got = gain(weighed.evidence(1, np.array([4]))).value
    np.testing.assert_allclose(got, expected)


def estimators():
    X, Y = shared()
    X_own, layout, Y_own = own()
    return {
        "shared": (CTFARegressor, X, Y),
        "own": (lambda **options: MultiInputCTFARegressor(layout, **options), X_own, Y_own),
    }


@pytest.mark.more
@pytest.mark.parametrize("kind", ["shared", "own"])
def test_only_ratios_of_weights_matter_and_equal_ones_are_none(kind):
    make, X, Y = estimators()[kind]
    plain = make().fit(X, Y)
    equal = make().fit(X, Y, target_weight=np.full(6, 0.3))
    np.testing.assert_array_equal(equal.predict(X), plain.predict(X))
    assert equal.targets_.target_weight_ is None
    one = make(targets=fixed()).fit(X, Y, target_weight=WEIGHTS)
    two = make(targets=fixed()).fit(X, Y, target_weight=1000.0 * WEIGHTS)
    np.testing.assert_allclose(one.predict(X), two.predict(X))
    np.testing.assert_allclose(one.merges_["gain"], two.merges_["gain"])
    assert one.targets_.target_weight_.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_means_are_weighted_wherever_they_are_shown(kind):
    make, X, Y = estimators()[kind]
    model = make(targets=fixed(np.inf)).fit(X, Y, target_weight=WEIGHTS)
    (task,) = model.reduce(X, Y)
    np.testing.assert_allclose(task.target, np.average(Y, axis=1, weights=WEIGHTS))
    units = (Y - model.targets_.offsets_) / model.targets_.scales_
    expected = np.average(units, axis=1, weights=WEIGHTS)
    np.testing.assert_allclose(model.targets_.transform(Y)[:, 0], expected)
    gappy = Y.copy()
    gappy[:, 1] = np.nan
    rest = np.delete(units, 1, axis=1)
    expected = np.average(rest, axis=1, weights=np.delete(WEIGHTS, 1))
    np.testing.assert_allclose(model.targets_.transform(gappy)[:, 0], expected)


@pytest.mark.more
@pytest.mark.parametrize("kind", ["shared", "own"])
def test_comparisons_and_subsamples_weigh_alike(kind):
    make, X, Y = estimators()[kind]
    targets = fixed(1.0, scan="correlation")
    model = make(targets=targets).fit(X, Y, target_weight=WEIGHTS)
    splits = [(np.arange(20, 80), np.arange(20))]
    table = model.compare(X, Y, cv=splits)
    alone = make(targets=targets).fit(X[20:], Y[20:], target_weight=WEIGHTS)
    expected = ((Y[:20] - alone.predict(X[:20])) ** 2).mean(axis=0) / Y.var(axis=0)
    np.testing.assert_allclose(table["error"], expected)
    model.stability(X, Y, cv=splits)
    labels = model.stability_labels_[0]
    assert Partition(labels) == alone.partition_


def test_a_large_target_draws_its_group():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    Y = X @ [[1.0, 2.0]] + 0.1 * rng.normal(size=(60, 2))
    targets = fixed(np.inf, scale="center")
    for weight, slope in ((np.array([1.0, 1.0]), 1.5), (np.array([1.0, 9.0]), 1.9)):
        model = CTFARegressor(targets=targets, features="passthrough")
        model.fit(X, Y, target_weight=weight)
        assert model.regressors_[0].coef_[0] == pytest.approx(slope, abs=0.05)


def test_confounds_and_weights_go_together():
    X, layout, Y = own()
    B = np.eye(12)[np.arange(80) % 12]
    targets = fixed(1.0, scan="correlation")
    weighed = averaged(layout, targets=targets)
    weighed.fit(X, Y, confounds=B, target_weight=WEIGHTS)
    repeated = averaged(layout[COPIES], targets=targets)
    repeated.fit(X, Y[:, COPIES], confounds=B)
    assert same_groups(weighed, repeated)
    expected = repeated.predict(X, confounds=B)[:, FIRST]
    np.testing.assert_allclose(weighed.predict(X, confounds=B), expected, atol=1e-8)


def test_a_path_weighs_too():
    X, Y = shared()
    (point,) = target_path(X, Y, [1.0], target_weight=WEIGHTS)
    aggregator = TargetAggregator(max_loss=1.0).fit(X, Y, target_weight=WEIGHTS)
    assert point.partition == aggregator.partition_
    X, layout, Y = own()
    (point,) = target_path(X, Y, [1.0], target_weight=WEIGHTS, layout=layout)
    model = averaged(layout, targets=fixed()).fit(X, Y, target_weight=WEIGHTS)
    assert point.partition == model.partition_


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_bad_weights_are_refused_in_words(kind):
    make, X, Y = estimators()[kind]
    with pytest.raises(ValueError, match="one weight for each target"):
        make().fit(X, Y, target_weight=np.ones(5))
    with pytest.raises(ValueError, match="one number for each target"):
        make().fit(X, Y, target_weight=["large"] * 6)
    for bad in (0.0, -1.0, np.nan, np.inf):
        weights = WEIGHTS.astype(float)
        weights[2] = bad
        with pytest.raises(ValueError, match=r"target 'y2' is .* positive and finite"):
            make().fit(X, Y, target_weight=weights)
    with pytest.raises(ValueError, match=r"order='correlation' counts every target the same"):
        make(targets=fixed(order="correlation")).fit(X, Y, target_weight=WEIGHTS)


def test_what_cannot_be_weighed_is_refused():
    X, Y = shared()
    for option, words in (({"flip": True}, "flip=True"), ({"guard": "member"}, "guard='member'")):
        with pytest.raises(ValueError, match=f"{words} counts every target the same"):
            CTFARegressor(targets=fixed(**option)).fit(X, Y, target_weight=WEIGHTS)
    with pytest.raises(ValueError, match="CTFARegressorCV takes no target_weight"):
        CTFARegressorCV().fit(X, Y, target_weight=WEIGHTS)
    Y[3, 2] = np.nan
    with pytest.raises(ValueError, match="missing values"):
        CTFARegressor().fit(X, Y, target_weight=WEIGHTS)
    X, layout, Y = own()
    judged = {"targets": fixed(regressor=RIDGE)}
    model = MultiInputCTFARegressor(layout, aggregate="pool", **judged)
    with pytest.raises(ValueError, match=r"aggregate='pool' with regressor=RidgeCV\(\) counts"):
        model.fit(X, Y, target_weight=WEIGHTS)
    model = MultiInputCTFARegressor(layout, **judged).fit(X, Y, target_weight=WEIGHTS)
    assert model.aggregate_ == "mean"
