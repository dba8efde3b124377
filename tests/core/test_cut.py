"""Choosing max_loss on held-out folds: the curve against refits, its honesty and its rule."""

import warnings
from unittest.mock import MagicMock

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    TimeSeriesSplit,
)

from ctfa import CTFARegressor, MultiInputCTFARegressor, TargetAggregator, target_path
from ctfa.core.cut import GRID, PREFERRED, CutCurve, without_rounding
from ctfa.core.levels import TEMPERS
from ctfa.core.ridge import PENALTIES
from ctfa.estimators.search import fewest_readable
from ctfa.plotting import plot_cv_curve
from problems import JUDGES, RIDGE, make_problem
from test_ridge import brute_force_groups, restricted_likelihood

PROBLEM = make_problem("correlated", 0, n_samples=60, n_features=4, n_targets=6)
X, Y = PROBLEM.X, PROBLEM.Y * np.array([1.0, 10.0, 0.1, 1.0, 3.0, 1.0]) + 5.0
LABELS = np.repeat(np.arange(12), 5)
WEIGHTS = np.random.default_rng(0).uniform(0.2, 3.0, size=60)
CHAIN = sparse.diags([1.0, 1.0], offsets=[-1, 1], shape=(6, 6))
SPLITTERS = {
    "contiguous": KFold(10),
    "shuffled": KFold(5, shuffle=True, random_state=0),
    "series": TimeSeriesSplit(3),
    "groups": GroupKFold(4),
    "predefined": PredefinedSplit(np.arange(60) % 6),
    "random": ShuffleSplit(3, random_state=1),
}
# What judges merges, and serves groups on rows left out; None is the linear reading.
REGRESSORS = {"default": None, **JUDGES}


def group_predictions(X, units, weights, aggregator, new):
    """By the mean of the groups' members' own fits: least squares, or RidgeCV in its own words."""
    members = [clone(aggregator.regressor).fit(X, column, weights) for column in units.T]
    return [aggregator.partition_.mean(np.column_stack([one.predict(new) for one in members]))]


def penalties_of_means(X, means, sizes, weights):
    """Of least deviance, to which each adds what all have in the mean over their members.

    Of equals the largest.
    """
    deviance = np.array(
        [
            [-2.0 * restricted_likelihood(X, m[:, None], p, weights) for p in PENALTIES]
            for m in means.T
        ]
    )
    together = deviance + np.average(deviance, axis=0, weights=sizes)
    equal = together <= together.min(axis=1, keepdims=True) + 1e-6
    return np.array([max(PENALTIES[row]) for row in equal])


def readable_predictions(X, units, weights, aggregator, new):
    """By ridge regressions of the groups' means, at each temper of their penalties."""
    rows = (X - np.average(X, axis=0, weights=weights)) * np.sqrt(weights)[:, None]
    length = np.linalg.norm(rows, axis=0)
    means = aggregator.partition_.mean(units)
    sizes = [len(group) for group in aggregator.partition_.groups]
    penalty = penalties_of_means(X / length, means, sizes, weights)
    for temper in dict.fromkeys(temper.mean for temper in TEMPERS):
        model = SklearnRidge(temper * penalty, solver="svd").fit(X / length, means, weights)
        yield model.predict(new / length).reshape(len(new), -1)


