"""Heads, and what a fitted model says of its merges: recomputed, and read as a user would."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.optimize import brentq
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    feature_path,
    persistence,
    report,
    target_path,
)
from ctfa.core.criteria import (
    FEATURE_CRITERIA,
    TARGET_CRITERIA,
    cross_validated_risk,
    target_risk,
)
from ctfa.core.cut import CutCurve
from ctfa.core.design import Design
from ctfa.core.levels import TEMPERS
from ctfa.core.ridge import PENALTIES
from ctfa.core.scans import SCANS
from ctfa.core.tasks.shared import LinearFit
from ctfa.estimators.search import unit_power
from ctfa.plotting import plot_cv_curve, plot_merge_tree, plot_merges
from problems import JUDGES, RIDGE, make_problem

PROBLEM = make_problem("correlated", 3, n_samples=60, n_features=5, n_targets=7)
X, Y = PROBLEM.X, PROBLEM.Y * [1.0, 5.0, 0.2, 1.0, 1.0, 30.0, 1.0] + 2.0
NAMES = ["po", "adige", "tiber", "arno", "piave", "brenta", "isonzo"]
WEIGHTS = np.random.default_rng(0).uniform(0.3, 2.0, size=60)
WEIGHTS *= 60 / WEIGHTS.sum()  # as regressors get them; a penalty would feel another sum
TARGETS = TargetAggregator(max_loss=6.0)


def planted(seed=0, n=200):
    """Two groups of four targets that share a signal each."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(n, 4))
    signal = inputs @ rng.normal(size=(4, 2))
    return inputs, np.repeat(signal, 4, axis=1) + rng.normal(size=(n, 8))


# -- Groups and members of them, by hand -----------------------------------------------------------


def deviances_by_hand(known, columns):
    """Of all penalties: minus twice the restricted likelihood, by the covariance of the rows."""
    n = len(known)
    contrasts = np.linalg.svd(np.eye(n) - 1.0 / n)[0][:, : n - 1]  # rows without their mean
    seen, inputs = contrasts.T @ columns, contrasts.T @ known
    deviances = []
    for penalty in PENALTIES:
        covariance = np.eye(n - 1) + inputs @ inputs.T / penalty
        squares = np.sum(seen * np.linalg.solve(covariance, seen))
        deviances.append((n - 1) * np.log(squares) + np.linalg.slogdet(covariance)[1])
    return np.array(deviances)


def least(deviances):
    """The penalty of the least deviance; of those within 1e-6 of it the largest."""
    return max(PENALTIES[deviances <= deviances.min() + 1e-6])


class LevelsByHand:
    """The ridge model of each group's mean, and of what its members deviate by."""

    def __init__(self, inputs, values, labels, signs=None):
        self.mean, self.spread = values.mean(axis=0), values.std(axis=0)
        if signs is not None:
            self.spread = self.spread * signs
        self.about = inputs.mean(axis=0)
        self.length = np.sqrt(((inputs - self.about) ** 2).sum(axis=0))
        self.known = (inputs - self.about) / self.length
        units = (values - self.mean) / self.spread
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        means = [units[:, members].mean(axis=1, keepdims=True) for members in groups]
        # Each mean is told its penalty by its own members, and as much by all of those there are.
        own = [deviances_by_hand(self.known, mean) for mean in means]
        shared = sum(len(m) * each for m, each in zip(groups, own, strict=True)) / labels.size
        self.parts = []
        for members, mean, deviances in zip(groups, means, own, strict=True):
            apart, deviates = units[:, members] - mean, np.inf
            if members.size > 1:
                deviates = least(deviances_by_hand(self.known, apart))
            self.parts.append((members, mean, least(deviances + shared), apart, deviates))

    def predict(self, inputs, shares):
        """The average of what models of each temper say, by the tempers' shares."""
        return sum(share * self._at(inputs, temper) for temper, share in shares.items())

    def _at(self, inputs, temper):
        asked = (inputs - self.about) / self.length
        units = np.empty((len(inputs), self.mean.size))
        for members, mean, penalty, apart, deviates in self.parts:
            units[:, members] = asked @ self._ridge(mean, temper.mean * penalty)
            units[:, members] += asked @ self._ridge(apart, temper.apart * deviates)
        return units * self.spread + self.mean

    def _ridge(self, columns, penalty):
        if penalty == np.inf:
            return np.zeros((self.known.shape[1], columns.shape[1]))
        gram = self.known.T @ self.known + penalty * np.eye(self.known.shape[1])
        return np.linalg.solve(gram, self.known.T @ columns)

    def kept(self, penalty):
        """Sum over the directions of what is kept of them."""
        gram = self.known.T @ self.known
        if penalty == np.inf:
            return 0.0
        return np.trace(np.linalg.solve(gram + penalty * np.eye(len(gram)), gram))

    def penalties(self, shares):
        """For each group, the one that by itself keeps as much as the tempers do on average."""
        found = []
        for _, _, penalty, *_ in self.parts:
            kept = sum(share * self.kept(temper.mean * penalty) for temper, share in shares.items())
            if penalty == np.inf:
                found.append(np.inf)
            else:
                size = brentq(lambda at, kept=kept: self.kept(10.0**at) - kept, -12.0, 8.0)
                found.append(10.0**size)
        return found

    def trust(self, shares):
        """What is not kept of the deviations of each member, mean over the directions."""
        found = np.ones(self.mean.size)
        for members, *_, deviates in self.parts:
            for temper, share in shares.items():
                kept = self.kept(temper.apart * deviates)
                found[members] -= share * kept / self.known.shape[1]
        return found


class LeastSquaresByHand:
    """Least squares of each group's mean."""

    def __init__(self, inputs, values, labels, signs=None):
        self.mean, self.spread = values.mean(axis=0), values.std(axis=0)
        units = (values - self.mean) / self.spread
        means = np.stack([units[:, labels == label].mean(axis=1) for label in labels], axis=1)
        self.model = LinearRegression().fit(inputs, means)

    def predict(self, inputs, shares=None):
        return self.model.predict(inputs) * self.spread + self.mean


