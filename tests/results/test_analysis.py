"""The files that a run writes, and those it keeps from an earlier run."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headcount.core import Heads, HeadTable, InputError, ResumePolicy, capabilities
from headcount.results import ABOUT, PROFILE_COLUMNS, Analysis, Counts, RunRecord, claim, start_over
from headcount.results.analysis import beside_files, our_files

HEADS = Heads({"encoder.self": (2, 3)})
RECORD = RunRecord(
    signature="headcount:0.1.0|model:bert",
    model="tiny",
    corpora=("a.txt",),
    counts=Counts(sentences=7, tokens=41),
    sites=HEADS.counts,
    roles={},
)


def analysis(heads: Heads = HEADS) -> Analysis:
    table = HeadTable.of(heads, {"confidence": np.arange(len(heads)) / 10})
    offsets = pd.DataFrame({"head": ["enc.0.0"], "offset": [0], "share": [1.0]})
    profiles = pd.DataFrame(columns=[*PROFILE_COLUMNS])
    return Analysis(RECORD, table, offsets, profiles)


def with_importance(folder: Path) -> Path:
    """A run with the additions of `headcount importance`."""
    analysis().write(folder)
    frame = HeadTable.read(folder / "heads.parquet").frame.assign(gradient=[5.0, 4, 3, 2, 1])
    HeadTable(frame).write(folder / "heads.parquet")
    (folder / "importance.json").write_text("{}")
    return folder


def test_files_that_manifests_name_are_ours():
    named = {name for each in capabilities() for name in each.files}
    assert "clark2019.md" in named and named <= {*our_files()}


def test_importance_is_one_of_our_files(tmp_path: Path):
    assert "importance.json" in our_files()
    claim(with_importance(tmp_path), ResumePolicy.OVERWRITE)


def test_what_a_person_says_of_a_run_stays_beside_the_next_one(tmp_path: Path):
    folder = with_importance(tmp_path)
    (folder / ABOUT).write_text("{}")
    with pytest.raises(InputError, match="--overwrite"):
        claim(folder, ResumePolicy.REFUSE)
    claim(folder, ResumePolicy.OVERWRITE)
    analysis().recorded({"overwrite": True}).write(folder)
    assert (folder / ABOUT).exists()


def test_a_new_run_removes_the_importance_of_an_earlier_one(tmp_path: Path):
    folder = with_importance(tmp_path)
    analysis().recorded({"overwrite": True, "resume": False}).write(folder)
    assert not (folder / "importance.json").exists()
    assert "gradient" not in HeadTable.read(folder / "heads.parquet").frame


def test_starting_over_keeps_results_until_there_are_new_ones(tmp_path: Path):
    """`claim` alone deletes nothing: model or corpus may be mistyped."""
    folder = with_importance(tmp_path)
    (folder / "state").mkdir()
    for name in ("state/sweep.safetensors", "targets.txt"):
        (folder / name).write_text("hours of work")
    claim(folder, ResumePolicy.OVERWRITE)
    assert (folder / "state" / "sweep.safetensors").exists() and (folder / "targets.txt").exists()
    start_over(folder)
    assert not any((folder / "state").iterdir()) and not (folder / "targets.txt").exists()
    assert (folder / "importance.json").exists() and (folder / "run.json").exists()


def test_options_without_end_are_written(tmp_path: Path):
    analysis().recorded({"save_every": math.inf}).write(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["arguments"] == {"save_every": None}


def test_a_resumed_run_keeps_it(tmp_path: Path):
    folder = with_importance(tmp_path)
    analysis().write(folder, keep_scores=True)
    assert (folder / "importance.json").exists()
    frame = HeadTable.read(folder / "heads.parquet").frame
    assert frame["gradient"].tolist() == [5, 4, 3, 2, 1]
    assert frame["confidence"].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert list(frame).count("confidence") == 1


def test_a_resumed_run_keeps_an_evaluation(tmp_path: Path):
    """It belongs to the model, and `claim` accepts an analysis beside it only with --resume."""
    (tmp_path / "evaluation.json").write_text("{}")
    (tmp_path / "report.html").write_text("of an earlier analysis")
    analysis().write(tmp_path, keep_scores=True)
    assert (tmp_path / "evaluation.json").exists() and not (tmp_path / "report.html").exists()
    analysis().recorded({"overwrite": True}).write(tmp_path)
    assert not (tmp_path / "evaluation.json").exists()


def test_a_resumed_run_keeps_what_commands_left_beside_it(tmp_path: Path):
    for name in beside_files():
        (tmp_path / name).write_text("{}")
    analysis().write(tmp_path, keep_scores=True)
    assert all((tmp_path / name).exists() for name in beside_files())
    analysis().write(tmp_path)
    assert not any((tmp_path / name).exists() for name in beside_files())


def test_scores_of_other_heads_are_not_kept(tmp_path: Path):
    folder = with_importance(tmp_path)
    analysis(Heads({"encoder.self": (5,)})).write(folder, keep_scores=True)
    assert "gradient" not in HeadTable.read(folder / "heads.parquet").frame


def test_a_resumed_first_run_has_nothing_to_keep(tmp_path: Path):
    analysis().write(tmp_path, keep_scores=True)
    assert list(HeadTable.read(tmp_path / "heads.parquet").frame)[-1] == "confidence"
