"""One page from its data: template, style, scripts and numbers inlined; written whole or not."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ctfa._text import write_whole
from ctfa.core.types import AnyArray
from ctfa.report._collect import collect

#: In the order in which they build on each other.
SCRIPTS = (
    "decode", "elements", "colours", "groups", "shapes", "map", "pointer", "slider", "list",
    "charts", "merges", "panel", "tree", "matrix", "judged", "table", "download", "main",
)  # fmt: skip
STYLES = ("page.css", "parts.css", "print.css")
#: Characters that mean something to a parser of HTML or of scripts, though not inside JSON.
UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
        ``report_material()``, such as what ``ctfa.labelled.fit`` returns.
    path : str or path
        Where the page goes; a file that is there is replaced once the new one is complete.
    data : tuple (X, Y), default=None
        The data of fit: ``(X, y, tasks)`` for tasks with rows of their own. With it the page has
        held-out errors beside those of single-task models and ridge regression, merges beyond the
        limit that was used, series of the groups and standard errors; the model is fitted five
        times more. Without it the page shows what the model knows. A model that was fitted with
        confounds or weights of its targets takes ``Given(X, Y, confounds=..., target_weight=...)``.
    places : Places, geometries, list of outlines, or array of shape (n_targets, 2), default=None
        Where targets lie; geometries are those of geopandas. Coordinates that can be degrees are
        taken as longitude and latitude; use ``Places`` to say otherwise. None draws tiles in the
        order of the merge tree.
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


def render(data: Mapping[str, Any]) -> str:
    """Give the page as one string of HTML.

    Parameters
    ----------
    data : mapping
        What ``collect`` returned.

    Returns
    -------
    str
        HTML that loads nothing: its policy allows this style and this script and no other.

    Examples
    --------
    >>> from ctfa import CTFARegressor
    >>> from ctfa.datasets import make_paper_synthetic
    >>> from ctfa.report import collect, render
    >>> X, Y = make_paper_synthetic(n_samples=150, n_features=20, n_targets=6, random_state=0)
    >>> render(collect(CTFARegressor().fit(X, Y), title="Six targets")).count("<title>")
    1
    """
    style = "\n".join(_template(name) for name in STYLES)
    scripts = (_template(f"{name}.js") for name in SCRIPTS)
    script = "\n".join(('"use strict";', "(() => {", *scripts, "})();"))
    said = ("title", "headline", "source", "version")
    return Template(_template("page.html")).substitute(
        {name: html.escape(_text(data[name]), quote=True) for name in said},
        methods="\n".join(f"<p>{html.escape(_text(said))}</p>" for said in data["methods"]),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=_as_json(data),
    )


def _template(name: str) -> str:
    return (resources.files("ctfa.report") / "templates" / name).read_text(encoding="utf-8")


def _text(value: Any) -> str:
    # Half of a pair of surrogates is not text that a file could hold.
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _as_json(data: Any) -> str:
    """JSON in which arrays are base64, without a character that could end the script around it."""
    text = json.dumps(_plain(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in UNSAFE.items():
        text = text.replace(character, escaped)
    return _text(text)


def _packed(values: AnyArray) -> AnyArray:
    """The same numbers in the smallest type that a browser has: wholes exactly, others in four."""
    if values.dtype.kind == "f":
        return values.astype("<f4")
    if values.dtype.kind == "b":
        return values.astype("u1")
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    kinds = ("u1", "<u2", "<u4") if low >= 0 else ("i1", "<i2", "<i4")
    fitting = (k for k in kinds if np.iinfo(k).min <= low and high <= np.iinfo(k).max)
    return values.astype(next(fitting))


def _plain(data: Any) -> Any:
    if isinstance(data, np.ndarray):
        small = _packed(data)
        text = base64.b64encode(np.ascontiguousarray(small).tobytes()).decode("ascii")
        return {"dtype": small.dtype.str.lstrip("<|"), "shape": list(small.shape), "base64": text}
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_plain(value) for value in data]
    if isinstance(data, np.generic):
        return _plain(data.item())
    if isinstance(data, float) and not math.isfinite(data):
        # As JavaScript's Number reads them.
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data
