"""Intervals: how often they hold, what they must not depend on, and what is refused."""

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    labelled,
    multi_input_layout,
    nonlinctfa,
)
from ctfa.cli import main
from ctfa.core.calibration import SCORES, Errors, calibrated, quantile
from ctfa.datasets import make_basins
from ctfa.persistence import load, save
from generated import examples

N, N_GROUPS, SIZE = 160, 3, 6


def noisy(seed: int, kind: str = "plain", n_more: int = 300):
    """The bar's problem: 160 rows, 10 features, 18 targets in three groups, and new rows."""
    rng = np.random.default_rng(seed)
    coef = np.repeat(rng.normal(size=(N_GROUPS, 10)), SIZE, axis=0) / np.sqrt(10.0)
    X = rng.normal(size=(N + n_more, 10))
    noise = rng.normal(size=(len(X), len(coef)))
    if kind == "heavy tails":
        noise = rng.standard_t(4, size=noise.shape) / np.sqrt(2.0)
    if kind == "memory":
        for row in range(1, len(noise)):
            noise[row] = 0.6 * noise[row - 1] + 0.8 * noise[row]
    if kind == "uneven":
        noise *= np.exp(rng.uniform(-1.0, 1.0, len(coef)))
    if kind == "growing":
        noise *= np.exp(0.6 * X[:, :1])
    return X, X @ coef.T + noise, noise


@cache
def fitted(seed: int = 0, kind: str = "plain"):
    X, Y, _ = noisy(seed, kind)
    return CTFARegressor().fit(X[:N], Y[:N])


def held(interval, Y):
    lower, upper = map(np.asarray, interval)
    return (lower <= Y) & (upper >= Y)


@pytest.mark.parametrize("kind", ["plain", "heavy tails", "memory", "uneven"])
def test_intervals_hold_as_often_as_they_say_and_are_hardly_wider_than_those_of_the_truth(kind):
    covered, wide, least = [], [], []
    for seed in range(3):
        X, Y, noise = noisy(seed, kind)
        lower, upper = fitted(seed, kind).predict_interval(X[N:], coverage=0.9)
        covered.append(held((lower, upper), Y[N:]).mean())
        wide.append((upper - lower).mean())
        low, high = np.quantile(noise[N:], (0.05, 0.95), axis=0)
        least.append((high - low).mean())
    assert 0.88 <= np.mean(covered) <= 0.93
    assert np.sum(wide) <= 1.12 * np.sum(least)


def test_intervals_follow_what_errors_follow():
    X, Y, _ = noisy(1, "growing")
    model = fitted(1, "growing")
    inside, far = held(model.predict_interval(X[N:]), Y[N:]), X[N:, 0] > 0.8
    assert model.calibration_.slopes.any()
    assert inside[far].mean() > 0.8
    same = model.calibration_._replace(slopes=np.empty(0))
    lower, upper = same.bounds(model.predict(X[N:]), 0.9, X[N:])
    assert held((lower, upper), Y[N:])[far].mean() < inside[far].mean() - 0.05


def test_short_series_borrow_the_size_of_errors_of_their_group():
    rng = np.random.default_rng(0)
    error, target = rng.normal(size=1230), np.repeat([0, 1, 2], [600, 600, 30])
    error[-30:] *= 1.3  # by chance, it might be
    row = np.arange(error.size)
    errors = Errors(error, rng.normal(size=error.size), target, row, row % 10)
    found = calibrated(errors, np.zeros(3, dtype=int), "", np.empty((row.max() + 1, 0)))
    own = np.abs(error[-30:]).mean()
    assert found.scale[0] < found.scale[2] < own


@given(st.integers(0, 10**6), st.integers(2, 60))
@settings(max_examples=examples(20), deadline=None)
def test_the_quantile_of_a_group_is_the_conformal_one(seed, n):
    errors = np.sort(np.random.default_rng(seed).standard_t(3, size=n))
    every = np.zeros(n, dtype=int)
    given_errors = Errors(errors, np.zeros(n), every, np.arange(n), every)
    found = calibrated(given_errors, np.zeros(1, dtype=int), "", np.empty((n, 0)))
    table = found.table * found.scale[0]
    # New errors lie below the j-th of n with the probability j / (n + 1).
    for score in SCORES[10:-10:8]:
        rank = float(ndtr(score)) * (n + 1)
        below, above = max(int(np.floor(rank - 0.2)), 1), min(int(np.ceil(rank + 0.2)), n)
        if 1 <= rank <= n:
            assert errors[below - 1] - 1e-9 <= quantile(table, score)[0] <= errors[above - 1] + 1e-9