def explicit_curve(
    X, Y, splits, *, weights=None, scale="standard", regressor=None, find=None, **options
):
    """Held-out error of every limit: groups by a fit a limit and fold, models refitted.

    For the regressor None that of the groups' models at the temper that suits a limit best over all
    folds. ``find`` finds groups in place of a fit.
    """
    weights = np.ones(len(X)) if weights is None else weights
    serve = readable_predictions if regressor is None else group_predictions
    spread = np.ones(Y.shape[1])
    if scale == "standard":
        spread = np.sqrt(np.average((Y - np.average(Y, axis=0, weights=weights)) ** 2, 0, weights))
    table, counts = [], np.empty((len(splits), GRID.size))
    for fold, (train, test) in enumerate(splits):
        known = {}
        for at, limit in enumerate(GRID):
            aggregator = TargetAggregator(
                max_loss=limit, scale=scale, regressor=regressor, **options
            ).fit(X[train], Y[train], weights[train])
            if find is not None:
                aggregator.partition_ = find(X[train], Y[train], limit)
            partition, signs = aggregator.partition_, aggregator.signs_
            counts[fold, at] = partition.n_groups
            key = partition, signs.tobytes()
            if key not in known:
                units = (Y[train] - aggregator.offsets_) / aggregator.scales_ * signs
                scaled = weights[train] / weights[train].mean()
                known[key] = []
                for groups in serve(X[train], units, scaled, aggregator, X[test]):
                    predicted = partition.spread(groups) * signs * aggregator.scales_
                    gap = ((Y[test] - aggregator.offsets_ - predicted) / spread) ** 2
                    known[key].append(np.average(gap.mean(axis=1), weights=weights[test]))
            table.append(known[key])
    table = np.reshape(table, (len(splits), GRID.size, -1))
    mildest = table.mean(axis=0).argmin(axis=1)
    return table[:, np.arange(GRID.size), mildest], counts.mean(axis=0)


def assert_same_curve(model, errors, counts):
    np.testing.assert_allclose(model.cv_curve_.fold_errors, errors, rtol=1e-8)
    np.testing.assert_array_equal(model.cv_curve_.n_groups, counts)
    assert model.max_loss_ == choice_by_hand(GRID, errors, counts)