class FoldsByHand:
    """Groups found again on the training rows of each fold, and who predicts the others how."""

    def __init__(self, kind, aggregator, values=Y):
        self.folds, self.values = [], values
        for train, test in KFold(10).split(X):
            known = clone(aggregator).fit(X[train], values[train])
            group, single = (
                kind(X[train], values[train], labels, known.signs_)
                for labels in (known.labels_, np.arange(values.shape[1]))
            )
            self.folds.append((group, single, test))
        self.units = values.std(axis=0)

    def squares(self, shares, *, alone=False):
        """Squared errors in units of each target, rows in the order given."""
        wrong = np.empty_like(self.values)
        for group, single, test in self.folds:
            predicted = (single if alone else group).predict(X[test], shares)
            wrong[test] = (self.values[test] - predicted) / self.units
        return wrong**2

    def of_folds(self, squares):
        """Mean square of each target in each fold."""
        return np.array([squares[test].mean(axis=0) for *_, test in self.folds])

    def shares(self, among):
        """How much each temper counts: less, the more standard errors it is from the best."""
        errors = {one: self.of_folds(self.squares({one: 1.0})).mean(axis=1) for one in among}
        best = min(errors.values(), key=np.mean)
        counts = {}
        for one, each in errors.items():
            error = (each - best).std(ddof=1) / np.sqrt(10)
            far = (each - best).mean() / (0.5 * error + 1e-9 * each.mean())
            counts[one] = np.exp(-far) * (0.05 if one.mean == 1 / 4096 else 1.0)
        return {one: count / sum(counts.values()) for one, count in counts.items()}

    def best(self, among):
        """The one of the smallest error."""
        errors = [self.squares({one: 1.0}).mean() for one in among]
        return {among[int(np.argmin(errors))]: 1.0}

    def gain(self, shares, of_single):
        """What each target saves, and the standard error that folds with rows in common have."""
        saved = self.of_folds(self.squares(of_single, alone=True) - self.squares(shares))
        error = np.sqrt(saved.var(axis=0, ddof=1) * (1.0 / 10 + 1.0 / 9))
        return saved.mean(axis=0), error


#: At a limit that leaves several groups, and at one that leaves a single one.
LIMITS = (1.0, 6.0)
LEVELS = {limit: FoldsByHand(LevelsByHand, TargetAggregator(max_loss=limit)) for limit in LIMITS}
#: Tempers of groups without what their members add.
MEANS = [one for one in TEMPERS if one.apart == np.inf]


def of_groups(shares):
    """The same tempers of groups, without what their members add."""
    found = dict.fromkeys(MEANS, 0.0)
    for temper, share in shares.items():
        found[temper._replace(apart=np.inf)] += share
    return found


# -- The heads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_members_are_served_by_their_groups_ridge_model_and_by_what_they_deviate(head, limit):
    targets = TargetAggregator(max_loss=limit)
    model = CTFARegressor(targets=targets, features="passthrough", head=head).fit(X, Y)
    assert (model.n_groups_ > 1) == (limit < 6.0)
    hand = LevelsByHand(X, Y, model.labels_)
    shares = LEVELS[limit].shares(TEMPERS if head == "levels" else MEANS)
    assert sorted(of_groups(shares).values())[-2] > 0.05  # an average, and not a choice
    new = np.random.default_rng(1).normal(size=(9, 5))
    np.testing.assert_allclose(model.predict(new), hand.predict(new, shares), rtol=1e-6)
    for regressor, penalty in zip(model.regressors_, hand.penalties(shares), strict=True):
        assert regressor.alpha == pytest.approx(penalty, rel=1e-4)  # it is read off a table
    if head == "levels":
        assert sum(share for temper, share in shares.items() if temper.apart < np.inf) > 0.1
        np.testing.assert_allclose(model.trust_, hand.trust(shares), rtol=1e-6)
        assert ((model.trust_ > 0.0) & (model.trust_ < 1.0)).any()
    apart = model.coef_ - (model.group_coef_[model.labels_].T * model.targets_.scales_).T
    assert (np.abs(apart).max() > 1e-3) == (head == "levels")


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_a_group_has_one_trust(regressor, head):
    for flip in (False, True):
        targets = TargetAggregator(max_loss=6.0, flip=flip)
        model = CTFARegressor(regressor, targets=targets, head=head).fit(X, Y)
        for members in model.partition_.groups:
            assert np.unique(model.trust_[members]).size == 1
            assert members.size > 1 or model.trust_[members[0]] == 1.0


