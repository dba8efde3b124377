"""Any regressor on top: groups that it judges itself against one such model per target.

    python -m ctfa_study.evidence.any_regressor [--seeds tuning] [--regressors kernel] [--jobs 2]

Families in which a linear model sees too little, 300 rows, 12 and 24 targets. The score is the
excess risk on 2000 new rows (prediction against the noise-free signal, over the target's variance,
mean over targets); the figure is its sum over the seeds, over that of one model per target.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import silhouette_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ctfa import CTFARegressor, TargetAggregator
from ctfa._threads import one_thread
from ctfa_study.baselines import GroupMeansRegressor
from ctfa_study.evidence.problem import is_final, stream
from ctfa_study.evidence.tables import geometric_mean

#: Where the table goes, in the folder one is in.
RESULTS = Path("results", "any_regressor")
N_TRAIN, N_TEST, N_INPUTS, N_MAPS = 300, 2000, 8, 3
SIZES = (12, 24)
SEEDS = range(4)


class Family(NamedTuple):
    """How signals are made of maps, and the standard deviation of the noise beside theirs."""

    name: str
    draw: Callable[[np.random.Generator, np.ndarray, int], tuple[np.ndarray, np.ndarray]]
    noise: float
    has_groups: bool = False  # whether members of a group have one signal


def curved(rng: np.random.Generator, X: np.ndarray) -> np.ndarray:
    """A wave, a product and a bend of four inputs, of variance one."""
    a, b, c, d = rng.permutation(X.shape[1])[:4]
    weight = rng.normal(size=3)
    signal = weight[0] * 1.4 * np.sin(1.5 * X[:, a]) + weight[1] * X[:, b] * X[:, c]
    return _standard(signal + weight[2] * 1.6 * np.abs(X[:, d]))


def _standard(signal: np.ndarray) -> np.ndarray:
    return np.asarray((signal - signal.mean()) / signal.std())


def _grouped(rng: np.random.Generator, X: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray]:
    maps, labels = [curved(rng, X) for _ in range(N_MAPS)], np.arange(L) % N_MAPS
    return np.stack([maps[k] for k in labels], axis=1), labels


def _own_parts(rng: np.random.Generator, X: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray]:
    """A fifth of each signal's variance is its own."""
    common, labels = _grouped(rng, X, L)
    own = np.stack([curved(rng, X) for _ in range(L)], axis=1)
    return np.sqrt(0.8) * common + np.sqrt(0.2) * own, labels


def _unrelated(rng: np.random.Generator, X: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([curved(rng, X) for _ in range(L)], axis=1), np.arange(L)


def _trend(rng: np.random.Generator, X: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray]:
    """A linear trend in common, and a square that half of the targets have with a minus."""
    labels, trend = np.arange(L) % 2, _standard(X @ rng.normal(size=X.shape[1]))
    square = (X[:, 0] ** 2 - 1.0)[:, None] * np.where(labels, -1.0, 1.0)
    signal = trend[:, None] + square
    return signal / signal.std(axis=0), labels


def _lines(rng: np.random.Generator, X: np.ndarray, L: int) -> tuple[np.ndarray, np.ndarray]:
    signals = [_standard(X @ rng.normal(size=X.shape[1])) for _ in range(L)]
    return np.stack(signals, axis=1), np.arange(L)


FAMILIES = (
    Family("groups", _grouped, 2.0, has_groups=True),
    Family("groups, less noise", _grouped, 1.0, has_groups=True),
    Family("common trend", _trend, 2.0, has_groups=True),
    Family("own parts", _own_parts, 1.0),
    Family("hardly any noise", _grouped, 0.2),
    Family("unrelated", _unrelated, 1.0),
    Family("unrelated, hardly any noise", _unrelated, 0.2),
    Family("unrelated lines", _lines, 1.0),
)
REGRESSORS = {
    "forest": RandomForestRegressor(50, min_samples_leaf=3, max_features=1 / 3, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=60, random_state=0),
    "kernel": make_pipeline(StandardScaler(), KernelRidge(alpha=0.3, kernel="rbf", gamma=0.1)),
    "network": make_pipeline(
        StandardScaler(),
        MLPRegressor(
            hidden_layer_sizes=(16,), solver="lbfgs", alpha=1.0, max_iter=200, random_state=0
        ),
    ),
    "ridge": make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13))),
}


