"""Keyed files: what a run has done so far, with the key of what it was done with.

A key is a signature of model, data and options: a run goes on only with what has its own key.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from headcount.errors import InputError
from headcount.files import write_json


@contextmanager
def reading(
    file: Path,
    what: str,
    advice: str = "start again with --overwrite instead of --resume",
) -> Iterator[None]:
    """Say what a file should hold, and what to do, where it can't be read in the block.

    Raises:
        InputError: in place of the error.
    """
    try:
        yield
    except InputError:
        raise  # it says so itself
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError,
    ) as error:  # fmt: skip
        raise InputError(
            f"{file} should hold {what} but can't be read ({error}); {advice}"
        ) from error


def refuse_other_key(file: Path, made: str | None, key: str) -> None:
    """See that a file is of this run.

    Args:
        file: it.
        made: its key.
        key: that of this run.

    Raises:
        InputError: if they differ.
    """
    if made != key:
        raise InputError(
            f"--resume goes on with the same model, data and options; {file} is of the run\n  "
            f"{made}\nand this one would be\n  {key}\nGive the same arguments, or start again with "
            "--overwrite instead of --resume"
        )


def read_keyed(file: Path | None, key: str, what: str) -> dict[str, Any]:
    """A mapping that `write_keyed` wrote; an empty one where there is no file.

    Args:
        file: it; None where nothing is kept.
        key: that of this run.
        what: the file holds, in words.

    Raises:
        InputError: if the file is damaged, or of another run.
    """
    if file is None or not file.exists():
        return {}
    with reading(file, what):
        found = json.loads(file.read_text(encoding="utf-8"))
        made, done = found["key"], dict(found["done"])
    refuse_other_key(file, made, key)
    return done


def write_keyed(file: Path | None, key: str, done: dict[str, Any]) -> None:
    """Write a mapping and its key, whole or not at all; nowhere for None."""
    if file is not None:
        write_json(file, {"key": key, "done": done})
