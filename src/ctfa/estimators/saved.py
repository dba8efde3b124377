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

    The names of fields stay when private attributes are called something else. Private attributes
    that are not in the list are not kept: they follow from the rest. What users add is.
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
        """Parameters and fields by name, as far as they are known, and what users added."""
        known, ours = vars(self), self._attributes()
        added = {name for name in known if name not in ours and self._may_add(name)}
        return {
            name: known[ours.get(name, name)]
            for name in sorted(added | {name for name, at in ours.items() if at in known})
        }

    @classmethod
    def _may_add(cls, name: str) -> bool:
        """Whether an attribute is a user's own: not private, and nothing that the class has."""
        return name.isidentifier() and not name.startswith("_") and not hasattr(cls, name)

    @classmethod
    def __ctfa_restored__(cls, state: Mapping[str, Any]) -> Self:
        """An estimator with these parameters and fields; its constructor is not called."""
        attributes = cls._attributes()
        added = [name for name in state if name not in attributes]
        wrong = next((name for name in added if not cls._may_add(name)), None)
        if wrong is not None:
            raise AttributeError(f"{cls.__name__} has no attribute {wrong!r}")
        made = object.__new__(cls)
        vars(made).update({attributes.get(name, name): value for name, value in state.items()})
        return made
