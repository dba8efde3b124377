"""Models in files that last: saved without code, loaded without running any.

``save(model, "model.ctfa")`` and ``load("model.ctfa")`` keep everything a fitted model can say:
predictions, ``why``, ``merges_``. The format is in ``docs/persistence.md``.
"""

from ctfa.persistence._classes import classes
from ctfa.persistence._errors import PersistenceError
from ctfa.persistence._file import load, save

__all__ = ["PersistenceError", "classes", "load", "save"]
