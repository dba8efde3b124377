"""The page in a real browser: it draws, answers to hand and keyboard, and asks nobody for anything.

The browser is the system's: the one that CTFA_BROWSER names, or a Chromium that is installed, which
``make browser`` sees to. Without any the tests are skipped at a desk, and fail where CI is set.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from ctfa import (
    CTFARegressor,
    MultiInputCTFARegressor,
    PooledCTFARegressor,
    TargetAggregator,
)
from ctfa._text import cell, from_cell
from ctfa.datasets import make_basins, make_gauges, make_paper_synthetic
from ctfa.report import HeldOut, Places, write

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = os.environ.get("CTFA_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
#: Where a missing browser is a failure: in CI, and under ``make browser``.
REQUIRED = os.environ.get("CI") == "true" or os.environ.get("CTFA_BROWSER_TESTS") == "required"
READY = "html[data-ready=yes]"
MANY = 29_934
#: Names that a spreadsheet would compute, and some that it would not.
FORMULAS = [
    '=HYPERLINK("http://x","y")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1",
    "'=1", "''=1", "a;=1", "\uff1d1", "-5", "+1.5e-3", "'tis", "a=1",
]  # fmt: skip


def need(what):
    if REQUIRED:
        pytest.fail(f"{what}, and the tests of the page must run here: make browser")
    pytest.skip(f"{what}: make browser installs it")


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        need("no browser is installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        need("playwright is not installed")
    as_root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox"] if as_root else []
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def basins_page(tmp_path_factory):
    """Basins with outlines, errors on held-out rows and the whole history."""
    basins = make_basins(90, 60, 4, n_regions=5, random_state=0)
    rule = TargetAggregator(connectivity=basins.connectivity, max_loss=2.0)
    model = MultiInputCTFARegressor(basins.layout, targets=rule, aggregate="pool")
    model.fit(basins.data, basins.target)
    names = [f"{name} <b>&amp;" for name in basins.target_names]
    names[0], names[1] = "</script><img src=x onerror=alert(1)>", "\u05e0\u05d4\u05e8 \u202e"
    names[2 : 2 + len(FORMULAS)] = FORMULAS
    return write(
        model,
        tmp_path_factory.mktemp("report") / "basins.html",
        data=(basins.data, basins.target),
        places=basins.polygons,
        names=names,
        task="basin",
        title="Basins",
    )


@pytest.fixture(scope="module")
def gauges_page(tmp_path_factory):
    """A plain table without places."""
    gauges = make_gauges(random_state=0)
    model = CTFARegressor().fit(gauges.data, gauges.target)
    return write(model, tmp_path_factory.mktemp("report") / "gauges.html", task="gauge")


@contextlib.contextmanager
def opened(browser, path, *, width=1280, height=900, **options):
    """The page in a tab; no error, no word on the console and no request may come of it."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, accept_downloads=True, **options
    )
    tab = context.new_page()
    wrong = []
    tab.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: wrong.append(str(error)))

    def ask(route):
        address = route.request.url
        if address != path.as_uri():
            wrong.append(f"request of {address}")
        route.continue_()

    context.route("**/*", ask)
    tab.goto(path.as_uri())
    tab.wait_for_selector(READY)
    yield tab
    context.close()
    assert wrong == []


def downloaded(waiting):
    """The text of a file, with the ends of lines that it has."""
    return Path(waiting.value.path()).read_bytes().decode("utf-8")


def picture(tab, canvas="map"):
    return hashlib.sha256(
        tab.evaluate(f"document.getElementById('{canvas}').toDataURL()").encode()
    ).hexdigest()


def slide(tab, value):
    tab.locator("#limit").fill(str(value))
    tab.wait_for_timeout(60)


def groups_shown(tab):
    return int(tab.locator("#readout dd").nth(2).inner_text().replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["basins_page", "gauges_page"])
def test_the_page_opens_without_an_error_or_a_request(browser, request, page, scheme):
    with opened(browser, request.getfixturevalue(page), color_scheme=scheme) as tab:
        drawn = tab.evaluate(
            """() => {
                const canvas = document.getElementById("map");
                const pixels = canvas.getContext("2d")
                    .getImageData(0, 0, canvas.width, canvas.height).data;
                const colours = new Set();
                for (let k = 0; k < pixels.length; k += 4 * 97) {
                    colours.add(`${pixels[k]},${pixels[k + 1]},${pixels[k + 2]}`);
                }
                return colours.size;
            }"""
        )
        assert drawn > 3
        assert tab.locator("h1").inner_text()
        assert tab.locator("#table tbody tr[aria-rowindex]").count() >= 10


