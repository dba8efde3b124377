"""Targets with inputs of their own, fitted to rows that stand in for others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge

from ctfa import FeatureAggregator, MultiInputCTFARegressor, TargetAggregator
from ctfa.core.partition import Partition
from ctfa.core.series import Series
from ctfa.core.tasks.own_inputs import SharedFit
from generated import examples
from problems import RIDGE, averaged
from stand_ins import stand_ins

#: Descent that ends where no digit moves.
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def problem(seed=0, n=900, n_tasks=7, n_slots=3, *, lacking=False):
    """Tasks of three kinds, on inputs that hardly differ."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1, n_slots))
    common[:, :, 1] += 2.0 * common[:, :, 0]  # slots that may be merged
    inputs = 2.0 + common + 0.03 * rng.normal(size=(n, n_tasks, n_slots))
    coef = rng.normal(size=(3, n_slots))[np.arange(n_tasks) % 3]
    coef[:, 1] = coef[:, 0]
    Y = 5.0 + np.einsum("nlk,lk->nl", inputs, coef) + 3.0 * rng.normal(size=(n, n_tasks))
    layout = np.arange(n_tasks * n_slots).reshape(n_tasks, n_slots)
    if lacking:
        layout[1, 2] = layout[4, 0] = -1
    return inputs.reshape(n, -1), Y, layout


def on_stand_ins(model, X, Y, **data):
    """Fit a model to rows that stand in for those given."""
    sample, targets = stand_ins(X, Y, **data)
    model.n_features_in_, model.layout_ = X.shape[1], np.asarray(model.layout)
    model._library, model._is_vector = None, False
    model._fit_stand_ins(sample, targets)
    return model


