"""A text of twice the length takes twice the operations: labels, words, chats, documents."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from headcount.corpora import (
    Encoder,
    Sentence,
    chat_tokens,
    in_one_line,
    label_source,
    labelled_tokens,
    tokenizing,
    word_pairs,
)
from headcount.corpora.word_pairs import encode_one_sequence, encode_two_sides, pairs_of_words
from tests import tiny_tokenizers
from tests.operations import Copied, Operations

MOST = 2.3
"""Largest ratio of the operations for two lengths, of which one is twice the other."""

WORDS, CHINESE, ONE_WORD, BLANK = "The old dog barked, ", "老狗在叫", "abcdefgh", "a \n \n "

WORDPIECE, BYTES = Encoder(tiny_tokenizers.wordpiece()), Encoder(tiny_tokenizers.byte_level("gpt2"))
T5, BYT5 = (Encoder(each(), start_id=0) for each in (tiny_tokenizers.t5, tiny_tokenizers.byt5))
CHAT = tiny_tokenizers.chatting()


def two_sides(encoder: Encoder) -> Callable[[str], object]:
    return lambda text: [*encode_two_sides(encoder, pairs_of_words([Sentence(text, target=text)]))]


def one_sequence(text: str) -> object:
    pairs = pairs_of_words([Sentence(text, target=text)], split_punctuation=True)
    return [*encode_one_sequence(BYTES, pairs, " = ")]


def treebank(encoder: Encoder) -> Callable[[str], object]:
    return lambda text: encoder.sources([Sentence(text, tuple(text.split()))])


def chat(text: str) -> object:
    messages = [{"role": "user", "content": each} for each in text.split()]
    return chat_tokens(CHAT, json.dumps(messages), "here")


def document(text: str) -> object:
    return in_one_line([Sentence(each, (each,)) for each in text.split()])


CASES: dict[str, tuple[Callable[[str], object], Sequence[str]]] = {
    "label": (lambda text: label_source(WORDPIECE, text), (WORDS, CHINESE, ONE_WORD)),
    "label bytes": (lambda text: label_source(BYTES, text), (WORDS, CHINESE, ONE_WORD, BLANK)),
    "label a pair": (lambda text: label_source(WORDPIECE, text, text), (WORDS, CHINESE)),
    "label by letters": (lambda text: label_source(BYT5, text), (WORDS, CHINESE, ONE_WORD)),
    "two sides": (two_sides(T5), (WORDS, ONE_WORD)),
    "two sides by letters": (two_sides(BYT5), (WORDS, CHINESE)),
    "one sequence": (one_sequence, (WORDS, CHINESE, BLANK)),
    "treebank": (treebank(WORDPIECE), (WORDS,)),
    "treebank by letters": (treebank(BYT5), (WORDS,)),
    "chat": (chat, (WORDS,)),
    "document": (document, (WORDS,)),
}


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, (_, texts) in CASES.items() for text in texts]
)
def test_a_text_of_twice_the_length_takes_twice_the_operations(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = Operations()
    for module in (labelled_tokens, word_pairs, tokenizing):
        monkeypatch.setattr(module, "encodings", _copied(tokenizing.encodings, operations))
    run = CASES[name][0]
    one, two = (operations.of(partial(run, text * times)) for times in (30, 60))
    assert one > 40 and two <= MOST * one, f"{one:,} operations became {two:,}"


def _copied(encodings: Any, operations: Operations) -> Any:
    def copied(*given: Any, **options: Any) -> list[tokenizing.Pieces]:
        found = encodings(*given, **options)
        for each in found:
            each._encoding = Copied(each._encoding, operations.add)
        return found

    return copied