def test_intervals_are_nested_in_their_coverage_and_hold_the_prediction():
    X, _, _ = noisy(0)
    model, predicted = fitted(), fitted().predict(X[N:])
    ends = [model.predict_interval(X[N:], c) for c in (0.3, 0.5, 0.9, 0.99, 0.99999)]
    for (low, high), (lower, higher) in pairwise(ends):
        assert (lower <= low).all()
        assert (high <= higher).all()
    assert all(((low <= predicted) & (predicted <= high)).all() for low, high in ends)


def test_intervals_move_and_stretch_with_the_targets():
    X, Y, _ = noisy(0)
    lower, upper = fitted().predict_interval(X[N:])
    other = CTFARegressor().fit(X[:N], 3.0 * Y[:N] + 7.0).predict_interval(X[N:])
    np.testing.assert_allclose(other, (3.0 * lower + 7.0, 3.0 * upper + 7.0), rtol=1e-6)


def own_inputs(**options):
    basins = make_basins(n_basins=8, n_samples=90, n_features=3, n_regions=2, random_state=0)
    X, Y = basins.data, basins.target
    return MultiInputCTFARegressor(basins.layout, **options).fit(X[:70], Y[:70]), X[70:], Y[70:]


def own_rows(regressor=None, **options):
    """A model of tasks with rows of their own, these rows, and as many new ones."""
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(6), 80)
    X = rng.normal(size=(480, 2))
    y = X[:, 0] + tasks + rng.normal(size=480)
    model = PooledCTFARegressor(regressor, **options).fit(X[::2], y[::2], tasks[::2])
    return model, X, y, tasks


SERVERS = {
    "linear": CTFARegressor(LinearRegression()),
    "mean": CTFARegressor(head="mean", features=FeatureAggregator()),
    "number": CTFARegressor(targets=TargetAggregator(max_loss=1.5, flip=True)),
    "passthrough": CTFARegressor(LinearRegression(), targets="passthrough", head="mean"),
    "tree": CTFARegressor(DecisionTreeRegressor(max_depth=4, random_state=0)),
    "cv": CTFARegressorCV(target_losses=[1.0, np.inf], feature_losses=[1.0]),
    "paper": nonlinctfa(),
}
NO_GAPS = ("number", "cv", "paper")


@pytest.mark.parametrize(
    ("server", "gaps"),
    [(name, gaps) for name in SERVERS for gaps in (False, True) if not gaps or name not in NO_GAPS],
)
def test_whatever_serves_has_intervals(server, gaps):
    model = SERVERS[server]
    X, Y, _ = noisy(2)
    seen = Y[:N, :4].copy()
    if gaps:
        if (
            isinstance(model, CTFARegressorCV)
            or model.head == "mean"
            or model.get_params()["targets__flip"] is True
        ):
            pytest.skip("not with gaps")
        seen[np.random.default_rng(0).random(seen.shape) < 0.1] = np.nan
    interval = clone(model).fit(X[:N], seen).predict_interval(X[N:])
    assert 0.82 <= held(interval, Y[N:, :4]).mean() <= 0.96


def test_confounds_weights_and_single_targets_have_intervals():
    X, Y, _ = noisy(3)
    season = np.sin(np.arange(len(X)) / 6.0)[:, None]
    y = Y[:, 0] + 3.0 * season[:, 0]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, N)
    model = CTFARegressor().fit(X[:N], y[:N], weights, confounds=season[:N])
    lower, upper = model.predict_interval(X[N:], confounds=season[N:])
    assert lower.shape == (len(X) - N,)
    assert 0.82 <= held((lower, upper), y[N:]).mean() <= 0.96


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.parametrize("regressor", [None, KNeighborsRegressor(5)], ids=["linear", "neighbours"])
def test_targets_with_inputs_of_their_own_have_intervals(aggregate, regressor):
    model, X, Y = own_inputs(regressor=regressor, aggregate=aggregate)
    assert 0.8 <= held(model.predict_interval(X), Y).mean() <= 0.98


@pytest.mark.parametrize("regressor", [None, KNeighborsRegressor(5)], ids=["linear", "neighbours"])
def test_tasks_with_rows_of_their_own_have_intervals(regressor):
    model, X, y, tasks = own_rows(regressor)
    lower, upper = model.predict_interval(X[1::2], tasks=tasks[1::2])
    assert lower.shape == (240,)
    assert 0.86 <= held((lower, upper), y[1::2]).mean() <= 0.95
    with pytest.raises(ValueError, match="tasks that fit has not seen have no intervals: 77"):
        model.predict_interval(X[:1], tasks=[77])


