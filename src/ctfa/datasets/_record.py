"""What is known about a data set that the project may not carry."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ctfa.datasets._files import DataFile, Found, find, get_data_home, place

#: One X for all targets; rows of its own for every task; inputs of its own for every target.
Kind = Literal["shared", "own rows", "own inputs", "extra features"]
MEANING: dict[str, str] = {
    "shared": "shared: all targets have the same inputs (CTFARegressor).",
    "own rows": "own rows: every task has samples of its own, of the same features, as many as it "
    "has (PooledCTFARegressor).",
    "own inputs": "own inputs: every target has inputs of its own on common dates "
    "(MultiInputCTFARegressor).",
    "extra features": "extra features: series to join to others by date.",
}


@dataclass(frozen=True)
class Record:
    """One data set: what it is, whose it is, and the files it consists of."""

    name: str
    #: How it is loaded, such as ``"load_mulan('andro')"``.
    loader: str
    title: str
    kind: Kind
    #: Samples, targets and features in words, of what the loader gives by default.
    shape: str
    #: What it is.
    about: str
    files: tuple[DataFile, ...]
    #: Where a user gets it and, if the file is made from something else, how it is made.
    source: str
    #: As the source states it.
    licence: str
    #: Who may pass it on.
    redistribution: str
    citation: str
    #: What one should know before believing a result.
    facts: str = ""

    def find(
        self,
        *,
        data_home: Any = None,
        download_if_missing: bool = True,
        only: Sequence[DataFile] | None = None,
    ) -> list[Found]:
        """Its files (or ``only`` some), checked; what is absent is downloaded or explained."""
        return [
            find(
                file,
                data_home=data_home,
                download_if_missing=download_if_missing,
                source=self.source,
            )
            for file in (self.files if only is None else only)
        ]

    def present(self, data_home: Any = None) -> bool:
        """Whether all its files are there; they are not read."""
        home = get_data_home(data_home)
        return all(place(file, home) is not None for file in self.files)

    @property
    def description(self) -> str:
        """The text that a loader gives as ``DESCR``."""
        sections = {
            "What it is": self.about,
            "Shape": self.shape,
            "Kind": MEANING[self.kind],
            "Worth knowing": self.facts,
            "Where to get it": f"{self.source} {self._layout}",
            "Licence": self.licence,
            "Redistribution": self.redistribution,
            "Citation": self.citation,
        }
        text = [self.title, "=" * len(self.title), ""]
        for heading, body in sections.items():
            if body:
                text += [
                    heading,
                    "-" * len(heading),
                    textwrap.fill(body, 88, break_on_hyphens=False),
                    "",
                ]
        return "\n".join(text)

    @property
    def _layout(self) -> str:
        names = " and ".join(file.path for file in self.files)
        return f"In the folder of data (data_home, or CTFA_DATA) it is {names}, gzipped or not."
