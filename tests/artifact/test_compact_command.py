from pathlib import Path

import pytest

from headcount import load
from headcount.results import Certificate
from tests.commanding import headcount
from tests.compaction.plans import plan

pytestmark = pytest.mark.usefixtures("quick")


def test_compact(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    arguments = ("compact", bert, "--plan", plan(tmp_path), "--out", out)
    status, output, errors = headcount(*arguments)
    assert status == 0, errors
    assert "Kept 2 of 6 heads" in output
    assert "Equal on 168 sentences and 3 short random batches: reloaded and gated" in output
    assert str(load(out).heads) == "encoder.self 2 layers x 2/0 heads"
    assert len(Certificate.read(out).comparisons) == 2
    status, _, errors = headcount(*arguments)
    assert status == 2 and "Add --overwrite" in errors
    (tmp_path / "own.txt").write_text("The old dog barked.\n")
    status, output, errors = headcount(*arguments, "--overwrite", "--data", tmp_path / "own.txt")
    assert status == 0 and "Equal on 1 sentence" in output, errors
    status, output, _ = headcount("doctor", out)
    assert status == 0 and "2/0 heads" in output


@pytest.mark.slow
def test_texts_without_a_tokenizer_are_refused(bert: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((bert / name).read_bytes())
    arguments = ("compact", bare, "--plan", plan(tmp_path), "--out", tmp_path / "out")
    (tmp_path / "own.txt").write_text("The old dog barked.\n")
    status, _, errors = headcount(*arguments, "--data", tmp_path / "own.txt")
    assert status == 2 and "Expected a tokenizer beside the weights" in errors
    assert not (tmp_path / "out").exists()
    status, output, errors = headcount(*arguments)
    assert status == 0 and "on a made-up batch" in output, errors


@pytest.mark.slow
def test_the_model_and_the_plan_are_not_replaced(bert: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    assert headcount("compact", bert, "--plan", plan(tmp_path), "--out", out)[0] == 0
    for model, given in ((out, plan(tmp_path)), (bert, out / "plan.json")):
        status, _, errors = headcount(
            "compact", model, "--plan", given, "--out", out, "--overwrite"
        )
        assert status == 2 and "would replace all of" in errors
        assert "Name another folder" in errors


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"model": "0123"}, "Expected the model with revision 0123"),
        (
            {"kept": {"encoder.self": {"0": [3]}}},
            "heads or decoder.self 2 layers x 3 heads by its configuration, got enc.0.3",
        ),
        ({"kept": {"decoder.self": {"0": []}}}, "got one that names layer 0 of decoder.self"),
        ({"version": 9}, "Expected a plan of version 1"),
    ],
)
def test_refusals(changed: dict[str, object], reported: str, bert: Path, tmp_path: Path) -> None:
    path, out = plan(tmp_path, **changed), tmp_path / "small"
    status, _, errors = headcount("compact", bert, "--plan", path, "--out", out)
    assert status == 2 and reported in errors
    assert not out.exists()
