"""What can be read as numbers, what cannot, and the containers of numbers."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
from sklearn.utils.validation import check_array

from ctfa._errors import InputError, Message, Option
from ctfa.core.libraries import imported
from ctfa.core.types import AnyArray, BoolArray, FloatArray, IntArray

#: What to do about missing values.
FILL = "fill the gaps or drop those rows or columns first"
#: What to do about whole numbers that float64 would round.
ROUNDED = "subtract a constant first, or use other units; leave it out if it is a label"
#: Numbers beyond these overflow or vanish when products of sums of squares are taken.
LARGEST, SMALLEST = 1e70, 1e-70
#: Up to here float64 represents every whole number.
EXACT = 2**53
#: Kinds of dates and durations that a table of objects may hold.
DATES = (date, timedelta, np.datetime64, np.timedelta64)
#: Modules whose lines are not the user's.
INSIDE = ("ctfa.", "sklearn.", "joblib.")


def warn(*pieces: str | Option, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the user's own line, far up the stack: data are read deep inside."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith(INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(Message(*pieces), category, stacklevel=level)


def reshape(what: str) -> str:
    """How a vector becomes a table."""
    return (
        f"Reshape your data with {what}.reshape(-1, 1) if it is a single feature, "
        f"{what}.reshape(1, -1) if it is a single row."
    )


def column_name(column: int, names: Sequence[Any] | None) -> str:
    """A column by its name, or by its number where it has none."""
    return str(column) if names is None else repr(str(names[column]))


def first_of(found: IntArray, names: Sequence[str]) -> str:
    """The first of those found by its name, and how many more there are."""
    more = f" (and {found.size - 1} more)" if found.size > 1 else ""
    return f"{names[int(found[0])]!r}{more}"


def read_numbers(
    data: Any,
    what: str,
    advice: str = "encode or drop columns that are not numbers, and pass rows of equal length",
    *,
    dates: str = "such as the year, the month or the hours since a start",
    rounded: str = ROUNDED,
) -> FloatArray:
    """Data in memory as float64, of any shape; values that would change are refused."""
    if type(data) is np.ndarray and data.dtype == np.float64:
        return data
    require_plain_numbers(data, what, dates=dates, rounded=rounded)
    try:
        numbers: FloatArray = check_array(
            data,
            dtype=np.float64,
            ensure_2d=False,
            allow_nd=True,
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
        )
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else InputError
        text = _first_text(data)
        wrong = str(error).rstrip(".") if text is None else f"{text!r} is not a number"
        raise kind(f"{what} cannot be used ({wrong}): {advice}.") from error
    return numbers


def _first_text(data: Any) -> str | None:
    """The first text that is not a number; None where there is none, or the form is at fault."""
    try:
        values = np.asarray(data, dtype=object).ravel()
    except ValueError:  # rows of lists of different lengths
        return None
    for value in values:
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return str(value)
    return None


def require_table(values: Any, what: str, n_least: int = 1, *, laid_out: bool = False) -> None:
    """Refuse arrays that are not a table of some rows and columns.

    ``laid_out``: whether there is a layout, which makes a table of three dimensions.
    """
    shape = tuple(values.shape)
    if len(shape) < 2:
        given = f"{len(shape)}D" if shape else "scalar"
        # The first words are scikit-learn's, which its users may search for.
        raise InputError(
            f"Expected 2D array, got {given} array instead: {what} has shape {shape}. "
            f"{reshape(what)}"
        )
    if len(shape) > 2:
        advice = "stack the other dimensions, or use ctfa.labelled.fit"
        if laid_out:
            advice = (
                "X, layout = ctfa.multi_input_layout(X) makes one of (n_samples, n_targets, "
                "n_slots), and the layout that goes with it"
            )
        raise InputError(
            f"{what} has shape {shape} (dim {len(shape)}), and a table is needed: {advice}."
        )
    if shape[0] < n_least:
        rows = f"{shape[0]} row{'' if shape[0] == 1 else 's'} (n_samples={shape[0]})"
        raise InputError(f"{what} has {rows}, and {n_least} or more are needed: pass more rows.")
    if not shape[1]:
        raise InputError(
            f"{what} cannot be used (0 feature(s) (shape={shape}) while a minimum of 1 is "
            "required): pass at least one column."
        )


def refuse_number(
    row: int,
    column: int,
    value: float,
    is_local: bool,
    what: str,
    names: Any,
    *,
    gaps: bool = False,
    advice: str = FILL,
) -> None:
    """Refuse a number that is not finite, and say where it is, in all rows or in its chunk.

    With ``gaps`` NaN would have been a missing value.
    """
    place = f"row {row}{' of a chunk' if is_local else ''}, column {column_name(column, names)}"
    if gaps:
        raise InputError(f"Input {what} contains infinity at {place}: use NaN for missing values.")
    kind = "NaN" if np.isnan(value) else "infinity"
    raise InputError(f"Input {what} contains NaN or infinity (first {kind} at {place}): {advice}.")


def are_moderate(largest: FloatArray) -> BoolArray:
    """Which columns can be squared, by the largest size in each; constant zeros can."""
    # Comparisons with NaN are false.
    return np.asarray((largest < LARGEST) & ((largest > SMALLEST) | (largest == 0.0)))


def refuse_gaps(
    values: FloatArray,
    what: str,
    names: Sequence[str] | None,
    *,
    gaps: bool = False,
    advice: str = FILL,
    may_be_filled: bool = False,
) -> None:
    """Refuse what cannot be squared; with ``gaps`` NaN is a missing value, and is not refused.

    Where values ``may_be_filled``, warns of numbers that mark missing values in many files.
    """
    if values.size == 0:
        return
    # Without a copy of what may be most of memory.
    high, low = (np.fmax, np.fmin) if gaps else (np.maximum, np.minimum)
    largest = high(high.reduce(values, axis=0), -low.reduce(values, axis=0))
    if gaps:
        largest = np.where(np.isnan(largest), 0.0, largest)
    if are_moderate(largest).all():
        if may_be_filled and largest.max() >= SMALLEST_FILL:
            warn_of_fills(values, what, names)
        return
    known = np.where(np.isnan(values), 0.0, values) if gaps else values
    bad = np.argwhere(~(np.abs(known) < LARGEST))
    if not bad.size:
        small = int(np.flatnonzero((largest <= SMALLEST) & (largest > 0.0))[0])
        raise InputError(
            f"Input {what} holds nothing above {largest[small]:g} in column "
            f"{column_name(small, names)}: its square is too small to compute with; use other "
            "units."
        )
    row, column = map(int, bad[0])
    worst = values[row, column]
    if np.isfinite(worst):
        raise InputError(
            f"Input {what} contains {worst:g} at row {row}, column {column_name(column, names)}: "
            "its square is too large to compute with; use other units."
        )
    refuse_number(row, column, worst, False, what, names, gaps=gaps, advice=advice)


def require_plain_numbers(
    data: Any,
    what: str,
    *,
    dates: str = "such as the year, the month or the hours since a start",
    rounded: str = ROUNDED,
) -> None:
    """Refuse values that would silently become other numbers, with advice on each.

    Masked values would count; dates would become the numbers that encode them, in whatever unit;
    whole numbers beyond 2^53 would become the nearest ones that float64 has.
    """
    refuse_mask(data, what)
    refuse_complex(getattr(data, "dtype", None), what)
    if holds_dates(data):
        raise InputError(
            f"{what} contains dates or durations: turn them into numbers first, {dates}."
        )
    refuse_rounded(data, what, rounded)


def refuse_kind(kind: Any, what: str) -> None:
    """Refuse an array of dates, or of numbers of two parts, by its dtype."""
    if getattr(kind, "kind", "") in ("m", "M"):
        require_plain_numbers(np.empty(0, dtype=kind), what)
    refuse_complex(kind, what)


def refuse_complex(kind: Any, what: str) -> None:
    """Refuse numbers of two parts, by their dtype."""
    if "complex" in str(kind):
        raise InputError(
            f"{what} holds numbers of {kind}. Complex data not supported: pass the real and the "
            "imaginary parts as columns of their own."
        )


def refuse_rounded(data: Any, what: str, advice: str = ROUNDED) -> None:
    """Refuse whole numbers of data in memory that float64 would round."""
    for values in _whole_numbers(data):
        far = values[(values > EXACT) | (values < -EXACT)].tolist()
        # Python compares a whole number with a floating-point one exactly.
        for number in far:
            if number != float(number):
                raise InputError(
                    f"{what} contains the whole number {number}, beyond 2^53, where floating-point "
                    f"numbers no longer tell neighbours apart: {advice}."
                )


def refuse_mask(data: Any, what: str) -> None:
    """Refuse masked values: the mask would be dropped silently, and they would count."""
    if isinstance(data, np.ma.MaskedArray) and np.ma.is_masked(data):
        masked = int(np.ma.getmaskarray(data).sum())
        raise InputError(
            f"{what} is an array with {masked} masked values: fill them, or drop those rows or "
            "columns first."
        )


def holds_dates(data: Any) -> bool:
    """Whether some values are dates or durations, which numpy would read as numbers."""
    kinds = list(data.dtypes) if hasattr(data, "columns") else [getattr(data, "dtype", None)]
    # pandas and numpy have a letter for it, polars a method.
    if any(
        getattr(kind, "kind", "") in ("m", "M") or getattr(kind, "is_temporal", bool)()
        for kind in kinds
    ):
        return True
    # Lists and tables of objects do not tell, and are searched where they are in memory.
    in_memory = isinstance(data, (np.ndarray, list, tuple)) or container_of(data)[0] == "pandas"
    if not in_memory or all(getattr(kind, "kind", "O") != "O" for kind in kinds):
        return False
    try:
        values = np.asarray(data)
    except (TypeError, ValueError):  # rows of different lengths, which are refused elsewhere
        return False
    # A missing number may look like a missing date.
    return values.dtype.kind in "mM" or (
        values.dtype.kind == "O"
        and any(isinstance(value, DATES) and str(value) != "NaT" for value in values.flat)
    )


def _column(frame: Any, position: int) -> Any:
    """A column of pandas or polars by its position: names may come twice."""
    return frame.iloc[:, position] if hasattr(frame, "iloc") else frame.to_series(position)


def _whole_numbers(data: Any) -> Iterator[AnyArray]:
    """Arrays of the whole numbers of 64 bits, or of any size, that a container holds."""
    if container_of(data)[0] is not None:
        kinds = list(data.dtypes) if hasattr(data, "columns") else [data.dtype]
        for position, kind in enumerate(kinds):
            letter = getattr(kind, "kind", "")
            if letter not in ("i", "u", "O") and not getattr(kind, "is_integer", bool)():
                continue
            column = data if not hasattr(data, "columns") else _column(data, position)
            known = nw.from_native(column, series_only=True).drop_nulls().to_numpy()
            yield from [known] if letter != "O" else _whole_numbers(known)
        return
    if not (hasattr(data, "dtype") or isinstance(data, (list, tuple))):
        return
    try:
        values = np.asarray(data)
    except (TypeError, ValueError):  # rows of different lengths, which are refused elsewhere
        return
    if values.dtype.kind in "iu" and values.dtype.itemsize == 8:
        yield values
    elif values.dtype.kind == "O":
        whole = [value for value in values.flat if isinstance(value, (int, np.integer))]
        yield np.array(whole, dtype=object)


#: Numbers that files write for a missing value, the defaults of NetCDF and GRIB among them.
FILLS = (
    -9999.0, -999.0, -99999.0, -9999.9, -999.9, -99.9, -32768.0, -32767.0, -2147483648.0, -1e34,
    -1e30, 1e20, 1e30, 1e36, 9.969209968386869e36,
)  # fmt: skip
#: Numbers of nines and eights (six digits, which is what is printed), and the ends of whole
#: numbers: fills only where they come again and again, and nothing else comes near.
PERHAPS = tuple(sorted({
    *FILLS, 32767.0, 65535.0, 2147483647.0,
    *(sign * float(f"{digit * whole}.{digit * decimals}") for sign in (-1, 1) for digit in "89"
      for decimals in range(3) for whole in range(2, 7 - decimals)),
}))  # fmt: skip
#: How often, and which share of the values, such a number comes at least.
OFTEN, OFTEN_SHARE = 3, 0.0005
#: It lies beyond the others by so many times their range.
FAR_BEYOND = 2.0
#: A fill is far out: this many times the usual distance from the middle.
FAR_OUT = 20.0
#: Single precision rounds a fill by less than this share.
FILL_ROUNDING = 1e-6
#: No fill is nearer to zero.
SMALLEST_FILL = min(map(abs, PERHAPS)) * (1.0 - FILL_ROUNDING)
#: What the sentence of ``warn_of_fills`` holds.
LOOKS_MISSING = ".*stands for a missing value in many files"


class Fill(NamedTuple):
    """A number that looks like a missing value, and where it is."""

    number: float
    where: BoolArray  # of the shape of the values

    @property
    def times(self) -> int:
        """How often it is there."""
        return int(self.where.sum())


def fills_in(values: FloatArray) -> Iterator[Fill]:
    """Numbers that look like missing values; the values themselves are left alone.

    Known fills that lie far from the middle of all others; and numbers of nines or eights that
    come again and again, far beyond all others, or below zero where nothing else is.
    """
    if not values.size:
        return
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    # Few data reach as far as any of them: nothing is searched there.
    if max(abs(low), abs(high)) < SMALLEST_FILL:
        return
    near = [f for f in FILLS if low - abs(f) * FILL_ROUNDING <= f <= high + abs(f) * FILL_ROUNDING]
    found = [fill for fill in (_fill(values, f) for f in near) if fill.where.any()]
    if not found and _perhaps(low) is None and _perhaps(high) is None:
        return
    others = np.isfinite(values) & ~_any(found, values)
    rest = values[others]
    middle = np.median(rest) if rest.size else 0.0
    usual = (np.median(np.abs(rest - middle)) if rest.size else 0.0) or abs(middle) or 1.0
    found = [fill for fill in found if abs(fill.number - middle) >= FAR_OUT * usual]
    yield from found
    yield from _beyond(values, np.isfinite(values) & ~_any(found, values))


def _beyond(values: FloatArray, known: BoolArray) -> Iterator[Fill]:
    """Numbers at the ends of the ``known`` values, one after the other, that may be fills."""
    often = max(OFTEN, OFTEN_SHARE * known.sum())
    ends: list[Fill] = []
    while known.any():
        rest = values[known]
        numbers = {_perhaps(rest.min()), _perhaps(rest.max())} - {None}
        new = [fill for fill in (_fill(values, f) for f in numbers if f) if fill.times >= often]
        if not new:
            break
        ends += new
        known = known & ~_any(new, values)
    for end in ends:
        # Within columns: a column with no other value is not a series with gaps.
        mine = end.where.any(axis=0)
        rest = values[:, mine][known[:, mine]]
        if not rest.size:
            continue
        low, high = rest.min(), rest.max()
        gap = max(low - end.number, end.number - high)
        far = gap >= FAR_BEYOND * (high - low) or end.number < 0.0 <= low
        if far and np.unique(rest).size >= OFTEN:  # not one of the two or three values of a code
            yield end


def _perhaps(number: float) -> float | None:
    """The number that may be a fill, as it is written; None for any other."""
    at = int(np.searchsorted(PERHAPS, number))
    near = min(PERHAPS[max(at - 1, 0) : at + 1], key=lambda fill: abs(number - fill))
    return near if abs(number - near) <= abs(near) * FILL_ROUNDING else None


def _fill(values: FloatArray, number: float) -> Fill:
    return Fill(number, np.isclose(values, number, rtol=FILL_ROUNDING, atol=0.0))


def _any(fills: list[Fill], values: FloatArray) -> BoolArray:
    """Where one of them is."""
    nowhere = np.zeros(values.shape, dtype=bool)
    return np.asarray(np.logical_or.reduce([nowhere, *(fill.where for fill in fills)]))


def without_fills(values: FloatArray) -> FloatArray:
    """A copy with NaN for what looks like a missing value, for inspection only."""
    known = values
    for fill in fills_in(values):
        known = np.where(fill.where, np.nan, known)
    return known


def warn_of_fills(values: FloatArray, what: str, names: Sequence[str] | None) -> None:
    """Warn where such a number comes more than once; nothing is changed.

    The count is left out: it would give another message for every fold of the same data.
    """
    for fill in fills_in(values):
        if fill.times < 2:
            continue
        column = int(np.argmax(fill.where.any(axis=0)))
        warn(
            f"{what} holds {fill.number:g} again and again, first in column "
            f"{column_name(column, names)} and far from all other values: it stands for a missing "
            "value in many files and is taken for a number here. Turn it into NaN, or drop those "
            "rows.",
            category=UserWarning,
        )


# -- Frames and series of pandas and polars, read and returned


def hand_back(
    values: FloatArray, labels: Sequence[Any], library: str | None, rows: Any, *, is_vector: bool
) -> Any:
    """Columns in the container the targets came in, with the row index of ``rows``."""
    if is_vector:
        return as_series(library, values[:, 0], labels[0], rows)
    return as_frame(library, values, labels, rows)


def as_frame(library: str | None, values: FloatArray, labels: Sequence[Any], rows: Any) -> Any:
    """A data frame of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        # Row by row, explicitly: a square array would be read the other way round.
        return module.DataFrame(values, schema=list(labels), orient="row")
    return module.DataFrame(values, columns=labels, index=_index(rows, len(values)))


