"""`headcount skills` from texts to tables."""

from pathlib import Path

import pandas as pd
import pytest

import headcount as package
from headcount.skills import Skills
from tests import saved
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")

FEW = ("--lengths", 150, "--depths", 0.5, "--needles", 1, "--draws", 1, "--prompts", 4)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.llama(tmp_path_factory.mktemp("llama"))


def test_tables_record_and_document(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount("skills", llama, *FEW, "--out", out)
    assert status == 0, errors
    assert (
        "finds 0\u202f% (0\u202f% to 49\u202f%) of 4 needles, facts hidden in long texts" in output
    )
    assert "the model found 0, too few to score retrieval" in output
    found = Skills.read(out)
    assert found.record.signature[:40] in output and len(found.heads) == len(
        pd.read_parquet(out / "skills.parquet")
    )
    assert [row.kind for row in found.needles] == ["pass key", "city", "gift", "meeting"]
    assert (out / "skills.md").read_text().startswith("# What the heads of a language model do")


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_beside_an_analysis_its_page_opens_with_them(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sample = Path(package.__file__).parent / "data" / "sample.conllu"
    for command in (("analyze", llama, sample, "--limit", 8), ("skills", llama, *FEW)):
        status, _, errors = headcount(*command, "--out", out)
        assert status == 0, errors
    page = (out / "report.html").read_text()
    assert page.index("facts hidden in long texts") < page.index('<section id="skills"')
    status, _, errors = headcount("skills", llama, *FEW, "--out", out)
    assert status == 2 and "--overwrite" in errors


@pytest.mark.slow
def test_what_cannot_be_asked(llama: Path, bert: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    (tmp_path / "short.txt").write_text("One line.\n")
    for model, more, says in [
        (llama, (tmp_path / "none.txt",), "none.txt"),
        (llama, (tmp_path / "short.txt", *FEW), "texts of at least 150 tokens to hide needles in"),
        (llama, (*FEW, "--limit", 0), "a limit of at least 1 "),
        (llama, (*FEW, "--limit", 1), "texts of at least 150 tokens to hide needles in"),
        (llama, ("--tasks", tmp_path), "a folder of .tsv files, each a task of word pairs"),
        ("none", ("--tasks", tmp_path), "a folder of .tsv files, each a task of word pairs"),
        (llama, ("--lengths", 10), "lengths of at least 100 tokens, got 10"),
        (llama, (*FEW, "--removed", 99), "removed heads of at most 8, as many as the model has"),
        (llama, (*FEW, "--chat"), "Expected a tokenizer with a chat template, got that of"),
        (bert, FEW, "Expected a causal language model"),
    ]:
        status, _, errors = headcount("skills", model, *more, *out)
        assert status == 2 and says in errors
        assert not (tmp_path / "out" / "skills.json").exists()
