"""Values in files come back exactly; damaged and hostile files are refused in a sentence."""

import contextlib
import dataclasses
import datetime
import io
import json
import math
import struct
import subprocess
import sys
import types
import warnings
import zipfile
from functools import partial

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor, RadiusNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PowerTransformer,
    SplineTransformer,
    StandardScaler,
)

from ctfa import (
    CTFARegressor,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa._reading.streaming import TaskSums
from ctfa.core.members import Gain
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.labelled import LabelledFit
from ctfa.labelled._form import DataForm
from ctfa.labelled._places import Geometry
from ctfa.labelled._tasks import Coordinate, Coordinates, LabelledTasks
from ctfa.persistence import PersistenceError, load, save
from ctfa.persistence._file import from_stream, to_bytes
from ctfa.report import HeldOut
from generated import examples

X, Y = make_paper_synthetic(n_samples=60, n_features=4, n_targets=3, random_state=0)
MODEL = CTFARegressor().fit(X, Y)
FILE = to_bytes(MODEL)
BASINS = make_basins(n_basins=6, n_samples=60, n_features=2, n_regions=2, random_state=0)
OWN = MultiInputCTFARegressor(BASINS.layout, head="levels").fit(BASINS.data, BASINS.target)
POOLED = PooledCTFARegressor(unseen="nearest").fit(X, Y[:, 0], tasks=np.repeat([1, 2, 3], 20))
FILES = (FILE, to_bytes(OWN), to_bytes(POOLED))


def loaded(data, **options):
    return from_stream(io.BytesIO(data), **options)


def round_trip(value):
    """A value through a file, as a parameter of a model."""
    model = CTFARegressor(value)
    data = to_bytes(model)
    again = loaded(data)
    assert to_bytes(again) == data
    return again.regressor


def same(one, two):
    """Equal, of the same types, NaN equal to NaN and minus zero not to zero."""
    if isinstance(one, (list, tuple)):
        equal = len(one) == len(two) and all(map(same, one, two))
    elif isinstance(one, dict):
        equal = same(list(one), list(two)) and same(list(one.values()), list(two.values()))
    elif isinstance(one, (np.ndarray, np.generic)):
        equal = one.dtype == two.dtype and one.shape == two.shape and same_entries(one, two)
    elif isinstance(one, float):
        equal = one == two or (math.isnan(one) and math.isnan(two))
        equal = equal and (math.isnan(one) or math.copysign(1.0, one) == math.copysign(1.0, two))
    else:
        equal = one == two
    return type(one) is type(two) and equal


def same_entries(one, two):
    if one.dtype == object:
        return all(map(same, one.ravel(), two.ravel()))
    # Text may be longer in memory than in value; of numbers every bit counts.
    return np.array_equal(one, two) if one.dtype.kind in "US" else one.tobytes() == two.tobytes()


dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
)
arrays = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
keys = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary()
)
hashable = st.recursive(keys, lambda inner: st.tuples(inner, inner), max_leaves=4)
scalars = st.one_of(
    keys,
    st.floats(),
    st.text(st.characters()),  # halves of characters too
    st.complex_numbers(allow_nan=False),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.builds(slice, st.none() | st.integers(), st.none() | st.integers()),
    st.builds(range, st.integers(-99, 99), st.integers(-99, 99)),
    st.frozensets(hashable, max_size=4),
    st.sets(hashable, max_size=4),
    hnp.from_dtype(np.dtype("f4")),
    hnp.from_dtype(np.dtype("i8")),
    hnp.from_dtype(np.dtype("M8[D]")),
    hnp.from_dtype(np.dtype("U3")),
    arrays,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(hashable, inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=examples(300))
@given(values)
def test_any_plain_value_comes_back_exactly(value):
    assert same(round_trip(value), value)


@pytest.mark.more
@settings(deadline=None, max_examples=examples(100))
@given(arrays)
def test_arrays_keep_their_order_in_memory_and_whether_they_may_change(array):
    for one in (array, np.asfortranarray(array), array[::-1] if array.ndim else array):
        back = round_trip(one)
        assert same(back, one)
        assert back.flags.f_contiguous or not one.flags.f_contiguous
        assert back.flags.writeable
    frozen = array.copy()
    frozen.flags.writeable = False
    assert not round_trip(frozen).flags.writeable


@settings(deadline=None, max_examples=examples(60))
@given(
    hnp.arrays(float, (3, 4), elements=st.sampled_from([0.0, 0.0, 1.5, -2.0])),
    st.sampled_from(["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]),
    st.booleans(),
)
def test_sparse_matrices_come_back_in_their_format(dense, form, is_array):
    made = (sparse.csr_array if is_array else sparse.csr_matrix)(dense).asformat(form)
    back = round_trip(made)
    assert type(back) is type(made)
    np.testing.assert_array_equal(back.toarray(), dense)


@pytest.mark.parametrize(
    "items", [["a", "b"], [1, 2.5, None], [("a", 1), ("b", 2)], [datetime.date(2001, 1, 2), "x"]]
)
def test_arrays_of_objects_come_back(items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    assert same(round_trip(array), array)


@pytest.mark.parametrize("text", ["", "\ud800", "\ud83d\ude00", "\U0001f600", "\x00\u2028"])
def test_texts_with_halves_of_characters_come_back(text):
    assert same(round_trip([text, np.str_(text)]), [text, np.str_(text)])
    assert round_trip({text: 1}) == {text: 1}


def test_functions_types_and_generators_come_back():
    assert round_trip(np.log1p) is np.log1p
    assert round_trip(np.float32) is np.float32
    assert round_trip(np.dtype("<i4")) == np.dtype("<i4")
    generator = np.random.RandomState(3)
    back = round_trip(generator)
    assert back.normal() == generator.normal()


def test_a_value_met_twice_is_one_value_again():
    shared = [np.arange(3), {"a": 1}]
    one, two, three = round_trip([shared, shared, shared[0]])
    assert one is two
    assert one[0] is three


def test_labels_in_two_levels_may_say_the_same_often():
    labels = pandas.MultiIndex.from_product([["rain", 1], range(50)])
    assert round_trip(labels).equals(labels)


def test_a_file_cut_anywhere_is_refused():
    for length in range(len(FILE)):
        with pytest.raises(PersistenceError):
            loaded(FILE[:length])


def test_a_file_with_any_byte_changed_is_refused_or_means_the_same():
    expected = MODEL.predict(X)
    rng = np.random.default_rng(0)
    survived = 0
    for at in range(len(FILE)):
        data = bytearray(FILE)
        data[at] ^= int(rng.integers(1, 256))
        try:
            model = loaded(bytes(data))
        except PersistenceError:
            continue
        survived += 1
        np.testing.assert_array_equal(model.predict(X), expected)
        assert str(model.why(1)) == str(MODEL.why(1))
    assert survived < len(FILE) / 10  # dates and permissions of members


@settings(deadline=None, max_examples=examples(200))
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_a_sentence(data):
    with pytest.raises(PersistenceError, match="damaged or was not written by ctfa"):
        loaded(data)


def packed(tree, arrays=None, extra=(), of=FILE):
    """A file with a correct zip around whatever is given."""
    with zipfile.ZipFile(io.BytesIO(of)) as file:
        inside = file.read("arrays.npz") if arrays is None else arrays
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        if tree is not None:
            file.writestr(
                "model.json", tree if isinstance(tree, (str, bytes)) else json.dumps(tree)
            )
        file.writestr("arrays.npz", inside)
        for name in extra:
            file.writestr(name, b"x")
    return stream.getvalue()


def tree_of(data=FILE):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return json.loads(file.read("model.json"))


def with_model(node):
    return packed({**tree_of(), "model": node})


@settings(deadline=None, max_examples=examples(300))
@given(st.data())
def test_a_tree_with_anything_put_in_anywhere_is_refused_or_loads(data):
    """A correct zip around a wrong tree: checksums do not help here."""
    original = data.draw(st.sampled_from(FILES))
    tree = tree_of(original)
    node, steps = tree["model"], data.draw(st.integers(1, 12))
    for _ in range(steps):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        inner = [key for key in keys if isinstance(node[key], (dict, list)) and node[key]]
        if not inner or data.draw(st.integers(0, 5)) == 0:
            break
        node = node[data.draw(st.sampled_from(inner))]
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    if keys:
        wrong = st.sampled_from(
            [None, -1, 2**40, "x", [], {}, 0.5, True, [[]], {"list": [1]}, {"same": 0}]
        )
        node[data.draw(st.sampled_from(keys))] = data.draw(wrong)
    with contextlib.suppress(PersistenceError):
        loaded(packed(tree, of=original))


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not a zip file"),
        (b"PK\x05\x06" + bytes(18), "no model.json"),
        (packed(None), "no model.json"),
        (packed("{"), "JSONDecodeError"),
        (packed("[" * 100_000), "Recursion|recursion"),
        (packed('{"format": "ctfa", "schema": NaN}'), "NaN"),
        (packed("[]"), "does not say that it is a model of ctfa"),
        (packed({**tree_of(), "format": "other"}), "does not say that it is a model of ctfa"),
        (packed({k: v for k, v in tree_of().items() if k != "schema"}), "which schema"),
        (packed({**tree_of(), "schema": "1"}), "which schema"),
        (packed({**tree_of(), "versions": None}), "which versions"),
        (packed(tree_of(), extra=["../../etc/passwd"]), r"holds .*\.\./\.\./etc/passwd"),
        (packed(tree_of(), arrays=b"no zip"), "BadZipFile"),
        (with_model({"list": []}), "holds no model"),
        (with_model(3), "holds no model"),
        (with_model({"object": {"class": "os:system", "state": {}}}), "'os:system'"),
        (with_model({"object": {"class": "ctfa.__main__:main", "state": {}}}), "does not know"),
        (with_model({"object": {"class": "ctfa.labelled._x:Y", "state": {}}}), "does not know"),
        (
            with_model({"object": {"class": "ctfa.persistence._classes:classes", "state": {}}}),
            "does not know",
        ),
        (with_model({"object": {"class": ["CTFARegressor"], "state": {}}}), "cannot be read"),
        (with_model({"function": "os.system"}), "cannot be read"),
        (with_model({"pickle": "gASVCg=="}), "no known kind"),
        (with_model({"list": [1], "tuple": [1]}), "no known kind"),
        (with_model({"same": 7}), "not met before"),
        (
            with_model({"object": {"class": "CTFARegressor", "state": {"predict": 1}}}),
            "no attribute 'predict'",
        ),
        (
            with_model({"object": {"class": "CTFARegressor", "state": {"__class__": 1}}}),
            "no attribute '__class__'",
        ),
        (
            with_model(
                {"object": {"class": "sklearn.pipeline.Pipeline", "state": {"memory": "/tmp"}}}
            ),
            "results from a folder",
        ),
        (with_model({"object": {"class": "Units", "state": {"offsets": 1}}}), "too little"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(data, match):
    with pytest.raises(PersistenceError, match=match) as error:
        loaded(data)
    assert "\n" not in str(error.value)


def test_a_tree_deeper_than_any_model_is_refused():
    node = {"list": []}
    for _ in range(80):
        node = {"list": [node]}
    with pytest.raises(PersistenceError, match="too deep"):
        loaded(with_model(node))


def test_a_file_of_a_later_version_says_to_upgrade(tmp_path):
    later = {"format": "ctfa", "schema": 5, "versions": {"ctfa": "3.1"}}
    (tmp_path / "later.ctfa").write_bytes(packed(later))
    match = "written by ctfa 3.1, schema 5; this is ctfa .*, which reads up to schema 4: upgrade"
    with pytest.raises(PersistenceError, match=match):
        load(tmp_path / "later.ctfa")


def npz(*arrays):
    stream = io.BytesIO()
    named = {str(k): array for k, array in enumerate(arrays)}
    np.savez(stream, **named)
    return stream.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.array([print], dtype=object),
        np.zeros(2, dtype=[("a", int)]),
        np.zeros(2, dtype="V4"),
        np.zeros((2, 2)),
        np.array([2, 3], dtype=np.uint8).view(bool),
        np.array([0x7FFFFFFF], dtype=np.uint32).view("U1"),
    ],
    ids=["pickled", "records", "void", "table", "no bool", "no character"],
)
def test_arrays_that_are_not_plain_are_refused(array):
    with pytest.raises(PersistenceError, match=r"array|character"):
        loaded(packed(tree_of(), arrays=npz(array)))


def test_arrays_are_not_made_larger_than_what_is_stored():
    tree = tree_of()
    array = {"array": {"of": 0, "at": 0, "shape": [4], "order": "C", "free": True}}
    tree["model"] = {"object": {"class": "CTFARegressor", "state": {"head": {"list": [array] * 9}}}}
    with pytest.raises(PersistenceError, match="used twice"):
        loaded(packed(tree, arrays=npz(np.arange(4.0))))
    array["array"]["shape"] = [2**31, 2**31]
    with pytest.raises(PersistenceError, match="reaches beyond"):
        loaded(packed(tree, arrays=npz(np.arange(4.0))))


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_does(tmp_path):
    bomb = packed(json.dumps({**tree_of(), "padding": " " * 3_000_000}))
    path = tmp_path / "model.ctfa"
    path.write_bytes(bomb)
    with pytest.raises(PersistenceError, match=r"load\(path, max_bytes="):
        load(path, max_bytes=1_000_000)
    save(MODEL, path)
    with pytest.raises(PersistenceError, match="more than the 100 allowed"):
        load(path, max_bytes=100)
    assert load(path, max_bytes=10**6).n_groups_ == MODEL.n_groups_


def changed(model, change):
    """A file of a model that was tampered with before it was written."""
    again = loaded(to_bytes(model))
    change(again)
    return to_bytes(again)


def put(name, value):
    def change(model):
        holder = model
        *path, last = name.split(".")
        for part in path:
            holder = holder[int(part)] if part.isdigit() else getattr(holder, part)
        if last.isdigit():
            holder[int(last)] = value
        else:
            object.__setattr__(holder, last, value)

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("targets_.partition_.labels", np.array([0, 5, 1])),
        ("targets_.partition_.labels", np.array([0, -1, 1])),
        ("targets_.partition_.labels", np.array([[0, 1, 2]])),
        ("targets_.partition_.labels", np.array([0.0, 1.0, 2.0])),
        ("targets_.partition_.labels", np.array([0, 1])),
        ("targets_.history_.block", np.array([9] * len(MODEL.history_))),
        ("targets_.history_.block", np.arange(40)),
        ("targets_.history_.other", MODEL.history_.block),
        ("targets_.history_.size", MODEL.history_.size + 1),
        ("targets_.history_.refused", np.array([7, 7, 7])),
        ("targets_.history_.n_variables", 10**12),
        ("targets_.history_.loss_interval", None),
        ("targets_.cv_curve_.chosen", 99),
        ("targets_.cv_curve_.fold_errors", np.zeros(3)),
        ("targets_.scales_", np.ones(7)),
        ("targets_.scales_", "x"),
        ("targets_._names", ("a",)),
        ("targets_.n_groups_", 17),
        ("_evidence.signs", np.ones(9)),
        ("_evidence.merges", []),
        ("trust_", np.ones(2)),
        ("regressors_", []),
        ("features_", None),
        ("regressors_.0.n_features_in_", 40),
        ("n_features_in_", 5),
        ("_singles", 3),
        ("_deviations", 3),
        ("_deviations", MODEL._deviations._replace(own=np.zeros((3, 5)))),
        ("_deviations", MODEL._deviations._replace(own=np.full((3, 4), np.nan))),
        ("_deviations", MODEL._deviations._replace(group=np.zeros((3, 4)))),
        ("_deviations", MODEL._deviations._replace(level=np.zeros(2))),
        ("_deviations", MODEL._deviations._replace(centre=np.full(4, np.inf))),
        ("_evidence.served", Gain(np.zeros(2), np.zeros(2))),
        ("_evidence.merges.0", MODEL._evidence.merges[0]._replace(score="x")),
        ("_library", "ctfa.__main__"),  # predictions import it by its name
    ],
)
def test_a_model_that_cannot_be_is_refused(name, value):
    assert len(MODEL.history_) > 0
    assert MODEL._deviations.own.shape == (3, 4)
    assert MODEL._deviations.group.shape == (MODEL.n_groups_, 4)
    with pytest.raises(PersistenceError, match="damaged"):
        loaded(changed(MODEL, put(name, value)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout_", np.full((6, 2), 99)),
        ("layout_", np.zeros((3, 2), dtype=int)),
        ("_units", None),
        ("_units", OWN._units._replace(offsets=np.full((6, 3), np.inf))),
        ("_units", OWN._units._replace(scales=np.full((6, 3), np.inf))),
        ("_steps", 1),
        ("_models", None),
    ],
)
def test_a_model_of_own_inputs_that_cannot_be_is_refused(name, value):
    with pytest.raises(PersistenceError, match="damaged"):
        loaded(changed(OWN, put(name, value)))


@pytest.mark.parametrize(
    ("name", "value"),
    [("_added", np.zeros((3, 9))), ("offsets_", np.zeros(2)), ("_ids", (1,)), ("regressors_", [])],
)
def test_a_model_of_own_rows_that_cannot_be_is_refused(name, value):
    with pytest.raises(PersistenceError, match="damaged"):
        loaded(changed(POOLED, put(name, value)))


def test_tasks_that_could_not_be_looked_up_are_refused():
    of_one_hash = [k * (2**61 - 1) for k in range(99)]
    with pytest.raises(PersistenceError, match="_ids has keys that are too alike"):
        loaded(changed(POOLED, put("_ids", of_one_hash)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("regressors_.0.coef_", np.zeros(7)),
        ("regressors_.0.coef_", "x"),
        ("regressors_.0.coef_", np.full(MODEL.regressors_[0].coef_.shape, np.nan)),
        ("regressors_.0.intercept_", "x"),
        ("regressors_.0.intercept_", np.inf),
        ("regressors_.0", 3),
        ("features_.0.n_features_in_", 0.5),
        ("features_.0.feature_names_in_", []),
        ("targets_.scales_", np.zeros(3)),
        ("targets_.scales_", np.array([1.0, -1.0, 1.0])),
        ("targets_.scales_", np.array([1.0, np.nan, 1.0])),
        ("targets_.offsets_", np.full(3, np.inf)),
        ("targets_.signs_", np.full(3, 0.5)),
        ("targets_._names", (1, 2, 3)),
        ("targets_.confounds_means_", "x"),
        ("trust_", np.full(3, np.nan)),
        ("trust_", np.full(3, 2.0)),
        ("_evidence.names", (1, 2, 3)),
        ("_evidence.terms", None),
        ("_is_vector", np.zeros(2)),
    ],
)
def test_a_model_that_could_not_predict_is_refused(name, value):
    with pytest.raises(PersistenceError, match="damaged") as error:
        loaded(changed(MODEL, put(name, value)))
    assert "\n" not in str(error.value)


def test_a_class_that_is_not_in_the_table_is_never_looked_up(monkeypatch):
    module = types.ModuleType("ctfa.labelled._example")
    made = dataclasses.make_dataclass("Stranger", ["model"], frozen=True)
    made.__module__ = module.__name__
    module.Stranger = made
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(PersistenceError, match="save was given something"):
        to_bytes(made(MODEL))
    named = {"object": {"class": "ctfa.labelled._example:Stranger", "state": {}}}
    with pytest.raises(PersistenceError, match="does not know"):
        loaded(with_model(named))


PLACES = Coordinates({"lat": Coordinate(("cell",), np.arange(3.0), {})}, {}, {"cell": 3})


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("tasks", LabelledTasks(("cell",), PLACES, np.array([0, 3]))),
        ("tasks", LabelledTasks(("cell",), PLACES, np.array([0.0, 1.0]))),
        (
            "tasks",
            LabelledTasks(("cell",), Coordinates(PLACES.variables, {}, {"cell": 4}), np.arange(3)),
        ),
        ("geometry", Geometry(np.zeros(4, np.uint8), np.array([0, 9]))),
        ("geometry", Geometry(np.zeros(4, np.uint8), np.array([0, 3, 2, 4]))),
        ("form", DataForm("long", "os")),
        ("series", HeldOut),
    ],
)
def test_labelled_results_that_cannot_be_are_refused(part, value):
    sound = {
        "tasks": LabelledTasks(("cell",), PLACES, np.array([0, 2])),
        "geometry": Geometry(np.zeros(4, np.uint8), np.array([0, 3, 4])),
        "form": DataForm("long", "pandas"),
    }
    empty = dict.fromkeys(field.name for field in dataclasses.fields(LabelledFit))
    fit = LabelledFit(**{**empty, "estimator": MODEL, **sound})
    np.testing.assert_array_equal(loaded(to_bytes(fit)).tasks.kept, [0, 2])
    with pytest.raises(PersistenceError):
        loaded(to_bytes(dataclasses.replace(fit, **{part: value})))


