"""Claim: a folder that will be a model's, and beside it the folder of what is done so far.

The state is the neighbour of the model's folder, so that this is never half a model.
"""

from pathlib import Path
from shutil import rmtree

from headcount.artifact.staging import COMPACT, Kind, refuse_taken
from headcount.folders import refuse_earlier


def state_of(out: Path) -> Path:
    """The folder of what is done so far."""
    return out.resolve().with_name(f"{out.resolve().name}.state")


def claim_artifact(out: Path, resume: bool, overwrite: bool, kind: Kind = COMPACT) -> None:
    """See that a model may be written, and make the folder of the state.

    Args:
        out: the model's folder.
        resume: go on with an interrupted run.
        overwrite: replace an earlier model.
        kind: what may be replaced.

    Raises:
        InputError: if a model or an interrupted run is there that is not to be replaced or gone on
            with.
    """
    state = state_of(out)
    begun = state.exists() and any(state.iterdir())
    # --overwrite alone would begin anew.
    advice = "--overwrite beside --resume" if begun and resume else "--overwrite"
    refuse_taken(out, overwrite, advice, kind)
    if begun:
        refuse_earlier(state, "an interrupted run", resume, overwrite)
    if overwrite and not resume:
        rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
