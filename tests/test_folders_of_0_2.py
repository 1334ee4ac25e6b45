"""Folders that 0.2 left before results became one type (commit 11c2016) are read in full.

`python benchmarks/reference_outputs.py make` wrote them; pages, figures and states are left out.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headcount.alignment import Alignment
from headcount.clusters import Clusters
from headcount.core import InputError, ResumePolicy, claim
from headcount.coreference import Coreference
from headcount.importance import Sensitivity
from headcount.pages import render, report_view, story
from headcount.papers import ContributionTable, Evolution, Followed
from headcount.probing import Probed
from headcount.results import EvaluationRecord, PruneRecord, Result, read_run

DATA = Path(__file__).parent / "results" / "data" / "0.2"


@pytest.mark.slow
def test_an_analysis_with_everything_beside_it_is_shown() -> None:
    run = read_run(DATA / "analyze")
    assert len(run.rows) == 6 and len(run.traits or {}) == 6 and run.relation_rows
    assert run.null_rows and run.null_relation_rows and run.offset_shares.keys() == {*run.roles}
    probed, clusters = run.of(Probed), run.of(Clusters)
    assert probed and probed.weights and run.of(Coreference) and clusters
    assert run.importance and run.importance.methods and run.curve
    assert len(clusters.distances) == 15 and len(clusters.places) == 6
    assert "enc.1.2" in render(report_view(run)) and story(run)


def test_an_analysis_of_a_translator_has_its_alignment() -> None:
    run = read_run(DATA / "analyze_marian")
    alignment = run.of(Alignment)
    assert alignment and alignment.record.pairs == 25 and len(run.sites) == 3
    assert alignment.ranked()[0].aer < 1


@pytest.mark.parametrize(
    ("kind", "folder"),
    [
        (Sensitivity, "sensitivity"),
        (Evolution, "evolve"),
        (Followed, "follow"),
        (ContributionTable, "kobayashi2020"),
    ],
)
def test_results_lose_nothing(kind: type[Result[Any]], folder: str, tmp_path: Path) -> None:
    """What is read and written again is read as the same."""
    found = kind.read(DATA / folder)
    found.write(tmp_path)
    assert repr(kind.read(tmp_path)) == repr(found) and found.record.arguments
    assert len(found.frame) > 1


def test_records_of_models_are_read() -> None:
    pruned = PruneRecord.read(DATA / "pruned")
    assert len(pruned.kept) == 4 and pruned.pipeline and pruned.data_sets.keys() == {"dev", "test"}
    assert EvaluationRecord.read(DATA / "evaluate_lm").scores


def test_a_curve_of_another_model_is_refused(tmp_path: Path) -> None:
    """As `analyze --overwrite` of another model leaves it in the folder `curve`."""
    shutil.copytree(DATA / "analyze_marian", tmp_path / "run")
    shutil.copytree(DATA / "analyze" / "curve", tmp_path / "run" / "curve")
    with pytest.raises(InputError, match="curve, got one of a model with other heads"):
        read_run(tmp_path / "run")


def test_a_state_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    """It names the files of the run in another order."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kind.txt").write_text("follow.json\nfollow.parquet\nfollow.md\n")
    (tmp_path / "state" / "done.json").write_text("{}")
    for policy in (ResumePolicy.RESUME, ResumePolicy.OVERWRITE):
        claim(tmp_path, Followed.files(), tmp_path / "state", policy)


def test_distances_lack_no_column(tmp_path: Path) -> None:
    for name in ("clusters.json", "groups.parquet"):
        shutil.copy(DATA / "analyze" / name, tmp_path)
    table = pd.read_parquet(DATA / "analyze" / "distances.parquet")
    table.rename(columns={"distance": "far"}).to_parquet(tmp_path / "distances.parquet")
    record = json.loads((tmp_path / "clusters.json").read_text())
    del record["files"]
    (tmp_path / "clusters.json").write_text(json.dumps(record))
    with (
        pytest.warns(UserWarning, match="has no hashes"),
        pytest.raises(InputError, match=r"lacks the columns \['distance'\]"),
    ):
        Clusters.read(tmp_path)
