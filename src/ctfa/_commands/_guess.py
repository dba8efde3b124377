"""What the variables of a file are for, where nobody says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ctfa._commands._contents import COUNTED, SAMPLES, Contents, Variable
from ctfa.labelled._gather import LAYERS

#: What is usually asked for, in lower case.
TARGETS = (
    "target", "y", "vhi", "ndvi", "evi", "lai", "sif", "gpp", "nee", "yield", "discharge",
    "streamflow", "runoff", "flow", "q", "qobs", "swe", "gwl", "level", "load", "demand",
)  # fmt: skip
#: What tasks are usually called.
TASKS = (
    "basin", "basin_id", "hybas_id", "station", "station_id", "gauge", "gauge_id", "site", "cell",
    "id", "task", "location", "point", "region", "country", "county", "node", "space",
)  # fmt: skip
#: Pairs of names that say where a row of a table lies, which is no feature.
PLACES = (("lat", "lon"), ("latitude", "longitude"), ("y", "x"), ("northing", "easting"))
#: Columns that say again when a row was, which a column of dates says already.
CALENDAR = ("year", "month", "week", "day", "hour", "quarter", "doy", "dayofyear", "day_of_year")


@dataclass(frozen=True)
class Roles:
    """Which variable is what; ``guessed`` names the roles that nobody gave."""

    target: str | list[str] | None
    features: list[str]
    sample: str | None
    task: list[str]
    guessed: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The same for JSON."""
        return {**vars(self), "guessed": list(self.guessed)}


def guess_roles(
    contents: Contents,
    *,
    target: str | list[str] | None = None,
    features: Sequence[str] = (),
    sample: str | None = None,
    task: Sequence[str] = (),
) -> Roles:
    """Fill in what was not given; a role that cannot be guessed stays empty."""
    by_hand = {"target": target, "features": features, "sample": sample, "task": task}
    guess = _of_table if contents.form == "table" else _of_arrays
    roles = guess(contents, target, list(features), sample, list(task))
    guessed = tuple(role for role, given in by_hand.items() if not given and getattr(roles, role))
    return Roles(roles.target, roles.features, roles.sample, roles.task, guessed)


def _of_arrays(
    contents: Contents,
    target: str | list[str] | None,
    features: list[str],
    sample: str | None,
    task: list[str],
) -> Roles:
    times = [c.name for c in contents.coordinates if c.kind == "time" and c.dims == (c.name,)]
    dims = list(contents.sizes)
    named = [dim for name in SAMPLES for dim in dims if dim.lower() == name]
    sample = sample or next(iter(times or named), None)
    along = [v for v in contents.variables if v.is_number and sample in v.dims]
    if isinstance(target, str):
        wanted = [v for v in contents.variables if v.name == target]
    else:
        candidates = [v for v in along if len(v.dims) > 1 and v.name not in features]
        wanted = _likely(candidates)
    found = wanted[0] if wanted else None
    layers = {dim for dim in dims if dim.lower() in LAYERS and dim not in task}
    if not task and found is not None:
        places = [dim for dim in found.dims if dim != sample]
        task = [dim for dim in places if dim not in layers] or places
    if not features and found is not None:
        allowed = {sample, *task, *layers}
        features = [v.name for v in along if v.name != found.name and set(v.dims) <= allowed]
    name = target if target is not None else found.name if found else None
    return Roles(name, features, sample, task)


def _of_table(
    contents: Contents,
    target: str | list[str] | None,
    features: list[str],
    sample: str | None,
    task: list[str],
) -> Roles:
    columns = contents.variables
    used = {*([target] if isinstance(target, str) else target or ()), *features, *task}
    if sample is None:
        times = [v.name for v in columns if v.kind == "time" and v.name not in used]
        known = [v.name for name in SAMPLES for v in columns if v.name.lower() == name]
        sample = next(iter(times or [name for name in known if name not in used]), None)
    if not task and not isinstance(target, list):
        free = [v for v in columns if v.name not in {*used, sample} and v.kind != COUNTED]
        named = [v.name for name in TASKS for v in free if v.name.lower() == name]
        words = [v.name for v in free if v.kind == "text"]
        task = (named or words)[:1]
    lower = {v.name.lower() for v in columns}
    where = {name for pair in PLACES if set(pair) <= lower for name in pair}
    if any(v.kind == "time" and v.name == sample for v in columns):
        where |= set(CALENDAR)
    taken = {*used, sample, *task}
    free = [
        v for v in columns if v.is_number and v.name not in taken and v.name.lower() not in where
    ]
    if target is None and not task:
        return Roles(None, features, sample, task)  # nobody knows which columns are targets
    if target is None:
        likely = _likely(free)
        target = likely[0].name if likely else None
    names = [v.name for v in free if v.name != target]
    return Roles(target, features or names, sample, task)


def _likely(candidates: list[Variable]) -> list[Variable]:
    """Those that are usually asked for come first, then in the order of the file."""
    known = {name: place for place, name in enumerate(TARGETS)}
    return sorted(candidates, key=lambda v: known.get(v.name.lower(), len(known)))
