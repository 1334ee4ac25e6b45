"""Chats: lists of messages, as the tokenizer's chat template writes them.

The template's own text (roles, marks of turns, tools, a system message that it adds) is special:
only what the messages say is content, their thoughts and calls of tools included. What is whose is
found by writing the chat a second time, with a placeholder for every text of every message.
"""

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, final

from transformers import PreTrainedTokenizerBase

from headcount.core import CorpusError, ModelError, reason
from headcount.corpora.messages import chat_of
from headcount.corpora.sentence import NO_WORD, Encoded, Sentence, Span

PLACEHOLDER = re.compile("\ue000(\\d+)\ue001")
"""What stands for a content in the second writing: its number between characters of no language."""
THOUGHT = re.compile(r"(</?(?:think|thinking|thought|reasoning)>|\[/?THINK\])")
"""Where a thought begins or ends in what an assistant says."""
THINKING = "enable_thinking"
"""Name of the value with which templates write an empty thought."""
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Fields of messages that hold a thought."""
MOST_STEPS = 10_000_000
"""Largest number of lines and calls that a template runs for one chat; a message takes some 40."""
_JINJA = "<template>"
"""Name of the file of a template's code."""


Said = tuple[int, int, str]
"""Where a text of a message stands in a chat, and its role."""


@final
@dataclass(frozen=True)
class ChatTokens:
    """A chat as the model reads it."""

    ids: list[int]
    """Token ids of the chat as the template writes it."""
    roles: list[str | None]
    """The role whose message a token belongs to; None for the template's own."""
    num_thoughts: int = 0
    """Number of thoughts of the messages that the template leaves out."""

    def encoded(self, max_length: int | None) -> Encoded:
        """The chat as one side of a sentence, without the tokens beyond a limit."""
        ids, roles = self.ids[:max_length], self.roles[:max_length]
        is_special = [role is None for role in roles]
        return Encoded(
            ids,
            [NO_WORD] * len(ids),
            is_special,
            len(self.ids),
            roles=roles,
            num_thoughts=self.num_thoughts,
        )


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
    chat = written_chat(tokenizer, messages, origin)
    encoding: Any = tokenizer(
        chat.text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
    )
    roles = roles_at(encoding["offset_mapping"], chat.said)
    return ChatTokens(list(encoding["input_ids"]), roles, chat.num_thoughts)


@final
@dataclass(frozen=True)
class WrittenChat:
    """A chat as the template writes it."""

    text: str
    said: list[Said]
    """Where the texts of messages stand in it."""
    num_thoughts: int = 0
    """Number of thoughts of the messages that the template leaves out."""


def written_chat(
    writer: Any, messages: str, origin: str, values: Mapping[str, Any] | None = None
) -> WrittenChat:
    """A chat as a template writes it.

    Args:
        writer: the tokenizer, or the processor, with its template.
        messages: the messages as JSON.
        origin: file and line, for errors.
        values: further values for the template, which then ends where the model's reply begins.

    Raises:
        CorpusError: if the template refuses the messages, or changes what they say.
    """
    given = chat_of(messages)
    marks = _Marks()
    marked = [*map(marks.message, given.turns)]
    written, skeleton = (
        _written(writer, turns, origin, {**given.template, **(values or {})}, values is not None)
        for turns in (given.turns, marked)
    )
    spans = _spans(written, PLACEHOLDER.split(skeleton), marks)
    if spans is None:
        raise CorpusError(
            f"{origin}: expected a chat template that writes messages as they are, got one that "
            "changes what they say. Write the chat as a text."
        )
    numbers = {int(number) for number in PLACEHOLDER.findall(skeleton)}
    dropped = sum(each.is_thought and n not in numbers for n, each in enumerate(marks.texts))
    return WrittenChat(written, spans, dropped)


@final
@dataclass(frozen=True)
class _Text:
    """A text of a message, which a placeholder stands for."""

    text: str
    role: str
    call: int | None = None
    """Number of the call of a tool that it is part of."""
    is_thought: bool = False

    @property
    def forms(self) -> Iterator[str]:
        """How a template may write it: itself, without blanks at its ends, inside JSON."""
        text = self.text
        for strip in (str.strip, str.lstrip, str.rstrip):
            for blanks in (None, "\n"):
                yield strip(text, blanks)
        if self.call is not None:
            yield json.dumps(text, ensure_ascii=False)[1:-1]
            yield json.dumps(text)[1:-1]


