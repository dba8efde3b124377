"""All data sets that have a loader, as ``records.toml`` tells of them."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from ctfa.datasets._files import DataFile, get_data_home, place

#: One X for all targets; rows of its own for every task; inputs of its own for every target.
Kind = Literal["shared", "own rows", "own inputs", "extra features"]
MEANING: dict[Kind, str] = {
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
    #: The part of it that every figure on these data should be read with.
    leak: str = ""

    def present(self, data_home: Any = None) -> bool:
        """Whether all its files are there; they are not read."""
        home = get_data_home(data_home)
        return all(place(file, home) is not None for file in self.files)

    @property
    def description(self) -> str:
        """The text that a loader gives as ``DESCR``."""
        paths = " and ".join(file.path for file in self.files)
        sections = {
            "What it is": self.about,
            "Shape": self.shape,
            "Kind": MEANING[self.kind],
            "Worth knowing": self.facts,
            "Where to get it": f"{self.source} In the folder of data (data_home, or CTFA_DATA) it "
            f"is {paths}, gzipped or not.",
            "Licence": self.licence,
            "Redistribution": self.redistribution,
            "Citation": self.citation,
        }
        text = [self.title, "=" * len(self.title), ""]
        for heading, body in sections.items():
            if body:
                filled = textwrap.fill(body, 88, break_on_hyphens=False)
                text += [heading, "-" * len(heading), filled, ""]
        return "\n".join(text)


@cache
def records() -> dict[str, Record]:
    """Every set by its name; read at the first call."""
    text = (resources.files("ctfa.datasets") / "records.toml").read_text(encoding="utf-8")
    return read_records(text)


def read_records(text: str) -> dict[str, Record]:
    """Records as TOML tells them; a field that is unknown or missing is an error."""
    told = tomllib.loads(text)
    found = {}
    for name, own in told["sets"].items():
        family = told["families"][own.pop("family")] if "family" in own else {}
        found[name] = _record({"name": name, **family, **own})
    return found


def _record(told: Mapping[str, Any]) -> Record:
    """White space is one space, and ``{name}`` is what the field of that name says."""
    fields = {key: " ".join(value.split()) for key, value in told.items() if key != "files"}
    filled: dict[str, Any] = {key: text.format_map(fields) for key, text in fields.items()}
    files = (file | {"arrays": tuple(file.get("arrays", ()))} for file in told["files"])
    return Record(**filled, files=tuple(DataFile(**file) for file in files))


class ListedDataset(NamedTuple):
    """One line of ``list_datasets``."""

    name: str
    loader: str
    kind: str
    shape: str
    present: bool
    licence: str


def list_datasets(data_home: Any = None) -> list[ListedDataset]:
    """Return what there is to load, and whether its files are there.

    Parameters
    ----------
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.

    Returns
    -------
    list of ListedDataset
        Named tuples with ``name``, ``loader`` (how it is called), ``kind``, ``shape``, ``present``
        (all files are there; they are not read) and ``licence`` as the source states it.

    Examples
    --------
    >>> from ctfa.datasets import list_datasets
    >>> school = next(line for line in list_datasets() if line.name == "school")
    >>> school.loader, school.kind
    ('load_school()', 'own rows')
    """
    return [
        ListedDataset(r.name, r.loader, r.kind, r.shape, r.present(data_home), r.licence)
        for r in records().values()
    ]


def describe_dataset(name: str) -> str:
    """Return the ``DESCR`` of a data set, which need not be there.

    Parameters
    ----------
    name : str
        One of the names of ``list_datasets``.

    Returns
    -------
    str

    Examples
    --------
    >>> from ctfa.datasets import describe_dataset
    >>> print(describe_dataset("school").splitlines()[0])
    School: exam scores in London
    """
    known = records()
    if name not in known:
        raise ValueError(f"There is no data set {name!r}: give one of {', '.join(known)}.")
    return known[name].description


def dataset_table(data_home: Any = None) -> str:
    """What ``list_datasets`` gives, as a table to print."""
    lines = list_datasets(data_home)
    rows = [("name", "loader", "kind", "here", "shape")]
    rows += [
        (line.name, line.loader, line.kind, "yes" if line.present else "no", line.shape)
        for line in lines
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        "  ".join(f"{entry:{width}}" for entry, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    n_here = sum(line.present for line in lines)
    table += ["", f"{n_here} of {len(lines)} are in {get_data_home(data_home)}"]
    table += ["ctfa datasets NAME says what one is, its licence and where to get it"]
    return "\n".join(table)
