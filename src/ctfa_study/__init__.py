"""The study around ctfa: rival methods, one comparison, the paper number by number."""

from __future__ import annotations
