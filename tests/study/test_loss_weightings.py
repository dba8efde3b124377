"""Weightings of losses against their definitions; numbers alone, no network."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ctfa_study.baselines.weightings import (
    IMTL,
    MGDA,
    WEIGHTINGS,
    CAGrad,
    DynamicWeightAverage,
    GeometricLoss,
    GradDrop,
    GradNorm,
    GradVac,
    MoCo,
    NashMTL,
    PCGrad,
    RandomWeighting,
    Told,
    UncertaintyWeighting,
)
from ctfa_study.baselines.weightings._by_gradients import onto_simplex
from ctfa_study.baselines.weightings._surgery import orders
from ctfa_study.reproduction._case import Plan
from ctfa_study.reproduction.experiments.table2._networks import network_cases
from generated import examples

SEEDS = st.integers(0, 2**20)
#: Functions of losses and gradients alone, without memory and chance.
PLAIN = {"geometric": GeometricLoss(), "mgda": MGDA(), "cagrad": CAGrad(), "imtl": IMTL(),
         "nash": NashMTL()}  # fmt: skip
plain = pytest.mark.parametrize("name", PLAIN)


def make_gradients(seed, n_tasks=5, n_parameters=12):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_tasks, n_parameters)) * rng.uniform(0.2, 3.0, (n_tasks, 1))


def told(gradients, losses=None, seed=0, **more):
    n = len(gradients)
    losses = np.linspace(0.5, 2.0, n) if losses is None else np.asarray(losses, dtype=float)
    rng = np.random.default_rng(seed)
    return Told(losses, gram=gradients @ gradients.T, gradients=gradients, pulls=gradients,
                rng=rng, **more)  # fmt: skip


def weights_of(weighting, gradients, state=None, **more):
    state = weighting.start(len(gradients)) if state is None else state
    return weighting.weigh(told(gradients, **more), state)[0].weights


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


# -- Of all ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("n_tasks", [1, 2, 6])
def test_every_weighting_answers_finite_numbers_of_the_shapes_it_promises(name, n_tasks):
    weighting = WEIGHTINGS[name]
    state = weighting.start(n_tasks)
    for seed in range(4):
        gradients = make_gradients(seed, n_tasks)
        step, state = weighting.weigh(told(gradients, past=np.ones((seed, n_tasks))), state)
        assert step.weights.shape == step.own.shape == (n_tasks,)
        shapes = {"gradients": (12,), "activations": (n_tasks, 12)}
        assert step.shared.shape == shapes.get(weighting.needs, (n_tasks,))
        assert all(np.isfinite(part).all() for part in step)
        assert (step.own > 0).all()


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_gradients_that_vanish_or_are_copies_do_no_harm(name):
    weighting = WEIGHTINGS[name]
    copies = np.tile(make_gradients(0, 1), (3, 1))
    for gradients in (np.zeros((3, 4)), copies, np.vstack([copies[:2], 0.0 * copies[:1]])):
        step, _ = weighting.weigh(told(gradients), weighting.start(3))
        assert all(np.isfinite(part).all() for part in step)


@plain
@settings(max_examples=examples(25), deadline=None)
@given(seed=SEEDS)
def test_renaming_tasks_renames_their_weights(name, seed):
    gradients, losses = make_gradients(seed), np.random.default_rng(seed).uniform(0.1, 3.0, 5)
    order = np.random.default_rng(seed + 1).permutation(5)
    one = weights_of(PLAIN[name], gradients, losses=losses)
    other = weights_of(PLAIN[name], gradients[order], losses=losses[order])
    np.testing.assert_allclose(other, one[order], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["mgda", "cagrad", "imtl", "nash"])
@settings(max_examples=examples(25), deadline=None)
@given(seed=SEEDS, scale=st.floats(1e-3, 1e3))
def test_weights_do_not_depend_on_the_unit_of_all_losses(name, seed, scale):
    gradients = make_gradients(seed)
    one, other = weights_of(PLAIN[name], gradients), weights_of(PLAIN[name], scale * gradients)
    # Nash-MTL is scaled by the whole of the inner products, as the authors do.
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["imtl", "nash"])
@settings(max_examples=examples(25), deadline=None)
@given(seed=SEEDS)
def test_impartial_steps_do_not_depend_on_the_units_of_single_losses(name, seed):
    gradients = make_gradients(seed)
    units = np.random.default_rng(seed).uniform(0.1, 10.0, (5, 1))
    one = weights_of(PLAIN[name], gradients) @ gradients
    other = weights_of(PLAIN[name], units * gradients) @ (units * gradients)
    # IMTL's sum to one fixes the sign, and may turn the step round.
    assert abs(cosine(one, other)) == pytest.approx(1.0, abs=1e-6)


# -- From the losses -------------------------------------------------------------------------------


def test_random_weights_are_positive_add_up_to_one_and_are_equal_on_average():
    rng = np.random.default_rng(0)
    drawn = np.array(
        [RandomWeighting().weigh(Told(np.ones(4), rng=rng), None)[0].weights for _ in range(4000)]
    )
    assert (drawn > 0).all()
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.25, atol=0.01)


def test_uncertainties_come_to_rest_at_the_losses():
    weighting, losses = UncertaintyWeighting(), np.array([0.3, 1.0, 2.5])
    state = weighting.start(3)
    for _ in range(3000):
        step, state = weighting.weigh(Told(losses, learning_rate=1e-2), state)
    np.testing.assert_allclose(np.exp(state.values), losses, rtol=1e-3)
    np.testing.assert_allclose(step.weights, 0.5 / losses, rtol=1e-3)


def test_uncertainties_first_move_down_their_objective():
    losses = np.array([0.3, 1.0, 2.5])
    after = UncertaintyWeighting().weigh(Told(losses), UncertaintyWeighting().start(3))[1]
    assert after.values[0] < 0.0 < after.values[2]
    assert after.values[1] == 0.0


def test_dynamic_weights_are_equal_for_two_epochs_and_then_favour_slow_tasks():
    weighting = DynamicWeightAverage()
    past = np.array([[1.0, 2.0, 4.0], [0.5, 2.0, 6.0]])
    for epochs in (0, 1):
        told_then = Told(np.ones(3), past[:epochs])
        np.testing.assert_array_equal(weighting.weigh(told_then, None)[0].weights, np.ones(3))
    expected = np.exp(np.array([0.5, 1.0, 1.5]) / 2.0)
    found = weighting.weigh(Told(np.ones(3), past), None)[0].weights
    np.testing.assert_allclose(found, 3.0 * expected / expected.sum())


def test_geometric_weights_are_the_gradient_of_the_geometric_mean():
    losses = np.array([0.2, 1.5, 3.0, 0.7])
    found = GeometricLoss().weigh(Told(losses), None)[0].weights
    steps = 1e-6 * np.eye(4)
    numeric = [
        (np.prod(losses + step) ** 0.25 - np.prod(losses - step) ** 0.25) / 2e-6 for step in steps
    ]
    np.testing.assert_allclose(found, numeric, rtol=1e-6)


# -- From the inner products -----------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS, n_tasks=st.integers(2, 8), n_parameters=st.integers(1, 12))
def test_mgda_finds_the_shortest_vector_of_the_hull(seed, n_tasks, n_parameters):
    gradients = make_gradients(seed, n_tasks, n_parameters)
    weights = weights_of(MGDA(), gradients)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)
    step = weights @ gradients
    # Optimal exactly where no gradient has a smaller product with the step than the step itself.
    scale = np.sum(gradients**2, axis=1).max()
    assert (gradients @ step).min() >= step @ step - 1e-9 * scale


@pytest.mark.parametrize("seed", range(5))
def test_mgda_agrees_with_a_quadratic_programme(seed):
    gradients = make_gradients(seed)
    gram = gradients @ gradients.T
    other = minimize(
        lambda w: w @ gram @ w, np.full(5, 0.2), jac=lambda w: 2.0 * gram @ w, bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0}, method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(weights_of(MGDA(), gradients), other.x, atol=1e-5)


def test_mgda_of_two_gradients_is_the_closed_form_of_the_paper():
    a, b = make_gradients(3, 2)
    part = np.clip((b - a) @ b / ((a - b) @ (a - b)), 0.0, 1.0)
    np.testing.assert_allclose(weights_of(MGDA(), np.stack([a, b])), [part, 1.0 - part])


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS, alpha=st.floats(0.05, 0.95))
def test_cagrad_stays_in_its_ball_and_no_other_step_there_serves_the_worst_task_better(seed, alpha):
    gradients = make_gradients(seed)
    mean = gradients.mean(axis=0)
    radius = alpha * np.linalg.norm(mean)
    step = weights_of(CAGrad(alpha), gradients) @ gradients
    assert np.linalg.norm(step - mean) == pytest.approx(radius)
    # Weak duality: the dual at any weights bounds what any step in the ball can reach.
    worst = (gradients @ step).min()
    gram = gradients @ gradients.T
    dual = minimize(
        lambda w: w @ gram.mean(axis=0) + radius * np.sqrt(w @ gram @ w + 1e-16), np.full(5, 0.2),
        bounds=[(0, 1)] * 5, constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    scale = np.sum(gradients**2, axis=1).max()
    assert worst == pytest.approx(dual.fun, abs=1e-6 * scale)


def test_cagrad_finds_the_least_bad_step_where_gradients_cancel():
    # Two opposed gradients of lengths 1 and 2: the mean is along the longer one.
    gradients = np.array([[1.0, 0.0], [-2.0, 0.0]])
    step = weights_of(CAGrad(0.5), gradients) @ gradients
    np.testing.assert_allclose(step, [-0.25, 0.0], atol=1e-6)


def test_cagrad_without_a_radius_is_the_mean_gradient():
    np.testing.assert_allclose(weights_of(CAGrad(0.0), make_gradients(0)), 0.2)


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS)
def test_imtl_projects_equally_on_all_gradients_and_its_weights_add_up_to_one(seed):
    gradients = make_gradients(seed)
    weights = weights_of(IMTL(), gradients)
    assert weights.sum() == pytest.approx(1.0)
    onto = gradients @ (weights @ gradients) / np.linalg.norm(gradients, axis=1)
    np.testing.assert_allclose(onto, onto[0], rtol=1e-6, atol=1e-9 * np.abs(onto).max())


def test_imtl_brings_all_losses_to_one_scale():
    weighting, losses, gradients = IMTL(), np.array([0.3, 1.0, 2.5]), make_gradients(0, 3)
    state = weighting.start(3)
    for _ in range(3000):
        step, state = weighting.weigh(told(gradients, losses=losses, learning_rate=1e-2), state)
    np.testing.assert_allclose(step.own * losses, 1.0, rtol=1e-3)
    onto = gradients @ (step.weights @ gradients) / np.linalg.norm(gradients, axis=1)
    np.testing.assert_allclose(onto, onto[0])


@settings(max_examples=examples(40), deadline=None)
@given(seed=SEEDS, n_tasks=st.integers(1, 10))
def test_nash_weights_solve_the_bargain(seed, n_tasks):
    gradients = make_gradients(seed, n_tasks)
    gram = gradients @ gradients.T
    weights = weights_of(NashMTL(), gradients)
    assert (weights > 0).all()
    np.testing.assert_allclose(gram / np.linalg.norm(gram) @ weights * weights, 1.0, rtol=1e-6)


def test_nash_weights_are_finite_where_gradients_cancel():
    opposed = np.array([[1.0, 0.0], [-1.0, 0.0]])
    weights = weights_of(NashMTL(), opposed)
    assert np.isfinite(weights).all()
    assert weights[0] == pytest.approx(weights[1])


def test_orthogonal_gradients_are_left_alone_by_surgery():
    gradients = np.diag([1.0, 2.0, 0.5])
    np.testing.assert_array_equal(weights_of(PCGrad(), gradients), np.ones(3))
    np.testing.assert_array_equal(weights_of(GradVac(), gradients), np.ones(3))


def test_two_conflicting_gradients_each_lose_what_is_against_the_other():
    a, b = np.array([1.0, 0.0]), np.array([-1.0, 1.0])
    expected = a - (a @ b) / (b @ b) * b + b - (a @ b) / (a @ a) * a
    gradients = np.stack([a, b])
    np.testing.assert_allclose(weights_of(PCGrad(), gradients) @ gradients, expected)


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS)
def test_surgery_on_coefficients_is_surgery_on_gradients(seed):
    gradients = make_gradients(seed, 6, 4)
    found = weights_of(PCGrad(), gradients, seed=seed) @ gradients
    # The same orders, met one after the other by the gradients themselves.
    rng = np.random.default_rng(seed)
    met = (np.arange(6)[:, None] + rng.permuted(np.tile(np.arange(1, 6), (6, 1)), axis=1)) % 6
    altered = gradients.copy()
    for task in range(6):
        for other in gradients[met[task]]:
            if altered[task] @ other < 0:
                altered[task] -= (altered[task] @ other) / (other @ other) * other
    np.testing.assert_allclose(found, altered.sum(axis=0), rtol=1e-7, atol=1e-9)


def test_every_task_meets_every_other_once_in_surgery():
    met = orders(told(make_gradients(0, 7)))
    for task in range(7):
        assert sorted(met[:, task]) == [other for other in range(7) if other != task]


@settings(max_examples=examples(30), deadline=None)
@given(seed=SEEDS, target=st.floats(-0.5, 0.95))
def test_a_vaccinated_gradient_reaches_the_similarity_wanted(seed, target):
    a, b = make_gradients(seed, 2)
    wanted = np.full((2, 2), target)
    coefficients = weights_of(GradVac(), np.stack([a, b]), wanted)
    # The two are altered apart from each other, each by a part of the other alone.
    first, second = a + (coefficients[1] - 1.0) * b, b + (coefficients[0] - 1.0) * a
    for turned, other in ((first, b), (second, a)):
        assert cosine(turned, other) == pytest.approx(max(cosine(a, b), target), abs=1e-9)


def test_targets_of_similarity_follow_what_is_seen():
    gradients = make_gradients(0, 2)
    _, state = GradVac(0.25).weigh(told(gradients), GradVac().start(2))
    assert state[0, 1] == pytest.approx(0.25 * cosine(*gradients))
    assert state[0, 0] == 0.0


def test_gradnorm_keeps_the_sum_of_weights_and_lifts_the_task_that_lags():
    weighting, gradients = GradNorm(), np.eye(3)
    state = weighting.start(3)
    _, state = weighting.weigh(told(gradients, losses=np.ones(3)), state)
    for _ in range(20):
        step, state = weighting.weigh(told(gradients, losses=[0.2, 0.2, 0.9]), state)
        assert step.weights.sum() == pytest.approx(3.0)
        assert (step.weights > 0).all()
    assert step.weights[2] > 1.0 > step.weights[0]


def test_gradnorm_balances_gradients_of_tasks_that_learn_alike():
    weighting, gradients = GradNorm(rate=0.005), np.diag([1.0, 2.0, 4.0])
    state = weighting.start(3)
    for _ in range(3000):
        step, state = weighting.weigh(told(gradients, losses=np.ones(3)), state)
    norms = step.weights * np.diag(gradients)
    np.testing.assert_allclose(norms, norms.mean(), rtol=0.1)


# -- From the gradients ----------------------------------------------------------------------------


def test_where_all_gradients_have_one_sign_none_is_dropped():
    pulls = np.abs(make_gradients(0, 3)) * np.where(np.arange(12) % 2, 1.0, -1.0)
    np.testing.assert_array_equal(GradDrop().weigh(told(pulls), None)[0].shared, np.ones((3, 12)))


def test_what_passes_has_one_sign_at_each_unit_and_as_often_as_it_is_pure():
    pulls, rng = np.array([[3.0, 1.0], [-1.0, 1.0], [0.0, -2.0]]), np.random.default_rng(0)
    passed = np.array([
        GradDrop().weigh(Told(np.ones(3), pulls=pulls, rng=rng), None)[0].shared
        for _ in range(4000)
    ])  # fmt: skip
    assert not (passed[:, 0, 0] * passed[:, 1, 0]).any()
    np.testing.assert_allclose(passed[:, 0, 0].mean(), 0.75, atol=0.03)  # (1 + 2 / 4) / 2
    np.testing.assert_allclose(passed[:, 2, 1].mean(), 0.5, atol=0.03)
    leaking = GradDrop(0.3).weigh(told(pulls), None)[0].shared
    assert set(np.round(np.unique(leaking), 12)) == {0.3, 1.0}


def test_moco_comes_to_mgda_where_gradients_stay_the_same():
    gradients = make_gradients(1, 3)
    weighting = MoCo(decay=0.0)
    state = weighting.start(3)
    for _ in range(2000):
        step, state = weighting.weigh(told(gradients), state)
    np.testing.assert_allclose(step.weights, weights_of(MGDA(), gradients), atol=1e-6)
    np.testing.assert_allclose(step.shared, step.weights @ gradients, atol=1e-6)


def test_moco_first_follows_half_of_each_gradient():
    gradients = make_gradients(0, 3)
    step, state = MoCo(gamma=0.0).weigh(told(gradients), MoCo().start(3))
    np.testing.assert_allclose(state.gradients, 0.5 * gradients)
    np.testing.assert_allclose(step.shared, 0.5 * gradients.mean(axis=0))


@settings(max_examples=examples(50), deadline=None)
@given(point=st.lists(st.floats(-5.0, 5.0), min_size=1, max_size=6))
def test_the_nearest_point_of_the_simplex_is_in_it_and_nearest(point):
    point = np.array(point)
    found = onto_simplex(point)
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()
    # Nearest: no corner lies beyond the plane through it across the way to the point.
    assert ((np.eye(point.size) - found) @ (point - found) <= 1e-9).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CAGrad(1.0), "alpha=1.0 is out of range: pass a number 0 or more and below 1"),
        (lambda: GradVac(-0.1), "beta=-0.1 is out of range: pass a number 0 or more and 1 at most"),
        (lambda: GradDrop(2.0), "leak=2.0 is out of range"),
        (lambda: GradNorm(rate=0.0), "rate=0.0 is out of range: pass a number above 0"),
        (lambda: MoCo(gamma=np.nan), "gamma=nan is out of range: pass a number 0 or more"),
        (lambda: DynamicWeightAverage(np.inf), "temperature=inf is out of range"),
    ],
)
def test_parameters_out_of_range_are_refused_in_words(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# -- Where torch is not ----------------------------------------------------------------------------

NO_TORCH = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
"""
FIT = """
import numpy as np
from ctfa_study.baselines import HardSharingRegressor
from ctfa_study.baselines.weightings import WEIGHTINGS
assert len(WEIGHTINGS) == 14
try:
    HardSharingRegressor().fit(np.ones((9, 2)), np.ones((9, 2)))
except ImportError as error:
    print(error)
"""


def test_without_torch_one_sentence_says_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", NO_TORCH + FIT], capture_output=True, text=True, check=False
    )
    said = "HardSharingRegressor trains with torch: pip install 'ctfa[torch]'"
    assert done.stdout.strip() == said, done.stderr


def test_the_package_does_not_import_torch():
    code = "import sys, ctfa_study.baselines.weightings; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_table_2_has_a_network_for_each_weighting_and_seed():
    for plan, n_seeds in ((Plan(), 3), (Plan(quick=True), 1), (Plan(seeds=2), 2)):
        cases = list(network_cases(plan))
        labels = [weighting.label for weighting in WEIGHTINGS.values()]
        assert [case.method for case in cases[:14]] == [f"HPS MLP + {one}" for one in labels]
        assert [case.seed for case in cases[::14]] == list(range(n_seeds))
        assert len({case.key for case in cases}) == len(cases) == 14 * n_seeds
        assert all(case.network and case.experiment == "table2" for case in cases)
