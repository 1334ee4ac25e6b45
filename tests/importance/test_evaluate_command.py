"""`headcount evaluate`: the numbers of sacreBLEU and of the task, printed and written."""

import json
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from headcount import load
from headcount.tasks import build, evaluate
from tests.commanding import PARALLEL, headcount

pytestmark = pytest.mark.usefixtures("quick")

DATA = ("--data", PARALLEL, "--columns", "source=0", "target=1", "--limit", 6)
PAIRS = [line.split("\t") for line in PARALLEL.read_text(encoding="utf-8").splitlines()[:6]]


@pytest.mark.slow
def test_translation(marian: Path, tmp_path: Path) -> None:
    """BLEU and chrF equal sacreBLEU's, and the loss the task's, on the written translations."""
    out = tmp_path / "out"
    beams = ("--num-beams", 2, "--out", out)
    status, output, errors = headcount("evaluate", marian, "--task", "translation", *DATA, *beams)
    assert status == 0, errors
    found = json.loads((out / "evaluation.json").read_text())
    texts = (out / "translations.txt").read_text(encoding="utf-8").splitlines()
    references = [[target for _, target in PAIRS]]
    assert len(texts) == found["examples"] == 6
    assert found["bleu"] == pytest.approx(BLEU().corpus_score(texts, references).score)
    assert found["chrf"] == pytest.approx(CHRF().corpus_score(texts, references).score)
    assert "nrefs:1" in found["bleu signature"] and "beams:2" in found["bleu signature"]
    assert "nc:6" in found["chrf signature"] and "version:" in found["chrf signature"]
    loaded = load(marian)
    columns = {"source": [source for source, _ in PAIRS], "target": references[0]}
    evaluation = evaluate(loaded.model, build("translation", loaded, columns))
    expected = evaluation.loss_N.sum() / evaluation.count_N.sum()
    assert found["loss"] == pytest.approx(expected, rel=1e-5)
    assert found["bleu signature"] in found["signature"]
    assert "task:translation" in found["signature"] and found["arguments"]["num_beams"] == 2
    for name in ("bleu", "chrf", "loss", "signature"):
        assert f"\n{name} " in output, name


@pytest.mark.slow
def test_pairs_without_a_header(marian: Path, tmp_path: Path) -> None:
    """The same numbers as with numbered columns, also where a model is trained on them."""
    run = ("evaluate", marian, "--task", "translation", "--num-beams", 1)
    status, output, errors = headcount(*run, "--data", PARALLEL, "--limit", 6)
    assert status == 0, errors
    assert (status, output) == headcount(*run, *DATA)[:2]


def test_masked(bert: Path) -> None:
    """Other tasks have a loss and a score."""
    data = ("--data", PARALLEL, "--columns", "text=0", "--limit", 9)
    status, output, errors = headcount("evaluate", bert, "--task", "masked-lm", *data)
    assert status == 0 and "perplexity" in output and "bleu" not in output, errors


@pytest.mark.parametrize(("limit", "warned"), [(1, True), (100, False)])
def test_few_examples(limit: int, warned: bool, bert: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("One dog.\n" * 100)
    task = ("--task", "masked-lm", "--data", texts, "--limit", limit)
    status, output, errors = headcount("evaluate", bert, *task)
    assert status == 0, errors
    said = "warning: loss and score of 1 example are rough, and have no interval" in output
    assert said == warned


def test_pieces_of_a_length(bert: Path) -> None:
    data = ("--data", PARALLEL, "--columns", "text=0", "--limit", 9)
    run = ("evaluate", bert, "--task", "masked-lm", *data, "--max-length")
    (status, output, _), (_, other, _) = headcount(*run, 12), headcount(*run, 9)
    assert status == 0 and output != other
    status, _, errors = headcount(*run, 999)
    assert status == 2 and "positions by its configuration, got 999" in errors
    status, _, errors = headcount(*run, 0)
    assert status == 2 and "--max-length of at least 2 tokens, got 0" in errors


def test_options_of_another_task(bert: Path) -> None:
    data = ("--data", PARALLEL, "--columns", "text=0", "--num-beams", 2)
    status, _, errors = headcount("evaluate", bert, "--task", "masked-lm", *data)
    assert status == 2 and "--num-beams is an option of translation, but the task is mask" in errors
    status, _, errors = headcount(
        "evaluate", bert, "--task", "masked-lm", *data[:4], "--scale", 0, 1
    )
    assert status == 2 and "--scale is an option of classification and similarity, but" in errors
    status, _, errors = headcount(
        "evaluate", bert, "--task", "similarity", *data[:4], "--max-length", 9
    )
    assert status == 2 and "--max-length is an option of causal-lm and masked-lm, but" in errors


def test_refusals(marian: Path) -> None:
    texts = ("--data", PARALLEL, "--columns", "text=0")
    status, _, errors = headcount("evaluate", marian, "--task", "causal-lm", *texts)
    assert status == 2 and "Expected a decoder with a language-modelling head" in errors
    status, _, errors = headcount("evaluate", marian, "--task", "translation", "--data", "none.tsv")
    assert status == 2 and "none.tsv does not exist" in errors
