"""Names that have moved are found at their old places for one release, with a warning."""

import re
from importlib import import_module
from pathlib import Path

import pytest

UPGRADING = (Path(__file__).parents[2] / "docs" / "upgrading.md").read_text(encoding="utf-8")


def moved() -> list[tuple[str, str]]:
    """The old and the new places of the names in docs/upgrading.md that still work."""
    (old, new), *more = re.findall(
        r"^\| (.+?) \| (.+?); old names work in ", UPGRADING, re.MULTILINE
    )
    assert not more
    names, homes = (re.findall(r"`(\w+\.\w+)`", each) for each in (old, new))
    return list(zip(names, homes, strict=True))


def test_old_names_warn_and_are_the_new_ones() -> None:
    assert len(moved()) == 4
    for old, new in moved():
        (module, name), (home, same) = old.split("."), new.split(".")
        assert name == same
        with pytest.warns(DeprecationWarning, match=f"{name} is headcount.{home}.{name} now"):
            found = getattr(import_module(f"headcount.{module}"), name)
        assert found is getattr(import_module(f"headcount.{home}"), name), old
    with pytest.raises(AttributeError, match="nothing"):
        import_module("headcount.results").nothing  # noqa: B018
