"""Recordings with their transcripts: a folder, a table, or a data set, and sound as samples.

A folder has sound files, each beside a text file of its name (`a.wav`, `a.txt`), or one table
(.csv, .tsv, .jsonl) that names them. Sound of any rate and number of channels is mixed to one
channel and resampled to the model's rate.
"""

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float

from headcount.core import CorpusError, InputError, amount, reason, short_hash
from headcount.corpora.held import is_data_set, is_held, named_files, sources_of
from headcount.corpora.reading import read_data
from headcount.corpora.sentence import Clip, Sentence
from headcount.corpora.table import Column, Columns, ColumnSpec, Data, Table, choose

ENDINGS = (".wav", ".flac", ".mp3", ".ogg")
"""Endings of files of sound."""
_TABLES = (".tsv", ".csv", ".jsonl")
RECORDED: ColumnSpec = {
    "audio": Column(("file_name", "audio_filepath", "file", "path")),
    "text": Column(("transcription", "transcript", "sentence")),
    "speaker": Column(("speaker_id", "client_id"), needed=False),
    "name": Column(("id",), needed=False),
}
"""The columns of a table of recordings, with other names that they may have."""
SILENT = 1e-4
"""Largest magnitude of samples that are silence: −80 dB."""
BEATS = 10
"""Number of stretches of a second, whose loudness says where a long recording is cut."""


class UnusableError(Exception):
    """Why a recording is left out."""


@final
@dataclass(frozen=True)
class Recording:
    """A recording with its transcript, or a piece of a long one."""

    name: str
    """What word times name it by: its file's name without the ending; of a data set, `name`, `id`
    or the number of the row (row1)."""
    path: Path
    text: str
    speaker: str = ""
    start: float = 0.0
    """Second of the file at which it begins."""
    seconds: float | None = None
    """Its length, if it is a piece of the file."""
    first_word: int = 0
    """Number of words of the file before it."""

    @property
    def words(self) -> list[str]:
        """The words of the transcript, between blanks."""
        return self.text.split()

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name if self.seconds is None else f"{self.name} from {self.start:.0f} s"

    @property
    def lasts(self) -> float:
        """Seconds of its sound; 0 of a file that can't be read."""
        import soundfile

        if self.seconds is not None:
            return self.seconds
        try:
            with _reading():
                return soundfile.info(self.path).duration
        except UnusableError:
            return 0.0

    def samples(self, rate: int, seconds: float) -> tuple[Float[np.ndarray, " sample"], str]:
        """The sound at a rate, and what was done to it; nothing if it had that rate.

        Args:
            rate: samples in a second.
            seconds: the longest sound that is read.

        Raises:
            UnusableError: if it is empty, silent, too long, damaged, or has samples that are no
                numbers; says which.
        """
        import soundfile

        if not self.words:
            raise UnusableError("has an empty transcript")
        with _reading():
            about = soundfile.info(self.path)
            if (self.seconds or about.frames / about.samplerate) > seconds:
                raise UnusableError(f"is longer than {seconds:g} s: cut it at pauses")
            own_rate = about.samplerate
            first, number = round(self.start * own_rate), round((self.seconds or 0) * own_rate)
            found_NC, _ = soundfile.read(
                self.path, number or -1, first, dtype="float32", always_2d=True
            )
        if not len(found_NC):
            raise UnusableError("lasts 0 seconds")
        samples_N = _one_channel(found_NC)
        if np.abs(samples_N).max() < SILENT:
            raise UnusableError("is silent")
        channels = found_NC.shape[1]
        done = [] if channels == 1 else [f"mixed {amount(channels, 'channel')} to one"]
        if own_rate != rate:
            samples_N = resampled(samples_N, own_rate, rate)
            done.append(f"resampled from {own_rate:,} to {rate:,} Hz")
        return samples_N, " and ".join(done)

    def cut(self, seconds: float) -> list["Recording"]:
        """Pieces of at most so many seconds, cut where it is quietest; all have the whole text.

        A recording that is not longer is its only piece. Of a longer one silent pieces are left
        out. It is never held in memory as a whole.

        Raises:
            UnusableError: if it is damaged, silent, or has samples that are no numbers.
        """
        import soundfile

        with _reading():
            about = soundfile.info(self.path)
            if about.frames / about.samplerate <= seconds:
                return [self]
            size = about.samplerate // BEATS
            blocks = soundfile.blocks(self.path, size, dtype="float32", always_2d=True)
            loud_B = np.array([np.abs(_one_channel(block_NC)).max() for block_NC in blocks])
        around_B = np.convolve(loud_B, (1, 2, 1), "same")
        beat = size / about.samplerate
        most, bounds = int(seconds / beat), [0]
        while len(loud_B) - bounds[-1] > most:
            least = bounds[-1] + 2 * most // 3
            bounds.append(least + int(around_B[least : bounds[-1] + most + 1].argmin()))
        found: list[Recording] = [
            replace(self, start=first * beat, seconds=(last - first) * beat)
            for first, last in pairwise([*bounds, len(loud_B)])
            if loud_B[first:last].max() >= SILENT
        ]
        if not found:
            raise UnusableError("is silent")
        return found


