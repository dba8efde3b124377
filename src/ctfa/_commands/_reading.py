"""What commands read from the command line, with errors in words."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from ctfa._kinds import NEIGHBOUR_RULES


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


def names(text: str) -> list[str]:
    """Names with commas between them."""
    found = [name.strip() for name in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} has an empty name")
    return found


def neighbours(text: str) -> str | Path:
    """A file, or a way to be a neighbour that needs none."""
    name, _, number = text.partition(":")
    rule = NEIGHBOUR_RULES.get(name)
    if rule is not None and rule.takes_count:
        _whole(number, 1, 10**6)
        return text
    if rule is not None and name == text:
        return text
    if not Path(text).suffix and not Path(text).exists():
        known = ", ".join(rule.written for rule in NEIGHBOUR_RULES.values())
        raise argparse.ArgumentTypeError(f"{text!r} is neither a file nor one of {known}")
    return Path(text)


def max_loss(text: str) -> str | float:
    """A limit, or "auto"."""
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, and not auto")
    return value


def held_out(text: str) -> str | int:
    """A number of blocks, "auto" or "none"."""
    return text if text in ("auto", "none") else _whole(text, 2, 1000)


def blocks(text: str) -> int:
    """A number of blocks of rows."""
    return _whole(text, 2, 1000)
