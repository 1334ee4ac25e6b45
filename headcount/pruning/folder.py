"""Folders of pruning: what an earlier run left is gone on with or replaced, never mixed."""

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from headcount.errors import InputError


def claim(out: Path, results: Sequence[str], state: Path, resume: bool, overwrite: bool) -> None:
    """See that a run may write into a folder; nothing but the state is deleted.

    Args:
        out: the folder of the results.
        results: names of files that only an earlier run leaves there.
        state: folder of what is done so far; an empty one is made.
        resume: go on with what is there.
        overwrite: replace it.

    Raises:
        InputError: if an earlier run is there that is neither to be resumed nor overwritten, or the
            folder holds something else.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"a folder for the results was expected, {out} is a file: name another")
    ours = any((out / name).exists() for name in results) or state.exists()
    if out.exists() and any(out.iterdir()) and not ours:
        raise InputError(
            f"a new folder was expected, or one with an earlier run; {out} holds other files: name "
            "another"
        )
    if ours and not (resume or overwrite):
        raise InputError(
            f"{out} holds an earlier run: give --resume to go on with it, --overwrite to replace "
            "it, or name another folder"
        )
    if overwrite and not resume:
        rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
