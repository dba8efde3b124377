"""Claims, cases and verdicts: what is asked, what is stored, what is said of it."""

import csv
import os
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctfa.cli import main
from ctfa_study.reproduction import (
    AUTHORS,
    EXPERIMENTS,
    HONEST,
    Case,
    Experiment,
    Figure,
    Finding,
    Plan,
    Results,
    Step,
    compare,
    load_claims,
    reproduce,
)
from ctfa_study.reproduction import _reproduce as making
from ctfa_study.reproduction._claims import read_claims
from ctfa_study.reproduction._page import page_text
from ctfa_study.reproduction._reproduce import read_stored, run, run_one
from ctfa_study.reproduction._text import Notes, failures, verdict_tables
from ctfa_study.reproduction.command import Teller


def claims(**more):
    table = {
        "experiment": "toy",
        "source": "Table 0",
        "setting": "here",
        "quantity": "mse",
        "values": {"ours": [2.0, 0.1], "theirs": 1.0},
    }
    return read_claims({"claims": [table | more]})


def rows(**figures):
    """Results of one method, a value a seed, by the honest protocol."""
    return Results(
        {"protocol": HONEST, "setting": "here", "method": method, "seed": seed, "quick": False,
         "figures": {"mse": value}, "versions": {}}
        for method, values in figures.items()
        for seed, value in enumerate(values)
    )  # fmt: skip


def calls(path, value):
    """Append a line to a file, so that runs can be counted across processes."""
    with path.open("a") as file:
        file.write("run\n")
    if value is None:
        raise ValueError("no such value")
    return {"mse": value, "models": 1}


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """An experiment of three cases, one of which fails, and one that is a network."""
    counter = tmp_path / "runs.txt"

    def cases(plan):
        for seed, (method, value) in enumerate(
            [("ours", 2.05), ("theirs", 3.0), ("broken", None), ("net", 1.0)]
        ):
            yield Case("toy", HONEST, "here", method, seed, partial(calls, counter, value),
                       quick=plan.quick, network=method == "net")  # fmt: skip

    checks = {
        "less": lambda r: Finding(
            {"than 1": r.mean(HONEST, "here", "ours", "mse") < 1,
             "than 3": r.mean(HONEST, "here", "ours", "mse") < 3},
            "ours is 2.05",
        ),
        "same": lambda r: Finding({"here": True}, "by definition"),
    }  # fmt: skip
    experiment = Experiment("toy", "A toy", {HONEST: "Plain."}, cases, checks)
    statement = {"experiment": "toy", "source": "text", "quote": "ours is less",
                 "asked": "less than 1 and 3", "check": "less"}  # fmt: skip
    identity = statement | {"quote": "ours is ours", "check": "same", "identity": True}
    known = read_claims(
        {"claims": [{"experiment": "toy", "source": "Table 0", "setting": "here", "quantity": "mse",
                     "values": {"ours": [2.0, 0.1], "theirs": 1.0, "broken": 5.0, "graph": 4.0},
                     "why": "they divided by three", "cannot_of": {"graph": "has no rows"}}],
         "statements": [statement, identity]}
    )  # fmt: skip
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment)
    monkeypatch.setattr(making, "load_claims", lambda: known)
    return experiment, counter


def test_every_claim_is_of_an_experiment_and_is_made_once():
    known = load_claims()
    places = [(c.source, c.setting, c.method, c.quantity) for c in known.numbers]
    assert len(places) == len(set(places))
    assert {c.experiment for c in known.numbers} <= set(EXPERIMENTS)
    assert all(np.isfinite(c.printed) for c in known.numbers)


def test_every_statement_names_a_check_of_its_experiment():
    for statement in load_claims().statements:
        assert statement.check in EXPERIMENTS[statement.experiment].checks


def test_a_protocol_that_a_case_names_is_explained():
    for experiment in EXPERIMENTS.values():
        named = {case.protocol for case in experiment.cases(Plan(quick=True))}
        assert named <= set(experiment.protocols)


def test_no_two_cases_of_an_experiment_are_stored_under_one_key():
    for experiment in EXPERIMENTS.values():
        for quick in (False, True):
            keys = [case.key for case in experiment.cases(Plan(quick=quick))]
            assert len(keys) == len(set(keys))


def test_a_word_that_a_claim_does_not_know_is_refused():
    with pytest.raises(ValueError, match="vaules"):
        claims(vaules={})