@pytest.mark.parametrize("counts", [None, [1.0, 2.0, 1.0, 4.0, 1.0, 0.5, 3.0]])
def test_trust_is_the_weight_at_which_members_together_are_predicted_to_err_least(counts):
    targets = TargetAggregator(max_loss=6.0)
    model = CTFARegressor(LinearRegression(), targets=targets).fit(X, Y, target_weight=counts)
    share = np.ones(7) if counts is None else np.array(counts)
    (n, rank), units = X.shape, (Y - Y.mean(axis=0)) / Y.std(axis=0)
    fitted = LinearRegression().fit(X, units).predict(X)
    noise = (units - fitted).T @ (units - fitted) / (n - rank - 1)
    signal = fitted.T @ fitted / (n - 1) - rank / (n - 1) * noise
    weights = np.linspace(0.0, 1.0, 2001)
    for members in model.partition_.groups:
        group = np.zeros(7)
        group[members] = share[members] / share[members].sum()
        risk = np.zeros(weights.size)
        for i, own in zip(members, np.eye(7)[members], strict=True):
            mixed = own + weights[:, None] * (group - own)
            bias = np.einsum("wi,ij,wj->w", own - mixed, signal, own - mixed)
            variance = rank / (n - rank - 2) * np.einsum("wi,ij,wj->w", mixed, noise, mixed)
            risk += share[i] * (bias + variance)
        if members.size > 1:
            assert model.trust_[members[0]] == pytest.approx(weights[risk.argmin()], abs=1e-3)
    assert ((model.trust_ > 0.0) & (model.trust_ < 1.0)).any()


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("scale", ["standard", "center", "none"])
@pytest.mark.parametrize("regressor", [LinearRegression(), Ridge(3.0)], ids=str)
def test_a_regressor_that_is_given_is_mixed_with_members_own(regressor, scale, weights):
    values = Y if scale == "standard" else PROBLEM.Y + 2.0  # one target would decide for all
    targets = TargetAggregator(max_loss=6.0, scale=scale)
    mean, levels = (
        CTFARegressor(regressor, targets=targets, head=head).fit(X, values, weights)
        for head in ("mean", "levels")
    )
    np.testing.assert_array_equal(mean.trust_, levels.trust_)
    assert ((levels.trust_ > 0.0) & (levels.trust_ < 1.0)).any()
    units = (values - levels.targets_.offsets_) / levels.targets_.scales_
    own = np.empty_like(values)
    extra = {}
    if weights is not None:
        # As the library passes them on: a forest breaks ties by the last digit.
        relative = weights / weights.max()
        extra = {"sample_weight": relative * (relative.size / relative.sum())}
    for i in range(7):
        single = clone(regressor).fit(X, units[:, i], **extra)
        own[:, i] = single.predict(X) * levels.targets_.scales_[i] + levels.targets_.offsets_[i]
    expected = levels.trust_ * mean.predict(X) + (1.0 - levels.trust_) * own
    np.testing.assert_allclose(levels.predict(X), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_changing_the_head_of_a_fitted_model_changes_nothing_until_it_is_fitted_again(regressor):
    model = CTFARegressor(regressor, targets=TARGETS, head="mean").fit(X, Y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(head="levels").predict(X), before)
    apart = model.fit(X, Y).predict(X)
    assert np.abs(apart - before).max() > 1e-3
    np.testing.assert_array_equal(model.set_params(head="mean").predict(X), apart)
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), before)


@pytest.mark.more
@pytest.mark.parametrize("judge", [LinearRegression(), RIDGE], ids=["ols", "ridge"])
def test_groups_are_served_by_levels_whoever_judges_merges(judge):
    for model in (CTFARegressor(), CTFARegressorCV(target_losses=[6.0], cv=3)):
        targets = TargetAggregator(max_loss=6.0, regressor=judge)
        model.set_params(targets=targets, features="passthrough").fit(X, Y)
        judged = clone(targets).fit(X, Y)
        assert model.partition_ == judged.partition_
        shares = FoldsByHand(LevelsByHand, judged).shares(TEMPERS)
        expected = LevelsByHand(X, Y, model.labels_).predict(X, shares)
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)


@pytest.mark.parametrize("targets", [None, "passthrough"])
def test_a_single_target_is_served_at_the_tempers_of_folds_that_have_no_limit_to_choose(targets):
    target = Y[:, [2]]
    model = CTFARegressor(targets=targets, features="passthrough").fit(X, target)
    assert model.targets_.cv_curve_ is None
    shares = FoldsByHand(LevelsByHand, TargetAggregator(), target).shares(TEMPERS)
    assert sorted(of_groups(shares).values())[-2] > 0.05
    expected = LevelsByHand(X, target, np.zeros(1, dtype=int)).predict(X, shares)
    assert np.ptp(expected) > np.ptp(target) / 10  # inputs tell something
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-6)


def test_an_unknown_head_is_refused():
    with pytest.raises(ValueError, match="head='median' is not known; use one of 'levels', 'mean'"):
        CTFARegressor(head="median").fit(X, Y)


@pytest.mark.parametrize("n", [3, 6, 7, 40])
def test_one_target_trusts_itself_with_any_number_of_rows(n):
    rng = np.random.default_rng(0)
    inputs, target = rng.normal(size=(n, 5)), rng.normal(size=n)
    model = CTFARegressor(Ridge(), features="passthrough", head="levels").fit(inputs, target)
    assert model.trust_.tolist() == [1.0]
    assert model.predict(inputs).shape == (n,)
    assert model.why(0).gain == model.why(0).gain_error == 0.0
    assert str(model.why(0)).startswith("y0 stays by itself.")
    assert len(model.merges_) == 0


# -- The evidence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scan", ["best-first", "correlation", "grow", "restart"])
def test_the_table_of_merges_is_what_refits_say(scan):
    targets = TargetAggregator(max_loss=6.0, scan=scan)
    model = CTFARegressor(targets=targets).fit(X, pd.DataFrame(Y, columns=NAMES))
    frame, history = model.merges_, model.history_
    assert len(frame) == len(history) > 2
    n, rank = X.shape
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    blocks = {i: [i] for i in range(7)}
    for row, block, other in zip(frame.itertuples(), history.block, history.other, strict=True):
        first, second = blocks[int(block)], blocks.pop(int(other))
        assert row.group == tuple(NAMES[i] for i in sorted(first))
        assert row.joined == tuple(NAMES[i] for i in sorted(second))
        gap = scaled[:, first].mean(axis=1) - scaled[:, second].mean(axis=1)
        fitted = LinearRegression().fit(X, gap).predict(X)
        noise = ((gap - fitted) ** 2).sum() / (n - rank - 1)
        f = (fitted**2).sum() / rank / noise
        assert row.f_statistic == pytest.approx(f)
        assert row.f_star == pytest.approx(1.0 + (n - 1) / (n - rank - 2))
        assert row.loss == pytest.approx((f - 1.0) / (row.f_star - 1.0))
        a, b = len(first), len(second)
        assert row.gain == pytest.approx(
            a * b / (a + b) * rank * noise * (row.f_star - f) / (n - 1)
        )
        assert row.gain_error > 0.0
        assert row.worst_gain <= row.gain / (a + b) + 1e-12
        assert (len(row.losers) > 0) == (row.worst_gain < 0.0)
        assert set(row.losers) <= {*row.group, *row.joined}
        blocks[int(block)] = first + second


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_the_gain_of_a_target_is_what_its_group_saves_on_rows_it_has_not_seen(head, limit):
    targets = TargetAggregator(max_loss=limit)
    model = CTFARegressor(targets=targets, features="passthrough", head=head).fit(X, Y)
    folds = LEVELS[limit]
    shares = folds.shares(TEMPERS if head == "levels" else MEANS)
    merged = model.partition_.sizes[model.labels_] > 1
    group, error = folds.gain(of_groups(shares), of_groups(shares))
    served, _ = folds.gain(shares, of_groups(shares))
    for i in range(7):
        told = model.why(i)
        assert told.held_out
        assert told.gain == pytest.approx(merged[i] * group[i], abs=1e-9)
        assert told.gain_error == pytest.approx(merged[i] * error[i], abs=1e-9)
        assert told.served_gain == pytest.approx(merged[i] * served[i], abs=1e-9)
        assert told.expected_to_lose == (told.gain < -told.gain_error)
        assert told.trust == model.trust_[i]
    assert merged.any()


