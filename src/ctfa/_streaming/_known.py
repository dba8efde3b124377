"""Which pieces came and which went, where no folds ask for them: so that none goes twice.

Hashing all numbers of a piece takes longer than summing them, and on a device they would have to
come back. Its sums are there anyway, and are as good a name: count, weight, means and squares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from ctfa import _validation as check
from ctfa._collections import Sums
from ctfa._streaming._remainders import squares_of

Times = tuple[tuple[int, ...], ...]
#: For the name of a piece: an entry for each time that it is there.
Pieces = Mapping[str, Times]

#: Pieces that are remembered; the oldest are let go first.
MOST_KNOWN = 1 << 14
#: What the names of rows begin with that went without having come as one piece.
SLICE = "slice "


def with_piece(known: Pieces, sums: Sums) -> dict[str, Times]:
    """With one more piece; it may have brought back any rows, so slices may go again."""
    name = _name_of(sums)
    pieces = {one: times for one, times in known.items() if not one.startswith(SLICE)}
    pieces[name] = (*pieces.pop(name, ()), ())
    return _youngest(pieces)


def without_piece(known: Pieces, sums: Sums) -> dict[str, Times]:
    """Without a piece, or a slice of those that came; what went already is refused."""
    name = _name_of(sums)
    times = known.get(name)
    check.require_not_forgotten(times != () and SLICE + name not in known)
    if times is None:
        return _youngest({**known, SLICE + name: ()})
    return {**known, name: times[1:]}


def _youngest(pieces: dict[str, Times]) -> dict[str, Times]:
    if len(pieces) > MOST_KNOWN:
        del pieces[next(iter(pieces))]
    return pieces


def _name_of(sums: Sums) -> str:
    """Of all rows of a piece, in whichever order: half the digits, which rounding leaves alone."""
    digest = hashlib.blake2b(digest_size=16)
    for key in sorted(sums.classes, key=str):
        part = sums.classes[key]
        if not part.n_samples:
            continue
        digest.update(str(key).encode())
        moments, squares = part.moments, squares_of([part])
        # A mean alone may be nothing but rounding.
        high = moments.mean + 3.0 * np.sqrt(squares / moments.weight)
        numbers = np.concatenate(([moments.n_samples, moments.weight], high, squares))
        with np.errstate(over="ignore", under="ignore"):
            digest.update(numbers.astype(np.float32).data)
    return digest.hexdigest()