TABLE = pandas.DataFrame(Y, columns=["p", "q", "r"])
TREND = np.linspace(0.0, 1.0, 60)[:, None]
PIPED = make_pipeline(StandardScaler(), PCA(1), Ridge())


def ask_shared(model, **options):
    model.predict(X, **options)
    for target in range(3):
        str(model.why(target))
    assert len(model.merges_) == len(model.history_)


def ask_own(model):
    model.predict(BASINS.data)
    for target in range(6):
        str(model.why(target))
    model.reduce(BASINS.data, BASINS.target)


def ask_pooled(model):
    model.predict(X, np.repeat([1, 2, 3], 20))
    for task in (1, 2, 3):
        str(model.why(task))


def ask_targets(model):
    model.inverse_transform(model.transform(Y))
    model.get_group_names_out()


def ask_features(model):
    model.inverse_transform(model.transform(X))
    model.get_feature_names_out()


MIXED = CTFARegressor(LinearRegression(), targets=TargetAggregator(max_loss=np.inf)).fit(X, Y**3)


def test_models_of_single_targets_that_could_not_predict_are_refused():
    assert MIXED._singles.targets.size
    for coef in (np.zeros((1, 9)), "x", np.full(MIXED._singles.models[0].coef_.shape, np.nan)):
        with pytest.raises(PersistenceError, match="damaged"):
            loaded(changed(MIXED, put("_singles.models.0.coef_", coef)))


