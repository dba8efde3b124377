"""Tasks with rows of their own, fitted to rows that stand in for others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, Ridge
from sklearn.model_selection import PredefinedSplit

from ctfa import FeatureAggregator, PooledCTFARegressor, TargetAggregator
from ctfa import _reading as check
from generated import examples
from stand_ins import task_stand_ins

#: Descent that ends where no digit moves.
TIGHT = {"tol": 1e-12, "max_iter": 100_000}


def problem(seed=0, n_tasks=8, longest=300, n_features=4):
    """Tasks of two kinds and of many lengths, with offsets, and folds that divide each."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, longest, n_tasks)
    lengths[0] = longest
    index = rng.permutation(np.repeat(np.arange(n_tasks), lengths))
    X = 2.0 + rng.normal(size=(index.size, n_features))
    X[:, 1] += 0.8 * X[:, 0]
    slopes = rng.normal(size=(2, n_features))
    slopes[:, 1] = slopes[:, 0]  # features that may be merged
    slopes = slopes[np.arange(n_tasks) % 2] + 0.02 * rng.normal(size=(n_tasks, n_features))
    y = 7.0 + np.einsum("ij,ij->i", X, slopes[index]) + rng.normal(size=n_tasks)[index]
    return X, y + 2.0 * rng.normal(size=y.size), index, rng.permutation(y.size) % 5


def fit_both(X, y, index, fold, sample_weight=None, *, limit="auto", **options):
    targets = TargetAggregator(max_loss=limit, cv=PredefinedSplit(fold))
    plain = PooledCTFARegressor(targets=targets, **options)
    other = PooledCTFARegressor(targets=targets, **options)
    other.n_features_in_ = X.shape[1]
    sample, target, task = task_stand_ins(X, y, index, fold, sample_weight)
    assert sample.n_samples == len(X)
    known = check.TaskIds(list(range(index.max() + 1)), task)
    other._check_options()
    other._column = None
    return plain.fit(X, y, index, sample_weight), other._fit_read(sample, target, known, None)


def assert_alike(plain, other, X, index):
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    assert other.max_loss_ == plain.max_loss_
    np.testing.assert_allclose(other.history_.loss, plain.history_.loss, rtol=1e-8, atol=1e-8)
    if plain.cv_curve_ is not None:
        np.testing.assert_allclose(
            other.cv_curve_.error, plain.cv_curve_.error, rtol=1e-8, atol=1e-10
        )
    for column in plain.merges_:
        one, two = plain.merges_[column], other.merges_[column]
        if one.dtype.kind == "f":
            np.testing.assert_allclose(two, one, rtol=1e-7, atol=1e-8, err_msg=column)
        else:
            assert list(one) == list(two), column
    for name in ("offsets_", "coef_", "trust_"):
        one, two = getattr(plain, name), getattr(other, name)
        np.testing.assert_allclose(two, one, rtol=1e-7, atol=1e-8, err_msg=name)
    for one, two in zip(plain.features_, other.features_, strict=True):
        np.testing.assert_array_equal(one.labels_, two.labels_)
        np.testing.assert_allclose(two.history_.loss, one.history_.loss, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(
        other.predict(X, index), plain.predict(X, index), rtol=1e-8, atol=1e-8
    )
    assert other.why(0).members == plain.why(0).members
    np.testing.assert_allclose(other.why(0).gain, plain.why(0).gain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("aggregate", [False, True])
def test_rows_that_stand_in_give_the_fit_of_the_rows(head, weighted, aggregate):
    data = problem()
    weights = np.random.default_rng(4).uniform(0.2, 3.0, len(data[0])) if weighted else None
    features = FeatureAggregator() if aggregate else None
    plain, other = fit_both(*data, weights, head=head, features=features)
    assert plain.n_groups_ < 8, "a test in which nothing merges shows little"
    if aggregate:
        assert any(group.n_groups_ < 4 for group in plain.features_)
    assert_alike(plain, other, data[0], data[2])


@pytest.mark.more
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 2**16), longest=st.integers(12, 120), n_tasks=st.integers(2, 6))
def test_any_tasks_are_decided_alike(seed, longest, n_tasks):
    """Tasks shorter than their inputs keep their rows; longer ones are stood in for."""
    X, y, index, fold = problem(seed, n_tasks, longest, n_features=2)
    plain, other = fit_both(X, y, index, fold, head="levels")
    assert_alike(plain, other, X, index)


@pytest.mark.parametrize(
    "regressor",
    [LinearRegression(positive=True), Ridge(5.0), Lasso(0.05, **TIGHT), ElasticNet(0.05, **TIGHT)],
    ids=lambda r: type(r).__name__,
)
def test_linear_regressors_learn_from_rows_that_stand_in(regressor):
    X, y, index, fold = problem(2)
    plain, other = fit_both(X, y, index, fold, limit=1.5, regressor=regressor)
    assert_alike(plain, other, X, index)


@pytest.mark.parametrize("unseen", ["global", "nearest"])
@pytest.mark.parametrize("weighted", [False, True])
def test_strangers_are_predicted_alike(unseen, weighted):
    X, y, index, fold = problem(3)
    X[:, 3] = index  # varies between tasks alone
    weights = np.random.default_rng(4).uniform(0.2, 3.0, len(X)) if weighted else None
    plain, other = fit_both(X, y, index, fold, weights, limit=1.5, unseen=unseen)
    strangers = np.where(np.arange(len(X)) < 50, 100, 200)
    np.testing.assert_allclose(
        other.predict(X, strangers), plain.predict(X, strangers), rtol=1e-8, atol=1e-8
    )


def test_folds_for_features_want_the_rows_themselves():
    data = problem(4)
    with pytest.raises(ValueError, match="gather the rows"):
        fit_both(*data, limit=1.5, features=FeatureAggregator("r2", max_loss=1e-3, cv=5))
