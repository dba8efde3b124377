"""Files that the project does not carry: found, checked, downloaded, or explained."""

import gzip
import hashlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from ctfa.datasets import get_data_home, load_sarcos
from ctfa.datasets._catalogue import DataFile, checksum_of_arrays, find

CONTENT = b"a,b\n1,2\n"
SOURCE = "The desk of a colleague."


def a_file(content=CONTENT, address="http://somewhere.org/table.csv"):
    return DataFile("set/table.csv", hashlib.sha256(content).hexdigest(), address)


def written(path, content=CONTENT):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fake_pooch(monkeypatch, retrieve):
    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))


def files_below(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_the_folder_is_the_argument_then_the_variable_then_one_at_home(monkeypatch, tmp_path):
    monkeypatch.setenv("CTFA_DATA", str(tmp_path / "variable"))
    assert get_data_home(tmp_path / "argument") == tmp_path / "argument"
    assert get_data_home() == tmp_path / "variable"
    monkeypatch.setenv("CTFA_DATA", "")
    assert get_data_home() == Path("~/ctfa_data").expanduser()
    monkeypatch.delenv("CTFA_DATA")
    assert get_data_home() == Path("~/ctfa_data").expanduser()


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress)])
def test_a_file_is_found_plain_and_packed(tmp_path, ending, pack):
    path = written(tmp_path / f"set/table.csv{ending}", pack(CONTENT))
    found = find(a_file(), data_home=tmp_path, source=SOURCE)
    assert found == (path, CONTENT)


def test_a_wrong_file_is_refused_by_name_with_both_checksums(tmp_path):
    path = written(tmp_path / "set/table.csv", b"something else")
    with pytest.raises(OSError, match="another edition") as error:
        find(a_file(), data_home=tmp_path, source=SOURCE)
    for part in (path, a_file().sha256, hashlib.sha256(b"something else").hexdigest(), SOURCE):
        assert str(part) in str(error.value)


def test_a_damaged_archive_is_refused(tmp_path):
    written(tmp_path / "set/table.csv.gz", gzip.compress(CONTENT)[:-9])
    with pytest.raises(OSError, match="cannot be unpacked"):
        find(a_file(), data_home=tmp_path, source=SOURCE)


def test_an_absent_file_is_downloaded_once(tmp_path, monkeypatch):
    asked = []

    def retrieve(url, *, known_hash, fname, path):
        asked.append((url, known_hash))
        Path(path, fname).write_bytes(CONTENT)

    fake_pooch(monkeypatch, retrieve)
    for _ in range(2):
        assert find(a_file(), data_home=tmp_path / "new", source=SOURCE).content == CONTENT
    assert asked == [("http://somewhere.org/table.csv", f"sha256:{a_file().sha256}")]
    assert files_below(tmp_path) == [tmp_path / "new/set/table.csv"]


def test_half_a_download_leaves_nothing_behind(tmp_path, monkeypatch):
    def retrieve(url, *, known_hash, fname, path):
        Path(path, fname).write_bytes(CONTENT[:3])
        raise ConnectionError("the line is dead")

    fake_pooch(monkeypatch, retrieve)
    with pytest.raises(FileNotFoundError, match="the line is dead"):
        find(a_file(), data_home=tmp_path, source=SOURCE)
    assert files_below(tmp_path) == []


def test_a_download_of_another_file_is_refused(tmp_path, monkeypatch):
    def retrieve(url, *, known_hash, fname, path):
        raise ValueError("SHA256 hash of downloaded file does not match")

    fake_pooch(monkeypatch, retrieve)
    with pytest.raises(FileNotFoundError, match="does not match"):
        find(a_file(), data_home=tmp_path, source=SOURCE)


@pytest.mark.parametrize(
    ("file", "options", "reason"),
    [
        (a_file(), {}, r"pip install 'ctfa\[datasets\]'"),
        (a_file(address=None), {}, "no address"),
        (a_file(), {"download_if_missing": False}, "not to be downloaded"),
    ],
)
def test_an_absent_file_is_explained(tmp_path, monkeypatch, file, options, reason):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(FileNotFoundError, match=reason) as error:
        find(file, data_home=tmp_path, source=SOURCE, **options)
    for part in ("set/table.csv", tmp_path, SOURCE, "data_home=", "CTFA_DATA"):
        assert str(part) in str(error.value)
    assert files_below(tmp_path) == []


def npz_file(arrays):
    return DataFile("set/a.npz", checksum_of_arrays(arrays, list(arrays)), arrays=tuple(arrays))


def test_arrays_are_known_whatever_wrote_them(tmp_path):
    arrays = {"x": np.array([[1.0, np.nan]], dtype=np.float32), "name": np.array(["rain", "é"])}
    (tmp_path / "set").mkdir()
    others = {"x": arrays["x"].astype(">f8"), "name": arrays["name"].astype("<U40"), "more": [1]}
    for save, given in ((np.savez, arrays), (np.savez_compressed, others)):
        save(tmp_path / "set/a.npz", **given)
        found = find(npz_file(arrays), data_home=tmp_path, source=SOURCE)
        np.testing.assert_array_equal(found.arrays()["x"], arrays["x"])


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"x": np.array([1.0, 2.0]), "y": np.array([4.0])}, "another edition"),
        ({"x": np.array([[1.0, 2.0]]), "y": np.array([3.0])}, "another edition"),
        ({"x": np.array([1.0, 2.0])}, "cannot be read as an npz.*y is not a file"),
        ({"x": np.array([1.0, 2.0]), "y": np.array([None])}, "cannot be read as an npz"),
    ],
)
def test_other_arrays_are_refused_and_nothing_is_unpickled(tmp_path, changed, problem):
    file = npz_file({"x": np.array([1.0, 2.0]), "y": np.array([3.0])})
    (tmp_path / "set").mkdir()
    np.savez(tmp_path / "set/a.npz", **changed)
    with pytest.raises(OSError, match=problem):
        find(file, data_home=tmp_path, source=SOURCE)


def test_what_is_no_archive_is_refused(tmp_path):
    written(tmp_path / "set/a.npz", b"no archive")
    with pytest.raises(OSError, match="cannot be read as an npz"):
        find(npz_file({"x": np.array([1.0])}), data_home=tmp_path, source=SOURCE)


def test_frames_without_pandas_are_refused_before_anything_is_read(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        load_sarcos(as_frame=True, data_home=tmp_path, download_if_missing=False)
