"""Optional libraries, imported where they are used, with reasons where that fails."""

from __future__ import annotations

import errno
import importlib
import re
from typing import Any

#: How libraries, and the loader of the system, say that there is no memory left. Blocks of
#: thread-local storage are few, whatever the memory.
_NO_MEMORY = re.compile(
    r"cannot allocate memory(?! in static TLS)|failed to map segment|out of memory"
    r"|unable to allocate|bad_alloc|memory allocation failed|malloc .*failed",
    flags=re.IGNORECASE,
)
#: The extra of ctfa that installs a library.
_EXTRAS = {
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
    "cftime": "io",
}


def need(library: str, what: str = "Labelled data", extra: str = "") -> Any:
    """Import a library; where it is missing, say what brings it."""
    extra = extra or _EXTRAS.get(library.partition(".")[0], "xarray")
    return imported(library, f"{what} needs {library}: pip install 'ctfa[{extra}]'")


def imported(library: str, absent: str) -> Any:
    """Import a library; where it is not installed, say so by `absent`, else why it fails."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        if is_absent(error, library):
            raise ImportError(absent) from error
        reason = " ".join(str(error).split()).rstrip(".")
        if lacks_memory(error):
            raise MemoryError(
                f"there is not enough memory to load {library} ({reason}): close other programs, "
                "or raise the limit that was set (ulimit -v)."
            ) from error
        raise ImportError(
            f"{library} is installed but cannot be loaded ({reason}): install it again, or see "
            f"what python -c 'import {library}' says."
        ) from error


def is_absent(error: ImportError, library: str) -> bool:
    """Whether an import failed because the library itself is not installed."""
    if not isinstance(error, ModuleNotFoundError):
        return False
    return error.name is None or f"{library}.".startswith(f"{error.name}.")


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory, in whatever words."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return isinstance(error, Exception) and _NO_MEMORY.search(str(error)) is not None
