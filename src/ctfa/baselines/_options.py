"""Penalties and limits of the penalised baselines, read and refused in words."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ctfa import _validation as check


def read_penalty(value: Any, what: str, *, infinite: bool = False) -> float:
    """A penalty's weight, not negative."""
    number = check.read_number(value, what)
    if number < 0.0 or (np.isinf(number) and not infinite):
        least = "zero or more" if infinite else "zero or more, and finite"
        raise ValueError(f"{what}={value!r} is no weight of a penalty: pass a number, {least}.")
    return number


def read_limits(tol: Any, max_iter: Any) -> tuple[float, int]:
    """When to stop: the gap and the number of steps."""
    gap = check.read_number(tol, "tol")
    if gap < 0.0:
        raise ValueError(f"tol={tol!r} is below zero: pass a small positive number such as 1e-8.")
    if isinstance(max_iter, bool) or not isinstance(max_iter, Integral) or max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} is no number of steps: pass a positive integer.")
    return gap, int(max_iter)
