"""A long search says how far it is, and stops when asked without losing what it found."""

import warnings

import numpy as np
import pytest

from ctfa.core import backend, progress
from ctfa.core.criteria import feature_risk, target_risk
from ctfa.core.design import Design
from ctfa.core.scans import SCANS
from ctfa.core.spaces import FeatureSpace, TargetSpace
from ctfa.core.spaces.features import column_gram


def target_space(n_targets=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    Y = X @ rng.normal(size=(4, 3))[:, np.arange(n_targets) % 3] + rng.normal(size=(60, n_targets))
    design = Design.of(X)
    return TargetSpace.of(design, design.centre(Y))


def scanned(scan, space, criterion=target_risk, max_loss=1.5):
    order = np.arange(space.n_variables)
    with backend.using("numpy"):
        return SCANS[scan](space, criterion, max_loss=max_loss, order=order)


def stopping_after(n_merges):
    return lambda record: record.n_merges < n_merges


@pytest.mark.parametrize("scan", SCANS)
def test_a_stopped_scan_has_made_the_first_merges_of_the_whole_one(scan):
    whole = scanned(scan, target_space())
    with (
        progress.reporting_to(stopping_after(5), every=0.0),
        pytest.warns(progress.SearchStopped, match="stopped after"),
    ):
        part = scanned(scan, target_space())
    assert whole.complete
    assert not part.complete
    assert 5 <= len(part) < len(whole)
    for column in ("block", "other", "loss", "size"):
        np.testing.assert_array_equal(
            getattr(part, column), getattr(whole, column)[: len(part)], err_msg=column
        )
    assert part.partition().n_groups == 30 - len(part)
    low, high = part.loss_interval
    assert low == high == part.loss.max()


@pytest.mark.parametrize("scan", ["best-first", "correlation", "restart"])
def test_features_are_stopped_alike(scan):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))[:, np.arange(24) % 3] + 0.3 * rng.normal(size=(80, 24))
    y = X.sum(axis=1) + rng.normal(size=80)

    def space():
        design = Design.of(X)
        gram = column_gram(design, X)
        return FeatureSpace(design, design.centre(y[:, None])[:, 0], gram)

    whole = scanned(scan, space(), feature_risk)
    with (
        progress.reporting_to(stopping_after(3), every=0.0),
        pytest.warns(progress.SearchStopped),
    ):
        part = scanned(scan, space(), feature_risk)
    assert 3 <= len(part) < len(whole)
    np.testing.assert_array_equal(part.other, whole.other[: len(part)])


def test_a_listener_that_never_stops_changes_nothing():
    records = []
    whole = scanned("best-first", target_space())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with progress.reporting_to(records.append, every=0.0):
            again = scanned("best-first", target_space())
    assert again.complete
    np.testing.assert_array_equal(again.loss, whole.loss)
    assert {record.stage for record in records} == {"scan"}
    assert all(r.n_variables == 30 and r.n_groups == 30 - r.n_merges for r in records)
    for count in ("n_merges", "n_comparisons", "seconds"):
        seen = [getattr(record, count) for record in records]
        assert seen == sorted(seen)
    assert records[-1].n_merges == len(whole)


def test_reports_keep_their_distance():
    records = []
    with progress.reporting_to(records.append, every=3600.0):
        scanned("best-first", target_space())
        scanned("best-first", target_space())
    assert len(records) == 1


def test_nobody_listens_outside_the_block():
    assert not progress.is_reported()
    with progress.reporting_to(print):
        assert progress.is_reported()
    assert not progress.is_reported()
    assert progress.tick(progress.Counts(3, 1, 7))


def test_a_search_stopped_once_stays_stopped_and_the_next_is_asked_anew():
    answers = iter([True, False, True])
    counts = progress.Counts(9, 2, 5)
    with progress.reporting_to(lambda record: next(answers), every=0.0):
        with progress.searching("fold 1 of 2") as (search, is_own):
            assert is_own
            assert progress.tick(counts)
            with progress.searching("scan") as (same, inner):
                assert same is search
                assert not inner
                assert not progress.tick(counts)
            assert not progress.tick(counts)
            assert search.stopped
        with progress.searching("fold 2 of 2") as (search, _):
            assert progress.tick(counts)
            assert not search.stopped


def test_a_request_without_a_search_is_not_kept():
    with progress.reporting_to(lambda record: None, every=0.0) as reporter:
        assert not reporter.request_stop()
        with progress.searching("scan"):
            assert progress.tick(progress.Counts(2, 0, 0))
            assert reporter.request_stop()
        with progress.searching("scan"):
            assert progress.tick(progress.Counts(2, 0, 0))
