"""Files too large for memory, on the command line: read in pieces, and fitted alike."""

import json

import numpy as np
import pytest

from command_data import pd, xr
from ctfa import cli, labelled
from ctfa._commands import _asked

pytest.importorskip("dask", reason="pieces need dask")


@pytest.fixture
def shared(tmp_path):
    """Twelve basins in two regions, with drivers that they share."""
    rng = np.random.default_rng(0)
    drivers = rng.normal(size=(120, 2))
    flow = np.repeat(drivers @ [[1.0, 0.0], [0.5, -1.0]], 6, axis=1) + rng.normal(size=(120, 12))
    held = {"flow": (("time", "basin"), flow), "unused": (("time", "basin"), flow)}
    held |= {name: ("time", drivers[:, k]) for k, name in enumerate(("heat", "rain"))}
    time = pd.date_range("2001-01-01", periods=120, freq="MS")
    path = tmp_path / "shared.nc"
    labelled.write(xr.Dataset(held, coords={"time": time, "basin": np.arange(12)}), path)
    return path


def run(path, folder, capsys):
    options = ["-t", "flow", "-f", "heat,rain", "--task", "basin", "--max-loss", "1.5"]
    capsys.readouterr()
    assert cli.main(["fit", str(path), *options, "--json", "-o", str(folder)]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.more
def test_a_large_file_is_fitted_and_predicted_in_pieces(shared, tmp_path, monkeypatch, capsys):
    lazily = []
    read = labelled.read
    monkeypatch.setattr(
        labelled, "read", lambda *a, **k: (lazily.append(k.get("lazy", False)), read(*a, **k))[1]
    )
    in_memory = run(shared, tmp_path / "one", capsys)
    assert not any(lazily)
    used = 8 * 120 * (12 + 2)
    monkeypatch.setattr(_asked, "LARGE", used)
    run(shared, tmp_path / "two", capsys)
    assert not any(lazily)  # what is not used does not count
    monkeypatch.setattr(_asked, "LARGE", used - 1)
    in_pieces = run(shared, tmp_path / "three", capsys)
    assert any(lazily)
    assert any("in chunks" in note for note in in_pieces["notes"])
    assert in_pieces["n_regions"] == in_memory["n_regions"]
    one, three = (
        pd.read_csv(tmp_path / name / "regions.csv")["region"] for name in ("one", "three")
    )
    np.testing.assert_array_equal(one, three)
    lazily.clear()
    monkeypatch.setattr(_asked, "LARGE", 1)
    for name in ("one", "three"):
        out = str(tmp_path / f"{name}.nc")
        assert cli.main(["predict", str(tmp_path / name), str(shared), "-q", "-o", out]) == 0
    assert any(lazily)
    with labelled.read(tmp_path / "one.nc") as first, labelled.read(tmp_path / "three.nc") as last:
        xr.testing.assert_allclose(first, last, rtol=1e-8)


def test_without_dask_a_large_file_is_read_whole(shared, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_asked, "LARGE", 1)
    monkeypatch.setattr(_asked.importlib.util, "find_spec", lambda name: None)
    found = run(shared, tmp_path / "run", capsys)
    assert not any("in chunks" in note for note in found["notes"])
