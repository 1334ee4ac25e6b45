"""Copies of tables as CSV: what they hold, and which runs replace them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headcount.core import Heads, HeadTable, InputError, ResumePolicy
from headcount.results import RunRecord, claim, claim_beside, write_csv
from headcount.results.analysis import our_files
from tests.results.test_analysis import analysis

DATA = Path(__file__).parent / "data"
SMALLER = Heads({"encoder.self": (2,)})


def test_a_copy_holds_every_number(tmp_path: Path):
    values = [0.1 + 0.2, float("nan"), -1e-300]
    frame = pd.DataFrame(
        {"head": ["enc.0.0", 'a,"b"\n', "ä"], "value": values, "layer": [0, 1, 2]}
    ).assign(layer=pd.array([1, None, -3], dtype="Int64"))
    HeadTable(frame).write_csv(tmp_path / "heads.csv")
    again = pd.read_csv(tmp_path / "heads.csv")
    np.testing.assert_array_equal(again["value"], values)
    assert again["head"].tolist() == frame["head"].tolist()
    assert (tmp_path / "heads.csv").read_bytes().startswith(b"head,value,layer\nenc.0.0,0.30000")
    assert ",,\n" in (tmp_path / "heads.csv").read_text("utf-8"), "nothing for a missing number"
    assert ",-1e-300,-3\n" in (tmp_path / "heads.csv").read_text("utf-8")


def test_lists_are_joined_and_formulas_disarmed():
    frame = pd.DataFrame({"roles": [["sink", "rare"], [], np.array([1, 2])], "=x": "=1+1"})
    assert HeadTable(frame).to_csv() == "roles,'=x\nsink; rare,'=1+1\n,'=1+1\n1; 2,'=1+1\n"
    for sign in ("＝", "＋", "－", "＠", "﹦", "\t", "\n"):
        frame = pd.DataFrame({"head": [f"{sign}1+1"], "plain": ["é=1"]})
        assert f"'{sign}1+1" in HeadTable(frame).to_csv() and ",é=1" in HeadTable(frame).to_csv()
    returns = pd.DataFrame({"head": ["\r1+1"]})
    assert "'␍1+1" in HeadTable(returns).to_csv(), "what moves a terminal's cursor is shown"
    for text in ("+a", "-a", "@a", "\ta"):
        assert f"'{text}" in HeadTable(pd.DataFrame({"token": [text]})).to_csv()


def test_every_table_of_a_run_gets_one(tmp_path: Path):
    analysis().write(tmp_path)
    (tmp_path / "curve").mkdir()
    (tmp_path / "curve" / "curve.parquet").write_bytes((DATA / "curve/curve.parquet").read_bytes())
    written = write_csv(tmp_path)
    names = ["heads.csv", "offsets.csv", "profiles.csv", "curve/curve.csv"]
    assert [path.relative_to(tmp_path).as_posix() for path in written] == names
    frame = pd.read_csv(tmp_path / "heads.csv")
    pd.testing.assert_frame_equal(frame, HeadTable.read(tmp_path / "heads.parquet").frame)
    assert "heads.csv" in our_files()


def test_a_folder_is_no_table(tmp_path: Path):
    """Pandas would join the tables in it; no reader of ours does."""
    (tmp_path / "heads.parquet").mkdir()
    analysis().heads.write(tmp_path / "heads.parquet" / "part.parquet")
    with pytest.raises(InputError, match="Expected a table in Parquet in .*heads.parquet"):
        write_csv(tmp_path)


def test_a_folder_without_tables_is_refused(tmp_path: Path):
    (tmp_path / "mine.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="Expected a folder with tables of a run"):
        write_csv(tmp_path)
    (tmp_path / "heads.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="Expected a table in Parquet in .*heads.parquet"):
        write_csv(tmp_path)


def test_copies_are_files_of_a_run(tmp_path: Path):
    from headcount.probing import Probed

    analysis().write(tmp_path)
    write_csv(tmp_path)
    for policy in (ResumePolicy.OVERWRITE, ResumePolicy.RESUME):
        claim(tmp_path, policy)
    claim_beside(tmp_path, Probed, ResumePolicy.REFUSE)
    (tmp_path / "mine.csv").touch()
    with pytest.raises(InputError, match=r"mine\.csv"):
        claim(tmp_path, ResumePolicy.OVERWRITE)


@pytest.mark.parametrize("keep_scores", [True, False])
def test_a_later_table_replaces_its_copy(tmp_path: Path, keep_scores: bool):
    analysis().write(tmp_path)
    write_csv(tmp_path)
    (tmp_path / "null_heads.csv").write_text("of an earlier --null")
    (tmp_path / "relations.csv").write_text("of an earlier treebank")
    analysis(SMALLER).write(tmp_path, keep_scores)
    assert pd.read_csv(tmp_path / "heads.csv")["head"].tolist() == ["enc.0.0", "enc.0.1"]
    assert not (tmp_path / "null_heads.csv").exists(), "the table of which it was a copy is gone"
    assert not (tmp_path / "relations.csv").exists()


def test_an_edited_copy_is_left_alone_and_changes_nothing(tmp_path: Path):
    analysis().write(tmp_path)
    write_csv(tmp_path)
    (tmp_path / "heads.csv").write_text("my own notes")
    HeadTable.read(tmp_path / "heads.parquet").write(tmp_path / "heads.parquet")
    assert (tmp_path / "heads.csv").read_text() == "my own notes"
    assert RunRecord.read(tmp_path).model == "tiny", "no record describes it"
    write_csv(tmp_path)
    assert pd.read_csv(tmp_path / "heads.csv").shape[0] == 5


def test_without_a_copy_none_is_made(tmp_path: Path):
    for _ in range(2):
        analysis().write(tmp_path)
    assert not [*tmp_path.glob("*.csv")]


@pytest.mark.parametrize("files", [3, None, True, [{"a": 1}], [["x"]]])
def test_other_programs_records_name_no_tables(tmp_path: Path, files: object):
    analysis().write(tmp_path)
    (tmp_path / "package.json").write_text(json.dumps({"files": files}))
    assert (tmp_path / "heads.csv") in write_csv(tmp_path)