ASKED = {
    "shared inputs": (MODEL, ask_shared),
    "targets mixed with their own": (MIXED, ask_shared),
    "turned round": (
        CTFARegressor(targets=TargetAggregator(flip=True, max_loss=1.0)).fit(X, Y),
        ask_shared,
    ),
    "a table": (CTFARegressor().fit(X, TABLE), ask_shared),
    "confounds": (
        CTFARegressor(head="levels").fit(X, Y, confounds=TREND),
        partial(ask_shared, confounds=TREND),
    ),
    "a pipeline": (CTFARegressor(PIPED, features="passthrough").fit(X, Y), ask_shared),
    "neighbours": (CTFARegressor(KNeighborsRegressor(algorithm="brute")).fit(X, Y), ask_shared),
    "a constant": (CTFARegressor(DummyRegressor()).fit(X, Y), ask_shared),
    "own inputs": (OWN, ask_own),
    "shared coefficients": (
        MultiInputCTFARegressor(BASINS.layout, aggregate="pool").fit(BASINS.data, BASINS.target),
        ask_own,
    ),
    "own rows": (POOLED, ask_pooled),
    "targets": (TargetAggregator().fit(X, Y), ask_targets),
    "features": (FeatureAggregator().fit(X, Y[:, 0]), ask_features),
}