def test_files_keep_intervals(tmp_path):
    own, X_own, _ = own_inputs()
    rows, X_rows, _, tasks = own_rows()
    for model, X, known in (
        (fitted(1, "growing"), noisy(1)[0][N:], {}),
        (own, X_own, {}),
        (rows, X_rows, {"tasks": tasks}),
    ):
        save(model, tmp_path / "model.ctfa")
        kept = load(tmp_path / "model.ctfa")
        np.testing.assert_array_equal(
            kept.predict_interval(X, 0.8, **known), model.predict_interval(X, 0.8, **known)
        )


def test_models_without_held_out_predictions_say_how_to_have_them():
    X, Y, _ = noisy(0)
    tree = DecisionTreeRegressor(max_depth=4, random_state=0)
    model = CTFARegressor(tree, targets="passthrough").fit(X[:N], Y[:N, :3])
    with pytest.raises(ValueError, match="call calibrate with the data of fit"):
        model.predict_interval(X[N:])
    model.calibrate(X[:N], Y[:N, :3])
    assert 0.82 <= held(model.predict_interval(X[N:]), Y[N:, :3]).mean() <= 0.97
    rows, X, y, tasks = own_rows(tree, targets="passthrough")
    with pytest.raises(ValueError, match="call calibrate with the data of fit"):
        rows.predict_interval(X, tasks=tasks)
    rows.calibrate(X[::2], y[::2], tasks[::2])
    assert np.isfinite(rows.predict_interval(X, tasks=tasks)).all()


def test_a_model_of_an_older_version_is_to_be_fitted_again():
    old = clone(fitted())
    vars(old).update({k: v for k, v in vars(fitted()).items() if k != "calibration_"})
    with pytest.raises(ValueError, match="fit it again"):
        old.predict_interval(noisy(0)[0][N:])


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90, -0.1, np.nan, "0.9", True, None])
def test_a_coverage_that_is_no_probability_is_refused(coverage):
    with pytest.raises(ValueError, match="coverage"):
        fitted().predict_interval(noisy(0)[0][N:], coverage)


def test_frames_give_frames_with_the_names_and_the_rows_of_predictions():
    pandas = pytest.importorskip("pandas")
    X, Y, _ = noisy(0)
    names = [f"x{k}" for k in range(10)]
    frame = pandas.DataFrame(X, columns=names, index=range(5, len(X) + 5))
    targets = pandas.DataFrame(Y[:, :3], columns=list("abc"), index=frame.index)
    model = CTFARegressor().fit(frame[:N], targets[:N])
    for end in model.predict_interval(frame[N:]):
        assert list(end.columns) == list("abc")
        assert end.index.equals(frame.index[N:])


def test_dask_answers_lazily_with_the_same_intervals():
    da = pytest.importorskip("dask.array")
    X = noisy(0)[0]
    ends = fitted().predict_interval(da.from_array(X, chunks=(100, 10)))
    for lazy, end in zip(ends, fitted().predict_interval(X), strict=True):
        assert hasattr(lazy, "compute")
        np.testing.assert_allclose(lazy.compute(), end)


def test_rows_that_came_in_pieces_have_gaussian_intervals_and_it_is_said():
    X, Y, _ = noisy(0, n_more=4000)
    X, Y = X[:, :3], Y[:, :2]
    model = CTFARegressor().partial_fit(X[:3000], Y[:3000])
    assert "Gaussian" in model.calibration_.how
    with pytest.warns(UserWarning, match="Gaussian"):
        interval = model.predict_interval(X[3000:])
    assert 0.88 <= held(interval, Y[3000:]).mean() <= 0.92


def test_one_more_pass_over_chunks_finds_the_form_that_memory_finds():
    da = pytest.importorskip("dask.array")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    Y = X[:, :1] + rng.exponential(size=(4000, 2)) - 1.0
    lazy = da.from_array(X, chunks=(900, 3)), da.from_array(Y, chunks=(900, 2))
    model, same = CTFARegressor().fit(*lazy), CTFARegressor().fit(X, Y)
    with pytest.warns(UserWarning, match="calibrate"):
        model.predict_interval(X)
    intervals = model.calibrate(*lazy).predict_interval(X)
    np.testing.assert_allclose(intervals, same.predict_interval(X), rtol=1e-6)


