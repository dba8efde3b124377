"""Confounds (seasons, a trend) taken off every series first: laws, and what folds may see."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    TargetAggregator,
    multi_input_layout,
    target_path,
)
from ctfa.core.confounds import Confounds, take_off
from ctfa.core.levels import TEMPERS
from ctfa.core.ridge import PENALTIES
from ctfa.core.series import Series
from ctfa.estimators.models import HEADS
from generated import examples
from problems import JUDGES, averaged

N = 96


def seasons(n=N, *, first=0, trend=True):
    """Indicators of all twelve months, which add up to the intercept, and the year."""
    time = np.arange(first, first + n)
    months = np.eye(12)[time % 12]
    return np.column_stack((months, 1950.0 + time / 12.0)) if trend else months


def shared(seed=0, n=N, D=4, L=6):
    """Targets of two kinds on the same inputs, everything with a season of its own."""
    rng = np.random.default_rng(seed)
    B = seasons(n)
    X = rng.normal(size=(n, D)) + B @ rng.normal(size=(13, D))
    coef = np.where(np.arange(L) < L // 2, 1.0, -1.0) * rng.uniform(0.5, 1.5, size=(D, 1))
    Y = X @ coef + rng.normal(size=(n, L)) + 3.0 * B @ rng.normal(size=(13, L))
    return X, Y, B


def own(seed=0, n=N, L=6, K=3):
    """The same for targets with inputs of their own."""
    rng = np.random.default_rng(seed)
    B = seasons(n)
    inputs = rng.normal(size=(n, 1, K)) + 0.4 * rng.normal(size=(n, L, K))
    coef = np.where(np.arange(L)[:, None] < L // 2, 1.0, -1.0) * np.ones(K)
    Y = np.einsum("nlk,lk->nl", inputs, coef) + rng.normal(size=(n, L))
    inputs += np.einsum("np,plk->nlk", B, rng.normal(size=(13, L, K)))
    X, layout = multi_input_layout(inputs)
    return X, layout, Y + B @ rng.normal(size=(13, L)), B


def regress(values, B, weights=None):
    """Coefficients on an intercept and the confounds, the plain way."""
    middle = B.mean(axis=0)
    table = np.column_stack((np.ones(len(B)), B - middle))
    root = np.ones(len(B)) if weights is None else np.sqrt(weights)
    coef = np.linalg.lstsq(table * root[:, None], (values.T * root).T, rcond=1e-12)[0]
    return lambda columns: np.column_stack((np.ones(len(columns)), columns - middle)) @ coef


def fixed(max_loss=1.5, **options):
    return TargetAggregator(max_loss=max_loss, **options)


def kinds():
    """Both estimators, as functions of what Phase I is to be, with their data."""
    X, Y, B = shared()
    X_own, layout, Y_own, B_own = own()
    return {
        "shared": (CTFARegressor, X, Y, B),
        "least squares": (partial(CTFARegressor, LinearRegression(), head="mean"), X, Y, B),
        "mean": (lambda **k: averaged(layout, **k), X_own, Y_own, B_own),
        "pool": (
            lambda **k: averaged(layout, aggregate="pool", **k),
            X_own,
            Y_own,
            B_own,
        ),
    }


KINDS = ("shared", "mean", "pool")
#: Those whose groups are served by regressions that know no degrees of freedom.
PLAIN = ("least squares", "mean", "pool")


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_residuals_are_those_of_least_squares_on_the_rows_of_each_series(seed, weighted, gappy):
    rng = np.random.default_rng(seed)
    n, B = 60, seasons(60)
    values = 100.0 + rng.normal(size=(n, 5)) + B @ rng.normal(size=(13, 5))
    weights = rng.uniform(0.2, 3.0, size=n) if weighted else None
    if gappy:
        values[rng.uniform(size=values.shape) < 0.2] = np.nan
    left, lines, _ = take_off(values, B, weights)
    np.testing.assert_allclose(left + lines.at(B), values, atol=1e-9)
    for column in range(5):
        rows = ~np.isnan(values[:, column])
        kept = None if weights is None else weights[rows]
        expected = values[rows, column] - regress(values[rows, column], B[rows], kept)(B[rows])
        np.testing.assert_allclose(left[rows, column], expected, atol=1e-8)


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_free_rows_keep_every_inner_product_and_have_mean_zero(seed, weighted):
    rng = np.random.default_rng(seed)
    B = seasons(40)
    weights = rng.uniform(0.2, 3.0, size=40) if weighted else None
    if weighted:
        weights[:3] = 0.0
    rows = rng.normal(size=(4, 40))
    confounds = Confounds.of(B, weights)
    assert confounds.rank == 12  # eleven months and the trend, beside the intercept
    confounds.take_off(rows)
    free = confounds.free_rows(rows)
    n_used = 37 if weighted else 40
    assert free.shape == (4, n_used - 12)
    np.testing.assert_allclose(free.mean(axis=1), 0.0, atol=1e-12)
    share = np.ones(40) if weights is None else weights * (n_used / weights.sum())
    np.testing.assert_allclose(free @ free.T, (rows * share) @ rows.T, atol=1e-10)


@pytest.mark.parametrize("uneven", [False, True])
def test_a_month_that_was_never_seen_has_the_mean_and_the_trend(uneven):
    rng = np.random.default_rng(0)
    B = seasons(120)
    kept = B[:, 4] == 0.0
    if uneven:
        kept &= rng.uniform(size=120) < 0.6
    y = B @ np.append(rng.normal(size=12), 0.3) + 0.1 * rng.normal(size=120)
    _, lines, _ = take_off(y[kept, None], B[kept], None)
    unseen = seasons(12)[4:5]
    unseen[0, -1] = 1955.0
    slope = lines.slopes[0, -1]
    assert slope == pytest.approx(0.3, abs=0.05)
    expected = y[kept].mean() + slope * (1955.0 - B[kept, -1].mean())
    np.testing.assert_allclose(lines.at(unseen), [[expected]])


def test_a_series_that_the_confounds_tell_entirely_is_zero_and_comes_back():
    B = seasons(48)
    X = np.column_stack((B @ np.arange(13.0), np.random.default_rng(0).normal(size=48)))
    Y = np.random.default_rng(1).normal(size=(48, 2))
    series = Series.of(X, np.array([[0, 1], [1, 0]]), Y, confounds=B)
    scaled, units = series.standardised("standard")
    assert not scaled.values[0, 0].any()
    assert units.scales[0, 0] == 1.0
    again = series.in_units(units)
    np.testing.assert_allclose(again.values, scaled.values, atol=1e-8)


@pytest.mark.parametrize("kind", ["shared", *PLAIN])
@pytest.mark.parametrize("head", HEADS)
def test_a_constant_column_changes_nothing(kind, head):
    make, X, Y, _ = kinds()[kind]
    ones = np.full((N, 1), 7.0)
    plain = make(targets=TargetAggregator(cv=4), head=head).fit(X, Y)
    constant = make(targets=TargetAggregator(cv=4), head=head).fit(X, Y, confounds=ones)
    assert constant.history_.block.tolist() == plain.history_.block.tolist()
    np.testing.assert_array_equal(constant.history_.loss, plain.history_.loss)
    np.testing.assert_array_equal(constant.cv_curve_.fold_errors, plain.cv_curve_.fold_errors)
    np.testing.assert_allclose(
        constant.predict(X, confounds=ones), plain.predict(X), rtol=1e-10, atol=1e-10
    )


def partial_f(X, B, y):
    """F of the inputs beside the confounds, from two regressions."""
    whole = y - regress(y, np.column_stack((X, B)))(np.column_stack((X, B)))
    alone = y - regress(y, B)(B)
    rank = np.linalg.matrix_rank(B - B.mean(axis=0))
    dof = len(y) - 1 - rank - X.shape[1]
    return (alone @ alone - whole @ whole) / X.shape[1] / (whole @ whole / dof)


def test_merges_are_judged_by_the_f_of_the_inputs_beside_the_confounds():
    X, Y, B = shared()
    model = CTFARegressor(targets=fixed(np.inf)).fit(X, Y, confounds=B)
    units = (Y - regress(Y, B)(B)) / model.targets_.scales_
    members = {i: [i] for i in range(Y.shape[1])}
    merges = model.merges_
    n = N - 12
    pairs = zip(model.history_.block, model.history_.other, strict=True)
    for step, (block, other) in enumerate(pairs):
        gap = units[:, members[block]].mean(axis=1) - units[:, members[other]].mean(axis=1)
        assert merges["f_statistic"][step] == pytest.approx(partial_f(X, B, gap), rel=1e-6)
        assert merges["f_star"][step] == pytest.approx(1.0 + (n - 1) / (n - 4 - 2))
        members[block] += members[other]


def test_a_group_is_fitted_as_with_the_confounds_among_its_columns():
    X, Y, B = shared()
    model = CTFARegressor(
        LinearRegression(), targets=fixed(), features="passthrough", head="mean"
    ).fit(X[:72], Y[:72], confounds=B[:72])
    assert 1 < model.n_groups_ < 6
    predicted = model.predict(X[72:], confounds=B[72:])
    both = np.column_stack((X, B))
    scales = model.targets_.scales_
    for members in model.partition_.groups:
        mean = (Y[:72][:, members] / scales[members]).mean(axis=1)
        expected = regress(mean, both[:72])(both[72:])
        got = (predicted[:, members] / scales[members]).mean(axis=1)
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_features_are_merged_as_beside_confounds_columns_that_never_are():
    rng = np.random.default_rng(3)
    B = seasons()
    X = rng.normal(size=(N, 4)) + B @ rng.normal(size=(13, 4))
    y = X @ [1.0, 1.0, -1.0, 0.5] + rng.normal(size=N) + B @ rng.normal(size=13)
    features = FeatureAggregator(max_loss=np.inf, scan="best-first", min_correlation=-1.0)
    model = CTFARegressor(features=features).fit(X, y, confounds=B)
    history = model.features_[0].history_

    def squares(columns):
        columns = np.column_stack((columns, B))
        left = y - regress(y, columns)(columns)
        return left @ left

    full = squares(X) / (N - 1 - 12 - 4)
    first, second = int(history.block[0]), int(history.other[0])
    others = [k for k in range(4) if k not in (first, second)]
    joined = np.column_stack((X[:, others], X[:, first] + X[:, second]))
    expected = (squares(joined) - squares(X)) / full
    assert history.loss[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_targets_on_the_same_inputs_are_grouped_as_targets_with_their_own():
    X, Y, B = shared()
    layout = np.tile(np.arange(4), (6, 1))
    one = CTFARegressor(targets=fixed(np.inf)).fit(X, Y, confounds=B)
    two = averaged(layout, targets=fixed(np.inf)).fit(X, Y, confounds=B)
    assert one.history_.other.tolist() == two.history_.other.tolist()
    for name in ("f_statistic", "f_star"):
        np.testing.assert_allclose(one.merges_[name], two.merges_[name], rtol=1e-6)


@settings(max_examples=examples(16), deadline=None)
@given(
    st.sampled_from(["shared", *PLAIN]),
    st.sampled_from(HEADS),
    st.sampled_from([None, *JUDGES.values()]),
    st.integers(0, 2**32 - 1),
)
def test_multiples_of_confounds_columns_change_no_decision_and_move_predictions(
    kind, head, judge, seed
):
    make, X, Y, B = kinds()[kind]
    rng = np.random.default_rng(seed)
    more_x = B @ rng.normal(size=(13, X.shape[1]))
    more_y = B @ rng.normal(size=(13, Y.shape[1]))
    train, test = slice(0, 72), slice(72, None)
    fits = []
    for inputs, targets in ((X, Y), (X + more_x, Y + more_y)):
        model = make(targets=TargetAggregator(cv=3, regressor=judge), head=head)
        model.fit(inputs[train], targets[train], confounds=B[train])
        fits.append((model, model.predict(inputs[test], confounds=B[test])))
    (plain, before), (moved, after) = fits
    assert moved.history_.block.tolist() == plain.history_.block.tolist()
    assert moved.max_loss_ == plain.max_loss_
    np.testing.assert_allclose(
        moved.cv_curve_.fold_errors, plain.cv_curve_.fold_errors, rtol=1e-6, atol=1e-9
    )
    np.testing.assert_allclose(after, before + more_y[test], atol=1e-6)
    np.testing.assert_allclose(moved.trust_, plain.trust_, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_shifts_change_nothing_with_gaps_either(kind):
    make, X, Y, B = kinds()[kind]
    rng = np.random.default_rng(0)
    Y = Y.copy()
    Y[rng.uniform(size=Y.shape) < 0.1] = np.nan
    more = B @ rng.normal(size=(13, Y.shape[1]))
    plain = make(targets=TargetAggregator(cv=3)).fit(X, Y, confounds=B)
    moved = make(targets=TargetAggregator(cv=3)).fit(X, Y + more, confounds=B)
    assert moved.labels_.tolist() == plain.labels_.tolist()
    expected = plain.predict(X, confounds=B) + more
    np.testing.assert_allclose(moved.predict(X, confounds=B), expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_what_folds_learn_does_not_feel_their_test_rows(kind):
    make, X, Y, B = kinds()[kind]
    train, test = np.arange(24, N), np.arange(24)
    grouped = []
    for noise in (0.0, 100.0):
        rng = np.random.default_rng(0)
        X2, Y2 = X.copy(), Y.copy()
        X2[test] += noise * rng.normal(size=(24, X.shape[1]))
        Y2[test] += noise * rng.normal(size=(24, Y.shape[1]))
        model = make(targets=TargetAggregator(cv=[(train, test)])).fit(X2, Y2, confounds=B)
        model.stability(X2, Y2, confounds=B, cv=[(train, test)])
        alone = make(targets=fixed(model.max_loss_)).fit(X2[train], Y2[train], confounds=B[train])
        labels = model.stability_labels_[0]
        together = labels[:, None] == labels
        np.testing.assert_array_equal(together, alone.labels_[:, None] == alone.labels_)
        grouped.append(dict(zip(model.cv_curve_.max_loss, model.cv_curve_.n_groups, strict=True)))
    # Which limits are tried beyond the usual ones is told by the path of the first fold.
    both = grouped[0].keys() & grouped[1].keys()
    assert len(both) > 10
    assert all(grouped[0][limit] == grouped[1][limit] for limit in both)


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("max_loss", [-np.inf, np.inf])
def test_errors_on_folds_are_those_of_doing_it_by_hand(kind, max_loss):
    make, X, Y, B = kinds()[kind]
    splits = [(np.arange(24, N), np.arange(24)), (np.arange(60), np.arange(60, N))]
    targets = fixed(max_loss, scale="center")
    model = make(targets=targets, features="passthrough").fit(X, Y, confounds=B)
    table = model.compare(X, Y, confounds=B, cv=splits)
    expected, alone = [], []
    for train, test in splits:
        of_x, of_y = regress(X[train], B[train]), regress(Y[train], B[train])
        left = X[train] - of_x(B[train]), Y[train] - of_y(B[train])
        for found, phase in ((expected, targets), (alone, "passthrough")):
            by_hand = make(targets=phase, features="passthrough").fit(*left)
            guess = by_hand.predict(X[test] - of_x(B[test])) + of_y(B[test])
            found.append((Y[test] - guess) ** 2)
    unit = (Y - regress(Y, B)(B)).var(axis=0)  # of what the confounds leave to be predicted
    np.testing.assert_allclose(
        table["error"], np.concatenate(expected).mean(axis=0) / unit, rtol=1e-6
    )
    single = np.concatenate(alone).mean(axis=0) / unit
    np.testing.assert_allclose(table["single_task_error"], single, rtol=1e-6)


def likeliest(turned, rest, values, n, counts=None):
    """Penalties of the smallest deviance, one for each column; of equal ones the largest.

    With ``counts`` the mean over all columns is added to the deviance of each.
    """
    kept = values**2 / (values**2 + PENALTIES[:, None])
    deviances = (n - 1) * np.log((1.0 - kept) @ turned**2 + rest)
    deviances -= np.log(1.0 - kept).sum(axis=1)[:, None]
    if counts is not None:
        deviances = deviances + np.average(deviances, axis=1, weights=counts)[:, None]
    return np.array([PENALTIES[one <= one.min() + 1e-6].max() for one in deviances.T])


ONCE = ((1.0, 1.0),)


def ridge_by_hand(X, Y, B, train, rows):
    """Predictions of ridge regressions beside confounds, for any groups and tempers.

    Tempers of means and of deviations are pairs: a factor, and how much it counts. Told are also
    the penalties of the means, before them, and what others would keep in all.
    """
    n = len(train) - 12  # what the confounds leave
    of_x, of_y = regress(X[train], B[train]), regress(Y[train], B[train])
    left_x, left_y = X[train] - of_x(B[train]), Y[train] - of_y(B[train])
    units, length = np.sqrt((left_y**2).sum(axis=0) / n), np.linalg.norm(left_x, axis=0)
    turn, values, back = np.linalg.svd(left_x / length, full_matrices=False)
    new = (X[rows] - of_x(B[rows])) / length

    def kept(penalty, tempers):
        each = [k * values[:, None] ** 2 / (values[:, None] ** 2 + t * penalty) for t, k in tempers]
        return np.sum(each, axis=0)

    def predict(partition, mean=ONCE, apart=()):
        means = partition.mean(left_y / units)
        turned, sizes = turn.T @ means, np.bincount(partition.labels)
        rest = ((means - turn @ turned) ** 2).sum(axis=0)
        penalty = likeliest(turned, rest, values, n, sizes)
        coef = back.T @ (turned * kept(penalty, mean) / values[:, None])
        told = (new @ coef)[:, partition.labels]
        for group in range(sizes.size) if apart else ():
            members = np.flatnonzero(partition.labels == group)
            if members.size == 1:
                continue
            own = (left_y / units)[:, members] - means[:, [group]]
            turned = turn.T @ own
            rest = ((own - turn @ turned) ** 2).sum()
            # One penalty for all, of the sum of their squares.
            together = np.sqrt((turned**2).sum(axis=1, keepdims=True))
            added = kept(likeliest(together, rest, values, n), apart)
            told[:, members] += new @ back.T @ (turned * added / values[:, None])
        return told * units + of_y(B[rows]), penalty, kept

    return predict


def counts_by_hand(errors, tempers):
    """How much each temper counts, from its mean errors ``(folds, tempers)``."""
    error = errors.mean(axis=0)
    gaps = errors - errors[:, [error.argmin()]]
    paired = gaps.std(axis=0, ddof=1) / np.sqrt(len(errors))
    counts = np.exp(-(error - error.min()) / (0.5 * paired + 1e-9 * error))
    means = np.array(tempers, dtype=float).reshape(len(tempers), -1)[:, 0]
    counts[means == 1 / 4096] *= 0.05
    return counts / counts.sum()


@pytest.mark.parametrize("parted", [0.0, 0.5])
@pytest.mark.parametrize("head", HEADS)
def test_penalties_are_those_of_as_many_rows_as_the_confounds_leave(head, parted):
    X, Y, B = shared()
    Y = Y + X @ (parted * np.random.default_rng(1).normal(size=(4, 6)))
    targets = fixed(3.0)
    model = CTFARegressor(targets=targets, features="passthrough", head=head)
    model.fit(X, Y, confounds=B)
    # Each temper on the folds, whose training rows find the groups again.
    tempers = [t for t in TEMPERS if head == "levels" or t.apart == np.inf]
    errors = []
    for test in np.array_split(np.arange(N), 10):
        train = np.setdiff1d(np.arange(N), test)
        groups = clone(targets).fit(X[train], Y[train], confounds=B[train]).partition_
        predict = ridge_by_hand(X, Y, B, train, test)
        told = [predict(groups, [(t.mean, 1.0)], [(t.apart, 1.0)])[0] for t in tempers]
        errors.append([(((Y[test] - one) / model.targets_.scales_) ** 2).mean() for one in told])
    counts = counts_by_hand(np.array(errors), tempers)
    assert np.sum(counts > 0.01) > 1
    averaged = [
        list(zip(tempers_of, counts, strict=True)) for tempers_of in zip(*tempers, strict=True)
    ]
    everything = np.arange(N)
    predict = ridge_by_hand(X, Y, B, everything, everything)
    expected, penalty, kept = predict(model.partition_, *averaged)
    np.testing.assert_allclose(model.predict(X, confounds=B), expected, atol=1e-6)
    # The one penalty that is told keeps as much as the average.
    found = np.array([one.alpha for one in model.regressors_])
    np.testing.assert_allclose(
        kept(found, ONCE).sum(axis=0), kept(penalty, averaged[0]).sum(axis=0), rtol=2e-4
    )


def test_limits_are_judged_by_ridge_regressions_of_the_training_rows_and_their_confounds():
    X, Y, B = shared()
    train, test = np.arange(24, N), np.arange(24)
    model = CTFARegressor(targets=TargetAggregator(cv=[(train, test)])).fit(X, Y, confounds=B)
    curve, unit = model.cv_curve_, model.targets_.scales_
    predict = ridge_by_hand(X, Y, B, train, test)
    for k in range(curve.max_loss.size):
        alone = TargetAggregator(max_loss=curve.max_loss[k])
        groups = alone.fit(X[train], Y[train], confounds=B[train]).partition_
        assert curve.n_groups[k] == groups.n_groups
        errors = [
            (((Y[test] - predict(groups, [(temper, 1.0)])[0]) / unit) ** 2).mean()
            for temper in {known.mean for known in TEMPERS}
        ]
        assert curve.fold_errors[0, k] == pytest.approx(min(errors), rel=1e-6)


@pytest.mark.parametrize("kind", PLAIN)
def test_limits_are_judged_by_fits_of_the_training_rows_and_their_confounds(kind):
    make, X, Y, B = kinds()[kind]
    train, test = np.arange(24, N), np.arange(24)
    model = make(targets=TargetAggregator(cv=[(train, test)])).fit(X, Y, confounds=B)
    curve, unit = model.cv_curve_, model.targets_.scales_
    for k in (0, curve.max_loss.size // 2, curve.max_loss.size - 1):
        alone = make(targets=fixed(curve.max_loss[k]), features="passthrough")
        alone.fit(X[train], Y[train], confounds=B[train])
        gap = (Y[test] - alone.predict(X[test], confounds=B[test])) / unit
        assert curve.fold_errors[0, k] == pytest.approx((gap**2).mean(), rel=1e-6)
        assert curve.n_groups[k] == alone.n_groups_


def test_seasons_that_differ_hide_targets_that_respond_alike():
    rng = np.random.default_rng(1)
    B = seasons(240, trend=False)
    cycle = np.cos(2.0 * np.pi * np.arange(240) / 12.0)
    X = rng.normal(size=(240, 1)) + cycle[:, None]
    north, south = 5.0 * cycle[:, None], -5.0 * cycle[:, None]
    Y = X + np.hstack((north, north, south, south)) + rng.normal(size=(240, 4))
    assert CTFARegressor().fit(X, Y).n_groups_ > 1
    model = CTFARegressor().fit(X, Y, confounds=B)
    assert model.n_groups_ == 1
    assert model.score(X, Y, confounds=B) > 0.85


@pytest.mark.more
def test_weights_of_zero_are_rows_that_were_never_given():
    for make, X, Y, B in kinds().values():
        weights = np.ones(N)
        weights[::7] = 0.0
        used = weights > 0.0
        one = make().fit(X, Y, weights, confounds=B)
        two = make().fit(X[used], Y[used], confounds=B[used])
        np.testing.assert_allclose(one.predict(X, confounds=B), two.predict(X, confounds=B))


def test_any_regressor_serves_and_a_single_column_may_be_a_vector():
    make, X, Y, _ = kinds()["mean"]
    time = np.arange(float(N))
    model = make(regressor=Ridge(1.0), features=FeatureAggregator()).fit(X, Y, confounds=time)
    column = make(regressor=Ridge(1.0), features=FeatureAggregator()).fit(
        X, Y, confounds=time[:, None]
    )
    np.testing.assert_array_equal(
        model.predict(X, confounds=time), column.predict(X, confounds=time[:, None])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_reduced_tasks_are_of_what_the_confounds_leave(kind):
    make, X, Y, B = kinds()[kind]
    model = make(targets=fixed()).fit(X, Y, confounds=B)
    left = Y - regress(Y, B)(B)
    for members, task, raw in zip(
        model.partition_.groups,
        model.reduce(X, Y, confounds=B),
        model.reduce(X, Y),
        strict=True,
    ):
        np.testing.assert_allclose(task.target, left[:, members].mean(axis=1), atol=1e-7)
        np.testing.assert_allclose(raw.target, Y[:, members].mean(axis=1))


def test_an_aggregator_gives_means_of_residuals_and_takes_them_back():
    X, Y, B = shared()
    aggregator = TargetAggregator(max_loss=-np.inf).fit(X, Y, confounds=B)
    means = aggregator.transform(Y, confounds=B)
    np.testing.assert_allclose(means, (Y - regress(Y, B)(B)) / aggregator.scales_, atol=1e-8)
    np.testing.assert_allclose(aggregator.inverse_transform(means, confounds=B), Y)


def test_a_path_takes_confounds_and_ends_where_fits_do():
    X, layout, Y, B = own()
    for options in ({}, {"layout": layout}):
        table = X if options else X[:, :3]
        (point,) = target_path(table, Y, [1.5], confounds=B, **options)
        kind = averaged(layout) if options else CTFARegressor()
        kind.set_params(targets=fixed(1.5)).fit(table, Y, confounds=B)
        assert point.partition == kind.partition_


def test_targets_left_by_themselves_are_regressions_with_the_confounds_among_their_columns():
    X, Y, B = shared()
    model = CTFARegressor(LinearRegression(), targets="passthrough", features="passthrough")
    model.fit(X, Y, confounds=B)
    both = np.column_stack((X, B))
    expected = LinearRegression().fit(both, Y).predict(both)
    np.testing.assert_allclose(model.predict(X, confounds=B), expected, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_baselines_are_refused_in_words(kind):
    make, X, Y, B = kinds()[kind]
    with pytest.raises(ValueError, match="one row for each row of X"):
        make().fit(X, Y, confounds=B[:-1])
    gap = B.copy()
    gap[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"row 3, column 2.*known in every row"):
        make().fit(X, Y, confounds=gap)
    with pytest.raises(ValueError, match="not a number"):
        make().fit(X, Y, confounds=np.full((N, 1), "January"))
    with pytest.raises(ValueError, match="dates or durations"):
        make().fit(X, Y, confounds=np.arange(N).astype("datetime64[D]"))
    with pytest.raises(ValueError, match="no columns"):
        make().fit(X, Y, confounds=np.empty((N, 0)))
    words = "scale='center'" if kind == "pool" else "scale='standard' or 'center'"
    with pytest.raises(ValueError, match=words):
        make(targets=fixed(scale="none")).fit(X, Y, confounds=B)
    with pytest.raises(ValueError, match="cv=None"):
        make(features=FeatureAggregator("r2", cv=3)).fit(X, Y, confounds=B)
    told = Y.copy()
    told[:, 1] = 2.0 * B[:, 3]
    for targets in (None, "passthrough"):
        with pytest.raises(ValueError, match="the confounds alone explain target 'y1'"):
            make(targets=targets).fit(X, told, confounds=B)
    model = make(targets=fixed()).fit(X, Y, confounds=B)
    with pytest.raises(ValueError, match="pass confounds="):
        model.predict(X)
    with pytest.raises(ValueError, match="fit has seen 13"):
        model.predict(X, confounds=B[:, :3])
    with pytest.raises(ValueError, match="pass confounds="):
        model.compare(X, Y)
    with pytest.raises(ValueError, match="fit was given none"):
        make(targets=fixed()).fit(X, Y).predict(X, confounds=B)


@pytest.mark.more
def test_scikit_learn_routes_confounds_to_its_folds():
    X, Y, B = shared()
    with config_context(enable_metadata_routing=True):
        model = CTFARegressor(targets=fixed()).set_fit_request(confounds=True)
        model.set_score_request(confounds=True)
        scores = cross_val_score(model, X, Y, cv=KFold(4), params={"confounds": B})
    for score, (train, test) in zip(scores, KFold(4).split(X), strict=True):
        alone = CTFARegressor(targets=fixed()).fit(X[train], Y[train], confounds=B[train])
        assert score == pytest.approx(alone.score(X[test], Y[test], confounds=B[test]))


def test_a_search_over_both_limits_says_that_it_takes_none():
    X, Y, B = shared()
    with pytest.raises(ValueError, match="takes no confounds: use CTFARegressor"):
        CTFARegressorCV().fit(X, Y, confounds=B)


def test_rows_that_confounds_use_up_are_missed():
    X, layout, Y, B = own(n=17)
    with pytest.warns(RuntimeWarning, match="17 rows in which.*Ridge"):
        MultiInputCTFARegressor(layout).fit(X, Y, confounds=B)
    with pytest.warns(RuntimeWarning, match="5 rows to learn from and 3 features.*Ridge"):
        CTFARegressor(LinearRegression()).fit(X[:, :3], Y, confounds=B)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = CTFARegressor().fit(X[:, :3], Y, confounds=B)
    assert np.isfinite(few.predict(X[:, :3], confounds=B)).all()
    paper = CTFARegressor(targets=TargetAggregator("mse", max_loss=0.0), features="passthrough")
    with pytest.raises(ValueError, match=r"17 rows and 3 features beside .* rank 12.* 18 rows"):
        paper.fit(X[:, :3], Y, confounds=B)


@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 1000), n=st.integers(16, 60), n_series=st.integers(0, 5), w=st.booleans()
)
def test_free_rows_have_the_inner_products_of_the_residuals_and_mean_zero(seed, n, n_series, w):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.0, 2.0, n) * (rng.random(n) > 0.2) if w else np.ones(n)
    rows = rng.normal(size=(n_series, n))
    confounds = Confounds.of(seasons(n), weights if w else None)
    confounds.take_off(rows)
    free = confounds.free_rows(rows)
    used = np.count_nonzero(weights)
    assert free.shape == (n_series, used - confounds.rank)
    weighed = rows * confounds.row_scale
    np.testing.assert_allclose(free @ free.T, weighed @ weighed.T, atol=1e-10)
    np.testing.assert_allclose(free.sum(axis=1), 0.0, atol=1e-10)


@pytest.mark.more
def test_confounds_of_many_rows_need_no_square_of_them():
    n = 300_000  # whose square has 670 GiB
    rows = np.random.default_rng(0).normal(size=(2, n))
    confounds = Confounds.of(seasons(n))
    confounds.take_off(rows)
    free = confounds.free_rows(rows)
    np.testing.assert_allclose(free @ free.T, rows @ rows.T, rtol=1e-9, atol=1e-6)
