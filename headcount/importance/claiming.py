"""The files in which an assessment keeps its progress; whether it may write into a folder."""

from pathlib import Path

from headcount.core import ResumePolicy, check_is_folder, check_no_earlier_run

SWEEP = "sweep.safetensors"
"""File of the losses under ablations."""
TRANSLATIONS = "translations.json"
"""File of the translations by ablated models."""


def claim_importance(folder: Path, policy: ResumePolicy) -> None:
    """Check that an assessment may write into a folder, beside an analysis; nothing is deleted.

    Raises:
        InputError: If the folder holds an assessment, finished or not, that may neither be resumed
            nor overwritten.
    """
    check_is_folder(folder)
    so_far = [folder / "state" / name for name in (SWEEP, TRANSLATIONS)]
    if any(file.exists() for file in so_far) or (folder / "importance.json").exists():
        check_no_earlier_run(folder, "an earlier assessment", policy)
    (folder / "state").mkdir(parents=True, exist_ok=True)


def forget_sweep(folder: Path) -> None:
    """Delete the saved progress of an earlier assessment; call it once all input is read."""
    for name in (SWEEP, TRANSLATIONS):
        (folder / "state" / name).unlink(missing_ok=True)
