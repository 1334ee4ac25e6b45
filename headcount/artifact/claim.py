"""Claim: a folder that will be a model's, and beside it the folder of what is done so far.

The state is the neighbour of the model's folder, so that this is never half a model.
"""

from collections.abc import Iterable
from pathlib import Path

from headcount.artifact.staging import COMPACT, Kind, refuse_taken
from headcount.errors import InputError
from headcount.folders import is_begun, mark, marked, refuse_earlier, remove_state


def state_of(out: Path) -> Path:
    """The folder of what is done so far."""
    return out.resolve().with_name(f"{out.resolve().name}.state")


def claim_artifact(
    out: Path, resume: bool, overwrite: bool, kind: Kind = COMPACT, read: Iterable[Path] = ()
) -> None:
    """See that a model may be written, and make the folder of the state.

    Args:
        out: the model's folder.
        resume: go on with an interrupted run.
        overwrite: replace an earlier model.
        kind: what may be replaced.
        read: what the run reads, which must not be in the folder: it is replaced as a whole.

    Raises:
        InputError: if a model or an interrupted run is there that is not to be replaced or gone on
            with, or of another kind, or something in the folder is to be read.
    """
    refuse_read(out, read)
    state = state_of(out)
    begun, other = is_begun(state), marked(state)
    if begun and other != kind.name:
        raise InputError(
            f"{state} holds the interrupted run of {other}, not of {kind.name}: name another folder"
            if other
            else f"{state} is where this run would keep what is done so far, and holds something "
            "else: name another folder"
        )
    # --overwrite alone would begin anew.
    advice = "--overwrite beside --resume" if begun and resume else "--overwrite"
    refuse_taken(out, overwrite, advice, kind)
    if begun:
        refuse_earlier(state, "an interrupted run", resume, overwrite)
    if overwrite and not resume:
        remove_state(state)
    mark(state, kind.name)


def refuse_read(out: Path, read: Iterable[Path]) -> None:
    """See that a folder that will be replaced as a whole holds nothing that is to be read.

    Raises:
        InputError: if it does.
    """
    for path in read:
        if path.exists() and out.resolve() in (path.resolve(), *path.resolve().parents):
            raise InputError(
                f"{path} is read, and {out} will be replaced as a whole: name another folder"
            )