def test_where_a_regressor_is_given_the_gain_is_that_of_the_fits_that_judge_merges():
    cheap = TargetAggregator(regressor=LinearRegression())
    for regressor, targets in ((LinearRegression(), None), (RandomForestRegressor(3), cheap)):
        model = CTFARegressor(regressor, targets=targets, head="mean").fit(X, Y)
        limit = TargetAggregator(max_loss=model.max_loss_, regressor=LinearRegression())
        folds = FoldsByHand(LeastSquaresByHand, limit)
        gain, error = folds.gain(None, None)
        merged = model.partition_.sizes[model.labels_] > 1
        assert merged.any()
        told = [model.why(i) for i in range(7)]
        assert all(one.held_out for one in told)
        np.testing.assert_allclose([one.gain for one in told], merged * gain, atol=1e-9)
        np.testing.assert_allclose([one.gain_error for one in told], merged * error, atol=1e-9)


@pytest.mark.more
@pytest.mark.parametrize("flip", [False, True])
def test_the_score_of_a_merge_is_what_its_difference_is_worth_on_rows_left_out(flip):
    targets = TargetAggregator(max_loss=6.0, flip=flip)
    model = CTFARegressor(targets=targets, features="passthrough").fit(X, Y)
    folds = FoldsByHand(LevelsByHand, targets)
    best = folds.best(MEANS)
    wrong, levels = np.empty((2, 60, 7))
    for _, single, test in folds.folds:
        wrong[test] = (Y[test] - single.predict(X[test], best)) / folds.units
        levels[test] = (Y[test] - single.mean) / folds.units
    wrong, levels = wrong * model.signs_, levels * model.signs_
    blocks, frame = {i: [i] for i in range(7)}, model.merges_
    for score, block, other in zip(
        frame["score"], model.history_.block, model.history_.other, strict=True
    ):
        first, second = blocks[int(block)], blocks.pop(int(other))
        d, left = (
            each[:, first].mean(axis=1) - each[:, second].mean(axis=1) for each in (levels, wrong)
        )
        a, b = len(first), len(second)
        assert score == pytest.approx(a * b / (a + b) * np.mean(left**2 - d**2), abs=1e-9)
        blocks[int(block)] = first + second
    assert len(frame) > 2
    assert f"score on held-out blocks {100 * frame['score'][0]:+.1f} %" in str(
        model.why(int(model.history_.block[0]))
    )


def test_without_folds_gains_are_predicted_and_merges_have_no_score():
    short = {"X": X[:3], "y": Y[:3]}
    asked = CTFARegressor(LinearRegression(), targets=TARGETS)
    for model in (asked.fit(X, Y), CTFARegressor(targets=TARGETS).fit(**short)):
        assert model.merges_["score"].isna().all()
        for i in range(7):
            told = model.why(i)
            assert not told.held_out
            assert np.isnan(told.served_gain)
            assert "held-out" not in str(told)
    assert asked.n_groups_ < 7


def test_the_predicted_gain_of_a_target_is_that_of_all_its_merges():
    design = Design.of(X)
    centred = design.centre((Y - Y.mean(axis=0)) / Y.std(axis=0))
    risk = LinearFit(design, centred).members
    model = CTFARegressor(LinearRegression(), targets=TARGETS).fit(X, Y)
    total = np.zeros(7)
    for step in risk.along(model.history_):
        total[step.members] += step.gain
    for i in range(7):
        assert model.why(i).gain == pytest.approx(total[i], abs=1e-12)
        assert model.why(i).expected_to_lose == (total[i] < -model.why(i).gain_error)
        assert model.why(i).trust == model.trust_[i]


def test_why_is_asked_by_name_or_by_position():
    model = CTFARegressor(targets=TARGETS).fit(X, pl.DataFrame(Y, schema=NAMES))
    for position, name in enumerate(NAMES):
        told = model.why(name)
        assert told.target == name
        assert str(told) == str(model.why(position)) == str(model.why(position - 7))
        assert name in told.members
        assert tuple(sorted(told.members)) == tuple(
            sorted(NAMES[i] for i in model.partition_.groups[model.labels_[position]])
        )
        for merge in told.merges:
            assert name in (*merge.group, *merge.joined)
    n_told = sum(len(model.why(name).merges) for name in NAMES)
    assert n_told == sum(model.history_.size)


def test_columns_called_by_numbers_are_asked_for_by_these():
    columns = [2012, 1, 2, 3, 0, 5, 6]
    model = CTFARegressor(targets=TARGETS).fit(X, pd.DataFrame(Y, columns=columns))
    assert [model.why(name).target for name in columns] == list(map(str, columns))
    assert model.why(-1).target == "6"
    assert model.why(4).target == "0"  # no name, so a position


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tibr", "target 'tibr' is not one of the 7 of fit: did you mean 'tiber'"),
        ("x", "use a name of y"),
        (7, "target 7 does not exist: there are 7, 0 to 6"),
        (-8, "does not exist"),
        (None, "target None is not one of"),
    ],
)
def test_why_suggests_a_target_that_exists(target, message):
    model = CTFARegressor().fit(X, pd.DataFrame(Y, columns=NAMES))
    with pytest.raises(ValueError, match=message):
        model.why(target)


