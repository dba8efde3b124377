"""Write ``docs/api.md``, the reference of every public name, from the docstrings: ``make api``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("api.md")
#: Where public names are, and what a reader finds there.
MODULES = {
    "ctfa": "Estimators, and what goes with them",
    "ctfa.labelled": "xarray, pandas, polars and geopandas in; maps and labelled results out",
    "ctfa.plotting": "Pictures of fitted models",
    "ctfa.report": "The page that tells why",
    "ctfa.persistence": "Models in files",
    "ctfa.pieces": "Pieces of files, for `partial_fit`",
    "ctfa.datasets": "Generated data, and loaders of real sets",
    "ctfa.theory": "The paper on plain numbers",
    "ctfa.testing": "Laws to check criteria, scans and spaces of your own by",
    "ctfa_study.baselines": "Rivals, as scikit-learn estimators",
    "ctfa_study.comparison": "Methods on the same splits",
    "ctfa_study.reproduction": "The paper, number by number",
}
#: Methods that every scikit-learn estimator has.
ORDINARY = {"get_params", "set_params", "get_metadata_routing", "set_output"}


def page() -> str:
    """The whole page."""
    lines = ["# API reference", "", "Written from the docstrings by `make api`; do not edit.", ""]
    lines += [f"- [`{module}`](#{_anchor(module)}): {about}" for module, about in MODULES.items()]
    for module, about in MODULES.items():
        lines += ["", f"## `{module}`", "", f"{about}."]
        for name, thing in _public(module):
            lines += ["", f"### `{module}.{name}`", "", *_entry(name, thing)]
    return "\n".join(lines) + "\n"


def _public(module: str) -> Iterator[tuple[str, Any]]:
    """Names that a module offers; what it merely imports, and its own modules, are left out."""
    home = importlib.import_module(module)
    for name in getattr(home, "__all__", None) or sorted(vars(home)):
        thing = getattr(home, name)
        own = str(getattr(thing, "__module__", "")).startswith(("ctfa.", "ctfa_study."))
        if own and not name.startswith("_") and (inspect.isclass(thing) or callable(thing)):
            yield name, thing


def _entry(name: str, thing: Any) -> Iterator[str]:
    yield from _described(name, thing)
    if not inspect.isclass(thing) or issubclass(thing, BaseException):
        return
    for method, function in inspect.getmembers(thing):
        ours = str(getattr(function, "__module__", "")).startswith("ctfa")
        routed = re.fullmatch(r"set_\w+_request", method)
        if method.startswith("_") or method in ORDINARY or routed or not ours:
            continue
        if inspect.isfunction(function) and function.__doc__:
            yield from ("", f"#### `{name}.{method}`", "", *_described(method, function))


def _described(name: str, thing: Any) -> Iterator[str]:
    yield from ("```", f"{name}{_signature(thing)}", "```", "")
    yield from _markdown(inspect.getdoc(thing) or "")


def _signature(thing: Any) -> str:
    """Without annotations, which are for type checkers: a reader looks for the defaults."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    empty = inspect.Parameter.empty
    plain = [p.replace(annotation=empty) for p in signature.parameters.values() if p.name != "self"]
    written = str(signature.replace(parameters=plain, return_annotation=empty))
    return re.sub(r"<(?:function|class) '?([\w.]+)[^>]*>", r"\1", written)


def _markdown(text: str) -> Iterator[str]:
    """A numpydoc docstring: titles of sections bold, what is named a list, examples as code."""
    lines, section, at, code = text.splitlines(), "", 0, False
    while at < len(lines):
        line = lines[at]
        if at + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[at + 1]):
            section = line
            yield f"**{line}**"
            at += 2
            yield ""
            continue
        example = section == "Examples" and bool(line) and (code or line.startswith(">>>"))
        if example != code:
            yield "```python" if example else "```"
            code = example
        listed = section not in ("", "Examples", "Notes", "References", "See Also")
        if listed and re.match(r"\S", line):
            what, _, kind = line.partition(" : ")
            yield f"- **{_inline(what)}**" + (f" ({_inline(kind)})" if kind else "")
        elif listed and line:
            yield f"  {_inline(line.strip())}"
        else:
            yield line if code else _inline(line)
        at += 1
    if code:
        yield "```"


def _inline(text: str) -> str:
    """Code of reStructuredText as that of Markdown."""
    return re.sub(r":\w+:`([^`]+)`", r"`\1`", text.replace("``", "`")).rstrip()


def _anchor(module: str) -> str:
    return module.replace(".", "")


def main() -> None:
    """Write the page, or with ``--check`` say whether it is current."""
    written = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == written
        sys.exit(None if current else "docs/api.md is not what the docstrings say: make api")
    PAGE.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
