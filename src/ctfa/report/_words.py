"""What a report says in sentences: the headline, the methods, and whom to cite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ctfa.core.scans import SCANS
from ctfa.core.types import IntArray
from ctfa.estimators.view import FittedGroups
from ctfa.estimators.zeros import CLIMATOLOGY
from ctfa.report._material import GROUPS_ALONE, HeldOut, Material, skills_over

BIBTEX = """@article{bonetti2024interpretable,
  title  = {Interpretable Target-Feature Aggregation for Multi-Task Learning
            based on Bias-Variance Analysis},
  author = {Bonetti, Paolo and Metelli, Alberto Maria and Restelli, Marcello},
  year   = {2024}
}"""

SERVES = {
    "mean": "Each group was replaced by the mean of its members and one model was fitted to it",
    "mean inputs": "Each group was replaced by the means of its members and of their inputs, and "
    "one model was fitted to them",
    "coefficients": "Members of a group keep their inputs and share the coefficients of one model",
    "slopes": "Members of a group share the slopes of one model; each keeps an offset",
}
#: Skill below which features add nothing to speak of.
NO_SKILL = 0.02
#: Share of the variance from which climatology explains something.
KNOWS = 0.05
#: Groups whose skill is listed, the largest.
MOST_GROUPS = 12
#: Relative change of an error below which it is the same.
SAME_ERROR = 0.0005
#: Ends of nouns that are plurals already.
PLURAL = ("ls", "ms", "ns", "rs", "ts", "ds", "ies")


def plural(noun: str, count: float = 2) -> str:
    """Several of them, as far as a rule can tell."""
    if count == 1 or not noun or noun.endswith(PLURAL):  # a dimension may be called points
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def percent(share: float) -> str:
    """A share as a scientist would round it."""
    size = 100.0 * abs(share)
    return f"{size:.0f} %" if size >= 9.95 else f"{size:.1f} %"


def verdict(held_out: HeldOut | None, labels: IntArray) -> dict[str, Any] | None:
    """What held-out rows say, in numbers: errors by method, and targets helped and hurt."""
    if held_out is None:
        return None
    methods = list(held_out.errors)
    ours, single = methods[0], methods[1] if len(methods) > 1 else None
    error = {method: held_out.mean(method) for method in methods}
    rivals = [method for method in methods[2:] if method != GROUPS_ALONE]
    rival = min(rivals, key=error.__getitem__, default=None)
    zeros = {
        name: {
            "words": words,
            "error": held_out.mean(name),
            "skill": held_out.mean_skill(ours, name),
        }
        for name, words in held_out.zero_words.items()
    }
    level = zeros.get(CLIMATOLOGY)
    found: dict[str, Any] = {
        "how": held_out.how,
        "methods": methods,
        "single": single,
        "error": error,
        "weighted": held_out.weights is not None,
        "rival": rival,
        "climatology": None if level is None or level["skill"] is None else level,
        "skill_words": skill_words(held_out, labels) + coverage_words(held_out, labels),
        "zeros": zeros,
        "hardest": held_out.hardest,
        "divisions": _divisions(held_out, labels),
    }
    if single is not None:
        found["helped"] = int(np.count_nonzero(held_out.helped))
        found["hurt"] = int(np.count_nonzero(held_out.hurt))
        found["judged"] = int(np.count_nonzero(np.isfinite(held_out.gain)))
    for change, other in (("change", single), ("rival_change", rival)):
        if other is not None:  # of the error, relative; None where there is none to compare with
            is_known = error[other] > 0.0 and np.isfinite(error[ours])
            found[change] = error[ours] / error[other] - 1.0 if is_known else None
    return found


def _divisions(held_out: HeldOut, labels: IntArray) -> list[dict[str, Any]]:
    """Skill by season, by block and by group, against climatology and persistence."""
    known: dict[str, Sequence[str]] = {}
    if held_out.parts is not None:
        known = {"season": held_out.parts.seasons, "block": held_out.parts.blocks}
    largest = np.argsort(-np.bincount(labels), kind="stable")[:MOST_GROUPS]
    known["region"] = [str(group) for group in largest]
    found = []
    for by, names in known.items():
        if len(names) < 2 or not held_out.to_beat:
            continue
        shown = largest if by == "region" else slice(None)
        each = held_out.divided([by], labels)
        mine, *_ = each.values()
        skills = skills_over(mine, {zero: each[zero] for zero in held_out.to_beat})
        covered = held_out.covered([by], labels)
        found.append(
            {
                "by": by,
                "names": list(names),
                "skills": [values[shown] for values in skills.values()],
                "covered": None if covered is None else covered[shown],
            }
        )
    return found


def coverage_words(held_out: HeldOut, labels: IntArray) -> list[str]:
    """How often intervals held on rows left out, and where least; nothing where none were asked."""
    whole = held_out.covered([], labels)
    if whole is None or not np.isfinite(whole) or held_out.parts is None:
        return []
    line = f"90 % intervals hold {percent(float(whole))} of what was held out"
    each = held_out.covered(["season"], labels)
    if each is not None and len(held_out.parts.seasons) > 1 and np.isfinite(each).any():
        least = int(np.nanargmin(each))
        line += f", least in {held_out.parts.seasons[least]} ({percent(float(each[least]))})"
    return [line]


def skill_words(held_out: HeldOut, labels: IntArray, group: str = "group") -> list[str]:
    """What features add to what is known without them, and a warning where that is nothing."""
    skills = {method: held_out.mean_skill(method) for method in held_out.errors}
    known = {method: skill for method, skill in skills.items() if skill is not None}
    if not known or not np.isfinite(list(known.values())).all():
        return []
    (ours, mine), *others = known.items()
    beside = ", ".join(f"{method} {skill:.2f}" for method, skill in others)
    line = (
        f"skill {mine:.2f} against {held_out.reference} on the same held-out rows"
        f"{f' ({beside})' if beside else ''}"
    )
    hardest = held_out.hardest
    over = None if hardest is None else held_out.mean_skill(ours, hardest)
    if hardest is not None and over is not None:
        line += f", {over:.2f} against persistence ({held_out.zero_words[hardest]})"
    elif held_out.before:
        line += f"; no persistence: {held_out.before}"
    said = [line]
    # A climatology that explains something of what errors are shares of knows what the fit was
    # not told: it says nothing of the features.
    if max(known.values()) < NO_SKILL and held_out.mean(CLIMATOLOGY) > 1.0 - KNOWS:
        said.append("the features add next to nothing to that: read no more into it")
    # In how many groups the model is not better than what predicts without features.
    each = held_out.divided(["region"], labels)
    errors, *_ = each.values()
    judged = np.isfinite(errors)
    lost: dict[int, list[str]] = {}
    for zero in reversed(held_out.to_beat):
        n_lost = int((judged & ~(errors < each[zero])).sum())
        if n_lost:
            lost.setdefault(n_lost, []).append(zero.split()[-1])
    n_groups = int(judged.sum())
    of = f" of {n_groups:,} {plural(group, n_groups)}"
    where = [
        " or ".join(names) + (f" in {n:,}{of}" if n_groups > 1 else "") for n, names in lost.items()
    ]
    return [*said, f"no better than {', or than '.join(where)}"] if where else said


def headline(fitted: FittedGroups, material: Material, found: Mapping[str, Any] | None) -> str:
    """The result in two or three sentences."""
    text = _grouped(fitted, material.task)
    if found is None or found.get("change") is None:
        return text
    text += f" {_judged(fitted, material.task, found)}"
    readable = found["error"].get(GROUPS_ALONE)
    if readable is not None:
        text += f" The groups' models alone, which are what one reads, have {readable:.3f}."
    rival, against = found["rival"], found.get("rival_change")
    if rival is not None and against is not None:
        if abs(against) < SAME_ERROR:
            text += f" The best rival, {rival}, does as well."
        else:
            way = "higher" if against > 0.0 else "lower"
            text += f" Against the best rival, {rival}, it is {percent(against)} {way}."
    return text + "".join(f" {said[0].upper()}{said[1:]}." for said in found["skill_words"])


def _grouped(fitted: FittedGroups, task: str) -> str:
    """How many groups there are, and why there are none."""
    n_targets, n_groups = fitted.partition.n_variables, fitted.partition.n_groups
    what = plural(task, n_targets)
    if n_groups == n_targets:
        why = "no merge was found to pay"
        if fitted.aggregator.cv_curve_ is not None:
            why = "held-out rows preferred no merge at all"
            if np.isfinite(fitted.aggregator.max_loss_):
                why = "no two are close enough at the limit that held-out rows chose"
        on = ", on averaged features" if fitted.averages else ""
        return f"Every one of {n_targets:,} {what} stays by itself{on}: {why}."
    if fitted.is_aggregator:
        return f"{n_targets:,} {what} fall into {n_groups:,} {plural('group', n_groups)}."
    models = "one model" if n_groups == 1 else f"{n_groups:,} models"
    price = fitted.aggregator.price_
    wished = "" if price is None else f" As requested, this {price.words()}."
    return f"{n_targets:,} {what} are predicted by {models}.{wished}"


def _judged(fitted: FittedGroups, task: str, found: Mapping[str, Any]) -> str:
    """What held-out rows say of one model per target instead."""
    errors, change = found["error"], found["change"]
    ours, single = errors[found["methods"][0]], errors[found["single"]]
    rows = ", where it chose again without them," if fitted.is_single_task else ""
    alone = f"one model per {task}{' on all features' if fitted.averages else ''}"
    verb, cost = f"is that of {alone}", ""
    if abs(change) >= SAME_ERROR:
        verb = f"is {percent(change)} {'lower' if change < 0 else 'higher'} than with {alone}"
        cost = ": here aggregation costs accuracy" if change > 0 else ""
    error = "error" if abs(change) < SAME_ERROR else "mean squared error"
    are = "is" if found["helped"] == 1 else "are"
    return (
        f"On held-out rows{rows} the {error} {verb} ({ours:.3f} against {single:.3f} of "
        f"{fitted.variance(task)}){cost}; {found['helped']:,} {are} predicted better and "
        f"{found['hurt']:,} worse."
    )


def methods(
    fitted: FittedGroups, material: Material, found: Mapping[str, Any] | None, version: str
) -> list[str]:
    """What was done, with its numbers, as paragraphs for a paper."""
    said = [_grouping(fitted, material, version), _models(fitted)]
    if found is not None and found.get("change") is not None:
        ours, single = found["methods"][0], found["single"]
        said.append(
            f"Errors were measured on held-out rows ({found['how']}), everything chosen again on "
            f"the other rows, as mean squares in units of {fitted.variance(material.task)}: "
            + ", ".join(f"{found['error'][m]:.4g} ({m})" for m in found["methods"])
            + f". Against {single}, {ours} did better for {found['helped']:,} "
            f"{plural(material.task)} and worse for {found['hurt']:,}."
        )
        for zero, how in (
            (found["climatology"], "without features, by {}, the same rows have an error of"),
            (
                found["zeros"].get(found["hardest"]),
                "by {}, which a forecaster knows and the model does not, they have",
            ),
        ):
            if zero is not None:
                said[-1] += (
                    f" Predicted {how.format(zero['words'])} {zero['error']:.4g}: the skill is "
                    f"{zero['skill']:.3g}."
                )
    if fitted.evidence.held_out:
        said.append(
            "Gains on folds are what targets saved on blocks of rows that neither their groups, "
            "found again, nor the models had seen; their standard errors are of the scatter over "
            "the blocks. Scores of merges are of the same rows, on all of which the pairs had been "
            "chosen. After a search F statistics describe the merges and are not tests."
        )
    else:
        said.append(
            "Predicted gains are estimates of the change of the mean squared error on new rows "
            "that do not depend on each other; their standard errors describe the estimate before "
            "the search. After a search F statistics describe the merges and are not tests."
        )
    said.extend(str(note) for note in material.notes)
    return said


def _grouping(fitted: FittedGroups, material: Material, version: str) -> str:
    rule, n_targets = fitted.aggregator, fitted.partition.n_variables
    terms = fitted.evidence.terms
    judged = "a criterion of the user's own"
    if terms.facts.name is not None:
        judged = terms.facts.words or f"the criterion {terms.facts.name!r}"
    among = " among neighbours only" if rule.connectivity is not None else ""
    sizes = fitted.partition.sizes
    alone = int(np.count_nonzero(sizes == 1))
    curve = rule.cv_curve_
    limit = f"max_loss = {rule.max_loss_:.4g}"
    if terms.n_groups is not None:
        chosen = f"The path of merges was cut where {terms.n_groups:,} groups are left."
    elif curve is None and rule.max_loss == "auto":
        chosen = f"The limit, {limit}, was not chosen: there was nothing to choose it by."
    elif curve is None:
        chosen = f"The limit, {limit}, was given."
    else:
        folds = curve.fold_errors.shape[0]
        chosen = (
            f"The limit, {limit}, was chosen among {curve.max_loss.size} on {folds} folds, the "
            "groups found again in each."
        )
    if terms.wish:
        chosen += f" Requested: {terms.wish}."
    return (
        f"{n_targets:,} {plural(material.task, n_targets)} {'was' if n_targets == 1 else 'were'} "
        f"grouped with ctfa {version} "
        "(after Bonetti, Metelli and Restelli, 2024): two groups are merged while the features "
        f"cannot usefully predict the difference of the two. A merge costs {judged}; "
        f"{SCANS[rule.scan].words or rule.scan}{among}. {chosen} This left "
        f"{sizes.size:,} {plural('group', sizes.size)} of {int(sizes.min()):,} to "
        f"{int(sizes.max()):,} (median {np.median(sizes):.4g}), {alone:,} of a single "
        f"{material.task}."
    )


def _models(fitted: FittedGroups) -> str:
    if fitted.means is None:
        return "No model was fitted to the groups."
    text = f"{SERVES[fitted.shares]} ({type(fitted.template).__name__})."
    if fitted.averages:
        kept = fitted.means.max(axis=1) + 1
        text += (
            " Within each group features were averaged where their coefficients may be equal: "
            f"{len(fitted.features):,} features became {int(kept.min()):,} to {int(kept.max()):,} "
            f"means (median {np.median(kept):.4g})."
        )
    if fitted.model.head == "levels" and fitted.evidence.terms.refitted:
        text += (
            " Its predictions are mixed with those of models of the targets' own, by one weight "
            "per group, as held-out rows say."
        )
    elif fitted.model.head == "levels":
        text += " Each target adds to its group's model what it was found to deviate from it."
    return text
