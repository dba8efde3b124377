"""Errors know the options they are about, and every door writes these by its own names."""

import pickle

import numpy as np
import pytest

import ctfa
from ctfa import TargetAggregator
from ctfa._commands._terminal import in_words
from ctfa._errors import InputError, Message, Option
from ctfa.labelled._words import CALLED

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 3)), RNG.normal(size=(60, 5))


def refused(**options):
    with pytest.raises(InputError) as caught:
        TargetAggregator(**options).fit(X, Y)
    return caught.value


def test_an_error_knows_its_options_and_their_values():
    error = refused(n_groups=9)
    assert error.options == {"n_groups": 9}
    assert refused(n_groups=3, tolerance=0.1).options == {"n_groups": 3, "tolerance": 0.1}
    # The first time an option is named is what was given; what is advised comes later.
    assert refused(n_groups=1, apart=[(0, 1)]).options["n_groups"] == 1


@pytest.mark.parametrize(
    ("options", "python", "labelled", "terminal"),
    [
        (
            {"n_groups": 9},
            "n_groups=9 is more than the 5 targets there are.",
            "n_regions=9 is more than the 5 tasks there are.",
            "--regions 9 is more than the 5 tasks there are.",
        ),
        (
            {"n_groups": 4, "min_size": 2},
            "n_groups=4 and min_size=2 do not go together: 5 targets make at most 2 such groups.",
            "n_regions=4 and min_size=2 do not go together: 5 tasks make at most 2 such regions.",
            "--regions 4 and --min-size 2 do not go together: 5 tasks make at most 2 such regions.",
        ),
        (
            {"min_size": 9},
            "min_size=9 is more than there can be: there are 5 targets. Lower min_size.",
            "min_size=9 is more than there can be: there are 5 tasks. Lower min_size.",
            "--min-size 9 is more than there can be: there are 5 tasks. Lower --min-size.",
        ),
    ],
)
def test_every_door_says_the_same_by_its_own_names(options, python, labelled, terminal):
    error = refused(**options)
    assert str(error).startswith(python)
    there = error.renamed(CALLED)
    assert str(there).startswith(labelled)
    assert in_words(there).startswith(terminal)


def test_what_no_terminal_knows_is_said_as_in_python():
    error = InputError(Option("criterion", "mse"), " and ", Option("head", "mean"), " differ.")
    assert in_words(error) == "criterion='mse' and --head mean differ."
    assert in_words(InputError(Option("held_out", None))) == "--held-out none"
    assert in_words(InputError(Option("neighbours", ("nearest", 6)))) == "--neighbours nearest:6"
    assert in_words(InputError(Option("task", ("lat", "lon")))) == "--task lat,lon"


def test_a_message_keeps_its_pieces_inside_another_and_through_a_pickle():
    inner = Message("use ", Option("head", "mean"))
    error = pickle.loads(pickle.dumps(InputError("no levels: ", inner, ".")))
    assert str(error) == "no levels: use head='mean'."
    assert in_words(error) == "no levels: use --head mean."


def test_what_labelled_data_are_told_is_what_they_can_do():
    xarray = pytest.importorskip("xarray")
    ds = xarray.Dataset({"flow": (("time", "basin"), Y), "rain": (("time",), X[:, 0])})
    with pytest.raises(InputError, match="n_regions=90 is more than the 5 tasks"):
        ctfa.labelled.fit(ds, target="flow", n_regions=90, held_out=None)
