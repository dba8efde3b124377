"""Section 5.1 of the paper: what is run, and what comes out."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from ctfa import nonlinctfa
from ctfa_study.reproduction import HONEST, Plan, Results, load_claims, reproduce
from ctfa_study.reproduction.compare import CHOICE, DIFFERS, REPRODUCED
from ctfa_study.reproduction.experiments.generated import _repetition as generated
from ctfa_study.reproduction.experiments.generated.synthetic import (
    SYNTHETIC,
    cases,
    check_better_than_single,
    check_second_phase_refines,
)

CLAIMS = load_claims().of("synthetic")


@pytest.fixture(scope="module")
def quick():
    return reproduce("synthetic", quick=True)


def test_every_number_has_a_case():
    run = {(case.setting, case.method) for case in cases(Plan())}
    measured = [claim for claim in CLAIMS.numbers if claim.method != CHOICE]
    assert {(claim.setting, claim.method) for claim in measured} <= run
    assert {c.quantity for c in CLAIMS.numbers if c.method == CHOICE} == set(SYNTHETIC.choices)
    assert {statement.check for statement in CLAIMS.statements} == set(SYNTHETIC.checks)


def test_a_full_run_has_100_repetitions_and_others_as_many_as_asked():
    def seeds(plan):
        return {case.seed for case in cases(plan)}

    assert seeds(Plan()) == set(range(100))
    assert seeds(Plan(seeds=2)) == {0, 1}


def test_no_two_cases_are_taken_for_the_same():
    made = list(cases(Plan(seeds=2)))
    assert len({case.key for case in made}) == len(made)


def test_a_quick_run_gives_every_number_and_statement_a_verdict(quick):
    words = {REPRODUCED, DIFFERS}
    assert len(quick.verdicts) == len(CLAIMS.numbers)
    assert {verdict.word for verdict in quick.verdicts if not verdict.claim.cannot} <= words
    assert {judged.word for judged in quick.statements} == {REPRODUCED}
    assert not quick.results.failed


def test_what_the_text_misprints_is_said(quick):
    printed = {
        (v.claim.method, v.claim.quantity): v
        for v in quick.verdicts
        if v.claim.source != "authors' log"
    }
    assert "7.5 is meant, which agrees" in printed["data", "noise"].why
    for method in generated.PAPER:
        assert "divided by ten" in printed[method, "mse"].why


def row(method, noise, seed=0, **figures):
    return {"protocol": HONEST, "setting": f"sigma = {noise:g}", "method": method, "seed": seed,
            "figures": figures}  # fmt: skip


@pytest.mark.parametrize(("last", "holds"), [(60.0, True), (71.0, False)])
def test_the_second_phase_refines_only_beyond_chance(last, holds):
    errors = {"Phase I": (65.0, 65.5, 65.0), "Phase I+II": (60.0, 60.5, last)}
    made = [row(m, noise, seed, mse=e, features=4.0) for m, found in errors.items()
            for seed, e in enumerate(found) for noise in (7.5, 10.0)]  # fmt: skip
    assert check_second_phase_refines(Results(made)).holds is holds


def test_one_repetition_says_nothing_beyond_chance():
    made = [row(method, noise, **{"mse decrease %": 30.0})
            for method in generated.METHODS for noise in (7.5, 10.0)]  # fmt: skip
    with pytest.raises(KeyError, match="twice or more"):
        check_better_than_single(Results(made))


def test_changes_are_taken_task_by_task_as_the_authors_do():
    setting = generated.Setting(n=60, D=12, L=4)
    figures = generated.measure(setting, generated.BOTH, seed=3)
    made = setting.data(3)
    X, Y = made.data, made.target
    alone = LinearRegression().fit(X[:60], Y[:60]).predict(X[60:])
    model = nonlinctfa().fit(X[:60], Y[:60])
    errors = [
        ((predicted - Y[60:]) ** 2).mean(axis=0) for predicted in (alone, model.predict(X[60:]))
    ]
    variance = Y[60:].var(axis=0)
    r2 = [1.0 - error / variance for error in errors]
    assert figures["mse"] == pytest.approx(errors[1].mean())
    assert figures["r2"] == pytest.approx(r2[1].mean())
    assert figures["mse decrease %"] == pytest.approx(100 * np.mean(1 - errors[1] / errors[0]))
    assert figures["r2 increase %"] == pytest.approx(100 * np.mean(r2[1] / r2[0] - 1))
    assert figures["groups"] == figures["models"] == model.n_groups_
    kept = [model.features_[group].n_groups_ for group in model.labels_]
    assert figures["features"] == pytest.approx(np.mean(kept))


def test_a_single_task_changes_nothing_against_itself():
    figures = generated.measure(generated.Setting(n=60, D=12, L=4), generated.SINGLE, seed=0)
    assert figures["mse decrease %"] == figures["r2 increase %"] == 0.0
    assert (figures["groups"], figures["features"]) == (4, 12)


@pytest.mark.parametrize(
    ("noise", "single", "first", "both"), [(7.5, 94.4, 0.694, 0.64), (10.0, 167.8, 0.686, 0.63)]
)
def test_errors_are_those_of_200_repetitions_of_the_authors_code(noise, single, first, both):
    setting = generated.Setting(sigma=noise)
    errors = {
        method: np.mean([generated.measure(setting, method, seed)["mse"] for seed in range(20)])
        for method in generated.PAPER
    }
    assert errors[generated.SINGLE] == pytest.approx(single, rel=0.03)
    assert errors[generated.PHASE_1] / errors[generated.SINGLE] == pytest.approx(first, rel=0.03)
    assert errors[generated.BOTH] / errors[generated.SINGLE] == pytest.approx(both, rel=0.03)


def test_the_noise_in_the_data_is_what_was_asked_for():
    figures = generated.measure_data(generated.Setting(sigma=10.0), seed=0)
    assert figures["noise"] == pytest.approx(10.0, rel=0.05)
    assert (figures["rows"], figures["inputs"], figures["tasks"]) == (250, 100, 10)


def test_there_is_one_protocol_and_it_says_how_often():
    assert set(SYNTHETIC.protocols) == {HONEST}
    assert "100 repetitions" in SYNTHETIC.protocols[HONEST]
