"""The folder of a training: what was begun there, and what must not change when it is resumed."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Any

from headcount.core import (
    MODEL_FILES,
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
    check_only_ours,
    entries,
    hold,
    put,
    reading,
    remove_leftovers,
    write_json,
)

RECORD = "training.json"

OURS = (
    *MODEL_FILES,
    *(RECORD, "result.json", "checkpoints/*", "train.tsv", "dev.tsv", "test.tsv"),
)
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
