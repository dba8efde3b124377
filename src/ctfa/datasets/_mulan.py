"""Benchmarks with several targets, collected by the authors of the library Mulan."""

from __future__ import annotations

import io
import re
from typing import Any, NamedTuple

import numpy as np
from scipy.io.arff import loadarff

from ctfa.core.types import FloatArray
from ctfa.datasets._bunches import Form, require_choice
from ctfa.datasets._files import DataFile, Record

ADDRESS = "https://raw.githubusercontent.com/tsoumakas/mulan/{}/data/multi-target/{}.arff"
#: States of that repository in which the files are the ones known here.
EARLY = "49efcccb0666c59f57d942c13c6184af028c7650"
LATE = "122fce8fbefdb292ba3acbb03867a7fc8f1dcaa9"


class _Set(NamedTuple):
    """One benchmark; the targets are the last columns."""

    n_targets: int
    shape: tuple[int, int]
    commit: str
    sha256: str
    about: str
    facts: str = ""


TIME = "Rows are in time order and overlap: split by blocks of time."
WIDE = "There are about as many features as samples, or more."
LEVELS = (
    "All ten attributes are nominal in the file: each is given as zeros and ones for its levels "
    "but the first. Flares are rare, so that most targets are zero."
)
SETS = {
    "andro": _Set(
        6, (49, 30), EARLY,
        "08f0e2757b2a7635136ac58ea76c4e801ffeb0a81116b29e6ac169228c8aa132",
        "Water quality in Thermaikos Gulf (Andromeda): six measures five days ahead, from those of "
        "five days.", TIME),
    "atp1d": _Set(
        6, (337, 411), LATE,
        "ed935ba476c4994ba40d6712d590fb389709cceba7cf7dbbb33ef28c84762bb9",
        "Prices of airline tickets on the next day for six preferences of travellers, from what "
        "was offered.", f"{TIME} {WIDE} 41 features are constant."),
    "atp7d": _Set(
        6, (296, 411), LATE,
        "77d59efdf4a6329c71c854684de7409d0d61d3bebccd6821ae268c1620c95b2d",
        "The lowest prices of airline tickets in the next seven days for six preferences of "
        "travellers, from what was offered.", f"{TIME} {WIDE} 41 features are constant."),
    "edm": _Set(
        2, (154, 16), EARLY,
        "37777374030f592a53cbcf597ae0aa6105238a1c696dd04ccb229be982f6bc5b",
        "Electrical discharge machining: how an operator sets the gap and the flow, from what the "
        "machine shows.", "The targets have three values, -1, 0 and 1."),
    "enb": _Set(
        2, (768, 8), EARLY,
        "8277d9094ccda6da2cd1c2b79c90ca201fa3695e75aca173ffc43138dcab0071",
        "Energy efficiency of buildings: heating and cooling load from shape and glazing.",
        "The features have rank 7: areas of a building add up."),
    "jura": _Set(
        3, (359, 15), LATE,
        "78ce7655f49073e3622ef7ba25657b3900a2b279ba3d48cb82e353e56bac3d2a",
        "Cadmium, cobalt and copper in the soil of the Swiss Jura, from place, land use, rock and "
        "other metals.", "Zeros and ones of land use and of rock add up: the rank is 13."),
    "oes10": _Set(
        16, (403, 298), LATE,
        "37f9fa429f6f2ece2cdfd08e84649971e61ee0b4e75d66166c082bacf3d36251",
        "Occupational employment survey of 2010: employees of 16 occupations in cities of the USA, "
        "from those of other occupations.", WIDE),
    "oes97": _Set(
        16, (334, 263), LATE,
        "aee74aa656c709f797f45d817c41996be94c2e924c0f1e7ad315fb7e2f1a9498",
        "Occupational employment survey of 1997: employees of 16 occupations in cities of the USA, "
        "from those of other occupations.", WIDE),
    "osales": _Set(
        12, (639, 401), LATE,
        "c9c656c7e0131ad1c3f427cea7828f2ed315ec80da6d6f43c05b40b87257efe5",
        "Online sales of products in each of twelve months, from what was known at their launch.",
        f"10012 entries of the features are missing. {WIDE}"),
    "scpf": _Set(
        3, (1137, 23), EARLY,
        "f7d3c7b134c0e5ddff56a7900371cb44328f9b7f550203c4a556929203ea81e9",
        "See Click Predict Fix: views, votes and comments that reports of citizens get.",
        "9255 entries of the features are missing."),
    "sf1": _Set(
        3, (323, 23), LATE,
        "8f78e64aca64f7c0c7ba4d9b2f114feb2a6f72e6116e87d7dab94e7cab426d93",
        "Solar flares of three classes in a day (1969), from ten attributes of an active region.",
        LEVELS),
    "sf2": _Set(
        3, (1066, 23), LATE,
        "2c1ac60f3e612b0e0bc9884ffe98a205ce07ca83f3f89c019220fde350396795",
        "Solar flares of three classes in a day (1978), from ten attributes of an active region.",
        LEVELS),
    "slump": _Set(
        3, (103, 7), LATE,
        "3a9a9eba416b06c7668153b44073a0e165afbfc9e526d53b174e5f97a707ca6c",
        "Concrete: slump, flow and compressive strength, from what was mixed."),
    "wq": _Set(
        14, (1060, 16), EARLY,
        "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe",
        "Water quality of Slovenian rivers: how much there is of 14 plants and animals, from "
        "16 physical and chemical measures.",
        "The targets are grades: 0, 1, 3 and 5. Their names are codes of species."),
}  # fmt: skip


