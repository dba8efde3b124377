"""The evidence study in its quick form: it runs, resumes, and says what it could not do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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
