"""The comparison of methods: the same splits for all, figures by hand, nothing lost."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils import Bunch

from ctfa import PooledCTFARegressor, multi_input_layout
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa_study.baselines import (
    ASORegressor,
    ClusteredLassoRegressor,
    ConvexASORegressor,
    PairR2Aggregator,
    SingleTaskRegressor,
    TaskSearchCV,
    TraceNormRegressor,
)
from ctfa_study.comparison import (
    METHODS,
    METRICS,
    SPLITS,
    Comparison,
    Method,
    compare,
    read_problem,
)
from ctfa_study.comparison._data import read_name
from ctfa_study.comparison._describe import describe
from ctfa_study.comparison._harness import Store
from ctfa_study.comparison._metrics import errors_of_tasks
from ctfa_study.comparison._run import Run, Setting
from ctfa_study.comparison._splits import make_split
from ctfa_study.comparison._summary import paired_test


def shared(seed=0, n=60, d=5, t=3):
    return make_paper_synthetic(n, d, t, noise=1.0, random_state=seed)


def own_rows(seed=0, sizes=(20, 9, 31)):
    rng = np.random.default_rng(seed)
    tasks = rng.permutation(np.repeat(["a", "b", "c"], sizes))
    X = rng.normal(size=(tasks.size, 3))
    return X, X @ [1.0, 2.0, -1.0] + 3.0 * (tasks == "b") + rng.normal(size=tasks.size), tasks


def own_inputs(seed=0, gaps=0.0):
    basins = make_basins(8, 60, 3, n_regions=2, gaps=gaps, random_state=seed)
    return basins.data, basins.target, basins.layout


DATA = {"shared": shared, "own rows": own_rows, "own inputs": own_inputs}


# -- Data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DATA)
def test_a_tuple_is_read_as_what_it_is(kind):
    problem = read_problem(DATA[kind](), "mine")
    assert (problem.kind, problem.name) == (kind, "mine")
    assert problem.n_tasks == {"shared": 3, "own rows": 3, "own inputs": 8}[kind]


def test_another_value_has_another_digest():
    X, Y = shared()
    again = read_problem((X.copy(), Y.copy()))
    assert read_problem((X, Y)).digest == again.digest
    Y[0, 0] += 1e-9
    assert read_problem((X, Y)).digest != again.digest


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.ones((3, 1)),), "a tuple of 1 is not a data set"),
        (3.0, "float is not a data set"),
        ("no such", "there is no data set 'no such': choose from"),
        ((np.full((3, 1), np.inf), np.ones(3)), "holds inf at row 0, column 0"),
        ((np.ones(3), np.ones(3)), "shape \\(3,\\)"),
        ((np.ones((1, 2)), np.ones((1, 2))), "has 1 row, and one to learn from"),
    ],
)
def test_what_is_no_data_set_is_refused_in_words(data, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare(data)


# -- Splits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("split", ["random", "blocked"])
def test_no_row_is_on_both_sides_and_none_is_lost(kind, split):
    problem = read_problem(DATA[kind]())
    for seed in range(4):
        train, test = make_split(problem, split, seed, 0.3, 0)
        np.testing.assert_array_equal(
            np.sort(np.concatenate((train, test))), np.arange(problem.n_rows)
        )
        assert test.size == pytest.approx(0.3 * problem.n_rows, abs=3)


def test_tasks_of_equal_size_do_not_lose_the_same_rows():
    problem = read_problem(own_rows(sizes=(20, 20, 20)))
    _, test = make_split(problem, "random", 0, 0.3, 0)
    lost = []
    for task in range(3):
        rows = np.flatnonzero(problem.index == task)
        lost.append(np.flatnonzero(np.isin(rows, test)).tolist())
    assert lost[0] != lost[1] != lost[2] != lost[0]


def test_rows_in_time_order_are_split_in_blocks_unless_said_otherwise():
    basins = make_basins(8, 60, 3, n_regions=2, random_state=0)
    assert compare(basins, ["mean"], seeds=1).rows[0]["split"] == "random"
    for order in ({"time": np.arange(60)}, {"ordered": True}):
        timed = Bunch(**basins | order)
        assert compare(timed, ["mean"], seeds=1).rows[0]["split"] == "blocked"
        assert compare(timed, ["mean"], seeds=1, split="random").rows[0]["split"] == "random"


def test_every_task_with_rows_of_its_own_gives_its_share():
    problem = read_problem(own_rows())
    _, test = make_split(problem, "random", 0, 0.3, 0)
    np.testing.assert_array_equal(np.bincount(problem.index[test]), [6, 3, 10])


def test_a_block_is_consecutive_and_its_neighbours_are_not_used():
    problem = read_problem(shared(n=100))
    starts = []
    for seed in range(8):
        train, test = make_split(problem, "blocked", seed, 0.2, 5)
        assert (np.diff(test) == 1).all()
        assert test.size == 20
        assert np.abs(np.subtract.outer(train, test)).min() == 6
        starts.append(test[0])
    assert max(np.diff(np.sort([0, *starts, 80]))) < 25  # spread over all rows


def test_groups_stay_together():
    X, Y = shared()
    groups = np.repeat(np.arange(12), 5)
    problem = read_problem({"data": X, "target": Y, "groups": groups})
    train, test = make_split(problem, "grouped", 3, 0.3, 0)
    assert not set(groups[train]) & set(groups[test])
    assert test.size == 20  # whole groups until three tenths are reached
    assert train.size + test.size == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "grouped"}, "has no groups to keep together"),
        ({"split": "sideways"}, "'sideways' is not one of 'random', 'blocked', 'grouped'"),
        ({"split": "blocked", "gap": 80}, "leaves none of the 60 rows"),
        ({"split": "random", "gap": 1}, "gap=1 with split='random'"),
        ({"test_size": 1.5}, "test_size=1.5"),
        ({"seeds": 0}, "seeds=0 gives no split"),
        ({"methods": ["nobody"]}, "there is no method 'nobody': choose from"),
        ({"methods": []}, "methods is empty"),
        ({"methods": [Ridge()]}, r"pass a mapping, such as \{'mine': Ridge\(\)\}"),
        ({"methods": {"mine": Ridge}}, "is the class Ridge: give an instance"),
        ({"methods": {"mine": 3}}, "'mine' is 3: give an estimator"),
        ({"methods": {"mine": {"all": Ridge()}}}, "is given for 'all': kinds are 'shared'"),
        ({"methods": {"mine": PooledCTFARegressor()}}, "cannot serve data: it is made for tasks"),
        ({"methods": ["single LR"], "reference": "me"}, "reference='me' is not among"),
    ],
)
def test_bad_options_are_refused_in_words(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compare(shared(), **options)


# -- Figures ---------------------------------------------------------------------------------------


def test_metrics_are_what_their_labels_say():
    train = read_problem((np.zeros((4, 1)), np.array([[0.0, 5], [2, 5], [4, 9], [2, 5]])))
    test = read_problem((np.zeros((2, 1)), np.array([[1.0, 4], [3, 8]])))
    parts = errors_of_tasks(train, test, np.array([[2.0, 6], [1, 8]]))
    values = {name: metric.of_tasks(parts) for name, metric in METRICS.items()}
    mse = np.array([2.5, 2.0])
    np.testing.assert_allclose(values["mse"], mse)
    np.testing.assert_allclose(values["nrmse"], np.sqrt(mse) / [4, 4])
    np.testing.assert_allclose(values["smse"], mse / [2, 3])
    np.testing.assert_allclose(values["nrmse-std"] ** 2, values["smse"])
    np.testing.assert_allclose(values["arrmse"], np.sqrt(mse / [1, 4]))
    np.testing.assert_allclose(values["r2"], 1 - mse / [1, 4])


def test_a_split_has_the_mean_of_its_tasks_or_the_root_of_their_mean_square():
    result = compare(shared(), ["single LR"], seeds=2)
    figures = result.of_tasks("nrmse", "single LR")
    np.testing.assert_allclose(result.of_splits("nrmse", "single LR"), figures.mean(axis=1))
    np.testing.assert_allclose(
        result.of_splits("nrmse-rms", "single LR"), np.sqrt(np.mean(figures**2, axis=1))
    )


def test_a_task_that_does_not_vary_has_no_unit_and_is_left_out():
    X, Y = shared()
    Y[:, 1] = 7.0
    result = compare((X, Y), {"single LR": None}, seeds=2)
    assert np.isnan(result.of_tasks("nrmse", "single LR")[:, 1]).all()
    others = compare((X, Y[:, [0, 2]]), {"single LR": None}, seeds=2)
    assert result.summary()[0].mean == pytest.approx(others.summary()[0].mean)


@pytest.mark.parametrize("kind", DATA)
def test_units_do_not_change_least_squares(kind):
    problem = read_problem(DATA[kind]())
    train, test = (problem.take(rows) for rows in make_split(problem, "random", 0, 0.3, 0))
    scaled, _ = Method(SingleTaskRegressor()).predict(train, test)
    plain, _ = Method(SingleTaskRegressor(), scale="none").predict(train, test)
    np.testing.assert_allclose(scaled, plain, rtol=1e-8)


def test_tasks_with_inputs_of_their_own_are_stacked_row_by_row():
    data = own_inputs(gaps=0.05)
    problem = read_problem(data)
    train, test = (problem.take(rows) for rows in make_split(problem, "blocked", 1, 0.3, 0))
    predicted, _ = Method(SingleTaskRegressor()).predict(train, test)
    for task, columns in enumerate(problem.layout):
        rows, asked = train.judged[:, task], test.judged[:, task]
        model = LinearRegression().fit(train.X[rows][:, columns], train.Y[rows, task])
        np.testing.assert_allclose(predicted[asked, task], model.predict(test.X[asked][:, columns]))
        assert np.isnan(predicted[~asked, task]).all()


def test_where_some_tasks_have_fewer_inputs_each_is_served_by_itself_or_not_at_all():
    cube = np.random.default_rng(0).normal(size=(40, 3, 2))
    cube[:, 0, 1] = np.nan
    X, layout = multi_input_layout(cube)
    data = (X, np.random.default_rng(1).normal(size=(40, 3)), layout)
    with pytest.raises(ValueError, match="'cASO' cannot serve data: it needs the same inputs for"):
        compare(data, ["cASO"])
    problem = read_problem(data)
    train, test = (problem.take(rows) for rows in make_split(problem, "random", 0, 0.3, 0))
    predicted, _ = METHODS["single LR"].predict(train, test)
    for task, columns in enumerate(layout):
        own = columns[columns >= 0]
        model = LinearRegression().fit(train.X[:, own], train.Y[:, task])
        np.testing.assert_allclose(predicted[:, task], model.predict(test.X[:, own]))
    result = compare(data, seeds=1, quick=True)
    assert {"mean", "single ridge", "CTFA + LR"} <= set(result.methods)
    assert "Left out (needs the same inputs for every task, and some have fewer): " in str(result)


def test_a_method_that_gets_targets_as_given_says_so_and_has_a_twin_in_standard_units():
    apart = {name for name, method in METHODS.items() if method.scale != "both"}
    assert apart == {name for name in METHODS if name.endswith("(targets as given)")}
    assert {name.partition(" (")[0] for name in apart} == {
        f"NonLinCTFA + {regressor}" for regressor in ("LR", "SVR", "MLP")
    }
    for name in apart:
        twin = METHODS[name.replace("as given", "standardised")]
        assert (twin.scale, twin.recipe) == ("both", METHODS[name].recipe)


@pytest.mark.parametrize("kind", ["shared", "own inputs"])
def test_units_of_targets_decide_the_papers_groups_only_where_the_name_says_so(kind):
    X, Y, *layout = DATA[kind]()
    names = [f"NonLinCTFA + LR (targets {units})" for units in ("as given", "standardised")]
    other = (X, Y * 10.0 ** np.arange(Y.shape[1]), *layout)
    plain, scaled = (compare(data, names, seeds=2) for data in ((X, Y, *layout), other))
    for name, same in zip(names, (False, True), strict=True):
        figures = [result.of_tasks("nrmse", name) for result in (plain, scaled)]
        assert np.allclose(*figures) == same


def test_series_are_stacked_in_units_of_their_own():
    X, Y, layout = own_inputs()
    scaled = (X * 10.0 ** np.arange(X.shape[1]), Y * 10.0 ** np.arange(Y.shape[1]), layout)
    plain, other = (compare(data, ["pooled LR"], seeds=1) for data in ((X, Y, layout), scaled))
    np.testing.assert_allclose(
        plain.of_tasks("nrmse", "pooled LR"), other.of_tasks("nrmse", "pooled LR"), rtol=1e-6
    )


def test_chance_is_decided_by_the_seed_of_the_split():
    def noise(problem):
        return RandomDraws()

    first = compare(shared(), {"chance": noise}, seeds=2)
    again = compare(shared(), {"chance": noise}, seeds=[1])
    np.testing.assert_array_equal(
        first.of_tasks("mse", "chance")[1], again.of_tasks("mse", "chance")[0]
    )


def test_the_seed_of_the_split_is_the_models_own():
    X, Y = shared()
    method = Method(RandomDraws(), scale="none")
    result = compare((X, Y), {"chance": method}, seeds=2)
    for seed in (0, 1):
        test = make_split(read_problem((X, Y)), "random", seed, 0.3, 0).test
        drawn = np.random.RandomState(seed).normal(size=(test.size, 3))
        expected = np.mean((drawn - Y[test]) ** 2, axis=0)
        np.testing.assert_allclose(result.of_tasks("mse", "chance")[seed], expected)


def test_the_mean_that_arrmse_is_beside_is_that_of_the_training_rows():
    X, Y = shared()
    result = compare((X, Y), {"mean": Method(DummyRegressor(), ("shared",))}, seeds=2)
    np.testing.assert_allclose(result.of_tasks("arrmse", "mean"), 1.0)


class RandomDraws(RegressorMixin, BaseEstimator):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.shape_ = y.shape[1:]
        return self

    def predict(self, X):
        return np.random.RandomState(self.random_state).normal(size=(len(X), *self.shape_))


# -- The test of a difference ----------------------------------------------------------------------


def test_without_shared_rows_the_paired_test_is_students():
    differences = np.array([0.3, -0.1, 0.4, 0.2, 0.25])
    mean, low, high, p_value = paired_test(differences, 0.0)
    plain = stats.ttest_1samp(differences, 0.0)
    assert mean == pytest.approx(differences.mean())
    assert p_value == pytest.approx(plain.pvalue)
    assert (low, high) == pytest.approx(tuple(plain.confidence_interval()))


def test_shared_rows_make_it_less_sure():
    differences = np.array([0.3, -0.1, 0.4, 0.2, 0.25])
    plain, corrected = (paired_test(differences, share) for share in (0.0, 3 / 7))
    assert corrected[3] > plain[3]
    ratio = (corrected[2] - corrected[1]) / (plain[2] - plain[1])
    assert ratio == pytest.approx(np.sqrt((1 / 5 + 3 / 7) * 5))


def test_equal_methods_are_not_told_apart():
    assert paired_test(np.zeros(4), 0.4) == (0.0, 0.0, 0.0, 1.0)
    assert np.isnan(paired_test(np.array([0.1]), 0.4)[1:]).all()


# -- The whole -------------------------------------------------------------------------------------


FITS = []


class Counted(LinearRegression):
    def fit(self, X, y):
        FITS.append(1)
        return super().fit(X, y)


@pytest.mark.parametrize("kind", DATA)
def test_methods_are_judged_on_the_same_rows(kind):
    names = {"shared": 6, "own rows": 4, "own inputs": 4}
    quick = [name for name in METHODS if not METHODS[name].slow][: names[kind]]
    problem = read_problem(DATA[kind]())
    methods = [name for name in quick if METHODS[name].serves(problem)]
    result = compare(problem, methods, seeds=2)
    assert not result.failed
    for part in ("n_test", "mean_mse", "test_variance", "train_range"):
        for seed in (0, 1):
            rows = [row["errors"][part] for row in result.rows if row["seed"] == seed]
            assert all(row == rows[0] for row in rows)


def test_the_best_comes_first_and_is_paired_with_the_reference():
    methods = {"single LR": None, "mean": DummyRegressor(), "copy": LinearRegression()}
    result = compare(shared(), methods, seeds=4)
    order = result.summary("r2")
    assert order[-1].method == "mean"
    assert [row.method for row in result.summary("nrmse")][-1] == "mean"
    by_name = {row.method: row for row in order}
    assert by_name["mean"].tasks_better == 0
    assert by_name["mean"].high < 0.0
    assert by_name["copy"].difference == pytest.approx(0.0, abs=1e-12)
    text = str(result)
    assert text.splitlines()[0].startswith("data: 3 tasks, 42 rows to learn from, 18 to be judged")
    assert "reference" in text


def test_finished_runs_are_not_run_again(tmp_path):
    FITS.clear()
    methods = {"mine": Counted()}
    first = compare(shared(), methods, seeds=2, folder=tmp_path)
    assert len(FITS) == 2
    more = compare(shared(), methods, seeds=3, folder=tmp_path)
    assert len(FITS) == 3
    np.testing.assert_array_equal(more.of_tasks("mse", "mine")[:2], first.of_tasks("mse", "mine"))
    compare(shared(seed=1), methods, seeds=1, folder=tmp_path)  # other data
    compare(shared(), {"mine": Counted(positive=True)}, seeds=1, folder=tmp_path)  # other options
    compare(shared(), methods, seeds=1, folder=tmp_path, split="blocked")  # other rows
    assert len(FITS) == 6


def test_a_run_says_with_what_it_was_made(tmp_path):
    compare(shared(), {"mine": Ridge(2.5)}, seeds=1, folder=tmp_path)
    row = json.loads((tmp_path / "runs.jsonl").read_text())
    assert row["recipe"] == "Ridge(alpha=2.5, random_state=0)"
    assert {"ctfa", "numpy", "scipy", "scikit-learn", "python"} == set(row["versions"])
    assert (row["seed"], row["split"], row["n_train"], row["n_test"]) == (0, "random", 42, 18)


def test_a_line_half_written_is_run_again_and_others_are_kept(tmp_path):
    compare(shared(), {"mine": Ridge()}, seeds=2, folder=tmp_path)
    file = tmp_path / "runs.jsonl"
    lines = file.read_text().splitlines()
    file.write_text(f"{lines[0]}\n{lines[1][:40]}")
    assert len(Store(file).rows) == 1
    compare(shared(), {"mine": Ridge()}, seeds=2, folder=tmp_path)
    kept = [json.loads(line)["key"] for line in file.read_text().splitlines()]
    assert kept == [json.loads(line)["key"] for line in lines]


def test_a_line_without_its_end_does_not_swallow_the_next(tmp_path):
    compare(shared(), {"mine": Ridge()}, seeds=1, folder=tmp_path)
    file = tmp_path / "runs.jsonl"
    file.write_text(file.read_text().rstrip("\n"))
    compare(shared(), {"mine": Ridge()}, seeds=2, folder=tmp_path)
    assert len(Store(file).rows) == 2


def test_a_file_of_something_else_is_left_alone(tmp_path):
    file = tmp_path / "runs.jsonl"
    file.write_text('{"key": "a"}\nhello}\n')
    with pytest.raises(ValueError, match=r"line 2 of .* is not a stored run"):
        compare(shared(), {"mine": Ridge()}, seeds=1, folder=tmp_path)
    assert file.read_text() == '{"key": "a"}\nhello}\n'


class Failing(Ridge):
    def fit(self, X, y):
        raise RuntimeError("no luck")


class Lost(Ridge):
    def predict(self, X):
        return super().predict(X) * np.nan


def test_a_method_that_fails_says_so_and_the_others_stand(tmp_path):
    methods = {"single LR": None, "bad": Failing(), "lost": Lost()}
    result = compare(shared(), methods, seeds=2, folder=tmp_path)
    assert result.methods == ["single LR"]
    assert "bad failed on 2 splits: RuntimeError: no luck" in str(result)
    assert "lost failed on 2 splits: predicted NaN or infinity for 54 of the rows" in str(result)
    assert len(Store(tmp_path / "runs.jsonl").rows) == 2  # to be tried again
    with pytest.raises(RuntimeError, match=r"no method could be run; the first said: .* no luck"):
        compare(shared(), {"bad": Failing()}, seeds=1)


def test_tasks_without_a_figure_are_named_and_do_not_count():
    X, y, tasks = own_rows(sizes=(30, 28, 2))
    result = compare((X, y, tasks), ["single LR", "mean"], seeds=2)
    assert result.summary("nrmse")[0].n_tasks == 2
    assert "1 of 3 tasks have no figure and do not count (c)" in str(result)
    nothing = compare((X[:20], y[:20], np.arange(20) // 2), ["single LR", "mean"], seeds=2)
    assert all(np.isnan(row.p_value) for row in nothing.summary("nrmse"))
    assert all(np.isfinite(row.mean) for row in nothing.summary("mse"))


@pytest.mark.parametrize(
    "model",
    [
        TraceNormRegressor(max_iter=1),
        ConvexASORegressor(max_iter=1),
        ASORegressor(max_iter=1),
        ClusteredLassoRegressor(max_iter=1),
    ],
)
def test_a_solver_that_was_stopped_is_named_in_the_table(model):
    result = compare(shared(), {"single LR": None, "short": model}, seeds=2)
    notes = {row.method: row.notes for row in result.summary()}
    assert notes == {"single LR": "", "short": "not converged on 2"}


def test_a_choice_at_the_edge_of_the_values_tried_is_said():
    X, Y = make_paper_synthetic(200, 3, 3, noise=0.1, random_state=0)
    search = TaskSearchCV(SingleTaskRegressor(Ridge()), {"regressor__alpha": [1.0, 10.0, 100.0]})
    result = compare((X, Y), {"single LR": None, "coarse": search}, seeds=2)
    assert {row.method: row.notes for row in result.summary()}["coarse"] == "at the edge: alpha 2"


def test_rounding_is_no_gain():
    result = compare(shared(), {"single LR": None, "copy": LinearRegression()}, seeds=3)
    assert {row.method: row.tasks_better for row in result.summary()}["copy"] == 0


def test_a_reference_that_failed_is_none():
    result = compare(shared(), {"single LR": Failing(), "mine": Ridge()}, seeds=2)
    assert result.reference == "mine"


def test_filled_inputs_and_few_splits_are_said():
    X, Y = shared()
    X[::7, 1] = np.nan
    text = str(compare((X, Y), ["single LR"], seeds=2))
    assert "9 missing inputs became the training median of their column." in text
    assert "2 splits are few to go by" in text
    assert "few to go by" not in str(compare(shared(), ["single LR"], seeds=5))


def test_ids_may_be_a_column_of_the_table():
    pandas = pytest.importorskip("pandas", reason="the table is a data frame")
    X, y, tasks = own_rows()
    table = pandas.DataFrame(X, columns=list("xyz")).assign(school=tasks)
    one, other = (
        compare(data, ["single LR"], seeds=1) for data in ((X, y, tasks), (table, y, "school"))
    )
    np.testing.assert_array_equal(
        one.of_tasks("mse", "single LR"), other.of_tasks("mse", "single LR")
    )
    with pytest.raises(ValueError, match=r"not a number.*encode or drop such columns"):
        compare((table, np.column_stack((y, y))), ["single LR"])


def test_a_method_that_was_changed_is_run_again(tmp_path):
    class Mine(Ridge):
        def predict(self, X):
            return super().predict(X)

    class Changed(Ridge):
        def predict(self, X):
            return super().predict(X) + 1.0

    class Other(Ridge):
        shift = 2.0

        @staticmethod
        def moved(values, by):
            return values + by

        def predict(self, X):
            return self.moved(super().predict(X), self.shift)

    class Another(Other):
        shift = 3.0

    class Third(Other):
        @staticmethod
        def moved(values, by):
            return values - by

    names = [describe(kind()) for kind in (Mine, Changed, Other, Another, Third)]
    assert all(one != other for k, one in enumerate(names) for other in names[:k])
    Changed.__qualname__ = Mine.__qualname__
    first = compare(shared(), {"mine": Mine()}, seeds=1, folder=tmp_path)
    second = compare(shared(), {"mine": Changed()}, seeds=1, folder=tmp_path)
    assert first.of_tasks("mse", "mine").sum() < second.of_tasks("mse", "mine").sum()


def test_what_is_stored_is_run_again_where_asked(tmp_path):
    FITS.clear()
    for rerun in (False, True, False):
        compare(shared(), {"mine": Counted()}, seeds=2, folder=tmp_path, rerun=rerun)
    assert len(FITS) == 4


def test_a_table_says_what_figures_on_its_data_should_be_read_with():
    X, Y = shared()
    for name, said in (("po-basins", True), ("groups", False), ("mine", False)):
        result = compare(read_problem((X, Y), name), ["mean"], seeds=1)
        assert ("leak a little into rows to learn from" in result.table()) == said


def test_the_title_of_a_picture_stays_in_it_beside_long_names():
    matplotlib = pytest.importorskip("matplotlib", reason="the comparison is drawn")
    matplotlib.use("Agg")
    name = "NonLinCTFA + LR (targets standardised)"
    result = compare(read_problem(shared(n=6000), "a robot arm"), [name, "single LR"], seeds=2)
    figure = result.plot().figure
    figure.draw_without_rendering()
    titles = [text for text in figure.findobj(matplotlib.text.Text) if "a robot" in text.get_text()]
    assert len(titles) == 1
    assert titles[0].get_window_extent().x1 <= figure.bbox.x1


def test_names_that_are_nearly_right_are_recognised():
    with pytest.raises(ValueError, match="no method 'single lr'; did you mean 'single LR'"):
        compare(shared(), ["single lr"])
    with pytest.raises(ValueError, match="no data set 'scool'; did you mean 'school'"):
        compare("scool")
    with pytest.raises(ValueError, match=r"did you mean '.*LR \(targets as given\)' or '.*LR \("):
        compare(shared(), ["NonLinCTFA + LR"])
    assert read_name("po_basins") == "po-basins"


class Narrow(Ridge):
    def predict(self, X):
        return super().predict(X)[:, :1]


def test_an_answer_of_another_shape_is_refused_in_words():
    result = compare(shared(), {"single LR": None, "narrow": Narrow()}, seeds=1)
    assert "Narrow predicted an array of shape (18, 1) where (18, 3) was asked for" in str(result)


class Fickle(Ridge):
    def fit(self, X, y):
        if self.random_state == 1:
            raise RuntimeError("not this one")
        return super().fit(X, y)


def test_a_method_is_paired_on_the_splits_that_both_have():
    methods = {"single LR": None, "mine": Fickle(10.0)}
    result = compare(shared(), methods, seeds=4)
    some = compare(shared(), methods, seeds=[0, 2, 3])
    assert len(result.failed) == 1
    for one, other in zip(result.summary(), some.summary(), strict=True):
        if one.method == "mine":
            assert one[1:7] == pytest.approx(other[1:7])
            assert one.n_splits == 3


def test_two_jobs_give_the_same_as_one():
    methods = ["single LR", "single ridge", "CTFA + LR"]
    one, two = (compare(shared(), methods, seeds=2, n_jobs=jobs) for jobs in (None, 2))
    for method in methods:
        np.testing.assert_array_equal(one.of_tasks("mse", method), two.of_tasks("mse", method))
    order = [[(row["seed"], row["method"]) for row in result.rows] for result in (one, two)]
    assert order[0] == order[1] == [(seed, method) for seed in (0, 1) for method in methods]


def test_progress_tells_of_every_run(tmp_path):
    steps = []
    for _ in range(2):
        compare(shared(), ["single LR"], seeds=2, folder=tmp_path, progress=steps.append)
    assert [(step.number, step.total, step.stored) for step in steps] == [
        (1, 2, False),
        (2, 2, False),
        (1, 2, True),
        (2, 2, True),
    ]


def test_frames_hold_every_task_and_every_metric():
    result = compare(own_rows(), {"single LR": None}, seeds=2)
    long = result.to_frame()
    assert list(long["task"]) == ["a", "b", "c"] * 2
    assert set(METRICS) <= set(long.columns)
    wide = result.to_frame("r2")
    assert wide.loc[0, "mean"] == pytest.approx(long.groupby("seed")["r2"].mean().mean())


def test_unknown_metrics_and_methods_are_refused():
    result = compare(shared(), ["single LR"], seeds=1)
    with pytest.raises(ValueError, match="metric='x' is not one of 'nrmse'"):
        result.summary("x")
    with pytest.raises(ValueError, match="no finished run of 'x': there are single LR"):
        result.of_tasks("mse", "x")
    assert isinstance(result, Comparison)
    assert "Comparison of 1 methods" in repr(result)
    assert set(SPLITS) == {"random", "blocked", "grouped"}


def test_a_new_method_and_a_new_data_set_are_one_line_each(monkeypatch):
    from ctfa_study.comparison import DATA as SETS
    from ctfa_study.comparison import Data

    monkeypatch.setitem(METHODS, "my ridge", Method(SingleTaskRegressor(Ridge())))
    monkeypatch.setitem(SETS, "my data", Data(shared, split="blocked"))
    result = compare("my data", ["my ridge", "single LR"], seeds=1)
    assert result.title.startswith("my data: 3 tasks")
    assert result.rows[0]["split"] == "blocked"


# -- What decides a result decides its key ---------------------------------------------------------


def run_of(problem, recipe, split="random", **options):
    return Run(problem, Setting(split, 0.3, 0), "mine", Method(recipe, **options), 0)


def changed(size, at, by):
    values = np.zeros(size)
    values[at] += by
    return values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Ridge(np.zeros(2000)), Ridge(changed(2000, 1000, 1.0))),
        (Ridge(np.ones(2)), Ridge(1.0 + changed(2, 1, 1e-12))),
        (Ridge([0.0] * 40), Ridge([0.0] * 35 + [1.0] * 5)),
        (Ridge(csr_matrix(np.eye(3))), Ridge(csr_matrix(np.eye(3)[::-1]))),
        (
            PairR2Aggregator(aggregate=lambda c: c.max(1)),
            PairR2Aggregator(aggregate=lambda c: c.min(1)),
        ),
        (
            PairR2Aggregator(aggregate=partial(np.max, axis=1)),
            PairR2Aggregator(aggregate=partial(np.max, axis=0)),
        ),
    ],
    ids=["long array", "digits", "long list", "sparse", "lambda", "partial"],
)
def test_estimators_that_print_alike_are_not_taken_for_each_other(one, other):
    problem = read_problem(shared())
    assert run_of(problem, one).key == run_of(problem, clone(one)).key
    assert run_of(problem, one).key != run_of(problem, other).key


def test_the_same_function_written_again_is_the_same():
    def made(power):
        return PairR2Aggregator(aggregate=lambda columns: (columns**power).mean(axis=1))

    problem = read_problem(shared())
    assert run_of(problem, made(2)).key == run_of(problem, made(2)).key
    assert run_of(problem, made(2)).key != run_of(problem, made(3)).key


def test_other_units_are_another_run():
    problem = read_problem(shared())
    assert run_of(problem, Ridge()).key != run_of(problem, Ridge(), scale="none").key


def test_other_groups_of_rows_are_other_data():
    X, Y = shared()
    rows = np.arange(60)
    one, same, other = (
        read_problem({"data": X, "target": Y, "groups": groups})
        for groups in (rows // 6, rows // 6 + 5, rows % 10)
    )
    assert one.digest == same.digest
    assert one.digest != other.digest


def test_the_same_numbers_in_another_shape_are_other_data():
    numbers = np.arange(40.0)
    one, other = (
        read_problem((numbers[:cut].reshape(10, -1), numbers[cut:].reshape(10, -1)))
        for cut in (30, 20)
    )
    assert one.digest != other.digest


@pytest.mark.parametrize("n_jobs", [None, 3])
def test_a_split_given_twice_is_one_split(n_jobs):
    result = compare(shared(), {"mine": Ridge()}, seeds=[0, 0, 1], n_jobs=n_jobs)
    assert [row["seed"] for row in result.rows] == [0, 1]


def test_a_gap_in_rows_to_be_judged_by_is_filled_where_others_have_none():
    X, Y = shared()
    problem = read_problem((X, Y))
    split = make_split(problem, "random", 0, 0.3, 0)
    X[split.test[0], 2] = np.nan
    result = compare((X, Y), {"mine": Ridge()}, seeds=1)
    assert not result.failed
    filled = X.copy()
    filled[split.test[0], 2] = np.median(X[split.train, 2])
    expected = compare((filled, Y), {"mine": Ridge()}, seeds=1)
    np.testing.assert_allclose(result.of_tasks("mse", "mine"), expected.of_tasks("mse", "mine"))


@pytest.mark.parametrize("kind", DATA)
def test_nothing_that_is_predicted_depends_on_the_targets_or_rows_to_be_judged_by(kind):
    problem = replace(read_problem(DATA[kind]()), quick=True)
    split = make_split(problem, "random", 0, 0.3, 0)
    train, test, some = (problem.take(r) for r in (split.train, split.test, split.test[::2]))
    others = replace(test, Y=100.0 - 7.0 * test.Y)
    for method in METHODS.values():
        if method.slow or not method.serves(problem):
            continue
        predicted, _ = method.predict(train, test)
        np.testing.assert_array_equal(predicted, method.predict(train, others)[0])
        np.testing.assert_allclose(predicted[::2], method.predict(train, some)[0], rtol=1e-9)


def test_the_paired_test_rejects_equal_methods_about_as_often_as_it_says():
    # Two halves of equally useful inputs, fresh rows each time: no method is the better one.
    rng = np.random.default_rng(0)
    rejected = {"corrected": 0, "plain": 0}
    for _ in range(300):
        X = rng.normal(size=(40, 6))
        y = X.sum(axis=1) + 2.0 * rng.normal(size=40)
        differences = []
        for _ in range(10):
            test, train = np.split(rng.permutation(40), [12])
            errors = []
            for half in (X[:, :3], X[:, 3:]):
                model = LinearRegression().fit(half[train], y[train])
                errors.append(np.mean((model.predict(half[test]) - y[test]) ** 2))
            differences.append(errors[0] - errors[1])
        for name, share in (("corrected", 12 / 28), ("plain", 0.0)):
            rejected[name] += paired_test(np.array(differences), share)[3] < 0.05
    assert rejected["corrected"] < 0.1 * 300 < 0.2 * 300 < rejected["plain"]