def inside(node, path=()):
    """Every place in a tree."""
    if isinstance(node, (dict, list)):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield (*path, key)
            yield from inside(node[key], (*path, key))


def edited(tree, arrays, rng):
    """Change one thing, as by hand: a number of an array, its shape, a value, or leave it out."""

    def one_of(some):
        return some[int(rng.integers(len(some)))]

    numbers = {"f": [np.nan, np.inf, -1.0, 0.0], "i": [-1, 0, 99], "b": [True, False], "U": ["z"]}
    array = one_of(arrays)
    if rng.random() < 0.25 and array.size:
        array[int(rng.integers(array.size))] = one_of(numbers[array.dtype.kind])
        return
    # The parameters are as they were given: what fit would say of them is not for load to say.
    paths = [path for path in inside(tree["model"]) if path[-1] != "unseen"]
    *path, key = one_of(paths)
    node = tree["model"]
    for step in path:
        node = node[step]
    value, chance = node[key], rng.random()
    if isinstance(value, dict) and "shape" in value.get("array", {}) and chance < 0.5:
        shape = value["array"]["shape"]
        less, more = [max(length - 1, 0) for length in shape], [length + 1 for length in shape]
        value["array"]["shape"] = one_of([less, more, [*shape, 1], shape[:-1], [0], shape[::-1]])
    elif chance < 0.2:
        del node[key]
    elif chance < 0.3 and isinstance(node, list):
        node.append(value)
    else:
        ridge = {"object": {"class": "sklearn.linear_model.Ridge", "state": {}}}
        nothing = [{"list": []}, {"tuple": []}, {"dict": []}, {"list": [1]}, ridge]
        node[key] = one_of([None, -1, 0, 7, 2**40, "x", "", 0.5, True, {"float": "nan"}, *nothing])