@final
@dataclass
class _Marks:
    """Writes messages again with placeholders for their texts."""

    texts: list[_Text] = field(default_factory=list[_Text])
    num_calls: int = 0

    def message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The message with placeholders for its content, thoughts and calls of tools."""
        role, found = message["role"], dict(message)
        for name in ("content", *_THOUGHTS):
            content, is_thought = message.get(name), name != "content"
            if isinstance(content, list):
                found[name] = [
                    part | {"text": self._text(part.get("text"), role, is_thought)}
                    if isinstance(part, dict)
                    else self._text(part, role, is_thought)
                    for part in content
                ]
            elif isinstance(content, str):
                found[name] = self._text(content, role, is_thought)
        if isinstance(calls := message.get("tool_calls"), list):
            found["tool_calls"] = [self._call(each, role) for each in calls]
        return found

    def _text(self, text: object, role: str, is_thought: bool) -> object:
        """A placeholder for a text; one each for its thoughts and for what is around them."""
        if not isinstance(text, str):
            return text
        parts = THOUGHT.split(text)
        if len(parts) == 1:
            return self._mark(_Text(text, role, is_thought=is_thought))
        for n in range(0, len(parts), 2):
            if parts[n].strip():
                inside = n > 0 and "/" not in parts[n - 1]
                parts[n] = self._mark(_Text(parts[n], role, is_thought=inside))
        return "".join(parts)

    def _call(self, call: Any, role: str) -> Any:
        """A call of a tool with placeholders for its texts: its name, and its arguments."""
        self.num_calls += 1

        def marked(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: marked(each) for name, each in value.items()}
            if isinstance(value, list):
                return [*map(marked, value)]
            return self._mark(_Text(value, role, self.num_calls)) if _is_text(value) else value

        inner = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(inner, Mapping):  # beside it stand a type and an id, which may not change
            return {**call, "function": marked(inner)}
        return marked(call)

    def _mark(self, text: _Text) -> str:
        self.texts.append(text)
        return f"\ue000{len(self.texts) - 1}\ue001"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _spans(written: str, skeleton: Sequence[str], marks: _Marks) -> list[Said] | None:
    """Where the texts of messages stand in a chat, and their roles; None if they do not.

    Args:
        written: the chat.
        skeleton: the template's text and the numbers of the placeholders, which take turns.
        marks: the texts.
    """
    place, spans, calls = len(skeleton[0]), list[Said](), dict[int, list[Span]]()
    if not written.startswith(skeleton[0]):
        return None
    for number, after in zip(skeleton[1::2], skeleton[2::2], strict=True):
        text = marks.texts[int(number)]
        forms = (text.text, *text.forms)
        form = next((each for each in forms if written.startswith(each + after, place)), None)
        if form is None:
            return None
        span = place, place + len(form)
        if text.call is None:
            spans.append((*span, text.role))
        else:
            calls.setdefault(text.call, []).append(span)
            if len(calls[text.call]) == 1:  # stands for the whole call
                spans.append((-text.call, 0, text.role))
        place += len(form) + len(after)
    if place != len(written):
        return None
    ends = {call: (its[0][0], its[-1][1]) for call, its in calls.items()}
    found, before = list[Said](), 0
    for start, end, role in spans:
        first, last = ends[-start] if start < 0 else (start, end)
        if start < 0:
            first, last = _around_call(written, before, first, last)
        found.append((first, last, role))
        before = last
    return found


def _around_call(written: str, before: int, first: int, last: int) -> tuple[int, int]:
    """The JSON object that a call of a tool is written as, if it is one; else its texts' place."""
    start = written.find("{", before, first)
    while start >= 0:
        try:
            _, end = json.JSONDecoder().raw_decode(written, start)
        except (ValueError, RecursionError):
            end = 0
        if end >= last:
            return start, end
        start = written.find("{", start + 1, first)
    return first, last


