"""Images: files, or folders of them in which each label has a folder of its own.

A folder is read as `FOLDER/label/image.png`, the layout that other tools call "imagefolder", or as
images without labels. Labels take turns, so that the first hundred images are of all of them.
"""

import base64
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.core import CorpusError, amount
from headcount.corpora.held import is_data_set, is_held, named_files
from headcount.corpora.pictures import METADATA, image_digest, is_metadata, refuse_picture
from headcount.corpora.reading import read_data
from headcount.corpora.sentence import Sentence
from headcount.corpora.table import Columns, ColumnSpec, Data, ReadAs, Table
from headcount.vocabulary import IMAGES

if TYPE_CHECKING:
    from PIL.Image import Image


def is_image(path: Path) -> bool:
    """Whether the ending of a path is that of an image."""
    return path.suffix.lower() in IMAGES.endings


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and the folders in it; hidden files are left out.

    Raises:
        CorpusError: if there is no image, or a file that is none.
    """
    inside = (path.relative_to(folder) for path in folder.rglob("*") if not path.is_dir())
    found = [folder / path for path in sorted(inside) if not _is_hidden(path)]
    found = [path for path in found if not is_metadata(path)]
    images, others = [p for p in found if is_image(p)], [p for p in found if not is_image(p)]
    if not images:
        got = f"{amount(len(others), 'other file')}" if others else "no file"
        raise CorpusError(
            f"Expected images in the folder {folder} ({', '.join(IMAGES.endings)}), got {got}. "
            f"Name a folder of images, or the files themselves, or the split of a data set: "
            f"{folder}?split=train."
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
    is_of_windows = path.name.lower() in ("thumbs.db", "desktop.ini")
    return is_of_windows or any(part.startswith(".") for part in path.parts)


def read_image(path: Path) -> Iterator[Sentence]:
    """Yield an image as an example, whose text is the hash of its bytes: halves depend on it.

    Raises:
        CorpusError: if the file can't be read as an image.
    """
    yield Sentence(image_digest(path), origin=str(path), image=path)


def image_digests(paths: Sequence[str]) -> list[str]:
    """Hashes of the bytes of some images."""
    return [image_digest(Path(path)) for path in paths]


def open_image(path: Path, channels: int = 3) -> "Image":
    """The pixels of an image in colour, or in grey for models of one channel.

    A photograph is turned as its EXIF data say, and 16 bits are scaled to 8.

    Raises:
        CorpusError: if the file can't be read as an image.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as opened:
            image = ImageOps.exif_transpose(opened)
            if image.mode.startswith("I;16"):  # conversion would cut values at 255
                image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
            if image.mode in ("I", "F"):
                raise ValueError("its pixels have 32 bits, whose largest value is unknown")
            return image.convert("L" if channels == 1 else "RGB")
    except Exception as error:  # damaged files raise errors of many kinds
        refuse_picture(path, error)


def thumbnail(image: Any, side: int) -> str:
    """A picture of Pillow, made small in place, as the text of a `data:` address.

    Args:
        image: the picture.
        side: its largest side then, in pixels.
    """
    image.thumbnail((side, side))
    kind = "png" if max(image.size) <= side // 2 else "jpeg"
    file = BytesIO()
    image.save(file, kind, **({"optimize": True} if kind == "png" else {"quality": 80}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def read_labelled_images(data: Data, columns: Columns | None, roles: ColumnSpec) -> Table:
    """The table of some images and their labels.

    Args:
        data: folders with a folder for each label, tables with paths, or columns in memory.
        columns: the names of a table's columns `image` and `label`.
        roles: the columns that the task reads.

    Raises:
        CorpusError: for an image without a label, a folder without images, or a bad table.
    """
    places = [] if is_held(data) else named_files(data)
    if not any(Path(place).is_dir() and not is_data_set(place) for place in places):
        return read_data(data, columns, roles)
    if tables := [each for place in places for each in sorted(Path(place).rglob(f"{METADATA}.*"))]:
        return read_data(ReadAs(tables, ReadAs.of(data).how), columns, roles)
    if columns:
        raise CorpusError(
            f"Expected columns of a table, got {', '.join(columns)} for a folder of images. Leave "
            "--columns out, or give a table of paths."
        )
    table = Table({"image": [], "label": []}, [])
    for place in map(Path, places):
        if not place.is_dir():
            raise CorpusError(
                f"Expected folders of images only, got the file {place}. Give a folder "
                "FOLDER/label/image.png for each data set, or one table of paths."
            )
        for path in image_files(place):
            label = label_of(path, place)
            if label is None:
                raise CorpusError(
                    f"{path}: expected images in folders named after their labels, as in "
                    f"{place / 'LABEL' / path.name}, got one without a label. Move it."
                )
            table["image"].append(str(path))
            table["label"].append(label)
            table.origins.append(str(path))
    return table