def choice_by_hand(limits, errors, n_groups):
    """The rule, spelled out: the fewest groups within one paired standard error of the best limit.

    Of limits that leave as many, the nearest to 1.5 as a ratio, and the first of those as near.
    """
    mean = errors.mean(axis=0)
    best = int(np.argmin(mean))
    allowed = []
    for at, limit in enumerate(limits):
        gap = errors[:, at] - errors[:, best]
        error = np.std(gap, ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        if mean[at] - mean[best] <= error + 1e-10 * mean[best]:
            distance = abs(np.log(max(limit, 0.1) / 1.5)) if np.isfinite(limit) else np.inf
            allowed.append((n_groups[at], distance, at))
    return limits[min(allowed)[2]]


# -- The curve -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize("splitter", SPLITTERS)
def test_the_curve_is_that_of_refits_in_every_fold(splitter, regressor, weighted):
    cv, regressor = SPLITTERS[splitter], REGRESSORS[regressor]
    weights = WEIGHTS if weighted else None
    labels = LABELS if splitter == "groups" else None  # others warn that they have no use for it
    splits = list(cv.split(X, Y, labels))
    model = TargetAggregator(cv=cv, regressor=regressor).fit(X, Y, weights, groups=labels)
    assert_same_curve(model, *explicit_curve(X, Y, splits, weights=weights, regressor=regressor))


@pytest.mark.more
@pytest.mark.parametrize("regressor", REGRESSORS)
@pytest.mark.parametrize(
    "options",
    [
        {"scan": "correlation"},
        {"connectivity": CHAIN},
        {"flip": True},
        {"guard": "member"},
        {"scale": "center"},
        {"scale": "none"},
        {"scan": "correlation", "flip": True, "guard": "member"},
    ],
    ids=str,
)
def test_the_curve_is_that_of_refits_with_every_option(options, regressor):
    options = {**options, "regressor": REGRESSORS[regressor]}
    signs = np.where(np.arange(6) % 2, -1.0, 1.0) if options.get("flip") else np.ones(6)
    splits = list(KFold(4).split(X))
    model = TargetAggregator(cv=4, **options).fit(X, Y * signs)
    assert_same_curve(model, *explicit_curve(X, Y * signs, splits, **options))


@pytest.mark.more
def test_folds_of_few_rows_are_judged_by_ridge_regression_all_alike():
    """Rows up to ten beyond the coefficients do not carry least squares: not one fold's either."""
    splits = list(TimeSeriesSplit(4).split(X))
    assert [len(train) for train, _ in splits] == [12, 24, 36, 48]
    model = TargetAggregator(cv=TimeSeriesSplit(4)).fit(X, Y)
    assert_same_curve(model, *explicit_curve(X, Y, splits, find=brute_force_groups))

    def by_least_squares(X, Y, limit):
        return TargetAggregator(max_loss=limit, regressor=LinearRegression()).fit(X, Y).partition_

    others, _ = explicit_curve(X, Y, splits, find=by_least_squares)
    assert not np.allclose(model.cv_curve_.fold_errors, others)


def test_folds_may_be_lists_of_rows_and_splitters_may_yield_lists():
    class Lists:
        def split(self, X, y=None, groups=None):
            return ((train.tolist(), test.tolist()) for train, test in KFold(4).split(X))

        def get_n_splits(self, X=None, y=None, groups=None):
            return 4

    expected = TargetAggregator(cv=4).fit(X, Y).cv_curve_.fold_errors
    masks = [
        (~np.isin(np.arange(60), test), np.isin(np.arange(60), test))
        for _, test in KFold(4).split(X)
    ]
    for cv in (list(KFold(4).split(X)), list(Lists().split(X)), Lists(), masks):
        np.testing.assert_array_equal(
            TargetAggregator(cv=cv).fit(X, Y).cv_curve_.fold_errors, expected
        )


def test_rows_of_weight_zero_are_as_if_never_given():
    weights = WEIGHTS.copy()
    weights[::7] = 0.0
    used = weights > 0.0
    for cv, labels in ((5, None), (GroupKFold(3), LABELS)):
        one = TargetAggregator(cv=cv).fit(X, Y, weights, groups=labels)
        kept = None if labels is None else labels[used]
        two = TargetAggregator(cv=cv).fit(X[used], Y[used], weights[used], groups=kept)
        np.testing.assert_allclose(one.cv_curve_.fold_errors, two.cv_curve_.fold_errors)


def test_what_a_fold_holds_out_does_not_change_its_groups():
    changed = Y.copy()
    (train, test), *_ = splits = list(KFold(5).split(X))
    changed[test] = np.random.default_rng(1).normal(size=(len(test), 6)) * 100.0
    one = TargetAggregator(cv=[splits[0]]).fit(X, Y).cv_curve_
    two = TargetAggregator(cv=[splits[0]]).fit(X, changed).cv_curve_
    np.testing.assert_array_equal(one.n_groups, two.n_groups)
    assert (one.fold_errors != two.fold_errors).all()
    sizes = [point.n_groups for point in target_path(X[train], Y[train], GRID.tolist())]
    np.testing.assert_array_equal(one.n_groups, sizes)


# -- What it must not depend on --------------------------------------------------------------------


@pytest.mark.parametrize("scan", ["best-first", "correlation"])
@pytest.mark.parametrize("regressor", REGRESSORS)
def test_the_choice_does_not_depend_on_the_order_of_targets(scan, regressor):
    order = np.array([3, 0, 5, 1, 4, 2])
    options = {"scan": scan, "regressor": REGRESSORS[regressor], "cv": 5}
    one = TargetAggregator(**options).fit(X, Y)
    two = TargetAggregator(**options).fit(X, Y[:, order])
    np.testing.assert_allclose(one.cv_curve_.fold_errors, two.cv_curve_.fold_errors, rtol=1e-9)
    assert one.max_loss_ == two.max_loss_
    same = one.labels_[order][:, None] == one.labels_[order]
    np.testing.assert_array_equal(same, two.labels_[:, None] == two.labels_)


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_the_choice_does_not_depend_on_the_units_of_targets_or_features(regressor):
    units = 10.0 ** np.array([-8.0, 3.0, 0.0, 9.0, -2.0, 1.0])
    # Penalties that are given are in the units of the features.
    inputs = X if regressor == "ridge" else X * [1e-3, 1.0, 1e5, 7.0]
    options = {"regressor": REGRESSORS[regressor], "cv": 5}
    one = TargetAggregator(**options).fit(X, Y)
    two = TargetAggregator(**options).fit(inputs + 1.0, Y * units - 3.0)
    np.testing.assert_allclose(one.cv_curve_.fold_errors, two.cv_curve_.fold_errors, rtol=1e-5)
    assert one.partition_ == two.partition_


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_target_that_is_constant_outside_one_fold_counts_in_its_own_variance(unit):
    rare = np.zeros(60)
    rare[:6] = np.random.default_rng(0).normal(size=6)
    with_rare = np.column_stack((Y, rare * unit + 3.0 * unit))
    curve = TargetAggregator(cv=10).fit(X, with_rare).cv_curve_
    reference = TargetAggregator(cv=10).fit(X, np.column_stack((Y, rare + 3.0))).cv_curve_
    np.testing.assert_allclose(curve.fold_errors, reference.fold_errors, rtol=1e-9)
    assert np.isfinite(curve.fold_errors).all()


# -- The rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fold_errors", "n_groups", "chosen"),
    [
        ([0.5, 1.5, 3.0], [[1.0, 1.1, 1.2]] * 4, [3, 2, 1], 0.5),  # better in every fold alike
        # Within a standard error of the best, and beyond it.
        ([0.5, 1.5, 3.0], [[1.0, 1.3, 2.0], [1.0, 0.8, 2.0], [1.0, 1.0, 2.1]], [3, 2, 1], 1.5),
        ([0.5, 1.5, 3.0], [[1.0, 1.3, 1.2], [1.0, 1.0, 1.0], [1.0, 1.1, 1.3]], [3, 2, 1], 0.5),
        # The best itself merges everything: folds that differ speak for no finer groups.
        ([0.5, 1.5, 3.0], [[1.0, 1.3, 1.0], [1.0, 0.8, 0.9], [1.0, 1.0, 1.0]], [3, 2, 1], 3.0),
        # One more group is not worth less error that folds cannot tell apart.
        ([-np.inf, 1.5, 30.0], [[0.9, 1.0, 1.2], [1.1, 1.0, 0.9]], [6, 5.5, 2], 30.0),
        ([0.5, 1.0, 6.0], [[1.0, 1.0, 1.0]] * 3, [2, 2, 2], 1.0),  # all equal: the nearest
        ([0.5, 1.0, 6.0], [[1.0, 1.0, 1.0]] * 3, [2, 2, 1], 6.0),  # all errors equal: the fewest
        ([-np.inf, 0.0, np.inf], [[1.0, 2.0, 1.5]] * 3, [3, 2, 1], -np.inf),
        ([-np.inf, np.inf], [[1.0, 1.2], [1.0, 0.7]], [2, 1], np.inf),
        ([0.0, 1.5], [[1.0, 2.0]], [2, 1], 0.0),  # one fold says nothing of errors
    ],
)
def test_the_fewest_groups_within_one_paired_error_of_the_best_are_taken(
    limits, fold_errors, n_groups, chosen
):
    limits, errors, n_groups = map(np.array, (limits, fold_errors, n_groups))
    assert limits[CutCurve.of(limits, errors, n_groups).chosen] == chosen
    assert choice_by_hand(limits, errors, n_groups) == chosen


