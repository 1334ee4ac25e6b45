"""Pictures that data sets hold: bytes in rows, tar archives of pairs, tables of a folder's images.

Bytes are written into a folder of this process, once for each picture, and deleted at its end, so
that everything else reads files.
"""

import io
import json
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from lzma import LZMAError
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, NoReturn, final

from headcount.core import CorpusError, reason
from headcount.corpora.lines import LONGEST, opened
from headcount.vocabulary import IMAGES

METADATA = "metadata"
"""Name of the table of a folder's images, without its ending; the field `file_name` names each."""
FILE_NAME = "file_name"


@final
class Picture(str):
    """The file of a picture that a row holds."""


@cache
def _folder() -> "TemporaryDirectory[str]":
    return TemporaryDirectory(prefix="headcount-")


def kept(data: bytes) -> Picture:
    """The file in which the bytes of a picture are kept."""
    path = Path(_folder().name, f"{sha256(data).hexdigest()}.png")
    if not path.exists():
        path.write_bytes(data)
    return Picture(path)


def image_digest(path: Path) -> str:
    """Hash of the bytes of an image.

    Raises:
        CorpusError: if the file can't be read.
    """
    return media_digest(path, "image")


def media_digest(path: Path, what: str) -> str:
    """Hash of the bytes of an image or a recording.

    Args:
        path: the file.
        what: what it is, for errors.

    Raises:
        CorpusError: if the file can't be read.
    """
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        refuse_picture(path, error, what)


def refuse_picture(path: Path, error: Exception, what: str = "image") -> NoReturn:
    """Raise the error that a file is no image, or no recording, that can be read."""
    why, article = reason(error).rstrip("."), "an" if what == "image" else "a"
    raise CorpusError(
        f"{path}: expected {article} {what}, but it can't be read: {why}. Replace or remove it."
    ) from error


def picture_of(cell: Any) -> Any:
    """A cell with the file of a picture in place of its bytes; any other cell itself."""
    if isinstance(cell, Mapping) and {*cell} == {"bytes", "path"}:
        data, path = cell["bytes"], cell["path"]
        if isinstance(data, bytes):
            return kept(data)
        return cell if path is None else Picture(path)
    picture: Any = cell
    if hasattr(cell, "save") and hasattr(cell, "getbands"):  # a picture of Pillow
        data = io.BytesIO()
        picture.save(data, "PNG")
        return kept(data.getvalue())
    return cell


def is_metadata(path: Path) -> bool:
    """Whether a file is the table of a folder's images."""
    return path.stem == METADATA


def with_its_folder(row: Mapping[Any, Any], table: Path) -> Mapping[Any, Any]:
    """A row of a folder's table of images, whose names are relative to it."""
    name = row.get(FILE_NAME)
    if table.stem.partition(".")[0] != METADATA or not isinstance(name, str):
        return row
    return {**row, FILE_NAME: Picture(table.parent / name)}


def tar_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a tar archive: files that share a name up to its first dot are one row.

    Pictures are the field `image`, `cls` is `label`, `txt` is `text`, and the fields of `json` are
    fields of the row, as webdataset writes them.

    Raises:
        CorpusError: for an archive that breaks off, and for links, names outside the archive, and
            files that are too large.
    """
    stem, row, number = "", dict[str, Any](), 0
    try:
        with opened(path) as file, tarfile.open(fileobj=file, mode="r|") as archive:
            for member in archive:
                if member.isdir():
                    continue
                _check(member, path)
                name, _, kind = PurePosixPath(member.name).name.partition(".")
                its = str(PurePosixPath(member.name).with_name(name or "."))
                if its != stem and row:
                    number += 1
                    yield f"{path} row {number}", row
                    row = {}
                stem, file = its, archive.extractfile(member)
                row |= _field(kind.lower(), b"" if file is None else file.read(), member, path)
    except (tarfile.TarError, EOFError, OSError, zlib.error, LZMAError) as error:
        raise CorpusError(
            f"{path}: expected a tar archive, but it can't be read after row {number}: "
            f"{reason(error).rstrip('.')}. Copy it again."
        ) from error
    if row:
        yield f"{path} row {number + 1}", row


def _check(member: tarfile.TarInfo, path: Path) -> None:
    parts = PurePosixPath(member.name).parts
    if not member.isfile() or ".." in parts or member.name.startswith("/"):
        raise CorpusError(
            f"{path}: expected plain files inside the archive, got {member.name!r}"
            f"{'' if member.isfile() else ', a link or a device'}. Write the archive again."
        )
    if member.size > LONGEST:
        raise CorpusError(
            f"{path}: expected files of at most {LONGEST:,} bytes, got {member.name!r} of "
            f"{member.size:,}. Leave it out."
        )


def _field(kind: str, data: bytes, member: tarfile.TarInfo, path: Path) -> dict[str, Any]:
    """The fields that a file of a row adds; one that can't be read has no value.

    A file `0.mask.png` is the field `mask.png`.
    """
    kinds = {"cls": "label", "txt": "text"} | {each[1:]: "image" for each in IMAGES.endings}
    last = kind.rpartition(".")[2]
    name = kinds.get(kind, kind)
    if f".{last}" in IMAGES.endings:
        return {name: kept(data)}
    if last not in ("cls", "txt", "json"):
        return {name: None}
    try:
        text = data.decode("utf-8").strip()
        fields = json.loads(text) if last == "json" else {name: text}
        if not isinstance(fields, dict):
            raise ValueError(f"a {type(fields).__name__} is no object")
    except (ValueError, RecursionError) as error:
        raise CorpusError(
            f"{path}: expected {'a JSON object' if last == 'json' else 'text'} in {member.name!r}, "
            f"but {reason(error).rstrip('.')}. Fix it."
        ) from error
    return fields