def user_prompt(
    tokenizer: PreTrainedTokenizerBase, name: str, text: str, values: Mapping[str, Any]
) -> str:
    """A user's message as the template writes it, up to where the model's reply begins.

    A thought that the template opens there is closed, as the template writes an empty one.

    Args:
        tokenizer: the tokenizer with its template.
        name: name of the model, for errors.
        text: what the user says.
        values: further values for the template, by name.

    Raises:
        ModelError: if there is no chat template, or if it opens a thought that it can't close.
        CorpusError: if the template does not take a single message.
    """
    if not tokenizer.chat_template:
        raise ModelError(
            f"Expected a tokenizer with a chat template, got that of {name}, which has "
            "none. Leave --chat out: prompts are raw text then."
        )
    turns = [{"role": "user", "content": text}]
    marks = list[str]()
    for more in ({}, {THINKING: False}):
        written = _written(tokenizer, turns, name, {**more, **values}, replies=True)
        marks = THOUGHT.findall(written.rpartition(text.strip())[2])
        if not marks or "/" in marks[-1] or THINKING in values:
            return written
    raise ModelError(
        f"Expected a chat template whose reply can begin without a thought, got that of {name}, "
        f"which opens {marks[-1]} whether or not {THINKING} is false: the reply would be explained "
        f"as part of a thought. Leave --chat out, or ask for that: --template {THINKING}=true."
    )


def message_frame(
    tokenizer: PreTrainedTokenizerBase, name: str, values: Mapping[str, Any]
) -> tuple[str, str]:
    """What the template writes before a user's message, and between it and the reply.

    Raises:
        ModelError: as `user_prompt`.
        CorpusError: as `user_prompt`.
    """
    before, _, behind = PLACEHOLDER.split(user_prompt(tokenizer, name, "\ue0000\ue001", values))
    return before, behind


def encode_chats(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sentence], max_length: int | None
) -> list[Encoded]:
    """Encode sentences that are chats."""
    return [
        chat_tokens(tokenizer, sentence.messages or "", sentence.origin).encoded(max_length)
        for sentence in sentences
    ]


def _written(
    tokenizer: Any,
    messages: Sequence[Mapping[str, Any]],
    origin: str,
    values: Mapping[str, Any],
    replies: bool = False,
) -> str:
    """What the template writes, with the further values for it, such as tools."""
    write: Callable[..., Any] = tokenizer.apply_chat_template
    try:
        turns = [*map(dict, messages)]
        with _ending():
            return str(write(turns, tokenize=False, add_generation_prompt=replies, **values))
    except _EndlessError as error:
        raise CorpusError(
            f"{origin}: expected a chat template that ends, got one that still runs after "
            f"{MOST_STEPS:,} steps. Write the chat as a text, or correct the model's template."
        ) from error
    except Exception as error:  # a template raises what it likes
        raise CorpusError(
            f"{origin}: expected messages that the chat template takes, but it refuses them: "
            f"{reason(error).rstrip('.')}. Fix or remove the line."
        ) from error


class _EndlessError(Exception):
    """A template took more than `MOST_STEPS`."""


@contextmanager
def _ending() -> Iterator[None]:
    """Stop a template that comes with a model and whose loops would run for years.

    Lines of its code and calls are counted, since seconds depend on the machine.

    Raises:
        _EndlessError: after `MOST_STEPS`.
    """
    left, before = MOST_STEPS, sys.gettrace()

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise _EndlessError
        return count if frame.f_code.co_filename == _JINJA else None

    sys.settrace(count)
    try:
        yield
    finally:
        sys.settrace(before)


def roles_at(tokens: Sequence[tuple[int, int]], contents: Sequence[Said]) -> list[str | None]:
    """The role of the content that each token has a character of."""
    said = [(begin, end, role) for begin, end, role in contents if begin < end]
    ends, found = [end for _, end, _ in said], list[str | None]()
    for start, stop in tokens:
        first = bisect_right(ends, start)
        is_inside = start < stop and first < len(said) and said[first][0] < stop
        found.append(said[first][2] if is_inside else None)
    return found