def test_the_rule_by_hand_agrees_on_random_curves():
    rng = np.random.default_rng(0)
    chosen = set()
    for _ in range(300):
        spread = 10 ** rng.uniform(-3, 0)
        errors = 1.0 + rng.normal(size=GRID.size) * 0.1 + spread * rng.normal(size=(6, GRID.size))
        # Limits next to each other often give the same groups, and some give more than before.
        n_groups = np.sort(rng.integers(1, 9, size=GRID.size))[::-1] + rng.integers(
            0, 2, size=GRID.size
        )
        curve = CutCurve.of(GRID, errors, n_groups)
        assert GRID[curve.chosen] == choice_by_hand(GRID, errors, n_groups)
        assert curve.best == int(np.argmin(curve.error))
        assert curve.standard_error[curve.best] == 0.0
        assert set(curve.columns()) == {"max_loss", "error", "standard_error", "n_groups"}
        chosen.add(curve.chosen)
    assert len(chosen) > 10


def test_each_limit_is_judged_at_the_temper_of_its_least_error_over_all_folds():
    rng = np.random.default_rng(1)
    for _ in range(50):
        table = 1.0 + 0.1 * rng.normal(size=(5, GRID.size, 4))  # folds, limits, tempers
        n_groups = np.sort(rng.integers(1, 9, size=GRID.size))[::-1]
        curve, temper = fewest_readable(table, GRID, n_groups)
        for at in range(GRID.size):
            best = min(range(4), key=lambda t, at=at: table[:, at, t].sum())
            np.testing.assert_array_equal(curve.fold_errors[:, at], table[:, at, best])
            if at == curve.chosen:
                assert temper == best
        assert GRID[curve.chosen] == choice_by_hand(GRID, curve.fold_errors, n_groups)


