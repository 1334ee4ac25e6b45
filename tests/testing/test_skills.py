"""Our own skills run the checks that plug-ins run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headcount.skills import SKILL_CLASSES, SkillOptions
from headcount.skills.own_skills import FunctionVector, Retrieval
from headcount.testing import Checked, Outcome, check_skill, parametrize
from headcount.testing.skill_checks import copier
from headcount.vocabulary import PICTURE_SKILLS, SKILLS

TEXTS = ["The old garden was full of people and dogs .", "She reads a book by the river ."] * 20
FEW = SkillOptions(kinds=("city",), lengths=(100,), prompts=4)
COPYING = [f"dec.{1 + bit // 4}.{bit % 4}" for bit in range(10)]
"""The heads of `copier` that look at what came after the last copy of a token."""


def test_the_registry_has_all_of_ours() -> None:
    every = {**SKILLS, **PICTURE_SKILLS}
    assert [*SKILL_CLASSES.own] == [*every]
    assert [SKILL_CLASSES[name].entry() for name in every] == [*every.values()]


@pytest.mark.slow
@parametrize(SKILL_CLASSES["induction"], heads=COPYING)
def test_induction(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.once
@parametrize(SKILL_CLASSES["previous_token"], heads=["dec.0.1"])
def test_the_previous_token(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.slow
@parametrize(SKILL_CLASSES["duplicate_token"], heads=[])
def test_an_earlier_copy(check: Callable[[], Outcome]) -> None:
    check()


def _left_out(found: Checked) -> set[str]:
    return {each.name for each in found.outcomes if each.state == "left out"}


def test_retrieval() -> None:
    """A model of random weights finds no needle, so that no heads of it can change places."""
    found = check_skill(Retrieval(FEW), model=copier(), data=TEXTS, heads=COPYING)
    assert _left_out(found) == {"exchanged", "twin"}


@pytest.mark.slow
def test_function_vectors(tmp_path: Path) -> None:
    """A model that copies says what it was asked, and needs no mean output of a head for it."""
    (tmp_path / "same.tsv").write_text("".join(f"{each}\t{each}\n" for each in TEXTS[0].split()))
    options = SkillOptions(prompts=4, tasks=tmp_path)
    found = check_skill(FunctionVector(options), model=copier(), heads=[])
    assert _left_out(found) == {"exchanged", "twin"}
