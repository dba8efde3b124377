"""Names and kinds of containers: what goes in as a frame comes out as one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator, target_path

rng = np.random.default_rng(3)
COMMON = rng.normal(size=(60, 2))
# temp_jan and temp_feb are nearly one feature, and so are the two rains.
X = np.repeat(COMMON, 2, axis=1) + 0.3 * rng.normal(size=(60, 4))
SLOPES = np.repeat([[1.0, 1.0, -1.0], [1.0, 1.0, 1.0]], 2, axis=0)
Y = X @ SLOPES + 0.3 * rng.normal(size=(60, 3))
FEATURES = ["temp_jan", "temp_feb", "rain_jan", "rain_feb"]
TARGETS = ["north", "south", "west"]
DAYS = pd.date_range("2001-01-01", periods=60)


def frames(library, index=DAYS):
    if library == "pandas":
        return (
            pd.DataFrame(X, columns=FEATURES, index=index),
            pd.DataFrame(Y, columns=TARGETS, index=index),
        )
    return pl.DataFrame(X, schema=FEATURES), pl.DataFrame(Y, schema=TARGETS)


@pytest.fixture(params=["pandas", "polars"])
def library(request):
    return request.param


def kind(library):
    return {"pandas": pd, "polars": pl}[library]


# -- FeatureAggregator -----------------------------------------------------------------------------


def test_means_of_features_are_named_after_their_members(library):
    X_frame, _ = frames(library)
    aggregator = FeatureAggregator().fit(X_frame, Y[:, 0])
    assert list(aggregator.feature_names_in_) == FEATURES
    names = ["mean(temp_jan, temp_feb)", "mean(rain_jan, rain_feb)"]
    assert list(aggregator.get_feature_names_out()) == names
    assert list(aggregator.get_feature_names_out(FEATURES)) == names


def test_features_without_names_are_called_x0_x1():
    aggregator = FeatureAggregator().fit(X, Y[:, 0])
    assert list(aggregator.get_feature_names_out()) == ["mean(x0, x1)", "mean(x2, x3)"]
    assert list(aggregator.get_feature_names_out(list("abcd"))) == ["mean(a, b)", "mean(c, d)"]


def test_other_feature_names_than_those_of_fit_are_refused():
    X_frame, _ = frames("pandas")
    aggregator = FeatureAggregator().fit(X_frame, Y[:, 0])
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        aggregator.get_feature_names_out(list("abcd"))
    with pytest.raises(ValueError, match="should have length equal to number of features"):
        FeatureAggregator().fit(X, Y[:, 0]).get_feature_names_out(["a"])


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_set_output_gives_frames(library, output):
    X_frame, _ = frames(library)
    aggregator = FeatureAggregator().set_output(transform=output)
    out = aggregator.fit_transform(X_frame, Y[:, 0])
    assert isinstance(out, kind(output).DataFrame)
    assert list(out.columns) == ["mean(temp_jan, temp_feb)", "mean(rain_jan, rain_feb)"]
    np.testing.assert_allclose(out.to_numpy()[:, 0], X[:, :2].mean(axis=1))
    if library == output == "pandas":
        assert out.index.equals(DAYS)


def test_names_go_through_a_pipeline(library):
    X_frame, _ = frames(library)
    pipeline = make_pipeline(StandardScaler(), FeatureAggregator()).set_output(transform=library)
    out = pipeline.fit(X_frame, Y[:, 0]).transform(X_frame)
    assert list(out.columns) == ["mean(temp_jan, temp_feb)", "mean(rain_jan, rain_feb)"]
    assert list(pipeline.get_feature_names_out()) == list(out.columns)


# -- TargetAggregator ------------------------------------------------------------------------------


def test_mean_targets_come_as_frames_of_the_kind_given(library):
    X_frame, Y_frame = frames(library)
    aggregator = TargetAggregator().fit(X_frame, Y_frame)
    assert list(aggregator.target_names_in_) == TARGETS
    assert list(aggregator.feature_names_in_) == FEATURES
    assert aggregator.get_group_names_out() == ["mean(north, south)", "west"]
    means = aggregator.transform(Y_frame)
    assert isinstance(means, kind(library).DataFrame)
    assert list(means.columns) == aggregator.get_group_names_out()
    restored = aggregator.inverse_transform(means)
    assert isinstance(restored, kind(library).DataFrame)
    assert list(restored.columns) == TARGETS
    np.testing.assert_allclose(restored["west"], Y[:, 2])
    if library == "pandas":
        assert means.index.equals(DAYS)
        assert restored.index.equals(DAYS)


def test_targets_in_another_order_are_refused(library):
    X_frame, Y_frame = frames(library)
    model = CTFARegressor().fit(X_frame, Y_frame)
    other = Y_frame[["south", "north", "west"]]
    for use in (
        model.targets_.transform,
        lambda Y: model.reduce(X_frame, Y),
        lambda Y: model.score_per_target(X_frame, Y),
    ):
        with pytest.raises(ValueError, match=r"target names should match.*'south' and was 'north'"):
            use(other)


def test_names_of_an_earlier_fit_are_forgotten():
    X_frame, Y_frame = frames("pandas")
    aggregator = TargetAggregator().fit(X_frame, Y_frame).fit(X, Y)
    assert not hasattr(aggregator, "target_names_in_")
    assert not hasattr(aggregator, "feature_names_in_")
    assert aggregator.get_group_names_out() == ["mean(y0, y1)", "y2"]


# -- CTFARegressor ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"targets": "passthrough", "features": "passthrough"}])
def test_predictions_come_as_the_targets_came(library, options):
    X_frame, Y_frame = frames(library)
    model = CTFARegressor(**options).fit(X_frame, Y_frame)
    predicted = model.predict(X_frame[:7])
    assert isinstance(predicted, kind(library).DataFrame)
    assert list(predicted.columns) == TARGETS
    assert list(model.target_names_in_) == TARGETS
    expected = CTFARegressor(**options).fit(X, Y).predict(X[:7])
    assert isinstance(expected, np.ndarray)
    np.testing.assert_allclose(predicted.to_numpy(), expected, rtol=1e-10)
    if library == "pandas":
        assert predicted.index.equals(DAYS[:7])
    np.testing.assert_allclose(
        model.score(X_frame, Y_frame), CTFARegressor(**options).fit(X, Y).score(X, Y)
    )
    np.testing.assert_allclose(
        np.mean(model.score_per_target(X_frame, Y_frame)), model.score(X_frame, Y_frame)
    )


def test_a_square_prediction_is_not_turned_over():
    X_frame, Y_frame = frames("polars")
    model = CTFARegressor().fit(X_frame, Y_frame)
    expected = CTFARegressor().fit(X, Y).predict(X[:3])
    np.testing.assert_allclose(model.predict(X_frame[:3]).to_numpy(), expected, rtol=1e-10)


def test_frames_of_two_kinds_may_be_mixed():
    X_pandas, Y_pandas = frames("pandas")
    X_polars, Y_polars = frames("polars")
    predicted = CTFARegressor().fit(X_polars, Y_pandas).predict(X_polars)
    assert isinstance(predicted, pd.DataFrame)
    assert predicted.index.equals(pd.RangeIndex(60))
    predicted = CTFARegressor().fit(X_pandas, Y_polars).predict(X_pandas)
    assert isinstance(predicted, pl.DataFrame)
    assert predicted.columns == TARGETS


def test_frames_of_features_and_arrays_of_targets_give_arrays(library):
    X_frame, _ = frames(library)
    assert isinstance(CTFARegressor().fit(X_frame, Y).predict(X_frame), np.ndarray)


def test_a_series_of_targets_gives_a_series(library):
    X_frame, Y_frame = frames(library)
    model = CTFARegressor().fit(X_frame, Y_frame["west"])
    predicted = model.predict(X_frame[:9])
    assert isinstance(predicted, kind(library).Series)
    assert predicted.name == "west"
    assert list(model.target_names_in_) == ["west"]
    expected = CTFARegressor().fit(X, Y[:, 2]).predict(X[:9])
    assert expected.shape == (9,)
    np.testing.assert_allclose(predicted.to_numpy(), expected, rtol=1e-10)
    if library == "pandas":
        assert predicted.index.equals(DAYS[:9])


def test_a_series_serves_as_the_target_of_features(library):
    X_frame, Y_frame = frames(library)
    labels = FeatureAggregator().fit(X_frame, Y_frame["west"]).labels_
    np.testing.assert_array_equal(labels, FeatureAggregator().fit(X, Y[:, 2]).labels_)


def test_reduced_tasks_are_named(library):
    X_frame, Y_frame = frames(library)
    model = CTFARegressor(features=FeatureAggregator()).fit(X_frame, Y_frame)
    tasks = model.reduce(X_frame, Y_frame)
    assert [task.target.name for task in tasks] == ["mean(north, south)", "west"]
    assert list(tasks[0].features.columns) == [
        "mean(temp_jan, temp_feb)",
        "mean(rain_jan, rain_feb)",
    ]
    # Raw units: nothing is centred or scaled.
    np.testing.assert_allclose(tasks[0].target.to_numpy(), Y[:, :2].mean(axis=1))
    np.testing.assert_allclose(tasks[0].features.to_numpy()[:, 1], X[:, 2:].mean(axis=1))


def test_reduced_arrays_are_arrays():
    task = CTFARegressor(features=FeatureAggregator()).fit(X, Y).reduce(X, Y)[0]
    assert type(task.target) is np.ndarray
    assert task.features.shape == (60, 2)


@pytest.mark.parametrize("model", [CTFARegressor(), FeatureAggregator()])
def test_features_in_another_order_or_missing_are_refused(model, library):
    X_frame, Y_frame = frames(library)
    model.fit(X_frame, Y_frame if isinstance(model, CTFARegressor) else Y[:, 0])
    use = model.predict if isinstance(model, CTFARegressor) else model.transform
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        use(X_frame[FEATURES[::-1]])
    with pytest.raises(ValueError, match="missing"):
        use(X_frame[FEATURES[:3]])


def test_column_names_that_are_not_strings_are_kept():
    Y_frame = pd.DataFrame(Y, columns=[2001, 2002, 2003])
    model = CTFARegressor().fit(pd.DataFrame(X), Y_frame)
    assert list(model.predict(pd.DataFrame(X)).columns) == [2001, 2002, 2003]
    assert model.targets_.get_group_names_out() == ["mean(2001, 2002)", "2003"]
    assert not hasattr(model, "feature_names_in_")  # as everywhere in scikit-learn


def test_a_series_may_be_called_zero():
    predicted = CTFARegressor().fit(X, pd.Series(Y[:, 0], name=0)).predict(X)
    assert predicted.name == 0


def test_columns_with_two_levels_are_kept():
    columns = pd.MultiIndex.from_product([["vhi"], TARGETS], names=["variable", "basin"])
    model = CTFARegressor().fit(X, pd.DataFrame(Y, columns=columns))
    assert model.predict(X).columns.equals(columns)
    assert list(model.target_names_in_) == list(columns)


def test_fitted_parts_know_the_names():
    X_frame, Y_frame = frames("pandas")
    for model in (CTFARegressor(), CTFARegressor(targets="passthrough", features="passthrough")):
        model.fit(X_frame, Y_frame)
        assert list(model.targets_.feature_names_in_) == FEATURES
        for features in model.features_:
            assert list(features.feature_names_in_) == FEATURES
        out = model.features_[0].set_output(transform="pandas").transform(X_frame)
        assert set(out.columns) <= {
            *FEATURES,
            "mean(temp_jan, temp_feb)",
            "mean(rain_jan, rain_feb)",
        }


def test_lists_are_arrays():
    model = CTFARegressor(Ridge()).fit(X.tolist(), Y.tolist())
    np.testing.assert_array_equal(model.predict(X), CTFARegressor(Ridge()).fit(X, Y).predict(X))


def test_single_precision_is_computed_in_double():
    single = CTFARegressor().fit(X.astype(np.float32), Y.astype(np.float32))
    double = CTFARegressor().fit(
        X.astype(np.float32).astype(float), Y.astype(np.float32).astype(float)
    )
    predicted = single.predict(X)
    assert predicted.dtype == np.float64
    np.testing.assert_array_equal(predicted, double.predict(X))


def test_paths_take_frames(library):
    X_frame, Y_frame = frames(library)
    points = target_path(X_frame, Y_frame, [-1.0, 1.5])
    assert [point.n_groups for point in points] == [3, 2]
