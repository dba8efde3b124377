"""Three sizes of one suite.

``pytest`` asks every behaviour once: each value of each parameter, a part of the examples of a law,
nothing that is marked ``more`` (other configurations, long forms) and nothing of the study.
``pytest --rest`` is what that leaves out, each pair of values of two parameters once;
``pytest --everything`` all there is, whole products of parameters too.
"""

import itertools
import os
import sys

import pytest
from hypothesis import settings

from generated import PART

# Before numpy is there: small matrices gain nothing from more threads, and processes beside each
# other lose by them, some tests a hundredfold.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

#: Folder of tests that ask the study, which stands beside the library.
STUDY = "study"


def pytest_addoption(parser):
    group = parser.getgroup("ctfa")
    group.addoption("--rest", action="store_true", help="what a run without options leaves out")
    group.addoption("--everything", action="store_true", help="all tests, all combinations")


def pytest_configure(config):
    """Examples are new in every run at a desk and the same in every run of CI."""
    is_long = config.getoption("rest") or config.getoption("everything")
    number = settings.get_profile("default").max_examples // (1 if is_long else PART)
    settings.register_profile(
        "ctfa", deadline=None, max_examples=number, derandomize=bool(os.environ.get("CI"))
    )
    settings.load_profile("ctfa")


def pytest_collection_modifyitems(config, items):
    if config.getoption("everything"):
        return
    waiting = {it for it in items if STUDY in it.path.parts or it.get_closest_marker("more")}
    first, pairs = set(), set()
    for _, of_one in itertools.groupby(items, lambda item: (item.path, item.originalname)):
        tests = list(of_one)
        first |= covering([test for test in tests if test not in waiting], together=1)
        pairs |= covering(tests, together=2)
    kept = first
    if config.getoption("rest"):
        kept = (pairs - first) | {item for item in first if is_generated(item)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def is_generated(item):
    """Whether a test is asked of generated examples, of which there are more in the long run."""
    return hasattr(getattr(item, "obj", None), "hypothesis")


def covering(tests, together):
    """Few of the tests of one function with all values of so many parameters together."""
    given = {test: values_of(test, together) for test in tests}
    # Those without parameters, or with fewer than are to be together, stand for themselves.
    chosen = {test for test in tests if not given[test]}
    left = set().union(*given.values())
    while left:
        best = max(tests, key=lambda test: len(given[test] & left))
        chosen.add(best)
        left -= given[best]
    return chosen


def values_of(test, together):
    # By identity: all tests of a product hold the same objects, which may not be hashable.
    given = test.callspec.params.items() if hasattr(test, "callspec") else ()
    given = [(name, id(value)) for name, value in given]
    return set(itertools.combinations(given, min(together, len(given)))) if given else set()


@pytest.fixture(autouse=True)
def _close_figures():
    """Leave no figure to the next test: pyplot keeps them, and warns of many."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