def test_the_slider_hands_back_what_gives_the_groups_shown(browser, basins_page):
    with opened(browser, basins_page, permissions=["clipboard-read", "clipboard-write"]) as tab:
        again = tab.locator("#again")
        tab.locator("#merge-on").click()
        shown = groups_shown(tab)
        written = again.locator("code").all_inner_texts()
        assert written == [f"TargetAggregator(n_groups={shown})", f"ctfa fit ... --regions {shown}"]
        again.locator("button").first.click()
        again.get_by_text(re.compile("Copied|Selected")).first.wait_for()
    basins = make_basins(90, 60, 4, n_regions=5, random_state=0)
    rule = TargetAggregator(connectivity=basins.connectivity, n_groups=shown, cv=2)
    model = MultiInputCTFARegressor(basins.layout, targets=rule, aggregate="pool", head="mean")
    assert model.fit(basins.data, basins.target).n_groups_ == shown


GRID = np.stack(np.meshgrid(np.arange(4.0), np.arange(2.0)), axis=-1).reshape(-1, 2)


def small(**options):
    X, Y = make_paper_synthetic(60, 5, 8, random_state=0)
    return CTFARegressor(**options).fit(X, Y)


def schools():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["a", "b", "c"], 20)
    X = rng.normal(size=(60, 2))
    return PooledCTFARegressor().fit(X, X[:, 0] + rng.normal(size=60), tasks=tasks)


ODD = {
    "one target": lambda: (CTFARegressor().fit(GRID, GRID[:, 0] ** 2), {}),
    "nothing merged": lambda: (small(targets="passthrough"), {}),
    "one group": lambda: (small(targets=TargetAggregator(max_loss=np.inf)), {}),
    "an order of its own": lambda: (small(targets=TargetAggregator(scan="grow", max_loss=1.5)), {}),
    "groups alone": lambda: (small().targets_, {}),
    "not linear": lambda: (small(regressor=DecisionTreeRegressor(max_depth=2)), {}),
    "own rows": lambda: (schools(), {"task": "school"}),
    "dots": lambda: (small(), {"places": GRID}),
    "means alone": lambda: (small(head="mean"), {}),
    "least squares": lambda: (small(regressor=LinearRegression()), {}),
    "cells": lambda: (small(), {"places": Places(GRID, cell=(1.0, 1.0))}),
    "all in one place": lambda: (small(), {"places": np.zeros((8, 2))}),
}


@pytest.mark.parametrize("kind", ODD)
def test_every_kind_of_model_and_place_opens_and_slides(browser, tmp_path, kind):
    model, told = ODD[kind]()
    path = write(model, tmp_path / "odd.html", **told)
    with opened(browser, path) as tab:
        slide(tab, 0)
        assert groups_shown(tab) == len(model.labels_)
        for choice in tab.locator("#colour-by option").evaluate_all(
            "all => all.map((o) => o.value)"
        ):
            tab.locator("#colour-by").select_option(choice)
        tab.locator("#list").focus()
        tab.keyboard.press("End")
        tab.locator("#overlay").click()
        if tab.locator("#limit-reset").is_enabled():
            tab.locator("#limit-reset").click()
        assert groups_shown(tab) == model.n_groups_


def test_names_are_text_and_nothing_else(browser, basins_page):
    with opened(browser, basins_page) as tab:
        assert tab.locator("img").count() == 0
        tab.locator("#table-search").fill("</script>")
        assert tab.locator("#table tbody tr[aria-rowindex]").count() == 1
        shown = tab.locator("#table tbody tr[aria-rowindex] th").inner_text()
        assert shown == "</script><img src=x onerror=alert(1)>"


def test_the_slider_replays_the_merges_on_the_map_and_in_numbers(browser, basins_page):
    with opened(browser, basins_page) as tab:
        chosen, n_chosen = picture(tab), groups_shown(tab)
        assert tab.locator("#limit-reset").is_disabled()
        slide(tab, 0)
        assert groups_shown(tab) == 90
        assert picture(tab) != chosen
        slide(tab, 1000)
        assert groups_shown(tab) == 1
        counts = []
        for value in range(0, 1001, 100):
            slide(tab, value)
            counts.append(groups_shown(tab))
        assert counts == sorted(counts, reverse=True)
        assert len(set(counts)) > 4
        tab.locator("#limit-reset").click()
        assert groups_shown(tab) == n_chosen
        assert picture(tab) == chosen
        tab.locator("#merge-back").click()
        assert groups_shown(tab) == n_chosen + 1
        tab.locator("#limit").focus()
        tab.keyboard.press("Home")
        tab.wait_for_timeout(60)
        assert groups_shown(tab) == 90


