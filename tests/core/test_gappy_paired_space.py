"""Own inputs with slots that tasks lack and values that are missing: laws, refits, refusals."""

import copy
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracle_own
from ctfa import testing
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.graph import Neighbours
from ctfa.core.members import gain
from ctfa.core.scans import SCANS
from ctfa.core.series import Series
from ctfa.core.spaces.paired import LeastSquares, PairedSpace
from generated import examples
from test_core_against_oracle import TIED_FAMILIES, assert_same_decisions, graph_matrix
from test_paired_space import FAMILIES, own_inputs

CASES = [("mse", 0.0), ("risk", 0.5), ("risk", 1.5)]
#: How values go missing: here and there, or whole periods before a station opened.
PATTERNS = ("none", "scattered", "late", "both")


def own_series(family, seed, *, gaps="scattered", lacking=0.2, alike=0.9, n_tasks=6):
    """Values (tasks, slots + 1, n) of ``own_inputs``, some slots lacking, some values missing."""
    X, Y = own_inputs(family, seed, alike=alike, n_tasks=n_tasks)
    rng = np.random.default_rng([seed, PATTERNS.index(gaps)])
    values = np.concatenate((X.swapaxes(1, 2), Y.T[:, None]), axis=1)
    n_samples = values.shape[2]
    if gaps in ("scattered", "both"):
        values[rng.uniform(size=values.shape) < 0.02] = np.nan
    if gaps in ("late", "both"):
        for task in range(n_tasks):
            values[task, rng.integers(0, values.shape[1]), : rng.integers(0, n_samples // 3)] = (
                np.nan
            )
    values[:, :-1][rng.uniform(size=values[:, :-1, 0].shape) < lacking] = np.nan
    if family == "duplicated_targets":
        values[n_tasks // 2] = values[0]
    return values


def series_of(values, weights=None):
    """Series, by way of a table as a user has it."""
    has = ~np.isnan(values[:, :-1]).all(axis=2)
    layout = np.where(has, np.arange(has.size).reshape(has.shape), -1)
    X = values[:, :-1].reshape(has.size, values.shape[2]).T
    return Series.of(X, layout, values[:, -1].T, weights)


def with_mask(series, *, counts=None, every_column=False, **options):
    """The space that compares row by row, whether or not anything is missing."""
    if counts is None:
        counts = np.ones(series.values.shape)
    return PairedSpace.of_series(series, LeastSquares(every_column), counts=counts, **options)


def grouped_space(values, groups, weights=None):
    """Each group one task already, from sums and counts."""
    means, counts = [], []
    for group in groups:
        count = (~np.isnan(values[group])).sum(axis=0)
        means.append(np.nansum(values[group], axis=0) / np.where(count, count, np.nan))
        counts.append(count)
    return with_mask(
        series_of(np.array(means), weights),
        sizes=np.array([len(group) for group in groups]),
        counts=np.array(counts),
    )


def run(space, values, case, scan, *, graph=None, lowest=-1.0, weights=None):
    criterion, max_loss = case
    n_tasks = values.shape[0]
    tolerance = 1e-10 * (1.0 if criterion == "risk" else space.total_variance)
    history = SCANS[scan](
        space,
        TARGET_CRITERIA[criterion],
        max_loss=max_loss,
        order=np.arange(n_tasks),
        neighbours=None if graph is None else Neighbours(graph_matrix(graph)),
        min_correlation=lowest,
        tolerance=tolerance,
    )
    expected = oracle_own.series_groups(
        values,
        max_loss,
        criterion=criterion,
        scan=scan,
        weights=weights,
        neighbours=graph,
        min_correlation=lowest,
        tolerance=tolerance,
        tie=1e-9,
    )
    # Merges that pay without saving any noise have no m of their own, only an order.
    history = replace(history, loss=np.maximum(history.loss, -oracle_own.HOPELESS))
    return history, expected, max_loss + tolerance


def gappy(values, case, weights=None):
    return with_mask(series_of(values, weights), every_column=case[0] == "mse")


@pytest.mark.more
@pytest.mark.parametrize("gaps", PATTERNS)
@pytest.mark.parametrize("family", FAMILIES)
def test_spaces_with_gaps_obey_the_laws(family, gaps):
    for seed in range(2):
        values = own_series(family, seed, gaps=gaps, n_tasks=7)
        weights = np.random.default_rng(seed).uniform(0.2, 2.0, values.shape[2]) if seed else None
        testing.check_space(
            lambda groups, v=values, w=weights: grouped_space(v, groups, w), 7, seed=seed, rtol=1e-6
        )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", TARGET_CRITERIA)
@pytest.mark.parametrize("with_graph", [False, True])
def test_scans_obey_the_laws_with_gaps(scan, criterion, with_graph):
    for seed in range(3):
        values = own_series("correlated", seed)
        upper = np.triu(np.random.default_rng(seed).uniform(size=(6, 6)) < 0.5, 1)
        testing.check_scan(
            SCANS[scan],
            lambda v=values: with_mask(series_of(v)),
            TARGET_CRITERIA[criterion],
            max_loss=0.5 if criterion == "risk" else 0.0,
            graph=(upper | upper.T) if with_graph else None,
        )


@pytest.mark.parametrize(("criterion", "degree"), [("mse", 2), ("corollary", 2), ("risk", 0)])
def test_criteria_vectorize_and_scale_with_gaps(criterion, degree):
    space = with_mask(series_of(own_series("gaussian", 0)))
    testing.check_criterion(
        TARGET_CRITERIA[criterion], space.evidence(0, np.arange(1, 6)), degree=degree
    )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_series_with_gaps_are_grouped_as_by_refitting(family, case, scan):
    compared = 0
    for seed in range(4):
        values = own_series(
            family, seed, gaps=PATTERNS[seed], alike=(0.9, 0.5, 0.98, 0.0)[seed], n_tasks=5
        )
        lowest = (-1.0, 0.1)[seed % 2] if scan == "correlation" else -1.0
        compared += assert_same_decisions(
            *run(gappy(values, case), values, case, scan, lowest=lowest)
        )
    may_tie = family in TIED_FAMILIES and scan in ("best-first", "correlation")
    # Copies of a task gain nothing by the paper's rule: a loss of zero, the limit itself.
    assert compared or may_tie or (family == "duplicated_targets" and case[1] == 0.0)


@pytest.mark.more
@given(
    family=st.sampled_from(FAMILIES),
    seed=st.integers(0, 2**20),
    gaps=st.sampled_from(PATTERNS),
    lacking=st.sampled_from([0.0, 0.3, 0.8]),
    alike=st.floats(0.0, 1.0),
    case=st.sampled_from(CASES),
    scan=st.sampled_from(list(SCANS)),
    density=st.sampled_from([None, 0.3, 0.6]),
    weighted=st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_any_generated_problem_with_gaps_is_decided_as_by_refitting(
    family, seed, gaps, lacking, alike, case, scan, density, weighted
):
    values = own_series(family, seed, gaps=gaps, lacking=lacking, alike=alike, n_tasks=5)
    rng = np.random.default_rng(seed)
    graph = weights = None
    if density is not None:
        upper = np.triu(rng.uniform(size=(5, 5)) < density, 1)
        graph = upper | upper.T
    if weighted:
        weights = rng.uniform(0.2, 2.0, size=values.shape[2]) * (
            rng.uniform(size=values.shape[2]) < 0.95
        )
    assert_same_decisions(
        *run(gappy(values, case, weights), values, case, scan, graph=graph, weights=weights)
    )


@given(
    family=st.sampled_from(FAMILIES),
    seed=st.integers(0, 2**20),
    lacking=st.sampled_from([0.0, 0.3, 0.8]),
    case=st.sampled_from(CASES),
    scan=st.sampled_from(list(SCANS)),
    weighted=st.booleans(),
)
@settings(max_examples=examples(80), deadline=None)
def test_complete_tasks_that_lack_slots_are_grouped_as_by_refitting(
    family, seed, lacking, case, scan, weighted
):
    values = own_series(family, seed, gaps="none", lacking=lacking, n_tasks=5)
    weights = np.random.default_rng(seed).uniform(0.0, 2.0, values.shape[2]) if weighted else None
    space = PairedSpace.of_series(series_of(values, weights))
    assert_same_decisions(*run(space, values, case, scan, weights=weights))


@pytest.mark.parametrize("lacking", [0.0, 0.3])
@pytest.mark.parametrize("family", FAMILIES)
def test_complete_data_have_the_answers_of_the_space_without_gaps(family, lacking):
    values = own_series(family, 1, gaps="none", lacking=lacking, n_tasks=7)
    weights = np.random.default_rng(0).uniform(0.1, 2.0, size=values.shape[2])
    weights[3] = 0.0
    for given_weights in (None, weights):
        series = series_of(values, given_weights)
        whole, ours = PairedSpace.of_series(series), with_mask(series)
        for space in (whole, ours):
            space.merge(0, 1)
            space.merge(2, 3)
            space.merge(0, 2)
        assert ours.total_variance == pytest.approx(whole.total_variance, rel=1e-9)
        slots = np.array([4, 5, 6])
        assert ours.allows(0, slots).all()
        theirs, mine = whole.evidence(0, slots), ours.evidence(0, slots)
        scale = np.max(theirs.before[1].total)
        pairs = [*zip(mine.before, theirs.before, strict=True), (mine.after, theirs.after)]
        for ours_fit, fit in pairs:
            for ours_number, number in zip(ours_fit, fit, strict=True):
                np.testing.assert_allclose(
                    *np.broadcast_arrays(ours_number, number), rtol=1e-6, atol=1e-9 * scale
                )
        for criterion in TARGET_CRITERIA.values():
            np.testing.assert_allclose(criterion(mine), criterion(theirs), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            ours.correlation(0, slots), whole.correlation(0, slots), rtol=1e-7, atol=1e-12
        )
        np.testing.assert_allclose(
            ours.mean_correlation()[slots],
            [ours.correlation(int(k), np.arange(7)).mean() for k in slots],
        )


@given(seed=st.integers(0, 10_000), m=st.floats(0.0, 3.0), gaps=st.sampled_from(PATTERNS))
@example(seed=408, m=0.0, gaps="late")
@settings(max_examples=examples(60), deadline=None)
def test_the_gain_is_that_of_refits_and_the_loss_its_zero(seed, m, gaps):
    values = own_series("gaussian", seed, gaps=gaps)
    space = with_mask(series_of(values))
    space.merge(0, 1)
    space.merge(0, 2)
    evidence = space.evidence(0, np.array([3, 4, 5]))
    losses, gains = TARGET_CRITERIA["risk"](evidence), gain(evidence, m).value
    for k, other in enumerate((3, 4, 5)):
        truth = oracle_own.series_gain(values, (0, 1, 2), (other,), m)
        if truth is None:
            assert losses[k] == np.inf
            continue
        assert (losses[k] <= m) == (truth >= 0.0) or abs(losses[k] - m) < 1e-8
        if abs(losses[k]) < oracle_own.HOPELESS:  # beyond, the gain is held at m = 1
            n = np.asarray(evidence.difference.n_samples)[k]
            np.testing.assert_allclose(gains[k] * (n - 1), truth, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("criterion", TARGET_CRITERIA)
def test_too_few_common_rows_are_refused_by_any_limit(scan, criterion):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 4, 40))  # three slots: six rows are enough, five are not
    values[:2, :, 20:] = np.nan
    values[2:, -1, :15] = np.nan
    for extra, n_groups in ((15, 2), (14, 1)):
        values[2:, -1, 14] = rng.normal(size=2) if extra == 14 else np.nan
        space = with_mask(series_of(values))
        assert space.allows(0, np.array([1, 2, 3])).tolist() == [True] + [n_groups == 1] * 2
        history = SCANS[scan](
            space, TARGET_CRITERIA[criterion], max_loss=np.inf, order=np.arange(4)
        )
        assert history.partition().n_groups == n_groups
    nobody = values.copy()
    nobody[2:, :, :20] = np.nan
    space = with_mask(series_of(nobody))
    assert not space.allows(0, np.array([2, 3])).any()
    assert (space.correlation(0, np.array([2, 3])) == 0.0).all()
    assert (TARGET_CRITERIA["risk"](space.evidence(0, np.array([2, 3]))) == np.inf).all()


def test_the_rank_decides_what_few_rows_are_unless_every_column_counts():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(2, 6, 6))
    values[:, 1:5] = values[:, :1] * np.array([2.0, -1.0, 0.5, 3.0])[:, None]  # rank one
    series = series_of(values)
    others = np.array([1])
    assert with_mask(series).allows(0, others).all()
    assert not with_mask(series, every_column=True).allows(0, others).any()
    losses = [
        criterion(with_mask(series).evidence(0, others)) for criterion in TARGET_CRITERIA.values()
    ]
    assert np.isfinite(losses).all()


@given(
    seed=st.integers(0, 2**20),
    gaps=st.sampled_from(PATTERNS),
    lacking=st.sampled_from([0.0, 0.3]),
    units=st.lists(st.sampled_from([1e-3, 0.5, -1.0, 1e3]), min_size=8, max_size=8),
    target_unit=st.sampled_from([0.01, 3.0]),
)
@settings(max_examples=examples(60), deadline=None)
def test_units_empty_rows_empty_slots_and_the_order_of_tasks_play_no_part(
    seed, gaps, lacking, units, target_unit
):
    values = own_series("gaussian", seed, gaps=gaps, lacking=lacking)
    n_tasks, n_rows, n_samples = values.shape
    changed = values * np.array([*units[: n_rows - 1], target_unit])[:, None]
    changed += np.arange(n_rows)[:, None]  # the same for all tasks: levels of their own do matter
    changed = np.concatenate((np.full((n_tasks, 1, n_samples), np.nan), changed), axis=1)
    changed = np.concatenate((changed, np.full((n_tasks, n_rows + 1, 3), np.nan)), axis=2)
    order = np.random.default_rng(seed).permutation(n_tasks)
    here = with_mask(series_of(values))
    there = with_mask(series_of(changed[order]))
    slot = np.argsort(order)  # where a task went
    here.merge(0, 1)
    here.merge(0, 2)
    there.merge(int(slot[2]), int(slot[1]))
    there.merge(int(slot[2]), int(slot[0]))
    others = np.array([3, 4, 5])
    first = here.evidence(0, others)
    second = there.evidence(int(slot[2]), slot[others])
    for name, degree in (("risk", 0), ("mse", 2)):
        losses = TARGET_CRITERIA[name](first) * target_unit**degree
        found = TARGET_CRITERIA[name](second)
        tame = np.abs(losses) < oracle_own.HOPELESS
        np.testing.assert_allclose(found[tame], losses[tame], rtol=1e-6, atol=1e-8)
        assert (np.sign(found) == np.sign(losses))[~tame].all()
    np.testing.assert_allclose(
        here.correlation(0, others), there.correlation(int(slot[2]), slot[others]), atol=1e-9
    )


def test_tasks_without_slots_and_questions_about_nobody_have_answers():
    values = own_series("gaussian", 0, gaps="both")[:, -1:]
    for rows in (values, np.nan_to_num(values)):
        space = PairedSpace.of_series(series_of(rows))
        for criterion in TARGET_CRITERIA.values():
            assert np.isfinite(criterion(space.evidence(0, np.arange(1, 6)))).all()
            assert np.size(criterion(space.evidence(0, np.arange(0)))) == 0
        assert space.correlation(0, np.arange(0)).size == 0


def test_a_large_common_level_costs_no_digits():
    values = own_series("gaussian", 3, gaps="both")
    level = np.full(values.shape[1], 2.0**27)  # added without rounding to the values below
    values = np.round(values * 2.0**20) / 2.0**20
    plain = with_mask(series_of(values))
    moved = with_mask(series_of(values + level[:, None]))
    for space in (plain, moved):
        space.merge(0, 1)
    others = np.arange(2, 6)
    for criterion in TARGET_CRITERIA.values():
        np.testing.assert_allclose(
            criterion(moved.evidence(0, others)), criterion(plain.evidence(0, others)), rtol=1e-6
        )


def test_taking_an_array_over_changes_no_answer():
    for gaps in ("none", "both"):
        values = own_series("gaussian", 5, gaps=gaps)
        series = series_of(values)
        kept = series.values.copy()
        space = PairedSpace.of_series(series)
        np.testing.assert_array_equal(series.values, kept)
        taken = PairedSpace.of_series(series, overwrite=True)
        assert np.shares_memory(taken._sums, series.values)
        others = np.arange(1, 6)
        risk = TARGET_CRITERIA["risk"]
        np.testing.assert_array_equal(
            risk(space.evidence(0, others)), risk(taken.evidence(0, others))
        )


def test_slots_that_tasks_lack_do_not_ask_for_singular_values(monkeypatch):
    values = own_series("gaussian", 2, gaps="none", lacking=0.4)
    space = PairedSpace.of_series(series_of(values))
    refit = copy.deepcopy(space)

    def never(rows):
        raise AssertionError("singular values were asked for")

    monkeypatch.setattr("ctfa.core.spaces.paired.squares_left", never)
    for block, other in combinations(range(6), 2):
        after = space.evidence(block, np.array([other])).after
        has = (~np.isnan(values[[block, other], :-1])).all(axis=2).any(axis=0)
        assert after.n_inputs == after.rank == has.sum()
    assert PairedSpace.of_series(series_of(values))._known[2].tolist() == refit._known[2].tolist()
