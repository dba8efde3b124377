"""Units of labelled data: spelled alike, converted where that is possible, else refused.

Units are text that people write in many ways. Two that differ in spelling alone are told here, by
no library. Where they differ in kind or size, cf-units converts (udunits itself, which the CF
conventions are written by), else pint; without either, or where the two do not measure the same,
one sentence says so.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

#: What says that nothing is known.
_NOTHING = ("", "?", "~", "n/a", "na", "nan", "none", "null", "undefined", "unknown")
#: What says that a number has no dimension.
_PLAIN = (
    "1", "-", "--", "(0-1)", "0-1", "[0-1]", "count", "counts", "dimensionless", "fraction",
    "index", "non-dim", "nondimensional", "number", "numeric", "proportion", "ratio", "unitless",
    "unity",
)  # fmt: skip
#: Names by the symbol that both libraries know. In lower case: symbols are told by their case.
_SYMBOLS = {
    "m": "meter meters metre metres",
    "km": "kilometer kilometers kilometre kilometres kms",
    "cm": "centimeter centimeters centimetre centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "inch": "inches in",
    "ft": "foot feet",
    "mile": "miles mi",
    "s": "second seconds sec secs",
    "min": "minute minutes mins",
    "h": "hour hours hr hrs",
    "day": "days d",
    "month": "months mon",
    "year": "years yr yrs annum",
    "kg": "kilogram kilograms",
    "g": "gram grams",
    "K": "kelvin kelvins degk",
    "degC": "celsius degc",
    "degF": "fahrenheit degf",
    "Pa": "pascal pascals",
    "hPa": "hectopascal hectopascals",
    "mbar": "millibar millibars mb",
    "W": "watt watts",
    "J": "joule joules",
    "knot": "knots kt kts",
    "percent": "pct",
    "radian": "radians rad",
    "degree": "degrees deg",
}
_NAMES = {name: symbol for symbol, names in _SYMBOLS.items() for name in names.split()}
#: Whole texts that stand for others.
_SHORT = {
    "C": "degC", "F": "degF", "mph": "mile/h", "kph": "km/h", "kmh": "km/h", "cfs": "ft3/s",
    "cumec": "m3/s", "cumecs": "m3/s",
}  # fmt: skip
_TEMPERATURE = re.compile(
    r"(?:deg(?:ree)?s?|[°º])[\s._]*(?:(c)(?:elsius)?|(f)(?:ahrenheit)?|(k)(?:elvins?)?)(?![a-z])",
    re.IGNORECASE,
)
_ANGLE = re.compile(
    r"(?:deg(?:ree)?s?|[°º])[\s._]*(?:true|north|east|[ne])(?![a-z])|[°º]", re.IGNORECASE
)
#: One factor: what it is divided by or not, a number or a name, and its power.
_FACTOR = re.compile(
    r"\s*(/?)\s*(?:(\d{1,15}\.?\d{0,15}(?:[eE][+-]?\d{1,3})?)|([A-Za-z_]+))"
    r"(?:\^\(?([+-]?\d{1,2})\)?|([+-]?\d{1,2}))?(?!\d)"
)
_RAISED = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹−µμ·⋅×", "-+0123456789-uu   ")  # noqa: RUF001
#: Spans whose length is a matter of the calendar.
_CALENDAR = re.compile(r"(?<![A-Za-z])((?i:months?|mon|years?|yrs?|annum)|a)(?![A-Za-z])")
#: What says that a temperature is a difference of two, without an origin.
_DIFFERENCE = re.compile(
    r"anom|departure|standard[ _](deviation|error)|stdd?ev|difference|spread|tendency|uncertaint"
    r"|temp(erature)?[ _]range|: range|(?<![a-z])(std|sd|dtr|diff)(?![a-z])|delta_|Δ",
    re.IGNORECASE,
)
_TOLD_BY = ("standard_name", "long_name", "cell_methods")
#: Ends of texts that say what lies there, and not how deep.
_OF_WATER = re.compile(r"\s+(?:of\s+)?water(?:\s+equivalent)?$|\s+w\.?e\.?$", re.IGNORECASE)
#: So far from zero the rounding of an origin does not matter to a slope.
_FAR = 2.0**20
#: Shares by which a straight line may be missed, and a short number by the rounding of a library.
_STRAIGHT, _ROUNDED = 1e-9, 1e-14


class Conversion(NamedTuple):
    """``factor * value + offset``."""

    factor: float
    offset: float
    is_difference: bool = False  # of two temperatures: the offset cancels

    def __call__(self, values: Any) -> Any:
        """Numbers in other units, in double precision; lazy where they are."""
        values = values.astype(np.float64)
        if self.factor != 1.0:
            values = values * self.factor
        return values + self.offset if self.offset else values

    def __str__(self) -> str:
        parts = [f"times {self.factor:.6g}"] if self.factor != 1.0 else []
        if self.offset:
            parts.append(f"{'plus' if self.offset > 0 else 'minus'} {abs(self.offset):.7g}")
        if self.is_difference:
            parts.append("without an offset, as a difference of temperatures")
        return ", ".join(parts)


def units_of(attrs: Mapping[str, Any]) -> str:
    """What attributes say of units; empty where they say nothing."""
    said = " ".join(str(attrs.get("units", "")).split())
    return "" if said.lower() in _NOTHING else said


class Powers(NamedTuple):
    """Units as a product: a number, and symbols with their powers, in the order of the alphabet."""

    factor: float
    symbols: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        parts = [f"{self.factor:.15g}"] if self.factor != 1.0 else []
        return " ".join(parts + [f"{s}{p}" if p != 1 else s for s, p in self.symbols])


def spelled(units: str) -> Powers | str:
    """Units in one spelling: ``m/s``, ``m s**-1`` and ``metres per second`` are ``m s-1``.

    Text that is not a product of powers stays as it is.
    """
    text = _OF_WATER.sub("", " ".join(units.replace("delta_", "").replace("Δ", "").split()))
    if text.lower().replace(" ", "") in (*_NOTHING, *_PLAIN):
        return Powers(1.0, ())
    text = _SHORT.get(text, text).translate(_RAISED)
    text = _TEMPERATURE.sub(lambda m: "K" if m[3] else f"deg{(m[1] or m[2]).upper()}", text)
    text = _ANGLE.sub("degree", text).replace("%", "percent").replace("**", "^").replace("*", " ")
    text = re.sub(r"\s+per\s+", "/", text)
    text = re.sub(r"(?<=[A-Za-z\d])\.(?=[A-Za-z])", " ", text)  # m.s-1
    # kg/(m2 s)
    text = re.sub(r"/\s*\(([^()/]*)\)", lambda m: "".join(f"/{x}" for x in m[1].split()), text)
    factor, powers, at = 1.0, dict[str, int](), 0
    try:
        while at < len(text):
            found = _FACTOR.match(text, at)
            if found is None:
                return text
            over, number, name, *power = found.groups()
            exponent = int(power[0] or power[1] or 1) * (-1 if over else 1)
            if number is not None:
                factor *= float(number) ** exponent
            else:
                symbol = _NAMES.get(name.lower() if len(name) > 1 else name, name)
                powers[symbol] = powers.get(symbol, 0) + exponent
            at = found.end()
    except ArithmeticError:
        return text
    known = 0.0 < factor < np.inf
    return Powers(factor, tuple(sorted((s, p) for s, p in powers.items() if p))) if known else text


def conversion(
    what: str, given: Mapping[str, Any], wanted: Mapping[str, Any], where: str = "in fit it was"
) -> Conversion | None:
    """How numbers with some attributes become those with others; None where they are in the same.

    None too where one of them does not say: they cannot be compared then. A temperature that is an
    anomaly, a range or a standard deviation has no origin, and gets none.
    """
    mine, theirs = units_of(given), units_of(wanted)
    if not mine or not theirs or spelled(mine) == spelled(theirs):
        return None
    told = f"{what} is in {mine!r}, {where} in {theirs!r}"
    if (_CALENDAR.search(mine) is None) != (_CALENDAR.search(theirs) is None):
        raise ValueError(
            f"{told}: a month or a year has no fixed length, so convert {what} by its calendar "
            "first."
        )
    found = _affine(told, what, mine, theirs)
    if found.offset and _is_difference(told, (given, wanted), (what, mine, theirs)):
        return Conversion(found.factor, 0.0, is_difference=True)
    return None if found == (1.0, 0.0, False) else found


def in_units_of_fit(arrays: Sequence[Any], slots: Iterable[Any]) -> list[Any]:
    """Features in the units that they had in fit; what was done, and what is not known, is told."""
    pairs = list(zip(arrays, slots, strict=True))
    steps = [conversion(slot.name, array.attrs, slot.attrs) for array, slot in pairs]
    silent = [
        f"{slot.name} ({slot.units!r})"
        for array, slot in pairs
        if str(spelled(slot.units)) and not units_of(array.attrs)
    ]
    if silent:
        warnings.warn(
            f"the data to predict from do not say the units of {', '.join(silent[:8])}"
            f"{f' and {len(silent) - 8} more' if len(silent) > 8 else ''}: they are taken to be "
            "those of fit.",
            UserWarning,
            stacklevel=4,
        )
    return [
        array if step is None else _converted(array, step, slot.attrs, slot.name)
        for (array, slot), step in zip(pairs, steps, strict=True)
    ]


def on_units_of(array: Any, target: Any, dim: str) -> Any:
    """An array whose labels along a dimension are numbers in the units that the target's are in."""
    if dim not in array.coords or dim not in target.coords:
        return array
    coordinate, wanted = array.coords[dim], target.coords[dim].attrs
    if coordinate.dtype.kind not in "iuf":
        return array
    step = conversion(dim, coordinate.attrs, wanted, "with the other data it is")
    if step is None:
        return array
    return array.assign_coords({dim: _converted(coordinate, step, wanted, dim)})


