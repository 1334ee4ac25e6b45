"""What files of text are made of: lines, JSON, and the messages of chats; needs no tokenizer."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, reason

_HALF = re.compile("[\ud800-\udfff]")
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield (line number from 1, line without its end); lines end at `\n` or `\r\n` only."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                line = _decode(path, number, raw)
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read: {error.strerror}. Give a file that you may read."
        ) from error


def _decode(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{number}: expected UTF-8, got byte 0x{raw[error.start]:02x} "
            f"as byte {error.start + 1} of the line. Convert the file to UTF-8 first."
        ) from error


def json_of(line: str, origin: str) -> Any:
    """The JSON value on a line.

    Raises:
        CorpusError: if it is no JSON, or can't be read.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{origin}: expected one JSON object on the line, but it breaks off at "
            f"column {error.colno} ({error.msg}). Fix the line."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{origin}: expected one JSON object on the line, but it can't be read: "
            f"{reason(error)}. Fix the line."
        ) from error


def is_unicode(text: str) -> bool:
    r"""Whether text is valid Unicode: JSON can spell half a character, which no tokenizer takes."""
    return _HALF.search(text) is None


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