def test_many_rows_of_which_few_stand_in_keep_the_form_of_their_errors():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    Y = X[:, :1] + rng.exponential(size=(6000, 2)) - 1.0
    model = CTFARegressor().fit(X[:4000], Y[:4000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower, upper = model.predict_interval(X[4000:])
    predicted = model.predict(X[4000:])
    assert ((upper - predicted) > 1.5 * (predicted - lower)).all()  # skewed
    assert abs((Y[4000:] < lower).mean() - 0.05) < 0.015
    assert abs((Y[4000:] > upper).mean() - 0.05) < 0.015


# -- Labelled data, files, and what is measured


@cache
def labelled_fit():
    pytest.importorskip("xarray")
    basins = make_basins(n_basins=8, n_samples=72, n_features=2, n_regions=2, random_state=0)
    data = basins.to_xarray()
    data.flow.attrs["units"] = "m3 s-1"
    return labelled.fit(data, target="flow", sample="time", task="basin", held_out=3), data


@pytest.mark.more
def test_labelled_intervals_have_a_dimension_of_bounds_and_the_units_of_the_target():
    fit, data = labelled_fit()
    both = fit.predict_interval(data, coverage=0.8)
    assert both.dims == ("time", "basin", "bound")
    assert both["bound"].values.tolist() == ["lower", "upper"]
    assert both.name == "flow_interval"
    assert both.attrs["units"] == "m3 s-1"
    lower, upper = (both.sel(bound=end) for end in ("lower", "upper"))
    assert 0.75 <= float(((lower <= data.flow) & (data.flow <= upper)).mean()) <= 0.92
    # A window has the intervals that the whole has, and chunks are asked when somebody wants them.
    some = fit.predict_interval(data.isel(time=slice(5, 30)), coverage=0.8)
    np.testing.assert_allclose(some, both.isel(time=slice(5, 30)))
    with pytest.raises(ValueError, match="coverage=90"):
        fit.predict_interval(data, 90)


def test_labelled_intervals_are_lazy_where_data_are():
    pytest.importorskip("dask")
    fit, data = labelled_fit()
    lazy = fit.predict_interval(data.chunk(time=30))
    assert lazy.chunks is not None
    np.testing.assert_allclose(lazy, fit.predict_interval(data))


@pytest.mark.more
def test_coverage_is_measured_on_held_out_rows_by_task_and_by_season():
    fit, data = labelled_fit()
    assert fit.skill("season").coverage_90.dims == ("season",)
    assert fit.errors.coverage_90.dims == ("basin",)
    whole = float(fit.skill([]).coverage_90)
    assert 0.8 <= whole <= 0.97
    np.testing.assert_allclose(fit.errors.coverage_90.mean(), whole)
    assert "90 % intervals hold" in fit.summary()
    # The same by hand: models that have not seen a block are asked for intervals there.
    arrays = np.stack([data[name].values for name in ("temperature", "snow")], axis=2)
    X, layout = multi_input_layout(arrays)
    inside = []
    for train, test in KFold(3).split(X):
        model = MultiInputCTFARegressor(layout).fit(X[train], data.flow.values[train])
        inside.append(held(model.predict_interval(X[test]), data.flow.values[test]))
    np.testing.assert_allclose(fit.errors.coverage_90, np.concatenate(inside).mean(axis=0))


def test_the_command_writes_intervals_beside_predictions(tmp_path):
    xarray = pytest.importorskip("xarray")
    pandas = pytest.importorskip("pandas")
    fit, data = labelled_fit()
    fit.save(tmp_path / "model.ctfa")
    labelled.write(data, tmp_path / "data.nc")
    run = ["predict", str(tmp_path / "model.ctfa"), str(tmp_path / "data.nc"), "-q", "-o"]
    main([*run, str(tmp_path / "said.nc"), "--interval", "80%"])
    main([*run, str(tmp_path / "said.csv"), "--interval", "0.8"])
    expected = fit.predict_interval(data, 0.8)
    with xarray.open_dataset(tmp_path / "said.nc") as said:
        np.testing.assert_allclose(said.flow, fit.predict(data))
        np.testing.assert_allclose(said.flow_interval, expected)
        assert said.flow.attrs["ancillary_variables"] == "flow_interval"
    table = pandas.read_csv(tmp_path / "said.csv")
    np.testing.assert_allclose(table["flow_lower"], expected.sel(bound="lower").values.ravel())
    np.testing.assert_allclose(table["flow_upper"], expected.sel(bound="upper").values.ravel())
    with pytest.raises(SystemExit):
        main([*run, str(tmp_path / "none.nc"), "--interval", "90"])


def test_tables_have_a_column_for_each_end():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    _, data = labelled_fit()
    frame = data.to_dataframe().reset_index()[["time", "basin", "flow", "temperature"]]
    fit = labelled.fit(frame, target="flow", sample="time", task="basin", held_out=None)
    both = fit.predict_interval(frame)
    assert isinstance(both, pandas.DataFrame)
    assert list(both.columns) == ["flow_lower", "flow_upper"]
    assert (both.flow_lower < both.flow_upper).all()
