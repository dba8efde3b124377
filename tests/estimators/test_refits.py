"""Merges judged by any regressor, on rows that it was not fitted to."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.model_selection import KFold, ShuffleSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import ctfa
from ctfa import BlockedKFold, CTFARegressor, FeatureAggregator, TargetAggregator, testing
from ctfa import _reading as check
from ctfa.core.partition import Partition
from ctfa.core.tasks.base import PathPoint
from ctfa.core.tasks.out_of_fold import GappyOutOfFoldSpace, OutOfFold
from ctfa.core.tasks.shared import SharedInputs
from ctfa.estimators.refits import SHARES, OnFolds, groups_on_folds, out_of_fold
from ctfa.estimators.search import pose
from ctfa.estimators.targets import RATIOS, PhaseOne

NEAREST = KNeighborsRegressor(4)


def curved(seed=0, n=90, noise=0.5, flip=False):
    """Two groups of three targets that no linear model tells apart, in units of their own."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    signal = np.column_stack([X[:, 0] ** 2 - 1.0] * 3 + [np.abs(X[:, 1]) - 0.8] * 3)
    Y = signal + noise * rng.normal(size=(n, 6))
    if flip:
        Y[:, [1, 4]] *= -1.0
    return X, Y * [1.0, 10.0, 0.1, 1.0, 3.0, 1.0] + [0.0, 50.0, 0.0, -9.0, 0.0, 1.0]


