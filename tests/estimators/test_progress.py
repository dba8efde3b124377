"""A long search says how far it is, and stops when asked without losing what it found."""

import io
import signal
import subprocess
import sys
import threading
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

import ctfa
from ctfa import CTFARegressor, TargetAggregator
from ctfa.core import backend, progress
from ctfa.core.criteria import feature_risk, target_risk
from ctfa.core.design import Design
from ctfa.core.ridge import Ridge
from ctfa.core.scans import SCANS
from ctfa.core.spaces.features import FeatureSpace, column_gram
from ctfa.core.spaces.targets import TargetSpace
from ctfa.estimators import intervals
from ctfa.estimators.models import HEADS


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
        return FeatureSpace.of(design, design.centre(y[:, None])[:, 0], gram)

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


def problem(n_targets=40):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4))
    Y = X @ rng.normal(size=(4, 3))[:, np.arange(n_targets) % 3] + rng.normal(size=(90, n_targets))
    return X, Y


@pytest.fixture(autouse=True)
def interrupts():
    """Tests may run in the background, where a shell has Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pressing(n_merges, times=1):
    """A callback that presses Ctrl-C where a search has made some merges."""
    left = [times]

    def press(now):
        if now.n_merges >= n_merges and left[0]:
            left[0] -= 1
            signal.raise_signal(signal.SIGINT)

    return press


def test_a_callback_stops_the_search_and_the_regressor_is_fitted_with_what_was_found():
    X, Y = problem()
    records = []

    def few(now):
        records.append(now)
        return now.n_merges < 7

    make = partial(CTFARegressor, LinearRegression(), targets=TargetAggregator(max_loss=1.5))
    whole = make().fit(X, Y)
    with ctfa.progress(few, every=0), pytest.warns(ctfa.SearchStopped, match="after 7 merges"):
        model = make().fit(X, Y)
    assert model.n_groups_ == 33 > whole.n_groups_
    assert not model.history_.complete
    assert model.predict(X).shape == Y.shape
    assert "the search was stopped before it had asked every candidate" in str(model.why(0))
    assert all(isinstance(record, ctfa.ScanProgress) for record in records)


@pytest.mark.parametrize("head", HEADS)
def test_without_a_finished_fold_the_penalties_are_what_the_likelihood_says(head):
    X, Y = problem()
    model = CTFARegressor(targets=TargetAggregator(max_loss=1.2), head=head)
    with (
        ctfa.progress(lambda now: now.stage == "scan", every=0),
        pytest.warns(ctfa.SearchStopped, match="none is finished, and nothing is chosen on them"),
    ):
        model.fit(X, Y)
    assert model.max_loss_ == 1.2
    assert model.history_.complete
    assert model.predict(X).shape == Y.shape
    (group,) = model.partition_.groups[:1]
    units = (Y - model.targets_.offsets_) / model.targets_.scales_
    mean = units[:, group].mean(axis=1, keepdims=True)
    penalty = Ridge.of(X, mean - mean.mean(axis=0)).penalty
    assert model.regressors_[0].alpha == pytest.approx(penalty[0])


def test_the_first_interrupt_stops_the_search_and_nothing_else():
    X, Y = problem()
    before = signal.getsignal(signal.SIGINT)
    with ctfa.progress(pressing(5), every=0), pytest.warns(ctfa.SearchStopped):
        groups = TargetAggregator(max_loss=1.5).fit(X, Y)
    assert signal.getsignal(signal.SIGINT) is before
    assert not groups.history_.complete
    assert len(groups.history_) == 5


def test_the_second_interrupt_raises():
    X, Y = problem()
    before = signal.getsignal(signal.SIGINT)

    def fit_twice():
        with ctfa.progress(pressing(5, times=2), every=0):
            with pytest.warns(ctfa.SearchStopped):
                TargetAggregator(max_loss=1.5).fit(X, Y)
            TargetAggregator(max_loss=1.5).fit(X, Y)

    with pytest.raises(KeyboardInterrupt):
        fit_twice()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_outside_a_search_raises():
    with pytest.raises(KeyboardInterrupt), ctfa.progress(print):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_outside_the_block_raises():
    X, Y = problem()
    with (
        pytest.raises(KeyboardInterrupt),
        progress.reporting_to(pressing(5), every=0.0),  # reports, but takes no signals in hand
    ):
        TargetAggregator(max_loss=1.5).fit(X, Y)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_folds_have_names_and_the_finished_ones_choose_the_limit(regressor):
    X, Y = problem()
    stages = []

    def until_the_third(now):
        if now.stage not in stages:
            stages.append(now.stage)
        return now.stage != "fold 3 of 5"

    with (
        ctfa.progress(until_the_third, every=0),
        pytest.warns(ctfa.SearchStopped, match="fold 3 of 5: the choice is made on the 2 before"),
    ):
        groups = TargetAggregator(max_loss="auto", cv=5, regressor=regressor).fit(X, Y)
    assert stages == ["path", "fold 1 of 5", "fold 2 of 5", "fold 3 of 5", "scan"]
    finished = list(KFold(5).split(X))[:2]
    alone = TargetAggregator(max_loss="auto", cv=finished, regressor=regressor).fit(X, Y)
    np.testing.assert_array_equal(groups.cv_curve_.fold_errors, alone.cv_curve_.fold_errors)
    assert groups.max_loss_ == alone.max_loss_
    assert groups.history_.complete


def test_without_a_finished_fold_the_limit_is_the_preferred_one():
    X, Y = problem()
    with (
        ctfa.progress(lambda now: now.stage == "scan", every=0),
        pytest.warns(ctfa.SearchStopped, match="none is finished, and max_loss is 1.5"),
    ):
        groups = TargetAggregator(max_loss="auto", cv=5).fit(X, Y)
    assert groups.cv_curve_ is None
    assert groups.max_loss_ == 1.5
    np.testing.assert_array_equal(groups.labels_, TargetAggregator(max_loss=1.5).fit(X, Y).labels_)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_folds_in_workers_are_reported_and_stopped_round_by_round(backend):
    X, Y = problem()
    phase, stages = TargetAggregator(cv=5), []

    def for_two_rounds(now):
        if now.stage not in stages:
            stages.append(now.stage)
        return now.stage != "folds 3 to 4 of 5"

    with (
        ctfa.progress(for_two_rounds, every=0),
        joblib.parallel_config(backend=backend),
        pytest.warns(ctfa.SearchStopped, match="fold 5 of 5: the choice is made on the 4 before"),
    ):
        model = CTFARegressor(targets=phase, features="passthrough", n_jobs=2).fit(X, Y)
    assert stages == ["path", "folds 1 to 2 of 5", "folds 3 to 4 of 5", "scan"]
    known = TargetAggregator(cv=list(KFold(5).split(X))[:4]).fit(X, Y)
    np.testing.assert_array_equal(model.cv_curve_.fold_errors, known.cv_curve_.fold_errors)
    assert model.history_.complete


WORKERS_UNDER_A_TERMINAL = """
import os, pathlib, signal, sys, time, warnings
import ctfa
from ctfa.estimators.search import judge_folds