def test_evidence_can_be_read():
    text = str(CTFARegressor(targets=TARGETS).fit(X, pd.DataFrame(Y, columns=NAMES)).why("po"))
    assert "po is predicted from the mean of" in text
    assert "% of its variance" in text
    assert "break-even" in text
    assert "efused" in text
    assert max(map(len, text.splitlines())) < 250


@pytest.mark.more
@pytest.mark.parametrize(
    ("regressor", "scale"),
    [(None, "center"), (LinearRegression(), "center"), (LinearRegression(), "none")],
)
def test_gains_of_targets_in_their_own_units_are_not_called_shares(regressor, scale):
    targets = TargetAggregator(max_loss=6.0, scale=scale)
    model = CTFARegressor(regressor, targets=targets).fit(X, Y)
    grouped = int(model.partition_.groups[int(np.argmax(model.partition_.sizes))][0])
    assert "%" not in str(model.why(grouped)).replace(f"{100 * model.trust_[grouped]:.0f} %", "")
    assert "squared units of the targets" in str(model.why(grouped))
    frame = model.compare(X, Y, cv=3)
    share = frame["predicted_gain"] * np.var(Y, axis=0)
    np.testing.assert_allclose(share, [model.why(i).gain for i in range(7)], atol=1e-12)


def test_a_loss_beyond_all_bounds_is_told_in_few_letters():
    noise = np.random.default_rng(0).normal(size=60)
    same_noise = X[:, :2] + noise[:, None]
    targets = TargetAggregator(max_loss=1.5, scale="center")
    text = str(CTFARegressor(targets=targets).fit(X, same_noise).why(0))
    assert "loss inf above the limit 1.50" in text
    targets.set_params(max_loss=np.inf)
    assert len(str(CTFARegressor(targets=targets).fit(X, same_noise).why(0))) < 600


def test_reasons_for_refusals_are_given():
    everyone = CTFARegressor(targets=TargetAggregator(max_loss=np.inf)).fit(X, Y)
    assert everyone.why(0).refusal.reason == "every target is in this group"
    skipped = CTFARegressor(targets="passthrough").fit(X, Y)
    assert skipped.why(0).refusal.reason == "no two targets were compared"
    guard = TargetAggregator(max_loss=np.inf, guard="member")
    guarded = CTFARegressor(targets=guard).fit(X, Y)
    stopped = [guarded.why(i) for i in range(7) if guarded.why(i).refusal.by_guard]
    assert stopped
    for told in stopped:
        assert str(told).endswith(
            "  The guard refused every remaining merge: some member would lose by each."
        )
    apart = TargetAggregator(max_loss=np.inf, connectivity=np.kron(np.eye(7), [[0]]))
    alone = CTFARegressor(targets=apart).fit(X, Y)
    assert alone.n_groups_ == 7
    plain = CTFARegressor(targets=TARGETS).fit(X, Y)
    for i in range(7):
        refusal = plain.why(i).refusal
        assert refusal.loss > 6.0
        assert not set(refusal.candidate) & set(plain.why(i).members)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"max_loss": 0.0},
            "merging was predicted to gain, but max_loss=0 is stricter than break-even (1)",
        ),
        ({"max_loss": -np.inf}, "merging is switched off (max_loss=-inf)"),
        (
            {"max_loss": 1.5},
            "the features predict the difference of the two too well to give it up",
        ),
        (
            {"max_loss": -0.05, "criterion": "corollary"},
            "merging was predicted to gain, but max_loss=-0.05 is stricter than break-even (0)",
        ),
        (
            {"max_loss": 0.5, "criterion": lambda evidence: 1.0 * target_risk(evidence)},
            "criterion given",
        ),
    ],
)
def test_the_reason_of_a_refusal_is_true(options, reason):
    inputs, targets = planted(5)
    aggregator = TargetAggregator(**options)
    model = CTFARegressor(targets=aggregator, features="passthrough").fit(inputs, targets)
    assert any(reason in str(model.why(i)) for i in range(8))
    for i in range(8):
        refusal = model.why(i).refusal
        gains = "predicted to gain" in refusal.reason
        even = {"risk": 1.0, "corollary": 0.0}.get(aggregator.criterion)
        if refusal.candidate and even is not None and np.isfinite(aggregator.max_loss):
            assert gains == (refusal.loss < even)


@pytest.mark.parametrize("scan", ["grow", "restart"])
def test_scans_that_ask_once_tell_whom_they_asked(scan):
    targets = TargetAggregator(max_loss=1.5, scan=scan)
    model = CTFARegressor(targets=targets).fit(*planted())
    asked = [model.why(i) for i in range(8) if model.why(i).refusal.candidate]
    assert len(asked) == 4
    for told in asked:
        (candidate,) = told.refusal.candidate
        assert candidate in ("y4", "y5", "y6", "y7")
        loss = f"loss {told.refusal.loss:.2f} when it was asked, above the limit 1.50"
        assert f"Nearest refused: {candidate}, {loss}" in str(told)


def test_turned_members_are_told_with_their_minus():
    inputs, targets = planted()
    turned = targets * np.where(np.arange(8) == 2, -1.0, 1.0)
    aggregator = TargetAggregator(max_loss=2.0, flip=True)
    model = CTFARegressor(targets=aggregator, features="passthrough").fit(inputs, turned)
    np.testing.assert_array_equal(model.signs_, [1, 1, -1, 1, 1, 1, 1, 1])
    assert model.why(0).members == ("y0", "y1", "-y2", "y3")
    first, other = str(model.why(0)).splitlines()[0], str(model.why(2)).splitlines()[0]
    assert first.endswith("from the mean of 4 targets, with y1, -y2 (turned round), y3.")
    assert other == "y2 (turned round) is predicted from the mean of 4 targets, with y0, y1, y3."
    named = {name for row in model.merges_.itertuples() for name in (*row.group, *row.joined)}
    assert "-y2" in named
    assert "y2" not in named
    model.stability(inputs, turned, cv=3)
    assert "Found together in" in str(model.why(2))