@pytest.mark.more
@pytest.mark.parametrize("name", ASKED)
def test_a_file_edited_anywhere_is_refused_or_the_model_answers(name):
    model, ask = ASKED[name]
    data, rng, refusals = to_bytes(model), np.random.default_rng(0), 0
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        stored = np.load(io.BytesIO(file.read("arrays.npz")))
    ask(loaded(data))
    for _ in range(150):
        tree, arrays = tree_of(data), [stored[str(k)].copy() for k in range(len(stored.files))]
        edited(tree, arrays, rng)
        try:
            again = loaded(packed(tree, npz(*arrays)))
        except PersistenceError:
            refusals += 1
            continue
        ask(again)
    assert 50 < refusals < 150


@pytest.mark.parametrize(
    "regressor",
    [
        make_pipeline(FunctionTransformer(np.log), Ridge()),
        make_pipeline(OneHotEncoder(handle_unknown="error"), Ridge()),
        make_pipeline(PowerTransformer("box-cox"), Ridge()),
        make_pipeline(SplineTransformer(4, extrapolation="error"), Ridge()),
        RadiusNeighborsRegressor(0.5, algorithm="brute"),
    ],
)
def test_a_model_that_refuses_rows_which_are_made_up_still_loads(regressor):
    whole = np.repeat(np.arange(1.0, 7.0), 10)[:, None] + np.arange(4)
    targets = TargetAggregator(max_loss=np.inf, regressor=LinearRegression())
    model = CTFARegressor(regressor, targets=targets, features="passthrough")
    model.fit(whole, 1e-3 * Y + whole[:, :3])
    np.testing.assert_array_equal(loaded(to_bytes(model)).predict(whole), model.predict(whole))


