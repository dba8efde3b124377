"""Models in files: what is loaded is what was saved."""

import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import linear_model as linear
from sklearn import preprocessing as pre
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, TimeSeriesSplit
from sklearn.neighbors import KNeighborsRegressor, RadiusNeighborsRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.svm import LinearSVR

import ctfa
from ctfa import (
    BlockedKFold,
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    nonlinctfa,
)
from ctfa.core.criteria import feature_risk, target_risk
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.persistence import PersistenceError, classes, load, save
from ctfa.persistence._file import to_bytes
from problems import RIDGE, features_in_fours

X, Y = make_paper_synthetic(n_samples=120, n_features=8, n_targets=6, random_state=0)
BASINS = make_basins(n_basins=12, n_samples=90, n_features=3, n_regions=3, random_state=0)
GAPPY = make_basins(
    n_basins=10, n_samples=120, n_features=3, n_regions=2, gaps=0.05, missing_slots=0.1,
    random_state=1,
)  # fmt: skip
TASKS = np.repeat(["a", "b", "c"], 40)
RING = sparse.csr_array(np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0))

SHARED = {
    "default": CTFARegressor(),
    "unmerged": CTFARegressor(targets="passthrough", features="passthrough"),
    "means alone": CTFARegressor(head="mean"),
    "least squares": CTFARegressor(linear.LinearRegression()),
    "flipped": CTFARegressor(targets=TargetAggregator(flip=True)),
    "blocked": CTFARegressor(targets=TargetAggregator(cv=BlockedKFold(4, gap=2))),
    "guarded": CTFARegressor(targets=TargetAggregator(guard="member", max_loss=1.0)),
    "ridge": CTFARegressor(
        linear.Ridge(), targets=TargetAggregator(regressor=RIDGE, connectivity=RING)
    ),
    "criteria as functions": CTFARegressor(
        targets=TargetAggregator(target_risk, max_loss=1.0),
        features=FeatureAggregator(feature_risk, max_loss=1.0),
    ),
    "splitters": CTFARegressor(
        targets=TargetAggregator(cv=KFold(4)),
        features=FeatureAggregator("r2", max_loss=1e-3, cv=TimeSeriesSplit(3)),
    ),
    "the paper's": nonlinctfa(epsilon_2=1e-3, order="random", random_state=3),
    "as printed": nonlinctfa(algorithm="printed"),
    "chosen": CTFARegressorCV(cv=3, features="passthrough"),
}
OWN = {
    "means": MultiInputCTFARegressor(BASINS.layout),
    "shared coefficients": MultiInputCTFARegressor(BASINS.layout, aggregate="pool"),
    "chosen": MultiInputCTFARegressor(BASINS.layout, aggregate="auto"),
    "shrunk": MultiInputCTFARegressor(BASINS.layout, head="levels"),
    "both phases": MultiInputCTFARegressor(BASINS.layout, features=FeatureAggregator()),
    "unmerged": MultiInputCTFARegressor(BASINS.layout, targets="passthrough"),
    "ridge": MultiInputCTFARegressor(
        BASINS.layout, linear.Ridge(), targets=TargetAggregator(regressor=RIDGE)
    ),
    "the paper's": nonlinctfa(layout=BASINS.layout),
}


def again(model, tmp_path):
    """What comes back from a file."""
    save(model, tmp_path / "model.ctfa")
    return load(tmp_path / "model.ctfa")


def assert_same(one, two, inputs):
    """Two regressors that predict and say the same."""
    np.testing.assert_array_equal(np.asarray(one.predict(inputs)), np.asarray(two.predict(inputs)))
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert one.partition_ == two.partition_
    assert one.max_loss_ == two.max_loss_
    pd.testing.assert_frame_equal(one.merges_, two.merges_)
    assert [str(one.why(t)) for t in range(3)] == [str(two.why(t)) for t in range(3)]
    assert repr(one.cv_curve_) == repr(two.cv_curve_)
    np.testing.assert_array_equal(one.history_.linkage(), two.history_.linkage())
    assert repr(one.get_params()) == repr(two.get_params())


@pytest.mark.parametrize("name", SHARED)
def test_a_model_of_shared_inputs_comes_back(name, tmp_path):
    model = clone(SHARED[name]).fit(X, Y)
    loaded = again(model, tmp_path)
    assert_same(model, loaded, X)
    np.testing.assert_array_equal(model.trust_, loaded.trust_)
    fresh = clone(loaded).fit(X, Y)
    np.testing.assert_array_equal(fresh.predict(X), model.predict(X))
    loaded.set_params(head="mean").fit(X, Y)  # and is not stuck with what it was


