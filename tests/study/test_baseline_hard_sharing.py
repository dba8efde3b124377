"""A network that tasks share: what torch computes, and life as an estimator."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from ctfa_study.baselines import HardSharingRegressor
from ctfa_study.baselines._torch_training import Course, Network, first_layers, run_layers
from ctfa_study.baselines.weightings import WEIGHTINGS, CAGrad, Step
from ctfa_study.reproduction._case import Plan
from ctfa_study.reproduction.experiments.table2._networks import network_cases
from real_data import real

NO_TORCH = """
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
"""

torch = pytest.importorskip("torch", reason="networks are trained with torch")


def problem(seed=0, n=300, d=3, t=4):
    """Tasks that are combinations of the same three bends."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 5.0 + 3.0
    return X, 100.0 * np.abs(X - 3.0) @ rng.normal(size=(d, t)) + 7.0


X, Y = problem()
SMALL = HardSharingRegressor(
    (24, 16), epochs=40, batch_size=50, learning_rate=5e-3, device="cpu", random_state=0
)


def small(**more):
    return clone(SMALL).set_params(**more)


def network(weighting="equal", seed=0, learning_rate=1e-3):
    """A network beside one batch in single precision, and its layers."""
    rng = np.random.default_rng(seed)
    layers = first_layers([6, 10, 8, 4], rng)
    course = Course(WEIGHTINGS[weighting], 1, 32, learning_rate, 0.0, "cpu")
    rows = rng.normal(size=(32, 6)), rng.normal(size=(32, 4))
    return Network(torch, layers, course), layers, rows


def losses_of(layers, rows):
    return np.mean((run_layers(layers, rows[0]) - rows[1]) ** 2, axis=0)


def look(net, rows):
    return net.look(*map(net.tensor, rows), np.empty((0, 4)), np.random.default_rng(0))


def moved(layers, number, part, at, by):
    copies = [type(layer)(*(values.copy() for values in layer)) for layer in layers]
    copies[number][part][at] += by
    return copies


# -- What torch computes ---------------------------------------------------------------------------


def test_batched_gradients_are_those_of_each_loss_by_differences():
    net, layers, rows = network("moco")
    told = look(net, rows)
    np.testing.assert_allclose(told.losses, losses_of(layers, rows), rtol=1e-5)
    at = 0
    for number, layer in enumerate(layers[:-1]):
        for part, values in enumerate(layer):
            for position in [(0,) * values.ndim, tuple(np.array(values.shape) - 1)]:
                steps = [losses_of(moved(layers, number, part, position, by), rows)
                         for by in (1e-6, -1e-6)]  # fmt: skip
                index = at + np.ravel_multi_index(position, values.shape)
                numeric = (steps[0] - steps[1]) / 2e-6
                np.testing.assert_allclose(told.gradients[:, index], numeric, atol=1e-5)
            at += values.size
    assert told.gradients.shape == (4, at)


def test_inner_products_are_those_of_the_gradients():
    gradients = look(network("moco")[0], network("moco")[2]).gradients
    net, _, rows = network("mgda")
    np.testing.assert_allclose(look(net, rows).gram, gradients @ gradients.T, rtol=1e-4, atol=1e-7)


def test_pulls_are_gradients_in_the_representation_times_its_sign():
    net, layers, rows = network("graddrop")
    pulls = look(net, rows).pulls
    values = rows[0]
    for layer in layers[:-1]:
        values = np.maximum(values @ layer.weights + layer.bias, 0.0)
    left = values @ layers[-1].weights + layers[-1].bias - rows[1]
    expected = [
        (np.sign(values) * np.outer(2.0 / 32 * left[:, task], layers[-1].weights[:, task])).sum(0)
        for task in range(4)
    ]
    np.testing.assert_allclose(pulls, expected, rtol=1e-4, atol=1e-6)


def gradients_after(weighting, step):
    net, _, rows = network(weighting)
    look(net, rows)
    net.follow(step)
    return [part.grad.numpy() for part in (*net.trunk, *net.heads)]


def test_a_step_is_the_same_by_losses_by_gradients_and_by_all_that_passes():
    weights = np.array([0.5, 2.0, 0.0, 1.0])
    expected = gradients_after("equal", Step(weights, weights, weights))
    by_gram = gradients_after("mgda", Step(weights, weights, weights))
    passing = np.tile(weights[:, None], (1, 8))
    by_parts = gradients_after("graddrop", Step(weights, weights, passing))
    net, _, rows = network("moco")
    along = gradients_after("moco", Step(weights, weights, weights @ look(net, rows).gradients))
    for other in (by_gram, by_parts, along):
        for one, two in zip(expected, other, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)


