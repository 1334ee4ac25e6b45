"""Records: sentences as rows with fields, of a file or held in memory.

A row has a text (`text` or another of `TEXT_NAMES`; a list of messages is a chat) or `words` (a
list), and perhaps `target` and `second`. Other fields are ignored.

Parallel text: `.tsv` with source<TAB>target, or two files with one example per line each.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from headcount.core import CorpusError, InputError, amount, is_unicode
from headcount.corpora.conllu import is_treebank, read_conllu
from headcount.corpora.delimited import split_at_tabs
from headcount.corpora.formats import File, is_blank
from headcount.corpora.held import Held
from headcount.corpora.layout import as_written
from headcount.corpora.lines import note, numbered_lines
from headcount.corpora.messages import (
    BESIDE_NAMES,
    PART_NAMES,
    SYSTEM,
    Chat,
    media_in,
    messages_of,
    text_of,
)
from headcount.corpora.picture_rows import (
    SOUND_NAMES,
    are_places,
    pictures_in,
    places_of,
    with_pictures,
)
from headcount.corpora.pictures import FILE_NAME, Picture, image_digest
from headcount.corpora.sentence import Sentence
from headcount.corpora.table import TEXT_NAMES, Column, Columns, ColumnSpec, keys_of
from headcount.corpora.word_links import are_links, check_link, links_of_rows


def read_tsv(file: File) -> Iterator[Sentence]:
    """Yield the pairs of a file with source<TAB>target; blank lines are skipped."""
    path, header = file.path, {*TEXT_NAMES, "source", "target", "label"}
    for number, columns in split_at_tabs(path, file.how.as_is):
        if number == 1 and header & {*columns}:
            note(
                f"{path}: its first line is read as a text; if it is a header, name the column of "
                "the text: --columns text=NAME"
            )
        if not "".join(columns).strip() and len(columns) == 1:
            continue
        if len(columns) != 2:
            advice = "sources alone belong in a .txt file"
            if len(columns) > 2:
                advice = "further references, as target2, are read by --task translation only"
            raise CorpusError(
                f"{path}:{number}: expected source<TAB>target, got "
                f"{amount(len(columns), 'column')}. Keep two columns ({advice}), or name that of "
                "the text: --columns text=NAME."
            )
        source, target = columns[0].strip(), columns[1].strip()
        if not source or not target:
            raise CorpusError(
                f"{path}:{number}: expected text on both sides of the tab, got an empty "
                f"{'target' if source else 'source'}. Complete or remove the line."
            )
        yield Sentence(source, target=target, origin=f"{path}:{number}")


def read_pair(source: Path, target: Path, links: Sequence[str] = ()) -> Iterator[Sentence]:
    """Yield source sentences, with line i of `target` as the other side of source example i.

    An example is a sentence of a `.conllu` source, or a line of any other. A line that is blank on
    both sides is skipped. Keys of column 10 name links, as in `read_conllu`.
    """
    examples = partial(read_conllu, links=links) if is_treebank(source) else _line_examples
    num_sources = num_targets = 0
    for left, right in zip_longest(examples(source), numbered_lines(target)):
        num_sources += left is not None
        num_targets += right is not None
        if left is not None and right is not None:
            pair = _pair(left, right[1].strip(), f"{target}:{right[0]}")
            if pair is not None:
                yield pair
    if num_sources != num_targets:
        kind = "sentences" if is_treebank(source) else "lines"
        raise CorpusError(
            f"Expected as many lines in {target} as {kind} in {source}, got {num_targets} and "
            f"{num_sources}. Line i of one file must translate example i of the other."
        )


def _line_examples(path: Path) -> Iterator[Sentence]:
    for number, line in numbered_lines(path):
        yield Sentence(line.strip(), origin=f"{path}:{number}")


def _pair(sentence: Sentence, target: str, target_origin: str) -> Sentence | None:
    if not sentence.text and not target:
        return None
    if not sentence.text or not target:
        blank, full = sentence.origin, target_origin
        if sentence.text:
            blank, full = full, blank
        raise CorpusError(
            f"{blank}: the line is blank but its other side, {full}, is not. "
            "Complete the pair or remove it from both files."
        )
    return replace(sentence, target=target)


FIELDS: ColumnSpec = {
    "text": Column(TEXT_NAMES, may_be_chat=True),
    "words": Column((), kind=list),
    "target": Column((), kind=str),  # a number elsewhere
    "second": Column((), kind=str),
    "image": Column((FILE_NAME,), kind=Picture),
    "images": Column((), kind=list),
    "links": Column((), kind=list),
}
"""The columns of a row that a sentence is made of."""


def read_rows(file: File, columns: Columns | None = None) -> Iterator[Sentence]:
    """Yield the sentences of a file of rows."""
    form, names = file.format, keys_of(columns)
    wanted, expected = partial(_read_of, columns=names), "a JSON object with a field 'text'"
    for origin, row in file.rows(columns, wanted, expected):
        if not (form.may_be_blank and _is_blank(row, names)):
            yield sentence_of(row, names, origin, form.has_types)


def _read_of(found: Sequence[str], columns: Mapping[str, str | int]) -> Sequence[str]:
    """The columns of a file that a sentence is made of; all of them if there is no such text."""
    names = {*FIELDS, *TEXT_NAMES, *columns.values(), *BESIDE_NAMES, SYSTEM, *SOUND_NAMES}
    chosen = [each for each in found if {each, each.partition(".")[0]} & names]
    has_text = {*TEXT_NAMES, "words"} & {*chosen} or columns
    return chosen if has_text and {*columns.values()} <= {*chosen} else found


def read_held(held: Held, columns: Columns | None = None) -> Iterator[Sentence]:
    """Yield the sentences of rows or texts in memory."""
    names = keys_of(columns)
    for origin, item in held.items(columns):
        if isinstance(item, Sentence):
            yield _checked(item, origin)
        elif isinstance(item, str):
            yield _checked(Sentence(item.strip(), origin=origin), origin)
        elif not _is_blank(item, names):
            yield _checked(sentence_of(item, names, origin), origin)


def check_fields(columns: Columns | None) -> None:
    """Check that columns are named for fields that a sentence has.

    Raises:
        InputError: if one is not.
    """
    for field in columns or {}:
        if field not in FIELDS:
            raise InputError(f"Expected columns for {', '.join(FIELDS)}, got one for {field!r}.")


def sentence_of(
    row: Mapping[Any, object], columns: Mapping[str, str | int], origin: str, has_types: bool = True
) -> Sentence:
    """The sentence in a row.

    Args:
        row: its cells.
        columns: names or numbers of fields that have other names than in `FIELDS`.
        origin: file and line, for errors.
        has_types: whether a cell's type tells what it is; otherwise fields must be named, except
            for the text.

    Raises:
        CorpusError: if it has no text, or a field that can't be used.
    """
    filled = {name: cell for name, cell in row.items() if cell is not None}
    cells, names = dict[str, object](), dict[str, str | int]()
    for field in FIELDS if has_types else {"text", *columns}:
        name = columns.get(field, FIELDS[field].name_among(field, filled))
        if name is not None and (cell := filled.get(name)) is not None:
            if field in columns or isinstance(cell, FIELDS[field].kind):
                cells[field], names[field] = cell, name
    is_alone = "image" in columns and "text" not in columns or not {"text", "words"} & {*cells}
    is_chat = isinstance(cells.get("text"), list | Chat)
    if "image" in cells and is_alone and not is_chat:
        path = Path(str(cells["image"]))
        return Sentence(image_digest(path), origin=origin, image=path)
    if not {*columns.values()} <= {*row} or not {"text", "words"} & {*cells}:
        raise _without_text(row, columns, origin, has_types)
    words = None if "words" not in cells else _words(cells["words"], names["words"], origin)
    target, second = (
        None if field not in cells else _text(cells[field], names[field], origin)
        for field in ("target", "second")
    )
    if is_chat or {"image", "images"} & {*columns}:
        given, sounds = (
            pictures_in(filled, [*map(str, names)])
            for names in (_picture_names(columns), SOUND_NAMES)
        )
        found = _with_pictures(cells, columns, given, origin, sounds)
        if found is not None:
            return found
    links = cells.get("links")
    if "links" not in columns and not are_links(links):
        links = None  # a field of another kind that nobody named
    if "text" not in cells:
        text = " ".join(words or ())
        sentence = Sentence(text, words, target=target, second=second, origin=origin)
        return sentence if links is None else links_of_rows(links, sentence)
    if isinstance(cells["text"], list | Chat):
        messages = messages_of(cells["text"], origin)
        return Sentence(text_of(messages), origin=origin, messages=messages)
    text = _text(cells["text"], names["text"], origin)
    sentence = as_written(Sentence(text, words, target=target, second=second, origin=origin))
    return sentence if links is None else links_of_rows(links, sentence)


def _picture_names(columns: Mapping[str, str | int]) -> Sequence[str | int]:
    """The columns that pictures beside a text are looked for in."""
    return [columns.get(each, each) for each in ("image", "images")]


def _with_pictures(
    cells: Mapping[str, Any],
    columns: Mapping[str, str | int],
    given: Sequence[object],
    origin: str,
    sounds: Sequence[object],
) -> Sentence | None:
    """The sentence of a row with pictures or sound beside a text; None if there are none."""
    text, is_named = cells["text"], bool({"image", "images"} & {*columns})
    if isinstance(text, list | Chat):
        chat = text if isinstance(text, Chat) else Chat(text)
        if media_in(chat) is None and not (is_named and given):
            return None
        found = with_pictures(chat, given, origin, sounds)
    else:
        found = with_pictures(_text(text, columns.get("text", "text"), origin), given, origin)
    links = cells.get("links")
    if not found.pictures or not ("links" in columns or are_places(links)):
        return found
    return replace(found, places=places_of(links, origin, len(found.pictures)))


def _without_text(
    row: Mapping[Any, object], columns: Mapping[str, str | int], origin: str, has_types: bool
) -> CorpusError:
    """The error that a row lacks a text or a named column; says which columns it has."""
    missing = [name for name in columns.values() if name not in row]
    asked = [columns[field] for field in ("text", "words") if field in columns]
    empty = [name for name in asked or (*TEXT_NAMES, "words") if row.get(name, 0) is None]
    if empty and not missing:
        return CorpusError(
            f"{origin}: expected some text in field {empty[0]!r}, got none. Fix or remove the line."
        )
    fields, name = ", ".join(map(repr, row)) or "none", _part_of_a_chat(row)
    number = "" if has_types else "; where the file has no header, number it from 0: text=0"
    return CorpusError(
        f"{origin}: expected a field {(missing or ['text'])[0]!r}, got the fields: {fields}. "
        f"Rename the field, or name it: --columns text={name}, in Python Corpus(..., "
        f"columns={{'text': NAME}}){number}."
    )


def _part_of_a_chat(row: Mapping[Any, object]) -> str:
    """The field that holds what a model replies as a text; NAME without one."""
    return next((each for each in reversed(PART_NAMES) if isinstance(row.get(each), str)), "NAME")


def _is_blank(row: Mapping[Any, object], columns: Mapping[str, str | int]) -> bool:
    """Whether a row is like a blank line, of which data sets such as WikiText have many."""
    return is_blank(row, columns.get("text", "text")) and "words" not in row


def _text(cell: object, name: str | int, origin: str) -> str:
    if not isinstance(cell, str) or not cell.strip() or not is_unicode(cell):
        raise CorpusError(
            f"{origin}: expected the field {name!r} to hold some text, got {cell!r:.80}. "
            "Fix or remove the line."
        )
    return cell.strip()


def _words(cell: object, name: str | int, origin: str) -> tuple[str, ...]:
    if not isinstance(cell, list | tuple) or not cell:
        raise CorpusError(
            f"{origin}: expected the field {name!r} to hold a list of words, got {cell!r:.80}. "
            "Fix or remove the line."
        )
    return tuple(_text(word, name, origin) for word in cell)


def _checked(sentence: Sentence, origin: str) -> Sentence:
    """A sentence in memory, checked."""
    if not sentence.text.strip():
        raise CorpusError(f"{origin}: expected some text, got none. Leave the sentence out.")
    if sentence.second is not None and sentence.words is not None:
        raise CorpusError(
            f"{origin}: expected running text in a pair of sentences, got words of a treebank. "
            "Leave the words out."
        )
    num_words, tree = len(sentence.words or ()), sentence.tree
    if tree is not None and not num_words == len(tree.heads) == len(tree.relations):
        raise CorpusError(
            f"{origin}: expected a head and a relation for every word, got "
            f"{amount(num_words, 'word')}, {amount(len(tree.heads), 'head')} and "
            f"{amount(len(tree.relations), 'relation')}. Complete the tree."
        )
    if sentence.spans is not None and len(sentence.spans) != num_words:
        raise CorpusError(
            f"{origin}: expected a place in the text for every word, got "
            f"{amount(len(sentence.spans), 'place')} for {amount(num_words, 'word')}. Give as many."
        )
    for link in sentence.links:
        check_link(link, sentence)
    return as_written(sentence)
