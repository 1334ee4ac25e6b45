"""Folders of pruning: an earlier run is resumed or replaced, never mixed with another."""

from collections.abc import Sequence
from pathlib import Path

from headcount.errors import InputError
from headcount.folders import is_begun, mark, marked, refuse_earlier, refuse_file, remove_state


def claim(out: Path, results: Sequence[str], state: Path, resume: bool, overwrite: bool) -> None:
    """Check that a run may write into a folder; only the state is ever deleted.

    Args:
        out: the folder of the results.
        results: names of files that only an earlier run leaves there.
        state: folder of intermediate state; it is created, with a note of the run it belongs to.
        resume: resume the earlier run.
        overwrite: replace the earlier run.

    Raises:
        InputError: if the folder holds an earlier run that is neither resumed nor overwritten, or
            something else.
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
            f"Expected a new folder, or one with an earlier run, got {out}, which holds other "
            "files. Name another."
        )
    if present:
        refuse_earlier(out, "an earlier run", resume, overwrite)
    if overwrite and not resume:
        remove_state(state)
    mark(state, kind)
