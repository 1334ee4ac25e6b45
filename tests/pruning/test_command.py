"""`headcount curve` on a saved tiny model: tables, document, refusals."""

from pathlib import Path

import pandas as pd
import pytest

from tests.commanding import SAMPLE, headcount, run

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
def test_a_curve_leaves_other_folders_alone(bert: Path, data: list[Path], tmp_path: Path) -> None:
    """It holds although an analysis has a state too."""
    assert headcount("analyze", bert, SAMPLE, "--limit", 3, "--out", tmp_path / "out")[0] == 0
    for how in ("--overwrite", "--resume"):
        status, _, errors = run("curve", bert, data, tmp_path / "out", "--keep", 2, how)
        assert status == 2 and "holds other files" in errors
    assert list((tmp_path / "out" / "state").iterdir())
    killed = tmp_path / "killed" / "state" / "measuring-0.safetensors"
    killed.parent.mkdir(parents=True)
    killed.write_bytes(b"sums of an analysis that was killed")
    for how in ("--overwrite", "--resume"):
        status, _, errors = run("curve", bert, data, tmp_path / "killed", "--keep", 2, how)
        assert status == 2 and "holds other files" in errors
    assert killed.exists()


@pytest.mark.slow
def test_a_curve_refused_for_a_typo_does_not_stand_in_its_own_way(
    bert: Path, data: list[Path], tmp_path: Path
) -> None:
    wrong = [tmp_path / "typo.txt", *data[1:]]
    quick = ("--keep", 4, "--methods", "random", "--seeds", 1)
    assert run("curve", bert, wrong, tmp_path / "out", *quick)[0] == 2
    assert run("curve", bert, data, tmp_path / "out", *quick)[0] == 0
    status, _, errors = run("curve", bert, data, tmp_path / "out", *quick)
    assert status == 2 and "an earlier run" in errors


@pytest.mark.slow
def test_curve(bert: Path, data: list[Path], tmp_path: Path) -> None:
    out, same = tmp_path / "out", [data[0], data[0], data[2]]
    more = ("--methods", "gradient", "random", "--seeds", 2, "--keep", 2, 4)
    status, output, errors = run("curve", bert, same, out, *more, "--methods.gradient.step", 0.5)
    assert status == 0, errors
    assert "8 of 8 examples of --dev are in --data too" in output and "heads kept" in output
    frame = pd.read_parquet(out / "curve.parquet")
    assert len(frame) == 1 + 2 + 4 and {"test_loss", "test_score"} <= set(frame)
    assert (out / "curve.md").exists() and (out / "figures" / "layers.svg").exists()
    fields = {"updates": 2, "warmup": 0, "batch-tokens": 60}
    words = [
        word for name, each in fields.items() for word in (f"--methods.l0.tuning.{name}", each)
    ]
    tuned = ("--methods", "l0", "--keep", 3, *words)
    assert run("curve", bert, data, tmp_path / "l0", *tuned)[0] == 0
    assert "Compare it with its control: the dense" in (tmp_path / "l0" / "curve.md").read_text()
    assert run("curve", bert, data, tmp_path / "alone", *tuned, "--no-control")[0] == 0
    assert "there is no control" in (tmp_path / "alone" / "curve.md").read_text()
    for empty in (("--keep",), ("--keep", 3, "--methods")):
        status, _, errors = run("curve", bert, data, tmp_path / "none", *empty)
        assert status == 2 and "Expected at least one budget and one method" in errors
    status, _, errors = run("curve", bert, same, out, *more)
    assert status == 2 and "holds an earlier run. Give --resume" in errors
    status, _, errors = run("curve", bert, same, out, *more, "--resume")
    assert status == 2 and "--resume needs the same" in errors
    none = ("--methods", "random", "--keep", 2, "--seeds", 0)
    status, _, errors = run("curve", bert, same, tmp_path / "b", *none)
    assert status == 2 and "Expected seeds of at least 1, got 0" in errors
    status, _, errors = run(
        "curve", bert, same, tmp_path / "b", "--methods", "norm", "--keep", 2, "--seeds", 3
    )
    assert status == 2 and "Only the method random reads --seeds" in errors
    with pytest.raises(SystemExit):  # the methods are gradient and random
        run("curve", bert, same, tmp_path / "b", *more, "--methods.norm.step", 1)
