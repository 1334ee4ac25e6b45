"""A run folder is read completely, or refused with the file's name and the remedy."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from headcount.core import InputError
from headcount.results import read_run
from tests.pages.run_folder import Wish, write_run

SMALL = Wish(layers=2, heads=3)


def test_reads_what_was_written(tmp_path: Path):
    run = read_run(write_run(tmp_path, replace(SMALL, null=True)))
    assert [row.head for row in run.rows] == [f"enc.{i}.{j}" for i in range(2) for j in range(3)]
    assert run.relation_rows is not None and run.null_relation_rows is not None
    assert len(run.relation_rows) == 6 * 13 * 3
    assert sum(run.offset_shares["enc.1.2"].values()) == pytest.approx(1)
    assert run.examples["enc.0.0"][2].weights_QK.shape == (25, 25)
    assert run.null_rows is not None and len(run.null_rows) == 6


def test_no_trees_and_no_null_run_are_none(tmp_path: Path):
    run = read_run(write_run(tmp_path, replace(SMALL, relations=False)))
    assert (run.relation_rows, run.null_rows, run.null_relation_rows) == (None, None, None)


@pytest.mark.parametrize("name", ["run.json", "heads.parquet", "offsets.parquet"])
def test_missing_file(tmp_path: Path, name: str):
    (write_run(tmp_path, SMALL) / name).unlink()
    with pytest.raises(InputError, match=name):
        read_run(tmp_path)


@pytest.mark.parametrize(
    "name",
    ["run.json", "heads.parquet", "offsets.parquet", "relations.parquet", "examples.json"],
)
def test_damaged_file(tmp_path: Path, name: str):
    path = write_run(tmp_path, SMALL) / name
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(
        InputError, match=f"{name}.* (is damaged|can.t be read).*[Rr]un `headcount analyze` again"
    ):
        read_run(tmp_path)


def test_missing_folder(tmp_path: Path):
    with pytest.raises(InputError, match="nowhere does not exist"):
        read_run(tmp_path / "nowhere")


def test_missing_column(tmp_path: Path):
    path = write_run(tmp_path, SMALL) / "relations.parquet"
    pd.read_parquet(path).drop(columns="baseline").to_parquet(path)
    with pytest.raises(InputError, match=r"lacks the columns \['baseline'\]"):
        read_run(tmp_path)


def test_other_version(tmp_path: Path):
    _change(write_run(tmp_path, SMALL) / "run.json", version=2)
    with pytest.raises(InputError, match="Expected version 1 in .*run.json, got 2"):
        read_run(tmp_path)


def test_files_of_two_runs(tmp_path: Path):
    found = {"enc.0.0": [{"role": "novel", "evidence": "", "score": 1.0}]}
    _change(write_run(tmp_path, SMALL) / "run.json", roles=found)
    with pytest.raises(InputError, match="the files come from two runs"):
        read_run(tmp_path)


def test_weights_of_the_wrong_size(tmp_path: Path):
    path = write_run(tmp_path, SMALL) / "examples.json"
    examples = json.loads(path.read_text())
    examples["enc.0.1"][0]["queries"].pop()
    path.write_text(json.dumps(examples))
    with pytest.raises(InputError, match="examples.json is damaged"):
        read_run(tmp_path)


def _change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
