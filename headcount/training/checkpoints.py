"""Checkpoints: which are complete.

A checkpoint is complete when its folder contains the file `whole`, which is written last and holds
the hashes of the others.
Checkpoints left incomplete by a killed process or a full disk are ignored, and removed before
training resumes. The folder also says what was begun there, and what must not change when it is
resumed.
"""

import json
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

from safetensors import SafetensorError

from headcount.core import (
    MODEL_FILES,
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
    check_only_ours,
    entries,
    flush,
    hold,
    inside,
    put,
    read_json,
    reading,
    reason,
    remove_leftovers,
    sha256_of,
    write_json,
)

RECORD = "training.json"

OURS = (*MODEL_FILES, *(RECORD, "result.json", "checkpoints/*", "train.tsv", "dev.tsv", "test.tsv"))
"""Patterns of the files in the folder of a training."""


def claim(
    out: Path,
    identity: dict[str, Any],
    policy: ResumePolicy,
    as_today: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> None:
    """Check that a training may write into a folder, and record there what it is.

    Args:
        out: the folder.
        identity: everything that a resumed training must have in common with the interrupted one.
        policy: what to do with an earlier training.
        as_today: gives the identity that an earlier version recorded as this one would.

    Raises:
        InputError: if the folder holds something else, or an earlier training that is neither
            resumed nor overwritten, or if the training to resume differs; the error says where.
    """
    check_is_folder(out)
    record = out / RECORD
    remove_leftovers(out, {RECORD, "result.json"}.__contains__)
    if entries(out) and not record.exists():
        raise InputError(f"Expected a new or empty folder, got {out} with files. Name another.")
    if record.exists() and policy is ResumePolicy.RESUME:
        with reading(record, "the settings of a training"):
            before = dict(json.loads(record.read_text(encoding="utf-8")))
        _check_same_run(out, as_today(before), identity)
    elif record.exists():
        check_no_earlier_run(out, "an earlier training", policy)
        check_only_ours(out, OURS)
        hold(out)  # before anything of another process is moved
        if _replaced(out).exists():
            rmtree(out)  # the training in it was killed before it began
        else:
            put(out, _replaced(out))
    write_json(record, identity)
    hold(out)


@contextmanager
def coming_back(out: Path) -> Iterator[None]:
    """Restore the training that was to be replaced if the block fails."""
    try:
        yield
    except BaseException:
        if _replaced(out).exists():
            rmtree(out, ignore_errors=True)
            put(_replaced(out), out)
        raise
    rmtree(_replaced(out), ignore_errors=True)


def _replaced(out: Path) -> Path:
    """Folder that holds an earlier training until the new one has begun."""
    return out.resolve().with_name(f".{out.resolve().name}.replaced")


def _check_same_run(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name in {**before, **now}:
        earlier, asked = before.get(name, "nothing"), now.get(name, "nothing")
        if earlier != asked:
            raise InputError(
                f"{out} was begun with {name} {_shown(earlier)}, and this command has "
                f"{_shown(asked)}. Resume with the same {name}, or train into another folder."
            )


def _shown(value: object) -> str:
    """The value as text, with hashes shortened."""
    return f"{value[:12]}..." if isinstance(value, str) and len(value) == 64 else str(value)


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
            f"{folder} could not be saved ({reason(error)}). The checkpoints before "
            "it are complete. Make room on the disk, then continue with --resume."
        ) from error


def _numbered(folder: Path) -> list[Path]:
    paths = [path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdecimal()]
    return sorted(paths, key=lambda path: int(path.name.split("-")[1]))


def _is_about_files(error: Exception) -> bool:
    """Whether writing failed; torch and safetensors raise errors of their own for that."""
    words = ("writing", "PytorchStreamWriter", "unexpected pos", "No space")
    return not isinstance(error, RuntimeError) or any(word in str(error) for word in words)
