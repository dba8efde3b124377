"""Pieces of rows for ``partial_fit``, read from Parquet and Zarr one at a time.

A file is never read whole: only one piece is in memory. The result can be iterated any number of
times, and gives the same pieces each time.
"""

from __future__ import annotations

import difflib
import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ctfa.core.libraries import need

__all__ = ["of_parquet", "of_zarr"]

#: Rows that are decoded at once on the way to a piece.
BATCH = 1 << 14
#: How to install the libraries that read files.
EXTRAS = "io,frames,xarray"


class Pieces:
    """Pieces that are read during iteration, again each time."""

    def __init__(self, source: Any, n_rows: int, read: Callable[[], Iterator[Any]]) -> None:
        if n_rows < 1:
            raise ValueError(f"{source} has no rows: leave it out.")
        self.source = str(source)
        self.n_rows = n_rows
        self._read = read

    def __iter__(self) -> Iterator[Any]:
        return self._read()

    def __repr__(self) -> str:
        return f"<pieces of {self.n_rows} rows of {self.source}>"


def of_parquet(
    path: Any,
    features: Sequence[str],
    targets: Sequence[str] | str,
    *,
    rows: int = 100_000,
    sample_weight: str | None = None,
) -> Pieces:
    """Rows of Parquet files as data frames, a piece at a time.

    No piece has rows of two files. Each file is read with its own types of numbers, which may
    differ.

    Parameters
    ----------
    path : str or Path
        A file, a folder with files (also in folders like ``year=1981``), or a pattern like
        ``"years/19*.parquet"``. Files are read in the order of their names.
    features : sequence of str
        Columns of X.
    targets : sequence of str, or str
        Columns of y; one name gives a series.
    rows : int, default=100_000
        Rows of a piece; the last one of a file may have fewer.
    sample_weight : str, default=None
        Column of weights.

    Returns
    -------
    iterable
        Of ``(X, y)``, or ``(X, y, sample_weight)``, for ``partial_fit``.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.pieces import of_parquet
    >>> X, Y = make_paper_synthetic(n_samples=200, n_features=8, n_targets=2, random_state=0)
    >>> table = pd.DataFrame(X).add_prefix("x").join(pd.DataFrame(Y).add_prefix("y"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/rain.parquet")
    ...     columns = [f"x{i}" for i in range(8)], ["y0", "y1"]
    ...     pieces = of_parquet(f"{folder}/rain.parquet", *columns, rows=50)
    ...     model = CTFARegressor().partial_fit(pieces)
    >>> model.predict(table[columns[0]]).shape
    (200, 2)
    """
    rows = _read_rows(rows)
    pyarrow = need("pyarrow", "A Parquet file", EXTRAS)
    dataset = need("pyarrow.dataset", "A Parquet file", EXTRAS)
    need("pandas", "A table", EXTRAS)
    folders: dict[str, Any] = {}
    if Path(path).is_dir():
        folders = {"partitioning": "hive", "partition_base_dir": str(path)}
    whole = dataset.dataset(_files(path), format="parquet", **folders)
    first, second = _read_names(features=features, targets=targets)
    weight = [] if sample_weight is None else [sample_weight]
    wanted = list(dict.fromkeys((*first, *second, *weight)))
    _require_names(wanted, whole.schema.names, str(path))
    fragments = sorted(whole.get_fragments(), key=lambda fragment: fragment.path)
    # Types of each file: those of the first one may not hold the numbers of others.
    schemas = []
    for fragment in fragments:
        own = fragment.physical_schema
        of_folders = dataset.get_partition_keys(fragment.partition_expression)
        _require_names(wanted, [*own.names, *of_folders], fragment.path)
        fields = [(whole.schema if name in of_folders else own).field(name) for name in wanted]
        schemas.append(pyarrow.schema(fields))
    # Otherwise all of a file is fetched ahead.
    unhurried = dataset.ParquetFragmentScanOptions(pre_buffer=False)

    def read() -> Iterator[Any]:
        for fragment, schema in zip(fragments, schemas, strict=True):
            batches = fragment.to_batches(
                schema=schema,
                columns=wanted,
                batch_size=min(rows, BATCH),
                batch_readahead=0,
                fragment_readahead=0,
                use_threads=False,
                fragment_scan_options=unhurried,
            )
            for table in _of_rows(pyarrow, batches, rows):
                Y = table[second[0]] if isinstance(targets, str) else table[second]
                yield (table[first], Y, *(table[name] for name in weight))

    return Pieces(path, sum(fragment.count_rows() for fragment in fragments), read)