def test_a_number_within_either_spread_is_reproduced():
    word = compare.judge(claims(), rows(ours=[2.08]))[0].word
    assert word == compare.REPRODUCED
    assert compare.judge(claims(), rows(ours=[2.2]))[0].word == compare.DIFFERS
    assert compare.judge(claims(), rows(ours=[2.0, 2.25]))[0].word == compare.REPRODUCED
    # A method that scatters wildly does not agree with everything.
    assert compare.judge(claims(), rows(ours=[0.0, 6.0]))[0].word == compare.DIFFERS


def test_two_means_agree_within_two_standard_errors_of_their_difference():
    # Ours: mean 4, standard deviation 1, four values; so 2 sqrt(1/4 + 1/4) = 1.41 and 1.10.
    ours = Figure(4.0 + np.array([-1.0, -1.0, 1.0, 1.0]) * np.sqrt(0.75))
    assert compare.is_close(2.6, None, ours, repetitions=4)
    assert not compare.is_close(2.5, None, ours, repetitions=4)
    assert not compare.is_close(2.6, None, ours, repetitions=100)
    assert not compare.is_close(2.6, None, ours)


def test_a_number_may_be_of_one_protocol_alone():
    theirs = claims(protocol=AUTHORS)
    assert compare.judge(theirs, rows(ours=[2.0]))[0].word == compare.CANNOT
    assert compare.judge(claims(protocol=HONEST), rows(ours=[2.0]))[0].word == compare.REPRODUCED


@given(st.floats(0.01, 100.0), st.floats(-0.029, 0.029))
def test_a_number_within_three_per_cent_is_reproduced_in_any_unit(value, off):
    assert compare.is_close(value, None, Figure(np.array([value * (1 + off)])))


@given(st.floats(0.01, 100.0), st.floats(0.031, 10.0))
def test_one_seed_further_off_is_not(value, off):
    assert not compare.is_close(value, None, Figure(np.array([value * (1 + off)])))


def test_a_slip_says_what_is_meant_and_whether_that_agrees():
    slip = claims(meant={"ours": 20.0}, why="printed divided by ten")
    verdict = compare.judge(slip, rows(ours=[20.1]))[0]
    assert verdict.word == compare.DIFFERS
    assert verdict.why == "20 is in the authors' log, which agrees: printed divided by ten"
    assert compare.agrees(verdict) == compare.AS_LOGGED
    assert "differs too" in compare.judge(slip, rows(ours=[30.0]))[0].why


def test_each_protocol_has_its_own_reason():
    two = claims(why={AUTHORS: "theirs", HONEST: "ours"})
    assert compare.judge(two, rows(ours=[9.0]))[0].why == "ours"


def test_what_was_chosen_is_compared_with_what_we_chose():
    chosen = claims(values={"choice": 10}, quantity="repetitions", why="ten are few")
    some = rows(ours=[1.0])
    assert compare.judge(chosen, some, {"repetitions": 10})[0].word == compare.REPRODUCED
    # Where nothing was run, nothing was chosen.
    assert compare.judge(chosen, Results([]), {"repetitions": 10})[0].word == compare.CANNOT
    verdict = compare.judge(chosen, some, {"repetitions": 100})[0]
    assert (verdict.word, verdict.why) == (compare.DIFFERS, "ten are few")


def test_every_choice_of_the_paper_is_one_of_ours():
    for claim in load_claims().numbers:
        if claim.method == compare.CHOICE:
            assert claim.quantity in EXPERIMENTS[claim.experiment].choices


def test_agreement_that_says_little_says_so():
    both = claims(but_of={"ours": {HONEST: "by accident"}})
    assert compare.judge(both, rows(ours=[2.0]))[0][3:] == (compare.REPRODUCED, "by accident")
    assert compare.judge(claims(), rows(ours=[2.0]))[0][3:] == (compare.REPRODUCED, "")


def test_a_number_nobody_explained_says_so():
    assert compare.judge(claims(), rows(ours=[9.0]))[0].why == "not explained"


def test_the_interval_is_students():
    figure = Figure(np.array([1.0, 2.0, 4.0]))
    assert figure.spread == pytest.approx(np.std([1, 2, 4], ddof=1))
    assert figure.half_width == pytest.approx(4.302653 * figure.spread / np.sqrt(3))
    assert Figure(np.array([1.0])).spread is None


def test_methods_are_paired_by_seed_where_each_lacks_one():
    both = rows(ours=[1.0, None, 3.0], theirs=[10.0, 20.0, None])
    ours, theirs = both.paired(HONEST, "here", ("ours", "theirs"), "mse")
    assert (ours.tolist(), theirs.tolist()) == ([1.0], [10.0])
    assert [v.size for v in both.paired(HONEST, "here", ("ours", "nobody"), "mse")] == [0, 0]


