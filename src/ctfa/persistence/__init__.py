"""Models in files that last: saved without code, loaded without running any.

``save(model, "model.ctfa")`` and ``load("model.ctfa")`` keep everything a fitted model can say:
predictions, ``why``, ``merges_``. The format is in ``docs/persistence.md``. ``collapse`` writes a
model with linear regressors as one table of coefficients, and ``to_onnx`` exports that.
"""

from ctfa.estimators.collapsed import Collapsed, collapse
from ctfa.persistence._codec import PersistenceError
from ctfa.persistence._file import load, save
from ctfa.persistence._objects import classes
from ctfa.persistence._onnx import to_onnx

__all__ = ["Collapsed", "PersistenceError", "classes", "collapse", "load", "save", "to_onnx"]
