"""Heads, and what a fitted model says of its merges: recomputed, and read as a user would."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
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
    unit_power,
)
from ctfa.core.cut import CutCurve
from ctfa.core.design import Design
from ctfa.core.scans import SCANS
from ctfa.core.tasks.shared import LinearFit
from ctfa.plotting import plot_cv_curve, plot_merge_tree, plot_merges
from problems import make_problem

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


# -- The shrink head -------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("scale", ["standard", "center", "none"])
@pytest.mark.parametrize(
    "regressor",
    [None, Ridge(3.0), LinearRegression(positive=True), RandomForestRegressor(3, random_state=0)],
    ids=lambda regressor: type(regressor).__name__,
)
def test_shrunk_predictions_mix_the_group_with_a_model_of_its_own(regressor, scale, weights):
    targets = TargetAggregator(max_loss=6.0, scale=scale)
    mean, shrink = (
        CTFARegressor(regressor, targets=targets, head=head).fit(X, Y, weights)
        for head in ("mean", "shrink")
    )
    np.testing.assert_array_equal(mean.trust_, shrink.trust_)
    assert ((shrink.trust_ > 0.0) & (shrink.trust_ < 1.0)).any()
    units = (Y - shrink.targets_.offsets_) / shrink.targets_.scales_
    own = np.empty_like(Y)
    extra = {}
    if weights is not None:
        # As the library passes them on: a forest breaks ties by the last digit.
        relative = weights / weights.max()
        extra = {"sample_weight": relative * (relative.size / relative.sum())}
    for i in range(7):
        single = clone(LinearRegression() if regressor is None else regressor)
        single.fit(X, units[:, i], **extra)
        own[:, i] = single.predict(X) * shrink.targets_.scales_[i] + shrink.targets_.offsets_[i]
    expected = shrink.trust_ * mean.predict(X) + (1.0 - shrink.trust_) * own
    np.testing.assert_allclose(shrink.predict(X), expected, rtol=1e-8, atol=1e-8)


def test_changing_the_head_of_a_fitted_model_changes_nothing_until_it_is_fitted_again():
    model = CTFARegressor(targets=TARGETS).fit(X, Y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(head="shrink").predict(X), before)
    shrunk = model.fit(X, Y).predict(X)
    assert np.abs(shrunk - before).max() > 1e-3
    np.testing.assert_array_equal(model.set_params(head="mean").predict(X), shrunk)
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), before)


def test_an_unknown_head_is_refused():
    with pytest.raises(ValueError, match="head='median' is not known; use one of 'mean', 'shrink'"):
        CTFARegressor(head="median").fit(X, Y)


@pytest.mark.parametrize("n", [3, 6, 7, 40])
def test_one_target_trusts_itself_with_any_number_of_rows(n):
    rng = np.random.default_rng(0)
    inputs, target = rng.normal(size=(n, 5)), rng.normal(size=n)
    model = CTFARegressor(Ridge(), features="passthrough", head="shrink").fit(inputs, target)
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


def test_the_predicted_gain_of_a_target_is_that_of_all_its_merges():
    design = Design.of(X)
    centred = design.centre((Y - Y.mean(axis=0)) / Y.std(axis=0))
    risk = LinearFit(design, centred).members
    model = CTFARegressor(targets=TARGETS).fit(X, Y)
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


@pytest.mark.parametrize("scale", ["center", "none"])
def test_gains_of_targets_in_their_own_units_are_not_called_shares(scale):
    targets = TargetAggregator(max_loss=6.0, scale=scale)
    model = CTFARegressor(targets=targets).fit(X, Y)
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
    targets = TargetAggregator(max_loss=1.25, solver="ridge")
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


def test_a_small_loss_is_about_even_and_a_large_one_is_expected():
    told = CTFARegressor(targets=TARGETS).fit(*planted()).why(0)
    for gain, word in ((0.01, "variance;"), (-0.01, "(about even)"), (-0.03, "expected to LOSE")):
        given = replace(told, gain=gain, gain_error=0.02)
        assert word in str(given).splitlines()[1]
        assert given.expected_to_lose == (gain == -0.03)
    row = told.merges[0]
    assert f", summed over its {len(row.group + row.joined)} members." in str(told)
    assert f"trusts its group {100 * told.trust:.0f} % (used by head='shrink' only)." in str(told)
    assert f"group {100 * told.trust:.0f} %." in str(replace(told, shrunk=True))


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


@pytest.mark.parametrize("head", ["mean", "shrink"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
def test_comparisons_refit_both_models_on_every_fold(weights, head):
    model = CTFARegressor(targets=TARGETS, head=head).fit(X, Y, weights)
    frame = model.compare(X, Y, cv=4, sample_weight=weights)
    error = np.zeros((2, 7))
    for train, test in KFold(4).split(X):
        learn, judge = (None, None) if weights is None else (weights[train], weights[test])
        share = 1 / 4 if weights is None else weights[test].sum() / weights.sum()
        single = LinearRegression().fit(X[train], Y[train], learn)
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


# -- Life of a model -------------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["mean", "shrink"])
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


@pytest.mark.parametrize("targets", [None, "passthrough"])
@pytest.mark.parametrize("features", [None, "passthrough"])
@pytest.mark.parametrize("head", ["mean", "shrink"])
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
                targets=TargetAggregator(solver=solver), features="passthrough", head="shrink"
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
            return super().predict(X) if X.shape[1] < 5 else np.full(len(X), np.nan)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) + rng.normal(size=(80, 1))
    Y = X.sum(axis=1, keepdims=True) + rng.normal(size=(80, 3)) * [1.0, 2.0, 9.0] + X[:, :3]
    features = FeatureAggregator(max_loss=np.inf)
    targets = TargetAggregator(max_loss=np.inf)
    model = CTFARegressor(Failing(), targets=targets, features=features, head="shrink").fit(X, Y)
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