# -- Ties ------------------------------------------------------------------------------------------


def copies(n_copies, seed, *, noise=1.0):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(60, 3))
    target = inputs @ rng.normal(size=3) + noise * rng.normal(size=60)
    return inputs, np.column_stack([target] * n_copies)


@pytest.mark.more
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scan": "correlation"},
        {"regressor": RIDGE},
        {"regressor": LinearRegression()},
        {"scale": "none"},
        {"guard": "member"},
    ],
    ids=str,
)
@pytest.mark.parametrize("n_copies", [3, 6, 40])
def test_identical_targets_are_joined(n_copies, options):
    for seed in range(3):
        inputs, targets = copies(n_copies, seed)
        assert TargetAggregator(cv=5, **options).fit(inputs, targets).n_groups_ == 1


def test_identical_targets_without_noise_or_far_from_zero_are_joined():
    for seed in range(6):
        inputs, exact = copies(7, seed, noise=0.0)
        for regressor in REGRESSORS.values():
            assert TargetAggregator(cv=5, regressor=regressor).fit(inputs, exact).n_groups_ == 1
        inputs, noisy = copies(7, seed)
        assert TargetAggregator(cv=5, scale="none").fit(inputs, noisy + 1e6).n_groups_ == 1


def test_a_target_in_several_units_and_signs_is_one_target():
    for seed in range(12):
        inputs, targets = copies(6, seed)
        other_units = targets * np.array([1.0, 2.0, 0.3, 7.0, 11.0, 1e-5]) + np.arange(6.0)
        assert TargetAggregator(cv=5).fit(inputs, other_units).n_groups_ == 1
        turned = other_units * np.array([1.0, -1.0, 1.0, -1.0, -1.0, 1.0])
        assert TargetAggregator(cv=5, flip=True).fit(inputs, turned).n_groups_ == 1


def test_identical_targets_are_joined_among_others():
    for seed in range(12):
        inputs, targets = copies(5, seed)
        rng = np.random.default_rng(seed)
        others = inputs @ rng.normal(size=(3, 4)) * 5.0 + rng.normal(size=(60, 4))
        model = TargetAggregator(cv=5).fit(inputs, np.column_stack((targets, others)))
        assert set(model.labels_[:5]) == {0}


@pytest.mark.more
@pytest.mark.parametrize("head", ["mean", "levels"])
def test_identical_targets_with_identical_inputs_of_their_own_are_joined(head):
    layout = np.arange(15).reshape(5, 3).tolist()
    for seed in range(6):
        inputs, targets = copies(5, seed)
        targeted = TargetAggregator(cv=5)
        model = MultiInputCTFARegressor(layout, targets=targeted, aggregate="auto", head=head)
        model.fit(np.tile(inputs, 5), targets)
        assert model.n_groups_ == 1
        assert model.aggregate_ == "pool"  # which averaging cannot beat


