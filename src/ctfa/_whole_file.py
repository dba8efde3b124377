"""A file that is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(data: bytes, path: Path) -> None:
    """Write beside the place and rename; what was there stays until all is written."""
    # A name that nobody else has: two writers of one file must not share, or remove, a draft.
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
