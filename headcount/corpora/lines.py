"""Lines of files of text, plain or compressed, and how the user wants files read.

`.gz`, `.bz2`, `.xz` and `.zst` are decompressed piece by piece. A line may have `LONGEST` bytes, so
that a small file that holds one endless line stops there.

Lines of running text that were wrapped at some width are read as whole paragraphs. Books and mails
on disk have lines of some 70 characters, which are no texts of their own. A file looks wrapped if
it has groups of lines between blank ones and, among the lines that another line of their group
follows,

- there are `LEAST` or more in the first `LOOKED_AT` lines of the file,
- fewer than 3 in 10 end a sentence,
- 9 in 10 are nearly as long as the longest (at least 0.7 of the 95th percentile of lengths).

Prose and licences on disk pass with 0 to 4 % of ends and nearly all lines long; verse, lists,
source code and files with a sentence a line do not.
"""

import bz2
import gzip
import io
import json
import lzma
import warnings
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headcount.core import CorpusError, check_is_no_pipe, reason

_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
LONGEST = 2**28
"""Largest number of bytes of a line."""


@dataclass(frozen=True)
class HowRead:
    """How files are read, where there is a choice."""

    as_is: bool = False
    """Keep the quotes around the cells of a .tsv; by default they are left out where all cells of a
    column have them."""
    lines: bool = False
    """Read each line of a .txt as a text of its own; by default, lines of running text that were
    wrapped are joined to paragraphs."""
    without_media: bool = False
    """Leave out rows that stand for pictures, sound or video, which are refused otherwise."""


USUAL = HowRead()
"""How files are read unless the user asks for something else."""


@cache
def note(sentence: str) -> None:
    """Tell the user how a file is read: once, although every pass reads it again."""
    warnings.warn(sentence, stacklevel=2)


def _zstd(path: Path, _: str) -> Any:
    import pyarrow

    return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd"))


COMPRESSED: Mapping[str, Callable[[Path, str], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": _zstd,
}
"""What opens compressed files, by their endings."""


def opened(path: Path) -> Any:
    """A file of bytes, decompressed as its ending says."""
    return COMPRESSED.get(path.suffix, Path.open)(path, "rb")


def ending(file: str | Path) -> str:
    """The ending of a file that says what it holds, without that of its compression.

    >>> ending("a.jsonl.gz"), ending("a.txt")
    ('.jsonl', '.txt')
    """
    path = Path(file)
    return Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield (line number from 1, line without its end); lines end at `\n` or `\r\n` only.

    Raises:
        CorpusError: if the file can't be read, is not UTF-8, breaks off, or has an endless line.
    """
    check_is_no_pipe(path)
    number = 0
    try:
        with opened(path) as file:
            while raw := file.readline(LONGEST + 1):
                number += 1
                if len(raw) > LONGEST:
                    raise CorpusError(
                        f"{path}:{number}: expected a line of at most {LONGEST:,} bytes, got more. "
                        "Write each example on a line."
                    )
                line = _decode(path, number, raw)
                yield number, line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, CorpusError):
            raise
        if path.suffix in COMPRESSED:
            raise CorpusError(
                f"{path}: expected a complete {path.suffix} file, but it can't be read after line "
                f"{number}: {reason(error).rstrip('.')}. Copy it again."
            ) from error
        if not isinstance(error, OSError):
            raise
        raise CorpusError(
            f"{path} cannot be read: {error.strerror}. Give a file that you may read."
        ) from error


def _decode(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        is_wide = number == 1 and raw[:2] in (BOM_UTF16_LE, BOM_UTF16_BE)
        raise CorpusError(
            f"{path}:{number}: expected UTF-8, got byte 0x{raw[error.start]:02x} "
            f"as byte {error.start + 1} of the line. Convert the file to UTF-8 first: iconv -f "
            f"{'UTF-16' if is_wide else 'WINDOWS-1252'} -t UTF-8 {path} > NEW"
            f"{'' if is_wide else ', if it is from Windows'}."
        ) from error


def json_of(line: str, origin: str) -> Any:
    """The JSON value on a line.

    Raises:
        CorpusError: if it is no JSON, or can't be read.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        is_spread = line.strip() in ("{", "[")
        advice = (
            "Write each object on one line: jq -c . FILE > NEW" if is_spread else "Fix the line."
        )
        raise CorpusError(
            f"{origin}: expected one JSON object on the line, but it breaks off at "
            f"column {error.colno} ({error.msg}). {advice}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{origin}: expected one JSON object on the line, but it can't be read: "
            f"{reason(error)}. Fix the line."
        ) from error


Line = tuple[int, str]
"""Number of a line in its file, from 1, and its text."""

LOOKED_AT = 1000
"""Number of lines of a file that tell whether it is wrapped."""
LEAST = 20
"""Least number of lines that another one follows for a file to look wrapped."""
_MOST_ENDS = 0.3
"""Share of these that end a sentence from which on a file does not look wrapped."""
_LEAST_LONG, _NEARLY, _LONGEST_PARAGRAPH = 0.9, 0.7, 95
"""Least share of these that are long; what is long, as a share of a percentile of lengths."""

_ENDS = tuple(".!?…。！？")
_CLOSING = "\"'”’»)]_*"


def texts_of(path: Path, how: HowRead) -> Iterator[Line]:
    """The texts of a file that are not blank: its lines or, if they were wrapped, its paragraphs.

    Each has the number of its first line.
    """
    joins = is_joined(path, how)
    if joins:
        note(f"{path}: its lines were wrapped, and are joined to paragraphs; --lines keeps them")
    groups = groupby(numbered_lines(path), lambda line: bool(line[1].strip()))
    for lines in (lines for is_text, lines in groups if is_text):
        if joins:
            numbers, texts = zip(*lines, strict=True)
            yield numbers[0], " ".join(map(str.strip, texts))
        else:
            yield from ((number, line.strip()) for number, line in lines)


def is_joined(path: Path, how: HowRead) -> bool:
    """Whether a file's lines are joined: they look wrapped, and the user does not keep them."""
    if how.lines:
        return False
    first = list[str]()
    with suppress(CorpusError):  # a line that can't be read is an error when its turn comes
        first.extend(line for _, line in islice(numbered_lines(path), LOOKED_AT))
    return are_wrapped(first)


def are_wrapped(lines: Iterable[str]) -> bool:
    """Whether lines look like running text that was wrapped at some width."""
    groups = [[*group] for is_text, group in groupby(map(str.strip, lines), bool) if is_text]
    followed = [line for group in groups for line, _ in pairwise(group)]
    if len(groups) < 2 or len(followed) < LEAST:
        return False
    lengths = np.array([*map(len, followed)])
    is_long = lengths >= _NEARLY * np.percentile(lengths, _LONGEST_PARAGRAPH)
    ends = sum(line.rstrip(_CLOSING).endswith(_ENDS) for line in followed)
    return bool(ends < _MOST_ENDS * len(followed) and is_long.mean() >= _LEAST_LONG)
