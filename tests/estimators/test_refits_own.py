"""Merges of tasks with rows or inputs of their own, judged by any regressor."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline

import ctfa
from ctfa import (
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    testing,
)
from ctfa import _reading as check
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.partition import Partition
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.tasks.out_of_fold import Crosswise, CrosswiseSpace
from ctfa.core.tasks.own_rows import TaskRows
from ctfa.estimators.own_refits import OwnTold, told_crosswise, units_of_rows
from ctfa.estimators.search import read_rule
from ctfa.estimators.targets import RATIOS

NEAREST = KNeighborsRegressor(3)
KERNEL = KernelRidge(kernel="rbf", alpha=0.3)


def pupils(seed=0, n_tasks=6, n=40, noise=0.3, apart=0.0):
    """Half of the tasks follow a square, half a corner: no linear model tells them apart."""
    rng = np.random.default_rng(seed)
    ids = np.arange(n_tasks * n) % n_tasks
    X = rng.normal(size=(ids.size, 2))
    X[:, 0] += apart * (ids % 2)
    signal = np.where(ids < n_tasks // 2, X[:, 0] ** 2 - 1.0, 2.0 * (np.abs(X[:, 1]) - 0.8))
    return X, signal + 3.0 * (ids % 4) + noise * rng.normal(size=ids.size), ids


def unrelated(seed=0, n_tasks=8, n=60):
    rng = np.random.default_rng(seed)
    ids = np.arange(n_tasks * n) % n_tasks
    X = rng.normal(size=(ids.size, 3))
    slopes = rng.normal(size=(n_tasks, 3))
    y = np.sin((X * slopes[ids]).sum(axis=1)) + 0.2 * rng.normal(size=ids.size)
    return X, y, ids


def only(cv=4, **options):
    return TargetAggregator(cv=list(cv) if isinstance(cv, list) else cv, **options)


class Counted(RegressorMixin, BaseEstimator):
    """Nearest neighbours that count how often they are fitted."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.model_ = KNeighborsRegressor(3).fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


# -- By hand ---------------------------------------------------------------------------------------


def by_hand(X, y, ids, train):
    """Levels and a model of each task, of some rows; what each says on average."""
    tasks = range(ids.max() + 1)
    own = [train[ids[train] == task] for task in tasks]
    level = np.array([y[rows].mean() for rows in own])
    models = [clone(NEAREST).fit(X[rows], y[rows] - level[task]) for task, rows in enumerate(own)]
    means = np.array([[model.predict(X[rows]).mean() for model in models] for rows in own])
    np.fill_diagonal(means, 0.0)
    return own, level, models, means


def said(X, y, ids, train, test):
    """Targets about their levels, and what all models say of them; how much each model counts."""
    own, level, models, means = by_hand(X, y, ids, train)
    told = np.column_stack([model.predict(X[test]) for model in models]) - means[ids[test]]
    return y[test] - level[ids[test]], told, np.array([rows.size for rows in own])


def error(values, told, of, counts, group):
    """Squared error of all tasks of a group, each row by the mean of all its models."""
    rows = np.isin(of, group)
    served = np.average(told[rows][:, group], axis=1, weights=counts[group])
    return ((values[rows] - served) ** 2).sum()


def path_by_hand(values, told, of, counts):
    groups, worst = [[k] for k in range(counts.size)], -np.inf
    steps = [(worst, [list(group) for group in groups])]
    while len(groups) > 1:
        losses = {}
        for a, b in itertools.combinations(range(len(groups)), 2):
            both, one, two = (
                error(values, told, of, counts, group)
                for group in (groups[a] + groups[b], groups[a], groups[b])
            )
            losses[a, b] = both / (one + two)
        (a, b), loss = min(losses.items(), key=lambda item: item[1])
        worst = max(worst, loss)
        groups[a] = groups[a] + groups.pop(b)
        steps.append((worst, [list(group) for group in groups]))
    return steps


def at(steps, limit):
    return [groups for loss, groups in steps if loss <= limit][-1]


