"""Real data sets for tests, which skip where they are not."""

import pytest

from ctfa import datasets


def real(name, **options):
    """What a loader gives, or a test skipped with a reason."""
    try:
        return getattr(datasets, f"load_{name}")(download_if_missing=False, **options)
    except FileNotFoundError:
        pytest.skip(f"CTFA_DATA names no folder with the data set {name}")
