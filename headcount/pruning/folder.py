"""Folders of pruning: what an earlier run left is gone on with or replaced, never mixed."""

from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree

from headcount.errors import InputError
from headcount.files import write_text
from headcount.folders import refuse_earlier, refuse_file


def claim(out: Path, results: Sequence[str], state: Path, resume: bool, overwrite: bool) -> None:
    """See that a run may write into a folder; nothing but the state is deleted.

    Args:
        out: the folder of the results.
        results: names of files that only an earlier run leaves there.
        state: folder of what is done so far; one is made that says whose it is.
        resume: go on with what is there.
        overwrite: replace it.

    Raises:
        InputError: if an earlier run is there that is neither to be resumed nor overwritten, or the
            folder holds something else.
    """
    refuse_file(out)
    present = {path.name for path in out.iterdir()} if out.exists() else set()
    mark, kind = state / "results.txt", "".join(f"{name}\n" for name in results)
    is_marked = mark.exists() and mark.read_text(encoding="utf-8") == kind
    if state.is_dir() and {path.name for path in state.iterdir()} <= {mark.name}:
        present -= {state.name}  # of a run that was refused before it did anything
    # A folder of a state is not enough: other commands have one too.
    ours = not present.isdisjoint(results) or (is_marked and present <= {state.name, "figures"})
    if present and not ours:
        raise InputError(
            f"a new folder was expected, or one with an earlier run; {out} holds other files: name "
            "another"
        )
    if present:
        refuse_earlier(out, "an earlier run", resume, overwrite)
    if overwrite and not resume:
        rmtree(state, ignore_errors=True)
    write_text(mark, kind)
