"""The pictures of the documents: drawn by ``make figures``, small, and all of them shown."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
#: Bytes that a page should not have to wait for.
LARGEST = 120 * 1024


@pytest.fixture(scope="module")
def figures():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib").use("Agg")
    spec = importlib.util.spec_from_file_location("figures", DOCS / "figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_shown_and_small(figures):
    shown = re.findall(r"\(img/(\w+)\.png\)", (DOCS / "plots.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(figures.FIGURES)
    for name in figures.FIGURES:
        assert (DOCS / "img" / f"{name}.png").stat().st_size < LARGEST


def test_every_plot_has_a_picture(figures):
    import ctfa.plotting

    text = (DOCS / "plots.md").read_text(encoding="utf-8")
    # Comparisons are shown where they are explained, in the document on rivals.
    for name in set(ctfa.plotting.__all__) - {"plot_comparison"}:
        assert f"`{name}(" in text


@pytest.mark.more
def test_a_picture_is_the_same_each_time(figures, tmp_path, capsys):
    files = []
    for time in ("once", "again"):
        figures.main(["coefficients", "--output", str(tmp_path / time)])
        figures.gauges.cache_clear()
        files.append((tmp_path / time / "coefficients.png").read_bytes())
    assert files[0] == files[1]
    assert "coefficients.png" in capsys.readouterr().out


def test_a_picture_that_is_none_is_named(figures, capsys):
    with pytest.raises(SystemExit):
        figures.main(["portrait"])
    assert "no picture is called 'portrait'" in capsys.readouterr().err
