"""Retrieval heads: needles, what is produced for them, and which heads looked at them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount.core import InputError, ModelError
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.models.forward import Removal
from headcount.skills import Needle, Needles, SkillOptions, retrieve, skills
from headcount.skills.needles import KINDS
from tests import saved
from tests.textbook.retrieval import copied_shares

LENGTH = 24
TEXTS = [
    f"The {word} garden was full of people and dogs ." for word in "old new red big".split() * 8
]
OPTIONS = SkillOptions(lengths=(150,), depths=(0.2, 0.8), needles=1, draws=1)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A model of random weights that likes to say the last token again."""
    loaded = headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))
    model: Any = loaded.model
    embedding = model.get_input_embeddings().weight
    embedding.data *= 3
    model.get_output_embeddings().weight = torch.nn.Parameter(embedding.detach().clone())
    return loaded


def _repeating(loaded: Loaded) -> list[Needle]:
    """Prompts of one token each, which the model goes on repeating."""
    size = loaded.model.config.vocab_size
    asked = [
        Needle("same", 0.5, (token,) * (LENGTH + token % 2), (token,) * 3, place)
        for token in range(size)
        for place in (1 + 10 * (token % 2),)
    ]
    found = retrieve(loaded, asked)
    return [needle for needle, exact in zip(asked, found.exact_N, strict=True) if exact]


@pytest.mark.slow
def test_copied_shares_are_those_of_whole_maps(loaded: Loaded) -> None:
    asked = _repeating(loaded)
    others = [
        Needle("other", 0.5, tuple(torch.randperm(60)[:LENGTH].tolist()), (3, 4, 5, 6), 5)
        for _ in range(3)
    ]
    found = retrieve(loaded, asked + others)
    assert found.copied_NH is not None and found.exact_N.sum() == len(asked) > 3
    assert 0 < found.copied_NH[: len(asked)].mean() < 1
    loaded.model.set_attn_implementation("eager")
    try:
        for number, needle in enumerate(found.needles):
            made, shares = copied_shares(
                loaded.model, [*needle.ids], needle.place, len(needle.answer)
            )
            assert found.produced[number] == tuple(made)
            np.testing.assert_allclose(found.copied_NH[number], shares)
    finally:
        loaded.model.set_attn_implementation("sdpa")


@pytest.mark.slow
def test_recall_counts_each_token_once(loaded: Loaded) -> None:
    found = retrieve(loaded, _repeating(loaded)[:1])
    three = replace(found, needles=(replace(found.needles[0], answer=(7, 7, 8)),))
    for produced, recall in [((7, 7, 7), 2 / 3), ((8, 9, 9), 1 / 3), ((8, 7, 7), 1.0)]:
        made = replace(three, produced=(produced,))
        assert made.recall_N.tolist() == [recall] and made.exact_N.tolist() == [False]
        assert made.found_N.tolist() == [recall > 0.5]


@pytest.mark.slow
def test_heads_without_gates_act_as_in_the_prompt(loaded: Loaded) -> None:
    """Zeroing all heads of the model equals the stock model with output projections of zero."""
    asked, heads = _repeating(loaded)[:2], list(loaded.heads)
    gated = retrieve(loaded, asked, Removal(loaded, heads))
    assert gated.copied_NH is None
    kept = {name: each.clone() for name, each in loaded.model.state_dict().items()}
    try:
        for name, each in loaded.model.named_parameters():
            if name.endswith("o_proj.weight"):
                each.data.zero_()
        assert gated.produced == retrieve(loaded, asked).produced
    finally:
        loaded.model.load_state_dict(kept)


def test_needles_stand_at_their_depth_and_in_texts_of_one_length(loaded: Loaded) -> None:
    needles = Needles(loaded, TEXTS, OPTIONS).all
    assert {needle.length for needle in needles} == {150} and len(needles) == 8
    for needle in needles:
        answer = needle.ids[needle.place : needle.place + len(needle.answer)]
        assert answer == needle.answer
        cue = needle.ids[needle.place - 3 : needle.place]
        assert needle.ids[-3:] == cue, "the prompt ends as the needle begins"
    again = Needles(loaded, TEXTS, OPTIONS).all
    assert again == needles != Needles(loaded, TEXTS, replace(OPTIONS, seed=1)).all


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"lengths": ()}, "at least one of lengths, got none"),
        ({"kinds": ()}, "at least one of kinds, got none"),
        ({"prompts": 3}, "at least 4 few-shot prompts of every task, .* got 3"),
        ({"lengths": (50,)}, "at least 100 tokens, got 50"),
        ({"depths": (0.5, 1.5)}, "depths from 0 to 1, got 0.5, 1.5"),
        ({"needles": 0}, "needles of at least 1, got 0"),
        ({"removed": (0,)}, "removed of at least 1, got 0"),
        ({"apart": 0.6}, "from 0 to 0.5 to leave apart, got 0.6"),
    ],
)
def test_options_that_cannot_be_used(given: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        SkillOptions(**given)


def test_texts_and_models_that_are_too_short(loaded: Loaded) -> None:
    with pytest.raises(InputError, match="texts of at least 150 tokens to hide needles in, got 1"):
        Needles(loaded, TEXTS[:1], OPTIONS)
    with pytest.raises(ModelError, match="as many as .* takes with a question"):
        Needles(loaded, TEXTS, replace(OPTIONS, lengths=(10**6,)))


def test_needles_that_leave_no_room(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    long = replace(KINDS["city"], begins="word " * 200 + KINDS["city"].begins)
    monkeypatch.setitem(KINDS, "city", long)
    with pytest.raises(InputError, match="a needle of the kind city and its cue take, got 150"):
        Needles(loaded, TEXTS, OPTIONS)


def test_first_token_is_one_of_the_vocabulary(loaded: Loaded) -> None:
    with pytest.raises(InputError, match="Expected a token of .* to stand first, got '<none>'"):
        skills(loaded, Corpus(TEXTS), replace(OPTIONS, first="<none>"))


def test_encoders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Expected a causal language model"):
        skills(headcount.load(saved.bert(tmp_path)), Corpus(TEXTS), OPTIONS)