def test_a_number_of_one_protocol_is_not_excused_by_a_failure_of_the_other():
    failed = {"protocol": HONEST, "setting": "here", "method": "ours", "error": "no file"}
    assert compare.judge(claims(), Results([failed]))[0].why == "no file"
    assert "not run yet" in compare.judge(claims(protocol=AUTHORS), Results([failed]))[0].why


def test_a_statement_that_holds_in_some_cases_is_mixed():
    words = {(True, True): "reproduced", (True, False): "mixed", (False, False): "differs"}
    for (one, other), word in words.items():
        checks = {"c": lambda _, a=one, b=other: Finding({"A": a, "B": b}, "")}
        experiment = Experiment("toy", "A toy", {}, lambda _: [], checks)
        known = read_claims({"statements": [
            {"experiment": "toy", "source": "text", "quote": "q", "asked": "a", "check": "c"}
        ]})  # fmt: skip
        (judged,) = compare.judge_statements(known, experiment, Results([]))
        assert judged.word == word
        assert judged.verdict == f"{word} (holds in {one + other} of 2)"


def test_data_that_are_not_the_papers_give_no_verdict_on_it():
    checks = {"c": lambda _: Finding({"A": True, "B": False}, "", elsewhere=True)}
    known = read_claims({"statements": [
        {"experiment": "toy", "source": "text", "quote": "q", "asked": "a", "check": "c"}
    ]})  # fmt: skip
    experiment = Experiment("toy", "A toy", {}, lambda _: [], checks)
    (judged,) = compare.judge_statements(known, experiment, Results([]))
    assert judged.word == compare.CANNOT
    assert judged.verdict == "cannot be run; elsewhere it holds in 1 of 2"


def test_a_result_that_is_printed_often_counts_once():
    tables = [
        {"experiment": "toy", "source": source, "setting": "here", "quantity": "mse",
         "values": {"ours": printed}, "result_setting": "base"}
        for source, printed in (("Table 0", 2.0), ("Figure 0", 2.01), ("Figure 9", 9.0))
    ]  # fmt: skip
    near, far = tables[:2], tables
    some = rows(ours=[2.0])
    for chosen, word in ((near, compare.REPRODUCED), (far, compare.MIXED)):
        ((claim, found),) = compare.distinct(compare.judge(read_claims({"claims": chosen}), some))
        assert (claim.source, found) == ("Table 0", word)


def test_identities_changes_sizes_and_reruns_are_no_results():
    def kind(**more):
        return compare.kind(claims(**more).numbers[0])

    assert kind() == "result"
    assert kind(not_counted={"ours": "by definition"}) == "none"
    assert kind(quantity="mse decrease %") == "none"
    assert kind(values={"data": 3}) == kind(values={"choice": 3}) == "size"
    assert kind(source="authors' log, Figure 0") == "log"
    assert kind(source="not in the paper: reruns") == "rerun"


def test_every_number_and_statement_gets_one_of_four_verdicts(toy):
    made = reproduce("toy")
    words = {verdict.claim.method: (verdict.word, verdict.why) for verdict in made.verdicts}
    assert words == {
        "ours": ("reproduced", ""),
        "theirs": ("differs", "they divided by three"),
        "broken": ("cannot be run", "ValueError: no such value"),
        "graph": ("cannot be run", "has no rows"),
    }
    assert [(judged.word, judged.shown) for judged in made.statements] == [
        ("mixed", "ours is 2.05"), ("reproduced", "by definition"),
    ]  # fmt: skip
    told = "4 distinct results: 1 reproduced, 1 differs, 2 cannot be run"
    assert repr(made).startswith(f"<Reproduction of 'toy': {told}")
    assert told in str(made)


def test_finished_cases_are_not_run_again_and_failed_ones_are(toy, tmp_path):
    _, counter = toy
    reproduce("toy", folder=tmp_path / "out")
    assert counter.read_text().count("run") == 3
    again = reproduce("toy", folder=tmp_path / "out")
    assert counter.read_text().count("run") == 4
    assert str(again) == str(reproduce("toy", folder=tmp_path / "out"))
    reproduce("toy", folder=tmp_path / "out", rerun=True)
    assert counter.read_text().count("run") == 8


