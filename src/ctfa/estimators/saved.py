"""What files keep of an estimator: its parameters, and fields that have names of their own."""

from __future__ import annotations

from collections.abc import Mapping
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

    def __ctfa_fields__(self) -> dict[str, Any]:
        """Parameters and fields by name, as far as they are known."""
        names = {name: name for name in self._get_param_names()} | self._saved
        known = vars(self)
        return {name: known[names[name]] for name in sorted(names) if names[name] in known}

    @classmethod
    def __ctfa_restored__(cls, state: Mapping[str, Any]) -> Self:
        """An estimator with these parameters and fields; its constructor is not called."""
        for name in state:
            if name not in cls._saved and name not in cls._get_param_names():
                raise AttributeError(f"{cls.__name__} has no attribute {name!r}")
        made = object.__new__(cls)
        vars(made).update({cls._saved.get(name, name): value for name, value in state.items()})
        return made
