"""A report says what the model says, escapes what users write, and is written whole or not."""

import base64
import hashlib
import json
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.tree import DecisionTreeRegressor

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    nonlinctfa,
)
from ctfa.core.partition import Partition
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.estimators.held_out import SAME
from ctfa.report import Given, HeldOut, Material, Places, collect, complete, render, write
from problems import RIDGE

X, Y = make_paper_synthetic(120, 12, 8, random_state=0)
MODEL = CTFARegressor().fit(X, Y)
BASINS = make_basins(60, 70, 4, n_regions=4, random_state=0)


def basin_model(**options):
    neighbours = TargetAggregator(connectivity=BASINS.connectivity, max_loss=2.0)
    model = MultiInputCTFARegressor(BASINS.layout, targets=neighbours, **options)
    return model.fit(BASINS.data, BASINS.target)


def pooled_model():
    tasks, data, target = pooled_data()
    return PooledCTFARegressor().fit(data, target, tasks=tasks)


def pooled_data():
    rng = np.random.default_rng(0)
    school = np.repeat(["a", "b", "c", "d"], [30, 14, 40, 25])
    data = rng.normal(size=(school.size, 2))
    slope = np.where(np.isin(school, ["c", "d"]), -1.0, 1.0)
    return school, data, data[:, 0] * slope + rng.normal(size=school.size)


def of_data(page):
    """The data block of a page, as a browser would parse it."""
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.S)
    return json.loads(block[1])


# What a page says is what the model says.


def test_groups_and_merges_are_those_of_the_model():
    page = collect(MODEL)
    np.testing.assert_array_equal(page["labels"], MODEL.labels_)
    np.testing.assert_array_equal(page["history"]["loss"], MODEL.history_.loss)
    assert page["n_groups"] == MODEL.n_groups_
    assert page["rule"]["limit"] == MODEL.max_loss_
    assert page["rule"]["n_own"] == len(MODEL.history_)


def test_the_evidence_of_each_merge_is_that_of_the_table_of_merges():
    merges = pytest.importorskip("pandas") and MODEL.merges_
    evidence = collect(MODEL)["evidence"]
    for ours, theirs in (
        ("gain", "gain"), ("gain_error", "gain_error"), ("f", "f_statistic"), ("f_star", "f_star"),
        ("saved", "variance_saved"), ("paid", "bias_paid"), ("worst", "worst_gain"),
    ):  # fmt: skip
        np.testing.assert_allclose(evidence[ours], merges[theirs], rtol=1e-12)
    assert evidence["n_losers"].tolist() == [len(own) for own in merges["losers"]]


@pytest.mark.parametrize(
    "model",
    [MODEL, basin_model(), basin_model(aggregate="pool"), pooled_model()],
    ids=["shared inputs", "mean inputs", "shared coefficients", "own rows"],
)
def test_refusals_are_told_in_the_words_of_why(model):
    refusals = collect(model)["refusals"]
    names = collect(model)["names"]
    for group, members in enumerate(model.partition_.groups):
        said = model.why(names[members[0]]).refusal
        assert refusals["reasons"][refusals["reason"][group]] == said.reason
        assert refusals["loss"][group] == said.loss
        if said.candidate:
            theirs = model.labels_[refusals["candidate"][group]]
            assert len(model.partition_.groups[theirs]) == len(said.candidate)


def test_predicted_gains_and_trust_are_those_of_why():
    targets = collect(MODEL)["targets"]
    for target in range(8):
        said = MODEL.why(target)
        assert targets["gain"][target] == said.gain
        assert targets["trust"][target] == said.trust


def test_gains_of_pooled_tasks_are_those_of_why():
    model = pooled_model()
    gains = collect(model)["targets"]["gain"]
    np.testing.assert_allclose(gains, [model.why(task).gain for task in model.tasks_])


def test_held_out_errors_are_those_of_compare():
    compared = pytest.importorskip("pandas") and MODEL.compare(X, Y)
    page = collect(MODEL, data=(X, Y))
    errors = page["targets"]["errors"]
    np.testing.assert_allclose(errors["ctfa"], compared["error"])
    np.testing.assert_allclose(errors["single-task"], compared["single_task_error"])
    assert page["held_out"]["helped"] == (compared["gain"] > SAME).sum()
    assert page["held_out"]["hurt"] == (compared["gain"] < -SAME).sum()
    assert page["held_out"]["rival"] == "single-task ridge"


