"""What a row says: the messages of a chat, whose contents are its text. Needs no tokenizer."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from headcount.core import CorpusError, is_unicode


def messages_of(cell: object, origin: str) -> str:
    """A list of messages as JSON, which is how a chat is kept and hashed.

    Raises:
        CorpusError: if it is no list of dicts with a role and a content.
    """
    rows: list[Any] = list(cell) if isinstance(cell, list | tuple) else [cell]
    for number, message in enumerate(rows, start=1):
        fine = isinstance(message, Mapping) and isinstance(message.get("role"), str)
        if not fine or not all(map(is_unicode, _parts(message))):
            raise CorpusError(
                f"{origin}: expected messages such as "
                '{"role": "user", "content": "Hello!"}, got '
                f"{message!r:.80} (message {number}). Fix or remove the line."
            )
    if not any(part.strip() for message in rows for part in _parts(message)):
        raise CorpusError(f"{origin}: expected a message with some content, got none. Remove it.")
    return json.dumps(rows, ensure_ascii=False)


def text_of(messages: str) -> str:
    """What the messages say, without the template: one line."""
    said = (part for message in json.loads(messages) for part in _parts(message))
    return " ".join(" ".join(said).split())


def _parts(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message, whose content is one or a list of parts; none for a call alone."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [content]
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            yield text
