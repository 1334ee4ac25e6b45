"""Data held in memory: lists of texts or of dicts, objects of `datasets`, data frames of pandas.

A data set of the Hugging Face hub is `hf://dataset/config?split=validation`;
`hf://owner/name?split=test` and `hf://owner/name/config?split=test` work too. Needs the extra
`headcount[datasets]`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import filterfalse
from pathlib import Path
from typing import Any, final
from urllib.parse import parse_qs, urlsplit

from headcount.core import CorpusError, InputError, reason
from headcount.corpora.folders import is_data_folder, load_folder, package_datasets
from headcount.corpora.formats import FORMATS, File, Row, Wanted, cells_of
from headcount.corpora.lines import COMPRESSED, USUAL, HowRead
from headcount.corpora.sentence import Sentence
from headcount.corpora.table import Columns, Data, ReadAs
from headcount.vocabulary import INPUTS

HUB = "hf://"
_PLAIN = (".txt", *FORMATS.own, ".conllu", ".conll")
_MORE = tuple(f"{end}{more}" for end in _PLAIN for more in COMPRESSED)
ENDINGS = (*_PLAIN, *_MORE, *(end for each in INPUTS for end in each.endings))
"""Endings of files that hold data, but for those that plug-ins read."""
OTHER_ENDINGS = tuple(
    ".json .xml .html .md .pdf .docx .xlsx .yaml .arrow .gz .bz2 .xz .zst .zip .raw .tok".split()
)
"""Endings of files that hold data, but are not read."""
_LIKE_A_FILE = re.compile(r"\S+\.[A-Za-z]\w{0,7}")
"""Pattern of a name with an ending, e.g. `train.json`."""
LONGEST_PATH = 1024
"""Largest number of characters in a path that is looked up."""
LEAST_PARTS, MOST_PARTS = 16, 256
"""Smallest number of files of a stream that is read in parts, and largest number of parts."""


@final
@dataclass(frozen=True, eq=False)
class Held:
    """Rows in memory; every call of `rows` reads them from the beginning."""

    data: Any
    name: str = ""
    """Name of the data, for errors; empty for what a user passes."""
    part: str = ""
    """Which part of a stream this is, for errors."""
    how: HowRead = USUAL

    @property
    def is_list(self) -> bool:
        """Whether the rows are a list or a tuple."""
        return isinstance(self.data, Sequence)

    @property
    def is_stream(self) -> bool:
        """Whether the rows come one after the other from files that are not copied here."""
        return hasattr(self.data, "shard") and not hasattr(self.data, "__len__")

    @property
    def num_parts(self) -> int:
        """Number of parts of a stream of many files; 1 for all else."""
        num_files = self.data.num_shards if self.is_stream else 1
        return 1 if num_files < LEAST_PARTS else min(num_files, MOST_PARTS)

    @property
    def parts(self) -> "Iterator[Held]":
        """Runs of the files of a stream, in their order."""
        for each in range(number := self.num_parts):
            data = self.data.shard(number, each, contiguous=True)
            yield replace(self, data=data, part=f"part {each + 1} of {number}")

    def __str__(self) -> str:
        return f"{self.name} {self.part}".strip()

    def items(self, columns: Columns | None = None) -> Iterator[tuple[str, Any]]:
        """The origin of each item, and the item: a text, a sentence or the cells of a row.

        Raises:
            CorpusError: for an item of another type; says which.
        """
        data = _undecoded(self.data)
        is_frame = all(hasattr(data, each) for each in ("to_dict", "columns"))
        data = data.to_dict("records") if is_frame else data
        if isinstance(data, Mapping):
            data = _of_columns(data)
        where = f"{self} row".lstrip()
        for number, item in enumerate(_whole(data, where) if self.is_stream else data, start=1):
            origin = f"{where} {number}"
            if not isinstance(item, str | Mapping | Sentence):
                raise CorpusError(
                    f"{origin}: expected a text or a dict with its fields, got a "
                    f"{type(item).__name__}. Give texts, or dicts such as "
                    '{"text": ...}.'
                )
            if isinstance(item, Mapping):
                item = cells_of(item, origin, columns, hasattr(self.data, "features"))
            yield origin, item

    def rows(
        self,
        columns: Columns | None = None,
        wanted: Wanted | None = None,
        expected: str = "a dict",
    ) -> Iterator[Row]:
        """The origin and the cells of each row, as of a `File`; a text is the field `text`."""
        del wanted, expected
        for origin, item in self.items(columns):
            if isinstance(item, Sentence):
                raise CorpusError(
                    f"{origin}: expected a text or a dict with its fields, got a Sentence, which "
                    "is for a Corpus. Give its text."
                )
            yield origin, {"text": item} if isinstance(item, str) else item

    def class_names(self, column: str | int) -> Sequence[str]:
        """Class names of a column that numbers its classes, alone or in lists; else none."""
        features = getattr(self.data, "features", None) or {}
        feature = features.get(column)
        feature = getattr(feature, "feature", feature)  # of the items of a list
        return list(getattr(feature, "names", None) or ())


Source = File | Held
"""What rows are read from, again and again: a file, a data set of the hub, or data in memory."""


def is_held(data: Any) -> bool:
    """Whether data are held in memory, and are not names of files.

    A list of strings names files if each of them exists, is `hf://...` or ends as a file of data
    does; if none does, it holds texts. A name that ends as other files do is no text beside texts.

    Raises:
        CorpusError: for a list that has both, or names of missing files with other endings; for an
            object with several splits; and for what can't be read twice or at all.
    """
    data = ReadAs.of(data).data
    if isinstance(data, str | Path):
        return False
    _check_readable(data)
    if not isinstance(data, Sequence):
        return True
    are_files = [isinstance(each, Path) or _names_a_file(each) for each in data]
    are_like = [
        is_one or _ends_like_a_file(each) for is_one, each in zip(are_files, data, strict=True)
    ]
    if any(are_like) and not all(are_like):
        file, other = are_like.index(True), are_like.index(False)
        raise CorpusError(
            f"Expected files only or texts only, got both: {data[file]!r:.80} (item {file + 1}) "
            f"{'is' if are_files[file] else 'looks like'} the name of a file, "
            f"{data[other]!r:.80} (item {other + 1}) is none. Check the "
            'paths, or give texts as {"text": ...}.'
        )
    are_names = (isinstance(each, str) and _LIKE_A_FILE.fullmatch(each) for each in data)
    if data and not any(are_files) and all(are_names):
        raise CorpusError(
            f"Expected files or texts, got {data[0]!r:.80} (item 1), which looks like the name of "
            f'a file, but there is none. Check the path, or give texts as {{"text": [...]}}.'
        )
    return not all(are_files)


def is_on_hub(item: str | Path) -> bool:
    """Whether the name of data is that of a data set of the hub."""
    return str(item).startswith(HUB)


def named_files(data: Data) -> list[str | Path]:
    """The names of files, of data that are not held in memory; a pattern stands for its files.

    Raises:
        CorpusError: for a pattern that no file has.
    """
    given = ReadAs.of(data).data
    named = [given] if isinstance(given, str | Path) else list(given)
    return [each for name in named for each in _matching(name)]


def _matching(name: str | Path) -> Sequence[str | Path]:
    """The files whose names match a pattern, in order; any other name itself."""
    if is_data_set(name) or not has_magic(str(name)) or Path(name).exists():
        return [name]
    if found := sorted(glob(str(name), recursive=True)):
        return found
    raise CorpusError(
        f"Expected files whose names match {name}, got none. Check the pattern, and put it in "
        "quotes."
    )


def sources_of(data: Data, *, stream: bool = False) -> list[Source]:
    """What the rows of data are read from: files, data sets of the hub, or what is in memory.

    Args:
        data: the data.
        stream: whether data sets of the hub are read from there again and again, and not copied.

    Raises:
        CorpusError: as `is_held` does, or if a data set can't be loaded.
        InputError: for a stream of something that is not on the hub.
    """
    given = ReadAs.of(data)
    named = None if is_held(given) else named_files(given)
    others = ["data in memory"] if named is None else [*filterfalse(is_on_hub, named)]
    if stream and (others or not named):
        raise InputError(
            "Expected data sets of the hub (hf://...) for --stream, got "
            f"{others[0] if others else 'none'}. Leave the option out: files are always read piece "
            "by piece."
        )
    if named is None:
        return [Held(given.data, how=given.how)]
    found = list[Source]()
    for each in named:
        if is_on_hub(each):
            found.append(replace(hub_data(str(each), stream), how=given.how))
        elif is_data_folder(each):
            rows = load_folder(each)
            if isinstance(rows, list):
                found += [File(path, given.how) for path in rows]
            else:
                found.append(Held(rows, Path(each).name, how=given.how))
        else:
            found.append(File(Path(each), given.how))
    return found


def is_data_set(name: str | Path) -> bool:
    """Whether the name of data is that of a data set of the hub, or of the folder of one."""
    return is_on_hub(name) or is_data_folder(name)


def _undecoded(data: Any) -> Any:
    """A data set whose pictures and sound are bytes, as they are stored; other data themselves."""
    features = getattr(data, "features", None)
    for name, feature in dict(features).items() if isinstance(features, Mapping) else ():
        if type(feature).__name__ in ("Image", "Audio"):
            data = data.cast_column(name, type(feature)(decode=False))
    return data


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
    if is_data_set(item) or item.lower().endswith(ENDINGS):
        return True
    if _LIKE_A_FILE.fullmatch(item) and Path(item).suffix in FORMATS:
        return True
    try:
        return 0 < len(item) <= LONGEST_PATH and Path(item).exists()
    except OSError:  # a part of the path is too long
        return False


def _ends_like_a_file(item: object) -> bool:
    """Whether an item is one word that ends as files of other kinds do."""
    if not isinstance(item, str) or not _LIKE_A_FILE.fullmatch(item):
        return False
    return item.lower().endswith(OTHER_ENDINGS)


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


def _whole(rows: Iterable[Any], where: str) -> Iterator[Any]:
    """The rows of a stream.

    Raises:
        CorpusError: if the stream breaks off; says after which row.
    """
    number = 0
    try:
        for row in rows:
            yield row
            number += 1
    except InputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # a network, a damaged file, other columns
        raise CorpusError(
            f"{where} {number}: expected another row or the end of the stream, but it can't be "
            f"read any further: {reason(error).rstrip('.')}. Check the network, and that all its "
            "files have the same columns."
        ) from error


def hub_data(url: str, stream: bool = False) -> Held:
    """The data set at an address; a stream of it has no length and no copy here.

    Raises:
        InputError: if `datasets` is not installed, or the address is incomplete.
        CorpusError: if the data set can't be loaded.
    """
    names, split = _names_and_split(url)
    datasets = package_datasets(url, "save the data as .tsv, .csv or .jsonl")
    options = {"split": split} | ({"streaming": True} if stream else {})
    return Held(_loaded(datasets, url, names, options), url)


def _names_and_split(url: str) -> tuple[list[str], str]:
    """The names between the slashes, and the split."""
    try:
        address = urlsplit(url)
    except ValueError as error:  # brackets, and letters that are no letters of an address
        raise InputError(
            f"Expected hf://dataset/config?split=validation, got {url!r}: {reason(error)}."
        ) from error
    names = [part for part in (address.netloc + address.path).split("/") if part]
    splits = parse_qs(address.query.replace("+", "%2B")).get("split", [])
    if not 1 <= len(names) <= 3 or len(splits) != 1:
        raise InputError(
            f"Expected hf://dataset/config?split=validation (or hf://owner/name/config?split=...), "
            f"got {url!r}."
        )
    return names, splits[0]


def _loaded(datasets: Any, url: str, names: list[str], options: Mapping[str, Any]) -> Any:
    """The data set. Of two names, the second may be a config, or the first an owner."""
    readings = {
        1: [(names[0],)],
        2: [("/".join(names),), tuple(names)],
        3: [("/".join(names[:2]), names[-1])],
    }[len(names)]
    met: Exception | None = None
    for reading in readings:
        try:
            return datasets.load_dataset(*reading, **options)
        except OSError as error:  # not found; the names may have the other meaning
            met = error
        except (ValueError, RuntimeError) as error:  # unknown config or split, or made by a script
            met = error
            break
    why = "no answer" if met is None else reason(met).rstrip(".")
    raise CorpusError(
        f"{url} can't be loaded: {why}. Check the name, the config, the split and the network."
    ) from met
