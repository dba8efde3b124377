"""What commands read from the command line, with errors in words."""

from __future__ import annotations

import argparse


def seed(text: str) -> int:
    """A seed of a random generator."""
    return _whole(text, 0, 2**32 - 1)


def count(text: str) -> int:
    """How many of something: one or more."""
    return _whole(text, 1, 10**6)


def zero_or_more(text: str) -> int:
    """How many of something, or none."""
    return _whole(text, 0, 10**9)


def share(text: str) -> float:
    """A number between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def _whole(text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        bound = "2**32 - 1" if high == 2**32 - 1 else str(high)
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {bound}")
    return value
