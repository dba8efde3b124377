"""What files keep of an estimator: its parameters, and fields that have names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Self


def fields(public: str = "", **private: str) -> dict[str, str]:
    """Attribute of each field: public attributes go by their names, others by a given one."""
    return {name: name for name in public.split()} | private


#: What both phases find.
OF_GROUPS = fields(
    "partition_ labels_ n_groups_ history_ max_loss_ loss_interval_ cv_curve_", sums="_sums"
)


class Saved:
    """An estimator whose state in files is its parameters and a fixed list of fields.

    The names of fields stay when private attributes are called something else. What is not in the
    list is not kept: it follows from the rest.
    """

    _saved: ClassVar[dict[str, str]] = fields(
        "n_features_in_ feature_names_in_",
        output="_sklearn_output_config",
        routing="_metadata_request",
    )
    _get_param_names: ClassVar[Any]  # of scikit-learn's estimators

    @classmethod
    @cache  # a file of thousands of groups asks as often
    def _attributes(cls) -> dict[str, str]:
        """Attribute of each parameter and field, in the order of their names."""
        known = {name: name for name in cls._get_param_names()} | cls._saved
        return dict(sorted(known.items()))

    def __ctfa_fields__(self) -> dict[str, Any]:
        """Parameters and fields by name, as far as they are known."""
        known = vars(self)
        return {name: known[at] for name, at in self._attributes().items() if at in known}

    @classmethod
    def __ctfa_restored__(cls, state: Mapping[str, Any]) -> Self:
        """An estimator with these parameters and fields; its constructor is not called."""
        attributes = cls._attributes()
        wrong = next((name for name in state if name not in attributes), None)
        if wrong is not None:
            raise AttributeError(f"{cls.__name__} has no attribute {wrong!r}")
        made = object.__new__(cls)
        vars(made).update({attributes[name]: value for name, value in state.items()})
        return made
