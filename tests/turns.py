"""What the everyday tests leave to the slow ones: what they ask once, asked again."""

import re
from collections.abc import Iterable
from typing import Any

import pytest

PARTS = 4
"""Number of parts of the slow tests, which take turns."""

RELATIVES = {
    **dict.fromkeys(("roberta", "distilbert", "electra"), "bert"),
    **dict.fromkeys(("bart", "m2m_100"), "marian"),
    "qwen3": "llama",
}
"""Architectures whose attention is built like that of another one."""

_NAME = re.compile(rf"\b({'|'.join(RELATIVES)})\b")


def slow(*values: object) -> list[Any]:
    """Values of a parameter whose tests are slow ones."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def mark_all_but_one(items: Iterable[pytest.Item]) -> None:
    """Mark as slow all cases but the first of the tests that the everyday ones ask `once`.

    `once("words", "resumes")` keeps the first case whose name ends with each of these, too.
    """
    asked = set[tuple[str, str]]()
    for item in items:
        if once := item.get_closest_marker("once"):
            test, _, case = item.nodeid.rstrip("]").partition("[")
            answers = {(test, end) for end in ("", *once.args) if case.endswith(end)}
            if answers <= asked:
                item.add_marker(pytest.mark.slow)
            asked |= answers


def mark_relatives(items: Iterable[pytest.Item]) -> None:
    """Mark the tests of an architecture as slow where a relative has the same test."""
    every = {item.nodeid: item for item in items}
    for name, item in every.items():
        test, bracket, values = name.partition("[")
        other = _NAME.sub(lambda found: RELATIVES[found[0]], values)
        if other != values and test + bracket + other in every:
            item.add_marker(pytest.mark.slow)
