"""Twenty random programs in models of at most four layers: every head's role and worth is right.

Two files of tests share them, so that two processes do.
"""

import pytest

from headcount.testing import Family, auroc
from tests.truth.random_programs import drawn

FAMILIES: tuple[Family, ...] = ("gpt2", "llama", "grouped", "encoder")
MODELS = 20


def small_models(*families: Family) -> list[tuple[int, Family]]:
    """The seeds of the models of some families, which take turns."""
    every = [(seed, FAMILIES[seed % len(FAMILIES)]) for seed in range(MODELS)]
    return [(seed, family) for seed, family in every if family in families]


def check(seed: int, family: Family) -> None:
    """Check what `analyze` and ablation say of every head of the model of a seed."""
    known = drawn(seed, family, texts=50)
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