def test_columns_that_are_only_said_to_be_there_take_no_memory():
    without = loaded(changed(OWN, put("_sums", None)))  # which would say how many there were
    many = changed(without, put("n_features_in_", 10**12))
    assert loaded(many).n_features_in_ == 10**12


def test_loading_starts_no_workers_whatever_the_file_says(monkeypatch):
    model = CTFARegressor(KNeighborsRegressor(algorithm="brute", n_jobs=10**6)).fit(X, Y)
    asked = []
    monkeypatch.setattr(
        "sklearn.neighbors._regression.KNeighborsRegressor.predict",
        lambda self, rows: asked.append(effective_n_jobs(self.n_jobs)) or np.zeros(len(rows)),
    )
    loaded(to_bytes(model))
    assert set(asked) == {1}


def test_positions_beyond_a_sparse_matrix_are_refused():
    graph = sparse.csr_array(np.eye(3))
    data = to_bytes(CTFARegressor(targets=TargetAggregator(connectivity=graph)))
    graph.indices[:] = 999
    wrong = to_bytes(CTFARegressor(targets=TargetAggregator(connectivity=graph)))
    assert loaded(data).targets.connectivity.shape == (3, 3)
    with pytest.raises(PersistenceError, match="connectivity"):
        loaded(wrong)


