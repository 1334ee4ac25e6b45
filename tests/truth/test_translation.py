"""A program of an encoder-decoder: roles and worth at every site, and the links of its words."""

import pytest

import headcount
from headcount.core import Head
from headcount.importance import Options, assess
from headcount.tasks import Translation as Task
from headcount.testing import Planted, Translation, planted_model, written
from tests.truth.translations import corpus_of, errors

TELLS, COPIES, READS_TOLD, AHEAD, BEFORE = (
    Planted(Head("encoder.self", 0, 1), "tell", "needed"),
    Planted(Head("decoder.cross", 0, 2), "offset", "needed", 2, 0, 3.0),
    Planted(Head("decoder.cross", 1, 0), "offset", "needed", 3, 1, 3.0, reads_told=True),
    Planted(Head("decoder.cross", 1, 3), "offset", "silent", 3, offset=1),
    Planted(Head("decoder.self", 0, 0), "offset", "needed", 4, 2, 3.0, -1),
)
PROGRAM = Translation((TELLS, COPIES, READS_TOLD, AHEAD, BEFORE), layers=2)


@pytest.mark.slow
def test_a_translation_by_position_is_known_head_by_head() -> None:
    model, pairs = planted_model(PROGRAM, "translator"), PROGRAM.pairs(60, seed=0)
    sources, targets = ([written(side) for side in sides] for sides in zip(*pairs, strict=True))
    options = Options(("ablation",), layers=False, one_left=False, samples=99)
    found = assess(model, Task(model, {"source": sources, "target": targets}), options)
    expected = PROGRAM.effects(pairs, [(head,) for head in model.heads])
    assert [*found.heads.frame["ablation_delta"]] == pytest.approx(expected, abs=0.1)

    roles = headcount.analyze(model, corpus_of(pairs)).roles
    named = {head: [(each.role, each.offset) for each in some] for head, some in roles.items()}
    offsets = {each.head: each.offset for each in PROGRAM.planted} | {TELLS.head: -1}
    looking = {str(head): [("positional", offset)] for head, offset in offsets.items()}
    assert {head: some for head, some in named.items() if some} == looking

    wrong = errors(model, pairs)
    assert wrong[str(COPIES.head)] == wrong[str(READS_TOLD.head)] == 0
    assert sorted(wrong.values())[2] > 0.5