def test_rounding_is_taken_out_of_errors_and_nothing_else_is():
    errors = np.array([1.0, 1.0 + 1e-15, 1.0 + 1e-8, 2.0, 2.0 - 1e-14, 0.0])
    expected = np.array([1.0, 1.0, 1.0 + 1e-8, 2.0, 2.0, 0.0])
    np.testing.assert_array_equal(without_rounding(errors), expected)
    # Values of a million are known to 1e-10, so errors of one to twice that.
    np.testing.assert_array_equal(without_rounding(errors, 1e12)[:4], [1.0, 1.0, 1.0, 2.0])
    np.testing.assert_array_equal(without_rounding(np.array([3e-31, 1e-31]), 1.0), [3e-31] * 2)
    np.testing.assert_array_equal(without_rounding(-errors), -expected)  # scores


def test_of_equal_errors_the_fewest_groups_are_taken_though_farther_from_one_and_a_half():
    limits, errors = np.array([-np.inf, 0.0, 1.5, 6.0, np.inf]), np.ones((3, 5))
    n_groups = np.array([9.0, 5.0, 4.0, 2.0, 2.0])
    assert CutCurve.of(limits, errors, n_groups).chosen == 3
    errors[:, 3:] += 0.01
    assert CutCurve.of(limits, errors, n_groups).chosen == 2
    errors[0, 2] += 1e-9  # one fold that tells them apart is no tie
    errors[1, 2] -= 1e-9
    assert CutCurve.of(limits, errors, n_groups).chosen == 2
    assert CutCurve.of(limits, errors, n_groups).best == 1


# -- Where nothing can be chosen -------------------------------------------------------------------


def test_folds_too_short_for_least_squares_are_judged_by_ridge_regression():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody has asked for least squares
        ridge = TargetAggregator(cv=TimeSeriesSplit(9)).fit(X[:20], Y[:20])
    assert np.isfinite(ridge.cv_curve_.fold_errors).all()
    given = TargetAggregator(cv=TimeSeriesSplit(9), regressor=RIDGE).fit(X[:20], Y[:20])
    assert np.isfinite(given.cv_curve_.fold_errors).all()
    asked = TargetAggregator(cv=TimeSeriesSplit(9), regressor=LinearRegression())
    with pytest.warns(RuntimeWarning, match="2 rows to learn from and 4 features.*Ridge"):
        asked.fit(X[:20], Y[:20])
    assert np.isfinite(asked.cv_curve_.fold_errors).all()


def test_folds_too_short_for_gaps_which_ridge_regression_does_not_take_fall_back_with_a_warning():
    gappy = Y[:20].copy()
    gappy[3, 0] = np.nan
    with pytest.warns(RuntimeWarning, match=r"cannot be chosen: fold 0 .* max_loss=1\.5 is used"):
        model = TargetAggregator(cv=TimeSeriesSplit(9)).fit(X[:20], gappy)
    assert model.max_loss_ == PREFERRED
    assert model.cv_curve_ is None
    fixed = TargetAggregator(max_loss=PREFERRED).fit(X[:20], gappy)
    assert model.partition_ == fixed.partition_


def test_a_single_target_asks_for_no_folds():
    model = TargetAggregator(cv=TimeSeriesSplit(50)).fit(X[:10], Y[:10, :1])
    assert model.cv_curve_ is None
    assert model.n_groups_ == 1


def test_more_folds_than_rows_are_lowered_to_two_rows_each():
    model = TargetAggregator(cv=1000).fit(X[:30], Y[:30])
    assert model.cv_curve_.fold_errors.shape[0] == 15


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (GroupKFold(3), "groups"),
        ([(np.arange(50), np.arange(50, 51))], "two of each or more"),
        ([], "gives no folds"),
        ([(np.arange(50), np.arange(50, 70))], "names row 69"),
        ("ten", "cannot split"),
    ],
    ids=str,
)
def test_folds_that_cannot_be_used_are_refused(cv, message):
    with pytest.raises(ValueError, match=message):
        TargetAggregator(cv=cv).fit(X, Y)


