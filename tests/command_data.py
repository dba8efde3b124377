"""Files for the commands: generated basins as NetCDF, CSV and polygons."""

from pathlib import Path

import numpy as np
import pytest

from ctfa.datasets import make_basins

pd = pytest.importorskip("pandas", reason="labelled data need pandas")
xr = pytest.importorskip("xarray", reason="labelled data need xarray")
geopandas = pytest.importorskip("geopandas", reason="polygons need geopandas")
shapely = pytest.importorskip("shapely", reason="polygons need shapely")
pytest.importorskip("h5netcdf", reason="NetCDF files need h5netcdf")

FEATURES = ["temperature", "precipitation", "snow"]


def basins(n_basins=24, n_samples=60, noise=2.0, **options):
    """Monthly basins with their own weather, as a Dataset."""
    made = make_basins(
        n_basins, n_samples, len(FEATURES), n_regions=3, noise=noise, random_state=0, **options
    )
    time = pd.date_range("2001-01-01", periods=n_samples, freq="MS")
    held = {
        "flow": (("time", "basin"), made.target, {"units": "m3 s-1", "long_name": "river flow"})
    }
    for slot, name in enumerate(made.slot_names):
        held[name] = (("time", "basin"), made.data[:, made.layout[:, slot]], {"units": "1"})
    return xr.Dataset(
        held,
        coords={
            "time": time,
            "basin": 1000 + np.arange(n_basins),
            "lon": ("basin", made.lon),
            "lat": ("basin", made.lat),
        },
    ), made


def write_basins(folder, **options):
    """Write basins.nc and basins.gpkg; return the Dataset."""
    data, made = basins(**options)
    data.to_netcdf(Path(folder) / "basins.nc", engine="h5netcdf")
    shapes = [shapely.Polygon(corners) for corners in made.polygons]
    frame = geopandas.GeoDataFrame(
        {"basin": data["basin"].values}, geometry=shapes, crs="EPSG:4326"
    )
    frame.to_file(Path(folder) / "basins.gpkg")
    return data


def content(folder):
    """Every file below a folder with its bytes, and every folder."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() else None
        for p in sorted(Path(folder).rglob("*"))
    }
