"""Windows of time: lags and their chain, in arrays, labelled data and on the command line."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctfa
from ctfa import CTFARegressor, FeatureAggregator, cli, lagged
from ctfa.core.lags import Lags, Window
from ctfa.labelled._times import limit_for_series
from generated import examples

xr = pytest.importorskip("xarray", reason="labelled data need xarray")
N, LAGS = 160, range(7)


def world(n=N, seed=0, freq="8D", basins=("a", "b", "c")):
    """A target that is the rain 16 to 40 days before, and half of itself eight days before."""
    rng = np.random.default_rng(seed)
    rain, heat, noise = rng.normal(size=(3, n, len(basins)))
    y = noise.copy()
    for k in range(2, 6):
        y[5:] += 0.7 * rain[5 - k : n - k]
    for t in range(1, n):
        y[t] += 0.4 * y[t - 1]
    held = {"vhi": y, "rain": rain, "heat": heat}
    dims = ("time", "basin")
    coords = {"time": pd.date_range("2001-01-05", periods=n, freq=freq), "basin": list(basins)}
    return xr.Dataset({name: (dims, values) for name, values in held.items()}, coords=coords)


OPTIONS = {
    "target": "vhi", "features": ["rain", "heat"], "aggregate": "pool", "max_loss": math.inf,
    "held_out": None, "lags": {"rain": LAGS},
}  # fmt: skip


def fit(data, **options):
    return ctfa.labelled.fit(data, **(OPTIONS | options))


FITTED = fit(world(), own_past=1)


# ------------------------------------------------------------------------------- plain arrays


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True),
    st.integers(1, 20),
    st.integers(1, 3),
)
def test_lagged_columns_are_those_that_pandas_shifts(lags, n, width):
    values = np.random.default_rng(n).normal(size=(n, width))
    columns, names, _ = lagged(values, lags, step="week")
    shifted = [
        pd.DataFrame(values).shift(k)[j].to_numpy() for j in range(width) for k in sorted(lags)
    ]
    np.testing.assert_array_equal(columns, np.column_stack(shifted))
    assert names[0] == f"x0, {min(lags)} week{'s' * (min(lags) != 1)} before"
    cube = np.stack([values, -values], axis=1)
    np.testing.assert_array_equal(lagged(cube, lags).columns[:, 1], -columns)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["correlation", "best-first", "grow", "restart"]))
def test_only_neighbouring_lags_of_one_series_merge(seed, scan):
    rng = np.random.default_rng(seed)
    series = rng.normal(size=(60, 2)).cumsum(axis=0)
    past = lagged(series, {"a": range(0, 9, 2), "b": range(4)}, names=["a", "b"], step="8 days")
    table = pd.DataFrame(past.columns, columns=past.names)[8:].assign(other=rng.normal(size=52))
    graph = Lags(list(table)).chain()
    np.testing.assert_array_equal(graph.toarray()[:-1, :-1], past.connectivity.toarray())
    model = FeatureAggregator(connectivity=graph, max_loss=20.0, min_correlation=-1, scan=scan)
    model.fit(table, rng.normal(size=52))
    for group in model.partition_.groups:
        members = [Window.read(table.columns[k]) for k in group]
        if members == [None]:
            continue
        assert len({lag.series for lag in members}) == 1
        step = 16 if members[0].series == "a" else 8
        assert (np.diff(sorted(lag.first for lag in members)) == step).all()
    assert sum("mean(" in name for name in model.get_feature_names_out()) < model.n_groups_ + 1


def test_windows_have_names_and_what_is_no_window_keeps_its_own():
    names = ["rain, 0 days before", "rain, 8 days before", "rain, 16 days before", "snow"]
    lags = Lags(names)
    assert str(lags.window([1, 2])) == "rain, 8-16 days before"
    assert str(lags.window([1])) == "rain, 8 days before"
    assert lags.window([0, 2]) is None  # a gap
    assert lags.window([0, 3]) is None
    X = np.random.default_rng(0).normal(size=(50, 4))
    free = FeatureAggregator(max_loss=math.inf, min_correlation=-1)
    (name,) = free.fit(pd.DataFrame(X, columns=names), X[:, 0]).get_feature_names_out()
    assert name == f"mean({', '.join(names)})"


@pytest.mark.parametrize(
    ("lags", "options", "words"),
    [
        (range(-1, 3), {}, "lags has -1, which is a value of the future"),
        ([0.5], {}, "give whole numbers of steps back"),
        ([], {}, "give whole numbers of steps back"),
        ("rain", {}, "give whole numbers of steps back"),
        ({"snow": [1]}, {"names": ["rain"]}, "lags names 'snow', and the series here are rain"),
        ([1], {"step": "8"}, "step='8': give a word"),
    ],
)
def test_lags_that_cannot_be_meant_are_refused(lags, options, words):
    with pytest.raises(ValueError, match=words.replace("(", "\\(")):
        lagged(np.zeros((5, 1)), lags, **options)


def test_windows_serve_targets_that_share_their_features():
    rng = np.random.default_rng(0)
    past = lagged(rng.normal(size=(200, 1)), LAGS, step="8 days", names=["rain"])
    X = pd.DataFrame(past.columns, columns=past.names)[6:]
    Y = X.to_numpy()[:, 2:6].sum(axis=1)[:, None] + rng.normal(size=(194, 3))
    features = FeatureAggregator(connectivity=past.connectivity, min_correlation=-1)
    model = CTFARegressor(features=features).fit(X, Y)
    assert "mean(rain, 16-40 days before)" in model.features_[0].get_feature_names_out()
    assert "mean(rain, 16-40 days before)" in str(model.why(0))


def test_targets_that_lack_a_series_take_the_chain_among_what_they_have():
    cube = lagged(world().to_array().sel(variable=["rain", "heat"]).values.transpose(1, 2, 0), LAGS)
    inputs = cube.columns[6:].copy()
    inputs[:, 0, 7:] = np.nan  # the first has no heat
    X, layout = ctfa.multi_input_layout(inputs)
    features = FeatureAggregator(connectivity=cube.connectivity, min_correlation=-1, max_loss=1e9)
    model = ctfa.MultiInputCTFARegressor(
        layout, targets="passthrough", features=features, aggregate="pool"
    ).fit(X, world().vhi.values[6:])
    assert [one.n_groups_ for one in model.features_] == [1, 2, 2]


# ----------------------------------------------------------------------------- labelled data


def test_labelled_data_find_the_windows_they_were_made_of():
    names = FITTED.estimator.features_[0].get_feature_names_out().tolist()
    assert "mean(rain, 16-40 days before)" in names
    assert {"heat", "vhi, 8 days before"} <= set(names)
    table = FITTED.windows.set_index("window").loc["16-40 days before"]
    columns = [f"rain, {8 * k} days before" for k in range(2, 6)]
    assert table.coef == pytest.approx(float(FITTED.coef.sel(feature=columns).sum()))
    assert "16-40 days before" in str(FITTED)
    assert "24 days" not in str(FITTED.notes)
    assert "6 rows whose past of up to 48 days is not in the data, left out" in FITTED.notes


def test_rows_that_are_learned_from_are_those_of_a_shift_in_time():
    data = world().isel(time=np.r_[0:70, 73:N])  # three rows are missing
    fitted = fit(data, merge_features=False, lags={"rain": [0, 2]}, own_past=[1])
    table = data.to_dataframe().reset_index()
    by_date = table.set_index(["time", "basin"])
    days = pd.to_timedelta(8, "D")
    for name, back in (("rain", 2), ("vhi", 1)):
        at = list(zip(table.time - back * days, table.basin, strict=True))
        table[f"{name}_{back}"] = by_date[name].reindex(at).to_numpy()
    whole = table.dropna()
    assert fitted.span[2] == whole.time.nunique() == N - 3 - 2 - 2
    centred = whole.groupby("basin")[["rain", "rain_2", "heat", "vhi_1", "vhi"]]
    scaled = (whole[["rain", "rain_2", "heat", "vhi_1", "vhi"]] - centred.transform("mean")) / (
        centred.transform("std")
    )
    coef = np.linalg.lstsq(scaled.iloc[:, :-1].to_numpy(), scaled.vhi.to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(fitted.coef.values[0, [0, 1, 2, 3]], coef, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:the past of", "ignore:.*predictions are NaN")
def test_nothing_that_is_predicted_knows_the_future():
    data = world()
    before = FITTED.predict(data)
    assert int(np.isnan(before).sum()) == 6 * 3
    changed = data.copy(deep=True)
    for name in data:
        changed[name][100:] = 1e3
    after = FITTED.predict(changed)
    np.testing.assert_array_equal(after[:100], before[:100])
    assert (after[100:] != before[100:]).all()
    changed = data.assign(vhi=data.vhi.where(data.time < data.time[100]))
    known = FITTED.predict(changed)[100]  # a forecast: the target of the row is not known
    np.testing.assert_array_equal(known, before[100])


@pytest.mark.filterwarnings("ignore:the past of")
def test_windows_are_asked_what_they_are_worth():
    found = FITTED.importance(world(), random_state=0).set_index("feature").importance
    assert found.idxmax() == "mean(rain, 16-40 days before)"


def test_the_past_of_rows_to_be_predicted_must_be_there(recwarn):
    data = world()
    with pytest.raises(ValueError, match="must reach back to rain 48 days before every row"):
        FITTED.predict(data.isel(time=slice(6)))
    with pytest.raises(ValueError, match="fitted with own_past: predictions need values of vhi"):
        FITTED.predict(data[["rain", "heat"]])
    FITTED.predict(data.isel(time=slice(0, 10)))
    assert any("the past of 6 rows of 10 is not in the data" in str(w.message) for w in recwarn)


def test_a_model_with_a_past_is_saved_and_says_the_same(tmp_path):
    FITTED.save(tmp_path / "fit.ctfa")
    again = ctfa.labelled.load(tmp_path / "fit.ctfa")
    later = world().isel(time=slice(50, None))
    with pytest.warns((UserWarning, RuntimeWarning)):
        np.testing.assert_array_equal(again.predict(later), FITTED.predict(later))
    assert str(again) == str(FITTED)
    pd.testing.assert_frame_equal(again.windows, FITTED.windows)


@pytest.mark.filterwarnings("ignore:the past of", "ignore:.*predictions are NaN")
def test_tables_give_what_arrays_give():
    data = world()
    expected = FITTED.predict(data)
    long = data.to_dataframe().reset_index()
    fitted = fit(long, sample="time", task="basin", own_past=1)
    found = fitted.predict(long).to_numpy().reshape(N, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    wide = data.vhi.to_pandas().assign(rain=data.rain.values[:, 0])
    shared = ctfa.labelled.fit(
        wide, target=["a", "b", "c"], lags=LAGS, own_past=[1], held_out=None, max_loss=math.inf
    )
    assert np.isfinite(shared.predict(wide).to_numpy()[6:]).all()


@pytest.mark.parametrize(
    ("freq", "words"),
    [("D", "2-5 days"), ("W", "2-5 weeks"), ("MS", "2-5 months"), ("YS", "2-5 years"),
     ("3h", "6-15 hours")],
)  # fmt: skip
def test_windows_are_named_by_the_step_of_the_data(freq, words):
    names = list(fit(world(freq=freq), own_past=1).windows.window)
    assert f"{words} before" in names


def test_times_that_are_not_equally_spaced_are_refused_and_numbers_are_counted():
    data = world()
    days = data.time.values + np.arange(N) ** 2 % 7 * np.timedelta64(1, "D")
    with pytest.raises(ValueError, match=r"lags needs rows at equal distance.*is followed by"):
        fit(data.assign_coords(time=days))
    with pytest.raises(ValueError, match="own_past needs rows at equal distance"):
        fit(data.assign_coords(time=np.arange(N) ** 2), lags=None, own_past=1)
    numbers = fit(data.assign_coords(time=5 * np.arange(N)), own_past=1)
    assert "2-5 steps before" in list(numbers.windows.window)
    with pytest.raises(ValueError, match=r"lags names 'ran'.*did you mean 'rain'"):
        fit(data, lags={"ran": [1]})
    with pytest.raises(ValueError, match="own_past has 0, which is the value that is to be"):
        fit(data, own_past=[0, 1])
    with pytest.raises(ValueError, match="no row has its whole past of 200 steps"):
        fit(data, lags={"rain": [200]})


@pytest.mark.more
def test_blocks_leave_out_what_would_bring_them_in_as_a_past():
    fitted = fit(world(), own_past=[1, 3], max_loss="auto", cv=4)
    assert repr(fitted.estimator.targets.cv) == "BlockedKFold(gap=3, n_splits=4)"
    judged = fit(world(60), own_past=2, held_out=2).held_out.how
    assert judged == "2 blocks of consecutive rows, each held out once, without 2 beside it"


def test_memory_of_rows_raises_the_limit_and_none_leaves_it():
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2, 600))
    slow = np.zeros_like(noise)
    for t in range(1, 600):
        slow[:, t] = 0.9 * slow[:, t - 1] + noise[:, t]
    plan = replace(FITTED.plan, slots=FITTED.plan.slots[:1])
    name = plan.slots[0].name
    quick = limit_for_series(plan, {"vhi": (noise[0] + noise[1])[:, None], name: noise[:1].T})
    lasting = limit_for_series(plan, {"vhi": (slow[0] + slow[1])[:, None], name: slow[:1].T})
    assert np.log(600) <= quick < 1.5 * np.log(600) < 4.0 * np.log(600) < lasting


def test_lags_of_data_in_chunks_are_those_of_data_in_memory():
    pytest.importorskip("dask")
    data = world()
    found = fit(data.chunk(time=40), own_past=1)
    np.testing.assert_allclose(found.coef, FITTED.coef, rtol=1e-8)


# --------------------------------------------------------------------------- pictures and command


def test_a_band_is_drawn_for_each_window():
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    ax = ctfa.plotting.plot_windows(FITTED)
    bands = [p for p in ax.patches if p.get_width() > 0]
    assert len(bands) == len(FITTED.windows)
    spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in bands)
    assert (12.0, 44.0) in spans
    with pytest.raises(ValueError, match="no feature of this model is of the past"):
        ctfa.plotting.plot_windows(fit(world(60), lags=None))
    pyplot.close("all")


def test_the_page_holds_the_lags_of_every_feature():
    page = ctfa.report.collect(FITTED)["features"]["lags"]
    assert page["series"] == ["rain", "vhi"]
    assert page["back"].tolist() == [*range(0, 49, 8), -1, 8]
    assert page["rank"].tolist() == [*range(7), -1, 0]


@pytest.mark.more
@pytest.mark.skipif(not importlib.util.find_spec("h5netcdf"), reason="needs h5netcdf")
def test_the_command_finds_windows_and_repeats_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ctfa.labelled.write(world(), "w.nc")
    said = ["-q", "--held-out", "none", "--max-loss=inf", "--aggregate", "pool"]
    asked = ["--lags", "rain=0:6", "--own-past", "1,2"]
    assert cli.main(["fit", "w.nc", "-t", "vhi", "-f", "rain,heat", *asked, *said, "-o", "r"]) == 0
    written = pd.read_csv("r/windows.csv")
    assert "16-40 days before" in set(written.window)
    assert 'lags = ["rain=0:6"]' in (tmp_path / "r" / "run.toml").read_text()
    assert cli.main(["fit", "r/run.toml", "-q", "-o", "again"]) == 0
    assert (tmp_path / "again/windows.csv").read_bytes() == (
        tmp_path / "r/windows.csv"
    ).read_bytes()
    assert cli.main(["predict", "r", "w.nc", "-o", "p.nc"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["fit", "w.nc", "-t", "vhi", "--lags", "rain=5:2", "-o", "x"])
    assert "is not a number of steps back" in capsys.readouterr().err


def test_the_page_on_the_po_shows_the_stored_results_and_these_reach_what_they_must():
    root = Path(__file__).parents[2]
    stored = root / "results" / "po_vhi"
    page = (root / "docs" / "po_vhi.md").read_text(encoding="utf-8")
    assert (stored / "table.md").read_text(encoding="utf-8") in page
    scores = pd.read_csv(stored / "scores.csv").groupby("method", sort=False)
    mean = scores.test.mean()
    assert mean["windows, one model per basin"] >= 0.18
    assert mean["windows and own past, one model per basin"] >= 0.40
    assert scores.windows.max()["windows, one model per basin"] <= 6
