"""Where in labelled data the arrays of a model are found, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


class Slot(NamedTuple):
    """One feature: its name, what is said of it, and whether it is the same for every task."""

    name: str
    attrs: dict[str, Any]
    shared: bool

    @property
    def units(self) -> str:
        """Its units; empty where nothing is said of them."""
        return str(self.attrs.get("units", ""))


@dataclass(frozen=True, eq=False)
class Plan:
    """Names, dimensions and attributes, as they were when the model was fitted."""

    target: str
    target_attrs: dict[str, Any]
    dims: tuple[str, ...]  # of the target, in its order
    sample: str
    slots: tuple[Slot, ...]
    feature_dim: str | None = None  # where features came in one array, the dimension they lay on

    @property
    def task_dims(self) -> tuple[str, ...]:
        """Dimensions of the tasks, in the order of the target's."""
        return tuple(dim for dim in self.dims if dim != self.sample)

    @property
    def is_shared(self) -> bool:
        """Whether every feature is the same for all tasks."""
        return all(slot.shared for slot in self.slots)

    @property
    def target_units(self) -> str:
        """Units of the target; empty where nothing is said of them."""
        return str(self.target_attrs.get("units", ""))

    @property
    def target_words(self) -> str:
        """What the target is, for people."""
        return str(self.target_attrs.get("long_name", self.target))
