"""Running text: `.txt` with one example per line, `.jsonl` with one object per line."""

import json
from collections.abc import Iterator
from pathlib import Path

from headcount.corpora.lines import numbered_lines
from headcount.corpora.sentence import Sentence
from headcount.errors import CorpusError


def read_text(path: Path) -> Iterator[Sentence]:
    """Yield one sentence per line; blank lines are skipped."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield Sentence(line.strip(), origin=f"{path}:{number}")


def read_jsonl(path: Path) -> Iterator[Sentence]:
    """Yield the field `text` of one JSON object per line; blank lines are skipped."""
    for number, line in numbered_lines(path):
        if line.strip():
            origin = f"{path}:{number}"
            yield Sentence(_text_field(line, origin), origin=origin)


def _text_field(line: str, origin: str) -> str:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{origin}: expected one JSON object on the line, but it breaks off at "
            f"column {error.colno} ({error.msg}). Fix the line."
        ) from error
    if not isinstance(row, dict):
        raise CorpusError(
            f"{origin}: expected a JSON object with a field 'text', got a "
            f'{type(row).__name__}. Write {{"text": ...}}.'
        )
    if "text" not in row:
        found = ", ".join(repr(key) for key in row) or "none"
        raise CorpusError(
            f"{origin}: expected a field 'text', got the fields: {found}. Rename the field."
        )
    text = row["text"]
    if not isinstance(text, str) or not text.strip() or not _is_unicode(text):
        raise CorpusError(
            f"{origin}: expected the field 'text' to hold some text, got {text!r}. "
            "Fix or remove the line."
        )
    return text.strip()


def _is_unicode(text: str) -> bool:
    r"""Whether text is valid Unicode: JSON can spell half a character, which no tokenizer takes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
