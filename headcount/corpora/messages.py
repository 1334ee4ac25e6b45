"""What a row says as a chat: its messages, and what it gives the chat template beside them.

Chats are found in the columns that data sets have for them, whatever a cell is: a list, or JSON or
Python's own spelling of it, as csv files hold them.

- `messages` (or `conversations`): a role and a content each, or ShareGPT's `from` and `value`.
- `prompt` and `completion`, or `prompt` and `chosen`, each a list of messages: one chat. Where both
  are texts they are one text, one behind the other, as models are trained on them.
- `tools`, `documents` and `chat_template_kwargs` are given to the template.

Needs no tokenizer.

A row in which a token stands for a picture, sound or video that a text reader never sees is
refused, with its place, or left out on request (`HowRead.without_media`).
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from headcount.core import CorpusError, InputError, is_unicode
from headcount.corpora.lines import HowRead, note
from headcount.corpora.sentence import Sentence

PLAIN_NAMES = ("text", "sentence", "content")
"""Names of columns of texts."""
CHAT_NAMES = ("messages", "conversations", "conversation")
"""Names of columns of chats."""
BESIDE_NAMES = ("tools", "documents", "chat_template_kwargs")
"""Names of columns that are given to the template beside the messages."""
PART_NAMES = ("prompt", "completion", "chosen")
"""Names of columns of parts of chats."""
_REPLIES = PART_NAMES[1:]
SYSTEM = "system"
"""Name of the column of ShareGPT's system message."""
_ROLES = {
    "human": "user",
    "gpt": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "function_response": "tool",
}
"""Roles by the names that ShareGPT gives them."""


@final
@dataclass(frozen=True)
class Chat:
    """A cell that is a chat."""

    turns: list[Any]
    """The messages as the row has them."""
    template: Mapping[str, Any] = field(default_factory=dict)
    """What the row gives the template beside them."""


def told(
    row: Mapping[Any, Any], origin: str, named: Iterable[str | int] = (), filled: bool = False
) -> Mapping[Any, Any]:
    """The row with its chats as such; one that has none is returned itself.

    Args:
        row: the cells by name.
        origin: file and line, for errors.
        named: further columns that may hold a chat.
        filled: whether the format fills in every field of an object that another row has.

    Raises:
        CorpusError: for tools or other values for the template that can't be read.
    """
    names = [name for name in (*CHAT_NAMES, *PART_NAMES, *named) if name in row]
    found = {name: turns for name in names if (turns := _turns(row[name])) is not None}
    for name in {*CHAT_NAMES} & {*row} - {*found}:
        if isinstance(cell := row[name], str) and cell.lstrip().startswith("[{"):
            raise CorpusError(
                f"{origin}: expected messages as JSON in the field {name!r}, got {cell!r:.60}, "
                "which can't be read. Write the data as .jsonl or .parquet."
            )
    if not found:
        return _with_reply(row)
    beside = _beside(row, origin, filled)
    if filled:
        found = {name: [*map(_without_gaps, turns)] for name, turns in found.items()}
    cells = {**row, **{name: Chat(turns, beside) for name, turns in found.items()}}
    prompt = found.get("prompt", [])
    rest = next((found[each] for each in _REPLIES if each in found), None)
    if rest is not None and not {*CHAT_NAMES} & {*found}:
        turns = rest if rest[: len(prompt)] == prompt else [*prompt, *rest]
        cells["messages"] = Chat(turns, beside)
    first = next((name for name in CHAT_NAMES if name in found), None)
    if first is not None and isinstance(said := row.get(SYSTEM), str) and said.strip():
        if found[first][0].get("role") != SYSTEM:
            opening = {"role": SYSTEM, "content": said}
            cells[first] = Chat([opening, *found[first]], beside)
    return cells


