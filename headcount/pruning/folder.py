"""Folders of pruning: what an earlier run left is gone on with or replaced, never mixed."""

from collections.abc import Sequence
from pathlib import Path

from headcount.errors import InputError
from headcount.folders import is_begun, mark, marked, refuse_earlier, refuse_file, remove_state


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
    kind = "".join(f"{name}\n" for name in results)
    if not is_begun(state):
        present -= {state.name}
    is_ours = marked(state) == kind and present <= {state.name, "figures"}
    ours = is_ours or not present.isdisjoint(results)
    if present and not ours:
        raise InputError(
            f"a new folder was expected, or one with an earlier run; {out} holds other files: name "
            "another"
        )
    if present:
        refuse_earlier(out, "an earlier run", resume, overwrite)
    if overwrite and not resume:
        remove_state(state)
    mark(state, kind)
