"""One BLAS thread while groups are searched, cores for folds and groups, the same result always."""

import functools
import threading

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_info, threadpool_limits

import ctfa._threads
from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    feature_path,
    target_path,
)
from ctfa._threads import one_thread
from ctfa.core.design import Design
from ctfa.core.scans import SCANS
from ctfa.datasets import make_paper_synthetic


def blas_threads():
    """How many threads the libraries of numpy and scipy have now."""
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two():
    """Two threads, whatever the machine has."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("this BLAS cannot be told how many threads to use")
        yield


def shared(n_samples=120, n_features=8, n_targets=6):
    return make_paper_synthetic(n_samples, n_features, n_targets, random_state=0)


def own(n_targets=8):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 3 * n_targets))
    layout = np.arange(3 * n_targets).reshape(n_targets, 3)
    return X, X[:, layout[:, 0]] + rng.normal(size=(90, n_targets)), layout


def pooled():
    rng = np.random.default_rng(3)
    X, tasks = rng.normal(size=(240, 3)), np.repeat(np.arange(8), 30)
    return X, X[:, 0] * np.where(tasks < 4, 1.0, -1.0) + rng.normal(size=240), tasks


def fit_own(**options):
    X, Y, layout = own()
    return MultiInputCTFARegressor(layout, **options).fit(X, Y)


def fit_pooled(**options):
    X, y, tasks = pooled()
    return PooledCTFARegressor(**options).fit(X, y, tasks=tasks)


X, Y = shared()
DOORS = {
    "TargetAggregator.fit": lambda: TargetAggregator().fit(X, Y),
    "FeatureAggregator.fit": lambda: FeatureAggregator().fit(X, Y[:, 0]),
    "CTFARegressor.fit": lambda: CTFARegressor().fit(X, Y),
    "CTFARegressor.partial_fit": lambda: CTFARegressor().partial_fit(X, Y),
    "CTFARegressorCV.fit": lambda: CTFARegressorCV(cv=3).fit(X, Y),
    "MultiInputCTFARegressor.fit": fit_own,
    "PooledCTFARegressor.fit": fit_pooled,
    "target_path": lambda: target_path(X, Y, [1.0, 2.0]),
    "feature_path": lambda: feature_path(X, Y[:, 0], [1.0, 2.0]),
    "stability": lambda: CTFARegressor().fit(X, Y).stability(X, Y, random_state=0),
    "compare": lambda: CTFARegressor().fit(X, Y).compare(X, Y),
}


def watched(work, seen):
    """The same work, which notes how many threads it has."""

    @functools.wraps(work)
    def run(*given, **known):
        seen.update(blas_threads())
        return work(*given, **known)

    return run


@pytest.mark.more
@pytest.mark.parametrize("door", DOORS)
def test_searches_factorizations_and_least_squares_have_one_thread(door, two, monkeypatch):
    if door == "compare":
        pytest.importorskip("pandas")
    scans, others = set(), set()
    for name, scan in SCANS.items():
        monkeypatch.setitem(SCANS, name, watched(scan, scans))
    monkeypatch.setattr(Design, "of", staticmethod(watched(Design.of, others)))
    monkeypatch.setattr(LinearRegression, "fit", watched(LinearRegression.fit, others))
    DOORS[door]()
    assert scans == {1}
    assert others <= {1}
    assert blas_threads() == {2}


class Watching(RegressorMixin, BaseEstimator):
    """A regressor of the user's."""

    def fit(self, X, y):
        self.threads_ = blas_threads()
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.more
@pytest.mark.parametrize("fit", [lambda r: CTFARegressor(r).fit(X, Y), fit_own, fit_pooled])
def test_a_regressor_of_the_user_keeps_its_threads(fit, two):
    model = fit(Watching()) if fit not in (fit_own, fit_pooled) else fit(regressor=Watching())
    assert all(regressor.threads_ == {2} for regressor in model.regressors_)


def test_what_is_large_keeps_its_threads_and_its_scans_do_not(two, monkeypatch):
    factored, scanned = set(), set()
    monkeypatch.setattr(ctfa._threads, "LARGE", 1.0)
    monkeypatch.setattr(Design, "of", staticmethod(watched(Design.of, factored)))
    monkeypatch.setitem(SCANS, "best-first", watched(SCANS["best-first"], scanned))
    TargetAggregator().fit(X, Y)
    assert (factored, scanned) == ({2}, {1})


def test_a_fit_that_fails_gives_the_threads_back(two):
    def broken(evidence):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        TargetAggregator(broken, max_loss=1.0).fit(X, Y)
    assert blas_threads() == {2}


@pytest.mark.parametrize("first", ["this", "the other"])
def test_threads_that_come_and_go_leave_no_limit_behind(first, two):
    inside, go_on = threading.Event(), threading.Event()

    def stay():
        with one_thread():
            inside.set()
            go_on.wait(60.0)

    other = threading.Thread(target=stay)
    if first == "the other":
        other.start()
        inside.wait(60.0)
        with one_thread():
            go_on.set()
            other.join()
    else:
        with one_thread():
            other.start()
            inside.wait(60.0)
            assert blas_threads() == {1}
        go_on.set()
        other.join()
    assert blas_threads() == {2}


def results(model):
    """Everything that was decided, and every number that predicts."""
    found = [model.labels_, model.max_loss_, model.cv_curve_.fold_errors, model.history_.loss]
    for features, regressor in zip(model.features_, model.regressors_, strict=True):
        found += [features.labels_, regressor.coef_, regressor.intercept_]
    return found


#: Large enough for two threads to round otherwise than one.
WIDE = shared(1000, 150, 10)
FITS = {
    "shared inputs": lambda n: CTFARegressor(n_jobs=n).fit(*WIDE),
    "own inputs": lambda n: fit_own(targets=TargetAggregator(), n_jobs=n),
    "own rows": lambda n: fit_pooled(n_jobs=n),
}


@pytest.mark.more
@pytest.mark.parametrize("kind", FITS)
def test_neither_threads_nor_workers_change_a_bit(kind, two):
    with threadpool_limits(1, user_api="blas"):
        expected = results(FITS[kind](None))
    for again in (FITS[kind](None), FITS[kind](2)):
        for one, other in zip(expected, results(again), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.more
def test_workers_that_are_threads_change_nothing_either(two):
    expected = results(FITS["shared inputs"](None))
    with parallel_config(backend="threading"):
        again = results(FITS["shared inputs"](2))
    for one, other in zip(expected, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert blas_threads() == {2}


@pytest.mark.more
def test_predictions_agree_to_rounding(two):
    model = FITS["shared inputs"](None)
    with threadpool_limits(1, user_api="blas"):
        one = model.predict(WIDE[0])
    np.testing.assert_allclose(model.predict(WIDE[0]), one, rtol=1e-12, atol=1e-12)