def test_a_penalised_fit_has_no_f():
    targets = TargetAggregator(max_loss=1.25, regressor=RIDGE)
    model = CTFARegressor(targets=targets).fit(*planted())
    assert model.merges_[["f_statistic", "f_star"]].isna().all(axis=None)
    text = str(model.why(0))
    assert "F =" not in text
    assert f"loss {model.why(0).merges[0].loss:.2f} (1 breaks even, limit 1.25)" in text


def test_with_gaps_the_f_is_of_the_rows_that_both_have():
    inputs, targets = planted()
    targets[:40, 0] = np.nan
    model = CTFARegressor(targets=TargetAggregator(max_loss=1.5)).fit(inputs, targets)
    told = model.why(0)
    assert f"F = {told.merges[0].f_statistic:.2f} on the rows both have, break-even" in str(told)


def test_the_loss_of_another_criterion_is_not_taken_for_an_f():
    targets = TargetAggregator("mse", max_loss=0.0)
    model = CTFARegressor(targets=targets).fit(*planted())
    row = model.why(0).merges[0]
    assert (
        f"loss {row.loss:.2f}, limit 0.00 (F = {row.f_statistic:.2f}, break-even "
        f"{row.f_star:.2f}, by the risk rule)"
    ) in str(model.why(0))


def test_what_a_target_gained_on_held_out_blocks_is_told_with_what_it_adds():
    told = CTFARegressor(targets=TARGETS).fit(*planted()).why(0)
    known = f"; with what the target adds to it: {100 * told.served_gain:+.1f} % of its variance"
    for gain, word in ((0.01, ""), (-0.01, " (about even)"), (-0.03, " (it LOSES by it)")):
        given = replace(told, gain=gain, gain_error=0.02)
        assert str(given).splitlines()[1] == (
            "  Gain of the group's model over a model of its own, on held-out blocks: "
            f"{100 * gain:+.1f} ± 2.0 % of its variance{word}{known}; "
            f"it trusts its group {100 * told.trust:.0f} %."
        )
        assert given.expected_to_lose == (gain == -0.03)
    assert "with what the target adds" not in str(replace(told, shrunk=False))


def test_a_small_loss_is_about_even_and_a_large_one_is_expected():
    model = CTFARegressor(LinearRegression(), targets=TARGETS, head="mean")
    told = model.fit(*planted()).why(0)
    for gain, word in ((0.01, "variance;"), (-0.01, "(about even)"), (-0.03, "expected to LOSE")):
        given = replace(told, gain=gain, gain_error=0.02)
        assert word in str(given).splitlines()[1]
        assert given.expected_to_lose == (gain == -0.03)
    row = told.merges[0]
    assert f", summed over its {len(row.group + row.joined)} members." in str(told)
    assert f"trusts its group {100 * told.trust:.0f} % (used by head='levels' only)." in str(told)
    assert f"group {100 * told.trust:.0f} %." in str(replace(told, shrunk=True))


@pytest.mark.more
@pytest.mark.parametrize("kind", [CTFARegressor, CTFARegressorCV])
def test_unfitted_models_say_so(kind):
    message = f"This {kind.__name__} instance is not fitted yet"
    for unfitted in (kind(), clone(kind().fit(X, Y)), pickle.loads(pickle.dumps(kind()))):
        with pytest.raises(NotFittedError, match=message):
            unfitted.why(0)
        for name in ("merges_", "labels_", "trust_", "targets_", "stability_", "n_features_in_"):
            with pytest.raises(NotFittedError, match=message):
                getattr(unfitted, name)
            assert not hasattr(unfitted, name)
        with pytest.raises(AttributeError, match="has no attribute 'lables'"):
            unfitted.lables  # noqa: B018
        with pytest.raises(NotFittedError, match=message):
            check_is_fitted(unfitted)
    check_is_fitted(kind().fit(X, Y))
    with pytest.raises(AttributeError, match=r"call stability\(X, y\) first"):
        CTFARegressor().fit(X, Y).stability_  # noqa: B018


# -- The picture -----------------------------------------------------------------------------------


@pytest.mark.more
def test_an_end_far_from_the_rest_does_not_flatten_the_curve():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    model = CTFARegressor().fit(*planted())
    limits = model.cv_curve_.max_loss
    error = np.append(np.linspace(0.5, 0.4, limits.size - 1), 7.25)
    model.targets_.cv_curve_ = CutCurve.of(limits, np.stack((error, error)), np.ones(limits.size))
    figure, ax = pyplot.subplots(figsize=(3.5, 2.5))
    plot_cv_curve(model, ax=ax)
    assert ax.get_ylim()[1] < 0.7
    assert "7.25" in [text.get_text() for text in ax.texts]
    assert len(ax.get_xticks()) < limits.size
    assert ax.get_ylabel() == "held-out error,\nshare of variance"
    assert "2 standard errors" in ax.get_legend().get_texts()[0].get_text()
    figure.canvas.draw()
    for label in (ax.xaxis.label, ax.yaxis.label, ax.title):
        box = label.get_window_extent()
        assert box.x0 >= 0.0
        assert box.y0 >= 0.0
        assert box.y1 <= figure.bbox.y1
    model.targets_.scale = "center"
    assert plot_cv_curve(model).get_ylabel() == "held-out error, squared units"
    pyplot.close("all")


# -- Other rows ------------------------------------------------------------------------------------