def zipped(members, method=zipfile.ZIP_DEFLATED):
    """A zip of (name, data)."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method, compresslevel=1) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, data in members:
            if isinstance(data, int):  # so many blanks
                with file.open(name, "w") as out:
                    for _ in range(0, data, 2**20):
                        out.write(b" " * 2**20)
            else:
                file.writestr(name, data)
    return stream.getvalue()


def lying(data, name, size):
    """The same zip, whose directory gives a member another size."""
    where = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode("ascii")))
    return data[: where + 24] + size.to_bytes(4, "little") + data[where + 28 :]


def text_of(node):
    return json.dumps({**tree_of(), "model": node}, separators=(",", ":"))


def with_parameter(node):
    """The text of a model with a parameter, and its arrays."""
    return text_of({"object": {"class": "CTFARegressor", "state": {"head": node}}})


def doubled(kind, levels=50):
    """A value that holds two of a value that holds two of ...: each written once, and named."""
    node = {kind: [1], "id": 0}
    for number in range(1, levels):
        node = {kind: [node, {"same": number - 1}], "id": number}
    return node


def many(sign, n):
    """A text that holds so many of these, and hardly anything else."""
    return with_parameter({"list": ["HERE"]}).replace('"HERE"', f"{sign}," * n + sign)


#: What hostile files unpack to, and what loading one may take: a small model may take half of it.
HUGE, ROOM = 2**29 + 2**28, 2**29
NO_ARRAYS = zipped([])
ONE = {"array": {"of": 0, "at": 0, "shape": [1], "order": "C", "free": True}}


def hostile():
    """Small files that would take gigabytes, or never end, by what is wrong with each."""
    text = json.dumps(tree_of())

    def file(text, arrays=NO_ARRAYS, method=zipfile.ZIP_DEFLATED):
        return zipped([("model.json", text), ("arrays.npz", arrays)], method)

    files = {
        "compressed by bzip2": file(text, method=zipfile.ZIP_BZIP2),
        "compressed by LZMA": file(text, method=zipfile.ZIP_LZMA),
        "arrays in bzip2": file(text, zipped([("0.npy", 2**20)], zipfile.ZIP_BZIP2)),
    }
    bomb, packed = file(HUGE), zipped([("0.npy", HUGE)])
    files["blanks"] = bomb
    files["blanks that are said to be few"] = lying(bomb, "model.json", 1000)
    files["blanks that are said to be many"] = lying(bomb, "model.json", 2**32 - 2)
    files["blanks as an array"] = file(text, packed)
    files["an array that is said to be short"] = file(text, lying(packed, "0.npy", 1000))
    files["blanks as arrays"] = zipped([("model.json", text), ("arrays.npz", HUGE)])
    files["a directory of a million"] = file(text, npz_of_entries(10**6))
    files["members over each other"] = over_each_other(text)
    files["a name twice"] = zipped([("model.json", text)] * 2 + [("arrays.npz", NO_ARRAYS)])
    for name, sign in (("lists", "[]"), ("dictionaries", "{}")):
        files[f"empty {name}"] = file(many(sign, 12_000_000))
    files["empty lists of a kind"] = file(many('{"list":[]}', 4_000_000))
    files["nested lists"] = file("[" * 10**6)
    files["a number of a million digits"] = file(
        with_parameter({"list": [0]}).replace("[0]", f"[{'1' * 10**6}]")
    )
    files["a character of four bytes"] = file(text[:-1] + ',"é😀":"' + "a" * 60_000_000 + '"}')
    for kind in ("list", "tuple"):
        files[f"{kind}s of themselves"] = file(with_parameter(doubled(kind)))
    files["a key of tuples of tuples"] = file(with_parameter({"dict": [[doubled("tuple"), 1]]}))
    gain = {"list": [1], "id": 0}
    for number in range(1, 50):
        state = {"value": gain, "standard_error": {"same": number - 1}}
        gain = {"object": {"class": "Gain", "state": state}, "id": number}
    files["a key of results of results"] = file(with_parameter({"dict": [[gain, 1]]}))
    files["an entry of results of results"] = file(with_parameter({"set": [gain]}))
    alike = [{"int": hex(k * (2**61 - 1))} for k in range(1, 100_000)]
    files["keys of one hash"] = file(with_parameter({"dict": [[key, 0] for key in alike]}))
    files["tuples of one hash"] = file(
        with_parameter({"dict": [[{"tuple": [key]}, 0] for key in alike]})
    )
    files["entries of one hash"] = file(with_parameter({"set": alike}))
    files["names of one hash"] = file(
        with_parameter({"list": [{"list": [], "id": k * (2**61 - 1)} for k in range(1, 100_000)]})
    )
    files["a long key over many values"] = file(
        with_parameter({"dict": [["k" * 10**6, {"list": [*range(100_000), {"what": 1}]}]]})
    )
    files["a class of a long name"] = file(text_of({"object": {"class": "C" * 10**7, "state": {}}}))
    for name, shape in {
        "negative": [-1],
        "beyond": [2**62],
        "many directions": [10**4000] * 10_000,
        "nothing of much": [0, 2**40],
    }.items():
        array = {"array": {**ONE["array"], "shape": shape}}
        files[f"a shape that is {name}"] = file(with_parameter(array), npz(np.zeros(1)))
    files["a range without end"] = file(with_parameter({"range": [0, 2**60, 1]}))
    nothing = {"sparse": ["csr", True, [10**9, 2], [ONE, ONE, ONE]]}
    files["a matrix of nothing"] = file(with_parameter(nothing), npz(np.zeros(9)))
    sums = {"next_fold": {"tuple": []}, "targets": None}
    files["folds without end"] = file(
        with_parameter(
            {
                "object": {
                    "class": "TaskSums",
                    "state": {f.name: sums.get(f.name) for f in dataclasses.fields(TaskSums)}
                    | {"n_dealt": 2**40, "n_columns": 1}
                    | {"classes": {"dict": [[{"tuple": ["a", "x"]}, 1]]}},
                }
            }
        )
    )
    constant, near = ASKED["a constant"][0], ASKED["neighbours"][0]
    files["a constant of many"] = changed(constant, put("regressors_.0.n_outputs_", HUGE))
    files["too many neighbours"] = changed(near, put("regressors_.0.n_neighbors", HUGE))
    return files


def npz_of_entries(n):
    """A zip with a directory of many entries and no members."""
    entry = b"PK\x01\x02" + bytes(42)
    directory = entry * n
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0, 0, len(directory), 0, 0)
    return directory + end


def over_each_other(text):
    """Many members that are all the same one."""
    one = zipped([("0.npy", bytes(10**6))])
    at = one.index(b"PK\x01\x02")
    entry, end = one[at:-22], one[-22:]
    directory = b"".join(entry.replace(b"0.npy", b"%d.npy" % k) for k in range(10))
    end = end[:8] + struct.pack("<HHL", 10, 10, len(directory)) + end[16:]
    return zipped([("model.json", text), ("arrays.npz", one[:at] + directory + end)])


LOADS = """
import json, pathlib, resource, sys
from ctfa.persistence import PersistenceError, load

with open("/proc/self/statm") as file:
    taken = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(sys.argv[2]), taken + int(sys.argv[2])))
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    print(path.name, end=": ", flush=True)
    try:
        load(path)
        print("loaded", flush=True)
    except PersistenceError as error:
        print("refused", json.dumps(str(error)), flush=True)
    except BaseException as error:
        print("raised", repr(error)[:200], flush=True)
"""


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited where Linux is")
def test_hostile_files_are_refused_in_little_memory_and_time(tmp_path):
    files = hostile()
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert len(data) < 10_000_000
    command = [sys.executable, "-c", LOADS, str(tmp_path), str(ROOM)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert not done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(files)
    for line in lines:
        name, _, found = line.partition(": ")
        verdict, _, said = found.partition(" ")
        assert verdict == "refused", line
        sentence = json.loads(said)
        assert sentence.startswith("This file "), line
        assert "memory" not in sentence.lower(), line
        assert "\n" not in sentence, line
        assert len(sentence) < 600, name
