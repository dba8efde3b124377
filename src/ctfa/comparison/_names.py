"""Names that are nearly right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Names that begin alike and are all named.
FEW = 3


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
