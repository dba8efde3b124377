"""Generated examples are new in every run at a desk and the same in every run of CI."""

import os
import sys

import pytest
from hypothesis import settings

settings.register_profile("explore", deadline=None)
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.load_profile("repeat" if os.environ.get("CI") else "explore")


@pytest.fixture(autouse=True)
def _close_figures():
    """Leave no figure to the next test: pyplot keeps them, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