def test_what_features_and_members_add_to_groups_comes_back(tmp_path):
    inputs, targets = features_in_fours()
    model = CTFARegressor().fit(inputs, targets)
    assert model._deviations.group.any()
    assert model._deviations.own.any()
    loaded = again(model, tmp_path)
    assert_same(model, loaded, inputs)
    for name in ("coef_", "intercept_", "group_coef_", "trust_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert to_bytes(loaded) == to_bytes(model)
    assert [loaded.why(t).served_gain for t in range(6)] == [
        model.why(t).served_gain for t in range(6)
    ]


@pytest.mark.parametrize("name", OWN)
def test_a_model_of_own_inputs_comes_back(name, tmp_path):
    model = clone(OWN[name]).fit(BASINS.data, BASINS.target)
    loaded = again(model, tmp_path)
    assert_same(model, loaded, BASINS.data)
    np.testing.assert_array_equal(model.coef_, loaded.coef_)
    assert model.aggregate_errors_ == loaded.aggregate_errors_
    fresh = clone(loaded).fit(BASINS.data, BASINS.target)
    np.testing.assert_array_equal(fresh.predict(BASINS.data), model.predict(BASINS.data))


@pytest.mark.parametrize("aggregate", ["mean", "pool"])
@pytest.mark.filterwarnings("ignore:.*NaN")
def test_a_model_of_series_with_gaps_comes_back(aggregate, tmp_path):
    model = MultiInputCTFARegressor(GAPPY.layout, aggregate=aggregate, head="levels")
    model.fit(GAPPY.data, GAPPY.target)
    assert_same(model, again(model, tmp_path), GAPPY.data)


def test_a_file_of_own_inputs_has_the_evidence_and_not_the_data(tmp_path):
    basins = make_basins(n_basins=6, n_samples=8000, n_features=3, n_regions=2, random_state=0)
    model = MultiInputCTFARegressor(basins.layout).fit(basins.data, basins.target)
    save(model, tmp_path / "model.ctfa")
    assert (tmp_path / "model.ctfa").stat().st_size < basins.data.nbytes / 20
    loaded = load(tmp_path / "model.ctfa")
    assert not hasattr(loaded, "_kept")
    pd.testing.assert_frame_equal(loaded.merges_, model.merges_)


@pytest.mark.parametrize("head", ["mean", "levels"])
@pytest.mark.parametrize("unseen", ["error", "global", "nearest"])
def test_a_model_of_own_rows_comes_back(head, unseen, tmp_path):
    model = PooledCTFARegressor(head=head, unseen=unseen).fit(X, Y[:, 0], tasks=TASKS)
    loaded = again(model, tmp_path)
    ids = TASKS if unseen == "error" else np.where(TASKS == "b", "stranger", TASKS)
    np.testing.assert_array_equal(loaded.predict(X, ids), model.predict(X, ids))
    pd.testing.assert_frame_equal(loaded.merges_, model.merges_)
    assert str(loaded.why("b")) == str(model.why("b"))
    assert loaded.tasks_.tolist() == ["a", "b", "c"]


def test_a_model_with_confounds_comes_back(tmp_path):
    trend = np.linspace(0.0, 1.0, 120)[:, None]
    for model in (CTFARegressor(), MultiInputCTFARegressor(np.arange(6)[:, None])):
        model.fit(X, Y, confounds=trend)
        loaded = again(model, tmp_path)
        expected = model.predict(X, confounds=trend)
        np.testing.assert_array_equal(loaded.predict(X, confounds=trend), expected)
        pd.testing.assert_frame_equal(loaded.merges_, model.merges_)


@pytest.mark.more
def test_ids_of_tasks_may_be_numbers_or_tuples(tmp_path):
    for ids in ([1, 2, 3], [("a", 1), ("a", 2), ("b", 1)]):
        tasks = np.empty(120, dtype=object)
        tasks[:] = [ids[row // 40] for row in range(120)]
        model = PooledCTFARegressor().fit(X, Y[:, 0], tasks=tasks)
        loaded = again(model, tmp_path)
        np.testing.assert_array_equal(loaded.predict(X, tasks), model.predict(X, tasks))


@pytest.mark.parametrize("library", [pd, pl])
def test_names_of_data_frames_are_kept(library, tmp_path):
    inputs = library.DataFrame({f"x{k}": column for k, column in enumerate(X.T)})
    targets = library.DataFrame({f"basin {k}": column for k, column in enumerate(Y.T)})
    model = CTFARegressor().fit(inputs, targets)
    loaded = again(model, tmp_path)
    predicted = loaded.predict(inputs)
    assert type(predicted) is library.DataFrame
    assert predicted.equals(model.predict(inputs))
    assert list(loaded.feature_names_in_) == list(model.feature_names_in_)
    assert str(loaded.why("basin 2")) == str(model.why("basin 2"))


@pytest.mark.more
@pytest.mark.parametrize(
    "columns",
    [
        pd.Index([1950, 1951, 1952, 1953, 1954, 1955], name="year"),
        pd.RangeIndex(6),
        pd.MultiIndex.from_product([["rain", "snow"], [1, 2, 3]], names=["kind", None]),
        pd.date_range("2001-01-01", periods=6, freq="MS"),
        pd.Index(list("abcdef"), dtype="string"),
        pd.Index(list("abcdef"), dtype=object),
    ],
    ids=["years", "range", "tuples", "dates", "string", "object"],
)
def test_labels_of_columns_are_kept_of_any_kind(columns, tmp_path):
    targets = pd.DataFrame(Y, columns=columns)
    model = CTFARegressor().fit(X, targets)
    loaded = again(model, tmp_path)
    pd.testing.assert_frame_equal(
        loaded.predict(X), model.predict(X), check_column_type=True, check_freq=False
    )


def test_one_target_is_a_vector_again(tmp_path):
    model = CTFARegressor().fit(X, Y[:, 0])
    assert again(model, tmp_path).predict(X).shape == (120,)


def test_stability_is_kept_once_asked_for(tmp_path):
    model = CTFARegressor().fit(X, Y)
    model.stability(X, Y, cv=KFold(5))
    loaded = again(model, tmp_path)
    np.testing.assert_array_equal(loaded.stability_, model.stability_)
    pd.testing.assert_frame_equal(loaded.merges_, model.merges_)


def test_aggregators_come_back_by_themselves(tmp_path):
    targets = again(TargetAggregator().fit(X, Y), tmp_path)
    features = again(FeatureAggregator().fit(X, Y[:, 0]), tmp_path)
    assert targets.transform(Y).shape == (120, targets.n_groups_)
    np.testing.assert_array_equal(features.transform(X), features.partition_.mean(X))


def test_a_model_that_is_not_fitted_comes_back(tmp_path):
    loaded = again(SHARED["splitters"], tmp_path)
    assert repr(loaded) == repr(SHARED["splitters"])


@pytest.mark.more
def test_every_attribute_that_a_fit_sets_has_a_field_in_files():
    model = CTFARegressor().fit(X, Y)
    model.stability(X, Y, cv=KFold(5))
    frames = pd.DataFrame(X).rename(columns=str), pd.DataFrame(Y).rename(columns=str)
    pooled = PooledCTFARegressor(unseen="nearest", targets=TargetAggregator(max_loss=1.0))
    models = [
        model,
        CTFARegressor().partial_fit(*frames),
        CTFARegressor(linear.LinearRegression()).fit(X, Y),
        CTFARegressor().fit(X, Y, confounds=TASKS[:, None] == "a", target_weight=range(1, 7)),
        SHARED["chosen"].fit(X, Y),
        OWN["shrunk"].fit(BASINS.data, BASINS.target),
        pooled.partial_fit(X, Y[:, 0], tasks=TASKS),
        PooledCTFARegressor(unseen="global").fit(X, Y[:, 0], tasks=TASKS),
        TargetAggregator().fit(*frames),
        FeatureAggregator().set_output(transform="pandas").fit(X, Y[:, 0]),
    ]
    worked_out_again = {"_evidence", "_kept"}
    for one in [*models, *(part for m in models[:8] for part in (m.targets_, *m.features_))]:
        known = {*one.get_params(deep=False), *type(one)._saved.values(), *worked_out_again}
        assert set(vars(one)) <= known


def test_an_attribute_that_a_user_added_is_kept(tmp_path):
    model = CTFARegressor().fit(X, Y)
    model.note = {"run": 7}
    assert again(model, tmp_path).note == {"run": 7}


def test_an_added_attribute_that_cannot_be_kept_is_named(tmp_path):
    model = CTFARegressor().fit(X, Y)
    model.note = lambda: 0
    with pytest.raises(PersistenceError, match="note"):
        again(model, tmp_path)


def test_what_a_transformer_hands_out_is_kept(tmp_path):
    features = FeatureAggregator().set_output(transform="pandas").fit(X, Y[:, 0])
    assert type(again(features, tmp_path).transform(X)) is pd.DataFrame


def test_what_is_one_object_stays_one(tmp_path):
    loaded = again(CTFARegressor().fit(X, Y), tmp_path)
    assert loaded._evidence.history is loaded.targets_.history_
    assert loaded._evidence.partition is loaded.targets_.partition_
    assert loaded.targets_.labels_ is loaded.targets_.partition_.labels
    assert not loaded.targets_.labels_.flags.writeable
    own = again(OWN["shrunk"].fit(BASINS.data, BASINS.target), tmp_path)
    assert own._singles is own._steps
    assert own.regressors_ is own._models.regressors


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for model, data in ((CTFARegressor(), (X, Y)), (OWN["shrunk"], (BASINS.data, BASINS.target))):
        model.fit(*data)
        first = to_bytes(model)
        _ = model.merges_, model.partition_.groups  # filled on request
        assert to_bytes(model) == first
        assert to_bytes(again(model, tmp_path)) == first


def test_a_loaded_model_says_what_it_was_saved_with(tmp_path):
    loaded = again(CTFARegressor(), tmp_path)
    assert loaded._saved_with["ctfa"] == ctfa.__version__
    assert loaded._saved_with["numpy"] == np.__version__


REGRESSORS = [
    linear.ARDRegression(),
    linear.BayesianRidge(compute_score=True),
    linear.ElasticNet(0.1),
    linear.ElasticNetCV(cv=3),
    linear.HuberRegressor(max_iter=1000),
    linear.Lars(),
    linear.LarsCV(cv=3),
    linear.Lasso(0.1),
    linear.LassoCV(cv=KFold(3)),
    linear.LassoLars(0.1),
    linear.LassoLarsCV(cv=3),
    linear.LassoLarsIC(),
    linear.LinearRegression(positive=True),
    linear.OrthogonalMatchingPursuit(n_nonzero_coefs=3),
    linear.OrthogonalMatchingPursuitCV(cv=3),
    linear.QuantileRegressor(alpha=0.01),
    linear.RANSACRegressor(random_state=0),
    linear.Ridge(2.0),
    linear.RidgeCV(),
    linear.TheilSenRegressor(random_state=0, max_subpopulation=200),
    DummyRegressor(strategy="median"),
    KernelRidge(kernel="rbf"),
    KNeighborsRegressor(algorithm="brute"),
    RadiusNeighborsRegressor(radius=50.0, algorithm="brute"),
    LinearSVR(random_state=0, max_iter=100_000),
    PLSRegression(2),
    make_pipeline(pre.StandardScaler(), linear.Ridge()),
    make_pipeline(pre.MinMaxScaler(), pre.PolynomialFeatures(2), linear.Ridge()),
    make_pipeline(pre.RobustScaler(), pre.SplineTransformer(4), linear.Ridge()),
    make_pipeline(pre.MaxAbsScaler(), pre.PowerTransformer(), linear.Ridge()),
    make_pipeline(pre.QuantileTransformer(n_quantiles=20), pre.Normalizer(), linear.Ridge()),
    make_pipeline(VarianceThreshold(), SimpleImputer(), PCA(2), linear.LinearRegression()),
    make_pipeline(TruncatedSVD(2, random_state=0), linear.LinearRegression()),
    make_pipeline(Nystroem(n_components=5, random_state=0), linear.Ridge()),
    make_pipeline(RBFSampler(n_components=5, random_state=0), linear.Ridge()),
    make_pipeline(
        FeatureUnion([("a", pre.StandardScaler()), ("b", pre.FunctionTransformer(np.square))]),
        linear.Ridge(),
    ),
    make_pipeline(
        ColumnTransformer([("a", pre.StandardScaler(), [0])], remainder="passthrough"),
        linear.Ridge(),
    ),
    make_pipeline(
        pre.FunctionTransformer(np.sign),
        pre.OneHotEncoder(handle_unknown="ignore"),
        linear.Ridge(),
    ),
    TransformedTargetRegressor(linear.Ridge(), func=np.arcsinh, inverse_func=np.sinh),
    TransformedTargetRegressor(linear.Ridge(), transformer=pre.StandardScaler()),
]


@pytest.mark.more
@pytest.mark.parametrize("regressor", REGRESSORS, ids=lambda r: repr(r)[:60])
def test_a_regressor_of_scikit_learn_comes_back(regressor, tmp_path):
    inputs = X[:60, :4]
    targets = TargetAggregator(max_loss=2.0)
    model = CTFARegressor(regressor, targets=targets, features="passthrough").fit(inputs, Y[:60])
    loaded = again(model, tmp_path)
    # Other rows: a kernel knows its own array when it meets it, and skips the diagonal.
    np.testing.assert_array_equal(loaded.predict(X[60:, :4]), model.predict(X[60:, :4]))
    assert to_bytes(loaded) == to_bytes(model)
    np.testing.assert_array_equal(clone(loaded).fit(inputs, Y[:60]).labels_, model.labels_)


@pytest.mark.parametrize(
    "cv",
    [
        3,
        KFold(3),
        BlockedKFold(3, gap=1),
        GroupKFold(3),
        TimeSeriesSplit(3),
        PredefinedSplit([0, 1] * 60),
    ],
)
def test_splitters_come_back(cv, tmp_path):
    loaded = again(CTFARegressor(targets=TargetAggregator(cv=cv)), tmp_path)
    assert repr(loaded.targets.cv) == repr(cv)


class Mine(linear.Ridge):
    """A user's own class."""


@pytest.mark.parametrize(
    ("model", "where", "what"),
    [
        (CTFARegressor(RandomForestRegressor(2)), "regressor", "RandomForestRegressor"),
        (CTFARegressor(Mine()), "regressor", "Mine"),
        (
            CTFARegressor(targets=TargetAggregator(lambda evidence: 0.0, max_loss=1.0)),
            "targets.criterion",
            "the function <lambda>",
        ),
        (
            CTFARegressor(KNeighborsRegressor(algorithm="kd_tree")).fit(X[:, :2], Y),
            r"regressors_\[0\]._tree",
            "KDTree",
        ),
        (
            CTFARegressor(make_pipeline(pre.StandardScaler(), RandomForestRegressor())),
            r"regressor.steps\[1\]\[1\]",
            "RandomForestRegressor",
        ),
        (CTFARegressor(n_jobs=np.array([1.0], dtype=np.longdouble)), "n_jobs", "longdouble|float"),
        (CTFARegressor(n_jobs=np.zeros(2, dtype=[("a", int)])), "n_jobs", "ndarray"),
        (CTFARegressor(make_pipeline(Mine(), memory="here")), "regressor.memory", "cached"),
        (CTFARegressor(n_jobs={object(): 1}), "a key of n_jobs", "object"),
        (CTFARegressor(n_jobs=open), "n_jobs", "the function open"),
        (CTFARegressor(n_jobs=os), "n_jobs", "module"),
        (CTFARegressor(n_jobs=io.StringIO), "n_jobs", "the class"),
    ],
)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(model, where, what, tmp_path):
    path = tmp_path / "model.ctfa"
    path.write_bytes(b"what was there before")
    with pytest.raises(PersistenceError, match=rf"cannot be saved: {where} is .*({what})") as error:
        save(model, path)
    assert "joblib or skops" in str(error.value)
    assert path.read_bytes() == b"what was there before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.ctfa"]


def test_a_model_that_holds_itself_or_is_too_deep_is_refused(tmp_path):
    model = CTFARegressor()
    model.regressor = [model]
    with pytest.raises(PersistenceError, match=r"regressor\[0\] .* holds itself"):
        save(model, tmp_path / "model.ctfa")
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(PersistenceError, match="levels deep"):
        save(CTFARegressor(deep), tmp_path / "model.ctfa")


@pytest.mark.parametrize("thing", [None, [1, 2], linear.Ridge, {"a": 1}, (1, 2)])
def test_only_models_are_saved(thing, tmp_path):
    with pytest.raises(PersistenceError, match="save was given something"):
        save(thing, tmp_path / "model.ctfa")


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.ctfa"
    save(CTFARegressor(), path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(CTFARegressor(n_jobs=2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_or_folder_is_what_python_says(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.ctfa")
    with pytest.raises(FileNotFoundError):
        save(CTFARegressor(), tmp_path / "no folder" / "model.ctfa")


def test_numpy_alone_can_read_the_arrays(tmp_path):
    save(CTFARegressor().fit(X, Y), tmp_path / "model.ctfa")
    with zipfile.ZipFile(tmp_path / "model.ctfa") as file:
        tree = json.loads(file.read("model.json"))
        arrays = np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False)
        assert {array.ndim for array in arrays.values()} == {1}
    assert (tree["format"], tree["schema"], tree["class"]) == ("ctfa", 4, "CTFARegressor")


def test_every_class_of_the_table_is_there():
    from ctfa.persistence._objects import class_named, name_of

    for name in classes():
        assert name_of(class_named(name)) == name
