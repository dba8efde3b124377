"""Numbers that the shared structure of tasks takes: prices, counts, tolerances."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _validation as check


def read_positive(value: Any, what: str) -> float:
    """A finite number above zero."""
    number = check.read_number(value, what, " above 0")
    if not 0.0 < number < np.inf:
        raise ValueError(f"{what}={value!r} must be finite and above 0: pass a positive number.")
    return number


def read_at_least_zero(value: Any, what: str) -> float:
    """A finite number that may be zero."""
    number = check.read_number(value, what, ", 0 or more")
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{what}={value!r} must be finite and not negative: pass 0 or more.")
    return number


def read_count(value: Any, what: str) -> int:
    """A whole number, 1 or more."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what}={value!r} is not a count: pass a whole number, 1 or more.")
    return int(value)
