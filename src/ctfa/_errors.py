"""Error messages in pieces, so that every interface names options in its own way.

Options are ``n_groups=3`` in Python, ``n_regions=3`` for labelled data and ``--regions 3`` in a
terminal. A message is written once, for Python; the other interfaces rename the options in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

#: Value of an option that is only named.
UNSAID: Any = ...


class Option(NamedTuple):
    """An option in a message, written as in Python unless an interface writes it otherwise."""

    name: str
    value: Any = UNSAID

    def __str__(self) -> str:
        return self.name if self.value is UNSAID else f"{self.name}={self.value!r}"


class Message(str):
    """A text made of pieces: options, and words, of which one by itself may have another name."""

    pieces: tuple[str | Option, ...]

    def __new__(cls, *pieces: str | Option) -> Self:
        """Put pieces together, those of messages among them one by one."""
        flat: list[str | Option] = []
        for piece in pieces:
            flat += piece.pieces if isinstance(piece, Message) else [piece]
        made = super().__new__(cls, "".join(map(str, flat)))
        made.pieces = tuple(flat)
        return made

    def renamed(self, names: Mapping[str, str | Option]) -> Message:
        """The same with other names of options, and for words that are a piece by themselves."""
        found: list[str | Option] = []
        for piece in self.pieces:
            if isinstance(piece, Option):
                found.append(piece._replace(name=str(names.get(piece.name, piece.name))))
            else:
                found.append(names.get(piece, piece))
        return Message(*found)

    def written(self, write: Callable[[Option], str]) -> str:
        """The text with every option written in some way."""
        return "".join(write(p) if isinstance(p, Option) else p for p in self.pieces)


class InputError(ValueError):
    """What is wrong with data or options, and what to do, written once for every interface."""

    def __init__(self, *pieces: str | Option) -> None:
        super().__init__(Message(*pieces))

    @property
    def message(self) -> Message:
        """What it says."""
        message: Message = self.args[0]
        return message

    @property
    def options(self) -> dict[str, Any]:
        """Options that it is about, by name, with their values where these are said."""
        found = [piece for piece in self.message.pieces if isinstance(piece, Option)]
        return {option.name: option.value for option in reversed(found)}

    def renamed(self, names: Mapping[str, str | Option]) -> InputError:
        """The same about options of other names."""
        return InputError(self.message.renamed(names))