def test_click_and_keyboard_reach_every_group(browser, basins_page):
    with opened(browser, basins_page) as tab:
        n_groups = groups_shown(tab)
        title = tab.locator("#group-title")
        tab.locator("#overlay").scroll_into_view_if_needed()
        box = tab.locator("#overlay").bounding_box()
        places = [(x, y) for x in np.linspace(0.05, 0.95, 16) for y in np.linspace(0.05, 0.95, 16)]
        clicked = set()
        for x, y in places:
            tab.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])
            clicked.add(title.inner_text())
            if len(clicked) == n_groups:
                break
        assert len(clicked) == n_groups
        for where in ("#overlay", "#list"):
            tab.locator(where).focus()
            tab.keyboard.press("Home")
            reached = {title.inner_text()}
            for _ in range(n_groups - 1):
                tab.keyboard.press("ArrowDown")
                reached.add(title.inner_text())
            assert reached == clicked


def test_everything_that_can_be_used_can_be_reached_by_tab(browser, basins_page):
    with opened(browser, basins_page) as tab:
        wanted = {"colour-by", "zoom-in", "overlay", "limit", "merge-back", "list-sort", "list"}
        wanted |= {"list-search", "table-search", "table", "bibtex"}
        reached = set()
        for _ in range(400):
            tab.keyboard.press("Tab")
            reached.add(tab.evaluate("document.activeElement.id"))
            if wanted <= reached:
                break
        assert wanted <= reached
        tab.locator("#merge-back").focus()
        tab.keyboard.press("Shift+Tab")
        style = "getComputedStyle(document.activeElement)"
        assert tab.evaluate(f"{style}.outlineStyle") != "none"


def test_colours_zoom_and_hover_change_the_map(browser, basins_page):
    with opened(browser, basins_page) as tab:
        seen = {picture(tab)}
        choices = tab.locator("#colour-by option").evaluate_all("all => all.map((o) => o.value)")
        assert {"group", "held-out", "gain", "coefficient", "error"} <= set(choices)
        for choice in choices[1:]:
            tab.locator("#colour-by").select_option(choice)
            seen.add(picture(tab))
        assert len(seen) == len(choices)
        tab.locator("#zoom-in").click()
        tab.wait_for_timeout(60)
        assert picture(tab) not in seen
        tab.locator("#overlay").hover()
        assert "group" in tab.locator("#tip").inner_text()
        tab.locator("#overlay").focus()
        tab.keyboard.press("0")
        tab.wait_for_timeout(60)
        assert picture(tab) in seen


def test_targets_made_worse_come_first_and_any_column_sorts(browser, basins_page):
    with opened(browser, basins_page) as tab:

        def gains():
            shown = tab.locator("#table tbody tr[aria-rowindex] td:nth-child(4)").all_inner_texts()
            return [float(text.replace("\u2212", "-").split("\u202f")[0]) for text in shown]

        assert gains() == sorted(gains())
        assert gains()[0] < 0
        tab.locator("#table thead button", has_text="held-out gain").click()
        assert gains() == sorted(gains(), reverse=True)


def test_a_narrow_screen_does_not_scroll_sideways(browser, basins_page, gauges_page):
    for page in (basins_page, gauges_page):
        with opened(browser, page, width=390, height=844) as tab:
            assert tab.evaluate("document.documentElement.scrollWidth") <= 390
            assert tab.locator("#overlay").bounding_box()["width"] > 300


def test_dark_and_paper_change_colours_and_lose_nothing(browser, basins_page):
    with opened(browser, basins_page) as tab:
        light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        words = tab.locator("main").inner_text()
        drawn = tab.evaluate("document.getElementById('map').toDataURL()")
        tab.emulate_media(color_scheme="dark")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != light
        # The page is told of it after the style has changed, and draws then.
        changed = "drawn => document.getElementById('map').toDataURL() !== drawn"
        tab.wait_for_function(changed, arg=drawn)
        assert tab.locator("main").inner_text() == words
        tab.emulate_media(color_scheme="dark", media="print")
        assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == light
        assert not tab.locator("#zoom-in").is_visible()
        assert not tab.locator("#limit").is_visible()
        for part in ("#map", "#curve svg", "#list", "#panel-series svg", "#table", "#methods"):
            assert tab.locator(part).first.is_visible(), part
        assert tab.locator("#table tbody tr[aria-rowindex]").count() == 90
    with opened(browser, basins_page) as tab:
        drawn = picture(tab)
        printed = tab.pdf()
        assert b"/Subtype /Image" in printed, "the map did not reach the paper"
        assert picture(tab) == drawn


