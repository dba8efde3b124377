"""Every number of the paper, read from ``claims.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FILE = "claims.toml"
_FIELDS = {
    "experiment", "source", "setting", "quantity", "values", "meant", "spread", "why", "why_of",
    "cannot", "cannot_of", "protocol", "but_of",
    "repetitions", "result_setting", "result_method", "not_counted",
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """One number of the paper.

    Attributes
    ----------
    experiment, source : str
        Which of our experiments answers it; where the paper prints it.
    setting, method, quantity : str
        What it is of, in the words of the experiment's figures.
    printed : float
        The number as printed.
    spread : float or None
        What the paper prints after the plus-minus sign, and ``spread_is`` what that turned out to
        be.
    meant : float or None
        The number that the authors' own log has, where the printed one is a slip.
    why : mapping
        By protocol ("" for any): why ours differs, where it does.
    cannot : str
        Why it cannot be run; empty where it can.
    but : mapping
        By protocol ("" for any): why agreement says little, where ours agrees.
    repetitions : int or None
        How many the printed number is a mean of, where that is known.
    protocol : str
        The one protocol that answers it; empty where any does.
    result : tuple
        Setting, method and quantity of the result that it is of; several numbers may be of one.
    not_counted : str
        Why it is not a result of its own; empty where it is.
    """

    experiment: str
    source: str
    setting: str
    method: str
    quantity: str
    printed: float
    spread: float | None
    spread_is: str
    meant: float | None
    why: Mapping[str, str]
    cannot: str
    but: Mapping[str, str]
    repetitions: int | None = None
    protocol: str = ""
    result: tuple[str, str, str] = ("", "", "")
    not_counted: str = ""

    @property
    def place(self) -> str:
        """What the number is of, for people to read."""
        return f"{self.setting}: {self.method}, {self.quantity}"


@dataclass(frozen=True)
class Statement:
    """What the paper says and its figures are to show.

    Attributes
    ----------
    experiment, source : str
        Which of our experiments answers it; where the paper says it.
    quote : str
        In the paper's words.
    asked : str
        How it is judged, in ours.
    check : str
        Which function of the experiment judges it.
    identity : bool
        Whether it holds by construction, so that it is not a result.
    """

    experiment: str
    source: str
    quote: str
    asked: str
    check: str
    identity: bool = False


@dataclass(frozen=True)
class Claims:
    """All numbers and statements."""

    numbers: list[Claim]
    statements: list[Statement]

    def of(self, experiment: str) -> Claims:
        """Those that one experiment answers."""
        return Claims(
            [claim for claim in self.numbers if claim.experiment == experiment],
            [one for one in self.statements if one.experiment == experiment],
        )


@cache
def load_claims() -> Claims:
    """Read every number and statement of the paper.

    Examples
    --------
    >>> from ctfa_study.reproduction import load_claims
    >>> claims = load_claims()
    >>> len(claims.of("table3").numbers)
    20
    """
    text = resources.files("ctfa_study.reproduction").joinpath(FILE).read_text(encoding="utf-8")
    return read_claims(tomllib.loads(text))


def read_claims(tables: Mapping[str, Any]) -> Claims:
    """Claims from the tables of a file; a table holds the numbers of one place of the paper."""
    numbers: list[Claim] = []
    for table in tables.get("claims", []):
        unknown = set(table) - _FIELDS
        if unknown:
            raise ValueError(f"{FILE}: {sorted(unknown)} are not fields of a claim")
        for method, value in table["values"].items():
            printed, spread = value if isinstance(value, list) else (value, None)
            why = table.get("why_of", {}).get(method, table.get("why", {}))
            but = table.get("but_of", {}).get(method, {})
            numbers.append(
                Claim(
                    experiment=table["experiment"],
                    source=table["source"],
                    setting=table["setting"],
                    method=method,
                    quantity=table["quantity"],
                    printed=float(printed),
                    spread=None if spread is None else float(spread),
                    spread_is=table.get("spread", ""),
                    meant=table.get("meant", {}).get(method),
                    why=_by_protocol(why),
                    but=_by_protocol(but),
                    cannot=table.get("cannot_of", {}).get(method, table.get("cannot", "")),
                    repetitions=table.get("repetitions"),
                    protocol=table.get("protocol", ""),
                    result=(
                        _of_method(table, "result_setting", method, table["setting"]),
                        _of_method(table, "result_method", method, method),
                        table["quantity"],
                    ),
                    not_counted=_of_method(table, "not_counted", method, ""),
                )
            )
    return Claims(numbers, [Statement(**table) for table in tables.get("statements", [])])


def _of_method(table: Mapping[str, Any], name: str, method: str, default: str) -> str:
    """A field for all methods, or one for each."""
    value = table.get(name, default)
    return str(value.get(method, default) if isinstance(value, dict) else value)


def _by_protocol(reason: Any) -> dict[str, str]:
    """A reason for any protocol, or one for each."""
    return {"": reason} if isinstance(reason, str) else dict(reason)
