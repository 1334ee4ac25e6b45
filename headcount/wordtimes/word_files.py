"""Files that say when words are spoken: CTM, Praat's TextGrid, and JSON lines.

CTM has a line for each word: RECORDING CHANNEL START DURATION WORD, in seconds. A TextGrid is of
one recording, whose name it has; several lie in a folder, and of their tiers the one called
`words` is read. A line of JSON is a word with the fields recording, word, start and end.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.core import CorpusError, amount
from headcount.corpora import bare, json_of, numbered_lines

OVERLAP = 0.02
"""Seconds by which a word may begin before the last one ends: a frame."""


@final
@dataclass(frozen=True)
class TimedWord:
    """A word with the seconds at which it begins and ends."""

    word: str
    start: float
    end: float


WordTimesOf = Mapping[str, Sequence[TimedWord]]
"""The words of every recording, by its name."""


def read_word_times(place: str | Path) -> WordTimesOf:
    """The word times in a file, or in a folder of TextGrids.

    Raises:
        CorpusError: if there are none, or a line can't be read.
    """
    path = Path(place)
    files = sorted(path.glob("*.TextGrid")) if path.is_dir() else [path]
    if not files or not files[0].exists():
        raise CorpusError(
            f"Expected word times in {path} (.ctm, .jsonl, or .TextGrid), got none. Check the path."
        )
    found: dict[str, list[TimedWord]] = {}
    for file in files:
        reader = _READERS.get(file.suffix)
        if reader is None:
            raise CorpusError(
                f"Expected word times in a file that ends in {', '.join(_READERS)}, got {file}. "
                "Rename or convert it."
            )
        for name, word in reader(file):
            found.setdefault(name, []).append(word)
    return {name: sorted(words, key=lambda word: word.start) for name, words in found.items()}


def check_word_times(
    name: str, words: Sequence[str], timed: Sequence[TimedWord], seconds: float
) -> None:
    """Check that the times of a recording's words are those of its transcript, and possible.

    Raises:
        CorpusError: if words differ, lie outside the recording, or overlap.
    """
    for number, (said, its) in enumerate(zip(words, timed, strict=False)):
        if bare(said) != bare(its.word):
            raise CorpusError(
                f"{name}: expected the times of word {number + 1} of its transcript, {said!r}, got "
                f"those of {its.word!r}. Write the same words in both."
            )
    if len(words) != len(timed):
        raise CorpusError(
            f"{name}: expected the times of {amount(len(words), 'word')}, as in its transcript, "
            f"got {len(timed)}. Write the same words in both."
        )
    for before, its in zip((None, *timed), timed, strict=False):
        if not 0 <= its.start <= its.end <= seconds + OVERLAP:
            raise CorpusError(
                f"{name}: expected words within its {seconds:.2f} s, got {its.word!r} from "
                f"{its.start:g} to {its.end:g} s. Correct the times."
            )
        if before is not None and its.start < before.end - OVERLAP:
            raise CorpusError(
                f"{name}: expected words one after the other, got {its.word!r} from {its.start:g} "
                f"s, before {before.word!r} ends at {before.end:g} s. Correct the times."
            )


def _ctm(path: Path) -> Iterator[tuple[str, TimedWord]]:
    for number, line in numbered_lines(path):
        parts = line.split()
        if not parts or line.startswith(";;"):
            continue
        try:
            name, _, start, duration, word = parts[:5]
            yield name, TimedWord(word, float(start), float(start) + float(duration))
        except ValueError as error:
            raise CorpusError(
                f"{path}:{number}: expected RECORDING CHANNEL START DURATION WORD, got "
                f"{line!r:.80}."
            ) from error


def _json_lines(path: Path) -> Iterator[tuple[str, TimedWord]]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        origin = f"{path}:{number}"
        its = json_of(line, origin)
        try:
            word = TimedWord(str(its["word"]), float(its["start"]), float(its["end"]))
            yield str(its["recording"]), word
        except (KeyError, TypeError, ValueError) as error:
            raise CorpusError(
                f'{origin}: expected {{"recording": ..., "word": ..., "start": ..., "end": ...}}, '
                f"got {line!r:.80}."
            ) from error


_ITEM = re.compile(r'xmin\s*=\s*(\S+)\s+xmax\s*=\s*(\S+)\s+text\s*=\s*"((?:[^"]|"")*)"')
_TIER = re.compile(r'class\s*=\s*"IntervalTier"\s+name\s*=\s*"([^"]*)"')


def _text_grid(path: Path) -> Iterator[tuple[str, TimedWord]]:
    text = path.read_text(encoding="utf-8")
    tiers = _TIER.split(text)[1:]
    named = dict(zip(tiers[::2], tiers[1::2], strict=True))
    if not named:
        raise CorpusError(f"{path}: expected a tier of intervals in Praat's long form, got none.")
    tier = named.get("words") or next(iter(named.values()))
    for start, end, word in _ITEM.findall(tier):
        if word.strip():
            yield path.stem, TimedWord(word.strip(), float(start), float(end))


_READERS = {".ctm": _ctm, ".jsonl": _json_lines, ".TextGrid": _text_grid}
"""What reads a file, by its ending."""
