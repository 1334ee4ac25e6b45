"""Keyed files: the progress of a run, stored with the key of the run.

A key is a signature of model, data and options: a run resumes only from files with its own key.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from headcount.core.errors import InputError
from headcount.core.files import write_json


@contextmanager
def reading(
    file: Path,
    what: str,
    advice: str = "start again with --overwrite instead of --resume",
) -> Iterator[None]:
    """Report what a file should hold, and what to do, if it can't be read inside the block.

    Raises:
        InputError: in place of the original error.
    """
    try:
        yield
    except InputError:
        raise  # it already says so
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(
            f"{file} should hold {what} but can't be read ({error}); {advice}"
        ) from error


def check_same_key(file: Path, made: str | None, key: str) -> None:
    """Check that a file belongs to this run.

    Args:
        file: the file.
        made: its key.
        key: the key of this run.

    Raises:
        InputError: if they differ.
    """
    if made != key:
        raise InputError(
            f"--resume needs the same model, data and options. {file} belongs to the run\n  "
            f"{made}\nand this one would be\n  {key}\nGive the same arguments, or start again with "
            "--overwrite instead of --resume."
        )


def read_checkpoint(file: Path | None, key: str, what: str) -> dict[str, Any]:
    """Read a mapping that `write_checkpoint` wrote; an empty one if there is no file.

    Args:
        file: the file; None if nothing is stored.
        key: the key of this run.
        what: what the file holds, in words.

    Raises:
        InputError: if the file is damaged or belongs to another run.
    """
    if file is None or not file.exists():
        return {}
    with reading(file, what):
        found = json.loads(file.read_text(encoding="utf-8"))
        made, done = found["key"], dict(found["done"])
    check_same_key(file, made, key)
    return done


def write_checkpoint(file: Path | None, key: str, done: dict[str, Any]) -> None:
    """Write a mapping and its key, completely or not at all; nothing for None."""
    if file is not None:
        write_json(file, {"key": key, "done": done})
