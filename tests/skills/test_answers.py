"""Needles in other words: what they say, which heads add their answers, and what is left out."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import snowballstemmer
import torch

import headcount
from headcount.core import silent
from headcount.models import Loaded, Removal
from headcount.skills import INDIRECT, Hay, Indirect, Inferred, SkillOptions, indirect_needles
from headcount.skills.answers import guessed, reply
from headcount.skills.indirect import IndirectNeedle
from headcount.skills.own_skills import Answers
from tests import saved
from tests.textbook.answers import added_shares

TEXTS = ["The old garden was full of people and dogs .", "She reads a book by the river ."] * 20
FEW = SkillOptions(lengths=(100,), depths=(0.2, 0.8), prompts=4)
COPYING = [f"dec.{1 + bit // 4}.{bit % 4}" for bit in range(10)]
"""The heads of `copier` that look at what came after the last copy of a token."""


def _copied(word: str, known: bool = True) -> Indirect:
    """Needles whose question does name them, so that heads that copy answer; or that none does."""
    facts = ((f"{{}} {word} {each} .", each) for each in ("Lisbon", "Oslo", "Quito", "Lima"))
    return Indirect("?", word if known else "green", tuple(facts))


KINDS = {word: _copied(word) for word in ("hot", "early")}


def _asked(loaded: Loaded, kinds: Mapping[str, Indirect]) -> list[IndirectNeedle]:
    return [*indirect_needles(Hay(loaded, TEXTS), FEW, kinds)]


def _stems(text: str) -> set[str]:
    """The stems of a text's content words."""
    plain = "".join(each if each.isalpha() else " " for each in text.lower())
    return set(snowballstemmer.stemmer("english").stemWords(plain.split())) - FUNCTION


FUNCTION = set(
    "a all and at back back by for from full has her hers his in is it its of off on one or she "
    "that the thi this to until was what when where which who with".split()
)
"""Stems of words without content."""


def test_no_question_shares_a_stem_with_its_needle() -> None:
    assert len(INDIRECT) == 5 and {len(each.facts) for each in INDIRECT.values()} == {8}
    for kind in INDIRECT.values():
        asked = _stems(f"{kind.question} {kind.begins}")
        for needle, answer in kind.facts:
            assert needle.count("{}") == 1
            assert not _stems(needle) & (asked | _stems(answer)), (needle, asked, answer)
        assert len({answer for _, answer in kind.facts}) == len(kind.facts)
    assert _stems("Many cities") & _stems("In which city?"), "the stemmer knows plurals"


def test_prompts_hold_needle_question_and_another_stretch() -> None:
    from headcount.testing.skill_checks import copier

    loaded = copier()
    needles = _asked(loaded, KINDS)
    assert len(needles) == 8 and {each.length for each in needles} == {100}
    for each in needles:
        inside = each.ids[each.place : each.place + each.size]
        assert each.answer[0] in inside and each.answer[0] not in each.without
        assert each.ids[-1] in inside
        stretch = range(each.elsewhere, each.elsewhere + each.size)
        assert not {*stretch} & {*range(each.place, each.place + each.size)}
    assert {round(each.depth, 1) for each in needles} == {0.2, 0.8}


def test_shares_are_those_of_whole_maps(tmp_path_factory: pytest.TempPathFactory) -> None:
    loaded = headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))
    needle = replace(_asked(loaded, {"hot": _copied("hot")})[0], answer=(7, 9, 4))
    (found,) = reply(loaded, [needle], is_heard=True)
    assert found.share_2H is not None and np.abs(found.share_2H).sum(1) == pytest.approx([1, 1])
    loaded.model.set_attn_implementation("eager")
    try:
        for part, place in enumerate((needle.place, needle.elsewhere)):
            expected = added_shares(loaded.model, needle, place)
            np.testing.assert_allclose(found.share_2H[part], expected, atol=1e-4)
        ids_1N = torch.tensor([[*needle.ids, *needle.answer]])
        logits_NV = loaded.model(ids_1N).logits[0, len(needle.ids) - 1 : -1]
        assert found.likeliest == tuple(logits_NV.argmax(-1).tolist())
    finally:
        loaded.model.set_attn_implementation("sdpa")


def test_the_heads_that_are_known_to_fetch_are_found() -> None:
    from headcount.testing import check_skill
    from headcount.testing.skill_checks import copier

    found = check_skill(Answers(FEW, KINDS), model=copier(), data=TEXTS, heads=COPYING)
    left = {each.name for each in found.outcomes if each.state == "left out"}
    assert left == {"exchanged", "twin"}, "a model of random weights answers none"


def test_kinds_and_guessed_needles_are_left_out_and_counted() -> None:
    from headcount.testing.skill_checks import copier

    loaded = copier()
    silly = Indirect("?", "Lisbon early", (("{} hot Lisbon .", "early"),))
    unknown = _copied("big", known=False)
    found = Inferred(loaded, _asked(loaded, KINDS | {"big": unknown, "silly": silly}), silent)
    assert found.recalls["hot"] == found.recalls["early"] == (4, 4)
    assert found.recalls["big"] == (0, 4)
    (left,) = found.warnings()
    assert left.endswith("less than half right are left out: big (0 of 4), silly (0 of 1)")
    rows = [*found.rows()]
    assert [row.is_asked for row in rows] == [True] * 8 + [False] * 5
    assert [row.is_right for row in rows] == [True] * 8 + [False] * 5
    assert found.score.value_NH.shape == (8, len(loaded.heads)) and found.null == 0
    asked = found.asked[0]
    removal = Removal(loaded, [each for each in loaded.heads if str(each) in COPYING])
    assert asked.answers([0, 1], removal).tolist() == [[0, 0], [0, 0]]
    assert asked.answers([0, 1], Removal(loaded, [])).tolist() == [[1, 1], [1, 1]]


def test_what_is_answered_without_the_needle_does_not_count() -> None:
    from headcount.testing.skill_checks import copier

    loaded = copier()
    known = _asked(loaded, KINDS)
    told = [
        replace(each, ids=(*each.ids[:2], each.ids[-1], each.answer[0], *each.ids[4:]))
        for each in known[:3]
    ]
    assert guessed(loaded, [*told, known[3]]) == [True, True, True, False]
    found = Inferred(loaded, [*told, *known[3:]], silent)
    assert found.recalls["hot"] == (1, 1)
    assert next(iter(found.warnings())).startswith("3 needles of 8 that are asked in other words")
    assert len(found.score.value_NH) == 5


def test_a_model_of_fewer_than_two_kinds_can_not_be_asked() -> None:
    from headcount.testing.skill_checks import copier

    loaded = copier()
    kinds = {"hot": KINDS["hot"], "big": _copied("big", known=False)}
    found = Inferred(loaded, _asked(loaded, kinds), silent)
    (why,) = found.warnings()
    assert why.startswith("this model can't be asked for needles in other words than theirs")
    assert why.endswith("It answered hot (4 of 4), big (0 of 4)")
    assert not found.asked and found.null is None and not found.score.is_known