def test_a_run_that_was_stopped_goes_on(toy, tmp_path):
    experiment, counter = toy

    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment, Plan(), tmp_path / "out", progress=stop)
    assert len(read_stored(experiment, Plan(), tmp_path / "out").rows) == 1
    run(experiment, Plan(), tmp_path / "out")
    assert counter.read_text().count("run") == 3


def test_several_jobs_give_the_same_rows(toy, tmp_path):
    experiment, _ = toy
    one = run(experiment, Plan(), None)
    two = run(experiment, Plan(), None, n_jobs=2)
    assert [(r["method"], r["figures"]["mse"]) for r in one.rows] == [
        (r["method"], r["figures"]["mse"]) for r in two.rows
    ]


def test_networks_run_when_asked_and_are_shown_when_stored(toy, tmp_path):
    assert reproduce("toy", folder=tmp_path).results.get(HONEST, "here", "net", "mse") is None
    reproduce("toy", folder=tmp_path, networks=True)
    assert reproduce("toy", folder=tmp_path).results.mean(HONEST, "here", "net", "mse") == 1.0


def test_stored_networks_are_shown_when_all_else_is_run_again(toy, tmp_path):
    _, counter = toy
    reproduce("toy", folder=tmp_path / "out", networks=True)
    again = reproduce("toy", folder=tmp_path / "out", rerun=True)
    assert again.results.mean(HONEST, "here", "net", "mse") == 1.0
    assert counter.read_text().count("run") == 4 + 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_figure_that_is_no_number_fails_its_case_and_is_not_stored(value):
    row = run_one(Case("toy", HONEST, "here", "ours", 0, lambda: {"mse": value, "groups": None}))
    assert row["error"] == "gave NaN or infinity for mse"


def test_torch_is_named_by_cases_of_networks_alone(monkeypatch):
    class Torch:
        __version__ = "9"

        class cuda:
            is_available = staticmethod(lambda: False)

    monkeypatch.setitem(sys.modules, "torch", Torch)
    case = Case("toy", HONEST, "here", "ours", 0, lambda: {"mse": 1.0})
    assert "torch" not in run_one(case)["versions"]
    assert run_one(case._replace(network=True))["versions"]["torch"] == "9 on CPU"


def test_a_case_is_known_by_all_that_decides_it():
    case = Case("toy", HONEST, "here", "ours", 0, dict)
    others = [case._replace(**{name: value}) for name, value in
              {"experiment": "b", "protocol": AUTHORS, "setting": "there", "method": "b", "seed": 1,
               "recipe": "b", "quick": True}.items()]  # fmt: skip
    assert len({one.key for one in (case, *others)}) == 8


def test_tables_are_written_whole(toy, tmp_path):
    made = reproduce("toy")
    written = making.write(made, tmp_path)
    assert [path.name for path in written] == ["table.txt", "verdicts.csv", "figures.csv"]
    with (tmp_path / "verdicts.csv").open() as file:
        told = list(csv.DictReader(file))
    assert [row["verdict"] for row in told] == [v.word for v in made.verdicts]
    with (tmp_path / "figures.csv").open() as file:
        assert {row["quantity"] for row in csv.DictReader(file)} == {"mse", "models", "seconds"}


def test_the_page_has_every_number_and_every_reason_once(toy, tmp_path):
    made = reproduce("toy")
    page = page_text([made], tmp_path, tmp_path)
    assert page.count("they divided by three") == 1
    assert "| ours, mse | 2 +- 0.1 | 2.05 (+2.5 %) reproduced |" in page
    assert '"ours is less" (text): **mixed (holds in 1 of 2)**. Asked: less than 1 and 3.' in page
    assert "Holds: than 3." in page
    assert "Does not hold: than 1." in page


def test_the_page_counts_no_identities_and_lists_apart_what_cannot_be_run(toy, tmp_path):
    page = page_text([reproduce("toy")], tmp_path, tmp_path)
    assert "| all | 4 | 1 |  |  | 1 | 2 |" in page
    assert "| all | 1 |  | 1 |  |  |" in page  # one statement; the identity stands apart
    assert '"ours is ours" (text): holds in 1 of 1' in page.partition("By construction")[2]
    tables, _, end = page.partition("## What cannot be run")
    assert "| graph, mse" not in tables
    assert "**Table 0: here** (graph, mse 4). has no rows" in end


def test_what_a_printed_spread_is_stands_beside_it():
    known = claims(spread="typed in by hand")
    notes = Notes()
    (table,) = verdict_tables(compare.judge(known, rows(ours=[2.0], theirs=[1.0])), notes).values()
    assert [row[1] for row in table] == ["paper", "2 +- 0.1 [1]", "1"]
    assert notes.texts == ["The paper's +-: typed in by hand"]


