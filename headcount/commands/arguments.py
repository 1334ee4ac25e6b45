"""Arguments that commands share: models, files, and the folder of a run's results."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from headcount import models
from headcount.commands.console import ONCE
from headcount.core import CorpusError, InputError, ModelError, check_options, name_of
from headcount.corpora import (
    Corpus,
    HowRead,
    ReadAs,
    check_limit,
    is_data_set,
    named_columns,
    named_files,
)
from headcount.models import DeviceOptions, LoadOptions

CorpusFiles = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="CORPUS ...")]
"""Files of a corpus, which are given without an option's name."""
TextFiles = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT ...")]
"""Files of texts, likewise."""


def group(title: str) -> tuple[Any, ...]:
    """Annotations of a dataclass whose fields are options without a prefix, in a box of help."""
    return tyro.conf.arg(name=title, prefix_name=False), tyro.conf.OmitArgPrefixes


Reading = Annotated[HowRead, *group("more")]
"""How files are read, in a box of help for what is rarely used."""


@dataclass(frozen=True)
class DeviceArguments(DeviceOptions):
    """How models are loaded."""

    recheck: Annotated[bool, tyro.conf.arg(name="check")] = field(
        default=False, kw_only=True, metadata={ONCE: True}
    )
    """Check the model's attention again, even if an earlier run did."""

    def load_model(
        self, name: str | Path, languages: tuple[str, str] | None = None
    ) -> "models.Loaded":
        """Load a model.

        Args:
            name: Its name or folder.
            languages: Languages of source and target, for a multilingual translator.
        """
        return models.load(
            *(name, self.device, self.dtype, languages),
            trust_remote_code=self.trust_remote_code,
            check=self.recheck,
        )


@dataclass(frozen=True)
class ModelArguments(LoadOptions, DeviceArguments):
    """One model, and how it is loaded."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A Hugging Face name, a folder, or headcount:en-de."""

    def check(self) -> None:
        """Check everything that needs no model.

        Raises:
            InputError: If an argument can't be used.
        """
        check_options(self)
        check_model(self.model)

    def load(self) -> "models.Loaded":
        """Load the model."""
        return self.load_model(self.model, self.languages)


@dataclass(frozen=True)
class ColumnArguments:
    """The columns of a table of texts, and how files are read."""

    reading: Reading = field(default_factory=HowRead, kw_only=True)
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    """Columns of a table as text=NAME, words=NAME, target=NAME or second=NAME, or with a NUMBER
    (from 0) where the file has no header; with them a .tsv is a table."""

    def read(self, files: Sequence[str | Path], *sides: Any, **how: Any) -> Corpus:
        """The corpus in some files, before a model is loaded: files and columns are there.

        Raises:
            CorpusError: If a file or a column is not there, or a first row can't be read.
            InputError: If an option has no effect.
        """
        # As paths, for a name that is mistyped would be taken for a text.
        named = [each if is_data_set(each) else Path(each) for each in files]
        return Corpus(ReadAs(named, self.reading), *sides, columns=self.text_columns, **how)

    @property
    def text_columns(self) -> dict[str, str | int] | None:
        """The columns of the texts."""
        return named_columns(self.columns)

    def check_texts(self, files: Sequence[str], limit: int | None) -> None:
        """Check that files of texts exist, by their first sentences, and have the columns.

        Raises:
            CorpusError: If one does not exist, lacks a column, or can't be read, or the limit
                leaves no sentence.
            InputError: If columns are named without files.
        """
        check_limit(limit, "sentence")
        check_data(files)
        if files:
            self.read(files)
        else:
            check_no_unused_options(self, "columns", "--data", "Name files with --data")


@dataclass(frozen=True)
class CorpusArguments(ColumnArguments):
    """How a command reads its corpus."""

    as_words: bool = field(default=False, kw_only=True)
    """Read a treebank's words joined by spaces ("did n't bark ,"), as papers do, instead of its
    text as it is written."""

    def read(self, files: Sequence[str | Path], *sides: Any, **how: Any) -> Corpus:
        """The corpus in some files, as `ColumnArguments` reads it."""
        corpus = super().read(files, *sides, as_words=self.as_words, **how)
        check_reading(corpus)
        return corpus