folder = pathlib.Path(sys.argv[1])

def judge(fold):
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < 2:  # both workers are there before Ctrl-C is pressed
        time.sleep(0.01)
    if fold == 2:
        os.killpg(os.getpgrp(), signal.SIGINT)  # as a terminal does: to everybody
        time.sleep(0.2)
    return fold

with ctfa.progress(lambda now: None, every=0), warnings.catch_warnings():
    warnings.simplefilter("ignore", ctfa.SearchStopped)
    print(judge_folds(judge, [(fold,) for fold in range(6)], 2, 1))
"""


@pytest.mark.more
@pytest.mark.skipif(sys.platform == "win32", reason="process groups are those of POSIX")
def test_an_interrupt_reaches_workers_too_and_they_finish_their_folds(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WORKERS_UNDER_A_TERMINAL, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout.strip() == "([0, 1, 2, 3], True)", done.stderr


def test_another_thread_reports_to_its_own_block_and_leaves_signals_alone():
    X, Y = problem()
    records, before = [], signal.getsignal(signal.SIGINT)

    def work():
        with ctfa.progress(records.append, every=0):
            TargetAggregator(max_loss=1.5).fit(X, Y)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert records
    assert signal.getsignal(signal.SIGINT) is before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_text_is_one_line_on_a_terminal_and_wiped_at_the_end(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setitem(sys.modules, "rich.progress", None)  # as if not installed
    X, Y = problem()
    with ctfa.progress(every=0):
        TargetAggregator(max_loss=1.5).fit(X, Y)
        shown = sys.stderr.getvalue()
    assert "scan: 40 groups of 40" in shown
    assert "\n" not in shown
    assert sys.stderr.getvalue().endswith(" \r")


def test_in_a_file_nothing_is_shown_unless_asked(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    X, Y = problem()
    with ctfa.progress():
        TargetAggregator(max_loss=1.5).fit(X, Y)
    assert sys.stderr.getvalue() == ""
    with ctfa.progress(show=True):
        TargetAggregator(max_loss=1.5).fit(X, Y)
    assert sys.stderr.getvalue() == "0%, scan: 40 groups of 40, 1 comparisons, 0 s\n"


def test_the_bar_of_rich_follows_the_search(monkeypatch):
    pytest.importorskip("rich", reason="the bar is rich's")
    monkeypatch.setattr("sys.stderr", Terminal())
    X, Y = problem()
    with ctfa.progress(every=0):
        TargetAggregator(max_loss=1.5).fit(X, Y)
    assert "groups of 40" in sys.stderr.getvalue()


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"callback": 3}, TypeError, "callback=3, which cannot be called"),
        ({"callback": print, "show": True}, ValueError, "leave out callback or show"),
        ({"every": -1}, ValueError, "every=-1: give a number of seconds"),
        ({"every": "a"}, TypeError, "every='a' is not a number"),
    ],
)
def test_wrong_options_are_told(options, kind, text):
    with pytest.raises(kind, match=text), ctfa.progress(**options):
        pass


@pytest.mark.more
def test_one_total_stands_from_the_start_and_is_never_taken_back():
    basins = ctfa.datasets.make_basins(n_basins=12, n_samples=60, n_features=2, random_state=0)
    data = basins.to_xarray()
    records = []
    with progress.reporting_to(records.append, every=0.0):
        ctfa.labelled.fit(data, target="flow", held_out=2)
    done = [record.done for record in records]
    assert done == sorted(done)
    assert done[0] < 0.1
    assert 0.9 < done[-1] <= 1.0
    assert max(np.diff(done)) < 0.3
    stages = list(dict.fromkeys(record.stage for record in records))
    folds = [stage for stage in stages if stage.startswith("fold ")]
    assert folds == [f"fold {k} of 10" for k in range(1, 11)]
    assert any(stage.startswith("held-out rows, fold 1 of 10") for stage in stages)


def test_rivals_on_held_out_rows_ask_no_folds_for_intervals(monkeypatch):
    calls = []
    told = intervals.told_on_folds
    monkeypatch.setattr(intervals, "told_on_folds", lambda *a: calls.append(a) or told(*a))
    data = ctfa.datasets.make_basins(12, 60, 2, random_state=0).to_xarray()
    ctfa.labelled.fit(data, target="flow", held_out=2)
    assert len(calls) == 3  # by all rows, and without each block; nobody reads its rivals'


def test_every_fit_is_a_whole_of_its_own_where_nobody_knows_of_more():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 8))
    for model in (TargetAggregator(), CTFARegressor()):
        for _ in range(2):
            records = []
            with progress.reporting_to(records.append, every=0.0):
                model.fit(X, Y)
            assert records[0].done < 0.2
            assert records[-1].done <= 1.0
