"""The sweeps of Figures 3 and 4: one parameter at a time about the paper's setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ctfa_study.reproduction.experiments.generated._repetition import PAPER, RIDGE, RISK, Setting

#: The point that all sweeps have in common is run once.
BASE = "base"


class Sweep(NamedTuple):
    """One parameter and the values it takes besides the paper's."""

    parameter: str
    name: str  # on an axis, and in the names of settings
    values: tuple[float, ...]
    methods: tuple[str, ...] = (*PAPER, *RISK)
    scale: str = "linear"  # of the axis; "even" for values that no scale would show

    def setting(self, value: float) -> Setting:
        """The setting with this value, all else as in the base."""
        whole: Any = int(value) if self.parameter in ("n", "D", "L") else value
        return Setting()._replace(**{self.parameter: whole})

    def name_of(self, value: float) -> str:
        """Name of the setting with this value; that of all sweeps has a name of its own."""
        return BASE if value == getattr(Setting(), self.parameter) else f"{self.name} = {value:g}"

    def points(self) -> list[float]:
        """All values, in order."""
        return sorted({*self.values, float(getattr(Setting(), self.parameter))})


#: Values of the authors' log, and of their tables of the figures where these have others (n = 1500,
#: epsilon_1 = -0.5 and 0.5, epsilon_2 = 0.1). Besides: epsilon_1 from -100 to 100, because it is in
#: squared units of a target, whose variance is 190; epsilon_2 = -1, which merges no features.
SWEEPS = (
    Sweep("n", "n", (150, 200, 300, 400, 500, 750, 1000, 1500, 10000), scale="log"),
    Sweep("D", "D", (10, 25, 50, 75, 150)),
    Sweep("L", "L", (2, 5, 20, 50, 100), scale="log"),
    Sweep("sigma", "sigma", (1.0, 2.5, 5.0, 10.0, 15.0, 30.0), scale="log"),
    # The risk rule has no epsilon: its point is the base.
    Sweep(
        "epsilon_1", "epsilon_1",
        (-100.0, -10.0, -1.0, -0.5, -0.1, -0.01, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 20.0, 100.0),
        PAPER, "even",
    ),
    Sweep("epsilon_2", "epsilon_2", (-1.0, 0.0, 1e-6, 1e-5, 1e-3, 1e-2, 0.1), PAPER, "even"),
    # Announced in the authors' log, never run.
    Sweep("noise_correlation", "noise correlation", (0.1, 0.3, 0.5, 0.7, 0.9)),
)  # fmt: skip
BY_NAME = {sweep.parameter: sweep for sweep in SWEEPS}
#: More features than rows: least squares has no noise left to judge by, so single tasks and ridge.
WIDE = "D = 300"
#: Settings where the ridge is tried as well, to see what it does before it is needed.
WITH_RIDGE = (BASE, "D = 150", WIDE)


class Point(NamedTuple):
    """A setting to be run, and by what."""

    name: str
    setting: Setting
    methods: tuple[str, ...]


def points() -> Iterator[Point]:
    """Every setting once, the base first."""
    yield Point(BASE, Setting(), (*PAPER, *RISK, *RIDGE))
    for sweep in SWEEPS:
        for value in sweep.values:
            name = sweep.name_of(value)
            more = RIDGE if name in WITH_RIDGE else ()
            yield Point(name, sweep.setting(value), (*sweep.methods, *more))
    yield Point(WIDE, Setting(D=300), (PAPER[0], *RIDGE))
