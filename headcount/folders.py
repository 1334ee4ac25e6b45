"""Folders of results: what an earlier run left is gone on with or replaced, never mixed."""

from pathlib import Path

from headcount.errors import InputError


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
