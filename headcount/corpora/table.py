"""A task's data: named columns of text, with the origin of every example.

Needs no tokenizer.
"""

import hashlib
import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, final

from headcount.core import CorpusError, InputError, is_unicode
from headcount.corpora.lines import USUAL, HowRead
from headcount.corpora.messages import CHAT_NAMES, PLAIN_NAMES, Chat, messages_of, text_of
from headcount.corpora.pictures import picture_of
from headcount.corpora.sentence import Sentence

Columns = Mapping[str, str | int]
"""The task's name of a column, mapped to its name in the file or its number from 0."""


@final
@dataclass(frozen=True)
class ReadAs:
    """Data, and how they are read where there is a choice.

    >>> ReadAs("book.txt", HowRead(lines=True)).how.lines
    True
    """

    data: Any
    """Files or data in memory."""
    how: HowRead = USUAL
    """How they are read."""

    @classmethod
    def of(cls, data: Any) -> "ReadAs":
        """Data as they are usually read, unless they say how."""
        return data if isinstance(data, cls) else cls(data)


Data = str | Path | Mapping[str, Sequence[Any]] | Iterable[Any] | ReadAs
"""One file or several, `hf://...`, or data in memory: columns, texts, rows as dicts, an object of
`datasets` or a data frame; or any of these with how they are read."""

MOST_DIGITS = 9
"""Largest number of digits of a column's number; more are a name."""
Listing = Literal["refused", "alternatives", "parts"]
"""What a list in a cell is: an error, texts of which the first stands for all, or the parts of one
text, without which there is none."""


@final
@dataclass(frozen=True)
class Column:
    """A column that a task reads."""

    names: tuple[str, ...]
    """Names to try, after the task's own, if the user gives none."""
    needed: bool = True
    may_be_empty: bool = False
    """Whether a cell without text is accepted; otherwise it is an error."""
    lists: Listing = "refused"
    """What a list in a cell is."""
    after: str | None = None
    """Role that this one adds to: if the user names that one only, this one is not looked for. None
    for the first role of the task."""
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """More names to try, by the name that the column of the first role has."""
    may_be_chat: bool = False
    """Whether a cell may be a list of messages, which is kept as JSON."""
    are_pictures: bool = False
    """Whether cells are pictures, one or a list each, or nothing."""
    kind: type = object
    """Type by which a cell of a sentence that nobody named is recognized."""

    def name_among(self, role: str, found: Container[object], first: object = None) -> str | None:
        """The name of the column among those found; None if it is not there.

        Args:
            role: the task's name of the column.
            found: names of the existing columns.
            first: the name that the column of the first role has.
        """
        names = self.tried(role, first)
        return next((name for name in names if name in found), None)

    def tried(self, role: str, first: object = None) -> tuple[str, ...]:
        """The names that are looked for, as in `name_among`."""
        return tuple(dict.fromkeys((role, *self.names, *self.beside.get(str(first), ()))))

    def is_chat(self, cell: object) -> bool:
        """Whether a cell is a list of messages."""
        return self.may_be_chat and isinstance(cell, list | Chat)

    def texts(self, cell: object, name: str | int, origin: str) -> tuple[str, ...]:
        """The texts of a cell: those of a list where the column takes lists, else one.

        Raises:
            CorpusError: for a list where there must be a text, for a text where there must be a
                list, and for an empty list or text.
        """
        if self.is_chat(cell):
            return (messages_of(cell, origin),)
        if self.are_pictures:
            cells = cell if isinstance(cell, list | tuple) else (cell,)
            found = (picture_of(each) for each in cells if each is not None and each == each)
            return tuple(map(str, found)) or ("",)
        if self.lists != "refused":
            if isinstance(cell, list | tuple):
                if not cell:
                    raise CorpusError(
                        f"{origin}: expected some text in column {name!r}, got an empty list. "
                        "Complete or remove the line."
                    )
                return tuple(cell_text(each, name, origin) for each in cell)
        text = cell_text(cell, name, origin, self.may_be_empty)
        if self.lists == "parts":
            raise CorpusError(
                f"{origin}: expected a list in column {name!r}, got the text {text!r}. Write a "
                '.jsonl with lists, such as ["The", "dog"].'
            )
        return (text,)


