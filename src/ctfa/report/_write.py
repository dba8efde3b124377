"""A report written to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ctfa._whole_file import write_whole
from ctfa.report._collect import collect
from ctfa.report._render import render


def write(
    model: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    places: Any = None,
    title: str | None = None,
    **material: Any,
) -> Path:
    """Write a page that tells what was merged and why: one file that needs no network.

    Parameters
    ----------
    model : fitted model, Material or labelled result
        A fitted ``CTFARegressor``, ``CTFARegressorCV``, ``MultiInputCTFARegressor``,
        ``PooledCTFARegressor`` or ``TargetAggregator``; a ``Material``; or anything with
        ``report_material()``, as what ``ctfa.labelled.fit`` returns.
    path : str or path
        Where the page goes; a file that is there is replaced once the new one is complete.
    data : tuple (X, Y), default=None
        The data of fit: ``(X, y, tasks)`` for tasks with rows of their own. With it the page has
        held-out errors beside those of single-task models and ridge regression, merges beyond the
        limit that was used, series of the groups and standard errors; the model is fitted five
        times more. Without it the page tells what the model knows. A model that was fitted with a
        baseline or weights of its targets takes ``Given(X, Y, baseline=..., target_weight=...)``.
    places : Places, list of outlines, or array of shape (n_targets, 2), default=None
        Where targets lie. Coordinates that can be degrees are taken for longitude and latitude;
        ``Places`` says otherwise. None draws tiles in the order of the merge tree.
    title : str, default=None
        Title of the page.
    **material
        Any other field of ``Material``: ``task="basin"``, ``source=...``, ``held_out=...``.

    Returns
    -------
    Path
        Of the file.

    Examples
    --------
    >>> import tempfile
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.report import write
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> model = CTFARegressor().fit(X, Y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(model, f"{folder}/report.html", title="Six targets").name
    'report.html'
    """
    target = Path(path)
    page = render(collect(model, data=data, places=places, title=title, **material))
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(page.encode("utf-8"), target)
    return target
