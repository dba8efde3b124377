"""Data to try the method on: generators with a known truth, and loaders of real sets.

A loader returns a Bunch. Its ``kind`` says what is shared: "shared" (``data``, ``target``), "own
rows" (also ``tasks``) or "own inputs" (also ``layout`` and ``inputs``). ``DESCR`` says where the
data come from, who may use them and what to beware of.
"""

from ctfa.datasets._basins import make_basins
from ctfa.datasets._catalogue import describe_dataset, get_data_home, list_datasets
from ctfa.datasets._loaders import (
    load_climate_indices,
    load_computer,
    load_cru_iberia,
    load_french_basins,
    load_mulan,
    load_parkinson,
    load_po_basins,
    load_po_vhi,
    load_sarcos,
    load_school,
    load_tecator,
    load_traffic,
)
from ctfa.datasets._qm9 import load_qm9
from ctfa.datasets._synthetic import make_gauges, make_paper_synthetic, make_task_groups

__all__ = [
    "describe_dataset",
    "get_data_home",
    "list_datasets",
    "load_climate_indices",
    "load_computer",
    "load_cru_iberia",
    "load_french_basins",
    "load_mulan",
    "load_parkinson",
    "load_po_basins",
    "load_po_vhi",
    "load_qm9",
    "load_sarcos",
    "load_school",
    "load_tecator",
    "load_traffic",
    "make_basins",
    "make_gauges",
    "make_paper_synthetic",
    "make_task_groups",
]
