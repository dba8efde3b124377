"""Tables of a fit as they must be, before a row of them is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ctfa import _validation as check
from ctfa._collections._devices import is_foreign
from ctfa._collections._guards import read_block


def as_table(data: Any, what: str) -> Any:
    """An array of numbers, where it lies; None stays None."""
    if data is None:
        return None
    if is_foreign(data):
        check.refuse_kind(data.dtype, what)
        table = data
    else:
        check.refuse_dates(data, what)
        check.refuse_mask(data, what)
        table = check.read_numbers(read_block(np.asarray(data), what), what)
    if table.ndim not in (1, 2):
        raise ValueError(
            f"expected a table of rows and columns, got an array of shape {tuple(table.shape)} as "
            f"{what}: reshape it to two dimensions."
        )
    return table
