"""Paths: those that files name stay inside their folder, and writing follows no link."""

from pathlib import Path, PureWindowsPath

from headcount.core.errors import InputError


def inside(folder: Path, name: str) -> Path:
    """The path of a file or folder that a file in `folder` names.

    A snapshot of the hub's cache holds links to its own blobs, which are inside.

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
    blobs = (root.parent.parent / "blobs",) if root.parent.name == "snapshots" else ()
    if not any(target.is_relative_to(each) for each in (root, *blobs)):
        raise InputError(
            f"Expected files inside {folder}, but {path.name} is a link to {target}. Copy the file "
            "into the folder."
        )
