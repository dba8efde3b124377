"""Table 3 rebuilt: folds of time, the ends of the curve, and what is said of it."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ctfa_study.reproduction import load_claims
from ctfa_study.reproduction._case import HONEST, Plan
from ctfa_study.reproduction._reproduce import run_one
from ctfa_study.reproduction._results import Results
from ctfa_study.reproduction.compare import CANNOT, judge, judge_statements
from ctfa_study.reproduction.experiments.table3 import _methods as methods
from ctfa_study.reproduction.experiments.table3._settings import (
    CRU,
    EUROPE,
    PO,
    SETTINGS,
    SMALL_MAP,
    Fold,
    error_of,
    make_fold,
    rows_of,
)
from ctfa_study.reproduction.experiments.table3.table import (
    TABLE3,
    has_fewer_models,
    has_u_shape,
    main_curve,
)
from real_data import real

CLAIMS = load_claims().of("table3")


@pytest.fixture(scope="module")
def quick_rows():
    """The generated maps as a quick run has them."""
    chosen = [c for c in TABLE3.cases(Plan(quick=True)) if c.setting in (EUROPE, SMALL_MAP)]
    return [run_one(case) for case in chosen]


def curve(mse, groups=None, setting=EUROPE):
    """Results of one fold with these errors at the ten epsilons."""
    groups = range(len(mse), 0, -1) if groups is None else groups
    return [
        {
            "protocol": HONEST, "setting": setting, "method": method, "seed": 0,
            "figures": {"mse": error, "groups": n},
        }
        for method, error, n in zip(main_curve(setting), mse, groups, strict=True)
    ]  # fmt: skip


def of_paper(quantity):
    return [claim.printed for claim in CLAIMS.numbers if claim.quantity == quantity]


def test_the_twenty_numbers_are_there_and_say_why_they_cannot_be_run():
    table = [claim for claim in CLAIMS.numbers if claim.source == "Table 3"]
    assert len({(claim.method, claim.quantity) for claim in table}) == len(table) == 20
    for claim in CLAIMS.numbers:
        assert "public" in claim.cannot
        assert (claim.spread is not None) == (claim.quantity == "mse")
    assert [claim.method for claim in table[:10]] == [
        methods.of_epsilon(epsilon, graph=False) for epsilon in methods.EPSILONS
    ]


def test_every_statement_has_a_check():
    assert {one.check for one in CLAIMS.statements} == set(TABLE3.checks)


@pytest.mark.parametrize("quick", [True, False])
def test_every_case_has_a_key_of_its_own(quick):
    keys = [case.key for case in TABLE3.cases(Plan(quick=quick))]
    assert len(set(keys)) == len(keys)


def test_seeds_run_so_many_of_the_folds_and_no_more_than_there_are():
    for asked in (1, 2, 9):
        cases = list(TABLE3.cases(Plan(seeds=asked)))
        for setting, known in SETTINGS.items():
            folds = {case.seed for case in cases if case.setting == setting}
            assert folds == set(range(min(asked, known.n_folds)))


def test_each_row_judges_once_and_stays_away_from_what_is_learned():
    judged = []
    for fold in range(5):
        train, test = rows_of(102, fold, 5, 2)
        assert np.abs(train[:, None] - test).min() > 2
        judged.extend(test)
    assert judged == list(range(102))


def test_units_are_those_of_the_rows_to_learn_from():
    fold = make_fold(EUROPE, 0, True)
    np.testing.assert_allclose(fold.Y.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(fold.Y.std(axis=0), 1.0)
    assert np.abs(fold.Y_test.std(axis=0) - 1.0).max() > 0.05


def test_a_row_without_a_target_or_an_input_of_the_task_does_not_judge_it():
    layout = np.array([[0], [1]])
    X, Y = np.array([[0.0, 0.0], [np.nan, 0.0]]), np.array([[1.0, 2.0], [5.0, np.nan]])
    fold = Fold(layout, None, X, Y, X, Y)
    assert error_of(np.zeros((2, 2)), fold) == pytest.approx((1.0 + 4.0) / 2)


def test_single_ridge_is_the_ridge_that_generalised_cross_validation_prefers():
    fold = make_fold(EUROPE, 0, True)
    found = methods.single_ridges(fold)
    n_rows = len(fold.X)
    for task in (0, 50, 100):
        X, y = fold.X[:, fold.layout[task]], fold.Y[:, task]
        spectrum = np.linalg.svd(X, compute_uv=False) ** 2
        best = (np.inf, None)
        for alpha in n_rows * np.logspace(-6.0, 2.0, 33):
            ridge = Ridge(alpha).fit(X, y)
            spent = 1.0 + (spectrum / (spectrum + alpha)).sum()
            score = np.mean((y - ridge.predict(X)) ** 2) / (1.0 - spent / n_rows) ** 2
            best = min(best, (score, alpha))
        ridge = Ridge(best[1]).fit(X, y)
        expected = ridge.predict(fold.X_test[:, fold.layout[task]])
        np.testing.assert_allclose(found[:, task], expected, atol=1e-6)


def test_the_ends_of_the_curve_are_single_tasks_and_one_group(quick_rows):
    results = Results(quick_rows)
    assert not results.failed
    for setting in (EUROPE, SMALL_MAP):
        first, last = main_curve(setting)[0], main_curve(setting)[-1]
        for method, plain in ((first, methods.SINGLE), (last, methods.ONE_GROUP)):
            for quantity in ("mse", "groups", "models"):
                figures = [results.mean(HONEST, setting, m, quantity) for m in (method, plain)]
                assert figures[0] == pytest.approx(figures[1], rel=1e-9)


def test_a_smaller_epsilon_leaves_no_more_groups(quick_rows):
    results = Results(quick_rows)
    groups = [results.mean(HONEST, EUROPE, method, "groups") for method in main_curve(EUROPE)]
    assert np.all(np.diff(groups) <= 0)


def test_every_claim_has_a_verdict_when_only_generated_maps_were_run(quick_rows):
    results = Results(quick_rows)
    assert {verdict.word for verdict in judge(CLAIMS, results)} == {CANNOT}
    for judged in judge_statements(CLAIMS, TABLE3, results):
        # None of the maps is the paper's; one of those that statements are asked of was run.
        assert judged.word == CANNOT
        assert [name.partition(":")[0] for name in judged.cases] == ["29,934 generated basins"]
        if judged.statement.identity:
            assert all(judged.cases.values())


@pytest.mark.parametrize(
    ("mse", "holds"),
    [
        (of_paper("mse"), True),
        ([1.0] * 9 + [1.2], False),  # nothing is gained
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], False),  # nothing is lost again
        ([1.0, 0.5, 1.0, 1.0, 1.0, 0.4, 1.0, 1.0, 1.0, 1.0], False),  # two minima
    ],
)
def test_the_u_shape_is_found_where_it_is(mse, holds):
    rows = curve(mse, of_paper("groups"))
    for graph in (False, True):  # the map by which all pairs and neighbours are compared
        rows += [
            row | {"setting": SMALL_MAP, "method": methods.of_epsilon(epsilon, graph=graph)}
            for row, epsilon in zip(curve(mse), methods.EPSILONS, strict=True)
        ]
    finding = has_u_shape(Results(rows), EUROPE)
    assert finding.holds == holds
    assert f"{min(mse):.3f}" in finding.shown


def test_the_picture_is_written_of_what_was_run(quick_rows, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    (path,) = TABLE3.draw(Results(quick_rows), tmp_path)
    assert path.stat().st_size > 10_000
    assert TABLE3.draw(Results([]), tmp_path) == []


def with_single(rows, error):
    """The same with single tasks, and what else is told beside them."""
    others = [methods.SINGLE, methods.SINGLE_RIDGE, methods.of_risk("mean", graph=True)]
    figures = {"mse": error, "groups": 10, "models": 10}
    return rows + [rows[0] | {"method": name, "figures": figures} for name in others]


@pytest.mark.parametrize(
    ("models", "error", "holds"), [(4, 0.8, True), (9, 0.8, False), (4, 1.0, False)]
)
def test_fewer_models_are_half_as_many_and_err_less(models, error, holds):
    rows = curve([1.0] * 5 + [error] + [1.1] * 4)
    for row in rows:
        row["figures"]["models"] = models
    assert has_fewer_models(Results(with_single(rows, 1.0)), EUROPE).holds == holds


def test_folds_that_a_method_lacks_are_not_compared():
    rows = with_single(curve([1.0] * 10), 1.0)
    with pytest.raises(KeyError, match="same folds"):
        has_fewer_models(Results(rows[1:]), EUROPE)
    with pytest.raises(KeyError, match="same folds"):
        has_fewer_models(Results([*rows, rows[3]]), EUROPE)


@pytest.mark.data
def test_on_the_po_the_ends_agree_though_basins_have_other_inputs():
    real("po_basins")
    single = methods.measure_plain(PO, 0, methods.SINGLE, quick=True)["mse"]
    one = methods.measure_plain(PO, 0, methods.ONE_GROUP, quick=True)["mse"]
    asked = {"graph": False, "quick": True}
    assert methods.measure_authors(PO, 0, 1.0, **asked)["mse"] == pytest.approx(single)
    assert methods.measure_authors(PO, 0, -1.0, **asked)["mse"] == pytest.approx(one)
    assert single < one  # averaging ten basins does not pay


@pytest.mark.data
def test_on_iberia_the_paper_s_zero_merges_nearly_all_cells_and_loses():
    real("cru_iberia")
    found = methods.measure_authors(CRU, 0, 0.0, graph=False, quick=False)
    single = methods.measure_plain(CRU, 0, methods.SINGLE, quick=False)
    assert found["groups"] <= 5
    assert found["mse"] > 1.1 * single["mse"]
