"""Checkpoints: which are complete.

A checkpoint is complete when its folder contains the file `whole`, which is written last and holds
the hashes of the others.
Checkpoints left incomplete by a killed process or a full disk are ignored, and removed before
training resumes.
"""

from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from safetensors import SafetensorError

from headcount.core import InputError, flush, inside, read_json, sha256_of, write_json

MARK = "whole"


def whole_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, earliest first."""
    return [path for path in _numbered(folder) if (path / MARK).exists()]


def remove_broken(folder: Path) -> None:
    """Remove incomplete checkpoints."""
    for path in _numbered(folder):
        if not (path / MARK).exists():
            rmtree(path)


def remove_early(folder: Path, keep: int, best: int | None) -> None:
    """Remove complete checkpoints except the last `keep` and that of step `best`."""
    for path in whole_checkpoints(folder)[:-keep]:
        if path.name != f"checkpoint-{best}":
            rmtree(path, ignore_errors=True)


RESUMING = ("optimizer*", "scheduler*", "rng_state*")
"""Patterns of the files that only a training that resumes needs."""


def strip(folder: Path) -> None:
    """Remove from a finished training's last checkpoint the files that only resuming needs."""
    for path in whole_checkpoints(folder)[-1:]:
        files = [file for pattern in RESUMING for file in path.glob(pattern)]
        _mark(path, {file.name for file in files})
        for file in files:
            file.unlink()


def _mark(folder: Path, without: Container[str] = ()) -> None:
    """Mark a folder as complete, with the hashes of its files."""
    files = [file for file in folder.iterdir() if file.name != MARK and file.is_file()]
    write_json(
        folder / MARK, {file.name: sha256_of(file) for file in files if file.name not in without}
    )


def check_whole(folder: Path) -> None:
    """Check that the files of a complete checkpoint are those that were saved.

    Raises:
        InputError: if one is missing or was changed.
    """
    advice = _advice(folder)
    hashes = read_json(folder / MARK, "hashes by file name", advice)
    if hashes == 1:  # from before they were stored
        hashes = {}
    if not isinstance(hashes, dict):
        raise InputError(f"Expected hashes by file name in {folder / MARK}. {advice}")
    for name, sha256 in hashes.items():
        file = inside(folder, name)
        if not file.is_file() or sha256_of(file) != sha256:
            raise InputError(
                f"Expected {file} as it was saved, but it is missing or was changed. {advice}"
            )


def check_resumable(folder: Path) -> None:
    """Check that a checkpoint holds everything without which training would resume differently.

    Raises:
        InputError: if a file is missing.
    """
    for pattern in RESUMING:
        if not any(folder.glob(pattern)):
            raise InputError(
                f"Expected {pattern} in {folder}, without which training can't resume as it was. "
                f"{_advice(folder)}"
            )


def _advice(folder: Path) -> str:
    return (
        f"Remove the folder {folder} to resume from the checkpoint before it, or start again with "
        "--overwrite."
    )


@contextmanager
def saving(folder: Path, is_main: bool = True) -> Iterator[None]:
    """Mark the folder as complete at the end of the block, after all processes have saved.

    Only the main process marks the folder, and removes it if saving failed.

    Raises:
        InputError: if the disk is full, or can't be written for another reason.
    """
    try:
        yield
        if is_main:
            flush(folder)
            _mark(folder)
    except (OSError, RuntimeError, SafetensorError) as error:
        if not _is_about_files(error):
            raise
        if is_main:
            rmtree(folder, ignore_errors=True)
        raise InputError(
            f"{folder} could not be saved ({str(error).splitlines()[0]}). The checkpoints before "
            "it are complete. Make room on the disk, then continue with --resume."
        ) from error


def _numbered(folder: Path) -> list[Path]:
    paths = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdecimal()]
    return sorted(paths, key=lambda path: int(path.name.split("-")[1]))


def _is_about_files(error: Exception) -> bool:
    """Whether writing failed; torch and safetensors raise errors of their own for that."""
    words = ("writing", "PytorchStreamWriter", "unexpected pos", "No space")
    return not isinstance(error, RuntimeError) or any(word in str(error) for word in words)
