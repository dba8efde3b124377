"""All data sets that have a loader."""

from __future__ import annotations

from typing import Any, NamedTuple

from ctfa.datasets._files import Record, get_data_home
from ctfa.datasets._mulan import MULAN
from ctfa.datasets._own_rows import COMPUTER, PARKINSON, SCHOOL
from ctfa.datasets._po_basins import PO_BASINS
from ctfa.datasets._qm9 import QM9
from ctfa.datasets._series import CLIMATE_INDICES, CRU_IBERIA, FRENCH_BASINS, TRAFFIC
from ctfa.datasets._shared import SARCOS, TECATOR

#: Every set by its name; a new one is one more line here.
RECORDS: dict[str, Record] = {
    record.name: record
    for record in (
        SARCOS,
        TECATOR,
        *MULAN.values(),
        QM9,
        SCHOOL,
        PARKINSON,
        COMPUTER,
        PO_BASINS,
        CRU_IBERIA,
        FRENCH_BASINS,
        TRAFFIC,
        CLIMATE_INDICES,
    )
}


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
        ListedDataset(
            record.name,
            record.loader,
            record.kind,
            record.shape,
            record.present(data_home),
            record.licence,
        )
        for record in RECORDS.values()
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
    if name not in RECORDS:
        known = ", ".join(RECORDS)
        raise ValueError(f"There is no data set {name!r}: give one of {known}.")
    return RECORDS[name].description


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
