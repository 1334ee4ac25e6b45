"""What a smaller model can still do, on a model whose every head is known."""

import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from headcount.compaction import compact
from headcount.core import InputError, ModelError, Plan
from headcount.corpora import Corpus
from headcount.measures import RepeatedTokens
from headcount.models import Loaded
from headcount.results import PruneRecord, SkillChange
from headcount.skills import BRIEF, SkillOptions, heads_with, kept_skills
from headcount.skills.abilities import change_of
from headcount.skills.measuring import LENGTH
from headcount.skills.measuring import TEXTS as NUM_TEXTS
from headcount.tasks import build

OPTIONS = SkillOptions(kinds=("city",), lengths=(100, 130), prompts=4)


def without(loaded: Loaded, *names: str) -> Loaded:
    """The compact model without some heads."""
    kept = [head for head in loaded.heads if str(head) not in names]
    model = compact(loaded, Plan.keeping(loaded.heads, kept))
    return replace(loaded, model=model, inputs=None)


@pytest.mark.once
def test_a_skill_is_lost_with_one_of_its_heads() -> None:
    """Ten heads write a bit each of the token that is copied; nothing else matters."""
    from headcount.testing.skill_checks import copier
    from tests.testing.test_skills import COPYING, TEXTS

    dense, names = copier(), ("induction", "retrieval")
    for gone, is_kept in ((["dec.0.0"], True), (COPYING[:4], False)):
        found = kept_skills(dense, without(dense, *gone), Corpus(TEXTS), names, OPTIONS)
        assert [each.skill for each in found] == [*names]
        for each in found:
            assert each.before >= 0.9 and (each.high < 0) is not is_kept
            assert each.low <= each.after - each.before <= each.high
            assert each.after == each.before if is_kept else each.after < 0.7
    assert found[0].cases == 16 and found[1].cases == 20


def test_a_pruned_model_is_compared_with_the_one_that_was_given(tmp_path: Path) -> None:
    """Not with the one whose weights compensate: it was never meant to run with all its heads."""
    from headcount.artifact import save_pruned
    from headcount.artifact.making import heads_record
    from headcount.pruning import Pruned
    from headcount.testing.skill_checks import copier
    from tests.testing.test_skills import COPYING, TEXTS

    given, kept = copier(), [head for head in copier().heads if str(head) not in COPYING[:4]]
    plan, changed = Plan.keeping(given.heads, kept), deepcopy(given.model)
    for layer in given.anatomy.layers:
        weight = changed.get_submodule(layer.module).get_parameter("o_proj.weight")
        for head in plan.pruned_heads(given.heads):
            if head.layer == layer.layer:
                weight.data[:, head.index * layer.head_dim : (head.index + 1) * layer.head_dim] = 0
    dense = replace(given, model=changed)
    small = replace(given, model=compact(dense, plan), inputs=None)
    record = heads_record(given, plan, ())
    pruned = Pruned(plan, given, dense, small, record, build("causal-lm", given, ["a dog"] * 2))
    [found] = save_pruned(pruned, tmp_path / "out", skills=["induction"]).skills
    assert found.before >= 0.9 and found.high < 0
    assert kept_skills(dense, small, Corpus(TEXTS), ["induction"]) == (), "the other does nothing"
    chat = replace(pruned, asked=replace(BRIEF, chat=True))
    [warning] = save_pruned(chat, tmp_path / "chat", skills=["retrieval"]).warnings
    assert "not asked for the skill retrieval" in warning and "with a chat template" in warning


def test_without_a_template_a_chat_is_refused_before_heads_are_chosen() -> None:
    """And heads to protect are asked in the chat, too."""
    from headcount.pruning import PruneSettings
    from headcount.pruning.context import known_roles
    from headcount.testing.skill_checks import copier

    loaded, asked = copier(), replace(BRIEF, chat=True)
    with pytest.raises(ModelError, match="Leave --chat out"):
        PruneSettings(asked=asked).context(loaded, build("causal-lm", loaded, ["a dog"] * 2))
    with pytest.raises(ModelError, match="Leave --chat out"):
        known_roles(loaded, protect=("retrieval",), asked=asked)