@pytest.mark.more
@pytest.mark.parametrize("regressor", [None, LinearRegression(), RIDGE, DecisionTreeRegressor()])
def test_with_data_the_history_goes_on_to_one_group_by_way_of_the_model(regressor):
    model = CTFARegressor(regressor).fit(X, Y)
    page = collect(model, data=(X, Y))
    stop = page["rule"]["n_own"]
    assert len(page["history"]["loss"]) == 7
    assert page["rule"]["complete"]
    labels = np.arange(8)
    for step in range(stop)[::-1]:
        labels[page["history"]["other"][step]] = labels[page["history"]["block"][step]]
    assert Partition(labels) == model.partition_


def test_a_history_that_does_not_lead_to_the_groups_is_not_replayed():
    other = CTFARegressor(targets=TargetAggregator(max_loss=np.inf)).fit(X, Y[:, ::-1])
    page = collect(MODEL, history=other.history_)
    np.testing.assert_array_equal(page["history"]["block"], MODEL.history_.block)
    assert not page["rule"]["complete"]


def test_without_data_nothing_is_said_that_needs_them():
    page = collect(MODEL)
    assert page["held_out"] is None
    assert page["series"] is None
    assert page["features"]["standard_error"] is None
    assert page["headline"] == "8 targets are predicted by 2 models."
    assert "held-out" not in " ".join(page["methods"])


def test_columns_of_a_mean_share_its_coefficient():
    features = collect(MODEL)["features"]
    for group, (aggregator, regressor) in enumerate(
        zip(MODEL.features_, MODEL.regressors_, strict=True)
    ):
        summed = [
            features["value"][group][features["means"][group] == mean].sum()
            for mean in range(aggregator.n_groups_)
        ]
        np.testing.assert_allclose(summed, regressor.coef_)