def of_zarr(
    path: Any,
    features: Sequence[str] | str,
    targets: Sequence[str] | str,
    *,
    dim: str | None = None,
    rows: int = 100_000,
) -> Pieces:
    """Rows of the arrays of a Zarr store, a piece at a time.

    Stores that xarray can read are read by it, lazily: numbers that are packed are unpacked.

    Parameters
    ----------
    path : str or Path
        A folder.
    features, targets : sequence of str, or str
        Names of arrays: one of two dimensions has a column for each entry of its second, one of
        one dimension is a column.
    dim : str, default=None
        The dimension that rows lie along; None is the first one of the first array.
    rows : int, default=100_000
        Rows of a piece; the last one may have fewer.

    Returns
    -------
    iterable
        Of ``(X, y)``, for ``partial_fit``.

    Examples
    --------
    >>> import tempfile
    >>> import zarr
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.pieces import of_zarr
    >>> X, Y = make_paper_synthetic(n_samples=200, n_features=8, n_targets=2, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zarr.save_group(f"{folder}/rain.zarr", X=X, Y=Y)
    ...     model = CTFARegressor().partial_fit(of_zarr(f"{folder}/rain.zarr", "X", "Y", rows=50))
    >>> model.predict(X).shape
    (200, 2)
    """
    rows = _read_rows(rows)
    if not Path(path).is_dir():
        raise FileNotFoundError(f"there is no Zarr store at {path}: pass the folder of one.")
    first, second = _read_names(features=features, targets=targets)
    arrays = _arrays(path, [*first, *second], dim)
    lengths = {name: int(array.shape[0]) for name, array in arrays.items()}
    n_rows = lengths[first[0]]
    if set(lengths.values()) != {n_rows}:
        told = ", ".join(f"{name}: {lengths[name]}" for name in (*first, *second))
        raise ValueError(f"arrays of {path} have different numbers of rows ({told}).")

    def table(names: list[str], where: slice, is_column: bool) -> Any:
        values = [np.asarray(arrays[name][where]) for name in names]
        if len(values) > 1:
            return np.column_stack(values)
        return values[0] if is_column or values[0].ndim > 1 else values[0][:, None]

    def read() -> Iterator[Any]:
        for start in range(0, n_rows, rows):
            where = slice(start, min(start + rows, n_rows))
            yield table(first, where, False), table(second, where, isinstance(targets, str))

    return Pieces(path, n_rows, read)


def _arrays(path: Any, names: list[str], dim: str | None) -> Mapping[str, Any]:
    """Arrays that are read where they are sliced, rows first."""
    zarr = need("zarr", "A Zarr store", EXTRAS)
    try:
        group = zarr.open_group(str(path), mode="r")
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a Zarr store ({error}).") from error
    _require_names(names, [name for name, _ in group.arrays()], str(path))
    arrays: dict[str, Any] = {name: group[name] for name in names}
    if all(map(_dims, arrays.values())):
        xarray = need("xarray", "A Zarr store with named dimensions", EXTRAS)
        data = xarray.open_zarr(str(path), chunks=None, consolidated=False)
        rows = dim if dim is not None else str(data[names[0]].dims[0])
        for name in names:
            if rows not in data[name].dims:
                raise ValueError(
                    f"{name!r} of {path} lies along {', '.join(map(str, data[name].dims))} and not "
                    f"along {rows!r}: leave it out, or give another dim."
                )
            arrays[name] = data[name].transpose(rows, ...)
    elif dim is not None:
        raise ValueError(
            f"dim={dim!r} was given but the arrays of {path} do not name their dimensions: leave "
            "it out; rows lie along the first."
        )
    for name, array in arrays.items():
        if array.ndim not in (1, 2):
            raise ValueError(
                f"{name!r} has {array.ndim} dimensions, and rows and columns are two: stack the "
                "others first, or use ctfa.labelled.fit."
            )
    return arrays


def _dims(array: Any) -> Any:
    """Names of an array's dimensions, as xarray would look for them; None without any."""
    written = getattr(getattr(array, "metadata", None), "dimension_names", None)
    return written or array.attrs.get("_ARRAY_DIMENSIONS")


def _of_rows(pyarrow: Any, batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Frames of so many rows each, of batches as they come."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        while sum(part.num_rows for part in held) >= rows:
            table = pyarrow.Table.from_batches(held)
            yield table.slice(0, rows).to_pandas()
            held = table.slice(rows).to_batches()
    if any(part.num_rows for part in held):
        yield pyarrow.Table.from_batches(held).to_pandas()


def _files(path: Any) -> list[str]:
    """Parquet files by their names: itself, those of a folder, or of a pattern; all can be read."""
    place = Path(path)
    if place.is_dir():
        inside = ((one, one.relative_to(place)) for one in place.rglob("*"))
        found = [
            str(one)
            for one, name in inside
            if one.suffix in (".parquet", ".pq") and not any(p[0] in "._" for p in name.parts)
        ]
        what = "no Parquet files in the folder"
    else:
        found = [str(path)] if place.is_file() else glob.glob(str(path), recursive=True)
        what = "no file that fits" if glob.has_magic(str(path)) else "no file"
    found = sorted(one for one in found if Path(one).is_file())
    if not found:
        raise FileNotFoundError(f"there is {what} {path}: pass a Parquet file, a folder or a glob.")
    parquet = need("pyarrow.parquet", "A Parquet file", EXTRAS)
    for file in found:
        try:
            parquet.read_metadata(file)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{file} cannot be read as Parquet ({str(error).rstrip('.')}): write it again, or "
                "leave it out."
            ) from error
    return found


def _read_rows(rows: Any) -> int:
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise ValueError(f"rows={rows!r}: a piece has a whole number of rows, one or more.")
    return int(rows)


def _read_names(**given: Any) -> Iterator[list[str]]:
    for what, names in given.items():
        read = [names] if isinstance(names, str) else list(names)
        if not read or not all(isinstance(name, str) for name in read):
            raise ValueError(f"{what}={names!r}: give the names of columns.")
        yield read


def _require_names(names: list[str], known: Sequence[str], where: str) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
            hint = (
                f"did you mean {' or '.join(map(repr, near))}?"
                if near
                else f"it has {', '.join(map(repr, known[:10]))}{', ...' * (len(known) > 10)}."
            )
            raise ValueError(f"{where} has no column {name!r}: {hint}")
