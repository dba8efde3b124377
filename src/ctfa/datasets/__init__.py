"""Data to try the method on: generators with a known truth, and loaders of real sets.

A loader gives a Bunch. Its ``kind`` says who shares what: "shared" (``data``, ``target``), "own
rows" (also ``tasks``) or "own inputs" (also ``layout`` and ``inputs``). ``DESCR`` says where the
data come from, who may use them and what to beware of.
"""

from ctfa.datasets._basins import make_basins
from ctfa.datasets._files import get_data_home
from ctfa.datasets._gauges import make_gauges
from ctfa.datasets._qm9 import load_qm9
from ctfa.datasets._sarcos import load_sarcos
from ctfa.datasets._synthetic import make_paper_synthetic

__all__ = [
    "get_data_home",
    "load_qm9",
    "load_sarcos",
    "make_basins",
    "make_gauges",
    "make_paper_synthetic",
]
