"""Pictures of the merges of a model: what is drawn are the model's numbers."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from ctfa import CTFARegressor, FeatureAggregator, TargetAggregator, target_path
from ctfa.plotting import (
    plot_coefficients,
    plot_gains,
    plot_merge_tree,
    plot_merges,
    plot_path,
    plot_stability,
)
from ctfa.plotting._axes import FAINT
from pictured import MODEL, OWN, POOLED, WHOLE, data, fitted, names_along, rgb
from problems import RIDGE

ALL = (plot_merge_tree, plot_path, plot_merges, plot_coefficients, plot_gains, plot_stability)


@pytest.fixture
def ax():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib").use("Agg")
    from matplotlib import pyplot

    yield pyplot.figure().subplots()
    pyplot.close("all")


def state(model):
    """All that a picture could have changed, but for what is worked out on request and kept."""
    arrays = (model.predict(data(14)[0]), model.stability_, model.trust_, model.history_.loss)
    parts = (model.cv_curve_.error, model.labels_, model._evidence.gain.value)
    return sorted(vars(model)), repr(model), [each.tobytes() for each in (*arrays, *parts)]


@pytest.mark.more
@pytest.mark.parametrize("plot", ALL)
def test_a_picture_is_drawn_on_the_axis_given_and_changes_nothing_else(plot, ax):
    import matplotlib

    before, settings = state(MODEL), dict(matplotlib.rcParams)
    assert plot(MODEL, ax=ax) is ax
    ax.figure.canvas.draw()
    assert state(MODEL) == before
    assert dict(matplotlib.rcParams) == settings
    assert ax.get_title()
    assert plot(MODEL) is not ax


@pytest.mark.parametrize("plot", ALL)
def test_pictures_say_what_to_give(plot):
    with pytest.raises(NotFittedError):
        plot(CTFARegressor())
    with pytest.raises(TypeError, match="give a fitted"):
        plot(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]))
    with pytest.raises(TypeError, match=r"int has no .*: give a fitted"):
        plot(3)
    with pytest.raises(TypeError, match="CTFARegressor is a class"):
        plot(CTFARegressor)


@pytest.mark.parametrize("plot", [p for p in ALL if p not in (plot_path, plot_stability)])
@pytest.mark.parametrize(
    ("n_targets", "max_loss"), [(1, 1.0), (5, -np.inf), (6, np.inf), (90, 2.0)]
)
def test_one_target_no_merges_one_group_and_many_targets_are_drawn(plot, n_targets, max_loss, ax):
    plot(fitted(n_targets, max_loss), ax=ax)
    ax.figure.canvas.draw()


# The tree.


def tree_lines(ax):
    return [np.asarray(path) for path in ax.collections[0].get_segments()]


def test_the_tree_joins_at_the_running_maximum_of_the_losses(ax):
    plot_merge_tree(MODEL, ax=ax)
    heights = [line[1, 1] for line in tree_lines(ax)]
    np.testing.assert_allclose(heights, np.maximum.accumulate(MODEL.history_.loss))


@pytest.mark.parametrize("model", [MODEL, WHOLE, WHOLE.history_])
def test_members_of_a_group_are_side_by_side_under_their_merges(model, ax):
    plot_merge_tree(model, ax=ax)
    drawn = names_along(ax.xaxis)
    assert sorted(drawn, key=lambda name: int(name.strip("y"))) == [
        f"y{k}" if hasattr(model, "fit") else str(k) for k in range(14)
    ]
    place = {int(name.strip("y")): k for k, name in enumerate(drawn)}
    history = getattr(model, "history_", model)
    members = {k: {k} for k in range(14)}
    for line, block, other in zip(tree_lines(ax), history.block, history.other, strict=True):
        for side, slot in ((line[0, 0], block), (line[3, 0], other)):
            under = sorted(place[k] for k in members[slot])
            assert under == list(range(under[0], under[-1] + 1))
            assert under[0] <= side <= under[-1]
        members[block] |= members[other]


def test_the_limit_is_a_line_and_what_lies_above_it_is_grey(ax):
    limit = float(np.median(WHOLE.history_.loss))
    plot_merge_tree(WHOLE.history_, max_loss=limit, ax=ax)
    assert ax.lines[-1].get_ydata()[0] == limit
    grey = (ax.collections[0].get_colors() == rgb(FAINT)).all(axis=1)
    np.testing.assert_array_equal(grey, np.maximum.accumulate(WHOLE.history_.loss) > limit)
    partition = WHOLE.history_.partition(limit)
    assert ax.get_title() == f"14 targets in {partition.n_groups} groups"


def test_one_group_is_drawn_by_number_or_member(ax):
    group = int(np.argmax(MODEL.partition_.sizes))
    members = MODEL.partition_.groups[group]
    plot_merge_tree(MODEL, group=group, ax=ax)
    assert set(names_along(ax.xaxis)) == {f"y{k}" for k in members}
    assert len(tree_lines(ax)) == members.size - 1
    ax.clear()
    plot_merge_tree(MODEL, group=f"y{members[-1]}", ax=ax)
    assert set(names_along(ax.xaxis)) == {f"y{k}" for k in members}
    with pytest.raises(ValueError, match="is not a target"):
        plot_merge_tree(MODEL, group="nobody", ax=ax)
    with pytest.raises(ValueError, match="numbered from 0"):
        plot_merge_tree(MODEL, group=99, ax=ax)


def test_of_many_targets_the_largest_groups_are_drawn_and_the_title_says_so(ax):
    model = fitted(90, 0.8)
    sizes = np.sort(model.partition_.sizes)[::-1]
    most = int(sizes[:3].sum())
    plot_merge_tree(model, max_leaves=most, ax=ax)
    whole = int(np.searchsorted(np.cumsum(sizes), most, side="right"))
    assert f"the {whole} largest shown: {most} targets" in ax.get_title()
    assert len(tree_lines(ax)) == most - whole


def test_a_group_that_does_not_fit_shows_its_uppermost_merges(ax):
    plot_merge_tree(WHOLE, max_leaves=6, ax=ax)
    heights = [line[1, 1] for line in tree_lines(ax)]
    np.testing.assert_allclose(heights, np.maximum.accumulate(WHOLE.history_.loss)[-5:])
    assert "the uppermost 5 of 13 merges" in ax.get_title()
    assert any("targets" in name for name in names_along(ax.xaxis))
    with pytest.raises(ValueError, match="max_leaves=1"):
        plot_merge_tree(WHOLE, max_leaves=1, ax=ax)


def test_features_and_aggregators_have_trees_too(ax):
    X, Y = data(6)
    plot_merge_tree(TargetAggregator(max_loss=2.0).fit(X, Y), ax=ax)
    ax.clear()
    plot_merge_tree(FeatureAggregator(max_loss=np.inf).fit(X, Y[:, 0]), ax=ax)
    assert "x0" in names_along(ax.xaxis)
    assert ax.get_title().startswith("5 features in")
    ax.clear()
    plot_merge_tree(POOLED, ax=ax)
    assert ax.get_title().startswith("6 tasks")


# The path.


def test_groups_and_errors_are_those_of_the_curve(ax):
    plot_path(MODEL, ax=ax)
    curve = MODEL.cv_curve_
    (groups,) = [line for line in ax.lines if len(line.get_xdata()) == curve.max_loss.size]
    np.testing.assert_array_equal(groups.get_ydata(), curve.n_groups)
    finite = np.isfinite(curve.max_loss)
    np.testing.assert_array_equal(groups.get_xdata()[finite], curve.max_loss[finite])
    right = ax.figure.axes[-1]
    np.testing.assert_array_equal(right.lines[0].get_ydata(), curve.error)
    assert ax.lines[0].get_xdata()[0] == MODEL.max_loss_
    assert f"chosen: {MODEL.max_loss_:g}" in ax.get_title()
    span = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    ends = np.clip(MODEL.loss_interval_, groups.get_xdata().min(), groups.get_xdata().max())
    np.testing.assert_allclose([span.x0, span.x1], ends, rtol=1e-6)


def test_a_path_is_drawn_in_the_order_of_its_limits(ax):
    path = target_path(*data(14), [3.0, np.inf, 0.5, -np.inf, 1.0])
    plot_path(path, chosen=1.2, ax=ax)
    line = ax.lines[-1]
    known = {point.max_loss: point.n_groups for point in path}
    np.testing.assert_array_equal(line.get_ydata(), [known[k] for k in sorted(known)])
    assert names_along(ax.xaxis)[0] == "none"
    assert names_along(ax.xaxis)[-1] == "all"
    assert "chosen: 1.2" in ax.get_title()


def test_a_path_of_one_point_and_one_without_finite_limits_are_drawn(ax):
    plot_path(target_path(*data(5), [1.0]), ax=ax)
    ax.clear()
    plot_path(target_path(*data(5), [-np.inf, np.inf]), ax=ax)
    ax.figure.canvas.draw()


def test_paths_say_what_is_wrong(ax):
    with pytest.raises(TypeError, match="holds no PathPoint"):
        plot_path([1.0, 2.0], ax=ax)
    with pytest.raises(ValueError, match="max_loss='auto'"):
        plot_path(WHOLE, ax=ax)


# The merges.


@pytest.mark.parametrize("model", [MODEL, WHOLE, POOLED, OWN])
def test_a_dot_is_what_a_merge_saved_and_paid(model, ax):
    pytest.importorskip("pandas")
    plot_merges(model, ax=ax)
    named = [c for c in ax.collections if c.get_label().startswith("merge")]
    dots = np.concatenate([c.get_offsets() for c in named])
    merges = model.merges_
    wanted = merges[["bias_paid", "variance_saved"]].to_numpy()
    np.testing.assert_allclose(
        np.sort(np.asarray(dots), axis=0), np.sort(wanted, axis=0), rtol=1e-12
    )
    marked = [c for c in ax.collections if "predicted to lose" in c.get_label()]
    n_marked = sum(len(c.get_offsets()) for c in marked)
    assert n_marked == int((merges["losers"].map(len) > 0).sum())
    gains = int((merges["gain"] > 0).sum())
    assert f"{gains} predicted to gain, {len(merges) - gains} to lose" in ax.get_title()


def test_the_limit_and_break_even_are_lines_of_their_ratio(ax):
    model = fitted(14, 2.0)
    plot_merges(model, ax=ax)
    lines = {line.get_label(): line.get_xydata()[1:] for line in ax.lines}
    np.testing.assert_allclose(lines["break-even"][:, 0], lines["break-even"][:, 1])
    np.testing.assert_allclose(lines["limit 2"][:, 0] / lines["limit 2"][:, 1], 2.0)


def test_merges_judged_by_penalised_fits_have_nothing_to_show(ax):
    X, Y = data(14)
    ridge = TargetAggregator(regressor=RIDGE, max_loss=1.5)
    model = CTFARegressor(targets=ridge).fit(X, Y)
    assert len(model.history_) > 0
    with pytest.raises(ValueError, match=r"regressor=LinearRegression\(\)"):
        plot_merges(model, ax=ax)
