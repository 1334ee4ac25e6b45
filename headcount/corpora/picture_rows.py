"""Pictures and sound beside texts, as rows have them: in messages, or in columns beside a text.

- A chat has parts of the type `image`, whose picture is their field `image`, `path` or `url` (or an
  object `image_url`), or comes from the row's column `images` or `image`, in order.
- LLaVA's form: `<image>` inside a message and the row's column `image`. If no message says where
  the pictures of a named column belong, they stand in front of the first user's message.
- A part of the type `audio` is a recording, named as `audio`, or from the row's column `audio`.
- Columns `image` and `text`, both named by the user: the picture in front of the text.

A picture is a path (relative to the row's file, or to where headcount runs), a `data:` address,
bytes as data sets hold them, or a picture of Pillow. Nothing is fetched from the network.

A relation from a phrase to places is `{"name": "subject", "phrase": "the dog", "boxes": [[LEFT,
TOP, RIGHT, BOTTOM]]}` in the field `links`, in pixels; `bbox` is COCO's `[LEFT, TOP, WIDTH,
HEIGHT]`.
"""

import base64
import binascii
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, amount
from headcount.corpora.messages import Chat, chat_of, media_parts, messages_of, text_of
from headcount.corpora.pictures import Picture, kept, media_digest, picture_of
from headcount.corpora.sentence import Box, Place, Sentence, Shown

MARK = "<image>"
"""What stands for a picture inside a text of LLaVA's form."""
_SAID = ("image", "audio", "path", "url", "image_url", "audio_url")
"""Fields of a part of a message that say which picture or recording it is."""
_IMAGE, _AUDIO = ("image", "image_url", "input_image"), ("audio", "audio_url")
"""Types of parts of messages that are a picture, and a recording."""
SOUND_NAMES = ("audio", "audios")
"""Columns of recordings, of which parts of messages say where they belong."""
IMAGE_NAMES = ("image", "images", "corrupt_image", "corrupt_images")
"""Columns of pictures: beside a text, and beside the second prompt of one that is explained."""
_DATA = re.compile(r"data:(?:image|audio)/[\w.+-]+;base64,", re.IGNORECASE)


def is_part(part: object) -> bool:
    """Whether a part of a message stands for a picture or a recording."""
    return isinstance(part, Mapping) and part.get("type") in (*_IMAGE, *_AUDIO)


def _is_sound(part: Mapping[str, Any]) -> bool:
    return part["type"] in _AUDIO


def _bare(part: Any) -> Any:
    """A part of a message without what it names."""
    return {"type": "audio" if _is_sound(part) else "image"} if is_part(part) else part


def pictured(
    chat: Chat, given: Sequence[object], origin: str, sounds: Sequence[object] = ()
) -> tuple[Chat, tuple[Shown, ...]]:
    """A chat whose parts for pictures and sound are bare, and these in their order.

    A picture that can't be used keeps the reason, and so does a wrong number of pictures. A model
    of texts refuses the row, or leaves it out, whatever its pictures are.

    Args:
        chat: the chat as the row has it.
        given: pictures of the row that messages do not name.
        origin: file and line, for errors.
        sounds: recordings of the row, likewise.
    """
    waiting, found = {False: iter(given), True: iter(sounds)}, list[Shown]()
    turns = [_in_parts(turn) for turn in chat.turns]
    if given and not any(is_part(part) for turn in turns for part in _parts(turn)):
        first = next((turn for turn in turns if turn.get("role") == "user"), turns[0])
        first["content"] = [*({"type": "image"} for _ in given), *_parts(first)]
    places = [part for turn in turns for part in _parts(turn) if is_part(part)]
    for part in places:
        named = next((part[each] for each in _SAID if part.get(each)), None)
        cell = next(waiting[_is_sound(part)], None) if named is None else named
        found += [] if cell is None else [shown(cell, origin, _is_sound(part))]
    number = len(found) + sum(1 for each in waiting.values() for _ in each)
    if number != len(places):
        what = "recording" if any(map(_is_sound, places)) else "picture"
        problem = (
            f"{origin}: expected as many {what}s as the messages have places for, got "
            f"{amount(number, what)} for {amount(len(places), 'place')}. Fix or remove the "
            "line."
        )
        found = [Shown(Path(), "", problem)]
    bare = [
        turn | {"content": [_bare(each) for each in _parts(turn)]} if _parts(turn) else turn
        for turn in turns
    ]
    return Chat(bare, chat.template), tuple(found)