def chosen_by_hand(X, y, ids, folds):
    """Limit, groups, and the groups that each fold finds at that limit."""
    errors, paths, parts = np.zeros((len(folds), len(RATIOS))), [], []
    for k, (train, test) in enumerate(folds):
        seen = []
        for j, (others, rows) in enumerate(folds):
            if j != k:
                seen.append((*said(X, y, ids, np.intersect1d(train, others), rows), ids[rows]))
        values, told, counts, of = zip(*seen, strict=True)
        known = (np.concatenate(each) for each in (values, told, of))
        paths.append(path_by_hand(*known, np.mean(counts, axis=0)))
        values, told, counts = said(X, y, ids, train, test)
        parts.append((values, told, ids[test], counts))
        for number, limit in enumerate(RATIOS):
            for group in at(paths[-1], limit):
                errors[k, number] += error(values, told, ids[test], counts, group)
    total = errors.sum(axis=0)
    n_groups = np.array([[len(at(path, limit)) for limit in RATIOS] for path in paths])
    best = [k for k in range(len(RATIOS)) if (errors[:, k] == errors[:, total.argmin()]).all()]
    counts = n_groups.mean(axis=0)
    best = [k for k in best if counts[k] == counts[best].min()]
    run = [k for k in best if k - best[0] == best.index(k)]
    limit = RATIOS[0 if counts[best[0]] == ids.max() + 1 else run[(len(run) - 1) // 2]]
    values, told, of, counts = zip(*parts, strict=True)
    whole = path_by_hand(*map(np.concatenate, (values, told, of)), np.mean(counts, axis=0))
    partition = Partition.from_groups(at(whole, limit))
    return limit, partition, [at(path, limit) for path in paths]


def stacked_by_hand(X, y, ids, train, group, extra):
    """The model of a group's stacked rows, and its mean over the rows of each task of it."""
    own, level, _, means = by_hand(X, y, ids, train)
    counts = np.array([rows.size for rows in own])
    added = means if extra is None else extra
    shift = added[:, group] @ counts[group] / counts[group].sum()
    rows = train[np.isin(ids[train], group)]
    model = clone(NEAREST).fit(X[rows], y[rows] - level[ids[rows]] + shift[ids[rows]])
    return model, {task: model.predict(X[own[task]]).mean() for task in group}


@pytest.mark.more
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.3, 1.5])
def test_the_limit_and_the_groups_of_own_rows_are_those_found_by_refitting_everything(seed, noise):
    X, y, ids = pupils(seed, noise=noise, apart=0.5)
    folds = list(KFold(4).split(X))
    limit, partition, _ = chosen_by_hand(X, y, ids, folds)
    model = PooledCTFARegressor(NEAREST, targets=only(folds)).fit(X, y, tasks=ids)
    assert model.max_loss_ == limit
    assert model.partition_ == partition
    explicit = only(folds, regressor=NEAREST)
    other = PooledCTFARegressor(targets=explicit).fit(X, y, tasks=ids)
    assert other.partition_ == partition


@pytest.mark.more
def test_weights_gains_and_predictions_of_own_rows_are_those_by_hand():
    X, y, ids = pupils(1, noise=0.8, apart=0.5)
    y = y + 0.7 * X[:, 0] * (ids % 2)
    folds, everything = list(KFold(4).split(X)), np.arange(ids.size)
    model = PooledCTFARegressor(NEAREST, targets=only(folds)).fit(X, y, tasks=ids)
    _, partition, found = chosen_by_hand(X, y, ids, folds)
    assert model.partition_ == partition
    wrong = np.empty((2, ids.size))
    for (train, test), groups in zip(folds, found, strict=True):
        values, told, _ = said(X, y, ids, train, test)
        wrong[:, test] = values - told[np.arange(test.size), ids[test]]
        for group in groups:
            if len(group) > 1:
                stack, mean = stacked_by_hand(X, y, ids, train, group, None)
                for row in np.flatnonzero(np.isin(ids[test], group)):
                    told_by = stack.predict(X[test[[row]]])[0] - mean[ids[test[row]]]
                    wrong[1, test[row]] = values[row] - told_by
    trust = np.ones(6)
    for group in partition.groups:
        if group.size > 1:
            rows = np.isin(ids, group)
            d = wrong[1, rows] - wrong[0, rows]
            trust[group] = np.clip(-(d @ wrong[0, rows]) / (d @ d), 0.0, 1.0)
    np.testing.assert_allclose(model.trust_, trust)
    assert (trust < 1.0).any()
    level = by_hand(X, y, ids, everything)[1]
    unit = np.sqrt(np.mean((y - level[ids]) ** 2))
    for task in range(6):
        saved = wrong[0, ids == task] ** 2 - wrong[1, ids == task] ** 2
        merged = partition.sizes[partition.labels[task]] > 1
        assert model.why(task).gain == pytest.approx(merged * saved.mean() / unit**2)
    # What serves: the group's stacked rows, mixed with models of members' own.
    means = np.mean([by_hand(X, y, ids, train)[3] for train, _ in folds], axis=0)
    own = by_hand(X, y, ids, everything)
    alone = np.array(
        [own[1][i] + own[2][i].predict(x[None])[0] for x, i in zip(X, ids, strict=True)]
    )
    served = alone.copy()
    for group in partition.groups:
        stack, _ = stacked_by_hand(X, y, ids, everything, group, means)
        rows = np.isin(ids, group)
        told = stack.predict(X[rows])
        left = y[rows] - told
        level = {task: left[ids[rows] == task].mean() for task in group}
        served[rows] = told + np.array([level[task] for task in ids[rows]])
    expected = trust[ids] * served + (1.0 - trust[ids]) * alone
    # Offsets are shrunk a little towards that of their group; nothing else is.
    apart = model.predict(X, ids) - expected
    for task in range(6):
        np.testing.assert_allclose(apart[ids == task], apart[task], atol=1e-10)
    assert np.abs(apart).max() < 0.1 * y.std()


