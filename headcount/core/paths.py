"""Paths: those that files name stay inside their folder, and writing follows no link."""

import os
from collections.abc import Iterable
from importlib import resources
from pathlib import Path, PureWindowsPath

from headcount.core.errors import InputError

DATA = Path(str(resources.files("headcount") / "data"))
"""The folder of the models and data sets that come with the package."""
SAMPLE = DATA / "sample.conllu"
"""Texts of ours, with trees."""


def inside(folder: Path, name: str) -> Path:
    """The path of a file or folder that a file in `folder` names.

    A folder of the hub's cache holds links to the cache's blobs, which count as inside.

    Raises:
        InputError: If the path leaves the folder, directly or by a link.
    """
    path = PureWindowsPath(name)  # knows both separators, and drives
    if path.anchor or ".." in path.parts or "\0" in name:
        raise InputError(
            f"Expected paths inside {folder} in its files, got {name!r}. Move the file into the "
            "folder."
        )
    check_inside(folder, folder / name)
    return folder / name


def check_inside(folder: Path, path: Path) -> None:
    """Check that no link leads from a folder's file or sub-folder to a place outside it.

    Raises:
        InputError: If one does, or links lead in a circle.
    """
    try:
        target, root = path.resolve(), folder.resolve()
    except (OSError, RuntimeError) as error:  # Python 3.11 raises a RuntimeError for a circle
        raise InputError(f"{path} is a link that leads in a circle. Remove it.") from error
    store = target.parent
    is_blob = store.name == "blobs" and store.parent.name.startswith(("models--", "datasets--"))
    if not (target.is_relative_to(root) or is_blob):
        raise InputError(
            f"Expected files inside {folder}, but {path.name} is a link to {target}. Copy the file "
            "into the folder."
        )


def check_no_links(out: Path) -> None:
    """Check that writing below a folder for results changes nothing elsewhere.

    The folder itself may be a link: the user named it.

    Raises:
        InputError: If there is a link anywhere below it.
    """
    for folder, folders, files in os.walk(out):
        for name in (*folders, *files):
            if (path := Path(folder, name)).is_symlink():
                raise InputError(
                    f"Expected no links in a folder for results, but {path} is one, to "
                    f"{os.readlink(path)}. Remove it, or name another folder."
                )


def check_not_read(out: Path, read: Iterable[Path]) -> None:
    """Check that a folder that will be replaced entirely holds nothing that the run reads.

    Raises:
        InputError: If a path to read is inside the folder.
    """
    for path in read:
        if path.exists() and out.resolve() in (path.resolve(), *path.resolve().parents):
            raise InputError(
                f"This run reads {path}, but would replace all of {out}. Name another folder."
            )


def name_of(path: str | Path) -> str:
    """The last part of a local path; any other text, such as a hub name, unchanged.

    >>> name_of("/home/me/model"), name_of("google-bert/bert-base-cased")
    ('model', 'google-bert/bert-base-cased')
    """
    text, place = str(path), Path(path)
    is_local = isinstance(path, Path) or place.is_absolute() or text.startswith((".", "~"))
    if not is_local and ("/" not in text or not exists(place)):
        return text
    return place.name or place.resolve().name or text


def exists(path: Path) -> bool:
    """Whether there is a file or folder; False for text that can be no path."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
