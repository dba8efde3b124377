"""Objects of known classes: their state out, and back without calling anything from the file."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from sklearn.base import BaseEstimator

from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA, criterion_of
from ctfa.persistence._checks import check_state
from ctfa.persistence._classes import class_named, name_of
from ctfa.persistence._codec import Kind, Reader, Writer
from ctfa.persistence._errors import Place, damaged, refused, shown
from ctfa.persistence._fields import check_fields

#: Attributes that are not kept, by class: what is worked out again from the rest, and the data.
LEFT_OUT = {"PooledCTFARegressor": ("_evidence",), "MultiInputCTFARegressor": ("_kept",)}
#: What says with which versions a loaded model was saved.
SAVED_WITH = "_saved_with"


def state_of(value: Any) -> dict[str, Any]:
    """What an object is made of, by name, always in the same order."""
    kind = type(value)
    if issubclass(kind, tuple):
        return dict(value._asdict())
    if dataclasses.is_dataclass(kind):
        # Without cached properties: they follow from the fields.
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if kind.__name__ == "MultiInputCTFARegressor":
        value.__getstate__()  # works out the evidence, and lets go of the data
    left_out = (*LEFT_OUT.get(kind.__name__, ()), SAVED_WITH)
    return {name: vars(value)[name] for name in sorted(vars(value)) if name not in left_out}


def _write_object(writer: Writer, value: Any, where: Place) -> Any:
    if getattr(value, "memory", None) is not None:
        raise refused(value.memory, (where, "memory"), ", where results are cached: use None")
    state = {name: writer.write(part, (where, name)) for name, part in state_of(value).items()}
    return {"class": name_of(type(value)), "state": state}


def _read_object(reader: Reader, node: Any, where: Place) -> Any:
    kind = class_named(node["class"])
    state = {name: reader.read(part, (where, name)) for name, part in node["state"].items()}
    value = _made(kind, state)
    check_state(node["class"], value)
    return value


def _made(kind: type, state: dict[str, Any]) -> Any:
    """An object with this state; no method of its class is called."""
    if issubclass(kind, tuple):
        fields = kind._fields  # type: ignore[attr-defined]
        defaults = kind._field_defaults  # type: ignore[attr-defined]
        _require_names(kind, state, fields, defaults)
        values = {**defaults, **state}
        check_fields(kind, values)
        return tuple.__new__(kind, [values[name] for name in fields])
    value = object.__new__(kind)
    if dataclasses.is_dataclass(kind):
        known = {field.name: field for field in dataclasses.fields(kind)}
        defaults = {n: f.default for n, f in known.items() if f.default is not dataclasses.MISSING}
        _require_names(kind, state, known, defaults)
        values = {**defaults, **state}
        check_fields(kind, values)
        for name in known:
            object.__setattr__(value, name, values[name])
        return value
    for name in state:
        over = getattr(kind, name, None)
        if not name.isidentifier() or name.startswith("__") or callable(over):
            raise damaged(f"{kind.__name__} has no attribute {shown(name)}")
    # Parameters that a later version has added have the value they were given then.
    vars(value).update(_parameters(kind) | state)
    return value


def _require_names(kind: type, state: dict[str, Any], fields: Any, defaults: Any) -> None:
    wrong = set(state) - set(fields) or set(fields) - set(defaults) - set(state)
    if wrong:
        raise damaged(f"{kind.__name__} has too much or too little: {', '.join(sorted(wrong))}")


def _parameters(kind: type) -> dict[str, Any]:
    """Parameters of an estimator that have a default."""
    if kind not in _DEFAULTS:
        is_estimator = issubclass(kind, BaseEstimator)
        known = inspect.signature(kind).parameters.values() if is_estimator else ()
        _DEFAULTS[kind] = {p.name: p.default for p in known if p.default is not p.empty}
    return _DEFAULTS[kind]


_DEFAULTS: dict[type, dict[str, Any]] = {}


def _criteria() -> dict[str, Any]:
    """Criteria that an estimator of ours may hold, by the name that files call them."""
    registries = TARGET_CRITERIA, FEATURE_CRITERIA
    known = [criterion_of(name, one) for one in registries for name in one]
    losses = [loss for one in known for loss in (one.loss, one.ridge_loss) if loss is not None]
    return {loss.__name__: loss for loss in losses if hasattr(loss, "__name__")}


def _is_criterion(value: Any) -> bool:
    return any(criterion_of(value).loss is loss for loss in _criteria().values())


def _read_criterion(reader: Reader, node: Any, where: Place) -> Any:
    known = _criteria()
    if not (isinstance(node, str) and node in known):
        shown = repr(node[:100]) if isinstance(node, str) else f"of type {type(node).__name__}"
        raise damaged(f"it holds the criterion {shown}, which this version does not know")
    return known[node]


OBJECTS = (
    Kind(
        "object",
        lambda value: name_of(type(value)) is not None,
        _write_object,
        _read_object,
        shared=True,
    ),
    Kind(
        "criterion",
        _is_criterion,
        lambda w, value, at: criterion_of(value).loss.__name__,
        _read_criterion,
    ),
)