def assert_alike(plain, other, X, confounds=None):
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    assert other.max_loss_ == pytest.approx(plain.max_loss_, rel=1e-9)
    assert other.aggregate_ == plain.aggregate_
    np.testing.assert_allclose(other.history_.loss, plain.history_.loss, rtol=1e-8, atol=1e-8)
    if plain.cv_curve_ is not None:
        np.testing.assert_allclose(
            other.cv_curve_.error, plain.cv_curve_.error, rtol=1e-8, atol=1e-10
        )
    for name, error in plain.aggregate_errors_.items():
        assert other.aggregate_errors_[name] == pytest.approx(error, rel=1e-8)
    for column in plain.merges_:
        one, two = plain.merges_[column], other.merges_[column]
        if one.dtype.kind == "f":
            np.testing.assert_allclose(two, one, rtol=1e-6, atol=1e-8, err_msg=column)
        else:
            assert list(one) == list(two), column
    assert hasattr(other, "coef_") == hasattr(plain, "coef_")
    if hasattr(plain, "coef_"):
        np.testing.assert_allclose(other.coef_, plain.coef_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(other.trust_, plain.trust_, rtol=1e-8, atol=1e-8)
    for one, two in zip(plain.features_, other.features_, strict=True):
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_allclose(two.history_.loss, one.history_.loss, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        other.predict(X, confounds=confounds),
        plain.predict(X, confounds=confounds),
        rtol=1e-8,
        atol=1e-8,
    )
    value = plain._evidence.gain.value
    np.testing.assert_allclose(other._evidence.gain.value, value, rtol=1e-7, atol=1e-9)


def assert_stand_in(model_of, X, Y, **data):
    plain = model_of().fit(X, Y, **data)
    assert plain.n_groups_ < Y.shape[1], "a test in which nothing merges shows little"
    other = on_stand_ins(model_of(), X, Y, **data)
    assert_alike(plain, other, X, data.get("confounds"))
    return plain


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("aggregate", ["mean", "pool", "auto"])
@pytest.mark.parametrize("lacking", [False, True])
def test_rows_that_stand_in_give_the_fit_of_the_rows(aggregate, head, lacking):
    X, Y, layout = problem(lacking=lacking)
    assert_stand_in(lambda: MultiInputCTFARegressor(layout, aggregate=aggregate, head=head), X, Y)


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_weights_of_rows_and_targets_count_for_rows_that_stand_in(aggregate):
    X, Y, layout = problem(1)
    rng = np.random.default_rng(5)
    assert_stand_in(
        lambda: MultiInputCTFARegressor(layout, aggregate=aggregate, head="levels"),
        X,
        Y,
        sample_weight=rng.uniform(0.2, 3.0, len(X)),
        target_weight=rng.uniform(0.5, 2.0, Y.shape[1]),
    )


@pytest.mark.more
@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("weighted", [False, True])
def test_confounds_are_taken_off_rows_that_stand_in(aggregate, weighted):
    X, Y, layout = problem(2)
    months = np.eye(12)[np.arange(len(X)) % 12]
    confounds = np.column_stack((months, np.linspace(-1.0, 1.0, len(X))))
    X, Y = X + 0.5 * months[:, :1], Y + confounds[:, -1:] + 2.0 * months[:, 3:4]
    weights = np.random.default_rng(3).uniform(0.5, 2.0, len(X)) if weighted else None
    assert_stand_in(
        lambda: MultiInputCTFARegressor(layout, aggregate=aggregate, features=FeatureAggregator()),
        X,
        Y,
        confounds=confounds,
        sample_weight=weights,
    )


@pytest.mark.more
@pytest.mark.parametrize(
    "features",
    [
        FeatureAggregator(),
        FeatureAggregator(max_loss=1.0, scan="best-first"),
        FeatureAggregator("r2", max_loss=1e-3, cv=10),
    ],
    ids=["risk", "best-first", "folds"],
)
def test_slots_are_merged_as_by_the_rows(features):
    X, Y, layout = problem(3, n_slots=4)
    targets = TargetAggregator(scale="center")
    plain = assert_stand_in(lambda: averaged(layout, targets=targets, features=features), X, Y)
    assert any(group.n_groups_ < 4 for group in plain.features_)


@pytest.mark.parametrize("scale", ["standard", "center", "none"])
@pytest.mark.parametrize("criterion", ["risk", "mse", "corollary"])
def test_every_criterion_and_unit_counts_what_rows_stand_for(criterion, scale):
    X, Y, layout = problem(4)
    targets = TargetAggregator(criterion, scale=scale, max_loss="auto")
    if criterion != "risk":
        targets.set_params(max_loss=0.0 if criterion == "mse" else 1.0)
    assert_stand_in(lambda: averaged(layout, targets=targets), X, Y)


@pytest.mark.parametrize(
    "regressor",
    [LinearRegression(positive=True), Ridge(30.0), Lasso(0.05, **TIGHT), ElasticNet(0.05, **TIGHT)],
    ids=lambda r: type(r).__name__,
)
@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_linear_regressors_learn_from_rows_that_stand_in(regressor, aggregate):
    X, Y, layout = problem(5)
    # By themselves they would judge, too, and that needs the rows.
    options = {"targets": TargetAggregator(regressor=LinearRegression()), "aggregate": aggregate}
    assert_stand_in(lambda: MultiInputCTFARegressor(layout, regressor, **options), X, Y)


@settings(max_examples=examples(15), deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n=st.integers(60, 400),
    n_folds=st.integers(2, 6),
    aggregate=st.sampled_from(["mean", "pool"]),
)
def test_any_data_are_decided_alike(seed, n, n_folds, aggregate):
    X, Y, layout = problem(seed, n, n_tasks=4, n_slots=2)
    plain = MultiInputCTFARegressor(
        layout, targets=TargetAggregator(cv=n_folds), aggregate=aggregate, head="levels"
    )
    other = on_stand_ins(
        MultiInputCTFARegressor(**plain.get_params(deep=False)), X, Y, n_folds=n_folds
    )
    assert_alike(plain.fit(X, Y), other, X)


def test_ridge_and_gaps_want_the_rows_themselves():
    X, Y, layout = problem(6)
    ridge = MultiInputCTFARegressor(layout, targets=TargetAggregator(regressor=RIDGE, max_loss=1.0))
    with pytest.raises(ValueError, match="gather the rows"):
        on_stand_ins(ridge, X, Y)
    shared = MultiInputCTFARegressor(
        layout,
        targets=TargetAggregator(max_loss=1.5),
        features=FeatureAggregator("r2", max_loss=1e-3, cv=5),
        aggregate="pool",
    )
    with pytest.raises(ValueError, match="gather the rows"):
        on_stand_ins(shared, X, Y)


@pytest.mark.more
def test_errors_of_gains_are_those_of_gaussian_rows():
    """Second moments know no fourth ones: for Gaussian rows both say the same, up to chance."""
    X, Y, layout = problem(7, n=20_000)
    targets = TargetAggregator(max_loss=1.5)
    plain = MultiInputCTFARegressor(layout, targets=targets).fit(X, Y)
    other = on_stand_ins(MultiInputCTFARegressor(layout, targets=targets), X, Y)
    error = plain._evidence.gain.standard_error
    assert (error > 0.0).sum() > 3
    np.testing.assert_allclose(other._evidence.gain.standard_error, error, rtol=0.1)


def test_shares_of_rows_are_counted_and_not_rows():
    """A group's fit spends on a member by the rows that this stands for."""
    X, Y, layout = problem(8, n=50, n_tasks=2)
    plain = Series.of(X, layout, Y)
    twice = Series.of(X, layout, Y, np.full(50, 2.0), counts=np.full(50, 2.0))
    assert twice.n_samples == 100 == pytest.approx(twice.weights.sum())
    some = twice.take(np.arange(20))
    assert some.n_samples == 40 == pytest.approx(some.weights.sum())
    doubled = Series.of(np.vstack([X, X]), layout, np.vstack([Y, Y]))
    together = Partition(np.zeros(2, dtype=int))
    risks = [
        SharedFit(series.standardised("standard")[0], penalised=False).squares(together).mean()
        for series in (plain, twice, doubled)
    ]
    np.testing.assert_allclose(risks[1], risks[2], rtol=1e-12)
    assert (risks[0] > risks[2]).all()


@pytest.mark.parametrize("lacking", [False, True])
def test_rows_of_all_folds_are_compressed_to_what_their_series_need(lacking):
    X, Y, layout = problem(9, n=2_000, lacking=lacking)
    sample, targets = stand_ins(X, Y, sample_weight=np.linspace(0.5, 1.5, len(X)))
    data = sample.inputs, layout, targets.values, sample.weights
    series = Series.of(*data, counts=sample.counts).standardised("standard")[0]
    short = series.compressed()
    n_series = int(series.has.sum()) + series.n_tasks
    assert short.n_rows == n_series + 1 < series.n_rows
    assert short.n_samples == series.n_samples == 2_000
    known = np.concatenate((series.has, np.ones((7, 1), dtype=bool)), axis=1)
    for part in (series, short):
        assert (np.isnan(part.values).all(axis=2) == ~known).all()
        assert part.weights.sum() == pytest.approx(2_000)
    one, two = (
        (part.weights * part.values[known]) @ part.values[known].T for part in (series, short)
    )
    np.testing.assert_allclose(two, one, rtol=1e-11, atol=1e-8)
    np.testing.assert_allclose(short.values[known] @ short.weights, 0.0, atol=1e-9)
    themselves = Series.of(X, layout, Y)
    assert themselves.compressed() is themselves
