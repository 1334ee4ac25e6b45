"""Claim: reserve the folder of a model and, beside it, the folder of an unfinished run's state.

The state is kept beside the model's folder so that this folder never holds half a model.
"""

from collections.abc import Iterable
from pathlib import Path

from headcount.artifact.staging import COMPACT, Kind, refuse_taken
from headcount.errors import InputError
from headcount.folders import is_begun, mark, marked, refuse_earlier, remove_state


def state_of(out: Path) -> Path:
    """The folder that holds the state of an unfinished run."""
    return out.resolve().with_name(f"{out.resolve().name}.state")


def claim_artifact(
    out: Path, resume: bool, overwrite: bool, kind: Kind = COMPACT, read: Iterable[Path] = ()
) -> None:
    """Check that a model may be written, and make the folder for the state.

    Args:
        out: Folder for the model.
        resume: Whether to resume an interrupted run.
        overwrite: Whether to replace an earlier model.
        kind: Kind of model that may be replaced.
        read: Paths that the run reads, none in the folder, which is replaced entirely.

    Raises:
        InputError: If there is a model that may not be replaced, an interrupted run that may not be
            resumed, one of another kind, or a path to read inside the folder.
    """
    refuse_read(out, read)
    state = state_of(out)
    begun, other = is_begun(state), marked(state)
    if begun and other != kind.name:
        raise InputError(
            f"{state} holds the interrupted run of {other}, not of {kind.name}. Name another "
            "folder."
            if other
            else f"{state}, where this run would keep its state, holds something else. Name "
            "another folder."
        )
    # --overwrite alone would restart the run.
    advice = "--overwrite beside --resume" if begun and resume else "--overwrite"
    refuse_taken(out, overwrite, advice, kind)
    if begun:
        refuse_earlier(state, "an interrupted run", resume, overwrite)
    if overwrite and not resume:
        remove_state(state)
    mark(state, kind.name)


def refuse_read(out: Path, read: Iterable[Path]) -> None:
    """Check that a folder that will be replaced entirely holds nothing that the run reads.

    Raises:
        InputError: If a path to read is inside the folder.
    """
    for path in read:
        if path.exists() and out.resolve() in (path.resolve(), *path.resolve().parents):
            raise InputError(
                f"This run reads {path}, but would replace all of {out}. Name another folder."
            )
