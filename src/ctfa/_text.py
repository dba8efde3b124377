"""Text that is read by others: names as cells and words, and files that are whole or not there."""

from __future__ import annotations

import csv
import difflib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: Where a spreadsheet would begin a formula (the list of OWASP), and quotes that stand there.
#: A semicolon begins a cell, too, where decimals are written with a comma.
_FORMULA = re.compile(r"(^|;)('*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
_QUOTED = re.compile(r"(^|;)'('*)(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", flags=re.ASCII | re.IGNORECASE)
#: What a terminal obeys or does not show: controls, line and bidi controls, halves of pairs.
UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

#: Names that begin alike and are all named.
FEW = 3


def cell(value: Any) -> Any:
    """A value for a CSV file that no spreadsheet takes for a formula.

    Text that would be one gets a single quote before it; text that has quotes there already gets
    one more, so that `from_cell` gives back what was written. Numbers stay as they are.

    Examples
    --------
    >>> cell("=1+1"), cell("'=1+1"), cell("basin"), cell("-5"), cell(-5)
    ("'=1+1", "''=1+1", 'basin', '-5', -5)
    """
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        return value
    return _FORMULA.sub(r"\1'\2", value)


def from_cell(value: Any) -> Any:
    """The value that `cell` was given.

    Examples
    --------
    >>> from_cell("'=1+1"), from_cell("''=1+1"), from_cell("'s-Hertogenbosch")
    ('=1+1', "'=1+1", "'s-Hertogenbosch")
    """
    return _QUOTED.sub(r"\1\2", value) if isinstance(value, str) else value


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file."""
    lines = io.StringIO(newline="")
    writer = csv.writer(lines)
    writer.writerows([cell(value) for value in row] for row in (header, *rows))
    return lines.getvalue()


def visible(text: str) -> str:
    r"""One line of text for a terminal, with what it would obey or hide written out.

    Examples
    --------
    >>> print(visible("basin\x1b[2J\n"))
    basin\x1b[2J\n
    """
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence on a name that is not known: those like it, or all there are."""
    names = list(known)
    longer = [k for k in names if k.lower().startswith(name.lower())]
    if 0 < len(longer) <= FEW:
        return f"; did you mean {' or '.join(map(repr, longer))}"
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in names], n=1, cutoff=0.75)
    if near:
        found = next(k for k in names if k.lower() == near[0])
        return f"; did you mean {found!r}"
    return f": choose from {', '.join(names)}"


def write_whole(data: bytes, path: Path) -> None:
    """Write beside the place and rename; what was there stays until all is written."""
    # A unique name: two writers of one file must not share, or remove, a draft.
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # As an ordinary file: a temporary one is its owner's alone.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(draft, 0o666 & ~umask)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def put_folder(draft: Path, path: Path) -> None:
    """Give a finished folder its name; what was there is removed, or stays where that fails."""
    old = draft.with_name("replaced")
    if path.exists():  # a folder that is not empty cannot be replaced
        path.rename(old)
    try:
        draft.rename(path)
    except BaseException:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
