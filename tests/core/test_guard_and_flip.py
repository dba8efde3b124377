"""Merges that no member may lose by, and targets that join with a minus: against brute force."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression

from ctfa import CTFARegressor, TargetAggregator, target_path
from ctfa.core.criteria import target_risk
from ctfa.core.design import Design
from ctfa.core.graph import Neighbours
from ctfa.core.scans import SCANS
from ctfa.core.spaces import targets as target_spaces
from ctfa.core.spaces.targets import TargetSpace
from ctfa.core.tasks.shared import LinearFit
from problems import JUDGES, RIDGE, make_problem

N_TARGETS = 8
GRAPHS = {"everybody": None, "chain": sparse.diags([1.0, 1.0], offsets=[-1, 1], shape=(8, 8))}


def problem_of(seed, *, turned=False):
    problem = make_problem("correlated", seed, n_samples=40, n_features=5, n_targets=N_TARGETS)
    signs = np.where(np.arange(N_TARGETS) % 2, -1.0, 1.0) if turned else np.ones(N_TARGETS)
    return problem.X, problem.Y * signs


class Truth:
    """Everything from matrices, with nothing remembered: losses, signs and members' risks."""

    def __init__(self, X, Y, *, flip):
        X, self.Y = X - X.mean(axis=0), (Y - Y.mean(axis=0)) / Y.std(axis=0)
        self.n, self.rank = X.shape
        self.fitted = X @ np.linalg.lstsq(X, self.Y, rcond=None)[0]
        self.flip = flip

    def turn(self, first, second, signs):
        """Whether what is explained of two means points against each other."""
        explained = self.mean(self.fitted, first, signs) @ self.mean(self.fitted, second, signs)
        return -1.0 if self.flip and explained < 0.0 else 1.0

    def mean(self, columns, group, signs):
        return (columns[:, group] * signs[group]).mean(axis=1)

    def loss(self, first, second, signs):
        turn = self.turn(first, second, signs)
        explained, total = (
            self.mean(part, first, signs) - turn * self.mean(part, second, signs)
            for part in (self.fitted, self.Y)
        )
        residual = total - explained
        f = explained @ explained / self.rank / (residual @ residual / (self.n - self.rank - 1))
        return (f - 1.0) * (self.n - self.rank - 2) / (self.n - 1)

    def risk(self, member, group, signs):
        """``N_ii + (e_i - a)' M (e_i - a) + c a' N a`` for the mean of a group."""
        dof = self.n - self.rank - 1
        own, model = self.Y[:, member] * signs[member], self.mean(self.Y, group, signs)
        own_fitted = self.fitted[:, member] * signs[member]
        gap = own_fitted - self.mean(self.fitted, group, signs)
        left = own - model - gap
        noise = own - own_fitted
        model_noise = model - self.mean(self.fitted, group, signs)
        signal = (gap @ gap - self.rank * (left @ left) / dof) / (self.n - 1)
        cost = self.rank / (dof - 1) * (model_noise @ model_noise) / dof
        return noise @ noise / dof + signal + cost

    def worst_gain(self, first, second, signs):
        merged = signs.copy()
        merged[second] *= self.turn(first, second, signs)
        both = first + second
        return min(
            self.risk(i, first if i in first else second, merged) - self.risk(i, both, merged)
            for i in both
        )


def replay(truth, history, max_loss, *, guarded, graph=None):
    """Follow a history, checking each merge; then that every pair left had a reason."""
    groups, signs = {i: [i] for i in range(N_TARGETS)}, np.ones(N_TARGETS)
    for block, other, loss in zip(history.block, history.other, history.loss, strict=True):
        first, second = groups[int(block)], groups[int(other)]
        assert loss == pytest.approx(truth.loss(first, second, signs), rel=1e-7, abs=1e-8)
        assert loss <= max_loss
        if guarded:
            assert truth.worst_gain(first, second, signs) >= -1e-10
        signs[second] *= truth.turn(first, second, signs)
        groups[int(block)] = first + groups.pop(int(other))
    return groups, signs


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scan", SCANS)
def test_a_guarded_merge_makes_no_member_lose_and_a_refused_one_would(scan, graph, flip):
    n_refused = 0
    for seed, max_loss in itertools.product(range(4), (1.5, 8.0, np.inf)):
        X, Y = problem_of(seed, turned=flip)
        model = TargetAggregator(
            max_loss=max_loss, scan=scan, guard="member", flip=flip, connectivity=GRAPHS[graph]
        ).fit(X, Y)
        truth = Truth(X, Y, flip=flip)
        groups, signs = replay(truth, model.history_, max_loss, guarded=True)
        for first, second in itertools.combinations(groups.values(), 2):
            if scan in ("grow", "restart"):
                break  # they ask single targets only, replayed below
            near = GRAPHS[graph] is None or GRAPHS[graph].toarray()[np.ix_(first, second)].any()
            loses = truth.worst_gain(first, second, signs) < 1e-10
            if near:
                assert loses or truth.loss(first, second, signs) > max_loss
                n_refused += loses
    assert n_refused or scan in ("grow", "restart")


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scan", ["best-first", "grow", "restart"])
def test_guarded_scans_take_what_a_scan_by_hand_takes(scan, graph, flip):
    for seed, max_loss in itertools.product(range(4), (1.5, 8.0)):
        X, Y = problem_of(seed, turned=flip)
        model = TargetAggregator(
            max_loss=max_loss, scan=scan, guard="member", flip=flip, connectivity=GRAPHS[graph]
        ).fit(X, Y)
        by_hand = scan_by_hand(Truth(X, Y, flip=flip), scan, max_loss, GRAPHS[graph])
        assert [group.tolist() for group in model.partition_.groups] == by_hand


