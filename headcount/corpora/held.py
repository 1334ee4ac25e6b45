"""Data held in memory: lists of texts or of dicts, objects of `datasets`, data frames of pandas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from headcount.core import CorpusError
from headcount.corpora.sentence import Sentence

HUB = "hf://"
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""Endings of images, in any case."""
ENDINGS = (".txt", ".jsonl", ".conllu", ".conll", ".tsv", ".csv", *IMAGE_SUFFIXES)
"""Endings of files that hold data."""
LONGEST_PATH = 1024
"""Largest number of characters in a path that is looked up."""

Row = tuple[str, Mapping[Any, object]]
"""The origin of a row, and its cells by name or number."""


@final
@dataclass(frozen=True, eq=False)
class Held:
    """Rows in memory; every call of `rows` reads them from the beginning."""

    data: Any
    name: str = ""
    """Name of the data, for errors; empty for what a user passes."""

    def items(self) -> Iterator[tuple[str, Any]]:
        """The origin of each item, and the item: a text, a sentence or the fields of a row.

        Raises:
            CorpusError: for an item of another type; says which.
        """
        data = self.data.to_dict("records") if _is_frame(self.data) else self.data
        if isinstance(data, Mapping):
            data = _of_columns(data)
        for number, item in enumerate(data, start=1):
            origin = f"{self.name} row {number}".lstrip()
            if not isinstance(item, str | Mapping | Sentence):
                raise CorpusError(
                    f"{origin}: expected a text or a dict with its fields, got a "
                    f"{type(item).__name__}. Give texts, or dicts such as "
                    '{"text": ...}.'
                )
            yield origin, flattened(item) if isinstance(item, Mapping) else item

    def rows(self) -> Iterator[Row]:
        """The origin and the cells of each row; a text is the field `text`."""
        for origin, item in self.items():
            if isinstance(item, Sentence):
                raise CorpusError(
                    f"{origin}: expected a text or a dict with its fields, got a Sentence, which "
                    "is for a Corpus. Give its text."
                )
            yield origin, {"text": item} if isinstance(item, str) else item

    def class_names(self, column: str | int) -> list[str]:
        """Class names of a column that numbers its classes, alone or in lists; else none."""
        features = getattr(self.data, "features", None) or {}
        feature = features.get(column)
        feature = getattr(feature, "feature", feature)  # of the items of a list
        return list(getattr(feature, "names", None) or ())


def is_held(data: object) -> bool:
    """Whether data are held in memory, and are not names of files.

    A list of strings names files if each of them exists, is `hf://...` or ends as a file of data
    does; if none does, it holds texts.

    Raises:
        CorpusError: for a list that has both, for an object with several splits, and for what can't
            be read twice or at all.
    """
    if isinstance(data, str | Path):
        return False
    _check_readable(data)
    if not isinstance(data, Sequence):
        return True
    are_files = [isinstance(each, Path) or _names_a_file(each) for each in data]
    if any(are_files) and not all(are_files):
        file, other = are_files.index(True), are_files.index(False)
        raise CorpusError(
            f"Expected files only or texts only, got both: {data[file]!r:.80} (item {file + 1}) is "
            f"the name of a file, {data[other]!r:.80} (item {other + 1}) is none. Check the "
            'paths, or give texts as {"text": ...}.'
        )
    return not all(are_files)


def _check_readable(data: object) -> None:
    """Check that data are neither a dictionary of splits nor something that has no rows."""
    splits = data if isinstance(data, Mapping) else {}
    if named := [str(name) for name, each in splits.items() if hasattr(each, "column_names")]:
        raise CorpusError(
            f"Expected one split of a data set, got a {type(data).__name__} with "
            f"{', '.join(map(repr, named))}. Pass one of them, such as data[{named[0]!r}]."
        )
    if isinstance(data, Iterator) or not isinstance(data, Iterable):
        raise CorpusError(
            "Expected files, or texts or rows in memory (a list, a data set of `datasets`, a data "
            f"frame), got {data!r:.80}, which is none of them. Pass a list."
        )


def _names_a_file(item: object) -> bool:
    if not isinstance(item, str) or "\n" in item or "\0" in item:
        return False
    if item.startswith(HUB) or item.lower().endswith(ENDINGS):
        return True
    try:
        return 0 < len(item) <= LONGEST_PATH and Path(item).exists()
    except OSError:  # a part of the path is too long
        return False


def _is_frame(data: object) -> bool:
    return hasattr(data, "to_dict") and hasattr(data, "columns")


def _of_columns(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    if texts := [name for name, cells in columns.items() if isinstance(cells, str)]:
        raise CorpusError(
            f"Expected a list of cells for each column, got one text for {texts[0]!r}. Put a row "
            "in a list: [row]."
        )
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len({*lengths.values()}) > 1:
        raise CorpusError(f"Expected columns of one length, got {lengths}.")
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of nested objects, under `outer.inner`."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": each for inner, each in flattened(value).items()}
        else:
            flat[name] = value
    return flat
