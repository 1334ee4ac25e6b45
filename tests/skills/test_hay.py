"""Hay and what is hidden there: parts of one running text, raw or in a chat."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tokenizers import normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from headcount.core import ModelError
from headcount.corpora import parts
from headcount.models import Loaded
from headcount.skills import Needles, SkillOptions
from tests import tiny, tiny_tokenizers

LINES = [f"The {word} dog barked at the moon." for word in "old new red big sad hot".split() * 9]
CHAT = replace(SkillOptions(), lengths=(400,), depths=(0.5,), needles=1, chat=True)


def _older_llama() -> PreTrainedTokenizerFast:
    """Llama 2's: every text gets a blank in front, also one that begins with a blank."""
    tokenizer = tiny_tokenizers.llama()
    backend: Any = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence([])
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    return tokenizer


TOKENIZERS = {
    "llama": tiny_tokenizers.llama,
    "older llama": _older_llama,
    "gpt2": lambda: tiny_tokenizers.byte_level("gpt2"),
    "chat": tiny_tokenizers.chatting,
    "bytes": tiny_tokenizers.byt5,
}


def _loaded(tokenizer: PreTrainedTokenizerFast) -> Loaded:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    return Loaded(tiny.seeded(LlamaForCausalLM(config)), tokenizer, "tiny")


@pytest.mark.once
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_prompt_has_the_tokens_of_its_text(name: str) -> None:
    """Parts that are put together are what the tokenizer makes of the whole: no stray blanks."""
    from headcount.cache import CacheOptions, Questions

    tokenizer: Any = TOKENIZERS[name]()
    loaded = _loaded(tokenizer)
    options = SkillOptions(lengths=(400,), depths=(0.1, 0.9), needles=1)
    needles = Needles(loaded, LINES, options)
    for needle in needles.all:
        ids, behind = needle.ids[len(needles.hay.start) :], needle.place + len(needle.answer) + 4
        [_, whole] = parts(tokenizer, "\n", f" {tokenizer.decode(ids).lstrip()}")
        assert [*ids[:behind]] == whole[:behind] and " ." not in tokenizer.decode(ids)
    how = CacheOptions(lengths=(700,), per_length=2, needles=4, recent=40)
    for text in Questions(loaded, LINES * 2, how).all:
        for each in text.questions:
            said = tokenizer.decode([*text.ids[: each.place], *each.cue, *each.answers[0]])
            assert not {"  ", " .", " ,"} & {said[n : n + 2] for n in range(len(said))}, each.kind


@pytest.mark.parametrize(("lines", "off"), [(LINES, 0.05), ([" ".join(LINES)] * 2, 0.4)])
def test_needles_record_the_depth_that_they_reach(lines: list[str], off: float) -> None:
    """Between long lines it is not the one that was asked for."""
    options = SkillOptions(lengths=(400,), depths=(0.0, 0.4, 1.0), needles=1)
    needles = Needles(_loaded(tiny_tokenizers.llama()), lines, options)
    wished = np.array(options.depths * 4)
    found = np.array([needle.depth for needle in needles.all])
    assert off - 0.05 < abs(found - wished).max() <= off + 0.01
    for needle in needles.all:
        cue = max(n for n in range(99) if needle.ids[needle.place - n :][:n] == needle.ids[-n:])
        before = needle.place - cue - len(needles.hay.start)
        assert needle.depth == pytest.approx(before / (needle.length - 2 * cue), abs=0.08)


def test_a_chat_holds_the_text_and_the_reply_begins_with_the_cue() -> None:
    from headcount.cache import NEXT, CacheOptions, Questions

    reply = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    tokenizer: Any = tiny_tokenizers.chatting(tiny_tokenizers.CHATML + reply)
    loaded = _loaded(tokenizer)
    raw, chats = Needles(loaded, LINES, replace(CHAT, chat=False)), Needles(loaded, LINES, CHAT)
    for needle, other in zip(chats.all, raw.all, strict=True):
        assert needle.length == 400 and needle.answer == other.answer
        before, turn, reply = tokenizer.decode(needle.ids).split("<|im_start|>")[1:]
        assert before == "system\nBe brief.<|im_end|>\n" and turn.startswith("user\n The ")
        cue = reply.removeprefix("assistant\n")
        assert f" {cue}{tokenizer.decode(needle.answer)}" in turn, "a needle begins as its cue"
    how = CacheOptions(lengths=(700,), per_length=2, needles=4, recent=40, chat=True)
    for text in Questions(loaded, LINES * 2, how).all:
        assert len(text.ids) == 700
        assert tokenizer.decode(text.ids).startswith("<|im_start|>system\nBe brief.<|im_end|>\n")
        for each in text.questions:
            assert (each.kind == NEXT) != ("<|im_end|>" in tokenizer.decode(each.cue))


def test_a_tokenizer_without_template_is_refused() -> None:
    for tokenizer in (tiny_tokenizers.llama(), tiny_tokenizers.byt5()):
        with pytest.raises(ModelError, match="with a chat template, got that of tiny, which has"):
            Needles(_loaded(tokenizer), LINES, CHAT)  # type: ignore[arg-type]