def test_induction_is_the_share_of_repeated_tokens_that_are_the_likeliest() -> None:
    """Counted with a loop over tokens, in a model that tells some of them from none or one other.

    Two tokens that differ by the lost bit alone are as likely as each other but for last bits.
    """
    from headcount.testing.skill_checks import copier
    from tests.testing.test_skills import TEXTS

    dense = copier()
    smaller = without(dense, "dec.1.0")
    [found] = kept_skills(dense, smaller, Corpus(TEXTS), ["induction"], OPTIONS)
    ids_BN = RepeatedTokens.draw(dense, LENGTH, NUM_TEXTS, OPTIONS.seed).ids_BN[:NUM_TEXTS]
    length = (ids_BN.shape[1] - 1) // 2
    sure, possible, model = list[float](), list[float](), cast(Any, smaller.model)
    for ids_N in ids_BN:
        with torch.no_grad():
            logits = model(input_ids=ids_N[None]).logits[0]
        ahead = list[float]()
        for place in range(1 + length, 2 * length):
            token = int(ids_N[place + 1])
            others = [float(each) for n, each in enumerate(logits[place]) if n != token]
            ahead.append(float(logits[place, token]) - max(others))
        sure.append(float(np.mean([each > 1e-3 for each in ahead])))
        possible.append(float(np.mean([each > -1e-3 for each in ahead])))
    assert np.mean(sure) - 1e-9 <= found.after <= np.mean(possible) + 1e-9
    assert 0 < found.after < 1 == found.before


def test_nothing_is_said_of_what_the_dense_model_can_not_do() -> None:
    from headcount.testing.skill_checks import undirected
    from tests.testing.test_skills import TEXTS

    dense = undirected()
    assert kept_skills(dense, dense, Corpus(TEXTS), ("retrieval",), OPTIONS) == ()
    with pytest.raises(InputError, match="a skill to ask for .* got 'inducton'. Did you mean"):
        kept_skills(dense, dense, Corpus(TEXTS), ("inducton",))


def test_an_interval_without_differences_is_no_point() -> None:
    same = np.ones(40)
    found = change_of("retrieval", same, same)
    assert (found.before, found.after) == (1.0, 1.0)
    assert -found.low == found.high == pytest.approx(0.0876, abs=1e-4), "Wilson's of 0 in 40"
    assert found.high >= 0 > change_of("retrieval", same, 0 * same).high


@pytest.mark.once
def test_heads_are_protected_by_a_skill() -> None:
    from headcount.pruning.context import protected_heads
    from headcount.testing.skill_checks import copier
    from tests.testing.test_skills import COPYING, TEXTS

    dense = copier()
    found = heads_with(dense, Corpus(TEXTS), ["retrieval"], OPTIONS)
    copying = [head for head, names in found.items() if names]
    assert copying == [*COPYING]
    roles = {head: ["induction", *names] for head, names in found.items()}
    assert [*map(str, protected_heads(["retrieval"], dense, roles))] == copying
    nobody = {head: list[str]() for head in roles}
    with pytest.raises(InputError, match="the skill retrieval to protect, found none .* 0.1 or"):
        protected_heads(["retrieval"], dense, nobody)


def test_the_card_says_what_was_lost() -> None:
    from headcount.artifact.card import head_card

    lost = SkillChange("function_vector", 20, 0.8, 0.35, -0.6, -0.3)
    record = PruneRecord(
        model="m", heads={"decoder.self": (2,)}, kept=(), pruned=(), skills=(lost,)
    )
    text = re.sub(" +", " ", head_card(record).markdown())
    assert "## Skills" in text
    assert "| function vector | 80 % | 35 % | −45 (−60 to −30) | 20 |" in text
    said = "Skill function vector: 80\u202f% → 35\u202f% right (−60 to −30 points, 20 cases)"
    assert lost.sentence == said
