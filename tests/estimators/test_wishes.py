"""How many groups, how large, who with whom: laws, errors and what a wish costs."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

from ctfa import (
    CTFARegressor,
    CTFARegressorCV,
    FeatureAggregator,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
    cli,
    labelled,
    persistence,
    target_path,
)
from ctfa.core.cut import CutCurve, further
from ctfa.core.graph import fit_into
from ctfa.datasets import make_basins, make_paper_synthetic
from ctfa.report import Material, complete
from ctfa.report._collect import collect
from generated import examples

L = 10


@pytest.fixture(scope="module")
def data():
    return make_paper_synthetic(n_samples=90, n_features=8, n_targets=L, random_state=0)


@pytest.fixture(scope="module")
def path(data):
    return TargetAggregator(max_loss=np.inf).fit(*data).history_


def chain(*breaks):
    """Neighbours in a row, but for some."""
    edges = [(k, k + 1) for k in range(L - 1) if k not in breaks]
    rows, columns = np.array(edges).T
    graph = sparse.coo_array((np.ones(len(edges)), (rows, columns)), shape=(L, L))
    return sparse.csr_array(graph + graph.T)


def connected(labels, graph):
    return all(
        sparse.csgraph.connected_components(graph[members][:, members].toarray())[0] == 1
        for members in (np.flatnonzero(labels == group) for group in np.unique(labels))
    )


# ------------------------------------------------------------------------------ numbers of groups


@pytest.mark.parametrize("n_groups", [1, 2, 5, L])
def test_a_number_of_groups_is_given_exactly_and_cuts_the_whole_path(data, path, n_groups):
    fitted = TargetAggregator(n_groups=n_groups, cv=3).fit(*data)
    assert fitted.n_groups_ == n_groups
    assert fitted.partition_ == path.cut(n_groups)
    assert fitted.history_.partition() == fitted.partition_
    assert fitted.cv_curve_ is None
    assert fitted.price_.n_groups == n_groups
    low, high = fitted.loss_interval_
    if low < high:  # a limit that gives them
        middle = low + 1.0 if high == np.inf else 0.5 * (max(low, high - 1.0) + high)
        again = TargetAggregator(max_loss=middle).fit(*data)
        assert again.partition_ == fitted.partition_


def test_fewer_groups_are_made_of_more(data):
    finer = TargetAggregator(n_groups=6, cv=2).fit(*data).labels_
    coarser = TargetAggregator(n_groups=3, cv=2).fit(*data).labels_
    assert all(np.unique(coarser[finer == group]).size == 1 for group in range(6))


def test_refusals_are_those_of_the_groups_that_are_left(data):
    fitted = TargetAggregator(n_groups=4, cv=2).fit(*data)
    history = fitted.history_
    nearest = float(history.refused_loss[np.isfinite(history.refused_loss)].min())
    assert nearest == pytest.approx(fitted.loss_interval_[1], rel=1e-6)


def test_groups_do_not_depend_on_the_order_of_targets(data):
    X, Y = data
    order = np.random.default_rng(3).permutation(L)
    place = np.argsort(order)
    wishes = {"n_groups": 4, "min_size": 2, "together": [(0, 7)], "apart": [(1, 2)]}
    labels = TargetAggregator(**wishes, cv=2).fit(X, Y).labels_
    moved = wishes | {
        name: [(int(place[a]), int(place[b])) for a, b in wishes[name]]
        for name in ("together", "apart")
    }
    other = TargetAggregator(**moved, cv=2).fit(X, Y[:, order]).labels_
    same = labels[order][:, None] == labels[order]
    np.testing.assert_array_equal(other[:, None] == other, same)


def test_under_a_graph_groups_are_within_its_components(data):
    graph = chain(4)
    fitted = TargetAggregator(n_groups=3, connectivity=graph, cv=2).fit(*data)
    assert fitted.n_groups_ == 3
    assert connected(fitted.labels_, graph)
    assert not set(fitted.labels_[:5]) & set(fitted.labels_[5:])


def test_the_correlation_scan_is_cut_too(data):
    fitted = TargetAggregator(n_groups=3, scan="correlation", cv=2).fit(*data)
    whole = TargetAggregator(max_loss=np.inf, scan="correlation").fit(*data).history_
    assert fitted.partition_ == whole.cut(3)


def test_a_criterion_without_a_limit_of_its_own_is_cut_at_an_unknown_price(data):
    fitted = TargetAggregator("mse", n_groups=3).fit(*data)
    assert fitted.n_groups_ == 3
    assert "unknown" in fitted.price_.words()


def test_features_are_cut(data):
    X, Y = data
    fitted = FeatureAggregator(n_groups=3, min_correlation=-1.0).fit(X, Y[:, 0])
    whole = FeatureAggregator(max_loss=np.inf, min_correlation=-1.0).fit(X, Y[:, 0])
    assert fitted.partition_ == whole.history_.cut(3)
    with pytest.raises(ValueError, match=r"n_groups=1, but .* .min_correlation=0.5"):
        FeatureAggregator(n_groups=1, min_correlation=0.5).fit(X, Y[:, 0])


def test_a_history_that_never_had_so_many_groups_says_so(path):
    with pytest.raises(ValueError, match="never 11 groups"):
        path.cut(L + 1)


# ------------------------------------------------------------------------------ tolerance


def test_no_tolerance_is_the_smallest_error_and_more_never_gives_more_groups(data):
    curves = [TargetAggregator(tolerance=t, cv=4).fit(*data).cv_curve_ for t in (0.0, 0.02, 0.2, 5)]
    counts = [curve.n_groups[curve.chosen] for curve in curves]
    assert curves[0].error[curves[0].chosen] == pytest.approx(curves[0].error.min(), rel=1e-9)
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1


@given(
    errors=st.lists(st.floats(0.1, 2.0), min_size=3, max_size=8),
    tolerance=st.floats(0.0, 0.5),
)
def test_within_a_tolerance_means_at_most_that_much_above_the_best(errors, tolerance):
    table = np.array([errors, errors])
    n_groups = np.arange(len(errors), 0.0, -1.0)
    curve = CutCurve.of(np.arange(float(len(errors))), table, n_groups, tolerance)
    allowed = np.array(errors) <= min(errors) * (1.0 + tolerance) * (1.0 + 1e-9)
    assert n_groups[curve.chosen] == n_groups[allowed].min()


def test_limits_go_as_far_as_the_path_does():
    losses = np.geomspace(1e-3, 1e5, 400)
    grid = further(np.array([-np.inf, 0.0, 1.0, 30.0, np.inf]), losses)
    left = np.array([401 - np.count_nonzero(losses <= limit) for limit in grid[grid >= 30.0]])
    assert left[-1] == 1
    assert (left[:-2] <= np.ceil(1.6 * left[1:-1]) + 1).all()
    short = np.array([-np.inf, 0.0, 30.0, np.inf])
    np.testing.assert_array_equal(further(short, np.array([0.1, 2.0])), short)


# ------------------------------------------------------------------------------ who with whom

pairs = st.lists(
    st.tuples(st.integers(0, L - 1), st.integers(0, L - 1)).filter(lambda p: p[0] != p[1]),
    max_size=3,
)
scans = st.sampled_from(["best-first", "correlation"])


@settings(max_examples=examples(25), deadline=None)
@given(
    together=pairs,
    apart=pairs,
    graph=st.booleans(),
    scan=st.sampled_from(["best-first", "correlation"]),
)
def test_pairs_are_together_and_apart_or_it_is_said_why_not(data, together, apart, graph, scan):
    neighbours = chain() if graph else None
    asked = TargetAggregator(
        max_loss=1.0, together=together, apart=apart, connectivity=neighbours, scan=scan, min_size=2
    )
    try:
        labels = asked.fit(*data).labels_
    except ValueError as error:
        if "apart" not in str(error):
            raise
        return
    assert all(labels[a] == labels[b] for a, b in together)
    assert all(labels[a] != labels[b] for a, b in apart)
    assert np.bincount(labels).min() >= 2
    if graph:
        assert connected(labels, neighbours)


def test_pairs_that_are_apart_anyway_change_nothing(data):
    plain = TargetAggregator(max_loss=1.0).fit(*data)
    a, b = plain.partition_.groups[0][0], plain.partition_.groups[1][0]
    same = TargetAggregator(max_loss=1.0, apart=[(a, b)]).fit(*data)
    np.testing.assert_array_equal(same.labels_, plain.labels_)


def test_names_of_a_data_frame_are_understood(data):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    frame = pandas.DataFrame(Y, columns=[f"b{k}" for k in range(L)])
    fitted = TargetAggregator(max_loss=0.0, together=[("b0", "b5")]).fit(X, frame)
    assert fitted.labels_[0] == fitted.labels_[5]
    with pytest.raises(ValueError, match=r"together: target 'b99' is not one of .* did you mean"):
        TargetAggregator(together=[("b0", "b99")]).fit(X, frame)


def test_small_groups_are_merged_on_and_others_left(data):
    plain = TargetAggregator(max_loss=0.0).fit(*data)
    fitted = TargetAggregator(max_loss=0.0, min_size=2).fit(*data)
    assert fitted.partition_.sizes.min() >= 2
    assert all(np.unique(fitted.labels_[members]).size == 1 for members in plain.partition_.groups)


def test_a_number_of_groups_of_a_size(data):
    fitted = TargetAggregator(n_groups=3, min_size=3, cv=2).fit(*data)
    assert sorted(fitted.partition_.sizes) == [3, 3, 4]


# ------------------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"n_groups": 0}, "n_groups=0 is not a count"),
        ({"n_groups": 2.5}, "n_groups=2.5 is not a count"),
        ({"n_groups": L + 1}, f"n_groups={L + 1} is more than the {L} targets"),
        ({"n_groups": 3, "max_loss": 1.0}, "n_groups=3 and max_loss=1.0 both say where to stop"),
        ({"n_groups": 3, "tolerance": 0.1}, "n_groups=3 and tolerance=0.1 both say where to stop"),
        ({"n_groups": 3, "scan": "grow"}, "n_groups: goes with scan='best-first' or 'correlation'"),
        ({"n_groups": 1, "connectivity": chain(2, 5)}, "n_groups=1, but .* has 3 components"),
        ({"n_groups": 1, "apart": [(0, 1)]}, "n_groups=1, but apart holds 'y0' and 'y1' apart"),
        (
            {"n_groups": 2, "apart": [(0, 1), (1, 2), (0, 2)]},
            "n_groups=2, but apart holds 'y0' and 'y1'; .* apart, which takes 3 groups or more",
        ),
        ({"n_groups": L, "together": [(0, 1)]}, "together leaves at most 9 groups"),
        ({"n_groups": 6, "min_size": 2}, "n_groups=6 and min_size=2 do not go together"),
        ({"n_groups": 1, "guard": "member"}, "n_groups=1, but .*guard='member' refuses"),
        ({"tolerance": -0.1}, "tolerance=-0.1 is not a share"),
        ({"tolerance": 0.1, "max_loss": 1.0}, "tolerance=0.1 and max_loss=1.0 both say"),
        ({"min_size": 0}, "min_size=0 is not a count"),
        ({"min_size": L + 1}, f"min_size={L + 1} is more than there can be: there are {L}"),
        ({"min_size": 4, "connectivity": chain(2)}, "a component .* has 3: 'y0', 'y1', 'y2'"),
        ({"together": [(0, 1)], "apart": [(1, 0)]}, "apart separates 'y0' and 'y1', and tog"),
        ({"together": [(0, 9)], "connectivity": chain(4)}, "'y0' and 'y9', but no chain of neigh"),
        (
            {"together": [(0, 4)], "apart": [(0, 2)], "connectivity": chain()},
            "every chain of neighbours between them has one that is held apart",
        ),
        ({"together": "ab"}, "together='ab' is not a list"),
        ({"together": (0, 1)}, "together holds 0, which is not a pair"),
        ({"apart": [(3, 3)]}, "apart pairs 'y3' with itself"),
        ({"apart": [(0, L)]}, f"apart: target {L} does not exist"),
    ],
)
def test_what_cannot_be_is_refused_by_name(data, wishes, said):
    with pytest.raises(ValueError, match=said):
        TargetAggregator(**wishes, cv=2).fit(*data)


def test_a_search_over_limits_takes_no_number_but_who_with_whom(data):
    with pytest.raises(ValueError, match="n_groups=3 says where to stop merging"):
        CTFARegressorCV(targets=TargetAggregator(n_groups=3)).fit(*data)
    wishes = TargetAggregator(together=[(0, 4)], apart=[(0, 1)])
    labels = CTFARegressorCV(targets=wishes, features="passthrough", cv=2).fit(*data).labels_
    assert labels[0] == labels[4] != labels[1]


def test_a_path_takes_no_number(data):
    with pytest.raises(ValueError, match="n_groups=3 and max_loss=inf both say"):
        target_path(*data, [1.0], n_groups=3)
    (point,) = target_path(*data, [1.0], apart=[(0, 1)])
    assert point.partition.labels[0] != point.partition.labels[1]


@settings(max_examples=examples(25), deadline=None)
@given(
    apart=st.lists(st.sampled_from([(a, b) for b in range(L) for a in range(b)]), max_size=8),
    scan=scans,
)
def test_as_many_groups_as_pairs_apart_need_are_always_found(data, apart, scan):
    held = {one: {b if a == one else a for a, b in apart if one in (a, b)} for one in range(L)}
    fewest = next(k for k in range(1, L + 1) if fit_into(held, k))
    asked = TargetAggregator("mse", apart=apart, n_groups=fewest, scan=scan)
    labels = asked.fit(*data).labels_
    assert labels.max() + 1 == fewest
    assert all(labels[a] != labels[b] for a, b in apart)
    if fewest > 1:
        with pytest.raises(ValueError, match=f"takes {fewest} groups or more"):
            clone(asked).set_params(n_groups=fewest - 1).fit(*data)


# ------------------------------------------------------------------------------ every estimator

KINDS = {
    "n_groups": {"n_groups": 3},
    "tolerance": {"tolerance": 0.01},
    "rest": {"min_size": 2, "together": [(0, 4)], "apart": [(0, 1)]},
}


def obeyed(labels, kind):
    if kind == "n_groups":
        return labels.max() == 2
    if kind == "tolerance":
        return True
    return labels[0] == labels[4] != labels[1] and np.bincount(labels).min() >= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regressor", [None, DecisionTreeRegressor(max_depth=2, random_state=0)])
def test_targets_with_shared_inputs_obey(data, kind, regressor):
    model = CTFARegressor(regressor, targets=TargetAggregator(**KINDS[kind], cv=3)).fit(*data)
    assert obeyed(model.labels_, kind)
    assert model.price_.error > 0.0 < model.price_.free_error
    if regressor is None:
        assert model.price_.whole_error > 0.0 < model.price_.free_whole_error
    assert "held-out rows" in str(model.price_)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("aggregate", ["mean", "pool", "auto"])
def test_targets_with_inputs_of_their_own_obey(kind, aggregate):
    basins = make_basins(n_basins=8, n_samples=60, n_features=3, n_regions=2, random_state=0)
    targets = TargetAggregator(**KINDS[kind], cv=3)
    model = MultiInputCTFARegressor(basins.layout, targets=targets, aggregate=aggregate)
    model.fit(basins.data, basins.target)
    assert obeyed(model.labels_, kind)
    assert model.price_.whole_error > 0.0 < model.price_.free_error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("regressor", [None, DecisionTreeRegressor(max_depth=2, random_state=0)])
def test_tasks_with_rows_of_their_own_obey_by_their_ids(kind, regressor):
    rng = np.random.default_rng(0)
    ids = np.repeat(list("abcdefgh"), 20)
    X = rng.normal(size=(160, 2))
    y = X[:, 0] * np.where(ids < "e", 1.0, -1.0) + rng.normal(size=160)
    wishes = dict(KINDS[kind])
    if kind == "rest":
        wishes |= {"together": [("a", "e")], "apart": [("a", "b")]}
    model = PooledCTFARegressor(regressor, targets=TargetAggregator(**wishes, cv=3))
    model.fit(X, y, tasks=ids)
    assert obeyed(model.labels_, kind)
    assert model.price_.error > 0.0 < model.price_.free_error


@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
def test_gaps_weights_and_sums_obey(data, kind):
    X, Y = data
    model = CTFARegressor(targets=TargetAggregator(**KINDS[kind], cv=3))
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.05, np.nan, Y)
    assert obeyed(clone(model).fit(X, gaps).labels_, kind)
    weights = {"sample_weight": np.linspace(1, 2, 90), "target_weight": np.linspace(1, 2, L)}
    assert obeyed(clone(model).fit(X, Y, **weights).labels_, kind)
    pieces = clone(model).partial_fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:])
    assert obeyed(pieces.labels_, kind)
    assert pieces.price_.error > 0.0
    array = pytest.importorskip("dask.array")
    lazy = clone(model).fit(array.from_array(X, chunks=40), array.from_array(Y, chunks=40))
    np.testing.assert_array_equal(lazy.labels_, clone(model).fit(X, Y).labels_)


def test_groups_of_subsamples_obey_and_files_keep_the_price(data, tmp_path):
    model = CTFARegressor(targets=TargetAggregator(n_groups=3, apart=[(0, 1)], cv=3)).fit(*data)
    assert model.stability(*data, cv=3)[0, 1] == 0.0
    persistence.save(model, tmp_path / "model.ctfa")
    again = persistence.load(tmp_path / "model.ctfa")
    assert again.price_.words() == model.price_.words()
    assert again.targets_.n_groups == 3
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))


def test_what_a_wish_costs_is_held_against_the_free_choice_on_the_same_folds(data):
    free = TargetAggregator(cv=4).fit(*data)
    price = TargetAggregator(n_groups=5, cv=4).fit(*data).price_
    curve = free.cv_curve_
    assert price.free_error == pytest.approx(curve.error[curve.chosen])
    assert price.free_max_loss == curve.max_loss[curve.chosen]
    assert price.cost == pytest.approx(price.error / price.free_error - 1.0)
    assert free.price_ is None


# ------------------------------------------------------------------------------ other doors


@pytest.fixture(scope="module")
def basins():
    pytest.importorskip("xarray")
    return make_basins(12, 60, 2, n_regions=2, random_state=0).to_xarray()


def labelled_fit(basins, **wishes):
    return labelled.fit(
        basins, target="flow", task="basin", neighbours="nearest:4", held_out=None, cv=3, **wishes
    )


def test_labelled_data_take_a_number_of_regions_and_labels(basins):
    a, b, c = map(str, basins.basin.values[:3])
    fit = labelled_fit(basins, n_regions=4, together=[(a, b)], apart=[(a, c)])
    regions = fit.regions.to_series()
    assert fit.n_regions == 4
    assert regions[a] == regions[b] != regions[c]
    assert "cut at 4 regions, as requested" in str(fit)
    assert "n_regions=4, 1 together, 1 apart; it errs" in str(fit)
    assert fit.price.n_groups == 4


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"n_regions": 13}, "n_regions=13 is more than the 12 tasks"),
        ({"n_regions": 2, "tolerance": 0.1}, "n_regions=2 and tolerance=0.1 both"),
        ({"together": [("basin_01", "x")]}, "together: there is no basin 'x'"),
        ({"apart": ["ab"]}, "apart holds 'ab', which is not a pair"),
        ({"min_size": 13}, "min_size=13 is more than there can be"),
    ],
)
def test_labelled_data_refuse_in_their_own_words(basins, wishes, said):
    with pytest.raises(ValueError, match=said):
        labelled_fit(basins, **wishes)


def test_labelled_data_have_no_groups(basins):
    with pytest.raises(TypeError, match="no option 'n_groups': a number of regions is n_regions"):
        labelled_fit(basins, n_groups=3)


def test_ids_that_are_numbers_are_labels(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pandas.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "y"])
    table["school"] = np.repeat([3, 2, 1, 0], 30)
    known = {"target": "y", "features": ["a", "b"], "task": "school", "held_out": None}
    fit = labelled.fit(table, **known, together=[(0, 3)], apart=[(0, 1)], cv=3)
    assert fit.regions[0] == fit.regions[3] != fit.regions[1]


def test_the_command_line_takes_them_and_its_run_file_repeats_them(basins, tmp_path, capsys):
    file, folder = tmp_path / "basins.nc", tmp_path / "run"
    basins.to_netcdf(file)
    data = [str(file), "-t", "flow", "--task", "basin", "--neighbours", "nearest:4", "--cv", "3"]
    wishes = ["--regions", "4", "--together", "basin_01,basin_02", "--min-size", "2"]
    fit = ["fit", *data, "--held-out", "none", "-q"]
    assert cli.main([*fit, *wishes, "-o", str(folder)]) == 0
    assert "cut at 4 regions, as requested" in capsys.readouterr().out
    text = (folder / "run.toml").read_text()
    assert 'n_regions = 4\nmin_size = 2\ntogether = [["basin_01", "basin_02"]]' in text
    # What says where to stop takes the place of what said so before.
    again = ["fit", str(folder / "run.toml"), "--tolerance", "1%", "-q", "--json"]
    assert cli.main([*again, "-o", str(tmp_path / "again")]) == 0
    price = json.loads(capsys.readouterr().out)["price"]
    assert price["error"] <= price["free_error"] * 1.01
    text = (tmp_path / "again" / "run.toml").read_text()
    assert "tolerance = 0.01" in text
    assert "n_regions" not in text
    for wrong, said in (
        (["--regions", "13"], "--regions 13 is more than the 12 tasks"),
        (["--regions", "2", "--tolerance", "0.1"], "--regions 2 and --tolerance 0.1 both"),
        (["--regions", "4", "--min-size", "5"], "--regions 4 and --min-size 5 do not go together"),
    ):
        assert cli.main([*fit, *wrong, "-o", str(tmp_path / "x")]) == 1
        assert said in capsys.readouterr().err
    assert (
        cli.main(["doctor", *data, "--no-timing", "--regions", "4", "--apart", "basin_01,basin_02"])
        == 0
    )
    assert "--regions 4 --apart basin_01,basin_02" in " ".join(capsys.readouterr().out.split())


def test_why_and_the_page_say_what_was_wished(data):
    model = CTFARegressor(targets=TargetAggregator(n_groups=4, apart=[(0, 1)], cv=3)).fit(*data)
    why = str(model.why(0))
    assert "cut at 4 groups" in why
    assert "Next would be" in why
    assert "Requested: n_groups=4, 1 apart; it errs" in why
    said = collect(Material(model))
    assert "The path of merges was cut where 4 groups are left." in said["methods"][0]
    assert said["rule"]["again"][0] == "TargetAggregator(n_groups={n})"
    small = CTFARegressor(targets=TargetAggregator(min_size=2, cv=3)).fit(*data)
    assert collect(Material(small))["rule"]["again"] == []  # cuts are of another path


def test_the_page_replays_the_whole_path_of_wished_groups(data):
    model = TargetAggregator(n_groups=4, together=[(0, 9)], cv=3).fit(*data)
    rule = collect(complete(Material(model), data))["rule"]
    assert rule["complete"]
    assert (rule["n_joined"], rule["n_own"]) == (1, L - 4)