def with_pictures(
    text: str | Chat, given: Sequence[object], origin: str, sounds: Sequence[object] = ()
) -> Sentence:
    """A text behind pictures, or a chat with its own.

    Args:
        text: the text or the chat.
        given: pictures that messages do not name.
        origin: file and line, for errors.
        sounds: recordings that messages do not name.
    """
    if isinstance(text, str):
        return Sentence(text, origin=origin, pictures=tuple(shown(each, origin) for each in given))
    chat, pictures = pictured(text, given, origin, sounds)
    messages = messages_of(chat, origin)
    return Sentence(text_of(messages), origin=origin, messages=messages, pictures=pictures)


def sentence_beside(sentence: Sentence) -> Sentence:
    """A chat with the pictures that its messages name; a text without pictures itself."""
    if sentence.messages is None or media_parts(sentence.messages) is None:
        return sentence
    chat, pictures = pictured(chat_of(sentence.messages), (), sentence.origin)
    return replace(sentence, messages=messages_of(chat, sentence.origin), pictures=pictures)


def asking(sentence: Sentence, text: str) -> Sentence:
    """A prompt with the same pictures up to its first reply, in which the user says another text.

    Args:
        sentence: the prompt.
        text: what stands in place of all that the user says.
    """
    bare = replace(sentence, text=text, places=(), links=(), words=None)
    if sentence.messages is None:
        return bare
    chat, turns = chat_of(sentence.messages), list[dict[str, Any]]()
    for turn in chat.turns:
        if turn.get("role") == "assistant":
            break
        turns.append(dict(turn))
    users = [turn for turn in turns if turn.get("role") == "user"]
    for turn in users:
        shows = [each for each in _parts(turn) if is_part(each)]
        turn["content"] = [*shows, *[{"type": "text", "text": text}] * (turn is users[-1])]
    return replace(bare, messages=messages_of(Chat(turns, chat.template), sentence.origin))


def _parts(turn: Mapping[str, Any]) -> Sequence[Any]:
    content = turn.get("content")
    return content if isinstance(content, list) else []


def _in_parts(turn: Any) -> dict[str, Any]:
    """A message whose content is a list, with a part for each `<image>` in its texts."""
    if not isinstance(turn, Mapping):
        return {"role": "", "content": turn}  # refused where messages are checked
    content = turn.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list | tuple):
        return dict(turn)
    return {**turn, "content": [each for part in content for each in _split(part)]}


def _split(part: Any) -> Iterator[Any]:
    text = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(text, str) or MARK not in text:
        yield part
        return
    for number, piece in enumerate(text.split(MARK)):
        if number:
            yield {"type": "image"}
        if piece.strip():
            yield {"type": "text", "text": piece.strip("\n")}


def shown(cell: Any, origin: str, is_sound: bool = False) -> Shown:
    """The picture or the recording in a cell, or what is wrong with it."""
    what = "recording" if is_sound else "picture"
    if isinstance(cell, Mapping) and isinstance(cell.get("url"), str):
        cell = cell["url"]
    cell = picture_of(cell)
    if isinstance(cell, str) and (head := _DATA.match(cell)):
        try:
            cell = kept(base64.b64decode(cell[head.end() :], validate=True))
        except (binascii.Error, ValueError):
            problem = f"{origin}: expected a {what} in base64, got {cell!r:.60}. Fix the line."
            return Shown(Path(), "", problem)
    if isinstance(cell, str):
        cell = cell.removeprefix("file://")
    if isinstance(cell, str) and "://" in cell:
        problem = (
            f"{origin}: expected a {what} on this machine, got {cell!r:.80}, which is not "
            "fetched. Download it, and give its path."
        )
        return Shown(Path(), "", problem)
    if not isinstance(cell, str | Path) or not str(cell):
        problem = f"{origin}: expected the path of a {what}, got {cell!r:.80}. Fix the line."
        return Shown(Path(), "", problem)
    try:
        digest = media_digest(Path(cell), what if is_sound else "image")
        return Shown(Path(cell), digest, is_sound=is_sound)
    except CorpusError as error:
        return Shown(Path(cell), "", f"{origin}: {error}")