def scan_by_hand(truth, scan, max_loss, graph):
    edges = None if graph is None else graph.toarray() != 0
    signs = np.ones(N_TARGETS)

    def takes(first, second):
        near = edges is None or edges[np.ix_(first, second)].any()
        return (
            near
            and truth.loss(first, second, signs) <= max_loss
            and truth.worst_gain(first, second, signs) >= -1e-12
        )

    def merge(first, second):
        signs[second] *= truth.turn(first, second, signs)
        return first + second

    if scan == "best-first":
        groups = [[i] for i in range(N_TARGETS)]
        while pairs := [pair for pair in itertools.combinations(groups, 2) if takes(*pair)]:
            first, second = min(pairs, key=lambda pair: truth.loss(*pair, signs))
            groups = [group for group in groups if group not in (first, second)]
            groups = sorted([*groups, sorted(merge(first, second))])
        return groups
    done, free = [], list(range(N_TARGETS))
    while free:
        block, position = [free.pop(0)], 0
        while position < len(free):
            if takes(block, [free[position]]):
                block = merge(block, [free.pop(position)])
                position = 0 if scan == "restart" or edges is not None else position
            else:
                position += 1
        done.append(sorted(block))
    return sorted(done)


def test_an_infinite_limit_without_a_guard_merges_what_the_guard_refuses():
    X, Y = problem_of(0)
    assert TargetAggregator(max_loss=np.inf).fit(X, Y).n_groups_ == 1
    assert TargetAggregator(max_loss=np.inf, guard="member").fit(X, Y).n_groups_ > 1


def test_the_guard_holds_for_ridge_by_left_out_errors():
    X, Y = problem_of(1)
    for max_loss in (1.5, np.inf):
        targets = TargetAggregator(regressor=RIDGE, guard="member", max_loss=max_loss)
        model = CTFARegressor(targets=targets, features="passthrough").fit(X, Y)
        assert (model.merges_["worst_gain"] >= -1e-10).all()
        assert (model.merges_["losers"].map(len) == 0).all()


@pytest.mark.more
@pytest.mark.parametrize("solver", ["ols", "ridge"])
@pytest.mark.parametrize("strength", [1e3, 1e7])
def test_a_strong_signal_common_to_all_changes_no_decision_of_the_guard(strength, solver):
    for seed, max_loss in itertools.product(range(4), (1.5, np.inf)):
        X, Y = problem_of(seed)
        weak = TargetAggregator(
            max_loss=max_loss, guard="member", scale="center", regressor=LinearRegression()
        )
        groups = weak.fit(X, Y).partition_
        common = strength * X @ np.ones((X.shape[1], 1))
        strong = TargetAggregator(
            max_loss=max_loss, guard="member", scale="center", regressor=JUDGES[solver]
        )
        strong.fit(X, Y + common)
        if solver == "ols":
            assert strong.partition_ == groups
        else:  # another penalty is chosen; but still nobody loses
            model = CTFARegressor(targets=strong, features="passthrough").fit(X, Y + common)
            assert (model.merges_["worst_gain"] >= -1e-9 * strength).all()


@pytest.mark.parametrize("n_targets", [10_001])
def test_a_guard_that_would_not_fit_in_memory_is_refused(n_targets):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(8, 2)), rng.normal(size=(8, n_targets))
    with pytest.raises(ValueError, match="guard='member' holds a number for every pair"):
        TargetAggregator(guard="member", max_loss=1.0).fit(X, Y)


# -- Flips -----------------------------------------------------------------------------------------


@pytest.fixture(params=["dense", "factored"])
def gram(request, monkeypatch):
    if request.param == "factored":
        monkeypatch.setattr(target_spaces, "DENSE_LIMIT", 1)


@pytest.mark.usefixtures("gram")
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("scan", SCANS)
def test_flips_are_those_of_brute_force(scan, graph):
    n_turned = 0
    for seed in range(4):
        X, Y = problem_of(seed, turned=True)
        model = TargetAggregator(
            max_loss=1.5, scan=scan, flip=True, connectivity=GRAPHS[graph]
        ).fit(X, Y)
        groups, signs = replay(Truth(X, Y, flip=True), model.history_, 1.5, guarded=False)
        for group in groups.values():
            expected = signs[group] * signs[min(group)]
            np.testing.assert_array_equal(model.signs_[group], expected)
        for group in model.partition_.groups:
            assert model.signs_[group[0]] == 1.0
        n_turned += int((model.signs_ < 0.0).sum())
    assert n_turned