def test_the_page_says_how_many_cases_are_missing(toy, tmp_path):
    reproduce("toy", folder=tmp_path)
    page = page_text([making.stored("toy", tmp_path)], tmp_path, tmp_path)
    assert "Not complete: 1 of 3 cases are not stored" in page  # broken; the network is not asked
    assert "Not complete" not in page_text([reproduce("toy")], tmp_path, tmp_path)


def test_pictures_are_linked_from_where_the_page_lies(toy, tmp_path):
    (tmp_path / "results" / "toy").mkdir(parents=True)
    (tmp_path / "results" / "toy" / "u_curve.png").touch()
    page = page_text([reproduce("toy")], tmp_path / "results", tmp_path / "docs")
    assert "![u curve](../results/toy/u_curve.png)" in page


def plain(tex):
    """LaTeX in plain text, as the head of claims.toml says."""
    names = {"wrt": "w.r.t.", "algnameshortMain": "NonLinCTFA"}
    tex = re.sub(r"(?<!\\)%.*", "", tex)
    tex = re.sub(r"~?\\cite\w*(\[[^\]]*\])*\{[^}]*\}", "", tex)
    tex = re.sub(r"\\(wrt|algnameshortMain)\b", lambda found: names[found[1]], tex)
    tex = re.sub(r"\\emph\{([^}]*)\}", r"\1", tex)
    return " ".join(re.sub(r"[${}\\]", "", tex).replace("~", " ").split())


def test_latex_is_made_plain_in_one_way():
    tex = "it is \\emph{good} \\wrt single~tasks~\\citep[A]{b} with $\\epsilon_1=0$ % no\nand more"
    assert plain(tex) == "it is good w.r.t. single tasks with epsilon_1=0 and more"


def test_every_quotation_is_in_the_paper():
    folder = os.environ.get("CTFA_PAPER")
    if not folder:
        pytest.skip("CTFA_PAPER does not name the folder of the paper's source")
    paper = plain("\n".join(path.read_text("utf-8") for path in Path(folder).glob("*.tex")))
    for statement in load_claims().statements:
        assert statement.quote in paper


def test_an_experiment_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"no experiment 'tabel1'.*table1"):
        reproduce("tabel1")


def test_quick_results_never_take_the_place_of_full_ones(tmp_path, capsys):
    assert main(["reproduce", "synthetic", "--quick", "--seeds", "1", "-o", str(tmp_path)]) == 0
    assert not (tmp_path / "synthetic").exists()
    assert (tmp_path / "quick" / "synthetic" / "table.txt").exists()
    assert "QUICK" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["reproduce", "synthetic", "--quick", "-o", str(tmp_path / "file")]) == 1
    assert f"cannot use {tmp_path / 'file'}" in capsys.readouterr().err


def test_a_page_of_no_results_is_refused_and_leaves_no_folder(tmp_path, capsys):
    assert main(["reproduce", "page", "-o", str(tmp_path / "nowhere")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


def test_a_statement_about_what_was_not_measured_cannot_be_run(toy):
    experiment, _ = toy
    known = replace(making.load_claims())
    judged = compare.judge_statements(known, experiment, Results([]))
    assert judged[0].word == compare.CANNOT
    assert "not measured" in judged[0].shown


def test_a_reason_that_stops_many_cases_is_given_once(capsys):
    told = [{"setting": "here", "method": str(k), "error": "ValueError: no file"} for k in range(3)]
    assert failures(Results(told)) == ["", "Failed: here, 0 and 2 more: ValueError: no file"]
    tell = Teller()
    for k, row in enumerate(told):
        tell(Step(k + 1, 3, row | {"experiment": "toy", "seed": 0}, stored=False))
    assert capsys.readouterr().err.count("no file") == 1


def test_the_time_left_is_by_the_clock_however_many_cases_run_at_once(capsys, monkeypatch):
    now = iter([0.0, 60.0, 90.0])
    monkeypatch.setattr("ctfa_study.reproduction.command.time.perf_counter", lambda: next(now))
    tell = Teller()
    row = {"experiment": "toy", "setting": "here", "method": "ours", "seed": 0}
    tell(Step(1, 9, row, stored=True))
    for number in (2, 3):
        tell(Step(number, 9, row | {"figures": {"seconds": 500.0}}, stored=False))
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("500.0 s; about 7 min left")
    assert second.endswith("500.0 s; about 4 min left")  # 6 cases, 45 s each