@dataclass(frozen=True)
class ParallelArguments(CorpusArguments):
    """How a command reads its corpus, which may be parallel text in two files."""

    source: Path | None = field(default=None, kw_only=True)
    """Source side of parallel text (.txt or .conllu)."""
    target: Path | None = field(default=None, kw_only=True)
    """Target side, line by line."""


def check_model(name: str) -> None:
    """Check the name of a model, as far as that is possible without the hub.

    Raises:
        InputError: If it is the path of a folder that does not exist, or the name of a model that
            headcount does not ship.
    """
    place = Path(models.place_of(name))
    is_path = place.is_absolute() or name.startswith((".", "~")) or len(place.parts) > 2
    if is_path and not place.exists():
        raise ModelError(
            f"Expected a Hugging Face name or a folder, got {name}, which does not exist: it can't "
            "be loaded. Check the path."
        )


def check_data(files: Iterable[str | Path]) -> None:
    """Check that files of data exist; data sets of the hub are not looked up.

    Raises:
        CorpusError: If one does not exist or is a folder.
    """
    for file in named_files(list(files)):
        if is_data_set(file):
            continue
        if not Path(file).exists():
            raise CorpusError(
                f"Expected a file with data, but {file} does not exist. Check the path."
            )
        if Path(file).is_dir():
            raise CorpusError(
                f"Expected a file at {file}, got a folder. Name the files in it, or the split of a "
                f"data set: {file}?split=train."
            )


def check_reading(corpus: Corpus) -> None:
    """Check that --as-words has an effect.

    Raises:
        InputError: If no file is a treebank.
    """
    if corpus.as_words and not corpus.signed:
        raise InputError(
            f"Expected a treebank (.conllu) for --as-words, got {', '.join(corpus.names)}. Leave "
            "it out."
        )


def check_corpus(files: Sequence[str | Path]) -> None:
    """Check that files of texts or treebanks exist, by their first sentences.

    Raises:
        CorpusError: If one does not exist, is of an unknown kind, or can't be read.
    """
    check_data(files)
    if files:
        Corpus(files)


def recorded(command: Any) -> dict[str, Any]:
    """The arguments of a command for records: lists for tuples, names for paths.

    A folder says where something lies on one machine, so a path is recorded by its name.

    The options that a command shares with the library, its field `how`, are listed with the others,
    and so do those that its help shows in boxes.
    """
    found = _to_jsonable(asdict(command))
    for each in fields(command):
        if ONCE in each.metadata:
            del found[each.name]
    for name in _BESIDE:
        found |= found.pop(name, {})
    return found


_BESIDE = ("how", "budget", "timing", "compensation", "survival", "reading")
"""Fields of commands that are groups of options."""


def _to_jsonable(value: Any) -> Any:
    """The same value with lists for tuples and names for paths.

    >>> _to_jsonable({"corpus": (Path("/home/me/a.txt"),), "limit": None})
    {'corpus': ['a.txt'], 'limit': None}
    """
    if isinstance(value, dict):
        return {name: _to_jsonable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_jsonable(each) for each in value]
    return name_of(value) if isinstance(value, str | Path) else value


def check_no_unused_options(command: object, option: str, read_by: str, advice: str) -> None:
    """Raise an error if an option that nothing would read is not at its default.

    Args:
        command: Arguments, with defaults in their class.
        option: Name of the field.
        read_by: The part that would read the option.
        advice: How to ask for that part.

    Raises:
        InputError: If the option was set.
    """
    if getattr(command, option) != getattr(type(command), option):
        raise InputError(
            f"--{option.replace('_', '-')} only affects {read_by}. {advice}, or leave the option "
            "out."
        )


@dataclass(frozen=True)
class OutArguments:
    """The folder of a run."""

    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --overwrite is given."""
    overwrite: bool = field(default=False, kw_only=True)
    """Replace an earlier run in --out."""


@dataclass(frozen=True)
class ResumableArguments(OutArguments):
    """The folder of a run that can be resumed."""

    out: Path = field(kw_only=True)
    """Folder for the results; must be new or empty unless --resume or --overwrite is given."""
    resume: bool = field(default=False, kw_only=True)
    """Resume an interrupted run in --out; nothing is measured twice."""