def _with_reply(row: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The row with the text of its prompt and reply, if these are texts and it has no other."""
    prompt, reply = row.get("prompt"), next((row[each] for each in _REPLIES if each in row), None)
    if not (isinstance(prompt, str) and isinstance(reply, str)) or {*PLAIN_NAMES} & {*row}:
        return row
    note("a prompt and its completion are read as one text, without anything between them")
    return {**row, PLAIN_NAMES[0]: prompt + reply}


def _turns(cell: object) -> list[Any] | None:
    """The messages in a cell; None if it is no chat."""
    if isinstance(cell, str):
        if not cell.lstrip().startswith("[{"):
            return None
        cell = _parsed(cell)
    if not (isinstance(cell, list | tuple) and cell and isinstance(cell[0], Mapping)):
        return None
    if "from" in cell[0] and "value" in cell[0]:
        return [*map(_renamed, cell)]
    return [*cell] if "role" in cell[0] else None


def _parsed(text: str) -> object:
    """A list as JSON or as Python spells it; None for any other text."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _renamed(message: Any) -> Any:
    """A message of ShareGPT under the names of the others."""
    if not (isinstance(message, Mapping) and isinstance(name := message.get("from"), str)):
        return message
    rest = {key: each for key, each in message.items() if key not in ("from", "value")}
    return {"role": _ROLES.get(name, name), "content": message.get("value"), **rest}


def _without_gaps(value: Any, inside: bool = False) -> Any:
    """A message whose calls have no fields that Arrow filled in."""
    if isinstance(value, Mapping):
        return {
            name: _without_gaps(each, inside or name == "tool_calls")
            for name, each in value.items()
            if not inside or each is not None
        }
    return [_without_gaps(each, inside) for each in value] if isinstance(value, list) else value


def _beside(row: Mapping[Any, Any], origin: str, filled: bool) -> dict[str, Any]:
    """What a row gives the template beside its messages."""
    found = dict[str, Any]()
    for name in BESIDE_NAMES:
        given = cell = row.get(name)
        kind = dict if name == "chat_template_kwargs" else list
        if not given or (isinstance(given, str) and not given.strip()):
            continue
        if isinstance(given, str):
            cell = _parsed(given)
        if not isinstance(cell, kind):
            raise CorpusError(
                f"{origin}: expected {name} as a {kind.__name__} or its JSON, got {given!r:.80}. "
                "Fix the line."
            )
        if not cell:
            continue
        cell = _without_gaps(cell, inside=True) if filled else cell
        found |= cell if isinstance(cell, dict) else {name: [*map(_tool, cell)]}
    return found


def _tool(each: Any) -> Any:
    """A tool or document, which some data sets hold as JSON each."""
    return _parsed(each) if isinstance(each, str) and each.lstrip()[:1] == "{" else each


def template_values(
    options: Sequence[str], what: str = "values for the chat template"
) -> dict[str, Any]:
    """Values, by default for a chat template, from NAME=VALUE; a VALUE is JSON or else a text.

    >>> template_values(["enable_thinking=false", "date=today"])
    {'enable_thinking': False, 'date': 'today'}

    Raises:
        InputError: for another form.
    """
    found = dict[str, Any]()
    for option in options:
        name, equals, value = option.partition("=")
        if not (name.isidentifier() and equals):
            raise InputError(
                f"Expected {what} as NAME=VALUE, got {option!r}. Write, for example, "
                "enable_thinking=false."
            )
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError):
            found[name] = value
    return found


def check_template(chat: bool, template: Sequence[str]) -> None:
    """Check values for the chat template, and that it writes something.

    Raises:
        InputError: for a value in another form, or values without a chat.
    """
    template_values(template)
    if template and not chat:
        raise InputError(
            f"Expected --chat for values of the chat template, got --template {template[0]} "
            "without it. Add --chat, or leave the values out."
        )


def messages_of(cell: object, origin: str) -> str:
    """A chat as JSON, which is how it is kept and hashed.

    That is the list of its messages, or an object of `messages` and `template` if the row gives the
    template more.

    Raises:
        CorpusError: if it is no list of dicts with a role and a content.
    """
    chat = cell if isinstance(cell, Chat) else Chat([*cell] if isinstance(cell, list) else [cell])
    rows = chat.turns
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
    kept = {"messages": rows, "template": dict(chat.template)} if chat.template else rows
    try:
        return json.dumps(kept, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CorpusError(
            f"{origin}: expected messages that JSON can hold, but {error}. Fix or remove the line."
        ) from error


def chat_of(messages: str) -> Chat:
    """The chat that was kept as JSON."""
    held = json.loads(messages)
    return Chat(held["messages"], held["template"]) if isinstance(held, dict) else Chat(held)


def text_of(messages: str) -> str:
    """What the messages say, without the template: one line."""
    said = (part for message in chat_of(messages).turns for part in _parts(message))
    return " ".join(" ".join(said).split())


def _parts(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message, whose content is one or a list of parts; none for a call alone."""
    content = message.get("content")
    parts = content if isinstance(content, list | tuple) else [content]
    for part in parts:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            yield text


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


def media_parts(messages: str, but: str | None = None) -> str | None:
    """What part of a message of a chat is media; its texts are not looked at.

    Args:
        messages: the messages as JSON.
        but: the type of parts that do not count, since the model reads them.
    """
    turns = [each.get("content") for each in chat_of(messages).turns]
    parts = [part for content in turns if isinstance(content, list) for part in content]
    kinds = [part.get("type") for part in parts if _is_object(part)]
    return media_in([{"type": kind} for kind in kinds if kind != but])


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
