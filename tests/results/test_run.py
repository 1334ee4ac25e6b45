"""What a record writes it reads; what it can't read it refuses, with the file and the field."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headcount.core import InputError, JsonObject
from headcount.results import Counts, Role, RunRecord
from headcount.vocabulary import Thresholds

pytestmark = pytest.mark.filterwarnings("ignore:.* has no hashes of the files")
"""Records are written by hand here."""

RECORD = RunRecord(
    signature="headcount:0.1.0|model:bert|corpus:1f2e",
    model="tiny",
    model_type="bert",
    corpora=("a.txt", "b.conllu"),
    counts=Counts(sentences=7, tokens=41, words=29, truncated=1),
    sites={"encoder.self": (2, 3)},
    roles={
        "enc.0.0": (),
        "enc.0.1": (
            Role("positional", "97% of tokens look most at itself", 0.97, offset=0),
            Role("syntactic", "finds obj", 0.3, relation="obj", direction="head->dependent"),
        ),
    },
    thresholds=Thresholds(sink_share=0.7),
    warnings=("1 sentence was truncated",),
    timings={"measure_s": 1.25},
    versions={"python": "3.11.7"},
    arguments={"limit": None, "corpus": ["a.txt"], "save_every": 30.0},
)


def unsealed(path: Path) -> dict[str, Any]:
    """A record without hashes."""
    found = json.loads(path.read_text())
    assert found.pop("files") == {} and found.pop("sha256")
    return found


def change(path: Path, place: tuple[str, ...], value: Any) -> Path:
    """Write a record with one field changed."""
    found = inner = RECORD.to_json()
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path: Path):
    path = tmp_path / "run.json"
    RECORD.write(path.parent)
    assert RunRecord.read(path.parent) == RECORD
    assert unsealed(path) == RECORD.to_json()


def test_fields_of_a_role_that_do_not_apply_are_left_out():
    assert RECORD.to_json()["roles"]["enc.0.1"][0] == {
        "role": "positional",
        "evidence": "97% of tokens look most at itself",
        "score": 0.97,
        "offset": 0,
    }


def test_an_unknown_number_is_null(tmp_path: Path):
    roles = {"enc.0.0": (Role("syntactic", "finds obj", math.inf),)}
    replace(RECORD, roles=roles, timings={"null_s": math.nan}).write(tmp_path)
    found = RunRecord.read(tmp_path)
    assert math.isnan(found.timings["null_s"]) and math.isnan(found.roles["enc.0.0"][0].score)


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("counts", "tokens"), "x", r"counts\.tokens in .*json to be a whole number, got .x."),
        (("counts", "tokens"), True, r"counts\.tokens in .* to be a whole number, got true"),
        (("counts",), 3, r"counts in .* to be an object, got 3"),
        (("model",), None, r"model in .* to be a text, got null"),
        (("corpora",), "a.txt", r"corpora in .* to be a list, got .a.txt."),
        (("corpora",), ["a", 2], r"corpora\[1\] in .* to be a text, got 2"),
        (
            ("sites", "encoder.self"),
            [2.5],
            r"sites\.encoder\.self\[0\] in .* whole number, got 2.5",
        ),
        (("roles", "enc.0.0"), [{}], r"Expected roles\.enc\.0\.0\[0\]\.role in .*, got none"),
        (("thresholds", "syntactic_relative"), 1, r"to be true or false, got 1"),
        (("timings",), {"measure_s": "1"}, r"timings\.measure_s in .* a number or null, got .1."),
    ],
)
def test_a_field_of_another_type(tmp_path: Path, place: tuple[str, ...], value: Any, says: str):
    path = change(tmp_path / "run.json", place, value)
    with pytest.raises(InputError, match=f"{says}.*\\. Run `headcount analyze` again\\.$"):
        RunRecord.read(path.parent)


def test_a_missing_field(tmp_path: Path):
    found = RECORD.to_json()
    del found["signature"]
    with pytest.raises(InputError, match="Expected signature in run.json, got none"):
        JsonObject.of(found, "run.json", "headcount analyze").decode(RunRecord)


def test_fields_of_newer_versions_are_ignored(tmp_path: Path):
    path = change(tmp_path / "run.json", ("counts", "paragraphs"), 4)
    assert RunRecord.read(path.parent) == RECORD
    assert RunRecord.read(change(path, ("colours",), ["red"]).parent) == RECORD


def test_fields_of_older_versions_may_be_missing():
    found = RECORD.to_json()
    for name in ("version", "model_type", "thresholds", "warnings", "timings", "versions"):
        del found[name]
    del found["counts"]["words_cut"]
    old = JsonObject.of(found, "run.json", "headcount analyze").decode(RunRecord)
    assert (old.model_type, old.warnings, old.thresholds) == ("unknown", (), Thresholds())


def test_a_newer_version_is_refused(tmp_path: Path):
    path = change(tmp_path / "run.json", ("version",), 2)
    with pytest.raises(InputError, match="Expected version 1 in .*run.json, got 2"):
        RunRecord.read(path.parent)


def test_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "run.json"
    with pytest.raises(InputError, match="Expected a run folder, but .*run.json can't be read: "):
        RunRecord.read(path.parent)
    path.write_text('{"version"')
    with pytest.raises(InputError, match="run.json is damaged.*Run `headcount analyze` again"):
        RunRecord.read(path.parent)
    path.write_text("[]")
    with pytest.raises(InputError, match=r"the contents in .*run.json to be an object, got \[\]"):
        RunRecord.read(path.parent)
