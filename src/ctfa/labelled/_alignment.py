"""Features put on the rows and the tasks of their target, by label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ctfa.labelled._extras import need
from ctfa.labelled._units import on_units_of
from ctfa.labelled._words import listed, word


def same_tasks(array: Any, tasks: Any) -> Any:
    """An array on tasks that were fitted, in their order; they are found by their labels."""
    return on_tasks(array, Template(tasks), tasks.dims)


class Template:
    """The tasks of fit, for other data to be put in their order."""

    def __init__(self, tasks: Any) -> None:
        known = {*tasks.coords.variables, *tasks.coords.levels}
        self.coords = tasks.coords.variables
        self.sizes = dict(zip(tasks.dims, tasks.shape, strict=True))
        self.indexes = {dim: tasks.coords.index(dim) for dim in tasks.dims if dim in known}


def same_rows(
    target: Any, slots: list[Any], sample: str, notes: list[str]
) -> tuple[Any, list[Any]]:
    """The rows that all have."""
    xarray = need("xarray")
    arrays = [target, *slots]
    if any(sample not in array.indexes for array in arrays):
        lengths = {array.sizes[sample] for array in arrays}
        if len(lengths) > 1:
            raise ValueError(
                f"target and features have {listed(sorted(lengths))} rows along {sample!r}, which "
                "has no labels to match them by."
            )
        return target, slots
    if all(array.indexes[sample].equals(target.indexes[sample]) for array in slots):
        return target, slots
    others = [dim for array in arrays for dim in array.dims if dim != sample]
    aligned = xarray.align(*arrays, join="inner", exclude=set(others))
    n_common, n_rows = aligned[0].sizes[sample], target.sizes[sample]
    if not n_common:
        spans = "; ".join(
            f"{array.name} from {word(array.indexes[sample][0])} to "
            f"{word(array.indexes[sample][-1])}"
            for array in (target, slots[0])
        )
        raise ValueError(f"target and features have no {sample} in common: {spans}.")
    if n_common < n_rows:
        notes.append(f"{n_rows - n_common:,} of {n_rows:,} rows have no features and are left out")
    return aligned[0], list(aligned[1:])


def require_once(index: Any, dim: str) -> None:
    """Refuse labels that come twice."""
    twice = index[index.duplicated()]
    if len(twice):
        raise ValueError(
            f"{dim} has {len(twice):,} value{'s' * (len(twice) > 1)} more than once, the first "
            f"{word(twice[0])}: every {dim} must come once. Drop or average the copies "
            f"(ds.groupby({dim!r}).mean(), or drop_duplicates({dim!r}))."
        )


def on_tasks(slot: Any, target: Any, tasks: Sequence[str]) -> Any:
    """A feature on the tasks of the target, in their order."""
    for dim in tasks:
        if dim not in slot.dims:
            continue
        slot = on_units_of(slot, target, dim)
        theirs, mine = slot.indexes.get(dim), target.indexes.get(dim)
        if theirs is None or mine is None:
            if slot.sizes[dim] != target.sizes[dim]:
                raise ValueError(
                    f"{slot.name} has {slot.sizes[dim]:,} values along {dim!r} and "
                    f"{target.sizes[dim]:,} are needed."
                )
            continue
        if theirs.equals(mine):
            continue
        require_once(theirs, dim)
        places = theirs.get_indexer(mine)
        missing = mine[places < 0]
        if len(missing):
            raise ValueError(
                f"{slot.name} lacks {len(missing):,} of {len(mine):,} values of {dim}, the first "
                f"{word(missing[0])} (it has {word(theirs[0])}, ...): the two must name the same."
            )
        slot = slot.isel({dim: places})
    return slot
