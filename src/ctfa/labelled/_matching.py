"""Labels that mean the same task, whatever a file has made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from ctfa.core.types import IntArray
from ctfa.labelled._coordinates import find_labels, longitudes
from ctfa.labelled._extras import need
from ctfa.labelled._tasks import Tasks

#: A whole number as text. One with leading zeros is a code and another label without them.
_WHOLE = re.compile(r"-?(0|[1-9]\d*)(\.0+)?")

#: How missing values of all libraries write themselves.
_MISSING = ("nan", "NaT", "<NA>")


def key(label: Any) -> Hashable:
    """What a label is compared by: 12, "12", "12.0" and 12.0 are the same, "012" is another.

    Identifiers change their type on the way through files: a column with a gap comes back as
    floats, one from a shapefile as text. None for a missing label.
    """
    if isinstance(label, tuple | list):
        return tuple(map(key, label))
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        text = label.strip()
        return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else text
    if label is None or str(label) in _MISSING:
        return None
    if isinstance(label, float):
        # Six digits after the point hold a degree to a decimetre.
        whole = math.isfinite(label) and label == int(label)
        return int(label) if whole else f"{label:.6f}"
    if isinstance(label, bool | int):
        return int(label)
    return str(label)


def keys(labels: Iterable[Any]) -> list[Hashable]:
    """The same for many."""
    return [key(label) for label in labels]


def keys_like(labels: Iterable[Any], tasks: Tasks) -> list[Hashable]:
    """Keys of labels that should be of these tasks, whatever a file has made of their numbers.

    Coordinates that differ from those of the tasks by rounding, or by a whole turn, are theirs.
    """
    labels, parts = list(labels), tasks.parts
    if len(parts) > 1 and not all(isinstance(x, tuple | list) for x in labels):
        return keys(labels)
    columns = [labels] if len(parts) == 1 else list(map(list, zip(*labels, strict=True)))
    if len(columns) != len(parts):
        return keys(labels)
    columns = [_as_coordinate(c, p, tasks) for c, p in zip(columns, parts, strict=True)]
    return keys(columns[0] if len(parts) == 1 else zip(*columns, strict=True))


def _as_coordinate(labels: list[Any], name: str, tasks: Tasks) -> list[Any]:
    """Numbers as a coordinate of the tasks has them; others, and what is no coordinate, as is."""
    coordinate = tasks.coords.variables.get(name)
    index = need("pandas").Index(labels)
    kinds = "" if coordinate is None else coordinate.values.dtype.kind + index.dtype.kind
    if coordinate is None or "f" not in kinds or not set(kinds) <= set("iuf"):
        return labels
    among = need("pandas").Index(np.unique(coordinate.values), name=name)
    found = find_labels(index, among, longitudes([name], tasks.coords.variables))
    return [labels[k] if at < 0 else among[at] for k, at in enumerate(found.tolist())]


def task_keys(tasks: Tasks) -> dict[Hashable, int]:
    """Number of each task by its key."""
    return {k: number for number, k in enumerate(keys(tasks.labels))}


def every_key(tasks: Tasks) -> set[Hashable]:
    """Keys of all tasks, masked ones too."""
    along = [keys(tasks.coords.index(dim)) for dim in tasks.dims]
    if len(along) == 1:
        return set(along[0])
    return {(first, second) for first in along[0] for second in along[1]}


def positions_of(wanted: Sequence[Hashable], among: Iterable[Hashable]) -> IntArray:
    """Where each wanted key is first found among others; -1 where it is not."""
    found: dict[Hashable, int] = {}
    for number, k in enumerate(among):
        found.setdefault(k, number)
    return np.array([found.get(k, -1) for k in wanted], dtype=np.intp)


def some(labels: Iterable[Any], how_many: int = 3) -> str:
    """The first few of many labels, for a sentence."""
    words = [str(x.item() if isinstance(x, np.generic) else x) for x in labels]
    return ", ".join(words[:how_many]) + (", ..." if len(words) > how_many else "")