def as_series(library: str | None, values: FloatArray, label: Any, rows: Any) -> Any:
    """A series of the named library, with the row index of ``rows``; without one the array."""
    if library is None:
        return values
    module = importlib.import_module(library)
    if library == "polars":
        return module.Series(label, values)
    return module.Series(values, name=label, index=_index(rows, len(values)))


def library_of(data: Any) -> str | None:
    """``"pandas"`` or ``"polars"`` for their frames and series, None for anything else."""
    return container_of(data)[0]


def container_of(data: Any) -> tuple[str | None, Any]:
    """Library that can hold the answer, and column labels, of a frame or series."""
    if isinstance(data, (np.ndarray, list, tuple)):
        return None, None
    known = nw.dependencies
    library, labels = None, None
    if known.is_pandas_dataframe(data) or known.is_pandas_series(data):
        library = "pandas"
    elif known.is_polars_dataframe(data) or known.is_polars_series(data):
        library = "polars"
    if library is not None:
        labels = (
            data.columns if hasattr(data, "columns") else [None if data.name == "" else data.name]
        )
    return library, labels


def _index(rows: Any, n_rows: int) -> Any:
    """The index of pandas rows, where there are as many."""
    index: Any = getattr(rows, "index", None)
    return index if hasattr(index, "get_indexer") and len(index) == n_rows else None


def as_pandas(columns: dict[str, Any], what: str) -> Any:
    """A pandas DataFrame."""
    pandas = imported("pandas", f"{what} is a data frame and needs pandas: pip install pandas")
    return pandas.DataFrame(columns)
