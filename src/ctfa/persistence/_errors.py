"""What is raised, and how a refusal reads."""

from __future__ import annotations

from typing import Any

#: What can be saved, for those whose model cannot.
KINDS = (
    "files hold plain values, numpy arrays, sparse matrices, ctfa's own estimators, and the "
    "estimators of scikit-learn whose state is plain (linear models, scalers, pipelines: "
    "ctfa.persistence.classes() names them)"
)


class PersistenceError(ValueError):
    """A model that cannot be saved, or a file that cannot be loaded."""


def refused(value: Any, where: str, why: str = "") -> PersistenceError:
    """Say what cannot be saved, where it is, and what to do."""
    place = where or "the model"
    return PersistenceError(
        f"This model cannot be saved: {place} is {described(value)}{why}; {KINDS}. For anything "
        "else use joblib or skops."
    )


def damaged(what: str) -> PersistenceError:
    """Say what is wrong with a file."""
    return PersistenceError(f"This file is damaged or was not written by ctfa: {what}.")


def described(value: Any) -> str:
    """Name the kind of a value in words."""
    kind = type(value)
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return f"of the class {kind.__module__}.{kind.__qualname__}"
