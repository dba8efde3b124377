"""``ctfa why``: the evidence that put a task into its region."""

from __future__ import annotations

import argparse
from typing import Any

from ctfa._commands._results import load_run
from ctfa._commands._terminal import guarded, print_json, say


@guarded
def run(options: argparse.Namespace) -> int:
    """Run it; return the exit code."""
    fitted = load_run(options.fitted)
    answers = []
    for text in options.labels:
        position = fitted.tasks.position(read_label(text, fitted.tasks.labels))
        answers.append((fitted.tasks.names[position], fitted.why(fitted.tasks.labels[position])))
    if options.json:
        print_json({"tasks": [_document(name, answer) for name, answer in answers]})
    else:
        say(*"\n\n".join(str(answer) for _, answer in answers).split("\n"))
    return 0


def read_label(text: str, labels: list[Any]) -> Any:
    """A label as the data has it: a number where labels are numbers, a tuple where they are."""
    example = labels[0]
    if isinstance(example, tuple):
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != len(example):
            raise ValueError(
                f"{text!r} is not a task here: give {len(example)} values with a comma between "
                f"them, such as {','.join(map(str, example))}."
            )
        return tuple(_typed(part, like) for part, like in zip(parts, example, strict=True))
    return _typed(text, example)


def _typed(text: str, like: Any) -> Any:
    kind = type(like.item() if hasattr(like, "item") else like)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text  # refused by who knows the labels, in a sentence
    return text


def _document(name: str, answer: Any) -> dict[str, Any]:
    told = {k: v for k, v in vars(answer).items() if not k.startswith("_") and k != "terms"}
    return {"task": name, "words": str(answer)} | told
