"""Media: rows in which a token stands for a picture, sound or video that a text reader never sees.

Such a row is refused, with its place, or left out on request (`HowRead.without_media`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from headcount.core import CorpusError
from headcount.corpora.lines import HowRead, note
from headcount.corpora.messages import Chat, chat_of
from headcount.corpora.sentence import Sentence

Row = TypeVar("Row")
_KINDS = r"(?:image|img|picture|vision|video|audio|sound|speech)"
PLACEHOLDER = re.compile(
    rf"[<\[]\|?(?:(?:start|begin)_of_)?{_KINDS}(?:[_ ]?[a-z0-9]+)*\|?[>\]]", re.IGNORECASE
)
"""Spellings of tokens that stand for media, such as `<image>`, `<|audio|>` and `[IMG]`."""
_PART = re.compile(rf"(?:input_)?{_KINDS}(?:_url)?")
"""Types of parts of messages that are media."""


def media_in(cell: object) -> str | None:
    """What stands for media in a text, a chat or a list of texts; None if nothing does."""
    if isinstance(cell, str):
        found = PLACEHOLDER.search(cell)
        return None if found is None else found[0]
    if isinstance(cell, Chat):
        return media_in([message.get("content") for message in cell.turns if _is_object(message)])
    for part in cell if isinstance(cell, list | tuple) else ():
        kind = part.get("type") if _is_object(part) else None
        if isinstance(kind, str) and _PART.fullmatch(kind):
            return f"a part of the type {kind}"
        if found := media_in(part.get("text") if _is_object(part) else part):
            return found
    return None


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def media_parts(messages: str) -> str | None:
    """What part of a message of a chat is media; its texts are not looked at."""
    turns = [each.get("content") for each in chat_of(messages).turns]
    parts = [part for content in turns if isinstance(content, list) for part in content]
    return media_in([{"type": part.get("type")} for part in parts if _is_object(part)])


def media_of(sentence: Sentence) -> str | None:
    """What stands for media in a sentence; None if nothing does."""
    if sentence.messages is not None:
        return media_in(chat_of(sentence.messages))
    return media_in([sentence.text, sentence.target, sentence.second])


LEFT_OUT = (
    "Leave such rows out with --without-media (in Python, give the data as "
    "headcount.corpora.ReadAs(DATA, HowRead(without_media=True)))."
)
"""What to do about rows with media."""


def check_media(found: str | None, origin: str, advice: str = LEFT_OUT) -> None:
    """Check that nothing in a text stands for media.

    Raises:
        CorpusError: if something does.
    """
    if found is not None:
        raise CorpusError(
            f"{origin}: expected text alone, got {found}, which stands for a picture, sound or "
            f"video that is not read. {advice}"
        )


def without_media(
    rows: Iterable[Row], stands: Callable[[Row], str | None], how: HowRead, where: object
) -> Iterator[Row]:
    """The rows, without those that have media if the user leaves them out.

    Args:
        rows: the rows.
        stands: says what stands for media in a row.
        how: whether such rows are left out.
        where: what the rows are of, for the note that counts them.
    """
    if not how.without_media:
        yield from rows
        return
    left = 0
    for row in rows:
        if stands(row) is None:
            yield row
        else:
            left += 1
    if left:
        note(f"{where}: rows that stand for pictures, sound or video are left out: {left:,}")
