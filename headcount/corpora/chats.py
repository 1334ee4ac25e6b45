"""Chats: lists of messages, as the tokenizer's chat template writes them.

The template's own text (roles, marks of turns, a system message that it adds) is special: only what
the messages say is content. What is whose is found by writing the chat a second time, with a
placeholder for the content of every message.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, ModelError, reason
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence

PLACEHOLDER = re.compile("\ue000(\\d+)\ue001")
"""What stands for a content in the second writing: its number between characters of no language."""


@final
@dataclass(frozen=True)
class ChatTokens:
    """A chat as the model reads it."""

    ids: list[int]
    """Token ids of the chat as the template writes it."""
    roles: list[str | None]
    """The role whose message a token belongs to; None for the template's own."""

    def encoded(self, max_length: int | None) -> Encoded:
        """The chat as one side of a sentence, without the tokens beyond a limit."""
        ids, roles = self.ids[:max_length], self.roles[:max_length]
        is_special = [role is None for role in roles]
        return Encoded(ids, [NO_WORD] * len(ids), is_special, len(self.ids))


def chat_tokens(tokenizer: PreTrainedTokenizerBase, messages: str, origin: str) -> ChatTokens:
    """The tokens of a chat.

    Raises:
        ModelError: if the tokenizer has no chat template, or does not say where its tokens are.
        CorpusError: if the template refuses the messages, or changes what they say.
    """
    if not (tokenizer.chat_template and tokenizer.is_fast):
        what = "a fast tokenizer" if tokenizer.chat_template else "a tokenizer with a chat template"
        raise ModelError(
            f"{origin}: expected {what}, since the row holds messages, got the "
            f"{type(tokenizer).__name__} of {tokenizer.name_or_path or 'the model'}. Give a model "
            "that was trained on chats, or write each chat as a text."
        )
    given = json.loads(messages)
    written, spans = _written(tokenizer, given, origin), list[tuple[int, int, str]]()
    marked, contents = _marked(given)
    skeleton = PLACEHOLDER.split(_written(tokenizer, marked, origin))
    place = len(skeleton[0])
    is_same = written.startswith(skeleton[0])
    for number, after in zip(skeleton[1::2], skeleton[2::2], strict=True):
        role, content = contents[int(number)]
        forms = (content, content.strip(), content.lstrip(), content.rstrip())
        fits = [form for form in forms if written.startswith(form + after, place)]
        is_same &= bool(fits)
        form = fits[0] if fits else ""
        spans.append((place, place + len(form), role))
        place += len(form) + len(after)
    if not is_same or place != len(written):
        raise CorpusError(
            f"{origin}: expected a chat template that writes messages as they are, got one that "
            "changes what they say. Write the chat as a text."
        )
    encoding: Any = tokenizer(
        written, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    offsets = encoding["offset_mapping"]
    return ChatTokens(list(encoding["input_ids"]), _roles(offsets, spans))


def message_frame(tokenizer: PreTrainedTokenizerBase, name: str) -> tuple[str, str]:
    """What the template writes before a user's message, and between it and the reply.

    Raises:
        ModelError: if the tokenizer of the model of this name has no chat template.
        CorpusError: if the template does not take a single message.
    """
    if not tokenizer.chat_template:
        raise ModelError(
            f"Expected a tokenizer with a chat template, got that of {name}, which has none. Leave "
            "--chat out: prompts are raw text then."
        )
    marked, _ = _marked([{"role": "user", "content": "a text"}])
    before, _, behind = PLACEHOLDER.split(_written(tokenizer, marked, name, replies=True))
    return before, behind


def encode_chats(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode sentences that are chats."""
    return [
        chat_tokens(tokenizer, sentence.messages or "", sentence.origin).encoded(max_length)
        for sentence in sentences
    ]


def _marked(
    messages: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """The messages with placeholders for their contents; role and content of each placeholder."""
    contents = list[tuple[str, str]]()

    def mark(text: object, role: str) -> object:
        if not isinstance(text, str):
            return text
        contents.append((role, text))
        return f"\ue000{len(contents) - 1}\ue001"

    found = list[dict[str, Any]]()
    for message in messages:
        role, content = message["role"], message.get("content")
        if isinstance(content, list):
            parts = [
                part | {"text": mark(part.get("text"), role)}
                if isinstance(part, dict)
                else mark(part, role)
                for part in content
            ]
            found.append({**message, "content": parts})
        else:
            found.append({**message, "content": mark(content, role)})
    return found, contents


def _written(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Mapping[str, Any]],
    origin: str,
    replies: bool = False,
) -> str:
    try:
        return str(
            tokenizer.apply_chat_template(
                [*map(dict, messages)], tokenize=False, add_generation_prompt=replies
            )
        )
    except Exception as error:  # a template raises what it likes
        raise CorpusError(
            f"{origin}: expected messages that the chat template takes, but it refuses them: "
            f"{reason(error).rstrip('.')}. Fix or remove the line."
        ) from error


def _roles(
    tokens: Sequence[tuple[int, int]], contents: Sequence[tuple[int, int, str]]
) -> list[str | None]:
    """The role of the content that each token has a character of."""
    said = [(begin, end, role) for begin, end, role in contents if begin < end]
    ends, found = [end for _, end, _ in said], list[str | None]()
    for start, stop in tokens:
        first = bisect_right(ends, start)
        is_inside = start < stop and first < len(said) and said[first][0] < stop
        found.append(said[first][2] if is_inside else None)
    return found
