"""Figures 1 to 4 of the paper: what is run, what is said of it and what is drawn."""

import numpy as np
import pytest

from ctfa import nonlinctfa
from ctfa_study.reproduction import HONEST, Plan, Results, judge, judge_statements, load_claims
from ctfa_study.reproduction._reproduce import run_one
from ctfa_study.reproduction.compare import CANNOT, DIFFERS, MIXED, REPRODUCED
from ctfa_study.reproduction.experiments.generated import _findings as findings
from ctfa_study.reproduction.experiments.generated import _repetition as generated
from ctfa_study.reproduction.experiments.generated._drawing import draw
from ctfa_study.reproduction.experiments.generated._repetition import (
    BASE,
    BY_NAME,
    SWEEPS,
    WIDE,
    points,
)
from ctfa_study.reproduction.experiments.generated.figures import FIGURES, cases

CLAIMS = load_claims().of("figures")


def invented(change=None, quick=True):
    """Results of three repetitions whose figures follow a rule: no fit, every place there."""
    rows = []
    for case in cases(Plan(seeds=3)):
        rank = list(generated.METHODS).index(case.method)
        figures = {
            "mse": 100.0 - rank + case.seed, "r2": 0.5 + 0.01 * rank + 0.001 * case.seed,
            "mse decrease %": float(rank), "groups": 2.0, "features": 4.0,
        }  # fmt: skip
        figures |= {} if change is None else change(case)
        rows.append({"protocol": HONEST, "setting": case.setting, "method": case.method,
                     "seed": case.seed, "quick": quick, "figures": figures})  # fmt: skip
    return Results(rows)


def of_sweep(parameter, figures):
    """Figures of some points of one sweep: method by value."""
    sweep = BY_NAME[parameter]
    rows = []
    for method, values in figures.items():
        for value, found in values.items():
            rows.append({"protocol": HONEST, "setting": sweep.name_of(value), "method": method,
                         "seed": 0, "quick": True, "figures": found})  # fmt: skip
    return Results(rows)


def test_every_number_has_a_case_or_says_why_not():
    run = {(case.setting, case.method) for case in cases(Plan(seeds=1))}
    for claim in CLAIMS.numbers:
        assert claim.cannot or (claim.setting, claim.method) in run, claim.place
    assert {statement.check for statement in CLAIMS.statements} == set(FIGURES.checks)


def test_every_value_of_a_sweep_is_a_setting_that_differs_in_it_alone():
    known = {point.name: point.setting for point in points()}
    base = generated.Setting()
    assert known[BASE] == base
    for sweep in SWEEPS:
        for value in sweep.values:
            setting = known[sweep.name_of(value)]
            assert getattr(setting, sweep.parameter) == value
            assert setting._replace(**{sweep.parameter: getattr(base, sweep.parameter)}) == base


def test_no_two_cases_are_taken_for_the_same():
    made = list(cases(Plan(seeds=2)))
    assert len({case.key for case in made}) == len(made)


def test_more_features_than_rows_cannot_be_judged_and_the_ridge_can():
    claims = [claim for claim in CLAIMS.numbers if claim.setting == WIDE]
    assert {claim.method for claim in claims if claim.cannot} == {"Phase I", "Phase I+II"}
    made = generated.Setting(n=30, D=40, L=3).data(0)
    with pytest.raises(ValueError, match="too few degrees of freedom"):
        nonlinctfa().fit(made.data[:30], made.target[:30])
    small = generated.Setting(n=30, D=40, L=3)
    assert np.isfinite(generated.measure(small, generated.RISK_RIDGE, 0)["mse"])


def test_the_first_repetition_of_every_kind_of_case_runs_and_is_judged():
    kept = {BASE, "D = 10", "epsilon_1 = 100", "epsilon_1 = -100", "epsilon_2 = 0.01",
            "noise correlation = 0.5"}  # fmt: skip
    rows = [run_one(case) for case in cases(Plan(quick=True)) if case.setting in kept]
    results = Results(rows)
    assert not results.failed
    verdicts = judge(CLAIMS, results)
    assert len(verdicts) == len(CLAIMS.numbers)
    assert {verdict.word for verdict in verdicts} <= {REPRODUCED, DIFFERS, CANNOT}
    assert any(v.word == REPRODUCED for v in verdicts if v.claim.setting == BASE)
    ends = [results.mean(HONEST, f"epsilon_1 = {e}", "Phase I", "groups") for e in (-100, 100)]
    assert ends == [1.0, 10.0]
    assert results.mean(HONEST, "epsilon_2 = 0.01", "Phase I+II", "features") == 1.0


def test_every_statement_is_answered_from_results_and_from_nothing():
    judged = judge_statements(CLAIMS, FIGURES, invented())
    assert {one.word for one in judged} <= {REPRODUCED, MIXED, DIFFERS}
    nothing = judge_statements(CLAIMS, FIGURES, Results([]))
    assert {one.word for one in nothing} == {CANNOT}


@pytest.mark.parametrize("falls", [False, True])
def test_more_tasks_help_only_if_the_gain_rises_all_the_way(falls):
    gains = {2: 5.0, 5: 20.0, 10: 29.0, 20: 33.0, 50: 34.0, 100: 20.0 if falls else 35.0}
    found = {value: {"mse decrease %": gain, "groups": 2.0} for value, gain in gains.items()}
    results = of_sweep("L", {"Phase I": found})
    found = findings.many_tasks(results)
    assert found.holds is not falls
    assert [step for step, holds in found.cases.items() if not holds] == (
        ["L from 50 to 100"] if falls else []
    )
    assert f"{gains[100]:.1f} % at 100" in found.shown


@pytest.mark.parametrize(("large", "holds"), [(58.0, False), (82.0, True)])
def test_a_large_epsilon_2_is_detrimental_only_if_the_error_rises(large, holds):
    found = {
        1e-4: {"mse": 60.0, "features": 3.5},
        1e-2: {"mse": large, "features": 1.0},
        0.1: {"mse": large, "features": 1.0},
    }
    assert findings.epsilon_2_large(of_sweep("epsilon_2", {"Phase I+II": found})).holds is holds


def test_pictures_show_the_means_of_the_results(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    drawn = {}
    figure = pytest.importorskip("matplotlib.figure").Figure
    monkeypatch.setattr(figure, "savefig", lambda self, path, **_: drawn.update({path.name: self}))
    results = invented()
    written = draw(results, tmp_path)
    assert [path.name for path in written] == [
        "figure1.png", "figure2.png", "figure3.png", "figure4.png", "noise_correlation.png",
        "r2.png",
    ]  # fmt: skip
    panel = drawn["figure3.png"].axes[0]
    assert panel.get_ylabel() == "test MSE"
    lines = {c.get_label(): c.lines[0] for c in panel.containers}
    assert len(lines["single task"].get_xdata()) == len(BY_NAME["n"].points())
    expected = results.mean(HONEST, "n = 150", "Phase I+II, risk rule", "mse")
    assert lines["Phase I+II, risk rule"].get_ydata()[0] == expected
    assert "3 repetitions" in drawn["r2.png"].get_suptitle()


def test_without_results_only_schemes_and_maps_are_drawn(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    empty = Results([])
    empty.rows = [{"quick": True}]
    assert [path.name for path in draw(empty, tmp_path)] == ["figure1.png", "figure2.png"]
    assert all((tmp_path / name).stat().st_size for name in ("figure1.png", "figure2.png"))