def without_quantity(array: Any) -> Any:
    """An array of pint's quantities as numbers and an attribute ``units``; any other as it is."""
    # No element is looked at: the data may still be in a file.
    held = array.isel(dict.fromkeys(array.dims, slice(0, 0))).data
    if not hasattr(held, "magnitude") or not hasattr(held, "units"):
        return array
    return array.copy(data=array.data.magnitude).assign_attrs(units=f"{held.units:~C}")


def _converted(array: Any, step: Conversion, wanted: Mapping[str, Any], name: str) -> Any:
    warnings.warn(
        f"{name} is converted from {units_of(array.attrs)!r} to {units_of(wanted)!r} ({step}).",
        UserWarning,
        stacklevel=5,
    )
    return step(array).assign_attrs({**array.attrs, "units": wanted["units"]})


def _is_difference(told: str, sides: Iterable[Mapping[str, Any]], names: Iterable[str]) -> bool:
    """Whether a quantity is a difference of two, by what either side says of it."""
    sides = list(sides)
    said = {
        str(attrs["units_metadata"]).split()[-1] for attrs in sides if "units_metadata" in attrs
    }
    if {"difference", "on_scale"} <= said:
        raise ValueError(
            f"{told}, and units_metadata calls one a difference and the other not: give the same "
            "quantity."
        )
    if said:
        return "difference" in said
    words = [str(attrs.get(key, "")) for attrs in sides for key in _TOLD_BY]
    return any(_DIFFERENCE.search(text) is not None for text in (*words, *names))


