"""The command `headcount align` on a model that reads sound."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from headcount import models, wordtimes
from headcount.commands import DeviceArguments, Flat, Report, ResultCommand, check_model
from headcount.corpora import check_reads_sound, named_columns, read_recordings
from headcount.wordtimes.list_folder import check_list_folder, write_list
from headcount.wordtimes.result import WordTimesOptions
from headcount.wordtimes.word_files import read_word_times

if TYPE_CHECKING:
    pass


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
            check_list_folder(self.write)

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
            write_list(self.model, found.chosen, self.write)

    def next_steps(self, read: "models.Loaded", found: "wordtimes.WordTimes") -> Iterable[str]:
        """Where the word times are, and how to make plain transformers use the list."""
        yield f"Word times: {self.out / 'words.parquet'} (with --csv, words.csv, too)"
        if self.write is not None:
            yield f"Model with this list: {self.write}"
