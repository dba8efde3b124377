"""What tasks with rows of their own are told: too little evidence, ids in the wrong place."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_score

from ctfa import PooledCTFARegressor, TargetAggregator


def schools(seed=0, *, n_rows=80, n_inputs=3, n_tasks=4):
    rng = np.random.default_rng(seed)
    ids = np.arange(n_rows) % n_tasks
    X = rng.normal(size=(n_rows, n_inputs))
    return X, X[:, 0] + ids + rng.normal(size=n_rows), ids


def fixed(limit=1.5):
    return TargetAggregator(max_loss=limit)


@pytest.mark.more
@pytest.mark.parametrize("max_loss", [1.5, "auto"])
def test_more_features_than_rows_are_no_evidence(max_loss):
    X, y, ids = schools(n_rows=167, n_inputs=300, n_tasks=12)
    model = PooledCTFARegressor(targets=TargetAggregator(max_loss=max_loss))
    words = r"167 rows and 300 features \(rank 155 within tasks\) for 12 tasks.*"
    if max_loss == "auto":
        with pytest.warns(RuntimeWarning, match=words + "keeps every task by itself"):
            assert model.fit(X, y, tasks=ids).n_groups_ == 12
    else:  # which would merge everything
        with pytest.raises(ValueError, match=words + "fewer features or"):
            model.fit(X, y, tasks=ids)


@pytest.mark.parametrize(("n_rows", "enough"), [(19, False), (20, True)])
def test_three_degrees_of_freedom_are_needed_and_copies_of_features_take_none(n_rows, enough):
    X, y, ids = schools(n_rows=n_rows, n_inputs=13)
    X = np.column_stack([X, X[:, :2], np.ones(n_rows)])
    model = PooledCTFARegressor(targets=fixed())
    if enough:
        assert model.fit(X, y, tasks=ids).predict(X, tasks=ids).shape == (n_rows,)
    else:
        with pytest.raises(ValueError, match=r"16 features \(rank 13 .*; 20 rows or more"):
            model.fit(X, y, tasks=ids)


def test_tasks_by_themselves_are_the_business_of_their_regressor():
    X, y, ids = schools(n_rows=60, n_inputs=100)
    model = PooledCTFARegressor(RidgeCV(), targets="passthrough").fit(X, y, tasks=ids)
    alone = RidgeCV().fit(X[ids == 1], y[ids == 1]).predict(X[:5])
    np.testing.assert_allclose(model.predict(X[:5], tasks=[1] * 5), alone)
    with pytest.raises(ValueError, match="60 rows and 100 features"):
        model.set_params(unseen="global").fit(X, y, tasks=ids)


def test_why_has_one_unit_and_no_error_of_something_else():
    X, y, ids = schools(n_tasks=2)
    model = PooledCTFARegressor(targets=fixed(np.inf), head="mean").fit(X, y, tasks=ids)
    first, gained, merge, *_ = str(model.why(0)).splitlines()
    assert first == "0 shares its slopes with 1 other task: 1."
    assert gained.endswith("% of the variance within tasks.")
    assert "±" not in gained
    assert "± " in merge
    assert "% of the variance within tasks, summed over its 2 members" in merge
    shrunk = PooledCTFARegressor(targets=fixed(np.inf), head="levels").fit(X, y, tasks=ids)
    assert "; it trusts its group " in str(shrunk.why(0))
    centred = TargetAggregator(max_loss=np.inf, scale="center")
    text = str(PooledCTFARegressor(targets=centred).fit(X, y, tasks=ids).why(0))
    assert text.count("in squared units of the targets") == 2


def test_the_id_of_a_single_row_is_not_a_column():
    X, y, ids = schools()
    model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=ids)
    with pytest.raises(ValueError, match=r"leaves 2 features where fit has seen 3.*tasks=\[1\]"):
        model.predict(X[:1], tasks=1)
    with pytest.raises(ValueError, match=r"not a column of X.*tasks=\['1'\] for a single row"):
        model.predict(X[:1], tasks="1")


def test_ids_that_look_alike_are_shown():
    X, y, ids = schools(n_tasks=12)
    model = PooledCTFARegressor(targets=fixed()).fit(X, y, tasks=ids)
    with pytest.raises(ValueError, match=r"not seen: '7' \(it has seen 12, such as 7, 0, 1\)"):
        model.predict(X[:1], tasks=["7"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_ids_left_among_the_features_are_pointed_out(library):
    frames = pytest.importorskip(library)
    X, y, ids = schools()
    names = np.array(["ash", "oak", "elm", "fir"])[ids]
    frame = frames.DataFrame({"a": X[:, 0], "school": names, "b": X[:, 1]})
    model = PooledCTFARegressor(targets=fixed())
    with pytest.raises(ValueError, match=r"column 'school' of X holds the ids.*tasks='school'"):
        model.fit(frame, y, tasks=frame["school"])
    other = frames.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0, "x", "y")})
    with pytest.raises((TypeError, ValueError), match="X cannot be used"):
        model.fit(other, y, tasks=names)


def test_one_dimension_is_refused_in_a_line():
    X, y, ids = schools()
    with pytest.raises(ValueError, match="got 1D array instead: X has shape") as caught:
        PooledCTFARegressor().fit(X[:, 0], y, tasks=ids)
    assert "\n" not in str(caught.value)
    assert str(X[0, 0])[:6] not in str(caught.value)


@pytest.mark.more
def test_a_column_of_ids_is_cross_validated_without_routing():
    X, y, ids = schools()
    folds = KFold(4, shuffle=True, random_state=0)
    model = PooledCTFARegressor(targets=fixed())
    table = np.column_stack([X, ids])
    expected = [
        model.fit(X[train], y[train], tasks=ids[train]).score(X[test], y[test], tasks=ids[test])
        for train, test in folds.split(X)
    ]
    scores = cross_val_score(model, table, y, cv=folds, params={"tasks": 3})
    np.testing.assert_allclose(scores, expected)
