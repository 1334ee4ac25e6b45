"""Prompts of predictions to explain: one, those of a file, and those that we ship. Needs no torch.

    {"prompt": "When Mary and John went to the store, John gave a drink to", "target": " Mary",
     "against": " John", "corrupt": "When Mary and John went to the store, Peter gave a drink to"}

A `.jsonl` has such an object on every line; `against` and `corrupt` may be left out. Other tables
have such columns.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any, final

from headcount.core import (
    DATA,
    InputError,
    check_unicode,
    shortened,
)
from headcount.corpora import (
    Columns,
    Data,
    ReadAs,
    is_data_set,
    is_numbered,
    keys_of,
    named_files,
    read_rows_of,
)

OURS = DATA / "prompts"
"""Folder of the prompts that we ship, a task a file."""


@final
@dataclass(frozen=True)
class Prompt:
    """A text, and what is asked of a model that reads it.

    Raises:
        InputError: for an empty text.
    """

    prompt: str
    """What the model reads; a masked model fills its [MASK]."""
    target: str
    """The continuation, filling or label that is explained; of most models, " Mary" with a blank
    is a word."""
    against: str | None = None
    """Its rival."""
    corrupt: str | None = None
    """A second prompt, with another answer, whose heads' outputs replace those of the first."""
    origin: str = "The prompt"
    """Where it is from, for messages."""

    def __post_init__(self) -> None:
        for name in ("prompt", "target", "against", "corrupt"):
            text = getattr(self, name)
            if isinstance(text, str) and not text.strip() or text is None and name in _NEEDED:
                raise InputError(
                    f"{self.origin}: expected a {name} of at least one word, got "
                    f"{'none' if text is None else repr(text)}. Give a text."
                )
            check_unicode(text or "", f"the {name}", f"{self.origin}: ")


TARGET, RIVAL = "target", "rival"
"""What words are called that are other ones in every prompt."""
REPEATED = ", "
"""What stands between a word that a prompt repeats and the number of its time."""


def named_word(prompt: Prompt, word: str, several: bool) -> str:
    """A word of a prompt; that of its target or rival by this name, if there are several prompts.

    >>> named_word(Prompt("When Mary and John", " Mary"), "Mary", True)
    'target'
    """
    for name, text in ((TARGET, prompt.target), (RIVAL, prompt.against or "")):
        if several and word.strip() == text.strip():
            return name
    return word.strip()


_NEEDED = ("prompt", "target")
_NAMES = tuple(field.name for field in fields(Prompt) if field.name != "origin")


def read_prompts(data: Data, columns: Columns | None = None) -> tuple[Prompt, ...]:
    """The prompts of a table, or of a task of ours by its name.

    >>> len(read_prompts("indirect-objects"))
    16

    Args:
        data: a file of rows (`.jsonl`, `.csv`, `.tsv`, `.parquet`), a data set of the hub, rows in
            memory, or the name of a task of ours.
        columns: names or numbers of the columns of `prompt`, `target`, `against` and `corrupt`, if
            they have others; other columns are then ignored.

    Raises:
        CorpusError: if the data can't be read.
        InputError: for data without prompts, or a row that is no prompt.
    """
    ours = {path.stem: path for path in sorted(OURS.glob("*.jsonl"))}
    given = ReadAs.of(data)
    if isinstance(name := given.data, str | Path):
        given = replace(given, data=ours.get(str(name), name))
        if not (Path(given.data).exists() or is_data_set(name) or len(named_files(given)) > 1):
            raise InputError(
                f"Expected a file of prompts (.jsonl, .csv, .tsv, .parquet), or one of "
                f"{', '.join(ours)}, got {name}, which is neither. Check the name."
            )
    if unknown := [name for name in columns or {} if name not in _NAMES]:
        raise InputError(
            f"Expected columns of prompts ({', '.join(_NAMES)}), got {unknown[0]!r}. Write "
            "prompt=NAME, prompt.target=NAME and prompt.against=NAME."
        )
    named = {name: name for name in _NAMES} | keys_of(columns)
    rows = read_rows_of(given, named if not is_numbered(columns) else columns, _EXPECTED)
    found = tuple(_prompt(row, named, origin, bool(columns)) for origin, row in rows)
    if not found:
        raise InputError(f"Expected prompts in {given.data}, one a row, got none. Add some.")
    return found


_EXPECTED = "an object with texts as prompt and target, and maybe against and corrupt"


def _prompt(
    row: Mapping[Any, object], named: Mapping[str, str | int], origin: str, may_have_others: bool
) -> Prompt:
    """The prompt in a row; a cell without text is none."""
    found = {name: row[column] for name, column in named.items() if column in row}
    cells = {name: cell for name, cell in found.items() if not _is_gap(cell)}
    others = [] if may_have_others else [field for field in row if field not in named.values()]
    missing = [name for name in _NEEDED if name not in found]
    no_texts = [name for name, cell in cells.items() if not isinstance(cell, str)]
    if missing:
        wrong = f"got none for {' and '.join(missing)} among the fields {_listed(row)}"
    elif others:
        wrong = f"got the unknown field {_listed(others)}"
    elif no_texts:
        wrong = f"got {cells[no_texts[0]]!r:.80} as {no_texts[0]}"
    if missing or others or no_texts:
        raise InputError(
            f"{origin}: expected {_EXPECTED}, {wrong}. Fix the row, or name the columns to read: "
            "--columns prompt=NAME prompt.target=NAME prompt.against=NAME."
        )
    return Prompt(**({name: None for name in _NEEDED} | cells), origin=origin)  # type: ignore[arg-type]


def _listed(fields: Iterable[object]) -> str:
    return ", ".join(repr(field) for field in islice(fields, 10))


def _is_gap(cell: object) -> bool:
    """Whether a cell is missing, as pandas and csv write it."""
    return cell is None or cell == "" or (isinstance(cell, float) and isnan(cell))


def prompts_of(
    prompt: str | Sequence[Prompt], target: str | None, against: str | None, corrupt: str | None
) -> tuple[Prompt, ...]:
    """The prompts that are given one by one, or all together.

    Raises:
        InputError: for something else, or if both are given.
    """
    if isinstance(prompt, str):
        return (Prompt(prompt, target or "", against, corrupt),)
    if not prompt or not all(isinstance(each, Prompt) for each in prompt):
        raise InputError(
            "Expected a prompt and its target, or a list of headcount.explanation.Prompt, got "
            f"{shortened(repr(prompt), 80)}. Read a file with read_prompts."
        )
    if given := [each for each in (target, against, corrupt) if each is not None]:
        raise InputError(
            f"Expected prompts that have targets of their own, got another one, {given[0]!r}. "
            "Leave it out."
        )
    return tuple(prompt)
