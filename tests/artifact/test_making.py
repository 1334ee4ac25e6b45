"""The whole pruning pipeline in Python, as the documentation shows it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import headcount
from headcount.artifact import staging
from headcount.core import InputError, encoded
from headcount.results import Certificate, PruneRecord
from headcount.tasks import build
from tests import saved

ROOT = Path(__file__).parents[2]
PAIRS = (ROOT / "headcount" / "data" / "sample.tsv").read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_ten_lines_prune_certify_and_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The block of docs/pruning.md, with a tiny model, few pairs and few updates."""
    saved.marian(tmp_path / "marian")
    for name, part in (("train", PAIRS[:9]), ("dev", PAIRS[9:14]), ("test", PAIRS[14:17])):
        (tmp_path / f"{name}.tsv").write_text("\n".join(["source\ttarget", *part]) + "\n")
    text = (ROOT / "docs" / "pruning.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    for large, small in (
        ("headcount:en-de", "marian"),
        ("keep=36", "keep=4"),
        ("updates=400", "updates=2, batch_tokens=60, warmup=0"),
    ):
        assert large in block
        block = block.replace(large, small)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(block, "pruning.md", "exec"), names)
    record, pruned = names["record"], names["pruned"]
    written = json.loads((tmp_path / "PRUNED" / "prune.json").read_text())
    assert list(written.pop("files")) == ["plan.json"] and written.pop("sha256")
    assert encoded(record.to_json()) == written and written["test"]["examples"] == 3
    assert PruneRecord.read(tmp_path / "PRUNED").choice == record.choice
    assert len(record.kept) == len(names["smaller"].heads) == 4
    assert record.pipeline.control.trainings[0].taught
    assert record.comparisons == Certificate.read(tmp_path / "PRUNED").comparisons
    assert headcount.Plan.read(tmp_path / "PRUNED" / "plan.json") == pruned.plan
    assert str(record.data_sets["test"].score) in capsys.readouterr().out
    card = (tmp_path / "PRUNED" / "README.md").read_text(encoding="utf-8")
    told = "with a recovery of 2 updates (batch_tokens=60, warmup=0, distilled=0.5)"
    assert f"by fisher (budget: keep 4), {told}" in card


@pytest.mark.slow
def test_a_state_folder_of_somebody_else_is_kept(tmp_path: Path) -> None:
    """Without the mark of a pruning, the neighbour is not ours to delete."""
    loaded = headcount.load(saved.bert(tmp_path / "bert"))
    data = {"text": ["the old dog sees the cat", "the cat sees", "the old cat sleeps"]}
    splits = headcount.TaskSplits.build("masked-lm", loaded, train=data, dev=data)
    assert splits.warnings[0].startswith("3 of 3 examples of dev are in train too")
    pruned = headcount.prune(loaded, splits, "random", keep=3)
    *rest, few = pruned.record.warnings
    assert tuple(rest) == splits.warnings
    assert few.startswith("intervals and p-values from 3 dev examples are rough: with fewer than")
    assert pruned.record.signature is not None and "|groups:True|" in pruned.record.signature
    other = staging.state_of(tmp_path / "out")
    other.mkdir()
    (other / "thesis.txt").write_text("x")
    headcount.save_pruned(pruned, tmp_path / "out")
    assert (other / "thesis.txt").exists()
    with pytest.raises(InputError, match="For the plan alone, call choose_heads"):
        headcount.prune(loaded, build("masked-lm", loaded, data), "random", 3)
