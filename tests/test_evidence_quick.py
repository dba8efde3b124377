"""The evidence study in its quick form: it runs, resumes, and says what it could not do."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ctfa import CTFARegressor, TargetAggregator

STUDY = Path(__file__).parent.parent / "benchmarks" / "evidence"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def study(folder, *options):
    environment = {k: v for k, v in os.environ.items() if k != "CTFA_DATA"} | ONE_THREAD
    command = [sys.executable, str(STUDY), "--quick", "--jobs", "1", "--output", str(folder)]
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


@pytest.fixture
def package(monkeypatch):
    monkeypatch.syspath_prepend(str(STUDY.parent))
    return importlib.import_module


def test_a_blocked_split_leaves_a_gap_around_the_test_block(package):
    sets = package("evidence.sets")
    for seed in range(sets.N_SPLITS):
        train, test = sets.blocked_split(100, 5, seed)
        assert (np.diff(test) == 1).all()
        assert np.abs(np.subtract.outer(train, test)).min() > 5


def test_tuning_and_final_seeds_see_different_halves_of_a_recording(package, monkeypatch):
    sets = package("evidence.sets")
    table = np.random.default_rng(0).normal(size=(4449, 28))
    table[:, 0] = np.arange(4449)
    seen = {}
    monkeypatch.setattr(sets, "table", lambda name: (table[:, :21], table[:, 21:]))
    monkeypatch.setattr(sets, "prepare", lambda X, Y, train, test: X[np.r_[train, test], 0])
    for seed in range(sets.N_SPLITS):
        seen.setdefault(seed % 2, set()).update(sets.sarcos(seed, n_samples=300))
    assert max(seen[0]) < min(seen[1])
    assert max(seen[1]) < 4449


def test_a_line_cut_short_is_computed_again(package, tmp_path):
    store = package("evidence.store").Store(tmp_path / "rows.jsonl")
    row = {"case": "a", "seed": 0, "method": "single", "protocol": "1", "version": ""}
    store.append([row | {"status": "ok"}, row | {"seed": 1, "status": "ok"}])
    text = store.path.read_text()
    store.path.write_text(text[:-20])
    again = package("evidence.store").Store(store.path)
    assert again.has(("a", 0, "single"), "1", "")
    assert not again.has(("a", 1, "single"), "1", "")
    assert not again.has(("a", 0, "single"), "2", "")


def test_the_replayed_gain_is_what_a_fixed_partition_gains(package):
    families, gains = package("evidence.families"), package("evidence.gains")
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
        promised.append(gains.replayed_gain(model.history_, problem.X, Z) / Z.shape[1])
        realised.append(risk[0] - risk[1])
    assert np.mean(promised) == pytest.approx(np.mean(realised), rel=0.1)


def test_curds_and_whey_shrinks_noise_and_leaves_strong_signals(package):
    rivals = package("evidence.rivals")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    noise = rng.normal(size=(200, 3))
    assert np.abs(rivals.CurdsAndWhey().fit(X, noise).shrink_).max() < 0.7
    signal = X[:, :3] + 0.01 * noise
    np.testing.assert_allclose(rivals.CurdsAndWhey().fit(X, signal).shrink_, np.eye(3), atol=1e-3)
