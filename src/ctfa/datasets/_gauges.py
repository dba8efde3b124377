"""A small example one can read: river gauges, monthly weather, regions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ctfa.datasets._bunches import Form

MONTHS = ("dec", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov")
SEASONS = ("winter", "spring", "summer", "autumn")
#: What one unit of a season's temperature and rain does to the yearly flow in each region.
RESPONSE = {
    "alpine": {"temp": (0.1, 0.9, 0.5, 0.0), "rain": (0.2, 0.3, 0.6, 0.1)},
    "lowland": {"temp": (0.0, -0.2, -0.8, -0.2), "rain": (0.9, 0.3, 0.1, 0.6)},
    "coastal": {"temp": (-0.3, 0.0, -0.2, 0.1), "rain": (0.3, 0.0, 0.0, 1.1)},
}


def make_gauges(
    n_years: int = 120,
    n_gauges: int = 12,
    *,
    noise: float = 2.5,
    random_state: Any = None,
    as_frame: bool = False,
) -> Any:
    """Return yearly flows at river gauges in three regions, and the monthly weather before them.

    Months of one season move together and have one effect; gauges of one region respond alike and
    have their own mean flow. A method that averages should find seasons and regions.

    Parameters
    ----------
    n_years : int, default=120
        Samples.
    n_gauges : int, default=12
        Targets, dealt to the regions in turn.
    noise : float, default=2.5
        Standard deviation of what the weather does not explain.
    random_state : int, RandomState or None, default=None
        Seed.
    as_frame : bool, default=False
        Give ``data`` and ``target`` as pandas data frames.

    Returns
    -------
    Bunch
        ``data`` (n_years, 24), ``target`` (n_years, n_gauges), ``feature_names``,
        ``target_names``, ``kind`` ("shared") and ``region``, the truth for each gauge.

    Examples
    --------
    >>> from ctfa.datasets import make_gauges
    >>> gauges = make_gauges(random_state=0)
    >>> gauges.data.shape, gauges.target.shape
    ((120, 24), (120, 12))
    >>> gauges.feature_names[:2], gauges.target_names[0]
    (['temp_dec', 'temp_jan'], 'gauge_01')
    """
    if n_years < 1 or n_gauges < 1 or noise < 0:
        raise ValueError(
            f"n_years={n_years}, n_gauges={n_gauges} and noise={noise}: there must be at least one "
            "year and one gauge, and the noise is a standard deviation."
        )
    form = Form(as_frame=as_frame)
    rng = check_random_state(random_state)
    season_of = np.repeat(np.arange(4), 3)
    columns, names = [], []
    for kind in ("temp", "rain"):
        season = rng.normal(size=(n_years, 4))
        columns.append(0.8 * season[:, season_of] + 0.6 * rng.normal(size=(n_years, 12)))
        names += [f"{kind}_{month}" for month in MONTHS]
    data = np.hstack(columns)
    regions = [list(RESPONSE)[gauge % len(RESPONSE)] for gauge in range(n_gauges)]
    effect = np.column_stack(
        [
            np.concatenate(
                [np.array(RESPONSE[region][kind])[season_of] for kind in ("temp", "rain")]
            )
            for region in regions
        ]
    )
    level = rng.uniform(20.0, 60.0, size=n_gauges)
    target = level + data @ effect + noise * rng.normal(size=(n_years, n_gauges))
    gauges = [f"gauge_{gauge + 1:02d}" for gauge in range(n_gauges)]
    return form.shared(
        data, target, feature_names=names, target_names=gauges, region=np.array(regions)
    )
