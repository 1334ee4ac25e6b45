"""The command `headcount align` on a model that reads sound."""

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from headcount import models, wordtimes
from headcount.commands import DeviceArguments, Flat, Report, ResultCommand, check_model
from headcount.core import Head, InputError, read_json, write_json
from headcount.corpora import check_reads_sound, named_columns, read_recordings
from headcount.wordtimes.result import WordTimesOptions
from headcount.wordtimes.word_files import read_word_times

SETTINGS = "generation_config.json"
_FROM_CONFIG = "_from_model_config"  # transformers reads no file that has it


@dataclass(frozen=True)
class AlignSound(DeviceArguments, ResultCommand["models.Loaded", "wordtimes.WordTimes"]):
    """The arguments of `headcount align` for models that read sound."""

    RESULT = wordtimes.WordTimes

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """A Hugging Face name or a folder of a Whisper."""
    sound: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SOUND")]
    """A folder of recordings (.wav, .flac, .mp3), each beside its transcript (.txt), or a table
    (.tsv, .csv, .jsonl) with the columns audio and text, or hf://dataset?split=test."""
    out: Path = field(kw_only=True)
    """Folder for the results."""
    words: Path | None = None
    """Known word times to measure errors by: .ctm, .jsonl, or a folder of .TextGrid."""
    write: Path | None = None
    """New folder for a copy of the model with the list of heads that was found, from which
    transformers reads word times."""
    columns: tuple[str, ...] = ()
    """Columns of the table as audio=NAME, text=NAME or speaker=NAME."""
    overwrite: bool = False
    """Replace an earlier run of this command in --out."""
    how: Flat[WordTimesOptions] = field(default_factory=WordTimesOptions)

    def check(self) -> None:
        """Check everything that needs no model, the recordings included."""
        check_model(self.model)
        check_reads_sound()
        read_recordings(self.sound, named_columns(self.columns))
        if self.words is not None:
            read_word_times(self.words)
        if self.write is not None:
            _check_is_new(self.write)

    def load(self) -> "models.Loaded":
        """Load the model."""
        return self.load_model(self.model)

    def measure(self, read: "models.Loaded", progress: Report) -> "wordtimes.WordTimes":
        """Find the heads, and the word times."""
        columns = named_columns(self.columns)
        return wordtimes.word_times(
            read, self.sound, self.words, self.how, progress, columns=columns
        )

    def store(self, found: "wordtimes.WordTimes") -> None:
        """Write tables and record, and the model with its list."""
        super().store(found)
        if self.write is not None:
            _write_list(self.model, found.chosen, self.write)

    def next_steps(self, read: "models.Loaded", found: "wordtimes.WordTimes") -> Iterable[str]:
        """Where the word times are, and how to make plain transformers use the list."""
        yield f"Word times: {self.out / 'words.parquet'} (with --csv, words.csv, too)"
        if self.write is not None:
            yield f"Model with this list: {self.write}"


def _check_is_new(folder: Path) -> None:
    """Check that a folder is new or empty.

    Raises:
        InputError: if it holds something.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            f"Expected a new folder for the model with its list, got {folder}, which exists. Name "
            "another with --write."
        )


def _write_list(model: str, heads: Sequence[str], folder: Path) -> None:
    """Copy a model's files, with a list of heads that `generate` reads word times from.

    Args:
        model: its folder, or its name on the hub.
        heads: names of the heads, e.g. `cross.3.2`.
        folder: where the copy goes.
    """
    _check_is_new(folder)
    source = Path(models.place_of(model))
    if not source.is_dir():
        from huggingface_hub import snapshot_download

        kinds = ["*.json", "*.safetensors", "*.txt"]
        source = Path(snapshot_download(model, allow_patterns=kinds, local_files_only=True))
    shutil.copytree(source, folder, dirs_exist_ok=True)
    path = folder / SETTINGS
    advice = "Copy the model again."
    settings = read_json(path, "settings of generation", advice) if path.exists() else {}
    settings.pop(_FROM_CONFIG, None)
    listed = sorted((head.layer, head.index) for head in map(Head.parse, heads))
    write_json(path, settings | {"alignment_heads": [[*pair] for pair in listed]})