# -- Nothing leaks ---------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("weighed", [False, True])
def test_changing_targets_in_a_block_leaves_the_path_of_own_rows_that_it_judges_as_it_was(weighed):
    X, y, ids = pupils(1)
    weights = 0.5 + np.random.default_rng(1).random(ids.size) if weighed else None
    splits = list(KFold(4).split(X))

    def told_of(target):
        rows = TaskRows(X, target, weights, ids, 6)
        known = rows, lambda train: units_of_rows(rows, train), splits, np.ones(6)
        return told_crosswise(KERNEL, *known, None, chooses=True)

    before = told_of(y)
    for block, (_, test) in enumerate(splits):
        changed = y.copy()
        changed[test] = 1e3 * np.random.default_rng(0).normal(size=test.size)
        known, _ = told_of(changed).folds[block]
        for name in ("values", "told", "index", "counts"):
            one, other = getattr(before.folds[block][0], name), getattr(known, name)
            assert one.tobytes() == other.tobytes()


# -- What it finds ---------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("regressor", [KERNEL, KNeighborsRegressor(4)], ids=str)
def test_own_rows_of_one_curve_are_found_where_a_linear_model_sees_none(regressor):
    X, y, ids = pupils(0, n=60)
    model = PooledCTFARegressor(regressor).fit(X, y, tasks=ids)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    cheap = TargetAggregator(regressor=LinearRegression())
    blind = PooledCTFARegressor(regressor, targets=cheap).fit(X, y, tasks=ids)
    plain = PooledCTFARegressor().fit(X, y, tasks=ids)
    assert blind.partition_ == plain.partition_
    assert blind.partition_ != model.partition_
    truth = pupils(0, n=60, noise=0.0)[1]
    errors = [((one.predict(X, ids) - truth) ** 2).mean() for one in (model, blind)]
    assert errors[0] < 0.7 * errors[1]


def test_unrelated_own_rows_are_left_alone():
    for seed in range(3):
        X, y, ids = unrelated(seed)
        model = PooledCTFARegressor(KERNEL).fit(X, y, tasks=ids)
        assert model.n_groups_ >= 7


def test_groups_whose_tasks_lie_apart_learn_one_curve():
    X, y, ids = pupils(2, n=60, apart=1.5, noise=0.6)
    others, truth, _ = pupils(12, n=60, noise=0.0, apart=1.5)
    graph = [(0, 1), (1, 2), (3, 4), (4, 5)]
    one, alone = (
        PooledCTFARegressor(KERNEL, targets=only(max_loss=limit, connectivity=graph), head="mean")
        for limit in (np.inf, -np.inf)
    )
    assert one.fit(X, y, tasks=ids).n_groups_ == 2
    alone.fit(X, y, tasks=ids)
    errors = [((model.predict(others, ids) - truth) ** 2).mean() for model in (one, alone)]
    assert errors[0] < 0.7 * errors[1]


# -- How much it costs -----------------------------------------------------------------------------


def test_fits_of_own_rows_are_those_of_every_fold_and_every_pair_of_them():
    X, y, ids = pupils()
    groups = TargetAggregator(regressor=Counted())
    seen = []
    Counted.fits = 0
    with ctfa.progress(seen.append, every=0.0):
        model = PooledCTFARegressor(targets=groups).fit(X, y, tasks=ids)
    assert Counted.fits == 6 * (4 + 6)
    assert seen[0].stage == "60 fits of Counted()"
    for limit, n_folds in ((1.0, 4), (np.inf, 4), (-np.inf, 0)):
        Counted.fits = 0
        fixed = TargetAggregator(regressor=Counted(), max_loss=limit)
        PooledCTFARegressor(targets=fixed).fit(X, y, tasks=ids)
        assert Counted.fits == 6 * n_folds
    Counted.fits = 0
    cheap = TargetAggregator(regressor=LinearRegression())
    blind = PooledCTFARegressor(Counted(), targets=cheap).fit(X, y, tasks=ids)
    assert Counted.fits == blind.n_groups_
    assert model.n_groups_ == 2


def test_workers_change_nothing_of_own_rows():
    X, y, ids = pupils()
    one, two = (PooledCTFARegressor(NEAREST, n_jobs=n).fit(X, y, tasks=ids) for n in (None, 2))
    np.testing.assert_array_equal(one.predict(X, ids), two.predict(X, ids))


def test_fits_of_own_rows_that_are_stopped_leave_every_task_by_itself():
    X, y, ids = pupils()
    count = itertools.count()
    with (
        ctfa.progress(lambda now: next(count) < 5, every=0.0),
        pytest.warns(ctfa.SearchStopped, match="every target stays by itself"),
    ):
        model = PooledCTFARegressor(NEAREST).fit(X, y, tasks=ids)
    assert model.n_groups_ == 6
    assert np.isfinite(model.predict(X, ids)).all()


def test_more_than_can_be_kept_is_refused_with_the_cheap_judge():
    with pytest.raises(ValueError, match=r"500 tasks .* TargetAggregator\(regressor=LinearRegr"):
        check.require_few_told(40_000, 500, 2**24)
    check.require_few_told(40_000, 400, 2**24)


