"""One page from its data: template, style and scripts inlined, nothing asked of any host."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

from ctfa.report._encode import as_json

#: In the order in which they build on each other.
SCRIPTS = (
    "decode.js",
    "elements.js",
    "colours.js",
    "groups.js",
    "shapes.js",
    "map.js",
    "pointer.js",
    "slider.js",
    "list.js",
    "charts.js",
    "merges.js",
    "panel.js",
    "tree.js",
    "matrix.js",
    "table.js",
    "download.js",
    "main.js",
)
STYLES = ("page.css", "parts.css", "print.css")


def render(data: Mapping[str, Any]) -> str:
    """The page as one string of HTML.

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
    script = "\n".join(('"use strict";', "(() => {", *map(_template, SCRIPTS), "})();"))
    said = {
        "title": data["title"],
        "headline": data["headline"],
        "source": data["source"],
        "version": data["version"],
    }
    return Template(_template("page.html")).substitute(
        {name: html.escape(_text(value), quote=True) for name, value in said.items()},
        methods="\n".join(f"<p>{html.escape(_text(said))}</p>" for said in data["methods"]),
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=as_json(data),
    )


def _template(name: str) -> str:
    return (resources.files("ctfa.report") / "templates" / name).read_text(encoding="utf-8")


def _text(value: Any) -> str:
    # Half of a pair of surrogates is no text that a file could hold.
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
