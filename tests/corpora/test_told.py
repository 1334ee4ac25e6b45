"""Chats as data sets hold them: what beside messages the template is given, thoughts, calls."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headcount.core import CorpusError, InputError, ModelError
from headcount.corpora import Corpus, Encoder, chat_tokens, template_values, user_prompt
from headcount.tasks import build, read_examples
from tests import tiny_tokenizers
from tests.corpora.test_chats import said
from tests.tasks.loaded import loaded

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
SHARE = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]
TOOLS = [{"type": "function", "function": {"name": "find"}}]
CALLING = """{% for tool in tools or [] %}<tool>{{ tool | tojson }}</tool>{% endfor %}
{%- for each in documents or [] %}<doc>{{ each.text }}</doc>{% endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or "" }}{% for call in message.tool_calls or [] %}<call>
{{ call.function | tojson }}</call>{% endfor %}<|im_end|>
{% endfor %}{% if mood is defined %}({{ mood }}){% endif %}"""
QWEN = """{%- for message in messages %}<|im_start|>{{ message.role }}
{% set text = message.content %}
{%- if message.role == "assistant" and "</think>" in text %}
{%- set thought = text.split("</think>")[0].rstrip("\\n").split("<think>")[-1].lstrip("\\n") %}
{%- set text = text.split("</think>")[-1].lstrip("\\n") %}
{%- if loop.last %}{% set text = "<think>\\n" ~ thought ~ "\\n</think>\\n\\n" ~ text %}{% endif %}
{%- endif %}{{ text }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% if enable_thinking is defined and enable_thinking is false %}
</think>

