"""`headcount speed`: tables, files, refusals."""

import copy
import json
from pathlib import Path

import pytest

from headcount import load
from headcount.artifact import save_compact
from headcount.core import Head, Plan
from headcount.speed import ceiling
from tests.commanding import SAMPLE, headcount

pytestmark = pytest.mark.usefixtures("quick")

FEW = ("--batch", 1, 2, "--length", 8, 999, "--rounds", 2)


@pytest.fixture(autouse=True)
def no_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.speed.timing.MOST_REPEATS", 1)


@pytest.mark.slow
def test_a_table_a_record_and_a_figure(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount("speed", bert, bert, *FEW, "--out", out, "--data", SAMPLE)
    assert status == 0, errors
    assert "2 of 2: forward, batch 2, 8 tokens" in errors
    assert "dense against itself" in output and "peak memory, MB" in output
    assert "warning: forward at 999 tokens was left out: it needs 999 positions" in output
    found = json.loads((out / "speed.json").read_text())
    assert [(each["batch"], each["length"]) for each in found["cases"]] == [(1, 8), (2, 8)]
    assert found["arguments"]["rounds"] == 2 and "|corpus:" in found["signatures"][bert.name]
    assert found["dense"]["disk_bytes"] == (bert / "model.safetensors").stat().st_size
    assert {"speed.md", "speed.svg", "speed.png", "speed.pdf"} <= {
        each.name for each in out.iterdir()
    }
    assert (
        (out / "speed.md")
        .read_text()
        .startswith(f"# Speed of {bert.name} (pruned) beside {bert.name}\n")
    )


@pytest.mark.slow
def test_a_compact_model_that_was_saved(bert: Path, tmp_path: Path) -> None:
    """The ceiling of the two folders equals the plan's."""
    loaded = load(bert)
    kept = [Head("encoder.self", 0, 2), Head("encoder.self", 1, 0), Head("encoder.self", 1, 2)]
    plan = Plan.keeping(loaded.heads, kept)
    save_compact(loaded, plan, tmp_path / "small", None)
    assert "Not measured" in (tmp_path / "small" / "README.md").read_text()
    status, _, errors = headcount(
        "speed", bert, tmp_path / "small", *FEW, "--card", "--out", tmp_path / "out"
    )
    assert status == 0, errors
    card = (tmp_path / "small" / "README.md").read_text()
    assert "| forward, batch 2, 8 tokens |" in card and "Not measured" not in card
    found = json.loads((tmp_path / "out" / "speed.json").read_text())
    assert found["cases"][0]["ceiling"] == pytest.approx(ceiling(loaded.model, plan, 8))
    assert found["pruned"]["parameters"] < found["dense"]["parameters"]
    assert found["pruned"]["disk_bytes"] < found["dense"]["disk_bytes"]


@pytest.mark.slow
def test_a_card_is_of_the_model_that_was_pruned(bert: Path, tmp_path: Path) -> None:
    """Only a model of the same sizes counts: another's ratio would be wrong in this card."""
    loaded = load(bert)
    save_compact(loaded, Plan({"encoder.self": {0: (1,)}}), tmp_path / "small", None)
    before = (tmp_path / "small" / "README.md").read_text()
    config = copy.deepcopy(loaded.model.config)
    config.intermediate_size += 8
    type(loaded.model)(config).save_pretrained(tmp_path / "wide")
    assert loaded.tokenizer is not None
    loaded.tokenizer.save_pretrained(tmp_path / "wide")
    status, _, errors = headcount("speed", tmp_path / "wide", tmp_path / "small", *FEW, "--card")
    assert status == 2 and "has other sizes (intermediate_size" in errors, errors
    assert (tmp_path / "small" / "README.md").read_text() == before


@pytest.mark.slow
def test_refusals(bert: Path, marian: Path) -> None:
    for arguments, sentence in (
        ((bert, marian, *FEW), "Expected two models with the same architecture"),
        ((bert, bert, "--batch", 0), "Expected batch of at least 1, got 0"),
        ((bert, bert, "--length", 999), "Expected a length that"),
        ((bert, bert, *FEW, "--card"), "Expected the folder of a pruned model, but"),
        ((bert, bert, "--data", "none.txt"), "got nothing"),
        ((bert, "none-such", *FEW), "there is no folder 'none-such' here"),
        ((bert, bert, "--modes", "forward", "--new-tokens", 9), "--new-tokens only affects gen"),
        ((bert, bert, "--data", SAMPLE, "--seed", 3), "only affects random tokens. Leave --data"),
    ):
        status, _, errors = headcount("speed", *arguments)
        assert status == 2 and sentence in errors, errors