def _record(name: str, known: _Set) -> Record:
    n_samples, n_features = known.shape
    return Record(
        name=name,
        loader=f"load_mulan({name!r})",
        title=f"Mulan: {name}",
        kind="shared",
        shape=f"{n_samples} samples, {n_features} features, {known.n_targets} targets.",
        about=known.about,
        files=(DataFile(f"mulan/{name}.arff", known.sha256, ADDRESS.format(known.commit, name)),),
        source=f"data/multi-target/{name}.arff of the repository tsoumakas/mulan on GitHub.",
        licence="None stated for the data; the library Mulan is under the GNU GPL.",
        redistribution="Not stated for the data: get your own copy.",
        citation="Spyromitros-Xioufis, E., Tsoumakas, G., Groves, W. and Vlahavas, I. (2016). "
        "Multi-target regression via input space expansion: treating targets as inputs. Machine "
        "Learning 104, 55-98; it names the first source of each set.",
        facts=known.facts,
    )


#: Sets whose rows follow each other in time.
ORDERED = ("andro", "atp1d", "atp7d")
MULAN = {name: _record(name, known) for name, known in SETS.items()}


def load_mulan(
    name: str,
    *,
    missing: str = "keep",
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: Any = None,
    download_if_missing: bool = True,
) -> Any:
    """Load one of 14 benchmarks of which all targets share their inputs.

    Parameters
    ----------
    name : str
        Which one: andro, atp1d, atp7d, edm, enb, jura, oes10, oes97, osales, scpf, sf1, sf2, slump
        or wq.
    missing : {"keep", "median"}, default="keep"
        What to do with missing entries of features (osales and scpf have them): leave NaN, or fill
        in the median of the feature over all rows. For an honest test error leave them and put
        ``SimpleImputer`` into a pipeline, so that test rows have no say.
    return_X_y : bool, default=False
        Return ``(X, Y)`` and no Bunch.
    as_frame : bool, default=False
        Give data frames (needs pandas).
    data_home : path, default=None
        The folder of data; None takes the environment variable ``CTFA_DATA``, or ``~/ctfa_data``.
    download_if_missing : bool, default=True
        Download what is not there (needs pooch, ``pip install 'ctfa[datasets]'``).

    Returns
    -------
    Bunch
        With ``data``, ``target``, ``feature_names``, ``target_names``, ``kind`` ("shared"),
        ``filename`` and ``DESCR``. A nominal attribute (sf1, sf2) is a column of zeros and ones for
        each of its levels but the first, called ``attribute=level``.

    Examples
    --------
    >>> from ctfa.datasets import load_mulan
    >>> slump = load_mulan("slump")  # doctest: +SKIP
    >>> slump.data.shape, slump.target_names[0]  # doctest: +SKIP
    ((103, 7), 'SLUMP_cm')
    """
    require_choice("name", name, MULAN)
    require_choice("missing", missing, ("keep", "median"))
    record = MULAN[name]
    form = Form(record, as_frame, return_X_y)
    (file,) = form.files(data_home, download_if_missing)
    attributes = read_arff(file.content.decode())
    n_inputs = len(attributes) - SETS[name].n_targets
    features = {key: v for columns in attributes[:n_inputs] for key, v in columns.items()}
    targets = {key: v for columns in attributes[n_inputs:] for key, v in columns.items()}
    X = np.column_stack(list(features.values()))
    if missing == "median":
        X = np.where(np.isnan(X), np.nanmedian(X, axis=0), X)
    return form.shared(
        X,
        np.column_stack(list(targets.values())),
        feature_names=list(features),
        target_names=list(targets),
        ordered=True if name in ORDERED else None,
    )


def read_arff(text: str) -> list[dict[str, FloatArray]]:
    """Columns of numbers by name, attribute by attribute; NaN where missing.

    A nominal attribute is one of zeros and ones for each level but the first.
    """
    # Some quote a name twice.
    table, about = loadarff(io.StringIO(re.sub("[\"']+", "'", text)))
    found = []
    for name in about.names():
        values = table[name]
        _, levels = about[name]
        columns = {name: values}
        if levels is not None:
            columns = {
                f"{name}={level}": np.where(values == b"?", np.nan, values == level.encode())
                for level in levels[1:]
            }
        found.append(columns)
    return found