class CrossErrors(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Groups by how well a target's model predicts the others, then one model per group.

    After the idea of RMB-CLE (arXiv 2602.14231): errors of every target under every target's model
    on rows left out, clustered by average linkage, with the number of clusters that has the best
    silhouette. The groups' models are fitted to means, where inputs are shared.
    """

    def __init__(self, regressor: object = None) -> None:
        self.regressor = regressor

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Find the groups and fit them."""
        told = np.column_stack(
            [cross_val_predict(clone(self.regressor), X, one, cv=KFold(4)) for one in y.T]
        )
        errors = ((y[:, :, None] - told[:, None, :]) ** 2).mean(axis=0)
        worse = errors - np.diag(errors)[:, None]
        apart = np.maximum(worse + worse.T, 0.0)
        np.fill_diagonal(apart, 0.0)
        tree, n_targets = linkage(squareform(apart, checks=False), "average"), y.shape[1]
        tried = [fcluster(tree, k, "maxclust") for k in range(2, n_targets)]
        scores = [
            silhouette_score(apart, labels, metric="precomputed")
            if 1 < len(set(labels)) < n_targets
            else -1.0
            for labels in tried
        ]
        self.model_ = GroupMeansRegressor(tried[int(np.argmax(scores))] - 1, self.regressor)
        self.model_.fit(X, y)
        self.n_groups_ = len(set(self.model_.labels))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """By the groups' models."""
        return np.asarray(self.model_.predict(X))


class Row(NamedTuple):
    """One method on one draw."""

    regressor: str
    family: str
    size: int
    seed: int
    method: str
    score: float
    groups: int
    seconds: float


REFERENCE, OURS, READABLE = "one per target", "ours", "its groups' models alone"
CHEAP, CROSS, TRUTH = "judged by least squares", "cross-task errors", "true groups"
SHARED = "one for all targets"
METHODS = (REFERENCE, OURS, READABLE, CHEAP, CROSS, TRUTH, SHARED)


def measure(name: str, family: Family, size: int, seed: int) -> list[Row]:
    """All methods with a regressor on a draw."""
    rng = np.random.default_rng([stream(seed), *family.name.encode(), size])
    X = rng.normal(size=(N_TRAIN + N_TEST, N_INPUTS))
    signal, labels = family.draw(rng, X, size)
    Y = signal + family.noise * rng.normal(size=signal.shape)
    known, rest, wanted = X[:N_TRAIN], X[N_TRAIN:], signal[N_TRAIN:]
    Y = Y[:N_TRAIN]
    regressor = REGRESSORS[name]
    cheap = CTFARegressor(regressor, targets=TargetAggregator(regressor=LinearRegression()))
    models = {
        REFERENCE: MultiOutputRegressor(regressor),
        OURS: CTFARegressor(regressor),
        CHEAP: cheap,
        CROSS: CrossErrors(regressor),
        TRUTH: GroupMeansRegressor(labels, regressor),
    }
    if name in ("forest", "network"):
        models[SHARED] = clone(regressor)
    offset, scale = Y.mean(axis=0), Y.std(axis=0)
    rows = []
    for method, model in models.items():
        start = time.process_time()
        with one_thread():
            model.fit(known, (Y - offset) / scale)
        seconds = time.process_time() - start
        told = {method: model.predict(rest)}
        if method == OURS:
            means = [np.ravel(one.predict(rest)) for one in model.regressors_]
            told[READABLE] = model.partition_.spread(np.column_stack(means))
        for which, predicted in told.items():
            score = float(
                (((predicted * scale + offset - wanted) ** 2).mean(axis=0) / Y.var(axis=0)).mean()
            )
            groups = int(getattr(model, "n_groups_", size))
            rows.append(Row(name, family.name, size, seed, which, score, groups, seconds))
    return rows


def ratios(rows: list[Row]) -> dict[tuple[str, str, int, str], float]:
    """Scores of each method over those of one model per target, summed over the seeds."""
    sums: dict[tuple[str, str, int, str], float] = {}
    for row in rows:
        key = row.regressor, row.family, row.size, row.method
        sums[key] = sums.get(key, 0.0) + row.score
    return {key: value / sums[(*key[:3], REFERENCE)] for key, value in sums.items()}


def report(rows: list[Row]) -> Iterator[str]:
    """Tables of ratios, what was asked, and where ours loses."""
    found = ratios(rows)
    names = list(dict.fromkeys(row.regressor for row in rows))
    yield "# Any regressor\n"
    sizes, draws = " and ".join(map(str, SIZES)), len({row.seed for row in rows})
    yield (
        f"`python -m ctfa_study.evidence.any_regressor`: {N_TRAIN} rows, {N_INPUTS} inputs, "
        f"{sizes} targets, {draws} draws each. Ratios of excess risk to one model per target; "
        "below one is better. `ours` is `CTFARegressor(regressor)`.\n"
    )
    true = {family.name for family in FAMILIES if family.has_groups}
    heads = "groups are true: geometric mean", "worst of all families", "on", "times as long"
    yield f"| regressor | {' | '.join(heads)} |"
    yield "|---" * 5 + "|"
    for name in names:
        ours = {key[1:3]: value for key, value in found.items() if key[::3] == (name, OURS)}
        mean = geometric_mean([value for key, value in ours.items() if key[0] in true])
        worst = max(ours, key=lambda key: ours[key])
        spent = {REFERENCE: 0.0, OURS: 0.0}
        for row in rows:
            if row.regressor == name and row.method in spent:
                spent[row.method] += row.seconds
        yield (
            f"| {name} | {mean:.3f} | {ours[worst]:.3f} | {worst[0]}, {worst[1]} targets | "
            f"{spent[OURS] / spent[REFERENCE]:.1f} |"
        )
    for name in names:
        methods = [one for one in METHODS if any(key[::3] == (name, one) for key in found)][1:]
        yield f"\n## {name}\n"
        yield f"| family | targets | {' | '.join(methods)} | groups found |"
        yield "|---|---|" + "---|" * (len(methods) + 1)
        for family in FAMILIES:
            for size in SIZES:
                keys = [(name, family.name, size, method) for method in methods]
                if keys[0] not in found:
                    continue
                groups = [
                    str(row.groups)
                    for row in rows
                    if (row.regressor, row.family, row.size, row.method) == keys[0]
                ]
                cells = " | ".join(f"{found[key]:.3f}" for key in keys)
                yield f"| {family.name} | {size} | {cells} | {', '.join(groups)} |"


def main() -> None:
    """Run what was asked for and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--regressors", nargs="*", default=list(REGRESSORS), choices=REGRESSORS)
    parser.add_argument("--seeds", choices=["tuning", "final"], default="final")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    draws = [
        (family, size, seed)
        for family in FAMILIES
        for size in SIZES
        for seed in SEEDS
        if is_final(seed) == (options.seeds == "final")
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in options.regressors:
        found = Parallel(n_jobs=options.jobs)(delayed(measure)(name, *draw) for draw in draws)
        rows += [row for each in found for row in each]
        # What is there stands, should a later one fail.
        text = "\n".join(report(rows)) + "\n"
        (options.output / "report.md").write_text(text)
        print(f"{name} done", flush=True)
    print(text)


if __name__ == "__main__":
    main()
