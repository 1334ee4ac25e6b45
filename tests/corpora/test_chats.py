"""Chats as their template writes them: what is content, whose it is, and what is refused."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headcount.core import CorpusError, ModelError
from headcount.corpora import Corpus, Encoder, Sentence, chat_tokens
from tests import tiny_tokenizers
from tests.tiny_tokenizers import CHATML

CHAT = [
    {"role": "user", "content": "user\n The old dog. "},
    {"role": "assistant", "content": "Nobody in the village\n\ncould sleep."},
    {"role": "user", "content": ""},
]


def said(chat: list[dict[str, Any]], template: str = CHATML) -> list[tuple[str, str | None]]:
    """The text of each stretch of tokens of one role."""
    tokenizer = tiny_tokenizers.chatting(template)
    found = chat_tokens(tokenizer, json.dumps(chat), "here")
    stretches: list[tuple[list[int], str | None]] = []
    for token, role in zip(found.ids, found.roles, strict=True):
        if not stretches or stretches[-1][1] != role:
            stretches.append(([], role))
        stretches[-1][0].append(token)
    return [(str(tokenizer.decode(ids)), role) for ids, role in stretches]


def test_only_what_messages_say_is_content() -> None:
    """A role's name in its own message is content; the system message that nobody wrote is not."""
    assert said(CHAT) == [
        ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n", None),
        ("user\n The old dog.", "user"),
        ("<|im_end|>\n<|im_start|>assistant\n", None),
        ("Nobody in the village\n\ncould sleep.", "assistant"),
        ("<|im_end|>\n<|im_start|>user\n<|im_end|>\n", None),
    ]


def test_a_template_may_leave_messages_out_and_change_their_order() -> None:
    template = "{{ messages[1].content }}|{{ messages[0].content }}"
    assert said(CHAT, template) == [
        ("Nobody in the village\n\ncould sleep.", "assistant"),
        ("|", None),
        ("user\n The old dog. ", "user"),
    ]


def test_a_content_may_be_a_list_of_parts() -> None:
    template = "{% for part in messages[0].content %}[{{ part.text }}]{% endfor %}"
    chat = [{"role": "user", "content": [{"type": "text", "text": each} for each in ("A", "B")]}]
    assert said(chat, template) == [
        ("[", None),
        ("A", "user"),
        ("][", None),
        ("B", "user"),
        ("]", None),
    ]


def test_chats_of_a_file_and_in_memory_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"messages": CHAT}) + '\n{"text": "A dog."}\n')
    (chat, text), held = Corpus(path), Corpus([{"messages": CHAT}, "A dog."])
    assert chat.text == "user The old dog. Nobody in the village could sleep."
    assert json.loads(chat.messages or "") == CHAT and text.messages is None
    assert [each.messages for each in held] == [chat.messages, None]
    assert held.sha256() != Corpus([chat.text, "A dog."]).sha256()
    encoder = Encoder(tiny_tokenizers.chatting())
    (pair, other) = encoder.encode([chat, text])
    found = chat_tokens(encoder.tokenizer, chat.messages or "", "here")
    assert pair.source.ids == found.ids and set(pair.source.word_of) == {-1}
    assert pair.source.is_special == [role is None for role in found.roles]
    assert not any(other.source.is_special)
    short = Encoder(encoder.tokenizer, max_length=30)
    (pair,) = short.encode([chat])
    assert (len(pair.source.ids), pair.source.truncated) == (30, True)
    windows = Encoder(encoder.tokenizer, max_length=60, windows=True).encode([chat])
    before = found.ids[: pair.source.num_before]
    assert len(windows) > 1 and all(one.source.ids[: len(before)] == before for one in windows)
    named = Corpus([{"turns": CHAT}], columns={"text": "turns"})
    assert [each.messages for each in named] == [chat.messages]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (["hi"], "expected messages such as .* got 'hi' .message 1."),
        ([CHAT[0], {"content": "x"}], "expected .* got {'content': 'x'} .message 2.. Fix"),
        ([{"role": "user", "content": "\ud800"}], "expected messages such as"),
        ([{"role": "user"}], "expected a message with some content, got none"),
        ([], "expected a message with some content, got none"),
    ],
)
def test_bad_messages_have_a_number(cell: list[Any], message: str) -> None:
    with pytest.raises(CorpusError, match=f"row 2: {message}"):
        Corpus([{"messages": CHAT}, {"messages": cell}])


def test_what_a_template_can_not_write_is_refused(tmp_path: Path) -> None:
    loud, broken = "{{ messages[0].content | upper }}", "{{ raise_exception('roles alternate') }}"
    with pytest.raises(CorpusError, match="here: expected a chat template that writes messages as"):
        said(CHAT, loud)
    with pytest.raises(CorpusError, match="here: .* refuses them: roles alternate. Fix or remove"):
        said(CHAT, broken)
    plain, slow = tiny_tokenizers.starting(), tiny_tokenizers.marian(tmp_path)
    with pytest.raises(ModelError, match="a tokenizer with a chat template, since the row holds"):
        Encoder(plain).encode([Sentence("x", messages=json.dumps(CHAT))])
    slow.chat_template = CHATML
    with pytest.raises(ModelError, match="here: expected a fast tokenizer, since the row holds"):
        chat_tokens(slow, json.dumps(CHAT), "here")


@pytest.mark.parametrize("loops", ["{% for a in range(99) %}", "{% for a in lipsum(n=99) %}"])
def test_a_template_without_end_is_stopped_by_its_steps(
    loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.corpora.chats.MOST_STEPS", 10_000)
    before = sys.gettrace()
    with pytest.raises(CorpusError, match="here: expected a chat template that ends, got one that"):
        said(CHAT, f"{loops * 5}{'{% endfor %}' * 5}")
    assert sys.gettrace() is before
    assert said(CHAT, "{% for n in range(3) %}{{ messages[n].content }}|{% endfor %}"), "few steps"
