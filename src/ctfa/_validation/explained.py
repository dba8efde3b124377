"""What scikit-learn says of data, in fewer words and with what to do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

#: Parts of scikit-learn's messages about the form of data, and what they leave out: what to do.
ADVICE = {
    "could not convert string": "encode or drop columns that are not numbers",
    "Cannot cast": "encode or drop columns that are not numbers",
    "must be a string or a real number": "pass an array or data frame of numbers",
    "at least one array or dtype": "pass at least one column",
    "setting an array element with a sequence": "pass a table of numbers, collected and complete",
    "inhomogeneous": "pass rows of equal length",
    "sample(s)": "pass more rows",
    "feature(s)": "pass at least one column",
    "should be a 1d array": "pass one target, or use CTFARegressor for several",
}
#: What it says of too few rows: how many there are, and how many are needed.
TOO_FEW = re.compile(r"Found array with (\d+) sample\(s\).* minimum of (\d+) is required")


def explained(
    error: TypeError | ValueError,
    what: str,
    data: Any = None,
    *,
    has_layout: bool = False,
) -> TypeError | ValueError:
    """An error of scikit-learn about data, with what to do."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    message = str(error)
    if message.startswith("Expected 2D array"):
        first_words = message.partition(":")[0]  # without the numbers that follow
        return kind(
            f"{first_words}: {what} has shape {np.shape(data)}. Reshape your data with "
            f"{what}.reshape(-1, 1) if it is a single feature, {what}.reshape(1, -1) if it is a "
            "single row."
        )
    if has_layout and "dim 3" in message:
        return kind(
            f"{what} has shape {np.shape(data)}, and a table is needed: X, layout = "
            "ctfa.multi_input_layout(X) makes one of (n_samples, n_targets, n_slots), and the "
            "layout that goes with it."
        )
    few = TOO_FEW.match(message)
    if few is not None:
        rows = f"{few[1]} row{'' if few[1] == '1' else 's'} (n_samples={few[1]})"
        return kind(f"{what} has {rows}, and {few[2]} or more are needed: pass more rows.")
    for clue, advice in ADVICE.items():
        if clue in message:
            return kind(f"{what} cannot be used ({message.rstrip('.')}): {advice}.")
    return kind(message)
