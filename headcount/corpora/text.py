"""Running text: `.txt` with one example per line, and what `.jsonl` files are made of."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, reason
from headcount.corpora.sentence import Sentence

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


def read_text(path: Path) -> Iterator[Sentence]:
    """Yield one sentence per line; blank lines are skipped."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield Sentence(line.strip(), origin=f"{path}:{number}")


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
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
