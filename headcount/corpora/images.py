"""Images: files, or folders of them in which each label has a folder of its own.

A folder is read as `FOLDER/label/image.png`, the layout that other tools call "imagefolder", or as
images without labels. Labels take turns, so that the first hundred images are of all of them.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headcount.core import CorpusError, amount, reason
from headcount.corpora.sentence import Sentence

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
"""Endings of images, in any case."""


def is_image(path: Path) -> bool:
    """Whether the ending of a path is that of an image."""
    return path.suffix.lower() in IMAGE_SUFFIXES


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and the folders in it; hidden files are left out.

    Raises:
        CorpusError: if there is no image, or a file that is none.
    """
    inside = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    found = [folder / path for path in sorted(inside) if not _is_hidden(path)]
    images, others = [p for p in found if is_image(p)], [p for p in found if not is_image(p)]
    if not images:
        got = f"{amount(len(others), 'other file')}" if others else "no file"
        raise CorpusError(
            f"Expected images in the folder {folder} ({', '.join(IMAGE_SUFFIXES)}), got {got}. "
            "Name a folder of images, or the files themselves."
        )
    if others:
        raise CorpusError(
            f"Expected only images in the folder {folder}, got {others[0]}. Move it elsewhere, or "
            "name the images one by one."
        )
    by_label: dict[str | None, list[Path]] = {}
    for path in images:
        by_label.setdefault(label_of(path, folder), []).append(path)
    turns = chain.from_iterable(zip_longest(*by_label.values()))
    return [path for path in turns if path is not None]


def label_of(path: Path, folder: Path) -> str | None:
    """The label of an image: the folder that it is in below `folder`; None without one."""
    parts = path.relative_to(folder).parts
    return parts[0] if len(parts) > 1 else None


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def read_image(path: Path) -> Iterator[Sentence]:
    """Yield an image as an example, whose text is the hash of its bytes: halves depend on it.

    Raises:
        CorpusError: if the file can't be read as an image.
    """
    try:
        text = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        _refuse(path, error)
    yield Sentence(text, origin=str(path), image=path)


def open_image(path: Path, channels: int = 3) -> "Image":
    """The pixels of an image in colour, or in grey for models of one channel.

    Raises:
        CorpusError: if the file can't be read as an image.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.convert("L" if channels == 1 else "RGB")
    except Exception as error:  # damaged files raise errors of many kinds
        _refuse(path, error)


def _refuse(path: Path, error: Exception) -> NoReturn:
    why = reason(error).rstrip(".")
    raise CorpusError(
        f"{path}: expected an image, but it can't be read: {why}. Replace or remove it."
    ) from error
