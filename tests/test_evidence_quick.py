"""The evidence study in its quick form: it runs, resumes, and says what it could not do."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from ctfa import CTFARegressor, TargetAggregator
from ctfa_study.evidence import PROTOCOL, families, measure, sets
from ctfa_study.evidence.study import Plan, open_store

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def study(folder, *options):
    environment = {k: v for k, v in os.environ.items() if k != "CTFA_DATA"} | ONE_THREAD
    command = [sys.executable, "-m", "ctfa_study.evidence", "--quick", "--jobs", "1"]
    command += ["--output", str(folder)]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evidence")
    study(folder, "--max-loss", "1.5")
    return folder


def rows(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


def test_every_method_has_a_score_or_is_said_to_be_unavailable(finished):
    for row in rows(finished):
        assert row["status"] in ("ok", "not available"), row
        if row["status"] == "ok":
            assert np.isfinite(row["score"])


def test_the_report_names_the_demands_and_the_losses(finished):
    page = (finished / "report.md").read_text()
    assert "## What was asked, and what was measured" in page
    assert "## Where ours loses to single-task least squares" in page


def test_a_second_run_computes_nothing_that_is_there(finished):
    good = sum(row["status"] == "ok" for row in rows(finished))
    said = study(finished, "--max-loss", "1.5")
    missing = int(said.split(" results to compute")[0].split()[-1])
    assert missing == len({(r["case"], r["seed"], r["method"]) for r in rows(finished)}) - good


def test_true_groups_beat_single_tasks_where_there_are_groups(finished):
    scores = {(r["case"], r["seed"], r["method"]): r.get("score") for r in rows(finished)}
    for (case, seed, method), score in scores.items():
        if method == "true groups" and not case.startswith("independent"):
            assert score < scores[case, seed, "single"]


def test_a_blocked_split_leaves_a_gap_around_the_test_block():
    for seed in range(sets.N_SPLITS):
        train, test = sets.blocked_split(100, 5, seed)
        assert (np.diff(test) == 1).all()
        assert np.abs(np.subtract.outer(train, test)).min() > 5


def test_tuning_and_final_seeds_see_different_halves_of_a_recording(monkeypatch):
    table = np.random.default_rng(0).normal(size=(4449, 28))
    table[:, 0] = np.arange(4449)
    seen = {}
    monkeypatch.setattr(sets, "table", lambda name: (table[:, :21], table[:, 21:]))
    monkeypatch.setattr(sets, "prepare", lambda X, Y, train, test: X[np.r_[train, test], 0])
    for seed in range(sets.N_SPLITS):
        seen.setdefault(seed % 2, set()).update(sets.sarcos(seed, n_samples=300))
    assert max(seen[0]) < min(seen[1])
    assert max(seen[1]) < 4449


def test_a_line_cut_short_is_computed_again(tmp_path):
    store = open_store(tmp_path)
    case = families.Case("a", "a", "synthetic", lambda seed: None, n_seeds=2)
    single = measure.Method("single", lambda problem, limit: None, "")
    row = {"case": "a", "seed": 0, "method": "single", "protocol": PROTOCOL, "version": ""}
    for seed in (0, 1):
        store.add(row | {"seed": seed, "status": "ok"})
    assert Plan([case], [single]).missing(store) == []
    text = store.path.read_text()
    store.path.write_text(text[:-20])
    again = Plan([case], [single]).missing(open_store(tmp_path))
    assert [run.seed for run in again] == [1]


def test_what_failed_or_is_of_another_protocol_is_computed_again(tmp_path):
    store = open_store(tmp_path)
    case = families.Case("a", "a", "synthetic", lambda seed: None, n_seeds=3)
    single = measure.Method("single", lambda problem, limit: None, "")
    row = {"case": "a", "method": "single", "version": ""}
    store.add(row | {"seed": 0, "protocol": PROTOCOL, "status": "ok"})
    store.add(row | {"seed": 1, "protocol": "1", "status": "ok"})
    store.add(row | {"seed": 2, "protocol": PROTOCOL, "status": "failed"})
    assert [run.seed for run in Plan([case], [single]).missing(store)] == [1, 2]


def test_the_replayed_gain_is_what_a_fixed_partition_gains():
    promised, realised = [], []
    for seed in range(40):
        problem = families.draw(seed, family="identical", size=families.FAMILIES["identical"][1][0])
        scale = problem.Y.std(axis=0)
        Z = (problem.Y - problem.Y.mean(axis=0)) / scale
        # Every merge is accepted, in the order given: the partition has not looked at the data.
        aggregator = TargetAggregator(max_loss=np.inf, scan="grow")
        model = CTFARegressor(targets=aggregator, features="passthrough").fit(problem.X, Z)
        single = CTFARegressor(targets="passthrough", features="passthrough").fit(problem.X, Z)
        wanted = (problem.wanted - problem.Y.mean(axis=0)) / scale
        risk = [np.mean((m.predict(problem.X_test) - wanted) ** 2) for m in (single, model)]
        promised.append(measure.replayed_gain(model.history_, problem.X, Z) / Z.shape[1])
        realised.append(risk[0] - risk[1])
    assert np.mean(promised) == pytest.approx(np.mean(realised), rel=0.1)
