"""`headcount follow`: files, figures, resuming and errors."""

from pathlib import Path
from shutil import copytree

import pytest

from headcount.papers import Followed
from tests.commanding import check_titles, headcount

pytestmark = pytest.mark.usefixtures("quick")


@pytest.mark.slow
@pytest.mark.usefixtures("one_format")
def test_follow_writes_its_files(bert: Path, data: list[Path], tmp_path: Path) -> None:
    folders = [tmp_path / f"checkpoint-{step}" for step in (10, 5)]
    for folder in folders:
        copytree(bert, folder)
    out = tmp_path / "out"
    given = ("--task", "masked-lm", "--data", data[0], "--out", out)
    status, output, errors = headcount("follow", *folders, *given, "--method", "norm")
    assert status == 0, errors
    found = Followed.read(out)
    assert [point.step for point in found.record.checkpoints] == [5, 10]
    assert found.record.method == "norm" and found.record.arguments["method"] == "norm"
    assert "Importance ranks heads as at the end" in output and "step 10" in output
    text = (out / "follow.md").read_text(encoding="utf-8")
    assert "step 5" in text and "figures/prunable.svg" in text
    names = {path.stem for path in (out / "figures").iterdir()}
    assert names == {"importance", "prunable", "pruned-loss", "confidence", "score"}
    check_titles(out, "follow.html")
    status, _, errors = headcount("follow", *folders, *given)
    assert status == 2 and "an earlier run" in errors
    status, _, errors = headcount("follow", folders[0], *given, "--overwrite")
    assert status == 2 and "at least 2 checkpoints to compare, got 1" in errors
    status, _, errors = headcount("follow", *folders, *given, "--as-words")
    assert status == 2 and "Expected --corpus TREEBANK.conllu for --as-words, got none." in errors
    assert Followed.read(out) == found
