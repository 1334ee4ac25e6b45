"""Staging: a folder is written whole or not at all."""

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
    """What a folder may hold that is replaced by another of its kind, and by nothing else."""

    name: str
    """In the sentences about it."""
    is_in: Callable[[Path], bool]
    """Whether a folder holds one."""


COMPACT = Kind("a compact model", _is_compact)


@contextmanager
def staged(
    folder: Path, overwrite: bool = False, kind: Kind = COMPACT, advice: str = "--overwrite"
) -> Iterator[Path]:
    """`replaced`, for the folder of a model.

    Raises:
        InputError: if the folder holds something, and it is not of this kind and to be replaced.
    """
    refuse_taken(folder, overwrite, advice, kind)
    with replaced(folder) as new:
        yield new


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """A new neighbour of the folder to write into, which takes its place at the end of the block.

    After an error nothing is left of it, and what was in the folder is there as before; what a
    killed process left is put right by the next.

    Raises:
        InputError: if no folder can be there.
    """
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = (folder.with_name(f".{folder.name}.{end}") for end in ("part", "old"))
    if old.exists() and not folder.exists():  # killed between the two
        os.replace(old, folder)
    for left in (new, old):
        rmtree(left, ignore_errors=True)
    try:
        new.mkdir()
    except FileNotFoundError as error:  # as of /proc, which says so of what can't be made
        raise InputError(f"{folder} can't be made ({error.strerror}): name another") from error
    try:
        yield new
        if folder.exists():
            os.replace(folder, old)
        os.replace(new, folder)
    finally:
        if old.exists() and not folder.exists():  # broken off between the two
            os.replace(old, folder)
        rmtree(new, ignore_errors=True)
        rmtree(old, ignore_errors=True)


def refuse_taken(
    folder: Path, overwrite: bool, advice: str = "--overwrite", kind: Kind = COMPACT
) -> None:
    """Let a folder pass that is new, empty, or holds a model that may be replaced.

    Args:
        folder: it.
        overwrite: whether a model may be replaced.
        advice: what to give to replace it.
        kind: of model that may be.

    Raises:
        InputError: for any other.
    """
    if folder.resolve() == Path.cwd():
        raise InputError(
            f"{folder} is the working directory, which can't be replaced: name another"
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"a folder for the model was expected, {folder} is a file: name another")
    if os.path.ismount(folder.resolve()):
        raise InputError(
            f"{folder} is where a volume is mounted, which can't be replaced: name a folder in it"
        )
    present = sorted(path.name for path in folder.iterdir())
    if present and not kind.is_in(folder):
        raise InputError(
            f"{folder} holds files that are not {kind.name}'s ({', '.join(present[:3])}): name a "
            "folder that is new"
        )
    if present and not overwrite:
        raise InputError(
            f"{folder} holds {kind.name}: give {advice} to replace it, or name another folder"
        )