def test_heads_follow_weights_of_their_own():
    parts = gradients_after("mgda", Step(np.ones(4), np.array([1.0, 0.0, 0.0, 2.0]), np.ones(4)))
    plain = gradients_after("mgda", Step(np.ones(4), np.ones(4), np.ones(4)))
    np.testing.assert_allclose(parts[-2], plain[-2] * [1.0, 0.0, 0.0, 2.0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(parts[0], plain[0], rtol=1e-5, atol=1e-7)


# -- As an estimator -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_every_weighting_learns(name):
    rows, targets = problem(1)
    model = small(weighting=name).fit(rows[:200], targets[:200])
    assert model.loss_curve_.shape == model.weights_curve_.shape == (40, 4)
    assert model.loss_curve_[-1].mean() < 0.3 * model.loss_curve_[0].mean()
    linear = LinearRegression().fit(rows[:200], targets[:200])
    assert model.score(rows[200:], targets[200:]) > 0.5 > linear.score(rows[200:], targets[200:])


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_the_same_seed_gives_the_same_model_and_leaves_torch_alone(name):
    before = torch.get_rng_state()
    one, other = (small(weighting=name, epochs=3).fit(X, Y).predict(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)
    different = small(weighting=name, epochs=3, random_state=1).fit(X, Y).predict(X)
    assert not np.array_equal(one, different)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_units_of_features_and_targets_do_not_matter(name):
    # Powers of two, so that standard units are the same to the last digit.
    one = small(weighting=name, epochs=3).fit(X, Y).predict(X)
    other = small(weighting=name, epochs=3).fit(8.0 * X, 0.25 * Y).predict(8.0 * X)
    np.testing.assert_allclose(other, 0.25 * one)


def test_the_curves_are_those_of_the_losses():
    # One batch of all rows, and steps too small to move: the loss is that of the model fitted.
    model = small(batch_size=300, epochs=2, learning_rate=1e-12).fit(X, Y)
    errors = np.mean((model.predict(X) - Y) ** 2, axis=0) / Y.var(axis=0)
    np.testing.assert_allclose(model.loss_curve_[-1], errors, rtol=1e-4)
    np.testing.assert_array_equal(model.weights_curve_, 1.0)


def test_weightings_with_parameters_may_be_given():
    mean = small(weighting=CAGrad(0.0), epochs=5).fit(X, Y)
    np.testing.assert_allclose(mean.weights_curve_, 0.25)
    averse = small(weighting=CAGrad(0.9), epochs=5).fit(X, Y)
    assert averse.weights_curve_.sum(axis=1).min() > 1.0


def test_a_fitted_model_predicts_from_a_pickle_without_torch(tmp_path):
    model = small(epochs=3).fit(X, Y)
    (tmp_path / "model").write_bytes(pickle.dumps((model, X[:5])))
    code = f"""{NO_TORCH}
import pickle
model, rows = pickle.load(open({str(tmp_path / "model")!r}, "rb"))
print(model.predict(rows).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.stdout.strip() == str(model.predict(X[:5]).tolist()), done.stderr


def test_one_target_may_be_a_vector_and_constants_are_predicted():
    assert small(epochs=2).fit(X, Y[:, 0]).predict(X).shape == (300,)
    flat = np.column_stack([X, np.full(300, 0.1)])
    model = small().fit(flat, np.column_stack([Y[:, :2], np.full(300, 5.0)]))
    np.testing.assert_allclose(model.predict(flat)[:, 2], 5.0, atol=0.5)


def test_layers_may_be_given_by_anything_that_lists_them():
    model = HardSharingRegressor(iter((4, 5)), epochs=1, device="cpu", random_state=0).fit(X, Y)
    assert [layer.bias.size for layer in model.layers_] == [4, 5, 4]


def test_it_is_cross_validated_like_any_other():
    assert (cross_val_score(small(), X, Y, cv=3) > 0.8).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weighting": "nobody"}, "weighting='nobody' is not known; use one of 'equal'"),
        ({"hidden": ()}, r"hidden=\(\) is not a tuple of counts"),
        ({"hidden": (3, 0)}, "hidden=0 is not a count"),
        ({"epochs": 0}, "epochs=0 is not a count"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not a count"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be finite and above 0"),
        ({"weight_decay": -1.0}, "weight_decay=-1.0 must be finite and not negative"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
        ({"learning_rate": 1e30}, "training diverged in epoch .*Lower learning_rate"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(wrong, message):
    with pytest.raises(ValueError, match=message):
        small(**wrong).fit(X, Y)


@pytest.mark.parametrize("name", WEIGHTINGS)
@pytest.mark.parametrize("rate", [1e15, 1e30])
def test_training_that_diverges_says_so_whatever_the_weighting(name, rate):
    # By the smaller rate gradients overflow before losses do.
    model = small(weighting=name, learning_rate=rate)
    with pytest.raises(ValueError, match=r"training diverged in epoch .*Lower learning_rate"):
        model.fit(X, Y)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_gpu_gives_the_same_model_again_and_starts_like_the_processor(name):
    one, other = (small(weighting=name, epochs=3, device="cuda").fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert clone(one).set_params(device="auto").fit(X, Y).device_ == "cuda"
    # One batch of all rows and one step: chance and rounding aside the two devices agree.
    here, there = (small(weighting=name, epochs=1, batch_size=300, device=device).fit(X, Y)
                   for device in ("cpu", "cuda"))  # fmt: skip
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=1e-4)


# -- In Table 2 ------------------------------------------------------------------------------------


@pytest.mark.data
def test_a_quick_network_says_more_of_molecules_than_their_mean():
    real("qm9")
    figures = pickle.loads(pickle.dumps(next(network_cases(Plan(quick=True))))).measure()
    assert figures["mse without A, B, C"] < 0.7
    assert figures["groups"] == 19
    assert figures["models"] == 1


CHECKS = parametrize_with_checks(
    [HardSharingRegressor((32,), device="cpu"), small(weighting="pcgrad")]
).mark
NAMES, CASES = CHECKS.args


@pytest.mark.parametrize(NAMES, list(CASES), **CHECKS.kwargs)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)