def test_planted_groups_are_found_again_on_subsamples():
    inputs, targets = planted()
    model = CTFARegressor(targets=TARGETS, features="passthrough").fit(inputs, targets)
    np.testing.assert_array_equal(model.labels_, np.repeat([0, 1], 4))
    share = model.stability(inputs, targets, random_state=0)
    assert share is model.stability_
    np.testing.assert_array_equal(share, share.T)
    np.testing.assert_array_equal(np.diag(share), 1.0)
    within = np.kron(np.eye(2), np.ones((4, 4))) > 0
    assert share[within].mean() > 0.9
    assert share[~within].max() < 0.05
    assert model.stability_labels_.shape == (50, 8)
    assert (model.stability_labels_ == model.labels_).mean() > 0.9
    expected = [share[np.ix_(*_sides(row))].mean() for row in model.merges_.itertuples()]
    np.testing.assert_allclose(model.merges_["together"], expected)
    assert "Found together in" in str(model.why(0))
    model.fit(inputs, targets)
    assert not hasattr(model, "stability_")
    assert "together" not in model.merges_


def _sides(row):
    return [int(name[1:]) for name in row.group], [int(name[1:]) for name in row.joined]


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_subsamples_are_grouped_as_a_fit_to_their_rows_does(weights, n_jobs):
    model = CTFARegressor(targets=TargetAggregator(flip=True)).fit(X, Y, weights)
    model.set_params(n_jobs=n_jobs)
    splits = list(KFold(5, shuffle=True, random_state=0).split(X))
    with parallel_config(backend="threading"):
        model.stability(X, Y, cv=splits, sample_weight=weights)
    counts = np.zeros((7, 7))
    for (train, _), labels in zip(splits, model.stability_labels_, strict=True):
        part = None if weights is None else weights[train]
        again = TargetAggregator(flip=True, max_loss=model.max_loss_).fit(X[train], Y[train], part)
        same = again.labels_[:, None] == again.labels_
        np.testing.assert_array_equal(same, labels[:, None] == labels)
        counts += same
    np.testing.assert_allclose(model.stability_, counts / 5)


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("regressor", [None, LinearRegression(), Ridge(2.0)], ids=str)
def test_comparisons_refit_both_models_on_every_fold(regressor, weights, head):
    model = CTFARegressor(regressor, targets=TARGETS, head=head).fit(X, Y, weights)
    frame = model.compare(X, Y, cv=4, sample_weight=weights)
    error = np.zeros((2, 7))
    for train, test in KFold(4).split(X):
        learn, judge = (None, None) if weights is None else (weights[train], weights[test])
        share = 1 / 4 if weights is None else weights[test].sum() / weights.sum()
        single = CTFARegressor(targets="passthrough", features="passthrough")
        if regressor is not None:
            single = clone(regressor)
            learn = None if learn is None else learn * (train.size / learn.sum())
        single.fit(X[train], Y[train], learn)
        for kind, fitted in enumerate((clone(model).fit(X[train], Y[train], learn), single)):
            gap = (Y[test] - fitted.predict(X[test])) ** 2
            error[kind] += share * np.average(gap, axis=0, weights=judge) / np.var(Y, axis=0)
    np.testing.assert_allclose(frame["error"], error[0], rtol=1e-8)
    np.testing.assert_allclose(frame["single_task_error"], error[1], rtol=1e-8)
    np.testing.assert_allclose(frame["gain"], error[1] - error[0], atol=1e-8)
    np.testing.assert_array_equal(frame["group"], model.labels_)


def test_comparisons_hand_labels_of_rows_on():
    labels = np.arange(60) // 6
    model = CTFARegressor(targets=TargetAggregator(cv=GroupKFold(3))).fit(X, Y, groups=labels)
    frame = model.compare(X, Y, cv=GroupKFold(4), groups=labels)
    assert np.isfinite(frame["error"]).all()
    assert np.isfinite(frame["single_task_error"]).all()
    # A number of folds is lowered to that of the labels, and two labels leave one to learn from.
    given = CTFARegressor(targets=TARGETS).fit(X, Y, groups=labels)
    halves = given.compare(X, Y, cv=GroupKFold(2), groups=labels // 5)
    assert np.isfinite(halves["error"]).all()


# -- Life of a model -------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_pickled_models_predict_and_explain_the_same(container, head):
    model = CTFARegressor(
        make_pipeline(StandardScaler(), Ridge()),
        targets=TARGETS,
        features=FeatureAggregator(),
        head=head,
    ).fit(container(X), container(Y))
    model.stability(container(X), container(Y), cv=3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(container(X)), model.predict(container(X)))
    assert str(again.why(0)) == str(model.why(0))
    assert again.merges_.equals(model.merges_)
    assert not hasattr(clone(model), "trust_")


@pytest.mark.more
@pytest.mark.parametrize("targets", [None, "passthrough"])
@pytest.mark.parametrize("features", [None, "passthrough"])
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_every_combination_of_phases_has_evidence(targets, features, head):
    model = CTFARegressor(targets=targets, features=features, head=head).fit(X, Y)
    assert model.trust_.shape == (7,)
    assert len(model.merges_) == 7 - model.n_groups_
    assert model.stability(X, Y, cv=3).shape == (7, 7)
    assert np.isfinite(model.compare(X, Y, cv=3).drop(columns="target")).all(axis=None)
    assert str(model.why(3))


def test_identical_targets_and_flat_features_leave_numbers():
    same = np.repeat(Y[:, :1], 4, axis=1)
    flat = np.column_stack((X, np.full(60, 3.0)))
    for inputs, targets in ((X, same), (flat, Y), (flat, same), (np.ones((60, 2)), Y)):
        for solver in ("ols", "ridge"):
            model = CTFARegressor(
                targets=TargetAggregator(regressor=JUDGES[solver]),
                features="passthrough",
                head="levels",
            ).fit(inputs, targets)
            assert np.isfinite(model.predict(inputs)).all()
            assert np.isfinite(model.trust_).all()
            columns = ["loss", "gain", "gain_error", "worst_gain"]
            columns += ["f_statistic", "f_star"] if solver == "ols" else []
            assert np.isfinite(model.merges_[columns]).all(axis=None)
            assert "nan" not in str(model.why(0))
    assert CTFARegressor().fit(X, same).n_groups_ == 1


def test_a_target_whose_own_model_fails_is_named():
    class Failing(LinearRegression):
        def predict(self, X):
            fails = X.shape[1] == 5 and len(X) == 80  # of all rows: without a fold it judges merges
            return np.full(len(X), np.nan) if fails else super().predict(X)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) + rng.normal(size=(80, 1))
    Y = X.sum(axis=1, keepdims=True) + rng.normal(size=(80, 3)) * [1.0, 2.0, 9.0] + X[:, :3]
    features = FeatureAggregator(max_loss=np.inf)
    targets = TargetAggregator(max_loss=np.inf)
    model = CTFARegressor(Failing(), targets=targets, features=features, head="levels").fit(X, Y)
    assert (model.trust_ < 1.0).any()
    with pytest.raises(ValueError, match=r"model of target 'y.' by itself predicted NaN"):
        model.predict(X)


