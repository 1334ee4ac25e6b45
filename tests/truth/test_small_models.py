"""Random programs in models of at most four layers: every head's role, and what it is worth."""

import pytest

from headcount.testing import Family, auroc
from tests.truth.random_programs import drawn

FAMILIES: tuple[Family, ...] = ("gpt2", "llama", "grouped", "encoder")


EVERYDAY = 8


@pytest.mark.parametrize(
    "seed",
    [*range(EVERYDAY), *(pytest.param(n, marks=pytest.mark.slow) for n in range(EVERYDAY, 20))],
)
def test_roles_and_worth_are_those_of_the_program(seed: int) -> None:
    known = drawn(seed, FAMILIES[seed % len(FAMILIES)], texts=50)
    program = known.program
    analysis = known.analysis()
    for head in known.heads:
        planted = program.of(head)
        named = {(each.role, each.offset) for each in analysis.roles[str(head)]}
        if expected := known.role_of(planted):
            assert named == {expected}, (head, planted)
        elif planted.kind in ("idle", "mean"):
            assert not named, (head, planted)
        if planted.kind not in ("idle", "mean"):
            assert analysis.offset_shares[str(head)] == pytest.approx(known.offsets(planted))
    effects, expected = known.effects(), known.true_effects()
    kinds = {head: program.of(head).purpose for head in known.heads}
    worthless = [effects[head] for head in kinds if kinds[head] in ("idle", "silent")]
    assert max(map(abs, worthless)) < 1e-6
    noisy = [effects[head] for head in kinds if kinds[head] == "noise"]
    needed = [effects[head] for head in kinds if kinds[head] == "needed"]
    assert auroc(needed, worthless + noisy) == 1
    assert effects == pytest.approx(expected, abs=0.21)  # of an undone head, 4 standard errors
