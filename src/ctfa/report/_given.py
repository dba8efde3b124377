"""The data of a fit, and how it was fitted to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ctfa.core.types import FloatArray
from ctfa.estimators.pooled import PooledCTFARegressor


class Given(NamedTuple):
    """Data of a fit beside which a model can say more of itself."""

    X: Any
    Y: Any
    tasks: Any = None  # of tasks with rows of their own, whose row each is
    baseline: FloatArray | None = None
    target_weight: FloatArray | None = None
    held_out: Any = "auto"  # rows to judge on, as in ``ctfa.labelled.fit``

    @classmethod
    def of(cls, data: Any, model: Any) -> Given:
        """Read ``(X, Y)``, or ``(X, y, tasks)`` for tasks with rows of their own."""
        if isinstance(data, Given):
            return data
        parts = tuple(data) if isinstance(data, tuple | list) else ()
        needed = 3 if isinstance(model, PooledCTFARegressor) else 2
        if len(parts) != needed:
            form = "(X, y, tasks)" if needed == 3 else "(X, Y)"
            raise ValueError(
                f"data is {type(data).__name__} of {len(parts)} parts: give {form}, the data of "
                "fit."
            )
        return cls(*parts)

    @property
    def options(self) -> dict[str, Any]:
        """What the fit was told beside the data."""
        known = {"baseline": self.baseline, "target_weight": self.target_weight}
        return {name: value for name, value in known.items() if value is not None}
