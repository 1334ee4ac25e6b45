"""The files that runs leave in a folder; whether a run may write into it. Needs no pandas."""

from pathlib import Path
from typing import Any

from headcount.core import (
    InputError,
    ResumePolicy,
    check_is_folder,
    check_no_earlier_run,
    entries,
    hold,
    is_main_process,
    make_folder,
    remove_leftovers,
)
from headcount.results.analysis import OURS
from headcount.results.curve import CURVE
from headcount.results.store import Result

STATE = (
    *("measuring-*.safetensors", "null-*.safetensors", "targets-*.json"),
    *("sweep.safetensors", "translations.json"),
)
"""Patterns of the files in `state/` that interrupted runs leave."""

FOLDERS = ("state", "figures", "other", CURVE)


def claim(folder: Path, policy: ResumePolicy) -> None:
    """Check that a run may write into a folder; nothing is deleted.

    The main process holds the folder, for all processes of the run.

    Raises:
        InputError: if the folder holds something that may be neither resumed nor overwritten.
    """
    check_is_folder(folder)
    remove_leftovers(folder, set(OURS).__contains__)
    remove_leftovers(folder / "state")
    present = {path.name for path in entries(folder)}
    foreign = present - set(OURS) - set(FOLDERS)
    if foreign:
        raise InputError(
            f"{folder} holds files that an analysis does not write "
            f"({', '.join(sorted(foreign)[:3])}). Name a new folder or one with an earlier run."
        )
    if (folder / "state").is_dir() and not any((folder / "state").iterdir()):
        present -= {"state"}  # left by a run that was refused
    if present:
        check_no_earlier_run(folder, "an earlier run", policy)
    make_folder(folder / "state")
    if is_main_process():
        hold(folder)


def claim_beside(
    folder: Path, kind: type[Result[Any]], policy: ResumePolicy, resumes: bool = True
) -> None:
    """Check that a command may write into a folder, beside an analysis; nothing is deleted.

    Args:
        folder: the folder.
        kind: the command's result; the state of an unfinished run is in a folder of its record's
            name in `state`.
        policy: what to do with earlier files of the command.
        resumes: whether the command can resume.

    Raises:
        InputError: if the folder holds something else, or earlier files that may be neither resumed
            nor replaced.
    """
    check_is_folder(folder)
    files = kind.files()
    what = Path(files[-1]).stem
    remove_leftovers(folder, set(OURS).union(files).__contains__)
    state = folder / "state" / what
    remove_leftovers(state)
    present = {path.name for path in entries(folder)}
    foreign = present - set(OURS) - set(FOLDERS)
    if foreign:
        raise InputError(
            f"{folder} holds files that neither {what} nor an analysis write "
            f"({', '.join(sorted(foreign)[:3])}). Name a new folder or that of an analysis."
        )
    if not present.isdisjoint(files) or (state.is_dir() and any(state.iterdir())):
        check_no_earlier_run(folder, f"earlier {what}", policy, resumes)
    make_folder(state)
    hold(folder)


def start_over(folder: Path) -> None:
    """Delete the state that an earlier run would resume from; its results stay until replaced.

    Call this after reading model and corpus, so that a typo in their names costs nothing.
    """
    for pattern in STATE:
        for file in (folder / "state").glob(pattern):
            file.unlink(missing_ok=True)  # another process of this run may have been first
    (folder / "targets.txt").unlink(missing_ok=True)
    make_folder(folder / "state")
