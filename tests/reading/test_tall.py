"""Many rows in memory: few stand in for them where sums have the digits, and decide alike."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator
from ctfa._reading.sums import collection
from ctfa.estimators import targets
from ctfa.estimators.models import HEADS
from generated import examples
from problems import RIDGE


def tall(seed, n_rows=2500, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)) @ rng.normal(size=(4, 4)) + offset
    Y = X @ rng.normal(size=(4, 3))[:, [0, 0, 1, 1, 2]] * 0.3 + rng.normal(size=(n_rows, 5))
    return X, Y, rng


def from_rows(model, *data, **known):
    """The same fit, rows not replaced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collection, "MANY", np.inf)
        return model.fit(*data, **known)


def rows_used(monkeypatch):
    """Numbers of rows that Phase I was posed on, filled as fits go."""
    seen = []
    find = targets.PhaseOne.find

    def watched(phase, **known):
        seen.append(phase.tasks.sample.inputs.shape[0])
        return find(phase, **known)

    monkeypatch.setattr(targets.PhaseOne, "find", watched)
    return seen


@pytest.mark.more
@given(
    st.integers(0, 30),
    st.booleans(),
    st.sampled_from([1.5, "auto"]),
    st.sampled_from([0.0, 1e4]),
    st.sampled_from([None, LinearRegression(), Ridge(3.0)]),
    st.sampled_from(HEADS),
)
@settings(max_examples=examples(50), deadline=None)
def test_tall_data_give_the_model_of_their_rows(seed, weighed, limit, offset, regressor, head):
    X, Y, rng = tall(seed, offset=offset)
    weights = rng.uniform(0.0, 2.0, len(X)) * (rng.uniform(size=len(X)) > 0.1) if weighed else None

    def make():
        targets = TargetAggregator(max_loss=limit, cv=4)
        return CTFARegressor(regressor, targets=targets, head=head)

    one, two = make().fit(X, Y, weights), from_rows(make(), X, Y, weights)
    assert one.partition_ == two.partition_
    assert one.max_loss_ == two.max_loss_
    for mine, theirs in zip(one.features_, two.features_, strict=True):
        assert mine.partition_ == theirs.partition_
    np.testing.assert_allclose(one.history_.loss, two.history_.loss, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.trust_, two.trust_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.predict(X), two.predict(X), rtol=1e-8, atol=1e-8)
    errors = ("gain", "score", "gain_error", "f_statistic")
    for name in errors[:2] if isinstance(regressor, Ridge) else errors:
        np.testing.assert_allclose(one.merges_[name], two.merges_[name], rtol=1e-6, atol=1e-9)
    if isinstance(regressor, Ridge):  # how squared errors scatter is that of Gaussian rows
        np.testing.assert_allclose(one.merges_["gain_error"], two.merges_["gain_error"], rtol=0.3)


@pytest.mark.parametrize("cv", [None, 5])
def test_features_of_tall_data_merge_as_from_their_rows(cv):
    X, Y, _ = tall(3)
    one = FeatureAggregator("r2", max_loss=0.01, cv=cv).fit(X, Y[:, 0])
    two = from_rows(FeatureAggregator("r2", max_loss=0.01, cv=cv), X, Y[:, 0])
    assert one.partition_ == two.partition_
    np.testing.assert_allclose(one.history_.loss, two.history_.loss, rtol=1e-7, atol=1e-12)


@pytest.mark.more
def test_few_rows_stand_in_only_where_they_are_few_and_the_digits_are_there(monkeypatch):
    seen = rows_used(monkeypatch)
    X, Y, _ = tall(0)
    model = CTFARegressor(targets=TargetAggregator(cv=4))
    model.fit(X, Y)
    model.fit(X[:200], Y[:200])  # not many rows
    near = X.copy()
    near[:, 1] = near[:, 0] + 1e-4 * near[:, 1]
    model.fit(near, Y)  # inputs that sums would see with eight digits
    alike = Y.copy()
    alike[:, 1] = alike[:, 0] + 1e-4 * alike[:, 1]
    model.fit(X, alike)  # targets, too
    CTFARegressor(RandomForestRegressor(2, max_depth=2)).fit(X, Y)  # learns from rows
    CTFARegressor(targets=TargetAggregator(regressor=RIDGE, max_loss=1.0)).fit(X, Y)
    assert seen == [4 * 10, 200, 2500, 2500, 2500, 2500]


def test_tall_data_are_refused_as_their_rows_would_be():
    X, Y, _ = tall(0)
    Y[:, 2] = 5.0
    with pytest.raises(ValueError, match="target 'y2' is constant"):
        CTFARegressor().fit(X, Y)


@pytest.mark.parametrize(
    "model", [CTFARegressor(), TargetAggregator()], ids=lambda m: type(m).__name__
)
def test_a_fit_that_is_refused_changes_nothing(model):
    X, Y, _ = tall(0, 300)
    trend = np.sin(np.arange(300))[:, None]
    model.fit(X, Y, confounds=trend)
    before = pickle.dumps(model)
    for bad in ({"X": X[:, :3]}, {"X": X, "y": Y[:-1]}, {"X": X, "sample_weight": -np.ones(300)}):
        wrong = Y.copy()
        wrong[:, 2] = 5.0
        with pytest.raises(ValueError, match=r"target|rows|sample_weight"):
            model.fit(**{"y": wrong, **bad})
        assert pickle.dumps(model) == before