@contextmanager
def _reading() -> Iterator[None]:
    """A block in which sound is read.

    Raises:
        UnusableError: if it can't be.
    """
    import soundfile

    try:
        yield
    except (soundfile.SoundFileError, RuntimeError, OSError, ZeroDivisionError) as error:
        raise UnusableError(f"can't be read as sound ({reason(error)})") from error


def _one_channel(samples_NC: Float[np.ndarray, "sample channel"]) -> Float[np.ndarray, " sample"]:
    """The mean of all channels.

    Raises:
        UnusableError: if a sample is no number.
    """
    if not np.isfinite(samples_NC).all():
        raise UnusableError("has samples that are no numbers")
    return samples_NC.mean(1)


def resampled(
    samples_N: Float[np.ndarray, " sample"], rate: int, wanted: int
) -> Float[np.ndarray, " resampled"]:
    """Sound at another rate, by a polyphase filter."""
    from scipy.signal import resample_poly

    common = int(np.gcd(rate, wanted))
    return resample_poly(samples_N, wanted // common, rate // common).astype(np.float32)


def check_reads_sound() -> None:
    """Check that sound can be read.

    Raises:
        InputError: if the package for it is not installed.
    """
    try:
        import soundfile  # noqa: F401
    except ImportError as error:
        raise InputError(
            "Expected the package soundfile, which reads sound, got none. Install headcount[sound]."
        ) from error


def read_recordings(data: Data, columns: Columns | None = None) -> list[Recording]:
    """The recordings in a folder, a table or a data set, sorted as they are there.

    Args:
        data: a folder, a table, the name of a data set (`hf://NAME?split=test`), or a data set of
            `datasets` with a column of sound.
        columns: names of the columns `audio`, `text` and `speaker`, if others.

    Raises:
        CorpusError: if there are none, one has no transcript or no file, or two have the same name.
    """
    found = list[Recording]()
    for place in [data] if is_held(data) else named_files(data):
        if not isinstance(place, str | Path) or is_data_set(place):
            found += _in_data_set(place, columns)
            continue
        path = Path(place)
        if not path.exists():
            raise CorpusError(
                f"Expected a folder of recordings or a table of them, but {path} does not exist. "
                "Check the path."
            )
        found += _in_folder(path, columns) if path.is_dir() else _in_table(path, columns)
    if missing := [each for each in found if not each.path.is_file()]:
        raise CorpusError(
            f"Expected the sound of {missing[0].name} at {missing[0].path}, got no such file. "
            "Correct the column audio; paths are relative to the table."
        )
    names = [each.name for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise CorpusError(
            f"Expected recordings with different names in the data, got {twice[0]} twice. "
            "Rename one."
        )
    return found


def holds_recordings(data: Sequence[Data]) -> bool:
    """Whether data are one folder with a file of sound in it."""
    if len(data) != 1 or not isinstance(data[0], str | Path) or not Path(data[0]).is_dir():
        return False
    return any(each.suffix.lower() in ENDINGS for each in Path(data[0]).rglob("*"))


def _in_folder(folder: Path, columns: Columns | None) -> Iterator[Recording]:
    sounds = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    tables = sorted(path for path in folder.glob("*") if path.suffix in _TABLES)
    if len(tables) == 1:
        yield from _in_table(tables[0], columns)
        return
    if not sounds:
        raise CorpusError(
            f"Expected recordings in {folder} ({', '.join(ENDINGS)}), got none. Name a folder of "
            "recordings, or a table with the columns audio and text."
        )
    for path in sounds:
        text = path.with_suffix(".txt")
        if not text.exists():
            raise CorpusError(
                f"Expected the transcript of {path} in {text.name} beside it, or a table with the "
                "columns audio and text in the folder, got neither. Write one."
            )
        yield Recording(path.stem, path, text.read_text(encoding="utf-8").strip())


def _in_table(path: Path, columns: Columns | None) -> Iterator[Recording]:
    table = read_data(path, columns, RECORDED)
    speakers = table["speaker"] if "speaker" in table else [""] * len(table)
    files = [path.parent / file for file in table["audio"]]
    names = table["name"] if "name" in table else [file.stem for file in files]
    yield from map(Recording, names, files, table["text"], speakers)


def _in_data_set(data: Data, columns: Columns | None) -> Iterator[Recording]:
    """The rows of a data set, whose sound lies in files; it is not decoded by others."""
    for source in sources_of(data):
        chosen: dict[str, str | int] = {}
        for number, (origin, cells) in enumerate(source.rows(columns), start=1):
            chosen = chosen or choose([str(name) for name in cells], columns, RECORDED, origin)
            its = {role: cells[name] for role, name in chosen.items()}
            if not isinstance(its["audio"], str):
                raise CorpusError(
                    f"{origin}: expected sound in column {chosen['audio']!r}, got "
                    f"{type(its['audio']).__name__}. Name a column of sound with --columns "
                    "audio=NAME."
                )
            name, speaker = str(its.get("name", f"row{number}")), str(its.get("speaker", ""))
            yield Recording(name, Path(its["audio"]), str(its["text"]), speaker)


def read_transcripts(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table of some recordings: their files and transcripts."""
    del roles
    found = read_recordings(data, columns)
    paths, texts = [str(each.path) for each in found], [each.text for each in found]
    return Table({"audio": paths, "text": texts}, paths)


def recordings_sha256(recordings: Sequence[Recording]) -> str:
    """A hash over sounds and transcripts."""
    digests = {each.path: b"" for each in recordings}
    for path in digests:
        with path.open("rb") as opened:
            digests[path] = hashlib.file_digest(opened, "sha256").digest()
    parts = (
        f"{each.name}\0{each.text}\0{each.start}\0".encode() + digests[each.path]
        for each in recordings
    )
    return short_hash(b"\0".join(parts))


def recorded(recording: Recording) -> Sentence:
    """A recording as an example of a corpus: halves depend on the hash of its file."""
    with recording.path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    clip = Clip(recording.path)
    return Sentence(digest, target=recording.text, origin=recording.name, sound=clip)


def bare(word: str) -> str:
    """A word without case and marks; a word of marks alone as it is."""
    return re.sub(r"\W", "", word).casefold() or word


def as_flac(samples_N: Float[np.ndarray, " sample"], rate: int) -> bytes:
    """Samples as a file of FLAC, which pages can play."""
    import soundfile

    held = io.BytesIO()
    soundfile.write(held, samples_N, rate, format="FLAC")
    return held.getvalue()
