"""What is raised, and how a refusal reads."""

from __future__ import annotations

import reprlib
from typing import Any, TypeAlias

#: Where in a model a value is: the place of what holds it, and the step from there. A text is made
#: of it only where one is raised: one for each of a million values would cost more than they do.
Place: TypeAlias = tuple[Any, ...]
#: The model itself.
TOP: Place = ()
#: The longest that what is wrong with a file may read, and where in it that is.
LONGEST, LONGEST_PLACE = 400, 150
#: What can be saved, for those whose model cannot.
KINDS = (
    "files hold plain values, numpy arrays, sparse matrices, ctfa's own estimators, and the "
    "estimators of scikit-learn whose state is plain (linear models, scalers, pipelines: "
    "ctfa.persistence.classes() names them)"
)


class PersistenceError(ValueError):
    """A model that cannot be saved, or a file that cannot be loaded."""


def refused(value: Any, where: Place, why: str = "", part: str = "") -> PersistenceError:
    """Say what cannot be saved, where it is, and what to do."""
    return PersistenceError(
        f"This model cannot be saved: {part}{named(where)} is {described(value)}{why}; {KINDS}. "
        "For anything else use joblib or skops."
    )


def damaged(what: str) -> PersistenceError:
    """Say what is wrong with a file, in one line of moderate length whatever the file holds."""
    said = " ".join(what[: 2 * LONGEST].split())
    said = said if len(said) <= LONGEST else f"{said[:LONGEST]}..."
    return PersistenceError(f"This file is damaged or was not written by ctfa: {said}.")


def named(where: Place) -> str:
    """A place in words: ``regressors_[0].coef_``."""
    text = ""
    while where:
        where, step = where
        if isinstance(step, str):
            text = f".{step}{text}"
        elif isinstance(step, tuple):  # a key of a dictionary
            text = f"[{shown(step[0])}]{text}"
        else:
            text = f"[{step}]{text}"
    text = text.removeprefix(".") or "the model"
    return text if len(text) <= LONGEST_PLACE else f"{text[:60]}...{text[-60:]}"


def shown(value: Any) -> str:
    """A value of a file, as much of it as a sentence can hold."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of thousands of digits"


def described(value: Any) -> str:
    """Name the kind of a value in words."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"of the class {kind.__module__}.{kind.__qualname__}"