def test_standard_errors_are_those_of_least_squares():
    model = CTFARegressor(LinearRegression(), features="passthrough", head="mean").fit(X, Y)
    page = collect(model, data=(X, Y))
    design = np.column_stack((np.ones(len(X)), X))
    target = model.targets_.transform(Y)[:, 0]
    coef, left, *_ = np.linalg.lstsq(design, target, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * left / (len(X) - 13)
    # Told for one standard deviation of each feature.
    np.testing.assert_allclose(page["features"]["value"][0], coef[1:] * X.std(axis=0))
    expected = np.sqrt(np.diag(covariance))[1:] * X.std(axis=0)
    np.testing.assert_allclose(page["features"]["standard_error"][0], expected)


@pytest.mark.more
def test_standard_errors_of_the_default_are_those_of_coefficients_drawn_about_zero():
    model = CTFARegressor(features="passthrough").fit(X, Y)
    page = collect(model, data=(X, Y))
    target = model.targets_.transform(Y)
    for group, (coef, column) in enumerate(zip(model.group_coef_, target.T, strict=True)):
        np.testing.assert_allclose(page["features"]["value"][group], coef * X.std(axis=0))
        centred = X - X.mean(axis=0)
        length = np.linalg.norm(centred, axis=0)
        penalty = np.diag(length**2 * model.regressors_[group].alpha)  # of columns at unit length
        left = column - column.mean() - centred @ coef
        noise = (left @ left + coef @ penalty @ coef) / (len(X) - 1)
        covariance = np.linalg.inv(centred.T @ centred + penalty) * noise
        expected = np.sqrt(np.diag(covariance)) * X.std(axis=0)
        np.testing.assert_allclose(page["features"]["standard_error"][group], expected)


@pytest.mark.more
def test_copies_of_a_basin_do_not_make_its_coefficients_more_certain():
    twin = np.tile(BASINS.data[:, BASINS.layout[0]], 2)
    target = BASINS.target[:, [0, 0]]
    layout = np.arange(8).reshape(2, 4)
    rule = TargetAggregator(max_loss=np.inf)

    def errors(copies):
        model = MultiInputCTFARegressor(layout[:copies], targets=rule, aggregate="pool")
        given = twin[:, : 4 * copies], target[:, :copies]
        return collect(model.fit(*given), data=given)["features"]["standard_error"][0]

    # By itself rows are taken for independent; the two agree where residuals vary evenly.
    ratio = errors(2) / errors(1)
    assert ratio.min() > 0.7
    assert ratio.max() < 1.4


@pytest.mark.more
def test_the_series_of_a_group_is_its_mean_between_the_spread_of_its_members():
    series = collect(MODEL, data=(X, Y))["series"]
    np.testing.assert_allclose(series["mean"], MODEL.targets_.transform(Y).T)
    assert (series["low"] <= series["high"]).all()


def test_stability_is_the_mean_share_with_the_others_of_the_group():
    model = CTFARegressor().fit(X, Y)
    together = model.stability(X, Y, random_state=0)
    page = collect(model)
    for target, label in enumerate(model.labels_):
        others = [i for i in model.partition_.groups[label] if i != target]
        expected = together[target, others].mean() if others else np.nan
        np.testing.assert_allclose(page["targets"]["stability"][target], expected)
    assert page["evidence"]["together"].shape == page["evidence"]["gain"].shape


# Words.


@pytest.mark.more
@pytest.mark.parametrize(
    ("ours", "said"),
    [(0.5, "50 % lower"), (1.2, "20 % higher"), (1.0, "is that of one model per basin")],
)
def test_the_headline_is_honest_about_who_wins(ours, said):
    errors = {"ctfa": np.full(60, ours), "single-task": np.ones(60), "ridge": np.full(60, 0.9)}
    page = collect(basin_model(), held_out=HeldOut(errors, "by a coin"), task="basin")
    assert said in page["headline"]
    assert ("costs accuracy" in page["headline"]) == (ours > 1.0)
    assert "Against the best rival, ridge, it is" in page["headline"]
    assert ("higher." in page["headline"]) == (ours > 0.9)
    assert "by a coin" in " ".join(page["methods"])


def test_targets_without_an_error_are_not_counted_as_helped_or_hurt():
    errors = {"ctfa": np.array([0.5, np.nan, 0.7] + [0.4] * 5), "single-task": np.full(8, 0.6)}
    found = collect(MODEL, held_out=HeldOut(errors, "once"))["held_out"]
    assert (found["helped"], found["hurt"], found["judged"]) == (6, 1, 7)
    assert found["error"]["ctfa"] == pytest.approx((0.5 + 0.7 + 2.0) / 7)


def test_climatology_of_tasks_with_rows_of_their_own_is_their_mean_in_training_rows():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["a", "b", "c"], [30, 25, 40])
    x = rng.normal(size=95)
    y = x + 10.0 * (tasks == "b") + rng.normal(size=95)
    model = PooledCTFARegressor().fit(x[:, None], y, tasks=tasks)
    folds = KFold(3, shuffle=True, random_state=1)
    given = Given(x[:, None], y, tasks, held_out=folds)
    found = complete(Material(model), given).held_out
    squares = np.empty(95)
    for train, test in folds.split(x):
        for task in "abc":
            here, there = test[tasks[test] == task], train[tasks[train] == task]
            squares[here] = (y[here] - y[there].mean()) ** 2
    expected = [squares[tasks == task].mean() / y[tasks == task].var() for task in "abc"]
    np.testing.assert_allclose(found.climatology, expected)
    assert found.mean_skill("ctfa") > 0.2


def test_errors_without_a_climatology_make_no_sentence_on_skill():
    errors = {"ctfa": np.full(60, 0.999), "single-task": np.ones(60)}
    page = collect(basin_model(), held_out=HeldOut(errors, "by a coin"), task="basin")
    assert "kill" not in page["headline"]
    assert page["held_out"]["climatology"] is None
    assert page["targets"]["skills"] == {}


# Every kind of model.

