"""Draw what ``scaling.py`` has measured.

python benchmarks/scaling_figure.py [docs/img/scaling.png]
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

RESULTS = Path(__file__).parents[1] / "results" / "scaling"
FIT, FLOOR, NAIVE = "#1b6ca8", "#7a7a7a", "#c0563b"


def read(name: str) -> list[dict]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def times(axis: Axes, name: str, size: str, title: str) -> None:
    """Seconds of the fit, of refitting and of the floor against one size."""
    lines = read(name)
    at = [line[size] for line in lines]
    naive = [line["naive/fit"] * line["fit_s"] for line in lines]
    axis.loglog(at, naive, "o--", color=NAIVE, label="refitting (estimated)")
    axis.loglog(at, [line["fit_s"] for line in lines], "o-", color=FIT, label="ctfa, whole fit")
    axis.loglog(at, [line["floor_s"] for line in lines], "o:", color=FLOOR, label="floor")
    axis.set(xlabel=size, title=title)
    axis.grid(alpha=0.3, which="major")


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/img/scaling.png")
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.4), layout="constrained")
    (rows, memory), (targets, features) = axes
    times(rows, "rows", "rows", "Out of core: 50 features, 20 targets")
    rows.set_ylabel("seconds, two cores")
    rows.legend(frameon=False)
    lines = read("rows")
    at = [line["rows"] for line in lines]
    memory.loglog(at, [line["GB"] / 1.074 for line in lines], "o:", color=FLOOR, label="the data")
    peak = [line["peak_GiB"] for line in lines]
    memory.loglog(at, peak, "o-", color=FIT, label="ctfa, peak of the process")
    memory.set(xlabel="rows", ylabel="GiB", title="Memory for the same fits")
    memory.grid(alpha=0.3)
    memory.legend(frameon=False)
    times(targets, "targets", "targets", "In memory: 500 rows, 20 features")
    last = read("targets")[-1]
    targets.annotate(
        "neighbours only",
        (last["targets"], last["fit_s"]),
        (0, -14),
        textcoords="offset points",
        ha="right",
        fontsize=9,
    )
    targets.set_ylabel("seconds, one thread")
    times(features, "features", "features", "In memory: 10 targets")
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main()