ColumnSpec = Mapping[str, Column]
"""The columns of a task, by the task's names."""
NO_LABEL = "_"
"""Label of a word that has none, as in CoNLL-U."""
WORDS, LABELS = "words", "labels"
"""The columns of words and their labels, by the task's names."""
TEXT_NAMES = (*PLAIN_NAMES, *CHAT_NAMES)
"""Names of the column of a text or a chat."""


@final
@dataclass(frozen=True)
class Table:
    """Columns of text, by the task's names."""

    columns: dict[str, list[str]]
    origins: list[str]
    """File and line of every example, for errors."""
    class_names: dict[str, list[str]] = field(default_factory=dict)
    """Class names, by the task's name of the column, if a hub data set numbers its classes."""
    lists: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    """All texts of every cell, in columns whose cells may be lists."""
    chats: set[int] = field(default_factory=set)
    """Numbers of the rows whose text is a list of messages."""

    def __len__(self) -> int:
        return len(self.origins)

    def __contains__(self, role: str) -> bool:
        return role in self.columns

    def __getitem__(self, role: str) -> list[str]:
        return self.columns[role]

    @property
    def sha256(self) -> str:
        """Hash of the cells."""
        lists = {
            role: cells
            for role, cells in self.lists.items()
            if any(len(texts) != 1 for texts in cells)
        }
        cells = [self.columns, lists] if lists else self.columns
        return hashlib.sha256(json.dumps(cells).encode()).hexdigest()

    def sha256_with(self, **options: object) -> str:
        """Hash of the cells and of whatever else decides the model's input.

        Options that are None are ignored; without any it is the hash of the cells.
        """
        reported = {name: value for name, value in options.items() if value is not None}
        if not reported:
            return self.sha256
        return hashlib.sha256(f"{self.sha256}{json.dumps(reported)}".encode()).hexdigest()

    def first(self, limit: int | None) -> "Table":
        """The first examples only; all of them for None.

        Raises:
            InputError: for a limit below 1.
        """
        check_limit(limit)
        columns = {role: cells[:limit] for role, cells in self.columns.items()}
        lists = {role: cells[:limit] for role, cells in self.lists.items()}
        return replace(self, columns=columns, origins=self.origins[:limit], lists=lists)

    def add(self, role: str, column: Column, texts: tuple[str, ...]) -> None:
        """Add a cell to a column."""
        text = " ".join(texts) if column.lists == "parts" else texts[0]
        self.columns.setdefault(role, []).append(text)
        if column.lists != "refused":
            self.lists.setdefault(role, []).append(texts)

    def sentences(self, role: str, before: str = "", second: str = "") -> list[Sentence]:
        """A column as sentences that know their origin: texts, the words of a list, or chats.

        Args:
            role: the task's name of the column.
            before: what is put before every text.
            second: the column of the second sentences of pairs, if the table has it.
        """
        none = [None] * len(self)
        words = self.lists[role] if role == WORDS else none
        seconds = self.columns.get(second, none)
        rows = zip(self[role], words, seconds, self.origins, strict=True)
        return [
            Sentence(text_of(text), messages=text, origin=origin)
            if number in self.chats
            else Sentence(before + text, its, second=other, origin=origin)
            for number, (text, its, other, origin) in enumerate(rows)
        ]

    def numbers(self, role: str) -> list[float]:
        """A column of numbers.

        Raises:
            CorpusError: for the first cell that is not a finite number.
        """
        return [
            _number(text, role, origin)
            for text, origin in zip(self[role], self.origins, strict=True)
        ]


