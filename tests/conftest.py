"""Two suites in one: ``pytest`` asks every behaviour once, ``pytest --rest`` all that it left out.

``pytest --everything`` is both. Left out at first are tests marked ``more`` (other configurations,
whole commands, the study's long forms), combinations of parameters of which every pair has been
asked, and most generated examples.
"""

import itertools
import os
import sys

import pytest
from hypothesis import settings

from generated import PART

#: Folders of tests that ask the study, which stands beside the library.
BESIDE = "study"


def pytest_addoption(parser):
    group = parser.getgroup("ctfa")
    group.addoption("--rest", action="store_true", help="what a run without options leaves out")
    group.addoption("--everything", action="store_true", help="all tests, all combinations")


def pytest_configure(config):
    """Examples are new in every run at a desk and the same in every run of CI."""
    all_of_them = config.getoption("rest") or config.getoption("everything")
    number = settings.get_profile("default").max_examples // (1 if all_of_them else PART)
    settings.register_profile(
        "ctfa", deadline=None, max_examples=number, derandomize=bool(os.environ.get("CI"))
    )
    settings.load_profile("ctfa")


def pytest_collection_modifyitems(config, items):
    if config.getoption("everything"):
        return
    later = {item for item in items if BESIDE in item.path.parts or item.get_closest_marker("more")}
    for _, tests in itertools.groupby(items, lambda item: (item.path, item.originalname)):
        later |= beyond_pairs([item for item in tests if item not in later])
    if config.getoption("rest"):
        kept = [item for item in items if item in later or is_generated(item)]
    else:
        kept = [item for item in items if item not in later]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def is_generated(item):
    """Whether a test is asked of generated examples, of which there are more in the long run."""
    return hasattr(getattr(item, "obj", None), "hypothesis")


def beyond_pairs(tests):
    """Tests of one function whose every pair of parameters earlier ones have had."""
    seen, more = set(), set()
    for test in tests:
        given = sorted(test.callspec.indices.items()) if hasattr(test, "callspec") else []
        pairs = set(itertools.combinations(given, 2)) or set(given)
        if given and pairs <= seen:
            more.add(test)
        seen |= pairs
    return more


@pytest.fixture(autouse=True)
def _close_figures():
    """Leave no figure to the next test: pyplot keeps them, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
