"""Names that have moved are found at their old places for one release, with a warning."""

import re
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from headcount.core import InputError

UPGRADING = (Path(__file__).parents[2] / "docs" / "upgrading.md").read_text(encoding="utf-8")


def moved() -> list[tuple[str, str]]:
    """The old and the new places of the names in docs/upgrading.md."""
    pairs = []
    for old, new in re.findall(r"^\| (.+?) \| (.+?) \|$", UPGRADING, re.MULTILINE):
        names = re.findall(r"`((?:results|analysis|reports)\.\w+)`", old)
        homes = re.findall(r"`(?:headcount\.)?(\w+)(?:\.\w+)?`", new)
        pairs += zip(names, homes if len(homes) == len(names) else homes * len(names), strict=True)
    return pairs


def test_old_names_warn_and_are_the_new_ones() -> None:
    assert len(moved()) > 12
    for old, home in moved():
        module, name = old.split(".")
        with pytest.warns(DeprecationWarning, match=f"{name} is headcount.{home}.{name} now"):
            found = getattr(import_module(f"headcount.{module}"), name)
        assert found is getattr(import_module(f"headcount.{home}"), name), old
    with pytest.raises(AttributeError, match="nothing"):
        import_module("headcount.results").nothing  # noqa: B018


def retired(module: str, name: str) -> object:
    """A name that nothing replaces one by one, which warns and is in docs/upgrading.md."""
    assert f"`{module}.{name}`" in UPGRADING
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} goes with the next release"):
        return getattr(import_module(f"headcount.{module}"), name)


def test_retired_types_still_list_their_names() -> None:
    assert {"translation", "causal-lm", "search"} <= {*get_args(retired("tasks", "TaskName"))}
    assert {"gradient", "ablation", "fisher"} <= {*get_args(retired("importance", "MethodName"))}
    with pytest.raises(AttributeError, match="nothing"):
        import_module("headcount.tasks").nothing  # noqa: B018


def test_the_retired_check_of_budgets_still_checks() -> None:
    check = retired("pruning", "check_budget")
    assert callable(check)
    check(8, None, None, None, None)
    with pytest.raises(InputError, match="Expected a budget out of --keep"):
        check(None, None, None, None, None)
    with pytest.raises(InputError, match="latency above 0"):
        check(None, None, None, None, -1.0)
