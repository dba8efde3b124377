"""``ctfa baselines``: what it prints, writes and says when something is wrong."""

import csv
import sys

import pytest

from ctfa.cli import main
from ctfa.datasets import make_paper_synthetic
from ctfa_study.comparison import DATA, METHODS, Data, compare

METHODS_USED = "single LR, single ridge,CTFA + LR"


@pytest.fixture(autouse=True)
def small_data(monkeypatch):
    monkeypatch.setitem(DATA, "small", Data(lambda: make_paper_synthetic(60, 5, 3, random_state=0)))


def run(*arguments):
    return main(["baselines", *map(str, arguments)])


def test_a_comparison_prints_a_table_and_writes_files(tmp_path, capsys):
    arguments = ("--data", "small", "--seeds", 2, "--methods", METHODS_USED, "-o", tmp_path)
    assert run(*arguments) == 0
    out, err = capsys.readouterr()
    assert "small: 3 tasks, 42 rows to learn from" in out
    assert err.count("seed 1") == 3
    assert "[6/6] small, seed 1, CTFA + LR: nrmse 0." in err
    folder = tmp_path / "small"
    assert out.startswith((folder / "nrmse.txt").read_text())
    with (folder / "nrmse.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"single LR", "single ridge", "CTFA + LR"}
    with (folder / "tasks.csv").open(newline="") as file:
        tasks = list(csv.DictReader(file))
    assert len(tasks) == 3 * 2 * 3
    assert {"method", "seed", "task", "nrmse", "arrmse", "r2", "mse"} <= set(tasks[0])
    assert float(rows[0]["mean"]) <= float(rows[1]["mean"]) <= float(rows[2]["mean"])
    assert run(*arguments) == 0
    again = capsys.readouterr()
    assert again.err.count("stored before") == 6
    assert "runs.jsonl (6 of 6 runs were stored before)" in again.out


def test_a_picture_is_written_where_matplotlib_is(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="the picture needs matplotlib")
    run("--data", "small", "--seeds", 2, "--methods", METHODS_USED, "-o", tmp_path)
    assert (tmp_path / "small" / "nrmse.png").stat().st_size > 10_000
    assert "nrmse.png" in capsys.readouterr().out


def test_without_matplotlib_it_says_so_and_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("--data", "small", "--seeds", 1, "--methods", "single LR", "-o", tmp_path) == 0
    assert "no plot: pip install 'ctfa[plot]'" in capsys.readouterr().err
    assert not (tmp_path / "small" / "nrmse.png").exists()


def test_the_list_names_every_method_and_data_set(capsys):
    assert run("--list") == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in (*METHODS, *DATA))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say which data set"),
        (("--data", "nothing"), "there is no data set 'nothing': choose from"),
        (("--data", "small", "--methods", "magic"), "there is no method 'magic': choose from"),
        (("--data", "small", "--methods", " , "), "methods is empty"),
        (("--data", "small", "--reference", "cASA"), "did you mean 'cASO'"),
        (("--data", "small", "--split", "grouped"), "has no groups to keep together"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(tmp_path, capsys, arguments, message):
    assert run(*arguments, "-o", tmp_path) in (1, 2)
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_a_folder_that_cannot_be_written_is_said_before_any_run(tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    assert run("--data", "small", "-o", tmp_path / "file") == 1
    err = capsys.readouterr().err
    assert err == f"ctfa baselines: cannot use {tmp_path / 'file'}: Not a directory\n"
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.data
def test_data_that_are_not_here_say_how_to_get_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CTFA_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert run("--data", "school", "-o", tmp_path / "out") == 1
    err = capsys.readouterr().err
    assert "school/school.mat" in err
    assert "CTFA_DATA" in err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--jobs", "0"), "'0' is not a whole number from 1"),
        (("--seeds", "0"), "'0' is not a whole number from 1"),
        (("--test-size", "2"), "'2' is not a number between 0 and 1"),
        (("--gap", "-1"), "'-1' is not a whole number from 0"),
        (("--metric", "x"), "invalid choice: 'x'"),
    ],
)
def test_options_that_make_no_sense_end_with_code_two(capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        run("--data", "small", *arguments)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_a_stop_keeps_what_was_finished(tmp_path, capsys, monkeypatch):
    def stop_at_the_second(step):
        if step.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("ctfa_study.comparison.command._Teller", lambda metric: stop_at_the_second)
    assert run("--data", "small", "--seeds", 2, "--methods", METHODS_USED, "-o", tmp_path) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    stored = []
    names = [name.strip() for name in METHODS_USED.split(",")]
    compare("small", names, seeds=2, folder=tmp_path / "small", progress=stored.append)
    assert [step.stored for step in stored] == [True, True, False, False, False, False]


def test_a_picture_is_drawn_on_the_axis_given():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the picture needs matplotlib")
    result = compare("small", ["single LR", "CTFA + LR"], seeds=2)
    figure, axes = pyplot.subplots()
    assert result.plot("r2", ax=axes) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        row.method for row in result.summary("r2")[::-1]
    ]
    pyplot.close(figure)
