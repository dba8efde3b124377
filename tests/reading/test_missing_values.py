"""Missing values in the targets, from the data to the prediction."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import TimeSeriesSplit, cross_val_score

from ctfa import CTFARegressor, CTFARegressorCV, TargetAggregator, nonlinctfa, target_path
from ctfa.core.ridge import Ridge as RidgeFit
from ctfa.datasets import make_paper_synthetic
from problems import RIDGE

X, COMPLETE = make_paper_synthetic(160, 6, 8, noise=3.0, random_state=1)
GAPS = np.random.default_rng(2).random(COMPLETE.shape) < 0.15
Y = np.where(GAPS, np.nan, COMPLETE)
NEW = np.random.default_rng(3).normal(size=(20, 6))


def fitted_by_hand(regressor, inputs, target):
    """A regressor, or without one ridge regression by restricted likelihood, of complete rows."""
    if regressor is not None:
        return regressor.fit(inputs, target)
    length = np.sqrt(((inputs - inputs.mean(axis=0)) ** 2).sum(axis=0))
    centred = (target - target.mean())[:, None]
    model = Ridge(RidgeFit.of(inputs, centred).penalty[0]).fit(inputs / length, target)
    model.coef_ = model.coef_ / length
    return model


def test_gaps_hardly_change_the_groups():
    complete = CTFARegressor().fit(X, COMPLETE)
    gappy = CTFARegressor().fit(X, Y)
    assert gappy.partition_ == complete.partition_
    spread = COMPLETE.std()
    assert np.abs(gappy.predict(NEW) - complete.predict(NEW)).max() < 0.3 * spread


def test_offsets_and_scales_are_those_of_the_observed_rows():
    model = TargetAggregator(max_loss=1.5).fit(X, Y)
    np.testing.assert_allclose(model.offsets_, np.nanmean(Y, axis=0))
    np.testing.assert_allclose(model.scales_, np.nanstd(Y, axis=0))


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_a_group_is_trained_on_the_mean_of_its_observed_members(regressor):
    model = CTFARegressor(regressor, features="passthrough", head="mean").fit(X, Y)
    means = model.targets_.transform(Y)
    for group, members in enumerate(model.partition_.groups):
        units = (Y[:, members] - model.targets_.offsets_[members]) / model.targets_.scales_[members]
        expected = np.nanmean(units, axis=1)
        np.testing.assert_allclose(means[:, group], expected)
        plain = fitted_by_hand(regressor, X, expected)
        np.testing.assert_allclose(model.regressors_[group].predict(NEW), plain.predict(NEW))


@pytest.mark.more
def test_a_row_that_no_member_has_is_left_out():
    holes = Y.copy()
    holes[5] = np.nan
    for head in ("mean", "levels"):
        model = CTFARegressor(head=head).fit(X, holes)
        without = CTFARegressor(head=head).fit(np.delete(X, 5, 0), np.delete(holes, 5, 0))
        # The folds that choose the limit move by a row; the groups are the same.
        assert model.partition_ == without.partition_
        np.testing.assert_allclose(model.predict(NEW), without.predict(NEW), rtol=1e-8)
    assert np.isnan(model.targets_.transform(holes)[5]).all()


@pytest.mark.parametrize("regressor", [None, RidgeCV(), RandomForestRegressor(5, random_state=0)])
def test_any_regressor_and_head_take_gaps(regressor):
    model = CTFARegressor(regressor, head="levels").fit(X, Y)
    assert np.isfinite(model.predict(NEW)).all()
    assert 0.0 < model.score(X, Y) < 1.0
    scores = model.score_per_target(X, Y)
    rows = ~np.isnan(Y[:, 2])
    guess = model.predict(X)[rows, 2]
    left = ((Y[rows, 2] - guess) ** 2).sum() / ((Y[rows, 2] - Y[rows, 2].mean()) ** 2).sum()
    assert scores[2] == pytest.approx(1.0 - left)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_targets_by_themselves_are_fitted_on_their_own_rows(regressor):
    model = CTFARegressor(regressor, targets="passthrough", features="passthrough").fit(X, Y)
    for k in range(Y.shape[1]):
        rows = ~np.isnan(Y[:, k])
        plain = fitted_by_hand(regressor, X[rows], Y[rows, k])
        np.testing.assert_allclose(model.predict(NEW)[:, k], plain.predict(NEW), rtol=1e-9)


def test_late_starters_join_and_gain_most():
    inputs, short = make_paper_synthetic(160, 6, 8, noise=6.0, random_state=0)
    short[:130, 0] = np.nan  # thirty rows of its own
    model = CTFARegressor().fit(inputs, short)
    partners = np.flatnonzero(model.labels_ == model.labels_[0])
    assert partners.size > 1
    gains = model._evidence.gain.value[partners]
    assert gains[0] == gains.max() > 0.0
    assert "trusts its group" in str(model.why(0))


@pytest.mark.more
def test_evidence_stability_and_comparison_take_gaps():
    frame = pd.DataFrame(Y, columns=[f"station {i}" for i in range(8)])
    model = CTFARegressor(head="levels").fit(X, frame)
    merges = model.merges_
    assert len(merges) == 8 - model.n_groups_
    assert np.isfinite(merges[["f_statistic", "f_star", "gain", "gain_error"]]).all(axis=None)
    assert (merges["gain_error"] > 0).all()
    assert model.stability(X, frame, random_state=0).shape == (8, 8)
    table = model.compare(X, frame)
    assert np.isfinite(table.drop(columns=["target"])).all(axis=None)
    assert list(model.predict(NEW).columns) == list(frame.columns)


def test_weights_and_paths_take_gaps():
    weight = np.random.default_rng(0).uniform(0.0, 2.0, size=160)
    weight[:10] = 0.0
    model = TargetAggregator(max_loss=1.5).fit(X, Y, sample_weight=weight)
    dropped = TargetAggregator(max_loss=1.5).fit(X[10:], Y[10:], sample_weight=weight[10:])
    assert model.partition_ == dropped.partition_
    np.testing.assert_allclose(model.history_.loss, dropped.history_.loss)
    points = target_path(X, Y, [-1.0, 1.5, np.inf])
    plain = TargetAggregator(max_loss=1.5).fit(X, Y)
    assert [point.n_groups for point in points] == [8, plain.n_groups_, 1]


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"criterion": "mse", "max_loss": 0.0}, "criterion='mse'"),
        ({"regressor": RIDGE}, r"regressor=RidgeCV\("),
        ({"flip": True}, "flip=True"),
        ({"guard": "member"}, "guard='member'"),
    ],
)
def test_options_that_need_complete_targets_say_so(option, word):
    with pytest.raises(ValueError, match=f"(?s)missing values.*{word}.*criterion='risk'"):
        TargetAggregator(**option).fit(X, Y)


def test_least_squares_judges_targets_with_gaps_whatever_the_penalty_of_the_regressor():
    usual = CTFARegressor(LinearRegression(), targets=TargetAggregator(max_loss=1.5)).fit(X, Y)
    for regressor in (Ridge(3.0), RidgeCV()):
        model = CTFARegressor(regressor, targets=TargetAggregator(max_loss=1.5)).fit(X, Y)
        np.testing.assert_array_equal(model.history_.loss, usual.history_.loss)
        complete = CTFARegressor(regressor, targets=TargetAggregator(max_loss=1.5))
        by_ridge = TargetAggregator(max_loss=1.5, regressor=regressor).fit(X, COMPLETE)
        assert complete.fit(X, COMPLETE).partition_ == by_ridge.partition_
        np.testing.assert_allclose(complete.history_.loss, by_ridge.history_.loss, rtol=1e-10)


def test_subsamples_with_gaps_are_judged_as_all_rows_are():
    for values in (Y, COMPLETE):
        model = CTFARegressor(Ridge(50.0), targets=TargetAggregator(max_loss=1.5)).fit(X, values)
        everyone = [(np.arange(160), np.arange(2))]
        share = model.stability(X, values, cv=everyone)
        np.testing.assert_array_equal(share, model.labels_[:, None] == model.labels_)


def test_the_authors_and_the_search_need_complete_targets():
    for model in (nonlinctfa(), CTFARegressorCV()):
        with pytest.raises(ValueError, match="missing values"):
            model.fit(X, Y)


def test_a_target_with_too_few_rows_is_named():
    short = pd.DataFrame(COMPLETE.copy(), columns=list("abcdefgh"))
    short.loc[6:, "c"] = np.nan
    with pytest.raises(ValueError, match=r"'c' is observed in 6 rows.*needs 9 or more"):
        CTFARegressor().fit(X, short)


def test_gaps_in_the_inputs_stay_an_error():
    holes = X.copy()
    holes[3, 2] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        CTFARegressor().fit(holes, Y)


def test_a_station_without_a_row_in_a_fold_is_not_judged_there():
    late = COMPLETE + 1e4
    late[:100, 0] = np.nan
    curves = [
        TargetAggregator(cv=TimeSeriesSplit(4)).fit(X, late - shift).cv_curve_.error
        for shift in (0.0, 1e4)
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-6)
    assert curves[0].max() < 3.0


def test_scores_leave_out_targets_that_are_not_observed():
    closed = COMPLETE.copy()
    closed[:32, 0] = np.nan
    scores = cross_val_score(CTFARegressor(), X, closed, cv=5)
    assert np.isfinite(scores).all()
    model = CTFARegressor().fit(X, closed)
    each = model.score_per_target(X[:32], closed[:32])
    assert np.isnan(each[0])
    assert model.score(X[:32], closed[:32]) == pytest.approx(each[1:].mean())
    with pytest.raises(ValueError, match="no target is observed"):
        model.score(X, np.full_like(closed, np.nan))


def test_folds_without_enough_rows_of_a_target_name_it():
    late = pd.DataFrame(COMPLETE.copy(), columns=[f"ST{i}" for i in range(8)])
    late.loc[:60, "ST3"] = np.nan
    model = CTFARegressor().fit(X, late)
    for ask in (model.compare, model.stability):
        with pytest.raises(ValueError, match=r"fold 0 of cv: target 'ST3' is observed in 0 of"):
            ask(X, late, cv=TimeSeriesSplit(5))
    late["ST3"] = np.nan
    with pytest.raises(ValueError, match="'ST3' is observed in 0 rows"):
        CTFARegressor().fit(X, late)
