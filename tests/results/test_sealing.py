"""A record fits the files that it describes, or the folder is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headcount.core import Heads, HeadTable, InputError, JsonObject, ResumePolicy
from headcount.results import (
    PROFILE_COLUMNS,
    Analysis,
    Counts,
    ImportanceRecord,
    RunRecord,
    read_head_table,
    read_run,
    read_sealed,
    write_sealed,
)
from headcount.results.sealing import record_sha256

DATA = Path(__file__).parent / "data"
HEADS = Heads({"encoder.self": (2, 3)})
SCORES = ImportanceRecord(
    task="t", num_examples=7, loss=1.0, score=0.5, signature="headcount:0.1.0|revision:abc"
)


def analysed(folder: Path, confidence: float = 0.5) -> Path:
    record = RunRecord(
        signature="headcount:0.1.0|revision:abc",
        model="tiny",
        corpora=("a.txt",),
        counts=Counts(sentences=7, tokens=41),
        sites=HEADS.counts,
        roles={},
    )
    table = HeadTable.of(HEADS, {"confidence": [confidence] * 4 + [float("nan")]})
    known = pd.array([-1, 0, 1, 2, None], dtype="Int64")  # a head without queries has no offset
    frame = table.frame.assign(roles=[[] for _ in HEADS], num_cases=7, positional_offset=known)
    table = HeadTable(frame)
    offsets = pd.DataFrame({"head": ["enc.0.0"], "offset": [0], "share": [confidence]})
    profiles = pd.DataFrame(columns=[*PROFILE_COLUMNS])
    Analysis(record, table, offsets, profiles).write(folder)
    return folder


def assessed(folder: Path, gradient: float = 1.0) -> Path:
    from headcount.importance import Assessment

    frame = HeadTable.read(folder / "heads.parquet").frame.assign(gradient=gradient)
    Assessment(SCORES, HeadTable(frame)).write(folder)
    return folder


def test_tables_and_record_are_read_as_they_were_written(tmp_path: Path):
    path = tmp_path / "probe.json"
    pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / "probe.parquet")
    write_sealed(path, {"accuracy": 0.9}, ["probe.parquet"])
    found = read_sealed(path, "headcount probe")
    assert found.values["accuracy"] == 0.9
    assert list(pd.read_parquet(tmp_path / "probe.parquet")["a"]) == [1, 2]


def test_a_folder_may_be_named_by_a_text(tmp_path: Path) -> None:
    from headcount.importance import Assessment

    folder = analysed(tmp_path / "one")
    assert Analysis.read(str(folder)).record == Analysis.read(folder).record
    scores = assessed(folder)
    assert Assessment.read(str(scores)).record == Assessment.read(scores).record


@pytest.mark.parametrize("name", ["heads.parquet", "offsets.parquet", "examples.json"])
def test_a_file_of_another_run_is_refused(tmp_path: Path, name: str):
    """As `analyze --overwrite` leaves, killed between its tables and its record."""
    folder, other = analysed(tmp_path / "one"), analysed(tmp_path / "other", 0.25)
    (other / "examples.json").write_text("{ }")
    shutil.copy(other / name, folder / name)
    with pytest.raises(InputError, match=f"Expected .*{name} as run.json describes it, got other"):
        read_run(folder)


def test_a_file_that_is_missing_is_refused(tmp_path: Path):
    folder = analysed(tmp_path)
    (folder / "examples.json").unlink()
    with pytest.raises(InputError, match=r"run.json describes examples.json, which is missing"):
        read_run(folder)


def test_scores_and_analysis_share_a_table(tmp_path: Path):
    folder = assessed(analysed(tmp_path))
    assert read_run(folder).importance == SCORES
    assessed(folder, 2.0)
    assert read_run(folder).rows[0].values["gradient"] == 2.0


def test_scores_outlive_another_analysis_of_the_model(tmp_path: Path):
    """Each record seals its own columns of the table."""
    folder = assessed(analysed(tmp_path / "one"))
    again = Analysis.read(analysed(tmp_path / "other", 0.25))
    again.write(folder, keep_scores=True)
    run = read_run(folder)
    assert run.importance == SCORES
    assert (run.rows[0].values["gradient"], run.rows[0].values["confidence"]) == (1.0, 0.25)


def test_an_analysis_that_was_read_with_its_scores_leaves_them_to_their_record(
    tmp_path: Path,
) -> None:
    """As a folder is made smaller: read, less its examples, and written with its scores."""
    from headcount.importance import claim_importance

    folder = assessed(analysed(tmp_path))
    Analysis.read(folder).write(folder, keep_scores=True)
    claim_importance(folder, ResumePolicy.OVERWRITE)
    assessed(folder, 2.0)
    assert read_run(folder).rows[0].values["gradient"] == 2.0


def test_scores_that_an_analysis_describes_are_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    from headcount.importance import claim_importance

    folder = assessed(analysed(tmp_path / "one"))
    Analysis.read(folder).write(tmp_path / "other")
    with pytest.raises(InputError, match=r"run.json describes the column gradient of heads.parq"):
        claim_importance(tmp_path / "other", ResumePolicy.OVERWRITE)
    claim_importance(folder, ResumePolicy.OVERWRITE)
    claim_importance(tmp_path / "new", ResumePolicy.REFUSE)


def test_scores_of_another_model_are_refused(tmp_path: Path):
    from headcount.importance import Assessment

    folder = analysed(tmp_path)
    other = HeadTable.of(Heads({"encoder.self": (2, 2)}), {"gradient": [1.0] * 4})
    with pytest.raises(
        InputError, match=r"this model \(4 heads, enc.0.0 to enc.1.1\) in .*5 heads"
    ):
        Assessment(SCORES, other).write(folder)
    trained = replace(SCORES, signature="headcount:0.1.0|revision:xyz")
    with pytest.raises(InputError, match=r"revision xyz\) in .*run.json, got one with other"):
        Assessment(trained, HeadTable.read(folder / "heads.parquet")).write(folder)
    assert read_run(folder).importance is None


def test_scores_of_another_assessment_are_refused(tmp_path: Path):
    """As `importance --overwrite` leaves, killed between the table and its record."""
    folder = assessed(analysed(tmp_path))
    frame = HeadTable.read(folder / "heads.parquet").frame.assign(gradient=3.0)
    HeadTable(frame).write(folder / "heads.parquet")
    with pytest.raises(InputError, match=r"heads.parquet as importance.json describes it"):
        read_run(folder)
    RunRecord.read(folder)  # the analysis is unharmed
    assert read_run(assessed(folder, 3.0)).importance == SCORES


def test_a_folder_from_before_gets_a_warning(tmp_path: Path):
    folder = analysed(tmp_path)
    values = json.loads((folder / "run.json").read_text())
    del values["files"], values["sha256"]
    (folder / "run.json").write_text(json.dumps(values))
    with pytest.warns(UserWarning, match=r"run.json has no hashes .* earlier version"):
        read_run(folder)


def forge(path: Path, **changed: object) -> None:
    """Change a record so that its own hash fits."""
    values = json.loads(path.read_text()) | changed
    path.write_text(json.dumps(values | {"sha256": record_sha256(values)}))


@pytest.mark.once
@pytest.mark.parametrize("value", ["another", None])
def test_a_record_that_was_changed_is_refused(tmp_path: Path, value: object):
    """A value, or a whole field, of any record."""
    folder = assessed(analysed(tmp_path))
    for name in ("run.json", "importance.json"):
        text = (folder / name).read_text()
        values = json.loads(text)
        assert list(values)[-1] == "sha256"
        for field in set(values) - {"sha256", "version"}:
            left = {key: each for key, each in values.items() if key != field}
            other = left if value is None else left | {field: value}
            (folder / name).write_text(json.dumps(other))
            with pytest.raises(InputError, match=rf"{name} as headcount wrote it, got other"):
                read_run(folder)
        (folder / name).write_text(text)
        read_run(folder)


@pytest.mark.parametrize(
    "seals",
    [[], 7, {"heads.parquet": 7}, {"heads.parquet": {"columns": 7, "sha256": ""}}, {"a": None}],
)
def test_damaged_hashes_are_refused(tmp_path: Path, seals: object):
    folder = analysed(tmp_path)
    forge(folder / "run.json", files=seals)
    with pytest.raises(InputError, match=r"Expected .* Run `headcount analyze` again"):
        read_run(folder)


@pytest.mark.parametrize("name", ["../heads.parquet", "/etc/hostname", "a\\..\\..\\b", "link"])
def test_a_record_describes_files_of_its_folder_only(tmp_path: Path, name: str):
    folder = analysed(tmp_path / "run")
    (tmp_path / "outside").write_text("")
    (folder / "link").symlink_to(tmp_path / "outside")
    forge(folder / "run.json", files={name: "0" * 64})
    with pytest.raises(InputError, match=r"Expected (paths|files) inside"):
        read_run(folder)


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_a_version_is_the_number_one(version: object):
    with pytest.raises(InputError, match="Expected version 1 in run.json, got"):
        JsonObject.of({"version": version}, "run.json", "headcount analyze")


def test_a_table_that_is_cut_short_says_what_to_run(tmp_path: Path):
    """`report`, `compare` and others read it, which have no --overwrite or --resume."""
    folder = analysed(tmp_path)
    table = (folder / "heads.parquet").read_bytes()
    (folder / "heads.parquet").write_bytes(table[: len(table) // 2])
    with pytest.raises(InputError, match=r"heads\.parquet, but it can't be read") as raised:
        read_run(folder)
    assert str(raised.value).endswith(". Run `headcount analyze` again.")


def test_doubled_rows_are_refused(tmp_path: Path):
    """Of a run without hashes, whose tables nothing else protects."""
    folder = analysed(tmp_path)
    forge(folder / "run.json", files={})
    frame = HeadTable.read(folder / "heads.parquet").frame
    HeadTable(pd.concat([frame, frame])).write(folder / "heads.parquet")
    with pytest.raises(InputError, match=r"every row of .*heads.parquet once, got enc.0.0 twice"):
        read_run(folder)


def test_names_of_heads_that_are_lists_are_refused(tmp_path: Path):
    frame = HeadTable.of(HEADS, {}).frame.assign(head=[[1, 2]] * len(HEADS))
    HeadTable(frame).write(tmp_path / "heads.parquet")
    with pytest.raises(InputError, match=r"heads.parquet, but .* unhashable type: 'list'"):
        read_head_table(tmp_path)