def test_the_gain_of_a_merge_is_the_variance_saved_less_the_bias_paid():
    problem = make_problem("gaussian", 3, n_samples=120, n_features=10, n_targets=12)
    X, Y = problem.X, problem.Y
    merges = CTFARegressor(targets=TargetAggregator(max_loss=3.0)).fit(X, Y).merges_
    assert len(merges) > 3
    np.testing.assert_allclose(merges.variance_saved - merges.bias_paid, merges.gain, atol=1e-12)
    np.testing.assert_allclose(merges.bias_paid / merges.variance_saved, merges.loss, rtol=1e-8)
    assert (merges.variance_saved > 0.0).all()


# -- A criterion or a scan that is registered, and nothing else ------------------------------------


def difference_explained(evidence):
    """In squared units of the target."""
    return evidence.difference.explained / evidence.difference.n_samples


def coefficient_moved(evidence):
    """The same for features."""
    return evidence.difference.explained / evidence.difference.n_samples


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(TARGET_CRITERIA, "difference", difference_explained)
    monkeypatch.setitem(FEATURE_CRITERIA, "moved", coefficient_moved)
    monkeypatch.setitem(SCANS, "mine", SCANS["best-first"])


LAYOUT = np.arange(14).reshape(7, 2).tolist()
OWN = np.random.default_rng(5).normal(size=(60, 14))


@pytest.mark.parametrize("given", ["difference", difference_explained])
@pytest.mark.parametrize("kind", ["shared", "mean", "pool", "rows"])
def test_a_registered_criterion_goes_through_every_door(kind, given, registered, tmp_path):
    limit = {"shared": 0.15, "pool": 0.01}.get(kind, 0.05)
    targets = TargetAggregator(criterion=given, max_loss=limit, scan="mine")
    features = FeatureAggregator(criterion="moved", max_loss=0.01, scan="mine")
    if kind == "shared":
        model = CTFARegressor(targets=targets, features=features).fit(X, Y)
        target_path(X, Y, [0.0, 0.05], criterion=given, scan="mine")
        feature_path(X, Y[:, 0], [0.0, 0.05], criterion="moved", scan="mine")
    elif kind == "rows":
        model = PooledCTFARegressor(targets=targets)
        model.fit(OWN.reshape(-1, 2), np.tile(Y[:, 0], 7), tasks=np.repeat(np.arange(7), 60))
    else:
        model = MultiInputCTFARegressor(LAYOUT, aggregate=kind, targets=targets).fit(OWN, Y)
    assert 1 < model.n_groups_ < 7
    for target in range(7):
        assert "the criterion given says so" in str(model.why(target))
        assert "breaks even" not in str(model.why(target))
    assert len(model.merges_) == 7 - model.n_groups_
    assert "difference" in report.write(model, tmp_path / "r.html").read_text(encoding="utf-8")
    persistence.save(model, tmp_path / "model.ctfa")
    loaded = persistence.load(tmp_path / "model.ctfa")
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    pytest.importorskip("matplotlib").use("Agg")
    plot_merge_tree(model)
    plot_merges(model)


class Difference:
    def __call__(self, evidence):
        return difference_explained(evidence)


@pytest.mark.parametrize(
    "criterion",
    [lambda evidence: evidence.difference.f_statistic, partial(difference_explained), Difference()],
    ids=["lambda", "partial", "object"],
)
def test_a_criterion_of_the_users_own_is_explained_and_told_why_it_cannot_be_saved(
    criterion, tmp_path
):
    model = CTFARegressor(targets=TargetAggregator(criterion=criterion, max_loss=0.05)).fit(X, Y)
    assert "the criterion given says so" in str(model.why(0))
    page = report.write(model, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "a criterion of the user" in page
    with pytest.raises(persistence.PersistenceError, match="criterion is"):
        persistence.save(model, tmp_path / "model.ctfa")


@pytest.mark.parametrize(
    ("criterion", "n_before", "power"),
    [
        *((criterion, 2, float(name != "risk")) for name, criterion in TARGET_CRITERIA.items()),
        *((criterion, 1, float("mse" in name)) for name, criterion in FEATURE_CRITERIA.items()),
        (cross_validated_risk, 2, 0.0),
        (difference_explained, 2, 1.0),
        (lambda evidence: np.sqrt(evidence.after.residual), 2, 0.5),
        (lambda evidence: 0.0, 2, 0.0),  # says nothing
        (lambda evidence: evidence.of_another_kind, 2, 0.0),
    ],
)
def test_the_unit_of_a_loss_is_found_by_asking(criterion, n_before, power):
    assert unit_power(criterion, n_before) == power


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_ties_are_accepted_by_every_criterion_in_its_own_unit(unit):
    def shifted(evidence):  # copies are 1e-13 too dear: rounding
        return difference_explained(evidence) + 1e-13 * evidence.after.total

    copies = np.column_stack([Y[:, 0]] * 3) * unit
    model = TargetAggregator(criterion=shifted, max_loss=0.0, scale="none").fit(X, copies)
    assert model.n_groups_ == 1