def test_labels_of_rows_must_be_as_many_as_rows():
    with pytest.raises(ValueError, match="pass one label for each row"):
        CTFARegressor(targets=TargetAggregator(cv=GroupKFold(3))).fit(X, Y, groups=LABELS[:-1])


@pytest.mark.parametrize("regressor", REGRESSORS)
def test_the_regressor_hands_labels_and_curve_on_and_judges(regressor):
    cv, regressor = GroupKFold(3), REGRESSORS[regressor]
    model = CTFARegressor(regressor, targets=TargetAggregator(cv=cv)).fit(X, Y, groups=LABELS)
    alone = TargetAggregator(cv=cv, regressor=regressor).fit(X, Y, groups=LABELS)
    np.testing.assert_array_equal(model.cv_curve_.fold_errors, alone.cv_curve_.fold_errors)
    assert model.max_loss_ == alone.max_loss_


# -- The picture -----------------------------------------------------------------------------------


def test_the_curve_is_drawn_on_a_given_axis():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    model = CTFARegressor().fit(X, Y)
    ax = pyplot.figure().subplots()
    n_figures = len(pyplot.get_fignums())
    assert plot_cv_curve(model, ax=ax) is ax
    assert len(pyplot.get_fignums()) == n_figures
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), model.cv_curve_.error)
    assert f"{model.max_loss_:g}" in ax.texts[0].get_text()
    assert plot_cv_curve(model.targets_) is not ax
    pyplot.close("all")


def test_an_axis_is_all_that_drawing_needs():
    ax = MagicMock()
    model = TargetAggregator().fit(X, Y)
    assert plot_cv_curve(model, ax=ax) is ax
    labels = ax.set_xticks.call_args.args[1]
    assert labels[0].startswith("none\n6")
    assert labels[-1].startswith("all\n1")


def test_without_a_curve_there_is_nothing_to_draw():
    for model in (TargetAggregator(), TargetAggregator(max_loss=1.0).fit(X, Y)):
        with pytest.raises(ValueError, match="fit it with max_loss='auto'"):
            plot_cv_curve(model, ax=object())


def test_a_curve_is_shown_in_a_line():
    errors = np.array([[1.0, 0.5, 2.0], [1.2, 0.7, 2.0]])
    curve = CutCurve(np.array([-np.inf, 1.5, np.inf]), errors, np.array([9.0, 4.5, 1.0]), 1)
    assert (
        repr(curve) == "<CutCurve: max_loss=1.5 chosen of 3 limits, error 0.6, 4.5 groups, 2 folds>"
    )


@pytest.mark.more
@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3, 1.0, 10.0])
@pytest.mark.parametrize(
    "options", [{}, {"flip": True}, {"guard": "member"}, {"regressor": RIDGE}], ids=str
)
def test_copies_are_joined_though_folds_choose_to_merge_nothing_else(options, noise):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 2))
        y = X.sum(axis=1) + noise * rng.normal(size=80)
        copies = np.column_stack([y, 1.8 * y + 32.0, y / 1000.0])
        others = rng.normal(size=(80, 2))
        for Y in (copies, np.hstack([copies, others])):
            model = TargetAggregator(**options).fit(X, Y)
            assert len(set(model.labels_[:3])) == 1, (seed, model.labels_)


def test_without_copies_the_limit_that_merges_nothing_is_as_it_was():
    rng = np.random.default_rng(18)
    X = rng.normal(size=(80, 2))
    Y = np.column_stack([X @ [1.0, 1.0], X @ [1.0, -1.0]]) + 0.1 * rng.normal(size=(80, 2))
    model = TargetAggregator().fit(X, Y)
    assert model.n_groups_ == 2
    alone = TargetAggregator(max_loss=model.max_loss_).fit(X, Y)
    np.testing.assert_allclose(alone.loss_interval_, model.loss_interval_)
    unmerged = TargetAggregator(max_loss=-np.inf).fit(X, np.column_stack([Y, Y]))
    assert unmerged.n_groups_ == 4  # whoever asks for nothing gets nothing
