"""Rows in which a token stands for a picture, sound or video are refused, or left out."""

import json
from dataclasses import replace
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError
from headcount.corpora import Corpus, Encoder, HowRead, ReadAs
from headcount.tasks import build
from tests import tiny_tokenizers
from tests.corpora.test_chats import CHATML
from tests.tasks.loaded import loaded

LEFT_OUT = HowRead(without_media=True)
LINE = "Look at <image> there."
PICTURE = [{"type": "image"}, {"type": "text", "text": "What is it?"}]
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": PICTURE},
    {"role": "assistant", "content": "A dog."},
]


def seeing(template: str = CHATML) -> PreTrainedTokenizerBase:
    tokenizer = tiny_tokenizers.chatting(template)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>", "<|audio|>"]})
    return tokenizer


@pytest.mark.slow
@pytest.mark.parametrize("row", [LINE, "A <|audio|>", {"messages": CHAT}])
def test_rows_with_media_are_refused_or_left_out(row: Any) -> None:
    corpus, encoder = Corpus(["A dog.", row]), Encoder(seeing())
    with pytest.raises(CorpusError, match=r"row 2: expected text alone, got .*--without-media"):
        encoder.encode([*corpus])
    whole = corpus.sha256()
    rest = Corpus(ReadAs(["A dog.", row], LEFT_OUT))
    with pytest.warns(UserWarning, match="sound or video are left out: 1"):
        assert [each.text for each in rest] == ["A dog."]
    assert rest.sha256() != whole


def test_tasks_refuse_them_or_leave_them_out() -> None:
    from headcount.skills import Hay
    from tests.explanation.test_reader import GPT2, case

    held = replace(loaded(GPT2), tokenizer=seeing())
    data = [{"text": "A dog barked."}, {"text": LINE}, {"text": "Nobody could sleep."}]
    with pytest.raises(CorpusError, match="row 2: expected text alone, got <image>, which stands"):
        build("causal-lm", held, data)
    with pytest.raises(CorpusError, match="row 1: expected text alone, got a part of the type"):
        build("causal-lm", held, [{"messages": CHAT}])
    with pytest.warns(UserWarning, match="left out: 1"):
        task = build("causal-lm", held, ReadAs(data, LEFT_OUT))
    assert task.num_examples == 2 and json.dumps(data)
    with pytest.raises(CorpusError, match="The prompt: expected text alone.* out of the prompt.$"):
        case(held, LINE, " dog")
    with pytest.raises(CorpusError, match="text 2: expected text alone"):
        Hay(held, ["A dog.", LINE])


def test_such_a_word_is_a_word_for_other_models() -> None:
    """Only a tokenizer that has the token says that it stands for media."""
    (pair,) = Encoder(tiny_tokenizers.byte_level("gpt2")).encode([*Corpus([LINE])])
    assert len(pair.source.ids) > 4
