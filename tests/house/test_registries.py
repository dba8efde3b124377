"""A criterion, a scan, a file format and a rule of neighbours: one object each, and every door."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    feature_path,
    labelled,
    persistence,
    report,
    target_path,
    testing,
)
from ctfa._kinds import FORMATS, NEIGHBOUR_RULES, Format, NeighbourRule
from ctfa.cli import main
from ctfa.core import backend
from ctfa.core.criteria import (
    FEATURE_CRITERIA,
    TARGET_CRITERIA,
    Criterion,
    cross_validated_risk,
    feature_risk,
    target_risk,
)
from ctfa.core.design import Design
from ctfa.core.scans import SCANS, Scan
from ctfa.core.spaces.targets import TargetSpace
from ctfa.estimators.search import unit_power
from problems import RIDGE, make_problem

pd = pytest.importorskip("pandas", reason="tables need pandas")
xr = pytest.importorskip("xarray", reason="labelled data need xarray")

PROBLEM = make_problem("gaussian", 3, n_samples=80, n_features=4, n_targets=7)
X, Y = PROBLEM.X, PROBLEM.Y
OWN = np.random.default_rng(5).normal(size=(80, 14))
LAYOUT = np.arange(14).reshape(7, 2).tolist()
#: Limits of the risk at which some targets merge and some do not.
LIMITS = {"shared": 5.0, "mean": 0.2, "pool": 0.2, "rows": 1.0}


def fitted(kind, **options):
    """A model of each kind, whose targets are merged on these terms."""
    targets = TargetAggregator(**options)
    if kind == "shared":
        return CTFARegressor(targets=targets).fit(X, Y)
    if kind == "rows":
        rows, tasks = OWN.reshape(-1, 2), np.repeat(np.arange(7), 80)
        return PooledCTFARegressor(targets=targets).fit(rows, Y.T.ravel(), tasks=tasks)
    return MultiInputCTFARegressor(LAYOUT, aggregate=kind, targets=targets).fit(OWN, Y)


def page_of(model, folder):
    return report.write(model, folder / "page.html").read_text(encoding="utf-8")


def reloaded(model, folder):
    persistence.save(model, folder / "model.ctfa")
    return persistence.load(folder / "model.ctfa")


# -- A criterion -----------------------------------------------------------------------------------


def twice_the_risk(evidence):
    return 2.0 * target_risk(evidence)


def twice_the_risk_of_ridge(evidence):
    return 2.0 * cross_validated_risk(evidence)


def half_the_f(evidence):
    return 0.5 * feature_risk(evidence)


TWICE = Criterion(
    "twice",
    twice_the_risk,
    "two times what it should",
    unit=0.0,
    break_even=2.0,
    limit_words="counted twice",
    usual_loss=0.75,
    has_auto=True,
    takes_gaps=True,
    ridge_loss=twice_the_risk_of_ridge,
)
HALF = Criterion("half", half_the_f, has_auto=True, on_folds=False, ridge_loss=half_the_f, unit=0.0)


@pytest.fixture
def criteria(monkeypatch):
    monkeypatch.setitem(TARGET_CRITERIA, "twice", TWICE)
    monkeypatch.setitem(FEATURE_CRITERIA, "half", HALF)


@pytest.mark.parametrize("given", ["twice", twice_the_risk, TWICE], ids=["name", "loss", "object"])
@pytest.mark.parametrize("kind", ["shared", "mean", "pool", "rows"])
def test_a_criterion_is_one_object_that_goes_through_every_door(kind, given, criteria, tmp_path):
    model = fitted(kind, criterion=given, max_loss=2.0 * LIMITS[kind])
    usual = fitted(kind, criterion="risk", max_loss=LIMITS[kind])
    assert 1 < model.n_groups_ < 7
    np.testing.assert_array_equal(model.labels_, usual.labels_)
    np.testing.assert_allclose(model.merges_.loss, 2.0 * usual.merges_.loss)
    said = " ".join(str(model.why(target)) for target in range(7))
    assert "by the risk rule" in said  # its loss is not said by F
    page = page_of(model, tmp_path)
    assert "two times what it should" in page
    assert '"limit_words":"counted twice"' in page
    assert '"usual_loss":0.75' in page
    assert '"criterion":"twice"' in page
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    assert [str(loaded.why(k)) for k in range(7)] == [str(model.why(k)) for k in range(7)]


def test_a_refusal_below_the_break_even_of_a_criterion_is_told_as_one(criteria):
    model = CTFARegressor(targets=TargetAggregator("twice", max_loss=-100.0)).fit(X, Y)
    said = [str(model.why(target)) for target in range(7)]
    assert any("max_loss=-100 is stricter than break-even (2)" in text for text in said)


def test_a_criterion_says_what_goes_with_it(criteria):
    gaps = Y.copy()
    gaps[:3, 0] = np.nan
    chosen = TargetAggregator("twice").fit(X, Y)  # on folds
    assert chosen.cv_curve_ is not None
    assert TargetAggregator("twice", max_loss=2.0).fit(X, gaps).n_groups_ >= 1
    short = TargetAggregator("twice", max_loss=2.0).fit(X[:5], Y[:5])
    asked = TargetAggregator("twice", max_loss=2.0, regressor=LinearRegression())
    with pytest.warns(RuntimeWarning, match="Ridge regression is used in its place"):
        asked.fit(X[:5], Y[:5])
    np.testing.assert_array_equal(asked.history_.loss, short.history_.loss)
    for judge in (None, RIDGE):
        twice = TargetAggregator("twice", max_loss=2.0, regressor=judge).fit(X[:5], Y[:5])
        once = TargetAggregator("risk", max_loss=1.0, regressor=judge).fit(X[:5], Y[:5])
        np.testing.assert_array_equal(twice.labels_, once.labels_)
        np.testing.assert_allclose(twice.history_.loss, 2.0 * once.history_.loss)
    features = FeatureAggregator("half").fit(X, Y[:, 0])
    assert features.max_loss_ == np.log(80)
    feature_path(X, Y[:, 0], [1.0, 2.0], criterion="half")
    assert [point.n_groups for point in target_path(X, Y, [2.0, 6.0], criterion="twice")] == [
        point.n_groups for point in target_path(X, Y, [1.0, 3.0], criterion="risk")
    ]
    CTFARegressorCV(targets=TargetAggregator("twice"), cv=2).fit(X, Y)


def test_errors_name_a_criterion_where_they_name_the_others(criteria):
    with pytest.raises(ValueError, match="use one of 'risk', 'mse', 'corollary', 'twice'"):
        TargetAggregator("thrice").fit(X, Y)
    with pytest.raises(ValueError, match="'auto' goes with criterion='risk' or 'twice' and not"):
        TargetAggregator("mse").fit(X, Y)
    with pytest.raises(ValueError, match=r"=Ridge\(\) goes with criterion='risk' or 'twice'"):
        TargetAggregator("mse", max_loss=0.0, regressor=Ridge()).fit(X, Y)
    with pytest.raises(ValueError, match="criterion='half' is judged in sample"):
        FeatureAggregator("half", cv=3).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="'auto' goes with criterion='risk' or 'half' and not"):
        FeatureAggregator("r2").fit(X, Y[:, 0])


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_ties_are_judged_in_the_unit_that_a_criterion_declares(unit, monkeypatch):
    asked = []

    def too_dear(evidence):  # copies are 1e-13 too dear: rounding
        asked.append(evidence.after.n_samples)
        return evidence.difference.explained + 1e-13 * evidence.after.total

    monkeypatch.setitem(TARGET_CRITERIA, "dear", Criterion("dear", too_dear, unit=1.0))
    copies = np.column_stack([Y[:, 0]] * 3) * unit
    model = TargetAggregator("dear", max_loss=0.0, scale="none").fit(X, copies)
    assert model.n_groups_ == 1
    assert set(asked) == {80}  # of the data alone: nothing had to be found by asking


@pytest.mark.parametrize(
    ("criterion", "n_before"),
    [
        *((criterion, 2) for criterion in TARGET_CRITERIA.values()),
        *((criterion, 1) for criterion in FEATURE_CRITERIA.values()),
    ],
    ids=lambda given: getattr(given, "name", str(given)),
)
def test_declared_units_are_those_found_by_asking(criterion, n_before):
    assert unit_power(criterion.loss, n_before) == criterion.unit


def test_a_compiled_form_is_found_by_what_the_criterion_calls_it():
    pytest.importorskip("numba")
    design = Design.of(X)
    space = TargetSpace.of(design, design.centre(Y))
    given = {"limit": 1.0, "order": np.arange(7), "restart": True}
    with backend.using("numba"):
        alias = replace(TARGET_CRITERIA["risk"], name="alias")
        assert backend.grow(space, alias, **given) is not None
        assert backend.grow(space, TWICE, **given) is None
        assert backend.grow(space, FEATURE_CRITERIA["risk"], **given) is None


# -- A scan ----------------------------------------------------------------------------------------


@pytest.fixture
def searched(monkeypatch):
    """Scans "mine", which is nested, and "once"; how often they were run."""
    runs = []

    def mine(judge, order, neighbours):
        runs.append(judge.limit)
        return SCANS["best-first"].search(judge, order, neighbours)

    for scan in (
        Scan("mine", mine, "in an order of our own", nested=True, has_auto=True),
        Scan("once", SCANS["restart"].search, "each of them once", asks_once=True),
    ):
        monkeypatch.setitem(SCANS, scan.name, scan)
    return runs


@pytest.mark.more
@pytest.mark.parametrize("kind", ["shared", "mean", "pool", "rows"])
def test_a_scan_is_one_object_that_goes_through_every_door(kind, searched, tmp_path):
    model = fitted(kind, scan="mine", max_loss=LIMITS[kind])
    usual = fitted(kind, scan="best-first", max_loss=LIMITS[kind])
    assert searched
    np.testing.assert_array_equal(model.labels_, usual.labels_)
    assert [str(model.why(k)) for k in range(7)] == [str(usual.why(k)) for k in range(7)]
    page = page_of(model, tmp_path)
    assert "in an order of our own" in page
    assert '"nested":true' in page
    loaded = reloaded(model, tmp_path)
    np.testing.assert_array_equal(loaded.labels_, model.labels_)
    chosen = fitted(kind, scan="mine")  # the limit on folds
    np.testing.assert_array_equal(chosen.labels_, fitted(kind).labels_)


def test_a_nested_scan_decides_a_whole_path_at_once(searched):
    target_path(X, Y, [0.5, 1.0, 2.0], scan="mine")
    assert len(searched) == 1


def test_a_scan_that_asks_once_tells_refusals_as_of_then(searched, tmp_path):
    model = fitted("shared", scan="once", max_loss=0.2)
    said = " ".join(str(model.why(target)) for target in range(7))
    assert "when it was asked," in said
    page = page_of(model, tmp_path)
    assert "each of them once" in page
    assert '"asks_once":true' in page
    assert '"nested":false' in page


def test_errors_name_a_scan_where_they_name_the_others(searched):
    with pytest.raises(ValueError, match=r"use one of 'best-first', .* 'mine', 'once'"):
        TargetAggregator(scan="yours").fit(X, Y)
    with pytest.raises(ValueError, match="scan='best-first' or 'correlation' or 'mine' and not"):
        TargetAggregator(scan="once").fit(X, Y)


def test_the_laws_hold_for_a_scan_of_ones_own(searched):
    design = Design.of(X)
    testing.check_scan(
        SCANS["mine"],
        lambda: TargetSpace.of(design, design.centre(Y)),
        target_risk,
        max_loss=1.0,
        graph=np.eye(7, k=1) + np.eye(7, k=-1),
    )


# -- A file format ---------------------------------------------------------------------------------


def read_lines(path, layer, lazy):
    table = pd.DataFrame(json.loads(path.read_text().removeprefix("lines\n")))
    return table.assign(time=pd.to_datetime(table["time"]))


def write_lines(table, path):
    columns = {name: table[name].astype(str).tolist() for name in ("time", "gauge")}
    columns |= {name: table[name].tolist() for name in table.columns if name not in columns}
    path.write_text(f"lines\n{json.dumps(columns)}")


@pytest.fixture
def lines(monkeypatch):
    lines = Format(
        "Lines",
        (".lines", ".ln"),
        ("tables",),
        read_lines,
        write_lines,
        (b"lines",),
        is_common=True,
    )
    monkeypatch.setitem(FORMATS, "Lines", lines)
    return lines


def gauges():
    """A table of six gauges over forty months."""
    rng = np.random.default_rng(0)
    time = pd.date_range("2001-01-01", periods=40, freq="MS")
    rain = rng.normal(size=(40, 6))
    flow = rain * [1.0, 1.0, 1.0, -2.0, -2.0, -2.0] + 0.3 * rng.normal(size=(40, 6))
    return pd.DataFrame(
        {
            "time": np.tile(time, 6),
            "gauge": np.repeat([f"g{k}" for k in range(6)], 40),
            "rain": rain.T.ravel(),
            "flow": flow.T.ravel(),
        }
    )


FIT = ["-t", "flow", "-f", "rain", "--sample", "time", "--task", "gauge"]


def said_by(capsys, *arguments, code=0):
    """What a command says, on one line."""
    try:
        given = main(list(map(str, arguments)))
    except SystemExit as stop:
        given = stop.code
    told = capsys.readouterr()
    assert given == code, told.err
    return " ".join((told.out + told.err).split())


@pytest.mark.more
def test_a_file_format_is_one_object_that_goes_through_every_door(lines, tmp_path, capsys):
    labelled.write(gauges(), tmp_path / "gauges.ln")
    assert labelled.read(tmp_path / "gauges.ln").equals(gauges())
    said_by(capsys, "fit", tmp_path / "gauges.ln", *FIT, "-o", tmp_path / "run")
    assert "flow" in said_by(capsys, "doctor", tmp_path / "gauges.ln")
    said_by(
        capsys, "predict", tmp_path / "run", tmp_path / "gauges.ln", "-o", tmp_path / "out.lines"
    )
    assert set(labelled.read(tmp_path / "out.lines").columns) == {"time", "gauge", "flow"}


def test_errors_and_help_name_a_file_format_where_they_name_the_others(lines, tmp_path, capsys):
    with pytest.raises(labelled.FileError, match=r"known are .*, \.lines, \.ln\.$"):
        labelled.write(gauges(), tmp_path / "gauges.txt")
    with pytest.raises(labelled.FileError, match=r"to \.parquet, \.feather, \.csv or \.lines inst"):
        labelled.write(gauges(), tmp_path / "gauges.nc")
    with pytest.raises(labelled.FileError, match=r"cannot hold a Dataset: write it to \.nc or"):
        labelled.write(xr.Dataset(), tmp_path / "gauges.lines")
    (tmp_path / "other.lines").write_text("others")
    with pytest.raises(labelled.FileError, match="is not a Lines file, or only part of one"):
        labelled.read(tmp_path / "other.lines")
    for command in ("fit", "doctor"):
        known = "NetCDF, Zarr, CSV, Lines, Parquet or GeoPackage"
        assert known in said_by(capsys, command, "--help")
    assert ".nc, .zarr, .csv, .lines or .parquet" in said_by(capsys, "predict", "--help")


# -- A rule of neighbours --------------------------------------------------------------------------


def steps_apart(given, count, tasks, geometry):
    """Each task with the one so many steps further on."""
    step = int(count or 1)
    return np.arange(tasks.n_tasks - step), np.arange(step, tasks.n_tasks)


@pytest.fixture
def chains(monkeypatch):
    monkeypatch.setitem(
        NEIGHBOUR_RULES, "chain", NeighbourRule("chain", steps_apart, "tasks in a row")
    )
    monkeypatch.setitem(
        NEIGHBOUR_RULES, "steps", NeighbourRule("steps", steps_apart, takes_count=True)
    )


@pytest.mark.more
def test_a_rule_of_neighbours_is_one_object_that_goes_through_every_door(chains, tmp_path, capsys):
    names = {"target": "flow", "features": ["rain"], "sample": "time", "task": "gauge"}
    # g0, g1, g2 are alike, and so are the others: every third is a neighbour of none of its kind.
    for given, n_groups in (("chain", 2), (("steps", 3), 6), ("steps:3", 6)):
        found = labelled.fit(gauges(), **names, neighbours=given, max_loss=1.5)
        assert found.estimator.n_groups_ == n_groups
    labelled.write(gauges(), tmp_path / "gauges.csv")
    run, data = tmp_path / "run", tmp_path / "gauges.csv"
    said_by(capsys, "fit", data, *FIT, "--neighbours", "steps:3", "--max-loss", "1.5", "-o", run)
    assert labelled.load(run / "model.ctfa").estimator.n_groups_ == 6
    assert "steps:3" in (run / "run.toml").read_text()
    assert "--neighbours chain" in said_by(capsys, "doctor", data, *FIT, "--neighbours", "chain")


def test_errors_and_help_name_a_rule_of_neighbours_where_they_name_the_others(
    chains, tmp_path, capsys
):
    with pytest.raises(ValueError, match=r"\('nearest', 6\), 'chain' \(tasks in a row\)"):
        labelled.fit(
            gauges(), target="flow", features=["rain"], task="gauge", sample="time", neighbours="no"
        )
    known = "rook, queen, border, touch, nearest:K, chain, steps:K"
    assert known in said_by(capsys, "fit", "--help")
    said = said_by(capsys, "fit", "x.csv", "--neighbours", "bishop", "-o", tmp_path / "r", code=2)
    assert f"neither a file nor one of {known}" in said