KINDS = {
    "shared inputs": lambda: MODEL,
    "searched": lambda: CTFARegressorCV().fit(X, Y),
    "means alone": lambda: CTFARegressor(head="mean").fit(X, Y),
    "least squares": lambda: CTFARegressor(LinearRegression()).fit(X, Y),
    "aggregator": lambda: TargetAggregator().fit(X, Y),
    "own inputs": basin_model,
    "shared coefficients": lambda: basin_model(aggregate="pool", head="levels"),
    "own inputs by ridge": lambda: MultiInputCTFARegressor(
        BASINS.layout, RidgeCV(), targets=TargetAggregator(regressor=RIDGE, max_loss=1.5)
    ).fit(BASINS.data, BASINS.target),
    "own rows": pooled_model,
    "nothing merged": lambda: CTFARegressor(targets="passthrough").fit(X, Y),
    "one group": lambda: CTFARegressor(targets=TargetAggregator(max_loss=np.inf)).fit(X, Y),
    "one target": lambda: CTFARegressor().fit(X, Y[:, 0]),
    "as printed": lambda: nonlinctfa(epsilon_1=0.0, epsilon_2=1e-4).fit(X, Y),
    "grown": lambda: CTFARegressor(targets=TargetAggregator(scan="grow", max_loss=1.5)).fit(X, Y),
    "turned round": lambda: CTFARegressor(targets=TargetAggregator(flip=True)).fit(X, Y),
    "not linear": lambda: CTFARegressor(DecisionTreeRegressor(random_state=0)).fit(X, Y),
    "of the user's own": lambda: CTFARegressor(
        targets=TargetAggregator(lambda e: e.difference.f_statistic, max_loss=2.0)
    ).fit(X, Y),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_made_of_every_kind_of_model(kind):
    model = KINDS[kind]()
    page = collect(model)
    data = of_data(render(page))
    assert data["n_groups"] == Partition(page["labels"]).n_groups
    assert len(data["names"]) == page["n_targets"]


@pytest.mark.more
def test_with_data_a_page_is_made_where_values_are_missing():
    gappy = Y.copy()
    gappy[:20, 2] = np.nan
    model = CTFARegressor().fit(X, gappy)
    page = collect(model, data=(X, gappy))
    assert np.isfinite(page["targets"]["errors"]["ctfa"]).all()
    assert page["series"]["mean"].shape == (model.n_groups_, 120)


def test_tasks_with_rows_of_their_own_bring_their_tasks():
    tasks, data, target = pooled_data()
    page = collect(pooled_model(), data=(data, target, tasks))
    assert len(page["history"]["loss"]) == 3
    with pytest.raises(ValueError, match=r"give \(X, y, tasks\)"):
        collect(pooled_model(), data=(data, target))


def test_what_can_make_its_own_material_is_asked_for_it():
    class Result:
        def report_material(self):
            return Material(MODEL, title="Mine", task="city", names=list("abcdefgh"))

    page = collect(Result(), source="here")
    assert (page["title"], page["tasks"], page["source"]) == ("Mine", "cities", "here")
    assert page["names"] == list("abcdefgh")


def test_a_regressor_that_was_searched_for_has_its_coefficients():
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=3)
    model = CTFARegressor(search, head="mean").fit(X, Y)
    found = collect(model)["features"]
    assert found["what"] == "coefficient"
    for value, regressor, features in zip(
        found["value"], model.regressors_, model.features_, strict=True
    ):
        coef = regressor.best_estimator_.coef_.ravel()
        np.testing.assert_allclose(value, features.partition_.share_out(coef))


# Places.


def test_outlines_know_who_lies_across_each_side():
    page = collect(basin_model(), places=BASINS.polygons)
    drawing = page["drawing"]
    ring = np.repeat(np.arange(60), np.diff(drawing["starts"]))
    pairs = {(a, b) for a, b in zip(ring, drawing["across"], strict=True) if b < 60}
    assert {(b, a) for a, b in pairs} == pairs
    graph = {(a, b) for a, b in zip(*BASINS.connectivity.nonzero(), strict=True)}
    # Corners nearer than the grid are one: a side that short is no side of the drawing.
    assert pairs <= graph
    assert len(pairs) > 0.98 * len(graph)


def test_cells_touch_and_dots_have_neighbours():
    positions = np.stack(np.meshgrid(np.arange(4.0), np.arange(2.0)), axis=-1).reshape(-1, 2)
    cells = collect(MODEL, places=Places(positions, cell=(1.0, 1.0)))["drawing"]
    assert cells["kind"] == "cells"
    assert (cells["across"] < 8).sum() == 2 * 10  # ten sides inside a grid of four by two
    dots = collect(MODEL, places=positions)["drawing"]
    assert dots["kind"] == "dots"
    assert set(dots["pairs"].ravel()) == set(range(8))


def test_geometries_are_drawn_as_the_outlines_that_they_are():
    pytest.importorskip("geopandas", reason="geometries need geopandas")
    known, given = (
        collect(basin_model(), places=places)["drawing"]
        for places in (BASINS.polygons, BASINS.to_geopandas())
    )
    assert given["geographic"]
    for name in ("kind", "corners", "starts", "owner", "across"):
        np.testing.assert_array_equal(given[name], known[name])


def test_without_places_members_of_a_group_are_tiles_that_touch():
    drawing = collect(MODEL)["drawing"]
    assert drawing["kind"] == "tiles"
    ring = np.repeat(np.arange(8), np.diff(drawing["starts"]))
    for members in MODEL.partition_.groups:
        reached, grown = {members[0]}, True
        while grown:
            beside = set(drawing["across"][np.isin(ring, list(reached))]) & set(members)
            grown = not beside <= reached
            reached |= beside
        assert reached == set(members)