# Regressors of the model and of Phase I: levels, levels of groups that another model judged, and
# an explicit regressor mixed with members' own.
REGRESSORS = {
    "default": (None, None),
    "ols": (None, JUDGES["ols"]),
    "ridge": (None, RIDGE),
    "mixed": (LinearRegression(), None),
}


@pytest.mark.more
@pytest.mark.usefixtures("gram")
@pytest.mark.parametrize("solver", REGRESSORS)
@pytest.mark.parametrize(
    ("scan", "max_loss"),
    [*((scan, 1.5) for scan in SCANS), ("best-first", "auto"), ("correlation", "auto")],
)
def test_negating_targets_changes_only_their_signs(scan, max_loss, solver):
    turn = np.where(np.arange(N_TARGETS) % 3 == 1, -1.0, 1.0)
    regressor, judge = REGRESSORS[solver]
    n_apart = 0
    for seed in (2, 11):
        X, Y = problem_of(seed)
        targets = TargetAggregator(max_loss=max_loss, scan=scan, flip=True, regressor=judge)
        options = {"regressor": regressor, "targets": targets, "features": "passthrough"}
        plain, turned = (CTFARegressor(**options).fit(X, values) for values in (Y, Y * turn))
        assert plain.partition_ == turned.partition_
        assert plain.max_loss_ == turned.max_loss_
        for group in plain.partition_.groups:
            relative = turn[group] * turn[group[0]]
            np.testing.assert_array_equal(turned.signs_[group], plain.signs_[group] * relative)
        predicted = plain.predict(X) * turn
        np.testing.assert_allclose(turned.predict(X), predicted, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(turned.trust_, plain.trust_, atol=1e-8)
        columns = ["loss", "f_statistic", "gain", "gain_error", "worst_gain"]
        np.testing.assert_allclose(turned.merges_[columns], plain.merges_[columns], atol=1e-8)
        n_apart += np.count_nonzero(plain.trust_ < 1.0)
    assert n_apart  # members add something of their own


@pytest.mark.usefixtures("gram")
@pytest.mark.parametrize("scale", ["standard", "center", "none"])
def test_a_turned_copy_is_found_transformed_and_predicted(scale):
    X, Y = problem_of(3)
    Y = np.column_stack((Y[:, 0], -Y[:, 0] if scale != "standard" else 2.0 - 3.0 * Y[:, 0]))
    # Deviations from a mean have no unit where targets have none.
    options = {"features": "passthrough", "head": "mean" if scale == "none" else "levels"}
    targets = TargetAggregator(max_loss=1.0, flip=True, scale=scale)
    model = CTFARegressor(targets=targets, **options).fit(X, Y)
    assert model.n_groups_ == 1
    np.testing.assert_array_equal(model.signs_, [1.0, -1.0])
    aggregator = model.targets_
    np.testing.assert_allclose(aggregator.inverse_transform(aggregator.transform(Y)), Y)
    alone = CTFARegressor(targets="passthrough", **options).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), alone.predict(X))
    assert aggregator.get_group_names_out() == ["mean(y0, -y1)"]
    (task,) = model.reduce(X, Y)
    np.testing.assert_allclose(task.target, (Y[:, 0] - Y[:, 1]) / 2)


@pytest.mark.parametrize("scan", SCANS)
def test_a_path_has_the_signs_of_a_fit_at_each_limit(scan):
    X, Y = problem_of(2, turned=True)
    limits = [-1.0, 0.0, 0.5, 1.0, 2.0, 6.0, 30.0, np.inf]
    for point in target_path(X, Y, limits, scan=scan, flip=True):
        fitted = TargetAggregator(max_loss=point.max_loss, scan=scan, flip=True).fit(X, Y)
        assert point.partition == fitted.partition_
        np.testing.assert_array_equal(point.signs, fitted.signs_)


def test_without_flip_nothing_is_turned():
    X, Y = problem_of(0, turned=True)
    model = TargetAggregator(max_loss=np.inf).fit(X, Y)
    np.testing.assert_array_equal(model.signs_, 1.0)


def test_a_guard_alone_changes_no_answer_of_a_space():
    X, Y = problem_of(1)
    design = Design.of(X)
    fit = LinearFit(design, design.centre(Y))
    plain, guarded = fit.space(), fit.space()
    guarded.protect(fit.members)
    others = np.arange(1, N_TARGETS)
    np.testing.assert_array_equal(
        target_risk(plain.evidence(0, others)), target_risk(guarded.evidence(0, others))
    )
    assert isinstance(guarded, TargetSpace)
    edges = Neighbours(sparse.csr_array(GRAPHS["chain"]))
    history = SCANS["best-first"](
        guarded, target_risk, max_loss=np.inf, order=None, neighbours=edges
    )
    assert len(history) < N_TARGETS
