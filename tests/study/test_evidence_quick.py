"""The evidence study in its quick form: it runs, resumes, and says what it could not do."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from ctfa import CTFARegressor, TargetAggregator
from ctfa_study.comparison._harness import Store
from ctfa_study.evidence import PROTOCOL, families, measure, report, sets, tables
from ctfa_study.evidence.adversarial import ADVERSARIAL, adversarial_cases
from ctfa_study.evidence.methods import ReadablePart, all_methods
from ctfa_study.evidence.problem import stream
from ctfa_study.evidence.study import Plan, full_plan, open_store

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
    study(folder)
    return folder


def by_name(name):
    return next(method for method in all_methods() if method.name == name)


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
    assert "## Families built to break the rule: where each method stands" in page
    assert "## Gains that members of groups are told, and true ones" in page
    if find_spec("matplotlib") is not None:  # pictures are an extra
        assert (finished / "ratios_adversarial.png").exists()
    for name in ("default", "readable"):
        assert f"| synthetic: worst family | {name} |" in page


def test_where_ours_loses_is_said():
    cases = pd.DataFrame(
        {
            "method": ["default", "default", "ward"],
            "kind": "real",
            "case": ["a", "b", "a"],
            "ratio": [1.02, 0.9, 1.5],
            "error": 0.01,
            "groups": 2.0,
            "targets": 3.0,
        }
    )
    told = report.lost(cases)
    assert "## Where ours loses to a model per target" in told
    assert [line.split(" | ")[2:4] for line in told.splitlines() if "| default |" in line] == [
        ["a", "1.020"]
    ]


def test_a_second_run_computes_nothing_that_is_there(finished):
    good = sum(row["status"] == "ok" for row in rows(finished))
    said = study(finished)
    missing = int(said.split(" results to compute")[0].split()[-1])
    assert missing == len({(r["case"], r["seed"], r["method"]) for r in rows(finished)}) - good


def test_true_groups_beat_single_tasks_where_there_are_groups(finished):
    scores = {(r["case"], r["seed"], r["method"]): r.get("score") for r in rows(finished)}
    for (case, seed, method), score in scores.items():
        if method == "true groups" and not case.startswith("independent"):
            assert score < scores[case, seed, "single"]


def test_the_main_row_is_what_users_get():
    methods = {method.name: method for method in all_methods()}
    assert methods["default"].make(None).get_params() == CTFARegressor().get_params()
    assert methods["default"].applies(families.synthetic_cases()[0], 0)


def test_families_built_to_break_the_rule_are_part_of_the_whole_study():
    plan, _ = full_plan()
    built = [case for case in plan.cases if case.kind == "adversarial"]
    assert {case.family for case in built} == set(ADVERSARIAL)
    runs = {(run.case.name, run.seed, run.method.name) for run in plan.missing(Store())}
    assert all((case.name, seed, "default") in runs for case in built for seed in range(12))
    # Unlike those of real sets, their signals are known.
    for family in ADVERSARIAL:
        case = next(case for case in built if case.family == family)
        problem = case.make(0)
        assert problem.wanted.shape == (len(problem.X_test), problem.Y.shape[1])
        assert 0.0 < problem.noise < 1.0
        again = case.make(0)
        np.testing.assert_array_equal(problem.Y, again.Y)


def test_final_seeds_draw_other_numbers_than_all_seeds_looked_at_before():
    tuning = {stream(seed) for seed in range(0, 100, 2)}
    final = {stream(seed) for seed in range(1, 100, 2)}
    before = {seed + shift for seed in range(100) for shift in (0, 1000, 2000, 4000)}
    assert tuning <= before
    assert not final & (tuning | before)


@pytest.mark.parametrize("name", ["heterogeneous", "windows"])
def test_the_readable_part_is_the_default_model_without_what_members_add(name):
    case = next(
        case for case in (*families.synthetic_cases(), *adversarial_cases()) if case.family == name
    )
    problem = case.make(0).standardised()
    whole = CTFARegressor().fit(problem.X, problem.Y)
    part = ReadablePart().fit(problem.X, problem.Y)
    assert part.n_groups_ == whole.n_groups_ < problem.Y.shape[1]
    means = problem.Y - problem.Y.mean(axis=0)
    means = whole.partition_.mean(means / problem.Y.std(axis=0))
    # Coefficients of a group are those of a linear model of its mean...
    served = part.predict(problem.X)
    units = (served - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
    for group, members in enumerate(whole.partition_.groups):
        for member in members:
            np.testing.assert_allclose(units[:, member], units[:, members[0]], atol=1e-12)
        assert np.corrcoef(units[:, members[0]], means[:, group])[0, 1] > 0.5
    # ... and members differ from it by their own parts alone.
    own = whole.coef_ / problem.Y.std(axis=0)[:, None] - whole.group_coef_[whole.labels_]
    added = (problem.X - problem.X.mean(axis=0)) @ own.T * problem.Y.std(axis=0)
    np.testing.assert_allclose(served + added, whole.predict(problem.X), atol=1e-9)


def test_told_and_true_gains_are_those_of_why_and_of_the_errors_on_test_rows(finished):
    stored = {(r["case"], r["seed"], r["method"]): r for r in rows(finished)}
    case = families.synthetic_cases()[0]
    problem = measure.draw(case, 0)
    Z = (problem.Y - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
    model = CTFARegressor().fit(problem.X, Z)
    read = stored[case.name, 0, "readable"]
    for target in (0, 7):
        why = model.why(target)
        assert why.members != (why.target,)
        assert read["told"][target] == pytest.approx(why.gain, rel=1e-5)
        assert read["told_error"][target] == pytest.approx(why.gain_error, rel=1e-5)
    alone = CTFARegressor(targets="passthrough", features="passthrough").fit(problem.X, Z)
    wanted = (problem.wanted - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
    error = np.mean((alone.predict(problem.X_test) - wanted) ** 2, axis=0)
    np.testing.assert_allclose(stored[case.name, 0, "default, alone"]["losses"], error, rtol=1e-4)
    each = tables.members(tables.frame(list(stored.values()), "tuning"))
    here = each[(each["case"] == case.name) & (each["seed"] == 0)]
    gained = np.subtract(error, read["losses"])
    np.testing.assert_allclose(here["gained"], gained[np.isfinite(read["told"])], atol=1e-5)


def test_targets_by_themselves_are_told_nothing():
    case = next(case for case in families.synthetic_cases() if case.family == "independent")
    row = measure.measure(measure.Run(case, 0, by_name("readable")))
    assert row["groups"] == row["L"]
    assert np.isnan(row["told"]).all()


def test_coverage_is_counted_by_family_with_and_without_groups():
    told = {"method": "readable", "told": [0.2, 0.2, np.nan], "told_error": [0.1, 0.1, np.nan]}
    alone = {"method": "default, alone", "losses": [0.5, 0.9, 0.4]}
    table = [
        {"kind": "synthetic", "family": "a", "case": case, "seed": 0, "grouped": grouped,
         "status": "ok", "score": 1.0, "mse": 1.0, **what}
        for case, grouped in (("a, K=2", True), ("a, K=3", False))
        for what in ({**told, "losses": [0.3, 0.3, 0.1 if grouped else 0.3]}, alone)
    ]  # fmt: skip
    each = tables.members(tables.frame(table, "tuning"))
    assert each["gained"].tolist() == pytest.approx([0.2, 0.6, 0.2, 0.6])
    covered = tables.coverage(each)
    assert covered["groups"].tolist() == [True, False]
    assert covered["members"].tolist() == [2, 2]
    assert covered["covered"].tolist() == [0.5, 0.5]
    bars = list(tables.coverage_bars(each))
    assert [bar.measured for bar in bars] == [0.5, 0.5, 0.5]
    assert not any(bar.met for bar in bars)


def test_real_sets_are_held_against_ridge_regression_and_families_against_least_squares():
    table = [
        {"kind": kind, "family": kind, "case": kind, "seed": 0, "status": "ok", "L": 2, "mse": 1.0,
         "seconds": 0.0, "method": method, "score": score}
        for kind in ("synthetic", "real")
        for method, score in (("single", 4.0), ("ridge", 2.0), ("default", 1.0))
    ]  # fmt: skip
    cases = tables.ratios(tables.frame(table, "tuning")).set_index(["kind", "method"])["ratio"]
    assert cases["synthetic", "default"] == 0.25
    assert cases["real", "default"] == 0.5
    assert cases["real", "ridge"] == cases["synthetic", "single"] == 1.0


def test_the_papers_rule_is_not_available_without_rows_for_a_noise():
    case = next(case for case in adversarial_cases() if case.family == "n below D")
    row = measure.measure(measure.Run(case, 0, by_name("paper")))
    assert row["status"] == "not available"


def test_a_blocked_split_leaves_a_gap_around_the_test_block():
    for seed in range(sets.N_SPLITS):
        train, test = sets.blocked_split(100, 5, seed)
        assert (np.diff(test) == 1).all()
        assert np.abs(np.subtract.outer(train, test)).min() > 5


def test_blocks_of_final_seeds_lie_where_none_lay_before():
    places = [sets.place(seed) for seed in range(sets.N_SPLITS)]
    assert len(set(places)) == sets.N_SPLITS
    assert min(places) == 0.0
    assert max(places) == 1.0
    before = np.arange(8) / 7.0
    assert np.abs(np.subtract.outer(places[1::2], before)).min() > 1e-3


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
    single = measure.Method("single", lambda problem: None, "")
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
    single = measure.Method("single", lambda problem: None, "")
    row = {"case": "a", "method": "single", "version": ""}
    store.add(row | {"seed": 0, "protocol": PROTOCOL, "status": "ok"})
    store.add(row | {"seed": 1, "protocol": "3", "status": "ok"})
    store.add(row | {"seed": 2, "protocol": PROTOCOL, "status": "failed"})
    assert [run.seed for run in Plan([case], [single]).missing(store)] == [1, 2]


def test_what_members_are_told_is_on_average_what_they_gain():
    told, gained = [], []
    for seed in range(0, 40, 2):
        problem = families.draw(seed, family="identical", size=families.FAMILIES["identical"][1][1])
        Z = (problem.Y - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
        # Every merge is accepted: the partition has not looked at the data.
        everybody = TargetAggregator(max_loss=np.inf)
        model = CTFARegressor(targets=everybody, features="passthrough", head="mean")
        single = CTFARegressor(targets="passthrough", features="passthrough")
        wanted = (problem.wanted - problem.Y.mean(axis=0)) / problem.Y.std(axis=0)
        fitted = [one.fit(problem.X, Z) for one in (single, model)]
        risk = [np.mean((m.predict(problem.X_test) - wanted) ** 2) for m in fitted]
        told.append(np.mean([model.why(target).gain for target in range(Z.shape[1])]))
        gained.append(risk[0] - risk[1])
    # Folds learn from nine tenths of the rows, from which one model gains by as much more.
    assert 0.9 * np.mean(told) == pytest.approx(np.mean(gained), rel=0.1)
