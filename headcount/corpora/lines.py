"""Numbered lines of a UTF-8 file, holding one line at a time."""

from collections.abc import Iterator
from pathlib import Path

from headcount.errors import CorpusError

BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield (line number from 1, line without its end); lines end at `\n` or `\r\n` only."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                line = _decode(path, number, raw)
                yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read: {error.strerror}. Give a file that you may read."
        ) from error


def _decode(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{path}:{number}: expected UTF-8, got byte 0x{raw[error.start]:02x} "
            f"as byte {error.start + 1} of the line. Convert the file to UTF-8 first."
        ) from error
