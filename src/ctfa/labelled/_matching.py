"""Labels that mean the same task, whatever a file has made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from ctfa.core.types import IntArray
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
        # Six digits after the point hold a degree to a decimetre, and forgive single precision.
        whole = math.isfinite(label) and label == int(label)
        return int(label) if whole else f"{label:.6f}"
    if isinstance(label, bool | int):
        return int(label)
    return str(label)


def keys(labels: Iterable[Any]) -> list[Hashable]:
    """The same for many."""
    return [key(label) for label in labels]


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
