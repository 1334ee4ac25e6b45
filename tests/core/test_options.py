"""Constraints of options: what they allow, and that every class that declares one checks it."""

import ast
import inspect
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

import headcount
from headcount.core import (
    ABOVE_0,
    BELOW_1,
    FROM_0,
    FROM_0_TO_1,
    Checked,
    Count,
    InputError,
    Seed,
    at_least,
    check_options,
)

ROOT = Path(headcount.__file__).parent
NAMES = {"ABOVE_0", "ABOVE_0_TO_1", "BELOW_1", "FROM_0", "FROM_0_TO_1", "Count", "Seed", "at_least"}


@dataclass
class Options:
    steps: Count = 1
    seed: Seed = 0
    rate: Annotated[float, ABOVE_0] = 0.5
    weight: Annotated[float, FROM_0] = 0
    dropout: Annotated[float | None, BELOW_1] = None
    share: Annotated[float, FROM_0_TO_1] = 1
    waits: Annotated[int | None, at_least(2, "round")] = 2
    sizes: Annotated[tuple[int, ...], at_least(1)] = (1, 3)


def test_constraints_allow_their_ends() -> None:
    check_options(Options())
    check_options(Options(dropout=0, waits=None, share=0, sizes=()))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("steps", 0, "steps of at least 1"),
        ("seed", -1, "a seed of at least 0"),
        ("rate", 0, "a finite number above 0 for rate"),
        ("rate", float("nan"), "a finite number above 0 for rate"),
        ("weight", float("inf"), "a finite number of at least 0 for weight"),
        ("dropout", 1, "a number of at least 0 and below 1 for dropout"),
        ("share", 1.1, "a number from 0 to 1 for share"),
        ("waits", 1, "waits of at least 2 rounds"),
    ],
)
def test_other_values_are_refused(name: str, value: Any, expected: str) -> None:
    with pytest.raises(InputError, match=f"^Expected {expected}, got {value}.$"):
        check_options(Options(**{name: value}))


def test_numbers_of_a_tuple_are_checked_one_by_one() -> None:
    with pytest.raises(InputError, match="^Expected sizes of at least 1, got 3, 0, 2.$"):
        check_options(Options(sizes=(3, 0, 2)))


@dataclass(frozen=True)
class Orders(Checked):
    first: Literal["up", "down"] = "up"
    others: tuple[Literal["up", "down"], ...] = ()
    last: Annotated[Literal["up", "down"] | None, "of a command"] = None


@pytest.mark.parametrize("name", ["first", "others", "last"])
def test_other_words_are_refused(name: str) -> None:
    refused = {"first": "dwn", "others": ("up", "dwn"), "last": "dwn"}[name]
    says = rf"^Expected {name} \(one of up, down\), got 'dwn'. Did you mean down\?$"
    with pytest.raises(InputError, match=says):
        Orders(**{name: refused})
    assert Orders("down", ("up", "down")).last is None


def declaring() -> list[tuple[str, str]]:
    """Every class with a constrained field: its module and its name."""
    return [
        (".".join(path.relative_to(ROOT.parent).with_suffix("").parts), node.name)
        for path in sorted(ROOT.rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and NAMES & {part.id for part in ast.walk(each.annotation) if isinstance(part, ast.Name)}
    ]


def test_what_is_declared_is_checked() -> None:
    found = dict.fromkeys(declaring())
    assert len(found) > 10
    for module, name in found:
        classes = getattr(import_module(module), name).__mro__[:-1]
        assert any("check_options(" in inspect.getsource(each) for each in classes), name