# -- Whatever is asked -----------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("head", ["levels", "mean"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_loss": 1.0},
        {"scale": "center"},
        {"scan": "correlation"},
        {"scan": "grow", "max_loss": 1.0},
        {"scan": "restart", "max_loss": 1.0},
        {"connectivity": [(0, 1), (1, 2), (3, 4), (4, 5)]},
        {"cv": 3},
        {"cv": ShuffleSplit(4, random_state=0)},
    ],
    ids=str,
)
def test_options_of_tasks_hold(options, head):
    X, y, ids = pupils(2, n=60)
    targets = TargetAggregator(**options)
    model = PooledCTFARegressor(NEAREST, targets=targets, head=head).fit(X, y, tasks=ids)
    assert model.n_groups_ < 6
    assert all(np.unique(group // 3).size == 1 for group in model.partition_.groups)
    assert model.score(X, y, tasks=ids) > 0.8
    told = str(model.why(0))
    assert "shares its model with" in told
    assert "1 breaks even" in told
    assert "nan" not in told
    assert model.merges_["f_statistic"].isna().all()
    assert (model.merges_["gain"].iloc[0] > 0.0) == (model.merges_["loss"].iloc[0] < 1.0)
    held_out = "on held-out blocks" in told
    assert held_out == (model.cv_curve_ is not None)


def test_infinite_limits_make_one_group_or_none():
    X, y, ids = pupils()
    one = PooledCTFARegressor(NEAREST, targets=TargetAggregator(max_loss=np.inf))
    assert one.fit(X, y, tasks=ids).n_groups_ == 1
    none = PooledCTFARegressor(NEAREST, targets=TargetAggregator(max_loss=-np.inf))
    none.fit(X, y, tasks=ids)
    assert none.n_groups_ == 6
    level = np.array([y[ids == task].mean() for task in range(6)])
    rows = ids == 2
    alone = clone(NEAREST).fit(X[rows], y[rows]).predict(X[rows])
    np.testing.assert_allclose(none.predict(X[rows], ids[rows]), alone)
    assert level[2] == pytest.approx(none._levels.own[2])


def test_two_folds_do_not_choose_a_limit_for_tasks():
    X, y, ids = pupils()
    model = PooledCTFARegressor(NEAREST, targets=TargetAggregator(cv=2))
    with pytest.warns(RuntimeWarning, match="on 2 folds by a regressor .* Use 3 folds or more"):
        assert model.fit(X, y, tasks=ids).max_loss_ == 1.0


def test_tasks_of_too_few_rows_for_the_regressor_join_a_group_or_keep_their_level():
    X, y, ids = pupils(0, n=60)
    kept = (ids != 0) | (np.cumsum(ids == 0) <= 5)
    X, y, ids = X[kept], y[kept], ids[kept]
    with pytest.warns(RuntimeWarning, match=r"1 of 6 tasks have too few rows for KNeighbors"):
        model = PooledCTFARegressor(KNeighborsRegressor(5)).fit(X, y, tasks=ids)
    assert np.isfinite(model.predict(X, ids)).all()
    assert model.labels_[1] == model.labels_[2] != model.labels_[3] == model.labels_[4]
    few = np.isin(ids, [0, 1])
    two = PooledCTFARegressor(KNeighborsRegressor(5), targets=only(max_loss=0.0))
    with pytest.warns(RuntimeWarning, match="1 of 2 tasks"):
        two.fit(X[few], y[few], tasks=ids[few])
    np.testing.assert_allclose(two.predict(X[:3], [0, 0, 0]), y[ids == 0].mean())


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows_of_each_task_are_served(n):
    X, y, ids = pupils(0, n=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = PooledCTFARegressor(KNeighborsRegressor(1)).fit(X, y, tasks=ids)
    assert np.isfinite(model.predict(X, ids)).all()


@pytest.mark.more
def test_missing_features_of_own_rows_are_the_regressors_business():
    X, y, ids = pupils(0, n=150)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    boosting = HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=5)
    model = PooledCTFARegressor(boosting, unseen="global").fit(X, y, tasks=ids)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.isfinite(model.predict(X, ids)).all()
    assert np.isfinite(model.predict(X, ids + 1)).all()
    for options in (
        {"regressor": NEAREST},
        {"regressor": boosting, "features": FeatureAggregator()},
        {"regressor": boosting, "unseen": "nearest"},
        {"regressor": boosting, "targets": TargetAggregator(regressor=LinearRegression())},
    ):
        with pytest.raises(ValueError, match=r"NaN|missing"):
            PooledCTFARegressor(**options).fit(X, y, tasks=ids)


def test_weights_of_own_rows_count_and_rows_without_any_do_not():
    X, y, ids = pupils(0)
    folds = list(KFold(4).split(X))
    extra = np.vstack((X, [[9.0, 9.0]])), np.append(y, 1e3), np.append(ids, 0)
    more = [(np.append(train, ids.size), test) for train, test in folds]
    rng = np.random.default_rng(0)
    weights = 0.5 + rng.random(ids.size)
    one = PooledCTFARegressor(KERNEL, targets=only(folds)).fit(X, y, ids, weights)
    two = PooledCTFARegressor(KERNEL, targets=only(more)).fit(*extra, np.append(weights, 0.0))
    np.testing.assert_allclose(one.predict(X, ids), two.predict(X, ids))
    plain = PooledCTFARegressor(KERNEL, targets=only(folds)).fit(X, y, ids)
    assert not np.allclose(plain.predict(X, ids), one.predict(X, ids))
    with pytest.raises(ValueError, match="does not take it"):
        PooledCTFARegressor(NEAREST).fit(X, y, ids, weights)


def test_units_of_the_target_play_no_part_for_own_rows():
    X, y, ids = pupils(3, noise=0.8)
    one = PooledCTFARegressor(KERNEL).fit(X, y, tasks=ids)
    far = PooledCTFARegressor(KERNEL).fit(X, 1e3 * y + 1e5, tasks=ids)
    assert one.max_loss_ == far.max_loss_
    np.testing.assert_allclose(far.predict(X, ids), 1e3 * one.predict(X, ids) + 1e5, rtol=1e-9)
    np.testing.assert_allclose(one.trust_, far.trust_, rtol=1e-6)
    np.testing.assert_allclose(one.why(0).gain, far.why(0).gain, rtol=1e-6)


@pytest.mark.parametrize("unseen", ["global", "nearest"])
def test_strangers_are_served(unseen):
    X, y, ids = pupils(0, n=60)
    X[ids >= 3] += [0.0, 4.0]
    y = y + 100.0
    model = PooledCTFARegressor(KERNEL, unseen=unseen).fit(X, y, tasks=ids)
    told = model.predict(X[ids == 1], np.full((ids == 1).sum(), 77))
    assert abs(told.mean() - y.mean()) < 5.0


def test_features_of_groups_judged_by_refits_are_merged():
    X, y, ids = pupils(0, n=60)
    X = np.column_stack((X, X + 0.01))
    features = FeatureAggregator(max_loss=np.inf)
    model = PooledCTFARegressor(KERNEL, features=features).fit(X, y, tasks=ids)
    assert all(one.n_groups_ < 4 for one in model.features_)
    assert np.isfinite(model.predict(X, ids)).all()


def test_a_criterion_of_least_squares_is_judged_by_it_whoever_serves_tasks():
    X, y, ids = pupils()

    def costs(evidence):
        return evidence.difference.f_statistic

    targets = TargetAggregator(costs, max_loss=2.0)
    model, plain = (
        PooledCTFARegressor(one, targets=targets).fit(X, y, tasks=ids) for one in (NEAREST, None)
    )
    assert model.partition_ == plain.partition_


def test_a_regressor_that_fails_for_every_task_says_why():
    class Broken(KNeighborsRegressor):
        def fit(self, X, y):
            raise ValueError("the dog ate it")

    X, y, ids = pupils()
    with pytest.raises(ValueError, match="the dog ate it"):
        PooledCTFARegressor(Broken()).fit(X, y, tasks=ids)


def test_own_rows_judged_by_refits_are_the_same_after_a_file(tmp_path):
    X, y, ids = pupils(1, noise=0.8, apart=0.5)
    y = y + 0.7 * X[:, 0] * (ids % 2)
    model = PooledCTFARegressor(KERNEL, unseen="global").fit(X, y, tasks=ids)
    assert (model.trust_ < 1.0).any()
    ctfa.persistence.save(model, tmp_path / "model.ctfa")
    again = ctfa.persistence.load(tmp_path / "model.ctfa")
    for who in (ids, ids + 1):
        np.testing.assert_array_equal(again.predict(X, who), model.predict(X, who))
    assert str(again.why(0)) == str(model.why(0))


def test_a_second_fit_forgets_the_first():
    X, y, ids = pupils()
    model = PooledCTFARegressor(NEAREST).fit(X, y, tasks=ids)
    model.set_params(regressor=None).fit(X, y, tasks=ids)
    plain = PooledCTFARegressor().fit(X, y, tasks=ids)
    np.testing.assert_array_equal(model.predict(X, ids), plain.predict(X, ids))
    assert str(model.why(0)) == str(plain.why(0))


def test_linear_models_judged_by_refits_are_one_table_of_coefficients():
    rng = np.random.default_rng(0)
    ids = np.arange(160) % 4
    X = rng.normal(size=(160, 3))
    slopes = np.array([[1.0, 0.0, 0.5]] * 2 + [[-1.0, 1.0, 0.0]] * 2)
    slopes += 0.15 * rng.normal(size=slopes.shape)
    y = (X * slopes[ids]).sum(axis=1) + 10.0 * ids + 0.7 * rng.normal(size=160)
    model = PooledCTFARegressor(Lasso(0.02), targets=only(max_loss=1.1)).fit(X, y, tasks=ids)
    assert model.labels_.tolist() == [0, 0, 1, 1]
    assert (model.trust_ < 1.0).any()
    table = ctfa.persistence.collapse(model)
    told = table.predict(X)[np.arange(160), ids]
    np.testing.assert_allclose(told, model.predict(X, ids))


def test_sums_of_own_rows_judge_linear_regressors_as_rows_do():
    X, y, ids = pupils(0)
    y = y + X[:, 0] * (ids % 2)
    whole = PooledCTFARegressor(Lasso(0.02)).fit(X, y, tasks=ids)
    streamed = PooledCTFARegressor(Lasso(0.02))
    for rows in np.array_split(np.arange(ids.size), 3):
        streamed.partial_fit(X[rows], y[rows], tasks=ids[rows])
    assert streamed.max_loss_ == whole.max_loss_
    np.testing.assert_allclose(streamed.predict(X, ids), whole.predict(X, ids))
    for refused in (
        PooledCTFARegressor(NEAREST),
        PooledCTFARegressor(targets=TargetAggregator(regressor=NEAREST)),
    ):
        with pytest.raises(ValueError, match="the rows themselves"):
            refused.partial_fit(X, y, tasks=ids)


# -- Inputs of their own ---------------------------------------------------------------------------


def basins(seed=0, n=120, noise=0.5, alike=0.3, n_tasks=6):
    """Targets of which half follow a wave of one of their own inputs and half of the other."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(n, 1, 2)), rng.normal(size=(n, n_tasks, 2))
    inputs = np.sqrt(alike) * common + np.sqrt(1.0 - alike) * own
    Y = np.column_stack((np.cos(2.0 * inputs[:, :3, 0]), np.cos(2.0 * inputs[:, 3:, 1])))
    Y = Y + noise * rng.normal(size=Y.shape)
    layout = np.arange(2 * n_tasks).reshape(n_tasks, 2)
    return inputs.reshape(n, -1), Y * [1.0, 9.0, 0.1, 1.0, 3.0, 1.0] + 5.0, layout


def models_by_hand(X, Y, layout, train):
    """A model of each target in units of some rows, and functions from rows to these units."""
    center, spread = X[train].mean(axis=0), X[train].std(axis=0)
    level, scale = Y[train].mean(axis=0), Y[train].std(axis=0)
    X, Y = (X - center) / spread, (Y - level) / scale
    models = [clone(NEAREST).fit(X[train][:, own], Y[train, k]) for k, own in enumerate(layout)]
    return X, Y, level, scale, models


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_merges_of_own_inputs_lose_what_refitting_by_hand_says(aggregate):
    X, Y, layout = basins(0)
    folds = list(KFold(4).split(X))
    n_targets = len(layout)
    unit, losses = Y.std(axis=0), {}
    told = np.empty((n_targets, n_targets, len(X)))  # of target, by model
    values = np.empty((n_targets, len(X)))
    for train, test in folds:
        inputs, _, level, scale, models = models_by_hand(X, Y, layout, train)
        values[:, test] = (Y[test] - level).T / unit[:, None]
        for i, j in itertools.product(range(n_targets), repeat=2):
            said = models[j].predict(inputs[:, layout[i]])
            shift = 0.0 if i == j else said[train].mean()
            told[i, j, test] = (said[test] - shift) * scale[i] / unit[i]
    for i, j in itertools.combinations(range(n_targets), 2):
        if aggregate == "pool":
            both = sum(((values[k] - told[k, [i, j]].mean(axis=0)) ** 2).sum() for k in (i, j))
            alone = sum(((values[k] - told[k, k]) ** 2).sum() for k in (i, j))
            losses[i, j] = both / alone
        else:
            d, p = values[i] - values[j], told[i, i] - told[j, j]
            losses[i, j] = (d @ d) / ((d - p) @ (d - p))
    targets = only(folds, max_loss=np.inf)
    model = MultiInputCTFARegressor(layout, NEAREST, targets=targets, aggregate=aggregate)
    first = model.fit(X, Y).merges_.iloc[0]
    pair = min(losses, key=losses.get)
    assert (first["group"][0], first["joined"][0]) == (f"y{pair[0]}", f"y{pair[1]}")
    # Targets are in units of what is seen of them about levels that blocks have not seen.
    assert first["loss"] == pytest.approx(losses[pair], rel=0.02)


@pytest.mark.parametrize("aggregate", ["auto", "mean", "pool"])
def test_own_inputs_of_one_curve_are_found_where_a_linear_model_sees_none(aggregate):
    alike = 0.999 if aggregate == "mean" else 0.3
    X, Y, layout = basins(0, n=200, alike=alike)
    model = MultiInputCTFARegressor(layout, KERNEL, aggregate=aggregate).fit(X, Y)
    assert model.n_groups_ <= 3
    assert all(np.unique(group // 3).size == 1 for group in model.partition_.groups)
    others, truth, _ = basins(1, n=200, alike=alike, noise=0.0)
    alone = MultiInputCTFARegressor(layout, KERNEL, targets=only(max_loss=-np.inf)).fit(X, Y)
    left = [((one.predict(others) - truth) / Y.std(axis=0)) ** 2 for one in (model, alone)]
    assert left[0].mean() < 0.85 * left[1].mean()
    cheap = TargetAggregator(regressor=LinearRegression())
    blind = MultiInputCTFARegressor(layout, KERNEL, targets=cheap, aggregate=aggregate).fit(X, Y)
    plain = MultiInputCTFARegressor(
        layout, Pipeline([("one", LinearRegression())]), targets=cheap, aggregate=aggregate
    )
    assert blind.partition_ == plain.fit(X, Y).partition_


def test_unrelated_own_inputs_are_left_alone():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 6, 3))
    Y = np.sin((inputs * rng.normal(size=(6, 3))).sum(axis=2)) + 0.2 * rng.normal(size=(200, 6))
    layout = np.arange(18).reshape(6, 3)
    model = MultiInputCTFARegressor(layout, KERNEL).fit(inputs.reshape(200, -1), Y)
    assert model.n_groups_ >= 5


@pytest.mark.more
@pytest.mark.parametrize("aggregate", ["mean", "pool"])
def test_changing_targets_in_a_block_leaves_the_path_of_own_inputs_that_it_judges(aggregate):
    X, Y, layout = basins(1)
    splits = list(KFold(4).split(X))

    def told_of(targets):
        series = Series.of(X, layout, targets)
        rule = read_rule(TargetAggregator(), KERNEL, refits=True)
        known = series, replace(rule, judge=KERNEL), (aggregate,), None, splits
        return OwnTold.of_series(*known, chooses=True).table

    before = told_of(Y)
    for block, (_, test) in enumerate(splits):
        changed = Y.copy()
        changed[test] = 1e3 * np.random.default_rng(0).normal(size=changed[test].shape)
        known, same = told_of(changed).folds[block][0], before.folds[block][0]
        names = ["values", "told", *(["level"] if aggregate == "mean" else ["counts", "units"])]
        if aggregate == "mean":
            known, same = known.averaged, same.averaged
        for name in names:
            assert getattr(same, name).tobytes() == getattr(known, name).tobytes()


def test_fits_of_own_inputs_are_those_of_folds_and_pairs_whatever_is_compared():
    X, Y, layout = basins()
    for aggregate in ("auto", "mean", "pool"):
        groups = TargetAggregator(regressor=Counted())
        Counted.fits = 0
        MultiInputCTFARegressor(layout, targets=groups, aggregate=aggregate).fit(X, Y)
        assert Counted.fits == 6 * (4 + 6)
    Counted.fits = 0
    cheap = TargetAggregator(regressor=LinearRegression())
    model = MultiInputCTFARegressor(layout, Counted(), targets=cheap).fit(X, Y)
    assert Counted.fits == model.n_groups_


@pytest.mark.more
@pytest.mark.parametrize("aggregate", ["auto", "mean", "pool"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_loss": 1.0},
        {"max_loss": np.inf, "connectivity": [(0, 1), (1, 2), (3, 4), (4, 5)]},
        {"scale": "center"},
        {"cv": ShuffleSplit(4, random_state=0)},
    ],
    ids=str,
)
def test_options_of_own_inputs_hold(options, aggregate):
    X, Y, layout = basins(2, n=200, alike=0.999)
    if options.get("scale") == "center":
        Y = Y / Y.std(axis=0)
    targets = TargetAggregator(**options)
    model = MultiInputCTFARegressor(layout, KERNEL, targets=targets, aggregate=aggregate)
    model.fit(X, Y)
    assert model.n_groups_ < 6
    assert all(np.unique(group // 3).size == 1 for group in model.partition_.groups)
    told = str(model.why(0))
    assert "1 breaks even" in told
    assert "nan" not in told
    words = "shares its model with" if model.aggregate_ == "pool" else "the means of their inputs"
    assert words in told
    assert ("on held-out blocks" in told) == (model.cv_curve_ is not None)
    assert model.merges_["f_statistic"].isna().all()
    assert (set(model.aggregate_errors_) == {"mean", "pool"}) == (aggregate == "auto")
    assert model.score(X, Y) > 0.5


def test_infinite_limits_of_own_inputs_make_one_group_or_none():
    X, Y, layout = basins()
    for limit, n_groups in ((np.inf, 1), (-np.inf, 6)):
        for aggregate in ("mean", "pool"):
            model = MultiInputCTFARegressor(
                layout, NEAREST, targets=only(max_loss=limit), aggregate=aggregate
            )
            assert model.fit(X, Y).n_groups_ == n_groups
            assert np.isfinite(model.predict(X)).all()


@pytest.mark.more
@pytest.mark.parametrize("aggregate", ["mean", "pool", "auto"])
def test_gaps_and_slots_that_targets_lack_are_judged_on_what_there_is(aggregate):
    X, Y, layout = basins(0, n=300, alike=0.999)
    rng = np.random.default_rng(0)
    X[rng.random(X.shape) < 0.05] = np.nan
    Y[rng.random(Y.shape) < 0.1] = np.nan
    layout = np.column_stack((layout, np.full(6, -1)))
    layout[2, 1] = -1  # of a target that follows its first input alone
    layout[4, 2] = 0
    model = MultiInputCTFARegressor(layout, KERNEL, aggregate=aggregate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(X, Y)
        told = model.predict(np.nan_to_num(X))
    assert np.isfinite(told).all()
    assert np.isfinite(model.trust_).all()
    assert model.labels_[0] == model.labels_[1] != model.labels_[3] == model.labels_[5]
    assert "nan" not in str(model.why(0))


def test_confounds_of_own_inputs_are_taken_off_in_every_fold():
    X, Y, layout = basins(0, n=200)
    season = np.column_stack([np.sin(np.arange(200) / 9.0), np.arange(200) / 200.0])
    wave = season @ np.random.default_rng(1).normal(size=(2, 6)) * 5.0 * Y.std(axis=0)
    model = MultiInputCTFARegressor(layout, KERNEL).fit(X, Y + wave, confounds=season)
    other = MultiInputCTFARegressor(layout, KERNEL).fit(X, Y, confounds=season)
    np.testing.assert_allclose(model.cv_curve_.fold_errors, other.cv_curve_.fold_errors)
    assert model.labels_.tolist() == [0, 0, 0, 1, 1, 1]


def test_weights_of_own_inputs_count():
    X, Y, layout = basins(0)
    folds = list(KFold(4).split(X))
    more = [(np.append(train, len(X)), test) for train, test in folds]
    weights = 0.5 + np.random.default_rng(0).random(len(X))
    one = MultiInputCTFARegressor(layout, KERNEL, targets=only(folds)).fit(X, Y, weights)
    extra = np.vstack((X, np.full(X.shape[1], 9.0))), np.vstack((Y, np.full(6, 1e3)))
    two = MultiInputCTFARegressor(layout, KERNEL, targets=only(more))
    two.fit(*extra, np.append(weights, 0.0))
    np.testing.assert_allclose(one.predict(X), two.predict(X))
    weighed = MultiInputCTFARegressor(layout, KERNEL).fit(X, Y, target_weight=np.arange(1, 7))
    assert weighed.aggregate_ == "mean"
    with pytest.raises(ValueError, match="target_weight"):
        MultiInputCTFARegressor(layout, KERNEL, aggregate="pool").fit(
            X, Y, target_weight=np.arange(1, 7)
        )


def test_own_inputs_judged_by_refits_are_the_same_after_a_file(tmp_path):
    X, Y, layout = basins(3, noise=1.0)
    Y = Y + 0.8 * Y.std(axis=0) * X[:, ::2] * [1.0, -1.0, 0.0, 1.0, -1.0, 0.0]
    targets = TargetAggregator(max_loss=np.inf, connectivity=[(0, 1), (1, 2), (3, 4), (4, 5)])
    model = MultiInputCTFARegressor(layout, KERNEL, targets=targets).fit(X, Y)
    assert (model.trust_ < 1.0).any()
    ctfa.persistence.save(model, tmp_path / "model.ctfa")
    again = ctfa.persistence.load(tmp_path / "model.ctfa")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.why(0)) == str(model.why(0))
    with pytest.raises(ValueError, match="not known to be linear"):
        ctfa.persistence.collapse(model)


def test_own_inputs_are_grouped_again_on_subsamples_and_along_a_path():
    X, Y, layout = basins(0)
    model = MultiInputCTFARegressor(layout, NEAREST).fit(X, Y)
    together = model.stability(X, Y, cv=3)
    assert together[0, 1] > together[0, 3]
    points = ctfa.target_path(
        X, Y, [-np.inf, np.inf], layout=layout, aggregate="pool", regressor=NEAREST
    )
    assert [point.n_groups for point in points] == [6, 1]
    with pytest.raises(ValueError, match="the rows themselves"):
        MultiInputCTFARegressor(layout, Lasso(0.1)).partial_fit(X, Y)


@pytest.mark.more
def test_a_second_fit_of_own_inputs_forgets_the_first():
    X, Y, layout = basins(3, noise=1.0)
    model = MultiInputCTFARegressor(layout, NEAREST).fit(X, Y)
    model.set_params(regressor=None).fit(X, Y)
    plain = MultiInputCTFARegressor(layout).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert str(model.why(0)) == str(plain.why(0))


# -- Parts -----------------------------------------------------------------------------------------


def table(seed=0, n_tasks=7, n=60):
    rng = np.random.default_rng(seed)
    index = rng.integers(n_tasks, size=n)
    values, told = rng.normal(size=n), rng.normal(size=(n, n_tasks))
    return values, told, index, rng.integers(0, 4, size=n_tasks) + 0.0, rng.random(n)


def test_the_space_of_models_of_own_rows_keeps_the_laws():
    values, told, index, counts, weight = table()

    def build(groups):
        labels = np.empty(7, dtype=int)
        for number, group in enumerate(groups):
            labels[group] = number
        sums = np.array([counts[group].sum() for group in groups])
        means = [told[:, group] @ counts[group] / (counts[group].sum() or 1.0) for group in groups]
        sizes = np.array([float(len(group)) for group in groups])
        means = np.column_stack(means)
        return CrosswiseSpace(values, means, labels[index], sums, weight, sizes)

    testing.check_space(build, 7)


def test_what_merges_gain_adds_up_to_what_groups_gain():
    values, told, index, counts, weight = table(n=300)
    tasks = Crosswise(values, told, index, counts, weight, units=np.arange(1.0, 8.0))
    space = tasks.space()
    criterion = TARGET_CRITERIA["risk"].by_ridge()
    order = np.arange(7)
    history = SCANS["best-first"](
        space, criterion, max_loss=1.0, order=order, neighbours=None, min_correlation=-1.0
    )
    whole = tasks.gain_over_single(history.partition(np.inf))
    total = np.zeros(7)
    for made in tasks.along(history):
        total[made.members] += made.gain
    np.testing.assert_allclose(total, whole.value, atol=1e-12)
