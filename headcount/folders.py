"""Folders of results: what an earlier run left is gone on with or replaced, never mixed."""

from pathlib import Path
from shutil import rmtree

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


def mark(state: Path, kind: str) -> None:
    """Say in a folder of what is done so far what kind of run it is of; makes the folder."""
    write_text(state / MARK, kind)


def marked(state: Path) -> str | None:
    """What kind of run a folder of what is done so far is of; None if it does not say."""
    path = state / MARK
    return path.read_text(encoding="utf-8") if path.exists() else None


def remove_state(state: Path) -> None:
    """Remove a folder of what is done so far; its mark last, so that a half removed one is ours."""
    if state.is_dir():
        for path in state.iterdir():
            if path.is_dir():
                rmtree(path, ignore_errors=True)
            elif path.name != MARK:
                path.unlink(missing_ok=True)
        rmtree(state, ignore_errors=True)


def is_begun(state: Path) -> bool:
    """Whether there is anything to go on with: a refused run leaves its mark only."""
    return state.is_dir() and any(path.name != MARK for path in state.iterdir())
