"""What notebooks show: all text escaped, nothing from outside, a map that is right and small."""

import base64
import html
import io
import re

import numpy as np
import pytest
from sklearn import config_context

import ctfa
from ctfa import CTFARegressor, MultiInputCTFARegressor, PooledCTFARegressor
from ctfa.core.partition import Partition
from ctfa.report import Places

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
EVIL = "<script>alert('a')</script>"


def test_estimators_add_a_summary_to_the_diagram_once_they_are_fitted():
    Y = X @ np.repeat(RNG.normal(size=(2, 3)), 3, axis=0).T + 0.3 * RNG.normal(size=(60, 6))
    model = CTFARegressor()
    assert "ctfa-summary" not in model._repr_html_()
    model.fit(X, pd.DataFrame(Y, columns=[EVIL, *"bcdef"]))
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert f"6 targets → {model.n_groups_} groups" in shown
        assert "chosen on held-out rows: error" in shown
        assert "worst served" in shown
        assert EVIL not in shown
        assert "&lt;script&gt;alert" in shown
    assert "class='ctfa-summary'" in model.targets_._repr_html_()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert set(model._repr_mimebundle_()) == {"text/plain"}


def test_estimators_of_own_rows_and_own_inputs_have_one_too():
    own = PooledCTFARegressor().fit(X, X[:, 0] + RNG.normal(size=60), tasks=np.arange(60) % 3)
    assert "3 tasks → " in own._repr_html_()
    inputs = MultiInputCTFARegressor([[0, 1], [1, 2]])
    assert "2 targets → " in inputs.fit(X, X[:, :2] + RNG.normal(size=(60, 2)))._repr_html_()


def pixels(svg):
    image = pytest.importorskip("matplotlib.image")
    data = re.search("base64,([^']+)", svg)[1]
    return np.rint(255 * image.imread(io.BytesIO(base64.b64decode(data)))).astype(int)


def test_a_map_of_thirty_thousand_cells_is_small_and_has_every_region_in_its_place():
    from ctfa.labelled._result import picture

    lon, lat = np.meshgrid(np.arange(200) * 0.25, np.arange(160) * 0.25)
    labels = np.unique((lon // 7) * 100 + lat // 9, return_inverse=True)[1].reshape(lon.shape)
    here = (lon - 20) ** 2 + (lat - 20) ** 2 > 40
    partition = Partition(np.unique(labels[here], return_inverse=True)[1])
    positions = np.column_stack([lon[here], lat[here]])
    svg = picture(Places(positions, cell=(0.25, 0.25), geographic=True), partition)
    assert len(svg) < 20_000
    assert re.findall("(?:href|src)='(.{15})", svg) == ["data:image/png;"]
    found = pixels(svg)[::-1]  # north is up
    np.testing.assert_array_equal(found[..., 3] > 0, here)
    colour = found[..., 0] * 65536 + found[..., 1] * 256 + found[..., 2]
    for group in np.unique(labels[here]):
        assert np.unique(colour[here & (labels == group)]).size == 1
    both = here[:, 1:] & here[:, :-1] & (labels[:, 1:] != labels[:, :-1])
    assert (colour[:, 1:] != colour[:, :-1])[both].all()
    some, corners = positions[::11], np.array([[0, 0], [0.2, 0], [0, 0.2]])
    for places in (
        Places(some + 0.01 * RNG.normal(size=some.shape)),
        Places(some, [[p + corners] for p in some]),
    ):
        assert len(picture(places, Partition(partition.labels[::11]))) < 200_000


def test_labelled_results_show_their_summary_and_their_map():
    basins = ctfa.datasets.make_basins(12, 60, 2, n_regions=2, random_state=0)
    data = basins.to_xarray().rename(flow=EVIL)
    options = {"target": EVIL, "task": "basin", "held_out": None}
    fit = ctfa.labelled.fit(data, **options, neighbours=basins.to_geopandas())
    shown = fit._repr_html_()
    assert "<script" not in shown
    text = html.unescape(re.sub("<[^>]*>", "\n", shown)).split("\n")
    assert {line.strip() for line in fit.summary().split("\n")} <= set(text)
    assert shown.count("<path") == fit.n_regions
    assert "http" not in shown.replace("http://www.w3.org/2000/svg", "")
    assert "<circle" in ctfa.labelled.fit(data, **options)._repr_html_()
    assert "<svg" not in ctfa.labelled.fit(data.drop_vars(["lon", "lat"]), **options)._repr_html_()