{% endif %}{% endif %}"""


def written(row: dict[str, Any], template: str = CALLING) -> str:
    (sentence,) = Corpus([row])
    tokenizer = tiny_tokenizers.chatting(template)
    return str(tokenizer.decode(chat_tokens(tokenizer, sentence.messages or "", "here").ids))


def test_tools_documents_and_values_reach_the_template(tmp_path: Path) -> None:

    row: dict[str, Any] = {"messages": CHAT, "tools": TOOLS, "documents": [{"text": "A dog."}]}
    found = written(row | {"chat_template_kwargs": {"mood": "sad"}})
    assert found.startswith(f"<tool>{json.dumps(TOOLS[0])}</tool><doc>A dog.</doc><|im_start|>user")
    assert found.endswith("(sad)") and "<tool>" not in written({"messages": CHAT})
    assert written(row | {"tools": json.dumps(TOOLS)}) == written(row)
    assert written(row | {"tools": [*map(json.dumps, TOOLS)]}) == written(row)
    held, (one,) = Corpus([row]), Corpus([{"messages": CHAT}])
    assert held.sha256() != Corpus([{"messages": CHAT}]).sha256()
    assert json.loads(one.messages or "") == CHAT, "the hash of a chat alone is what it was"
    for name in ("a.jsonl", "a.parquet"):
        if name.endswith("l"):
            (tmp_path / name).write_text(json.dumps(row))
        else:
            # Arrow gives the second message's call to the first one, too, as nothing.
            pd.DataFrame([row]).to_parquet(tmp_path / name)
        (read,) = Corpus(tmp_path / name)
        assert [read.messages] == [each.messages for each in held]
        tokenizer = tiny_tokenizers.chatting(CALLING)
        task = build(
            "causal-lm", replace(loaded("GPT2LMHeadModel"), tokenizer=tokenizer), tmp_path / name
        )
        (batch,) = task.batches()
        assert str(tokenizer.decode(batch.inputs["input_ids"][0])).startswith("<tool>")


@pytest.mark.parametrize("cell", ["no JSON", "{", 3, {"name": "find"}])
def test_tools_that_are_no_list_are_refused(cell: object) -> None:
    with pytest.raises(CorpusError, match=r"row 1: expected tools as a list or its JSON, got"):
        Corpus([{"messages": CHAT, "tools": cell}])


def test_a_call_is_the_assistants_and_a_reply_is_not() -> None:
    call = {"type": "function", "function": {"name": "find", "arguments": {"at": 'O"slo', "n": 3}}}
    chat = [
        CHAT[0],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "rain"},
    ]
    assert said(chat, CALLING) == [
        ("<|im_start|>user\n", None),
        ("Hi", "user"),
        ("<|im_end|>\n<|im_start|>assistant\n<call>\n", None),
        (json.dumps(call["function"]), "assistant"),
        ("</call><|im_end|>\n<|im_start|>tool\n", None),
        ("rain", "tool"),
        ("<|im_end|>\n", None),
    ]


def test_thoughts_are_read_as_the_template_writes_them() -> None:
    thinks = {"role": "assistant", "content": "<think>\nA dog?\n</think>\n\nYes"}
    chat = [CHAT[0], thinks, CHAT[0], thinks]
    assert said(chat, QWEN)[2:8] == [
        ("<|im_end|>\n<|im_start|>assistant\n", None),
        ("Yes", "assistant"),
        ("<|im_end|>\n<|im_start|>user\n", None),
        ("Hi", "user"),
        ("<|im_end|>\n<|im_start|>assistant\n<think>\n", None),
        ("A dog?", "assistant"),
    ]
    corpus, encoder = Corpus([{"messages": chat}]), Encoder(tiny_tokenizers.chatting(QWEN))
    ((_, source),) = [(each.sentence, each.source) for each in encoder.encode([*corpus])]
    assert source.num_thoughts == 1
    fields = "{% for each in messages %}{{ each.reasoning_content }}|{{ each.content }}{% endfor %}"
    reasons = [{"role": "assistant", "content": "Yes", "reasoning_content": "A dog?"}]
    assert said(reasons, fields) == [("A dog?", "assistant"), ("|", None), ("Yes", "assistant")]


def test_a_prompt_closes_the_thought_that_the_template_opens() -> None:
    qwen = tiny_tokenizers.chatting(QWEN)
    closed = "<|im_start|>user\n<think> Hi<|im_end|>\n<|im_start|>assistant\n<think>\n</think>\n\n"
    assert user_prompt(qwen, "it", "<think> Hi", {}) == closed
    opened = user_prompt(qwen, "it", "Hi", {"enable_thinking": True})
    assert opened.endswith("assistant\n<think>\n")
    always = tiny_tokenizers.chatting("{{ messages[0].content }}<think>")
    with pytest.raises(ModelError, match="opens <think> .* --template enable_thinking=true"):
        user_prompt(always, "it", "Hi", {})


@pytest.mark.parametrize(
    "row",
    [
        {"messages": json.dumps(CHAT)},
        {"messages": str(CHAT)},
        {"conversations": SHARE},
        {"conversations": json.dumps(SHARE)},
        {"prompt": CHAT[:1], "completion": CHAT[1:]},
        {"prompt": CHAT[:1], "chosen": CHAT[1:], "rejected": CHAT[:1]},
        {"prompt": CHAT[:1], "chosen": CHAT, "rejected": CHAT},
        {"chosen": CHAT, "rejected": CHAT},
    ],
)
def test_chats_as_data_sets_hold_them(row: dict[str, Any], tmp_path: Path) -> None:

    (found,) = Corpus([row])
    assert json.loads(found.messages or "") == CHAT
    pd.DataFrame([row]).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    pd.DataFrame([row]).to_parquet(tmp_path / "a.parquet")
    files = ["a.jsonl", "a.parquet"]
    if all(isinstance(cell, str) for cell in row.values()):
        pd.DataFrame([row]).to_csv(tmp_path / "a.csv", index=False)
        files.append("a.csv")
    held = replace(loaded("GPT2LMHeadModel"), tokenizer=tiny_tokenizers.chatting())
    for name in files:
        (read,) = Corpus(tmp_path / name)
        assert read.messages == found.messages, name
        assert build("causal-lm", held, tmp_path / name).num_examples == 1


def test_sharegpt_has_a_system_message_beside_the_others() -> None:
    (found,) = Corpus([{"conversations": SHARE, "system": "Be brief."}])
    assert json.loads(found.messages or "") == [{"role": "system", "content": "Be brief."}, *CHAT]


@pytest.mark.parametrize("reply", ["completion", "chosen"])
def test_a_prompt_and_its_reply_are_one_text(reply: str, tmp_path: Path) -> None:
    """As trainers read them: without the prompt it would be another text."""
    row = {"prompt": "The sky is", reply: " blue.", "rejected": " green."}
    pd.DataFrame([row]).to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    pd.DataFrame([row]).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame([row]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.warns(UserWarning, match="a prompt and its completion are read as one text"):
        (found,) = Corpus([row])
    assert found.text == "The sky is blue."
    for name in ("a.jsonl", "a.parquet", "a.csv"):
        (read,) = Corpus(tmp_path / name)
        assert read.text == found.text
        assert read_examples("causal-lm", tmp_path / name)["text"] == [found.text]
    (named,) = Corpus([row], columns={"text": reply})
    assert named.text == row[reply].strip()
    (other,) = Corpus([row | {"text": "A dog."}])
    assert other.text == "A dog.", "a row's own text"
    with pytest.raises(CorpusError, match="--columns text=chosen, in Python"):
        Corpus([{"chosen": "The sky is blue.", "rejected": "No."}])


def test_messages_that_nobody_can_read_are_no_text(tmp_path: Path) -> None:
    """Pandas writes arrays of messages without commas."""
    rows = [{"messages": np.array(CHAT, dtype=object)}]
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(CorpusError, match="a.csv:2: expected messages as JSON .* as .jsonl or"):
        Corpus(tmp_path / "a.csv")


def test_json_in_a_text_stays_a_text() -> None:
    (found,) = Corpus([{"text": json.dumps(CHAT)}])
    assert (found.messages, found.text) == (None, json.dumps(CHAT))


def test_values_for_a_template_are_json_or_texts() -> None:
    assert template_values(["a=false", "b=[1]", "c=x=y"]) == {"a": False, "b": [1], "c": "x=y"}
    with pytest.raises(InputError, match="as NAME=VALUE, got 'a'"):
        template_values(["a"])
