"""Libraries that labelled data stand on, imported where they are used."""

from __future__ import annotations

from typing import Any

from ctfa.core.libraries import imported

#: Which extra of ctfa brings a library.
EXTRAS = {
    "xarray": "xarray",
    "pandas": "xarray",
    "dask": "dask",
    "polars": "frames",
    "geopandas": "geo",
    "shapely": "geo",
    "pyogrio": "geo",
    "h5netcdf": "io",
    "h5py": "io",
    "zarr": "io",
    "pyarrow": "io",
}


def need(library: str, what: str = "") -> Any:
    """Import a library; where it is missing, say what brings it."""
    extra = EXTRAS.get(library.partition(".")[0], "xarray")
    return imported(
        library, f"{what or 'Labelled data'} needs {library}: pip install 'ctfa[{extra}]'"
    )
