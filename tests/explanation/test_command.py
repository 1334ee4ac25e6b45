"""`headcount explain` from a prompt to tables."""

from pathlib import Path

import pandas as pd
import pytest

import headcount as package
from headcount.core import InputError
from headcount.explanation import Explained
from headcount.explanation.command import Explain
from tests import saved
from tests.commanding import headcount

pytestmark = pytest.mark.usefixtures("quick")

ASKED = ("The old dog", "--target", " barked", "--together", 1, "--draws", 1)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.llama(tmp_path_factory.mktemp("llama"))


@pytest.mark.slow
def test_tables_record_and_document(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    status, output, errors = headcount("explain", llama, *ASKED, "--out", out)
    assert status == 0, errors
    assert "gives “ barked” a log-probability of" in output
    found = Explained.read(out)
    assert found.record.signature[:40] in output
    assert len(found.effects) == len(pd.read_parquet(out / "effects.parquet"))
    assert found.measured == ("attribution", "zero", "mean")
    assert f"Page: {out / 'explanation.html'}" in output
    assert f"All heads, and what each effect means: {out / 'explanation.md'}" in output
    _, _, again = output.partition("Next: ask many prompts like this")
    assert f"headcount explain {llama} --together 1 --draws 1 --prompts FILE --out MANY" in again
    assert "Prompts and what is predicted" not in output and len(output.splitlines()) < 30
    page = (out / "explanation.html").read_text()
    assert "gives “ barked” a log-probability of" in page
    assert headcount("report", out, "--formats", "svg")[0] == 0
    assert (out / "explanation.html").read_text() == page, "it was drawn with the model"
    assert (out / "explanation.md").read_text().startswith("# Which heads made the prediction")


@pytest.mark.slow
@pytest.mark.usefixtures("page")
def test_beside_an_analysis_its_page_has_a_section(llama: Path, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "own.jsonl"
    sample = Path(package.__file__).parent / "data" / "sample.conllu"
    file.write_text('{"prompt": "The old dog", "target": " barked", "corrupt": "The old sea"}\n')
    asked = ("--prompts", file, "--effects", "corrupt", "--texts", sample, "--heads", "dec.1.2")
    for command in (("analyze", llama, sample, "--limit", 8), ("explain", llama, *asked)):
        status, _, errors = headcount(*command, "--out", out)
        assert status == 0, errors
    page = (out / "report.html").read_text()
    assert '<section id="explained"' in page and "Which heads made the prediction" in page
    status, _, errors = headcount("explain", llama, *ASKED, "--out", out)
    assert status == 2 and "--overwrite" in errors
    assert (out / "explanation.html").exists()
    status, _, errors = headcount(
        *("explain", llama, "--prompts", "facts", "--effects", "attribution", "--out", out),
        "--overwrite",
    )
    assert status == 0 and "attention" not in (out / "explanation.html").read_text(), errors


@pytest.mark.slow
def test_what_cannot_be_asked(llama: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    for model, more, says in [
        ("none", (), "Expected a prompt with its --target, or --prompts FILE, got no prompt."),
        ("none", ("A dog",), "got no --target."),
        ("none", ("A dog", "--prompts", "facts"), "Expected a prompt or --prompts, got both ('A d"),
        ("none", ("--prompts", "fact"), "or one of agreement, arithmetic, facts"),
        (
            "none",
            ("--prompts", "facts", "--columns", "target=wrong"),
            "named --columns prompt=NAME prompt.targ",
        ),
        ("none", ("A dog", "--target", " "), "expected a target of at least one word, got ' '"),
        ("none", ("A dog", "--target", " a", "--heads", "3.4"), "Expected a head such as enc.3.7"),
        (llama, ("A dog", "--target", " a", "--heads", "dec.9.9"), "got dec.9.9"),
        (llama, ("A dog", "--target", " a", "--chat"), "with a chat template, got"),
        (llama, ("A dog", "--target", " a", "--circuit"), "Expected at least 4 prompts for a circ"),
        ("none", ("A dog", "--target", " a", "--scores", tmp_path), "Expected an assessment in"),
        ("none", ("A dog", "--target", " a", "--latex"), "got --latex without one. Add --circuit"),
    ]:
        status, _, errors = headcount("explain", model, *more, *out)
        assert status == 2 and says in errors, errors
        assert not (tmp_path / "out" / "explanation.json").exists()


def test_scores_of_a_folder_choose_circuits(llama: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "scores"
    text.write_text("The old dog barked at the moon.\n")
    asked = ("--task", "causal-lm", "--data", text, "--methods", "norm", "--out", out)
    status, _, errors = headcount("importance", llama, *asked)
    assert status == 0, errors
    found = Explain(str(llama), "A dog", " ran", scores=out, out=tmp_path).ranked
    table = pd.read_parquet(out / "heads.parquet").set_index("head")["norm_score"]
    assert {str(head): score for head, score in found["norm_score"].items()} == table.to_dict()
    assert [*found] == ["norm_score"]
    changed = pd.read_parquet(out / "heads.parquet")
    changed.assign(norm_score=changed["norm_score"] + 1).to_parquet(out / "heads.parquet")
    with pytest.raises(InputError, match=r"heads.parquet as importance.json describes it, got ot"):
        Explain(str(llama), "A dog", " ran", scores=out, out=tmp_path).ranked  # noqa: B018