class Counted(RegressorMixin, BaseEstimator):
    """Nearest neighbours that count how often they are fitted."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.model_ = KNeighborsRegressor(4).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


# -- By hand ---------------------------------------------------------------------------------------


def in_units(Y, rows):
    """Level and scale of every target over some rows."""
    return Y[rows].mean(axis=0), Y[rows].std(axis=0)


def told_by_hand(X, Y, train, test):
    """What a model of each target, fitted to some rows in their units, says of others."""
    level, scale = in_units(Y, train)
    units = ((Y - level) / scale)[train]
    told = [clone(NEAREST).fit(X[train], one).predict(X[test]) for one in units.T]
    return level + np.column_stack(told) * scale, np.repeat(level[None], len(test), axis=0)


def path_by_hand(left, wrong):
    """Merges, smallest loss first: the largest loss so far and the groups, one entry per merge."""
    groups, steps, worst = [[k] for k in range(left.shape[1])], [], -np.inf
    steps.append((worst, [list(group) for group in groups]))
    while len(groups) > 1:
        losses = {}
        for a, b in itertools.combinations(range(len(groups)), 2):
            d, gap = (
                each[:, groups[a]].mean(axis=1) - each[:, groups[b]].mean(axis=1)
                for each in (left, wrong)
            )
            losses[a, b] = (d @ d) / (gap @ gap)
        (a, b), loss = min(losses.items(), key=lambda item: item[1])
        worst = max(worst, loss)
        groups[a] = groups[a] + groups.pop(b)
        steps.append((worst, [list(group) for group in groups]))
    return steps


def at(steps, limit):
    return [groups for loss, groups in steps if loss <= limit][-1]


def chosen_by_hand(X, Y, folds):
    """Limit, groups, and the groups that each fold finds at that limit."""
    n, unit = len(Y), Y.std(axis=0)
    told = [told_by_hand(X, Y, train, test) for train, test in folds]
    errors, paths = np.zeros((len(folds), len(RATIOS))), []
    for k, (train, test) in enumerate(folds):
        wrong, left = np.full((2, *Y.shape), np.nan)
        for j, (others, rows) in enumerate(folds):
            if j != k:
                both = np.intersect1d(train, others)
                say, level = told_by_hand(X, Y, both, rows)
                wrong[rows], left[rows] = Y[rows] - say, Y[rows] - level
        scale = left[train].std(axis=0)
        paths.append(path_by_hand(left[train] / scale, wrong[train] / scale))
        say, level = told[k]
        for number, limit in enumerate(RATIOS):
            for group in at(paths[-1], limit):
                mean = ((say - level) / scale)[:, group].mean(axis=1, keepdims=True)
                served = level[:, group] + mean * scale[group]
                errors[k, number] += (((Y[test][:, group] - served) / unit[group]) ** 2).sum()
    counts = np.array([[len(at(path, limit)) for limit in RATIOS] for path in paths]).mean(axis=0)
    mean = errors.sum(axis=0)
    best = [k for k in range(len(RATIOS)) if (errors[:, k] == errors[:, mean.argmin()]).all()]
    best = [k for k in best if counts[k] == counts[best].min()]
    run = [k for k in best if k - best[0] == best.index(k)]  # neighbours, and the middle of them
    limit = RATIOS[0 if counts[best[0]] == Y.shape[1] else run[(len(run) - 1) // 2]]
    wrong, left = np.empty((2, n, Y.shape[1]))
    for (say, level), (_, test) in zip(told, folds, strict=True):
        wrong[test], left[test] = Y[test] - say, Y[test] - level
    groups = at(path_by_hand(left / unit, wrong / unit), limit)
    return limit, Partition.from_groups(groups), [at(path, limit) for path in paths]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.4, 1.5])
def test_the_limit_and_the_groups_are_those_found_by_hand(seed, noise):
    X, Y = curved(seed, noise=noise)
    folds = list(KFold(4).split(X))
    limit, partition, _ = chosen_by_hand(X, Y, folds)
    model = TargetAggregator(regressor=NEAREST).fit(X, Y)
    assert model.max_loss_ == limit
    assert model.partition_ == partition
    assert CTFARegressor(NEAREST).fit(X, Y).partition_ == partition


def test_weights_and_gains_are_those_of_groups_that_folds_found_without_their_rows():
    X, Y = curved(3, noise=0.8)
    folds, unit = list(KFold(4).split(X)), Y.std(axis=0)
    model = CTFARegressor(NEAREST).fit(X, Y)
    _, partition, found = chosen_by_hand(X, Y, folds)
    errors = np.zeros((3, 4, 30, 6))[:, :, : len(folds[0][1])]
    for k, ((train, test), groups) in enumerate(zip(folds, found, strict=True)):
        level, scale = in_units(Y, train)
        say, _ = told_by_hand(X, Y, train, test)
        by_mean, by_group = say.copy(), say.copy()
        for group in groups:
            means = ((Y - level) / scale)[:, group].mean(axis=1)
            alone = len(group) == 1
            told = clone(NEAREST).fit(X[train], means[train]).predict(X[test])[:, None]
            by_group[:, group] = say[:, group] if alone else level[group] + told * scale[group]
            told = ((say - level) / scale)[:, group].mean(axis=1, keepdims=True)
            by_mean[:, group] = level[group] + told * scale[group]
        for at_one, told in enumerate((say, by_mean, by_group)):
            errors[at_one, k, : len(test)] = (Y[test] - told) / unit
    best = np.inf, None
    for share in SHARES:
        whole = (1.0 - share) * errors[1] + share * errors[2]
        trust = np.ones(6)
        for group in partition.groups:
            if group.size > 1:
                d, own = (whole - errors[0])[..., group], errors[0][..., group]
                trust[group] = np.clip(-(d * own).sum() / (d * d).sum(), 0.0, 1.0)
        served = ((trust * whole + (1.0 - trust) * errors[0]) ** 2).sum()
        if served < best[0] * (1.0 - 1e-9):
            best = served, trust, share
    np.testing.assert_allclose(model.trust_, best[1])
    assert model._singles.share == best[2]
    merged = partition.sizes[partition.labels] > 1
    saved = (errors[0] ** 2 - errors[2] ** 2).sum(axis=(0, 1)) / len(Y)
    for target in range(6):
        told = model.why(target)
        assert told.held_out
        assert told.gain == pytest.approx(saved[target] * merged[target])
    assert merged.any()
    assert "on held-out blocks" in str(model.why(int(np.flatnonzero(merged)[0])))


def test_what_serves_is_the_mixture_of_the_groups_models_and_those_of_members():
    X, Y = curved(3, noise=0.8)
    model = CTFARegressor(NEAREST).fit(X, Y)
    level, scale = in_units(Y, slice(None))
    units = (Y - level) / scale
    own = np.column_stack([clone(NEAREST).fit(X, one).predict(X) for one in units.T])
    labels = model.labels_
    group = np.column_stack(
        [clone(NEAREST).fit(X, units[:, labels == k].mean(axis=1)).predict(X) for k in labels]
    )
    mean = np.column_stack([own[:, labels == k].mean(axis=1) for k in labels])
    share, trust = model._singles.share, model.trust_
    whole = share * group + (1.0 - share) * mean
    expected = level + (trust * whole + (1.0 - trust) * own) * scale
    np.testing.assert_allclose(model.predict(X), expected)
    alone = CTFARegressor(NEAREST, head="mean").fit(X, Y)
    np.testing.assert_allclose(alone.predict(X), level + group * scale)


# -- Nothing leaks ---------------------------------------------------------------------------------


def told_of(X, Y, cv=4, weights=None):
    aggregator = TargetAggregator(regressor=NEAREST, cv=cv)
    targets = check.read_targets(Y, len(X))
    tasks = SharedInputs(check.Sample(X, weights, None), targets.values)
    return PhaseOne(aggregator, tasks, targets).ask_refits(chooses=True)[1]


@pytest.mark.more
@pytest.mark.parametrize("cv", [4, BlockedKFold(5, gap=3)], ids=str)
def test_changing_targets_in_a_block_leaves_the_path_that_it_judges_as_it_was(cv):
    X, Y = curved(1)
    splits = list((KFold(4) if cv == 4 else cv).split(X))
    before = told_of(X, Y, cv)
    for block, (_, test) in enumerate(splits):
        changed = Y.copy()
        changed[test] = 1e3 * np.random.default_rng(0).normal(size=changed[test].shape)
        known, _ = told_of(X, changed, cv).folds[block]
        for name in ("values", "level", "told"):
            one, other = getattr(before.folds[block][0], name), getattr(known, name)
            assert one.tobytes() == other.tobytes()


def test_unrelated_targets_stay_by_themselves_and_kin_is_found_where_a_linear_model_sees_none():
    X, Y = curved(0, n=160)
    assert CTFARegressor(KernelRidge(kernel="rbf")).fit(X, Y).labels_.tolist() == [0, 0, 0, 1, 1, 1]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = np.sin(2.0 * X @ rng.normal(size=(4, 6))) + 0.2 * rng.normal(size=(200, 6))
    assert CTFARegressor(KernelRidge(kernel="rbf")).fit(X, Y).n_groups_ == 6


# -- How much it costs -----------------------------------------------------------------------------


def test_fits_are_those_of_every_fold_and_every_pair_of_them():
    X, Y = curved(0)
    seen = []
    Counted.fits = 0
    with ctfa.progress(seen.append, every=0.0):
        groups = TargetAggregator(regressor=Counted()).fit(X, Y)
    assert Counted.fits == 6 * (4 + 6)
    assert seen[0].stage == "60 fits of Counted()"
    assert [seen[0].n_merges, seen[0].n_variables - 1] == [0, 60]
    Counted.fits = 0
    TargetAggregator(regressor=Counted(), max_loss=1.0).fit(X, Y)
    assert Counted.fits == 6 * 4
    Counted.fits = 0
    TargetAggregator(regressor=Counted(), max_loss=-np.inf).fit(X, Y)
    assert Counted.fits == 0
    Counted.fits = 0
    CTFARegressor(Counted()).fit(X, Y[:, :1])
    assert Counted.fits == 1
    assert groups.n_groups_ == 2


@pytest.mark.parametrize("head", ["levels", "mean"])
def test_a_cheap_judge_costs_one_fit_per_group(head):
    X, Y = curved(0)
    targets = TargetAggregator(regressor=LinearRegression())
    Counted.fits = 0
    model = CTFARegressor(Counted(), targets=targets, head=head).fit(X, Y)
    assert Counted.fits == model.n_groups_
    assert (model.trust_ == 1.0).all()
    cheap = TargetAggregator(regressor=LinearRegression()).fit(X, Y)
    assert model.partition_ == cheap.partition_
    if model.n_groups_ < 6:
        assert "linear model" in str(model.why(0)) or len(model.why(0).members) == 1


def test_workers_change_nothing():
    X, Y = curved(0, n=60)
    one, two = (CTFARegressor(NEAREST, n_jobs=n).fit(X, Y) for n in (None, 2))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.cv_curve_.fold_errors, two.cv_curve_.fold_errors)


def test_fits_that_are_stopped_leave_every_target_by_itself():
    X, Y = curved(0)
    count = itertools.count()
    with (
        ctfa.progress(lambda now: next(count) < 5, every=0.0),
        pytest.warns(ctfa.SearchStopped, match="every target stays by itself"),
    ):
        model = CTFARegressor(NEAREST).fit(X, Y)
    assert model.n_groups_ == 6
    assert np.isfinite(model.predict(X)).all()


def test_groups_whose_fits_are_stopped_serve_by_themselves():
    X, Y = curved(0)
    whole = CTFARegressor(NEAREST).fit(X, Y)
    with (
        # Six targets on folds and pairs of them are sixty fits; groups come after these.
        ctfa.progress(lambda now: "60 fits" in now.stage or "fits" not in now.stage, every=0.0),
        pytest.warns(ctfa.SearchStopped, match="groups serve their members by themselves"),
    ):
        model = CTFARegressor(NEAREST).fit(X, Y)
    assert model.partition_ == whole.partition_
    assert (model.trust_ == 1.0).all()
    mean = CTFARegressor(NEAREST, head="mean").fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), mean.predict(X))


# -- Whatever is asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cv",
    [3, KFold(5), BlockedKFold(4, gap=5), TimeSeriesSplit(5), ShuffleSplit(4, random_state=0)],
    ids=lambda cv: type(cv).__name__,
)
def test_any_folds_judge(cv):
    X, Y = curved(0, n=150)
    groups = TargetAggregator(regressor=NEAREST, cv=cv).fit(X, Y)
    assert groups.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    by_hand = TargetAggregator(regressor=NEAREST, cv=list(cv.split(X))) if cv != 3 else groups
    assert by_hand.fit(X, Y).max_loss_ == groups.max_loss_


def test_two_folds_do_not_choose_a_limit():
    X, Y = curved(0)
    with pytest.warns(RuntimeWarning, match="on 2 folds by a regressor .* Use 3 folds or more"):
        assert TargetAggregator(regressor=NEAREST, cv=2).fit(X, Y).max_loss_ == 1.0


def test_rows_that_make_no_folds_merge_nobody_and_it_is_said():
    X, Y = curved(0)
    with pytest.warns(RuntimeWarning, match="on 3 rows: .* Nothing is merged; pass more rows"):
        model = CTFARegressor(KNeighborsRegressor(1)).fit(X[:3], Y[:3])
    assert model.n_groups_ == 6


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_few_rows_are_served(n):
    X, Y = curved(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = CTFARegressor(KNeighborsRegressor(1)).fit(X[:n], Y[:n])
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    "options",
    [
        {"flip": True},
        {"scale": "center"},
        {"scan": "correlation"},
        {"scan": "grow", "max_loss": 1.0},
        {"scan": "restart", "max_loss": 1.0},
        {"connectivity": [(0, 1), (1, 2), (3, 4), (4, 5)]},
    ],
    ids=str,
)
def test_options_of_targets_hold(options):
    X, Y = curved(2, n=150, noise=0.4, flip="flip" in options)
    if options.get("scale") == "center":
        Y = Y / Y.std(axis=0)
    model = CTFARegressor(NEAREST, targets=TargetAggregator(**options)).fit(X, Y)
    assert model.n_groups_ < 6
    assert all(np.unique(group // 3).size == 1 for group in model.partition_.groups)
    if "flip" in options:
        assert model.signs_.tolist() == [1.0, -1.0, 1.0, 1.0, -1.0, 1.0]
    assert model.score(X, Y) > 0.5
    assert "nan" not in str(model.why(0))


def test_nobody_is_predicted_to_lose_where_members_are_guarded():
    X, Y = curved(2, n=150)
    free, guarded = (
        CTFARegressor(NEAREST, targets=TargetAggregator(guard=guard, max_loss=np.inf)).fit(X, Y)
        for guard in (None, "member")
    )
    assert (guarded.merges_["worst_gain"] >= -1e-12).all()
    assert guarded.n_groups_ < 6
    assert (free.merges_["worst_gain"] < 0.0).any()


def test_a_target_that_counts_twice_is_one_given_twice():
    X, Y = curved(2, noise=1.0)
    once = CTFARegressor(NEAREST, head="mean").fit(X, Y, target_weight=[2, 1, 1, 1, 1, 1])
    twice = CTFARegressor(NEAREST, head="mean").fit(X, np.column_stack((Y[:, 0], Y)))
    assert once.max_loss_ == twice.max_loss_
    np.testing.assert_allclose(once.predict(X), twice.predict(X)[:, 1:])


def test_missing_targets_are_judged_on_the_rows_that_both_have():
    X, Y = curved(0, n=200)
    rng = np.random.default_rng(0)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    model = CTFARegressor(NEAREST).fit(X, Y)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.trust_).all()
    assert "nan" not in str(model.why(0))


@pytest.mark.more
def test_missing_features_are_the_regressors_business():
    X, Y = curved(0, n=200)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    boosting = HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=5)
    model = CTFARegressor(boosting).fit(X, Y)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.isfinite(model.predict(X)).all()
    assert TargetAggregator(regressor=boosting).fit(X, Y).partition_ == model.partition_
    with pytest.raises(ValueError, match="NaN"):
        CTFARegressor(NEAREST).fit(X, Y)
    with pytest.raises(ValueError, match=r"NaN|missing"):
        CTFARegressor(boosting, features=FeatureAggregator()).fit(X, Y)


def test_what_confounds_explain_is_no_difference():
    X, Y = curved(0, n=200)
    season = np.column_stack([np.sin(np.arange(200) / 9.0), np.arange(200) / 200.0])
    wave = season @ np.random.default_rng(1).normal(size=(2, 6)) * 5.0 * Y.std(axis=0)
    plain = CTFARegressor(NEAREST).fit(X, Y)
    model = CTFARegressor(NEAREST).fit(X, Y + wave, confounds=season)
    other = CTFARegressor(NEAREST).fit(X, Y, confounds=season)
    np.testing.assert_allclose(model.cv_curve_.fold_errors, other.cv_curve_.fold_errors)
    assert model.partition_ == plain.partition_
    with pytest.raises(ValueError, match="confounds"):
        model.predict(X)


def test_a_row_without_weight_is_no_row():
    X, Y = curved(0, n=80)
    kernel = KernelRidge(kernel="rbf")
    folds = list(KFold(4).split(X))
    more = [(np.append(train, 80), test) for train, test in folds]
    extra = np.vstack((X, [[9.0, 9.0]])), np.vstack((Y, 1e3 * np.ones((1, 6))))
    weights = np.append(np.ones(80), 0.0)
    one = CTFARegressor(kernel, targets=TargetAggregator(cv=folds)).fit(X, Y)
    two = CTFARegressor(kernel, targets=TargetAggregator(cv=more)).fit(*extra, weights)
    np.testing.assert_allclose(one.predict(X), two.predict(X))


def test_groups_judged_by_a_regressor_may_be_served_by_levels():
    X, Y = curved(0, n=120)
    targets = TargetAggregator(regressor=NEAREST)
    model = CTFARegressor(targets=targets).fit(X, Y)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert model.coef_.shape == (6, 2)
    other = CTFARegressor(KNeighborsRegressor(9), targets=targets).fit(X, Y)
    assert other.partition_ == model.partition_
    assert (other.trust_ == 1.0).all()


def test_a_pipeline_is_any_regressor_and_features_that_are_passed_are_merged():
    X, Y = curved(0, n=120)
    X = np.column_stack((X, X + 0.01))
    pipeline = make_pipeline(StandardScaler(), KNeighborsRegressor(4))
    plain = CTFARegressor(pipeline).fit(X, Y)
    assert all(features.n_groups_ == 4 for features in plain.features_)
    merged = CTFARegressor(pipeline, features=FeatureAggregator(max_loss=np.inf)).fit(X, Y)
    assert all(features.n_groups_ < 4 for features in merged.features_)
    assert merged.partition_ == plain.partition_


def test_linear_regressors_that_learn_from_sums_are_judged_alike_in_rows_and_in_sums():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    Y = X @ rng.normal(size=(5, 2))[:, [0, 0, 1, 1]] + 3.0 * rng.normal(size=(4000, 4))
    lasso = Lasso(0.01)
    folds = list(KFold(4).split(X))  # lists of rows are not summed up
    rows = CTFARegressor(lasso, targets=TargetAggregator(cv=folds)).fit(X, Y)
    sums = CTFARegressor(lasso).fit(X, Y)
    np.testing.assert_allclose(sums.cv_curve_.fold_errors, rows.cv_curve_.fold_errors, rtol=1e-6)
    np.testing.assert_allclose(sums.trust_, rows.trust_, rtol=1e-4)
    np.testing.assert_allclose(sums.predict(X), rows.predict(X), rtol=1e-4, atol=1e-6)


def test_predictions_that_failed_are_told():
    class Failing(Ridge):
        def predict(self, X):
            return np.full(len(X), np.nan)

    X, Y = curved(0)
    with pytest.raises(ValueError, match=r"Failing cannot judge .* predicted NaN .*Aggregator\("):
        CTFARegressor(Failing()).fit(X, Y)


def test_a_regressor_that_refuses_rows_it_has_not_seen_says_what_to_do():
    X = np.repeat(np.arange(6.0), 10)[:, None]
    Y = np.random.default_rng(0).normal(size=(60, 3))
    strict = make_pipeline(OneHotEncoder(handle_unknown="error"), Ridge())
    with pytest.raises(ValueError, match=r"Pipeline cannot judge .*unknown categories.* Use anoth"):
        CTFARegressor(strict).fit(X, Y)
    cheap = TargetAggregator(regressor=LinearRegression())
    assert np.isfinite(CTFARegressor(strict, targets=cheap).fit(X, Y).predict(X)).all()


@pytest.mark.parametrize("seed", [4, 9])
def test_coefficients_of_a_mixture_of_linear_models_are_those_of_its_predictions(seed):
    rng = np.random.default_rng(seed)
    X, own = rng.normal(size=(80, 3)), 0.4 * rng.normal(size=(3, 4))
    Y = X @ (rng.normal(size=(3, 2))[:, [0, 0, 1, 1]] + own) + 1.5 * rng.normal(size=(80, 4))
    Y[:, 1] *= -1
    targets = TargetAggregator(flip=True, max_loss=1.1)
    model = CTFARegressor(Lasso(0.2), targets=targets).fit(X, Y)
    assert model._singles.share < 1.0
    assert (model.signs_ < 0.0).any()
    assert ((model.trust_ > 0.0) & (model.trust_ < 1.0)).any()
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.predict(X), atol=1e-9)


def test_a_fitted_mixture_is_the_same_after_a_file(tmp_path):
    X, Y = curved(3, noise=0.8)
    Y = Y + Y.std(axis=0) * X[:, :1] * [0.5, -0.5, 0.0, 0.5, -0.5, 0.0]
    model = CTFARegressor(KernelRidge(kernel="rbf"), targets=TargetAggregator(max_loss=1.2))
    model.fit(X, Y)
    assert model._singles.share < 1.0 or (model.trust_ < 1.0).any()
    ctfa.persistence.save(model, tmp_path / "model.ctfa")
    again = ctfa.persistence.load(tmp_path / "model.ctfa")
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-12)
    assert again._singles.share == model._singles.share


def test_groups_are_found_again_on_subsamples_whatever_the_folds():
    X, Y = curved(0, n=120)
    for cv in (10, list(KFold(4).split(X))):
        model = CTFARegressor(NEAREST, targets=TargetAggregator(cv=cv)).fit(X, Y)
        together = model.stability(X, Y, cv=3)
        assert together[0, 1] > together[0, 3]


# -- Parts -----------------------------------------------------------------------------------------


def tables(seed=0, n=40, L=7, gaps=0.0):
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(n, 2)) @ rng.normal(size=(2, L)) + rng.normal(size=(n, L))
    left = whole - 0.5 * rng.normal(size=(n, L))
    whole[rng.random((n, L)) < gaps] = np.nan
    return whole, np.where(np.isnan(whole), np.nan, left)


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_the_space_of_targets_with_gaps_keeps_the_laws(gaps):
    whole, left = tables(gaps=gaps)

    def build(groups):
        space, fresh = (
            GappyOutOfFoldSpace(whole[:, :many], left[:, :many]) for many in (7, len(groups))
        )
        for name in ("_count", "_whole", "_told", "_size"):
            sums = [getattr(space, name)[group].sum(axis=0) for group in groups]
            setattr(fresh, name, np.array(sums))
        return fresh

    testing.check_space(build, 7)


def test_without_gaps_the_space_of_gaps_answers_as_the_other():
    whole, left = tables()
    rule = PhaseOne(TargetAggregator(regressor=NEAREST), None, check.read_targets(whole)).rule
    told = OutOfFold(whole, np.zeros_like(whole), whole - left)
    plain = pose(rule, told.fits(rule).space())
    scale = told.fits(rule).scales
    gappy = pose(rule, GappyOutOfFoldSpace(whole / scale, left / scale))
    one, other = plain.solve(np.inf), gappy.solve(np.inf)
    np.testing.assert_array_equal(one.block, other.block)
    np.testing.assert_allclose(one.loss, other.loss)


def test_products_of_errors_tell_the_error_of_every_mixture():
    rng = np.random.default_rng(0)
    errors = rng.normal(size=(3, 4, 25, 6))
    products = np.einsum("afnl,bfnl->abfl", errors, errors)
    on_folds = OnFolds(np.full((4, 6), 25.0), products)
    trust = rng.random(6)
    for share in SHARES:
        mixed = trust * (share * errors[2] + (1 - share) * errors[1]) + (1 - trust) * errors[0]
        expected = (mixed**2).sum(axis=1)
        np.testing.assert_allclose(on_folds.served(trust, share), expected)
    partition = Partition(np.array([0, 0, 1, 1, 1, 2]))
    best, share = on_folds.mixture(partition, None)
    assert best[5] == 1.0
    least = on_folds.served(best, share).sum()
    for other in SHARES:
        for weight in np.linspace(0.0, 1.0, 11):
            trial = np.where(partition.labels == 2, 1.0, weight)
            assert least <= on_folds.served(trial, other).sum() + 1e-9


def test_the_same_groups_may_be_asked_of_every_fold():
    X, Y = curved(0)
    targets = check.read_targets(Y, len(X))
    tasks = SharedInputs(check.Sample(X, None, None), targets.values)
    rule = PhaseOne(TargetAggregator(), tasks, targets, judge=NEAREST).rule
    splits = list(KFold(3).split(X))
    told = out_of_fold(NEAREST, tasks, rule, splits, np.ones(6), None, chooses=False)
    point = PathPoint(1.0, Partition(np.array([0, 0, 0, 1, 1, 1])), (1.0, 1.0))
    known = NEAREST, tasks, rule, told, splits
    one, other = groups_on_folds(*known, point), groups_on_folds(*known, [point] * 3)
    np.testing.assert_array_equal(one.products, other.products)
