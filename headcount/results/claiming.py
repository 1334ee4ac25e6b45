"""The files that runs leave in a folder; whether a run may write into it. Needs no pandas."""

from collections.abc import Sequence
from pathlib import Path

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

SCORES = ("importance.json", "evaluation.json", "translations.txt")
"""Files of other commands: the importance of the heads and the scores of the model."""

PROBE_FILES = ("probes.json", "probes.parquet", "probe_weights.parquet")
"""Files that probes leave, in a folder of their own or beside an analysis."""

ALIGNMENT_FILES = ("alignment.parquet", "alignment.md", "alignment.json")
"""Files that a word alignment leaves, in a folder of their own or beside an analysis."""

CLUSTER_FILES = ("distances.parquet", "groups.parquet", "clusters.md", "clusters.json")
"""Files that distances between heads leave, in a folder of their own or beside an analysis."""

COREFERENCE_FILES = (
    "coreference.parquet",
    "coreference_names.parquet",
    "coreference.md",
    "coreference.json",
)
"""Files that antecedent selection leaves, in a folder of their own or beside an analysis."""

BESIDE_FILES = (*PROBE_FILES, *ALIGNMENT_FILES, *CLUSTER_FILES, *COREFERENCE_FILES)
"""Files of commands that write into a folder of their own or beside an analysis."""

FILES = (
    "heads.parquet",
    "profiles.parquet",
    "relations.parquet",
    "offsets.parquet",
    "null_heads.parquet",
    "null_relations.parquet",
    "examples.json",
    "run.json",
    "report.html",
    "targets.txt",
    "clark2019.md",
    "coenen2019.md",
    "hewitt2019.md",
    "michel2019.md",
    "voita2019.md",
    *SCORES,
    *BESIDE_FILES,
)
"""All files that a run may leave, besides `state/` and `figures/`."""

STATE = (
    *("measuring-*.safetensors", "null-*.safetensors", "targets-*.json"),
    *("sweep.safetensors", "translations.json"),
)
"""Patterns of the files in `state/` that interrupted runs leave."""

CURVE_FILES = ("curve.parquet", "curve.md", "curve.json")
"""Files that a curve leaves, besides `state/` and `figures/`."""

SENSITIVITY_FILES = ("sensitivity.parquet", "sensitivity.json")
"""Files that a sensitivity leaves, besides `figures/`."""

CONTRIBUTION_FILES = ("contributions.parquet", "kobayashi2020.md", "contributions.json")
"""Files that measured contributions leave, besides `figures/`."""

TUNED_FILES = ("tuned.parquet", "kovaleva2019.md", "tuned.json")
"""Files that a comparison of maps before and after fine-tuning leaves, besides `figures/`."""

EVOLUTION_FILES = (
    "evolution.json",
    "evolution.parquet",
    "evolution_points.parquet",
    "evolution.md",
    "voita2019evolution.md",
)
"""Files that a comparison of layers leaves, besides `state/` and `figures/`."""

FOLLOW_FILES = ("follow.json", "follow.parquet", "follow.md")
"""Files that checkpoints followed along a training leave, besides `state/` and `figures/`."""

TABLES = tuple(
    name
    for name in (
        *(*FILES, *CURVE_FILES, *SENSITIVITY_FILES, *CONTRIBUTION_FILES),
        *(*TUNED_FILES, *EVOLUTION_FILES, *FOLLOW_FILES),
    )
    if name.endswith(".parquet")
)
"""The tables that a run may leave."""


def csv_name(name: str) -> str:
    """Name of the CSV beside a table."""
    return name.removesuffix(".parquet") + ".csv"


OURS = (*FILES, *map(csv_name, TABLES))
"""All files that a run may leave, the copies of its tables as CSV included."""

CURVE = "curve"
"""Folder of a curve beside an analysis, whose report shows it."""

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


def claim_probes(folder: Path, policy: ResumePolicy) -> None:
    """Check that probes may write into a folder, beside an analysis; nothing is deleted.

    Raises:
        InputError: if it holds something else, or probes that may be neither resumed nor replaced.
    """
    claim_beside(folder, PROBE_FILES, "probes", policy)


def claim_beside(
    folder: Path, files: Sequence[str], what: str, policy: ResumePolicy, resumes: bool = True
) -> None:
    """Check that a command may write into a folder, beside an analysis; nothing is deleted.

    Args:
        folder: the folder.
        files: names of the command's files.
        what: what the files hold; the state of an unfinished run is in the folder `state/WHAT`.
        policy: what to do with earlier files of the command.
        resumes: whether the command can resume.

    Raises:
        InputError: if the folder holds something else, or earlier files that may be neither resumed
            nor replaced.
    """
    check_is_folder(folder)
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


def check_is_run(folder: Path) -> None:
    """Check that there is a folder to read a run from.

    Raises:
        InputError: if the folder does not exist, is a file, or is one of another command.
    """
    if folder.is_dir() and not (folder / "run.json").exists():
        if records := sorted(path.name for path in folder.glob("*.json")):
            raise InputError(
                f"Expected a folder written by `headcount analyze ... --out`, got {folder}, where "
                f"another command wrote {', '.join(records)}. Name the folder of an analysis."
            )
    if not folder.is_dir():
        raise InputError(
            f"Expected a folder written by `headcount analyze ... --out`, but {folder} "
            f"{'is a file' if folder.exists() else 'does not exist'}. Check the path."
        )
