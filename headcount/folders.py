"""Folders of results: what an earlier run left is gone on with or replaced, never mixed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headcount.errors import InputError
from headcount.files import write_text

MARK = "kind.txt"
"""In a state: whose it is. Other commands have a folder of that name too."""


def refuse_file(folder: Path) -> None:
    """See that a folder for results is not a file.

    Raises:
        InputError: if it is one.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"a folder for the results was expected, {folder} is a file: name another")


def refuse_earlier(folder: Path, what: str, resume: bool, overwrite: bool) -> None:
    """For a folder that holds something of an earlier run: see that it is wanted so.

    Args:
        folder: it.
        what: it holds, e.g. "an earlier run".
        resume: go on with what is there.
        overwrite: replace it.

    Raises:
        InputError: if neither is asked for.
    """
    if not (resume or overwrite):
        raise InputError(
            f"{folder} holds {what}: give --resume to go on with it, --overwrite to replace it, "
            "or name another folder"
        )


@contextmanager
def reading_results(file: Path) -> Iterator[None]:
    """Say that a file of results can't be read where that fails in the block.

    Raises:
        InputError: in place of the error.
    """
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:  # ArrowInvalid is a ValueError
        raise InputError(
            f"{file} should be of a finished run but can't be read ({error}): name a whole folder, "
            "or run the command that wrote it again"
        ) from error


def mark(state: Path, kind: str) -> None:
    """Say in a folder of what is done so far what kind of run it is of; makes the folder."""
    write_text(state / MARK, kind)


def marked(state: Path) -> str | None:
    """What kind of run a folder of what is done so far is of; None if it does not say."""
    path = state / MARK
    return path.read_text(encoding="utf-8") if path.exists() else None


def is_begun(state: Path) -> bool:
    """Whether there is anything to go on with: a refused run leaves its mark only."""
    return state.is_dir() and any(path.name != MARK for path in state.iterdir())