def check_limit(limit: int | None, what: str = "example") -> None:
    """Check that a limit leaves something to read.

    Raises:
        CorpusError: for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise CorpusError(
            f"Expected a limit of at least 1 {what}, got {limit}. Leave the limit out to read all."
        )


def choose(
    found: Sequence[str], columns: Columns | None, roles: ColumnSpec, where: str
) -> dict[str, str | int]:
    """Find the name or number of the column for each role.

    Args:
        found: names of the existing columns; ignored if columns are numbered.
        columns: what the user gave.
        roles: what the task needs.
        where: the file, for errors.

    Raises:
        InputError: for a column that the task does not know.
        CorpusError: for a needed column that does not exist; says which do.
    """
    columns = columns or {}
    if unknown := [name for name in columns if name not in roles]:
        raise InputError(
            f"Expected a column of this task ({', '.join(roles)}), got {unknown[0]!r}. Give "
            f"columns as {next(iter(roles))}=NAME."
        )
    chosen: dict[str, str | int] = {}
    for role, column in roles.items():
        if role in columns:
            chosen[role] = columns[role]
        elif is_numbered(columns):
            if column.needed:
                raise InputError(f"column {role!r} has no number. Number all columns or none.")
        elif column.needed or (column.after or next(iter(roles))) not in columns:
            first = next(iter(chosen.values()), None)
            name = column.name_among(role, found, first)
            if name is not None or column.needed:
                tried = column.tried(role, first)
                chosen[role] = _existing(name, tried, found, role, where, roles)
    for role, name in chosen.items():
        if isinstance(name, str) and not is_numbered(columns):
            _existing(name if name in found else None, (name,), found, role, where, roles)
    return chosen if not is_numbered(columns) else keys_of(chosen)


def named_columns(columns: Iterable[str]) -> dict[str, str | int] | None:
    """The mapping that ROLE=NAME or ROLE=NUMBER arguments describe; None without arguments.

    >>> named_columns(["source=en", "target=de"])
    {'source': 'en', 'target': 'de'}
    """
    pairs = [column.partition("=") for column in columns]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise InputError(
                f"Expected columns as ROLE=NAME, got {role + equals + name!r}. Write, for example, "
                "text=review or text=0."
            )
    roles = [role for role, _, _ in pairs]
    twice = sorted({role for role in roles if roles.count(role) > 1})
    if twice:
        raise InputError(f"Expected one column for each role, got several for {', '.join(twice)}.")
    return {role: name for role, _, name in pairs} or None


def is_numbered(columns: Columns | None) -> bool:
    """Whether columns are given by number, `2` or `"2"`.

    Raises:
        InputError: if some are and some are not.
    """
    given = list((columns or {}).values())
    numbers = [
        isinstance(name, int) or (name.isdecimal() and len(name) <= MOST_DIGITS) for name in given
    ]
    if any(numbers) and not all(numbers):
        raise InputError(
            f"Expected columns by name (the file has a header) or by number from 0 (it has none), "
            f"got {', '.join(map(str, given))}."
        )
    return any(numbers)


def keys_of(columns: Columns | None) -> dict[str, str | int]:
    """The key by which a row holds the cell of each column: its name or its number.

    Raises:
        InputError: if some are names and some are numbers.
    """
    are_numbers = is_numbered(columns)
    return {role: int(name) if are_numbers else name for role, name in (columns or {}).items()}


def cell_text(cell: object, name: str | int, origin: str, may_be_empty: bool = False) -> str:
    """A cell as stripped text; true and false become 1 and 0.

    Raises:
        CorpusError: for an empty cell, unless allowed, or one that is neither text nor number.
    """
    if isinstance(cell, bool):
        cell = int(cell)
    if not isinstance(cell, str | int | float):
        raise CorpusError(
            f"{origin}: expected text or a number in column {name!r}, got "
            f"{type(cell).__name__}. Choose another column."
        )
    is_gap = isinstance(cell, float) and not math.isfinite(cell)  # pandas' missing value
    shown = str(cell).strip()
    text = "" if is_gap else shown
    if not (text or may_be_empty) or not is_unicode(text):
        raise CorpusError(
            f"{origin}: expected some text in column {name!r}, got {shown!r}. "
            "Complete or remove the line."
        )
    return text


def _existing(
    name: str | None,
    tried: Sequence[str],
    found: Sequence[str],
    role: str,
    where: str,
    roles: ColumnSpec,
) -> str:
    if name is None:
        needed = [each for each, column in roles.items() if column.needed]
        numbers = " ".join(f"{each}={number}" for number, each in enumerate(needed))
        raise CorpusError(
            f"{where}: expected a column {' or '.join(map(repr, tried))} for {role!r}; the columns "
            f"are {', '.join(map(repr, found)) or 'none'}. Name the column ({role}=NAME), or, "
            f"if the file has no header, number all columns from 0 ({numbers})."
        )
    return name


def _number(text: str, role: str, origin: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number - number != 0:  # NaN and infinity
        raise CorpusError(f"{origin}: expected a finite number for {role!r}, got {text!r}")
    return number
