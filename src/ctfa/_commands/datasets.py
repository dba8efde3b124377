"""``ctfa datasets``: which data sets there are, and all about one."""

from __future__ import annotations

import argparse
from pathlib import Path

from ctfa import datasets
from ctfa._commands._terminal import note, say
from ctfa.datasets import describe_dataset
from ctfa.datasets._catalogue import dataset_table, records
from ctfa.labelled import write


def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    if options.name is None:
        say(*dataset_table(options.data_home).split("\n"))
        return 0
    try:
        if options.export is None:
            say(*describe_dataset(options.name).split("\n"))
        else:
            say(_export(options.name, options.data_home, options.export))
    except (ValueError, OSError, ImportError) as error:
        note(f"ctfa datasets: {error}")
        return 1
    return 0


def _export(name: str, data_home: Path | None, path: Path) -> str:
    """Write a set as labelled arrays, a grid where its places are cells of one."""
    describe_dataset(name)  # says which names there are
    places = [known for known, record in records().items() if record.kind == "own inputs"]
    if name not in places:
        raise ValueError(
            f"{name} does not have places with their own series: load it in Python. Those "
            f"that can be written to a file are {', '.join(places)}."
        )
    loader = getattr(datasets, records()[name].loader.partition("(")[0])
    loaded = loader(data_home=data_home)
    dataset = loaded.to_xarray()
    if loaded.get("words", ("", ""))[1] == "cell":
        dataset = dataset.set_index(cell=["lat", "lon"]).unstack("cell")
    write(dataset, path)
    dims = ", ".join(f"{dim} {size:,}" for dim, size in dataset.sizes.items())
    return f"{path}: {', '.join(map(str, dataset.data_vars))} ({dims})"
