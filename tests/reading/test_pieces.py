"""Pieces of rows from files: the rows that were written, one piece at a time."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from ctfa import CTFARegressor, TargetAggregator
from ctfa.datasets import make_paper_synthetic
from ctfa.pieces import of_parquet, of_zarr

pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
zarr = pytest.importorskip("zarr")
xr = pytest.importorskip("xarray")

X, Y = make_paper_synthetic(500, n_features=6, n_targets=4, random_state=0)
FEATURES = [f"x{i}" for i in range(6)]
TARGETS = list("abcd")
TABLE = pd.DataFrame(X, columns=FEATURES).join(pd.DataFrame(Y, columns=TARGETS))
TABLE["weight"] = np.linspace(0.5, 2.0, 500)
TABLE["name"] = "basin"


@pytest.fixture
def folder(tmp_path):
    """A file a year, of row groups that divide no piece evenly."""
    for year, rows in enumerate(np.array_split(np.arange(500), 4)):
        written = pa.Table.from_pandas(TABLE.iloc[rows], preserve_index=False)
        pq.write_table(written, tmp_path / f"{1981 + year}.parquet", row_group_size=37)
    return tmp_path


def stacked(pieces):
    return [
        np.concatenate([np.asarray(part) for part in column])
        for column in zip(*pieces, strict=True)
    ]


# -- Parquet ---------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("rows", [1, 40, 125, 126, 10_000])
def test_parquet_gives_all_rows_in_pieces_of_a_size(folder, rows):
    pieces = list(of_parquet(folder, FEATURES, TARGETS, rows=rows))
    first, second = stacked(pieces)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, Y)
    sizes = [len(one) for one, _ in pieces]
    assert max(sizes) == min(rows, 125)
    assert sum(size < rows for size in sizes) <= 4  # the last one of each file
    assert list(pieces[0][0].columns) == FEATURES


def test_a_file_a_pattern_and_one_target_are_read(folder):
    (X_one, y, weight), *_ = of_parquet(
        folder / "1982.parquet", FEATURES[::-1], "c", sample_weight="weight"
    )
    np.testing.assert_array_equal(X_one, X[125:250, ::-1])
    np.testing.assert_array_equal(y, Y[125:250, 2])
    assert y.name == "c"
    np.testing.assert_array_equal(weight, TABLE["weight"][125:250])
    some = of_parquet(str(folder / "198[34].parquet"), FEATURES, TARGETS)
    np.testing.assert_array_equal(stacked(some)[0], X[250:])


def test_pieces_can_be_gone_through_again(folder):
    pieces = of_parquet(folder, FEATURES, TARGETS, rows=60)
    assert len(list(pieces)) == len(list(pieces)) == 12
    assert "500 rows" in repr(pieces)


def test_folders_may_name_a_column(tmp_path):
    for year in (1981, 1982):
        place = tmp_path / f"year={year}"
        place.mkdir()
        TABLE[:50].to_parquet(place / "part.parquet")
    (tmp_path / "_metadata").write_text("no table")
    first, _ = stacked(of_parquet(tmp_path, ["x0", "year"], TARGETS))
    np.testing.assert_array_equal(first[:, 1], np.repeat([1981, 1982], 50))


@pytest.mark.parametrize("first", ["float32", "int64"])
def test_each_file_is_read_with_its_own_types(tmp_path, first):
    numbers = TABLE[[*FEATURES, *TARGETS]]
    numbers[:50].round().astype(first).to_parquet(tmp_path / "1981.parquet")
    numbers[50:].to_parquet(tmp_path / "1982.parquet")
    inputs, targets = stacked(of_parquet(tmp_path, FEATURES, TARGETS, rows=40))
    np.testing.assert_array_equal(inputs[50:], X[50:])
    np.testing.assert_array_equal(targets[50:], Y[50:])
    np.testing.assert_array_equal(inputs[:50], X[:50].round().astype(first))


def test_parquet_that_cannot_be_read_is_said(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file "):
        of_parquet(folder / "1990.parquet", FEATURES, TARGETS)
    with pytest.raises(FileNotFoundError, match="no file that fits"):
        of_parquet(folder / "20*.parquet", FEATURES, TARGETS)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no Parquet files in the folder"):
        of_parquet(tmp_path / "empty", FEATURES, TARGETS)
    with pytest.raises(ValueError, match="has no column 'wieght': did you mean 'weight'"):
        of_parquet(folder, FEATURES, TARGETS, sample_weight="wieght")
    with pytest.raises(ValueError, match="has no column 'discharge': it has 'x0'"):
        of_parquet(folder, FEATURES, ["discharge"])
    with pytest.raises(ValueError, match="rows=0"):
        of_parquet(folder, FEATURES, TARGETS, rows=0)
    with pytest.raises(ValueError, match="features="):
        of_parquet(folder, [], TARGETS)
    for content in (b"", b"x0,x1\n1,2\n"):
        (tmp_path / "torn.parquet").write_bytes(content)
        with pytest.raises(ValueError, match=r"torn.parquet cannot be read as Parquet \(.*again"):
            of_parquet(tmp_path / "torn.parquet", FEATURES, TARGETS)
    (tmp_path / "torn.parquet").unlink()
    TABLE[:0].to_parquet(tmp_path / "nothing.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        of_parquet(tmp_path / "nothing.parquet", FEATURES, TARGETS)
    TABLE.drop(columns="x3").to_parquet(folder / "1985.parquet")
    with pytest.raises(ValueError, match=r"1985.parquet has no column 'x3'"):
        of_parquet(folder / "198?.parquet", FEATURES, TARGETS)
    (tmp_path / "nothing.parquet").unlink()
    with pytest.raises(ValueError, match=r"1985.parquet has no column 'x3'"):
        of_parquet(folder, FEATURES, TARGETS)


def test_text_in_a_column_is_refused_with_its_piece(folder):
    model = TargetAggregator(max_loss=1.0)
    with pytest.raises(ValueError, match="piece 0: "):
        model.partial_fit(of_parquet(folder, [*FEATURES, "name"], TARGETS))
    assert not hasattr(model, "partition_")


# -- Zarr ------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.parametrize("rows", [7, 100, 10_000])
def test_plain_arrays_are_read_by_rows(tmp_path, rows):
    zarr.save_group(str(tmp_path / "plain"), X=X, Y=Y, y=Y[:, 0], **{"x0": X[:, 0]})
    pieces = list(of_zarr(tmp_path / "plain", "X", "Y", rows=rows))
    first, second = stacked(pieces)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, Y)
    assert max(len(one) for one, _ in pieces) == min(rows, 500)
    first, second = stacked(of_zarr(tmp_path / "plain", ["x0", "X"], "y", rows=rows))
    np.testing.assert_array_equal(first, np.column_stack([X[:, 0], X]))
    np.testing.assert_array_equal(second, Y[:, 0])
    first, second = stacked(of_zarr(tmp_path / "plain", "x0", ["y"], rows=rows))
    assert first.shape == second.shape == (500, 1)


@pytest.fixture
def store(tmp_path):
    data = xr.Dataset(
        {
            "rain": ("time", X[:, 0]),
            "fields": (("cell", "time"), X[:, 1:].T),
            "basins": (("time", "basin"), Y),
            "packed": ("time", np.round(X[:, 0], 2)),
            "still": ("cell", np.ones(5)),
            "cube": (("time", "cell", "basin"), np.ones((500, 5, 4))),
        },
        coords={"time": pd.date_range("1981-01-01", periods=500)},
    )
    packed = {"packed": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -999}}
    data.to_zarr(tmp_path / "store", zarr_format=2, encoding=packed, consolidated=True)
    return tmp_path / "store"


def test_named_dimensions_are_followed(store):
    first, second = stacked(of_zarr(store, ["rain", "fields"], "basins", dim="time", rows=90))
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, Y)
    first, _ = stacked(of_zarr(store, "packed", "basins"))
    np.testing.assert_allclose(first[:, 0], np.round(X[:, 0], 2), atol=1e-12)


def test_a_model_learns_from_a_store(store):
    pieces = of_zarr(store, ["rain", "fields"], "basins", rows=90)
    # A limit and a regressor that are given ask no folds, which pieces divide in their own way.
    plain = CTFARegressor(LinearRegression(), targets=TargetAggregator(max_loss=1.2))
    model, expected = clone(plain).partial_fit(pieces), clone(plain).fit(X, Y)
    assert model.partition_ == expected.partition_
    np.testing.assert_allclose(model.predict(X), expected.predict(X))


def test_stores_that_cannot_be_read_are_said(store, tmp_path):
    with pytest.raises(FileNotFoundError, match="no Zarr store"):
        of_zarr(tmp_path / "nowhere", "X", "Y")
    (tmp_path / "bare").mkdir()
    with pytest.raises(ValueError, match="cannot be read as a Zarr store"):
        of_zarr(tmp_path / "bare", "X", "Y")
    with pytest.raises(ValueError, match="has no column 'basin': did you mean"):
        of_zarr(store, "rain", "basin")
    with pytest.raises(ValueError, match=r"'still' of .* lies along cell and not along 'time'"):
        of_zarr(store, ["rain", "still"], "basins")
    with pytest.raises(ValueError, match="'cube' has 3 dimensions"):
        of_zarr(store, "cube", "basins")
    zarr.save_group(str(tmp_path / "uneven"), X=X, Y=Y[:9], none=X[:0], cube=np.ones((3, 3, 3)))
    with pytest.raises(ValueError, match="different numbers of rows"):
        of_zarr(tmp_path / "uneven", "X", "Y")
    with pytest.raises(ValueError, match="has no rows"):
        of_zarr(tmp_path / "uneven", "none", "none")
    with pytest.raises(ValueError, match="do not name their dimensions"):
        of_zarr(tmp_path / "uneven", "X", "X", dim="time")
    with pytest.raises(ValueError, match="'cube' has 3 dimensions"):
        of_zarr(tmp_path / "uneven", "cube", "X")
