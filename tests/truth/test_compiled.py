"""Compiled programs: every head's role, and what it is worth."""

from pathlib import Path

import pytest

from headcount.testing import auroc
from tests.truth.compiled import compiled

pytest.importorskip("torchwright", reason="needs the extra truth: make truth")


@pytest.mark.parametrize("seed", range(8))
def test_roles_and_worth_are_those_of_the_program(seed: int, tmp_path: Path) -> None:
    known = compiled(seed, tmp_path / "model")
    analysis, effects, program = known.analysis(), known.effects(), known.program
    for planted in program.planted:
        named = {(each.role, each.offset) for each in analysis.roles[str(planted.head)]}
        expected = known.role_of(planted)
        assert named == ({expected} if expected else set()), planted
    needed = [effects[each.head] for each in program.planted if each.purpose == "needed"]
    others = [effects[each.head] for each in program.planted if each.purpose == "silent"]
    assert auroc(needed, others) == 1
