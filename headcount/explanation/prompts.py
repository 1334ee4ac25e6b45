"""Prompts of predictions to explain: one, those of a file, and those that we ship. Needs no torch.

    {"prompt": "When Mary and John went to the store, John gave a drink to", "target": " Mary",
     "against": " John", "corrupt": "When Mary and John went to the store, Peter gave a drink to"}

A `.jsonl` has such an object on every line; `against` and `corrupt` may be left out. Other tables
have such columns. Beside a prompt may be a picture, and another one beside the second prompt, whose
text is then the same if none is given:

    {"image": "red.png", "prompt": "What colour is it?", "target": " red", "against": " blue",
     "corrupt_image": "blue.png"}

`images` are several. A prompt may also be a chat, whose parts name its pictures.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isnan
from pathlib import Path
from typing import Any, final

from headcount.core import DATA, InputError, check_unicode, shortened
from headcount.corpora import (
    Chat,
    Columns,
    Data,
    ReadAs,
    Sentence,
    Shown,
    chat_of,
    is_data_set,
    is_numbered,
    keys_of,
    named_files,
    pictures_in,
    read_rows_of,
    with_pictures,
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
    beside: Sentence | None = None
    """The prompt with its pictures; None if it has none."""
    corrupt_beside: Sentence | None = None
    """The second prompt with its pictures; None if there is none, or it has none."""

    def __post_init__(self) -> None:
        for name in ("prompt", "target", "against", "corrupt"):
            text = getattr(self, name)
            if isinstance(text, str) and not text.strip() or text is None and name in _NEEDED:
                raise InputError(
                    f"{self.origin}: expected a {name} of at least one word, got "
                    f"{'none' if text is None else repr(text)}. Give a text."
                )
            check_unicode(text or "", f"the {name}", f"{self.origin}: ")

    @property
    def pictures(self) -> tuple[Shown, ...]:
        """The pictures of both prompts."""
        return tuple(
            s for each in (self.beside, self.corrupt_beside) if each for s in each.pictures
        )

    @property
    def parts(self) -> tuple[str | None, ...]:
        """What makes two prompts different."""
        texts = self.prompt, self.target, self.against, self.corrupt
        return (*texts, *(each.digest for each in self.pictures))


def pictured_prompt(
    prompt: str | Chat,
    target: str,
    against: str | None,
    corrupt: str | Chat | None,
    images: tuple[Sequence[object], Sequence[object]],
    origin: str = "The prompt",
) -> Prompt:
    """A prompt whose text stands behind pictures, or that is a chat.

    Args:
        prompt: the text, or the chat.
        target: as in `Prompt`.
        against: as in `Prompt`.
        corrupt: the second prompt; the same text if it has pictures of its own and no text.
        images: pictures beside the prompt, and beside the second one; those of the first if there
            are none.
        origin: where it is from, for messages.
    """
    first, second = images
    beside = with_pictures(prompt, first, origin)
    other = None
    if corrupt is not None:
        other = with_pictures(corrupt, second or first, origin)
    elif second:
        bare = None if beside.messages is None else chat_of(beside.messages)
        other = with_pictures(bare or beside.text, second, origin)
    said = None if other is None else other.text
    return Prompt(beside.text, target, against, said, origin, beside, other)


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
_TEXTS = (*_NEEDED, "against", "corrupt")
_IMAGES = (("image", "images"), ("corrupt_image", "corrupt_images"))
_NAMES = (*_TEXTS, *(name for names in _IMAGES for name in names))


def read_prompts(data: Data, columns: Columns | None = None) -> tuple[Prompt, ...]:
    """The prompts of a table, or of a task of ours by its name.

    >>> len(read_prompts("indirect-objects"))
    16

    Args:
        data: a file of rows (`.jsonl`, `.csv`, `.tsv`, `.parquet`), a data set of the hub, rows in
            memory, or the name of a task of ours.
        columns: names or numbers of the columns of `prompt`, `target`, `against`, `corrupt`,
            `image` and `corrupt_image`, if they have others; other columns are then ignored.

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
    kinds = {name: str | Chat if name in ("prompt", "corrupt") else str for name in _TEXTS}
    no_texts = [n for n, cell in cells.items() if n in kinds and not isinstance(cell, kinds[n])]
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
    asked: dict[str, Any] = {name: cells.get(name) for name in _TEXTS}
    images = tuple(pictures_in(cells, names) for names in _IMAGES)
    if any(images) or any(isinstance(each, Chat) for each in asked.values()):
        return pictured_prompt(*asked.values(), images, origin)  # type: ignore[arg-type]
    return Prompt(**asked, origin=origin)


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