def test_files_made_in_the_browser_hold_what_the_page_shows(browser, basins_page):
    with opened(browser, basins_page) as tab:
        texts = {}
        for button in tab.locator("#downloads button").all():
            with tab.expect_download() as waiting:
                button.click()
            texts[waiting.value.suggested_filename] = downloaded(waiting)
    assert set(texts) == {"basins.csv", "merges.csv", "regions.geojson", "ctfa.bib"}
    lines = texts["basins.csv"].split("\r\n")[:-1]
    assert lines[0].startswith("target,group,error_ctfa,error_single_task")
    assert len(lines) == 91
    assert lines[1].startswith("</script><img src=x onerror=alert(1)>,0,")
    assert len(texts["merges.csv"].split("\r\n")[:-1]) == 90
    regions = json.loads(texts["regions.geojson"])["features"]
    assert sum(region["properties"]["size"] for region in regions) == 90
    assert all(region["geometry"]["type"] == "MultiPolygon" for region in regions)


def test_gains_and_scores_of_folds_are_called_so(browser, gauges_page):
    with opened(browser, gauges_page) as tab:
        assert "GAIN ON FOLDS" in tab.locator("#table thead").inner_text().upper()
        assert "predicted gain" not in tab.locator("#table thead").inner_text().lower()
        assert "score on held-out folds" in tab.locator("#panel-why").inner_text()
        headers = []
        for button in tab.locator("#downloads button").all()[:2]:
            with tab.expect_download() as waiting:
                button.click()
            headers.append(downloaded(waiting).split("\r\n")[0].split(","))
    assert {"gain_on_folds", "gain_on_folds_error"} <= set(headers[0])
    assert "score" in headers[1]


def test_a_spreadsheet_finds_no_formula_in_what_is_downloaded(browser, basins_page):
    with opened(browser, basins_page) as tab:
        texts = []
        for name in ("basins.csv", "merges.csv"):
            with tab.expect_download() as waiting:
                tab.get_by_role("button", name=name, exact=True).click()
            texts.append(downloaded(waiting))
    targets, merges = (list(csv.reader(io.StringIO(text, newline=""))) for text in texts)
    names = [row[0] for row in targets[1:]]
    # As Python writes them, to the letter.
    assert names[2 : 2 + len(FORMULAS)] == [cell(name) for name in FORMULAS]
    assert [from_cell(name) for name in names[2 : 2 + len(FORMULAS)]] == FORMULAS
    both = {name for row in merges[1:] for name in row[1:3]}
    assert {cell(name) for name in FORMULAS} <= both
    losses = [row[3] for row in merges[1:]]
    assert any(loss.startswith("-") for loss in losses), "no negative number to look at"
    assert np.isfinite([float(loss) for loss in losses]).any()


def test_the_words_of_the_panel_are_those_of_the_model(browser, basins_page):
    with opened(browser, basins_page) as tab:
        assert "Nearest refused: " in tab.locator("#panel-why").inner_text()
        assert "their coefficients differ by more than sharing saves" in (
            tab.locator("#panel-why").inner_text()
        )
        tab.locator("#panel-why button.link").click()
        assert tab.locator("#panel-tree svg").count() == 1


def test_thirty_thousand_outlines_are_drawn_in_two_seconds_from_ten_megabytes(
    browser, tmp_path, record_property
):
    basins = make_basins(MANY, 60, 4, polygons=True, random_state=0)
    rule = TargetAggregator(connectivity=basins.connectivity, max_loss=1.5)
    model = MultiInputCTFARegressor(basins.layout, targets=rule).fit(basins.data, basins.target)
    rng = np.random.default_rng(0)
    single = rng.uniform(0.3, 0.9, MANY)
    errors = {"ctfa": single - rng.normal(0.03, 0.03, MANY), "single-task": single}
    path = write(
        model,
        tmp_path / "many.html",
        places=basins.polygons,
        names=basins.target_names,
        task="basin",
        held_out=HeldOut(errors, "drawn at random, to fill the page"),
    )
    size = path.stat().st_size / 1e6
    seconds = []
    for _ in range(3):
        with opened(browser, path) as tab:
            mark = "performance.getEntriesByName('ctfa-map-drawn')[0].startTime"
            seconds.append(tab.evaluate(mark) / 1000)
            assert tab.locator("#table tbody tr[aria-rowindex]").count() < 60
            before = picture(tab)
            slide(tab, 0)
            tab.wait_for_timeout(600)
            assert groups_shown(tab) == MANY
            assert picture(tab) != before
    record_property("megabytes", round(size, 2))
    record_property("seconds", [round(taken, 2) for taken in seconds])
    print(f"\n{MANY} outlines: {size:.1f} MB, drawn after {min(seconds):.2f} s at best of three")
    assert size < 10.0
    # The best of three: what else the machine does is not the page's.
    assert min(seconds) < 2.0