def pictures_in(row: Mapping[Any, Any], names: Sequence[object]) -> list[object]:
    """The pictures in the columns of a row that hold one or a list of them."""
    found = list[object]()
    for name in names:
        cell = row.get(name)
        if cell is not None:
            found += cell if isinstance(cell, list | tuple) else [cell]
    return found


def near(
    row: Mapping[Any, Any], folder: Path, columns: Mapping[str, str | int] | None = None
) -> Mapping[Any, Any]:
    """A row whose relative paths of pictures that lie beside its file are found there.

    Args:
        row: its cells.
        folder: the folder of the file.
        columns: the columns that will be read, with their names or numbers.
    """
    named = {each: (columns or {}).get(each, each) for each in IMAGE_NAMES}
    found = {name: _near(row[name], folder, "image") for name in named.values() if name in row}
    chats = {name: _near(row[name], folder) for name in _CHATS if name in row}
    if chats:  # elsewhere a column of this name is that of a table of recordings
        chats |= {name: _near(row[name], folder, "audio") for name in SOUND_NAMES if name in row}
    found |= chats
    return {**row, **found} if found else row


_CHATS = ("messages", "conversations", "conversation", "prompt", "corrupt")


def _near(cell: Any, folder: Path, name: object = "") -> Any:
    if isinstance(cell, Mapping):
        return {key: _near(each, folder, key) for key, each in cell.items()}
    if isinstance(cell, list):
        return [_near(each, folder, name) for each in cell]
    is_path = isinstance(cell, str) and name in (*_SAID, "images") and "://" not in cell
    if not is_path or len(cell) > 1000 or Path(cell).is_absolute() or Path(cell).exists():
        return cell
    beside = folder / cell
    return Picture(beside) if beside.exists() else cell


def are_places(cell: object) -> bool:
    """Whether a field of a row that nobody named looks like relations to places."""
    items = cell if isinstance(cell, list | tuple) else ()
    names = {"boxes", "bbox", "phrase"}
    return any(isinstance(each, Mapping) and names & {*each} for each in items)


def places_of(cell: object, origin: str, num_pictures: int) -> tuple[Place, ...]:
    """The relations from phrases to places in a row's field `links`.

    Raises:
        CorpusError: for one without a phrase or a name, or boxes that are none.
    """
    return tuple(_place(each, origin, num_pictures) for each in _items(cell))


def _items(cell: object) -> Sequence[Any]:
    return cell if isinstance(cell, list | tuple) else [cell]


def _place(cell: Any, origin: str, num_pictures: int) -> Place:
    wrong, boxes, its = "", list[Box](), cell if isinstance(cell, Mapping) else {}
    name, phrase, number = its.get("name", "place"), its.get("phrase"), its.get("picture", 0)
    try:
        boxes = [_box(each) for each in _items_of_boxes(its.get("boxes"))]
        if its.get("bbox") is not None:
            left, top, width, height = map(float, its["bbox"])
            boxes.append(_box((left, top, left + width, top + height)))
    except (TypeError, ValueError):
        wrong = "in which a box is not of four numbers, or ends before it begins"
    if not isinstance(phrase, str) or not phrase.strip() or not isinstance(name, str):
        wrong = "which has no phrase" if isinstance(name, str) else "whose name is no text"
    elif not isinstance(number, int) or not 0 <= number < num_pictures:
        count = amount(num_pictures, "picture")
        wrong = f"which names picture {number!r}, but the row has {count}, counted from 0"
    if wrong or not boxes or not isinstance(phrase, str):
        raise CorpusError(
            f"{origin}: expected links such as "
            '{"name": "subject", "phrase": "the dog", "boxes": [[LEFT, TOP, RIGHT, BOTTOM]]}, in '
            f"pixels of the picture, got {cell!r:.120}, {wrong or 'which has no box'}. Fix the "
            "line."
        )
    return Place(name, phrase.strip(), tuple(boxes), number)


def _items_of_boxes(cell: Any) -> Sequence[Any]:
    """A list of boxes; one box alone is a list of it."""
    items = [] if cell is None else [*cell]
    return [items] if items and isinstance(items[0], int | float) else items


def _box(cell: Any) -> Box:
    left, top, right, bottom = map(float, cell)
    if not (left < right and top < bottom and all(map(math.isfinite, (left, top, right, bottom)))):
        raise ValueError("no box")
    return left, top, right, bottom