@pytest.mark.parametrize(
    ("places", "error", "said"),
    [
        (np.zeros((7, 2)), ValueError, "7 places and 8 targets"),
        (np.full((8, 2), np.nan), ValueError, "place 0 holds NaN"),
        ([np.zeros((2, 2))] * 8, ValueError, "three corners"),
        (3, TypeError, "places is int"),
        (Places(np.zeros((8, 2)), [[]] * 7), ValueError, "7 places and 8 targets"),
    ],
)
def test_places_that_are_none_are_refused(places, error, said):
    with pytest.raises(error, match=said):
        collect(MODEL, places=places)


# Bad input.


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="not of LinearRegression"):
        collect(LinearRegression())
    with pytest.raises(NotFittedError):
        collect(CTFARegressor())
    with pytest.raises(TypeError, match="'tilte' is not a field of a report"):
        collect(MODEL, tilte="x")
    with pytest.raises(ValueError, match="names has 2 entries and the model has 8 targets"):
        collect(MODEL, names=["a", "b"])
    with pytest.raises(ValueError, match=r"give \(X, Y\)"):
        collect(MODEL, data=X)


# The file.

NASTY = [
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "\"quotes' & ampersands",
    "\u05e9\u05dc\u05d5\u05dd \u202ertl",
    "line\u2028separator",
    "back\\slash ${x} $title",
    "half a \ud800 pair",
    "=1+1",
]


def test_what_users_write_cannot_leave_its_place():
    said = {"title": NASTY[0], "source": NASTY[1], "target": NASTY[2], "notes": NASTY[:3]}
    text = render(collect(MODEL, names=NASTY, task=NASTY[0], **said))
    assert "alert(1)</script>" not in text
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "<!--" not in text
    text.encode("utf-8")
    data = of_data(text)
    assert data["names"][:6] == NASTY[:6]
    assert data["names"][6] == "half a ? pair"
    assert data["title"] == NASTY[0]


@pytest.mark.more
def test_the_page_asks_nothing_of_any_host():
    text = render(collect(MODEL, data=(X, Y)))
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'")
    script = re.findall(r"<script>(.*?)</script>", text, flags=re.S)[0]
    style = re.search(r"<style>(.*?)</style>", text, flags=re.S)[1]
    for kind, inlined in (("script", script), ("style", style)):
        digest = base64.b64encode(hashlib.sha256(inlined.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    markup = text[: text.index('<script type="application/json"')].replace(style, "")
    assert set(re.findall(r'(?:href|src)="(.*?)"', markup)) == {"data:,", "#explore", "#targets"}


def test_numbers_survive_the_way_into_the_page():
    page = collect(MODEL)
    data = of_data(render(page))
    loss = data["history"]["loss"]
    read = np.frombuffer(base64.b64decode(loss["base64"]), loss["dtype"])
    np.testing.assert_array_equal(read, MODEL.history_.loss.astype("f4"))
    means = data["features"]["means"]
    read = np.frombuffer(base64.b64decode(means["base64"]), means["dtype"])
    np.testing.assert_array_equal(read.reshape(means["shape"]), page["features"]["means"])


def test_infinite_limits_are_written_as_a_script_reads_them():
    model = CTFARegressor(targets=TargetAggregator(max_loss=np.inf)).fit(X, Y)
    assert of_data(render(collect(model)))["rule"]["limit"] == "Infinity"


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "report.html"
    assert write(MODEL, path, title="One") == path
    assert "<title>One</title>" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    before = path.read_bytes()

    def fails(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("ctfa.report._write.os.replace", fails)
    with pytest.raises(OSError, match="disk is full"):
        write(MODEL, path, title="Two")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


@pytest.mark.more
def test_a_report_needs_no_extra(tmp_path):
    code = f"""
import sys
from pathlib import Path
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {{"pandas", "polars", "matplotlib", "numba", "jinja2"}}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
import ctfa
from ctfa.datasets import make_paper_synthetic
X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
ctfa.report.write(ctfa.CTFARegressor().fit(X, Y), {str(tmp_path / "page.html")!r}, data=(X, Y))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 50_000


@pytest.mark.more
def test_the_example_of_the_document_runs(tmp_path, monkeypatch, capsys):
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/report.md", "exec"), {})
    assert capsys.readouterr().out == "gauges.html\n"
    assert (tmp_path / "gauges.html").exists()