def _affine(told: str, what: str, mine: str, theirs: str) -> Conversion:
    """What a library makes of two units; a refusal where it cannot."""
    for name, module, convert in (("cf-units", "cf_units", _udunits), ("pint", "pint", _pint)):
        try:
            by, of_library = name, partial(convert, importlib.import_module(module))
        except ImportError:
            continue
        break
    else:
        raise ValueError(
            f"{told}: convert {what}, or pip install 'ctfa[units]' (pint), which lets ctfa do it."
        )
    try:
        at = of_library(mine, theirs)
    except LookupError as unknown:
        raise ValueError(
            f"{told}, and {by} cannot read {unknown.args[0]!r}: convert {what}, or, if the two are "
            "the same, spell them alike."
        ) from None
    if at is None:
        raise ValueError(
            f"{told}, which measures something else: give {what} in {theirs!r}, or, if its units "
            "attribute is wrong, correct or drop it."
        )
    start, near, far = at(0.0), at(1.0), at(_FAR)
    factor = (far - start) / _FAR
    size = abs(factor) + abs(start)
    if not np.isfinite(factor) or not abs(start + factor - near) <= _STRAIGHT * size:
        raise ValueError(f"{told}, and one is not a multiple of the other: convert {what} first.")
    return Conversion(_short(factor), _short(start))


def _short(value: float) -> float:
    """A number without the digits that rounding has left: 1 and not 0.9999999999999998."""
    short = float(f"{value:.12g}")
    return short if abs(value - short) <= _ROUNDED * abs(value) else float(value)


# From two units to how a number goes from one to the other, of a library; None where the two do not
# measure the same, an error of looking up where one of them is not known.


def _udunits(cf_units: Any, mine: str, theirs: str) -> Callable[[float], float] | None:
    units = []
    with cf_units.suppress_errors():  # udunits writes to the terminal by itself
        for text in (mine, theirs):
            try:
                units.append(cf_units.Unit(str(spelled(text)) or "1"))
            except ValueError:
                raise LookupError(text) from None
        if not units[0].is_convertible(units[1]):
            return None
    return lambda value: float(units[0].convert(value, units[1]))


def _pint(pint: Any, mine: str, theirs: str) -> Callable[[float], float] | None:
    registry = pint.get_application_registry()
    factors, units = [], []
    for text in (mine, theirs):
        known = spelled(text)
        if isinstance(known, str):  # its parser would compute 9**9**9
            raise LookupError(text)
        try:
            product = " * ".join(f"{symbol}**{power}" for symbol, power in known.symbols)
            units.append(registry.parse_units(product))
        except Exception:  # of many kinds
            raise LookupError(text) from None
        factors.append(known.factor)
    if not units[0].is_compatible_with(units[1]):
        return None
    return lambda value: float(
        registry.Quantity(value * factors[0], units[0]).to(units[1]).magnitude / factors[1]
    )
