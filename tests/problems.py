"""Small seeded regression problems shared by the tests, easy and hard ones.

Each has groups of similar targets (``Y``) and one target (``y``) to which pairs of features
contribute alike, so that every criterion finds something to merge and something to refuse.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, RidgeCV

from ctfa import MultiInputCTFARegressor
from ctfa.core.design import Design
from ctfa.core.moments import StandIns
from ctfa.core.spaces.targets import TargetSpace

#: What judges merges of targets, in closed form.
RIDGE = RidgeCV(np.logspace(-3.0, 4.0, 20))
JUDGES = {"ols": LinearRegression(), "ridge": RIDGE}


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs X (n, D), targets Y (n, L), and one target y (n,) for merging features."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    y: np.ndarray

    def __repr__(self) -> str:
        n, D = self.X.shape
        return f"Problem({self.name!r}, n={n}, D={D}, L={self.Y.shape[1]})"


# -- Inputs, one function per family: (rng, n, D) -> X ---------------------------------------------


def gaussian(rng, n, D):
    return rng.normal(size=(n, D))


def correlated(rng, n, D):
    """One factor common to all columns, and one to each pair."""
    common, by_pair = rng.normal(size=(n, 1)), rng.normal(size=(n, (D + 1) // 2))
    return 0.6 * common + 0.8 * np.repeat(by_pair, 2, axis=1)[:, :D] + 0.5 * rng.normal(size=(n, D))


def nearly_collinear(rng, n, D):
    """Two pairs of columns that differ by a millionth."""
    X = rng.normal(size=(n, D))
    for copy in (1, 3):
        X[:, copy] = X[:, copy - 1] + 1e-6 * rng.normal(size=n)
    return X


def collinear(rng, n, D):
    """The last column is the sum of the first two. Quarters, so the sum is exact."""
    X = np.round(4 * rng.normal(size=(n, D))) / 4
    X[:, -1] = X[:, 0] + X[:, 1]
    return X


def duplicated(rng, n, D):
    """Two columns are exact copies of others."""
    X = rng.normal(size=(n, D))
    X[:, D // 2] = X[:, 0]
    X[:, -1] = X[:, 1]
    return X


def constant(rng, n, D):
    X = rng.normal(size=(n, D))
    X[:, D // 3] = 0.1  # not a binary fraction: its mean rounds
    return X


def one_hot(rng, n, D):
    """The first three columns are the dummies of three categories and sum to one."""
    X = rng.normal(size=(n, D))
    X[:, :3] = np.eye(3)[rng.permutation(np.arange(n) % 3)]
    return X


def scales(rng, n, D):
    """Pairs of columns in the same unit, the units from 1e-4 to 1e4."""
    units = np.repeat(np.logspace(-4, 4, (D + 1) // 2), 2)[:D]
    return rng.normal(size=(n, D)) * units


def discrete(rng, n, D):
    return rng.integers(0, 4, size=(n, D)).astype(float)


def offset(rng, n, D):
    """The mean is a million times the spread."""
    return 1e6 + rng.normal(size=(n, D))


def conditioned(condition):
    """Columns whose centred singular values fall from 1 to ``1/condition``."""

    def inputs(rng, n, D):
        left = rng.normal(size=(n, D))
        left = np.linalg.qr(left - left.mean(axis=0))[0]
        right = np.linalg.qr(rng.normal(size=(D, D)))[0]
        return np.sqrt(n) * (left * np.logspace(0, -np.log10(condition), D)) @ right.T

    return inputs


INPUTS = {
    "gaussian": gaussian,
    "correlated": correlated,
    "tight": gaussian,
    "nearly_collinear": nearly_collinear,
    "collinear": collinear,
    "duplicated": duplicated,
    "constant": constant,
    "one_hot": one_hot,
    "scales": scales,
    "discrete": discrete,
    "offset": offset,
    "duplicated_targets": gaussian,
}
FAMILIES = tuple(INPUTS)
# Centred X has less than full rank, exactly.
RANK_DEFICIENT = ("collinear", "duplicated", "constant", "one_hot")


# -- Problems --------------------------------------------------------------------------------------


def make_problem(family, seed, *, n_samples=None, n_features=None, n_targets=None) -> Problem:
    """The problem of a family with this seed; sizes not given are drawn from it (D at least 4)."""
    rng = np.random.default_rng([FAMILIES.index(family), seed])
    n, D, L = _sizes(rng, n_samples, n_features, n_targets)
    if family == "tight" and n_samples is None:
        n = D + 4
    X = INPUTS[family](rng, n, D)
    Y, y = _targets(rng, X, L)
    if family == "duplicated_targets":
        Y[:, [L // 2, L - 1]] = Y[:, [0]]
    if family == "discrete":
        Y, y = np.round(2 * Y) / 2, np.round(2 * y) / 2
    return Problem(f"{family}-{seed}", X, Y, y)


def ill_conditioned(condition, seed, *, n_samples=None, n_features=None, n_targets=None) -> Problem:
    """A problem whose centred X has this condition number."""
    rng = np.random.default_rng([len(FAMILIES), seed])
    n, D, L = _sizes(rng, n_samples, n_features, n_targets)
    X = conditioned(condition)(rng, n, D)
    return Problem(f"ill_conditioned({condition:g})-{seed}", X, *_targets(rng, X, L))


def paper_data(n=250, D=100, L=10, noise=7.5, seed=0) -> Problem:
    """The paper's synthetic experiment: two groups of targets, of positive and of negative slopes.

    The first feature is uniform, each next one 0.7 uniform plus 0.3 of an earlier one, all
    standardised. ``y`` is the mean of the targets of the first one's sign.
    """
    rng = np.random.default_rng(seed)
    X = np.empty((n, D))
    X[:, 0] = rng.uniform(size=n)
    for j in range(1, D):
        X[:, j] = 0.7 * rng.uniform(size=n) + 0.3 * X[:, rng.integers(j)]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    signs = rng.choice([-1.0, 1.0], size=L)
    Y = X @ (signs * rng.uniform(0.5, 1.0, size=(D, L))) + noise * rng.normal(size=(n, L))
    y = Y[:, signs == signs[0]].mean(axis=1)
    return Problem(f"paper(noise={noise:g})-{seed}", X, Y, y)


def features_in_fours(seed=23, n=120, n_targets=6):
    """Eight features of two kinds, and two groups of targets whose members differ a little.

    Of the default model, groups of features serve with contrasts, and members add to their groups.
    """
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, 2)), 4, axis=1) + 0.5 * rng.normal(size=(n, 8))
    common = np.repeat(rng.normal(size=2), 4) + 0.3 * rng.normal(size=8)
    sign = np.where(np.arange(n_targets) < n_targets // 2, 1.0, -1.0)
    coef = common[:, None] * sign + 0.3 * rng.normal(size=(8, n_targets))
    return X, X @ coef + 2.0 * rng.normal(size=(n, n_targets))


def _sizes(rng, n_samples, n_features, n_targets):
    D = int(rng.integers(5, 9)) if n_features is None else n_features
    L = int(rng.integers(6, 11)) if n_targets is None else n_targets
    n = int(rng.integers(2 * D + 12, 50)) if n_samples is None else n_samples
    return n, D, L


def _targets(rng, X, L):
    n, D = X.shape
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 1e-12 * np.abs(X).max(axis=0), spread, 1.0)
    # Three groups of targets: one set of coefficients each, and a little of each target's own.
    groups = rng.integers(0, 3, size=L)
    coefficients = rng.normal(size=(D, 3))[:, groups] + 0.2 * rng.normal(size=(D, L))
    noise = 10 ** rng.uniform(-0.7, 0.7)
    Y = Z @ coefficients / np.sqrt(D) + noise * rng.normal(size=(n, L)) + rng.normal(size=L)
    # Features in pairs of nearly equal coefficients.
    pairs = np.repeat(rng.normal(size=(D + 1) // 2), 2)[:D] + 0.1 * rng.normal(size=D)
    noise = 10 ** rng.uniform(-0.7, 0.3)
    y = Z @ pairs / np.sqrt(D) + noise * rng.normal(size=n) + rng.normal()
    return Y, y


# -- Hypothesis strategies -------------------------------------------------------------------------


@st.composite
def problems(draw, families=FAMILIES) -> Problem:
    """A problem of one of these families, of any seed and sizes."""
    family = draw(st.sampled_from(families))
    D = draw(st.integers(4, 8))
    n = D + 4 if family == "tight" else D + draw(st.integers(8, 35))
    L = draw(st.integers(2, 9))
    seed = draw(st.integers(0, 2**20))
    return make_problem(family, seed, n_samples=n, n_features=D, n_targets=L)


@st.composite
def ill_conditioned_problems(draw, low=1e3, high=1e9) -> Problem:
    """A problem with a condition number between ``low`` and ``high``."""
    exponent = draw(st.floats(np.log10(low), np.log10(high)))
    return ill_conditioned(10.0**exponent, draw(st.integers(0, 2**20)))


def target_space_of(moments, n_inputs):
    """Space of the rows that stand in for others."""
    rows, _, weights = StandIns.of(moments)
    design = Design.of(rows[:, :n_inputs], weights, moments.n_samples)
    return TargetSpace.of(design, design.centre(rows[:, n_inputs:]))


def averaged(layout, regressor=None, **options):
    """Own inputs whose groups are averaged and serve their members alone, unless told otherwise."""
    given = {"aggregate": "mean", "head": "mean"} | options
    return MultiInputCTFARegressor(layout, regressor, **given)
