"""Fast paths make the decisions of the refitting oracle, on every kind of data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import problems
from ctfa.core.criteria import FEATURE_CRITERIA, TARGET_CRITERIA
from ctfa.core.design import Design
from ctfa.core.graph import Neighbours
from ctfa.core.scans import SCANS
from ctfa.core.spaces.features import FactoredFold, FeatureSpace, column_gram
from ctfa.core.spaces.targets import TargetSpace
from generated import examples

#: A threshold this near to a loss, or two candidates this near to each other, is a tie: rounding
#: may decide either way, in the oracle too.
TIE = 1e-8


def run_targets(problem, criterion, scan, max_loss, *, dense=True, graph=None, weights=None):
    design = Design.of(problem.X, weights)
    space = TargetSpace.of(design, design.centre(problem.Y), dense=dense)
    tolerance = 1e-10 * (1.0 if criterion == "risk" else space.total_variance)
    order = np.arange(problem.Y.shape[1])
    neighbours = None if graph is None else Neighbours(graph_matrix(graph))
    history = SCANS[scan](
        space,
        TARGET_CRITERIA[criterion],
        max_loss=max_loss,
        order=order,
        neighbours=neighbours,
        tolerance=tolerance,
    )
    expected = oracle.phase_one(
        problem.X,
        problem.Y,
        max_loss,
        criterion=criterion,
        scan=scan,
        neighbours=graph,
        weights=weights,
        tolerance=tolerance,
        tie=1e-9,
    )
    return history, expected, max_loss + tolerance


def run_features(problem, criterion, scan, max_loss, *, folds=None, weights=None, lowest=-1.0):
    design = Design.of(problem.X, weights)
    gram = column_gram(design, problem.X)
    if folds is None:
        space = FeatureSpace.of(design, design.centre(problem.y[:, None])[:, 0], gram)
    else:
        factored = FactoredFold.each(problem.X, folds, weights)
        space = FeatureSpace.on_folds(factored, problem.y, gram)
    history = SCANS[scan](
        space,
        FEATURE_CRITERIA[criterion],
        max_loss=max_loss,
        order=np.arange(problem.X.shape[1]),
        min_correlation=lowest,
        tolerance=1e-10,
    )
    expected = oracle.phase_two(
        problem.X,
        problem.y,
        max_loss,
        criterion=criterion,
        scan=scan,
        folds=folds,
        weights=weights,
        min_correlation=lowest,
        tolerance=1e-10,
        tie=1e-9,
    )
    return history, expected, max_loss + 1e-10


def graph_matrix(matrix):
    from scipy import sparse

    return sparse.csr_array(matrix)


def assert_same_decisions(history, expected, limit):
    """Compare, and say whether there was anything to compare: not where rounding decides a tie."""
    assert (history.loss <= limit).all()
    if expected.margin(limit) < TIE or expected.order_gap < TIE:
        return False
    assert history.partition().labels.tolist() == list(expected.labels)
    accepted = [decision.loss for decision in expected.decisions if decision.accepted]
    scale = max(1.0, float(np.abs(accepted).max(initial=0.0)))
    np.testing.assert_allclose(history.loss, accepted, rtol=1e-5, atol=1e-6 * scale)
    return True


#: Copies and exact sums tie among themselves: a scan that goes by smallest loss or by correlation
#: finds them equal, and which it takes first is rounding.
TIED_FAMILIES = {
    "duplicated",
    "collinear",
    "one_hot",
    "duplicated_targets",
    "nearly_collinear",
    "constant",
}


def require_compared(compared, family, scan, max_loss):
    """Everywhere else something must have been compared."""
    may_tie = family in TIED_FAMILIES and scan in ("best-first", "correlation")
    # Copies of a target gain nothing by the paper's rule: a loss of zero, the limit itself.
    at_the_limit = family == "duplicated_targets" and max_loss == 0.0
    assert compared or may_tie or at_the_limit or family == "tight"


CASES = [("mse", 0.0), ("corollary", 0.0), ("risk", 0.5), ("risk", 1.5)]


@pytest.mark.more
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("criterion", "max_loss"), CASES)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_targets_are_grouped_as_by_refitting(family, criterion, max_loss, scan):
    compared = 0
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        try:
            expected = run_targets(problem, criterion, scan, max_loss, dense=seed % 2 == 0)
        except ValueError:
            assert family == "tight"  # the oracle refuses what leaves no degrees of freedom
            continue
        compared += assert_same_decisions(*expected)
    require_compared(compared, family, scan, max_loss)


@pytest.mark.parametrize("scan", ["grow", "restart"])
@pytest.mark.parametrize("dense", [True, False])
def test_sequential_scans_count_the_comparisons_of_one_by_one(scan, dense):
    for seed in range(4):
        problem = problems.paper_data(60, 12, 40, 3.0, seed)
        history, expected, limit = run_targets(problem, "mse", scan, 0.0, dense=dense)
        assert assert_same_decisions(history, expected, limit)
        assert history.n_comparisons == len(expected.decisions)
        losses = np.array([d.loss for d in expected.decisions])
        refused = np.array([not d.accepted for d in expected.decisions])
        low, high = history.loss_interval
        np.testing.assert_allclose(low, losses[~refused].max(), rtol=1e-8)
        np.testing.assert_allclose(high, losses[refused].min(), rtol=1e-8)


FEATURE_CASES = [("r2", 1e-3), ("feature-mse", 0.0), ("risk", 3.0)]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("criterion", "max_loss"), FEATURE_CASES)
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_features_are_grouped_as_by_refitting(family, criterion, max_loss, scan):
    compared = 0
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        lowest = (-1.0, 0.2)[seed % 2]
        runs = run_features(problem, criterion, scan, max_loss, lowest=lowest)
        compared += assert_same_decisions(*runs)
    require_compared(compared, family, scan, max_loss)


@pytest.mark.more
@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("max_loss", [1e-4, 0.02])
@pytest.mark.parametrize("family", problems.FAMILIES)
def test_features_are_grouped_as_by_refitting_every_fold(family, max_loss, scan):
    compared = 0
    for seed in range(3):
        problem = problems.make_problem(family, seed)
        folds = oracle.contiguous_folds(len(problem.y), 5)
        runs = run_features(problem, "r2", scan, max_loss, folds=folds)
        compared += assert_same_decisions(*runs)
    require_compared(compared, family, scan, max_loss)


@pytest.mark.parametrize("n_samples", [10, 14, 18])
@pytest.mark.parametrize("scan", ["grow", "restart", "correlation"])
def test_folds_with_fewer_rows_than_features_take_the_shortest_coefficients(scan, n_samples):
    for seed in range(3):
        problem = problems.make_problem("gaussian", seed, n_samples=n_samples, n_features=16)
        folds = oracle.contiguous_folds(n_samples, 5)
        assert assert_same_decisions(*run_features(problem, "r2", scan, 0.05, folds=folds))


@pytest.mark.more
@pytest.mark.parametrize("power", [3, 5, 7, 8, 9])
@pytest.mark.parametrize("scan", ["grow", "restart", "best-first", "correlation"])
def test_decisions_hold_up_to_a_condition_number_of_1e9(power, scan):
    compared = 0
    for seed in range(6):
        problem = problems.ill_conditioned(10.0**power, seed)
        folds = oracle.contiguous_folds(len(problem.y), 5)
        runs = [
            run_targets(problem, "mse", scan, 0.0),
            run_targets(problem, "risk", scan, 1.5),
            run_features(problem, "risk", scan, 3.0),
            run_features(problem, "r2", scan, 1e-3, folds=folds),
        ]
        for history, expected, limit in runs:
            # At 1e9 a refit itself has six digits left: nearer than that is a tie.
            if expected.margin(limit) > 1e-5 and expected.order_gap > 1e-5:
                compared += 1
                assert history.partition().labels.tolist() == list(expected.labels)
    assert compared >= 6


@pytest.mark.more
@given(data=st.data())
@settings(max_examples=examples(120), deadline=None)
def test_any_generated_problem_is_decided_as_by_refitting(data):
    problem = data.draw(problems.problems())
    scan = data.draw(st.sampled_from(list(SCANS)))
    weights = None
    if data.draw(st.booleans()):
        seed = data.draw(st.integers(0, 99))
        weights = np.random.default_rng(seed).uniform(0.2, 3.0, size=len(problem.y))
    if data.draw(st.booleans()):
        criterion, max_loss = data.draw(st.sampled_from(CASES))
        dense = data.draw(st.booleans())
        try:
            runs = run_targets(problem, criterion, scan, max_loss, dense=dense, weights=weights)
        except ValueError:
            return
    else:
        criterion, max_loss = data.draw(st.sampled_from(FEATURE_CASES))
        folds = None
        if criterion == "r2" and data.draw(st.booleans()):
            folds = oracle.contiguous_folds(len(problem.y), data.draw(st.integers(2, 5)))
        runs = run_features(problem, criterion, scan, max_loss, folds=folds, weights=weights)
    assert_same_decisions(*runs)


@given(seed=st.integers(0, 10_000), density=st.floats(0.0, 0.6), scan=st.sampled_from(list(SCANS)))
@settings(max_examples=examples(60), deadline=None)
def test_a_neighbour_graph_gives_the_groups_of_the_oracle(seed, density, scan):
    problem = problems.make_problem("correlated", seed % 7)
    n_targets = problem.Y.shape[1]
    upper = np.triu(np.random.default_rng(seed).uniform(size=(n_targets, n_targets)) < density, 1)
    assert_same_decisions(*run_targets(problem, "risk", scan, 2.0, graph=upper | upper.T))
