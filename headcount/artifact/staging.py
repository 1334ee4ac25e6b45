"""Staging: a folder is written completely or not at all."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import final

from headcount.errors import InputError


def _is_compact(folder: Path) -> bool:
    try:
        return "head_plan" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


@final
@dataclass(frozen=True)
class Kind:
    """A kind of folder content that only content of the same kind may replace."""

    name: str
    """Name in messages."""
    is_in: Callable[[Path], bool]
    """Whether a folder holds one."""


COMPACT = Kind("a compact model", _is_compact)


@contextmanager
def staged(
    folder: Path, overwrite: bool = False, kind: Kind = COMPACT, advice: str = "--overwrite"
) -> Iterator[Path]:
    """`replaced` for the folder of a model.

    Raises:
        InputError: If the folder is taken, as in `refuse_taken`.
    """
    refuse_taken(folder, overwrite, advice, kind)
    with replaced(folder) as new:
        yield new


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A new folder to write into, which replaces the given one at the end of the block.

    After an error the new folder is deleted and the old one is unchanged. Leftovers of a killed
    process are cleaned up by the next one.

    Raises:
        InputError: If the folder can't be made.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = (folder.with_name(f".{folder.name}.{end}") for end in ("part", "old"))
    if old.exists() and not folder.exists():  # killed between the two moves
        os.replace(old, folder)
    for left in (new, old):
        rmtree(left, ignore_errors=True)
    try:
        new.mkdir()
    except FileNotFoundError as error:  # raised under /proc, where no folder can be made
        raise InputError(
            f"{folder} can't be made ({error.strerror}). Name another folder."
        ) from error
    try:
        yield new
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    finally:
        if old.exists() and not folder.exists():  # interrupted between the two moves
            os.replace(old, folder)
        rmtree(new, ignore_errors=True)
        rmtree(old, ignore_errors=True)


def refuse_taken(
    folder: Path, overwrite: bool, advice: str = "--overwrite", kind: Kind = COMPACT
) -> None:
    """Raise an error unless a folder is new, empty, or holds a model that may be replaced.

    Args:
        folder: Folder to check.
        overwrite: Whether a model may be replaced.
        advice: Option that allows replacing it.
        kind: Kind of model that may be replaced.

    Raises:
        InputError: If the folder is taken.
    """
    if folder.resolve() == Path.cwd():
        raise InputError(
            f"{folder} is the working directory, which can't be replaced. Name another folder."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder for the model, but {folder} is a file. Name another folder."
        )
    if os.path.ismount(folder.resolve()):
        raise InputError(
            f"{folder} is a mount point, which can't be replaced. Name a folder in it."
        )
    present = sorted(path.name for path in folder.iterdir())
    if present and not kind.is_in(folder):
        raise InputError(
            f"{folder} holds files that are not {kind.name}'s ({', '.join(present[:3])}). Name a "
            "new folder."
        )
    if present and not overwrite:
        raise InputError(
            f"{folder} holds {kind.name}. Add {advice} to replace it, or name another folder."
        )
