"""The study around ctfa: rival methods, one comparison of them, and the paper number by number."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctfa_study import baselines, comparison, evidence, reproduction

__all__ = ["baselines", "comparison", "evidence", "reproduction"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"ctfa_study.{name}")
    raise AttributeError(f"module 'ctfa_study' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
