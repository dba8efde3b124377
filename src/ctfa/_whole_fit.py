"""A fit that succeeds, or changes nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Fit = TypeVar("Fit", bound=Callable[..., Any])


def whole(fit: Fit) -> Fit:
    """Leave an estimator as it was where its fit fails, whatever had been set by then."""

    @functools.wraps(fit)
    def run(self: Any, *data: Any, **known: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *data, **known)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run  # type: ignore[return-value]
