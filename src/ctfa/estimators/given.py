"""How an estimator reads its data, what a fit needs of them, and what files keep of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from ctfa import _reading as check
from ctfa._reading.streaming import Streaming
from ctfa._reading.sums import (
    Collection,
    Rows,
    Wanted,
    are_many,
    few_rows,
    is_collection,
    learns_from_sums,
)
from ctfa.core import backend
from ctfa.core.criteria import TARGET_CRITERIA
from ctfa.core.scans import SCANS
from ctfa.estimators.intervals import some_rows
from ctfa.estimators.refits import fewer_folds
from ctfa.kernels.devices import backend_of, is_foreign

Fit = TypeVar("Fit", bound=Callable[..., Any])


class ReadsTables(Streaming):
    """An estimator of tables with the same rows: in memory, in chunks or on a device."""

    def __ctfa_asks__(self, n_targets: int) -> tuple[list[Wanted], str | None]:
        """Folds that a fit needs, and what in it cannot be computed from sums."""
        raise NotImplementedError

    def __ctfa_read__(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        confounds: Any = None,
        target_weight: Any = None,
        groups: Any = None,
        *,
        few: bool = False,
    ) -> tuple[check.Sample, check.Targets, Collection | None]:
        """Rows of a fit, or rows that stand in for them; and the data that were read as sums.

        ``few``: whether many rows in memory may be replaced by rows that stand in for them, too.
        """
        given, data = (X, y, sample_weight, confounds), None
        if is_collection(*given):
            data = Collection.of(*given, gaps=self._input_gaps)
            wanted, needs_rows = self._asks_of(data)
            check.tell_input_names(self, data.widths[1], data.input_names)
            together = self._fitted_together(data.widths)
            read = data.read(self, wanted, groups, needs_rows, together)
            is_whole = isinstance(read, Rows)
            sample, targets = self._read_rows(*read[:4]) if is_whole else read[:2]
        else:
            sample, targets = self._read_rows(*given)
        targets = check.read_target_weight(target_weight, targets)
        if few and data is None and groups is None and are_many(sample, targets):
            wanted, needs_rows = self.__ctfa_asks__(targets.values.shape[1])
            if needs_rows is None:
                regressor = getattr(self, "regressor", None)
                every = sample, targets.values
                sample, targets = few_rows(sample, targets, sample_weight, wanted, regressor)
                if sample.counts is not None:
                    sample = replace(sample, some=some_rows(*every))
        return sample, targets, data

    def _asks_of(self, data: Collection) -> tuple[list[Wanted], str | None]:
        """The same of data that are known; refuses options that are not."""
        return self.__ctfa_asks__(data.widths[2])

    def _asks_of_stream(self, n_targets: int = 1) -> list[Wanted]:
        wanted, needs_rows = self.__ctfa_asks__(n_targets)
        check.refuse_streaming(needs_rows)
        return wanted

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, confounds: Any
    ) -> tuple[check.Sample, check.Targets]:
        """Check rows in memory."""
        gaps = check.takes_gaps(getattr(self, "regressor", None))
        sample = check.read_sample(self, X, sample_weight, gaps=gaps, confounds=confounds)
        return sample, check.read_targets(y, sample.n_given, used=sample.used, gaps=True)


def asks_of(
    targets: Any, features: Any, n_targets: int = 1, *, judge: Any = None, chooses: bool = False
) -> tuple[list[Wanted], str | None]:
    """Folds that two phases (one may be None) need; and what sums cannot tell them.

    ``judge`` is what judges merges where Phase I does not say; ``chooses``: whether folds choose
    something even where the limit of Phase I is given.
    """
    wanted, needs_rows = [], None
    if targets is not None:
        judge = judge if targets.regressor is None else targets.regressor
        check.read_criterion(targets.criterion, TARGET_CRITERIA)
        check.require(targets.scan, SCANS, "scan")
        limit = check.read_limit(targets, TARGET_CRITERIA)
        is_refitted = not check.judges(judge)
        if is_refitted and n_targets > 1 and limit != -np.inf:
            wanted.append(Wanted("limit", fewer_folds(targets.cv), lowered=True))
        elif n_targets > 1 and (limit is None or chooses):
            wanted.append(Wanted("limit", targets.cv, lowered=True))
        # A single penalty can be computed from sums where the final regressor judges.
        penalties = () if is_refitted else check.read_judge(judge) or ()
        by_rows = len(penalties) > (targets.regressor is None)
        if by_rows or (is_refitted and not learns_from_sums(judge)):
            needs_rows = f"regressor={check.called(judge)}, which judges row by row,"
            if is_refitted:
                needs_rows = check.needs_rows_to_judge(judge)
    if features is not None and features.cv is not None:
        wanted.append(Wanted("features", features.cv))
    for phase, variables in ((targets, "targets"), (features, "features")):
        if needs_rows is None and phase is not None and callable(phase.connectivity):
            needs_rows = f"connectivity that is a function of the {variables}"
    return wanted, needs_rows


def whole(fit: Fit) -> Fit:
    """Restore an estimator if its fit fails, whatever was set by then."""

    @functools.wraps(fit)
    def run(self: Any, *data: Any, **known: Any) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *data, **known)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return run  # type: ignore[return-value]


def searched_where_data_lie(fit: Fit) -> Fit:
    """Let a fit search on the device of the first of its arrays that lies on one.

    Data on a CPU are searched like numpy's: compiled loops are faster there. A backend that was
    named is used.
    """

    @functools.wraps(fit)
    def run(self: Any, *data: Any, **known: Any) -> Any:
        given = [one for one in (*data, *known.values()) if is_foreign(one)]
        if not given:
            return fit(self, *data, **known)
        names = (name for name in map(backend_of, given) if name is not None)
        name = next(names, "auto") if backend.named() == "auto" else backend.named()
        with backend.using(name):
            return fit(self, *data, **known)

    return run  # type: ignore[return-value]


def fields(public: str = "", **private: str) -> dict[str, str]:
    """Attribute of each field: public attributes keep their names, others get the given one."""
    return {name: name for name in public.split()} | private


#: What both phases find.
OF_GROUPS = fields(
    "partition_ labels_ n_groups_ history_ max_loss_ loss_interval_ cv_curve_ price_",
    sums="_sums",
)


class Saved:
    """An estimator whose state in files is its parameters and a fixed list of fields.

    The names of fields stay the same when private attributes are renamed. Private attributes that
    are not in the list are not kept: they follow from the rest. Attributes that users add are kept.
    """

    _saved: ClassVar[dict[str, str]] = fields(
        "n_features_in_ feature_names_in_",
        output="_sklearn_output_config",
        routing="_metadata_request",
    )
    _get_param_names: ClassVar[Any]  # of scikit-learn's estimators

    @classmethod
    @functools.cache  # called thousands of times for a file of thousands of groups
    def _attributes(cls) -> dict[str, str]:
        """Attribute of each parameter and field, in the order of their names."""
        known = {name: name for name in cls._get_param_names()} | cls._saved
        return dict(sorted(known.items()))

    def __ctfa_fields__(self) -> dict[str, Any]:
        """Parameters and fields by name, as far as they are known, and what users added."""
        known, ours = vars(self), self._attributes()
        added = {name for name in known if name not in ours and self._may_add(name)}
        return {
            name: known[ours.get(name, name)]
            for name in sorted(added | {name for name, at in ours.items() if at in known})
        }

    @classmethod
    def _may_add(cls, name: str) -> bool:
        """Whether an attribute is a user's own: not private, and nothing that the class has."""
        return name.isidentifier() and not name.startswith("_") and not hasattr(cls, name)

    @classmethod
    def __ctfa_restored__(cls, state: Mapping[str, Any]) -> Self:
        """An estimator with these parameters and fields; its constructor is not called."""
        attributes = cls._attributes()
        added = [name for name in state if name not in attributes]
        wrong = next((name for name in added if not cls._may_add(name)), None)
        if wrong is not None:
            raise AttributeError(f"{cls.__name__} has no attribute {wrong!r}")
        made = object.__new__(cls)
        vars(made).update({attributes.get(name, name): value for name, value in state.items()})
        return made
