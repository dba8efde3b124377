"""The results that the project keeps of the paper's experiments, and the page made of them."""

import re
from pathlib import Path

import pytest

from ctfa_study.reproduction import EXPERIMENTS, HONEST, compare, load_claims
from ctfa_study.reproduction._page import page_text
from ctfa_study.reproduction._reproduce import stored
from ctfa_study.reproduction.compare import CANNOT, DIFFERS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "reproduction"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the stored results are not here")


@pytest.fixture(scope="module")
def made():
    return {name: stored(name, FOLDER / name) for name in EXPERIMENTS}


def test_the_page_is_what_the_command_writes(made):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    assert page_text(list(made.values()), FOLDER, ROOT / "docs") == page


def test_what_stands_in_quotation_marks_is_a_quotation(made):
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    quotes = {one.quote for one in load_claims().statements}
    assert set(re.findall('"([^"]*)"', page)) == quotes
    assert not re.search("[\u201c\u201d]", page)


def test_no_figure_of_ours_is_counted_twice_as_reproduced(made):
    verdicts = [v for one in made.values() for v in one.verdicts]
    ours = {id(v.claim): v.ours for v in verdicts if v.ours is not None}
    seen = [
        (claim.quantity, tuple(ours[id(claim)].values))
        for claim, word in compare.distinct(verdicts)
        # Errors of several repetitions are never the same by chance; numbers of groups are.
        if word == compare.REPRODUCED and claim.quantity in ("mse", "nrmse", "r2")
    ]
    assert len(seen) == len(set(seen)) > 50


def test_every_number_was_run_or_says_why_not(made):
    for one in made.values():
        reasons = [v.why for v in one.verdicts if v.word == CANNOT]
        reasons += [judged.shown for judged in one.statements if judged.word == CANNOT]
        assert not [why for why in reasons if "not run yet" in why or "not measured" in why]


def test_every_difference_has_a_reason_or_says_that_it_has_none(made):
    for one in made.values():
        assert all(verdict.why for verdict in one.verdicts if verdict.word == DIFFERS)


@pytest.mark.parametrize(
    ("setting", "single", "ratio_one", "ratio_both"),
    [("sigma = 7.5", 94.4, 0.694, 0.64), ("sigma = 10", 167.8, 0.686, 0.63)],
)
def test_synthetic_errors_are_those_of_many_repetitions(
    made, setting, single, ratio_one, ratio_both
):
    # 200 repetitions of the authors' code.
    results = made["synthetic"].results
    ours = {m: results.mean(HONEST, setting, m, "mse")
            for m in ("single task", "Phase I", "Phase I+II")}  # fmt: skip
    assert ours["single task"] == pytest.approx(single, rel=0.03)
    assert ours["Phase I"] / ours["single task"] == pytest.approx(ratio_one, rel=0.03)
    assert ours["Phase I+II"] / ours["single task"] == pytest.approx(ratio_both, rel=0.03)


def test_arms_and_schools_have_the_errors_of_known_reruns(made):
    known = [v for v in made["table1"].verdicts if v.claim.source.startswith("not in the paper")]
    assert len(known) >= 15
    for verdict in known:
        if verdict.word == DIFFERS:  # one of two ends of a range, which does not say of what
            assert verdict.claim.method == "NonLinCTFA + LR"
            assert verdict.claim.setting == "School 139"
            continue
        off = abs(verdict.ours.mean - verdict.claim.printed)
        assert off <= verdict.ours.spread, verdict.claim.place
