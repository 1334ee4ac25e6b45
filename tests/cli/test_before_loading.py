"""What is impossible by arguments, data and configuration is refused before weights are read."""

import json
import re
import shutil
from pathlib import Path

import pytest

from headcount.models import Stated
from headcount.models.stated import grids_of
from headcount.tap import examine
from tests import saved, tiny
from tests.commanding import headcount


@pytest.fixture(scope="module")
def weightless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of an encoder, a decoder and an encoder-decoder without weights: none loads."""
    folder = tmp_path_factory.mktemp("weightless")
    for name in ("bert", "gpt2", "marian"):
        whole = getattr(saved, name)(folder / f"whole-{name}")
        left_out = shutil.ignore_patterns("*.safetensors")
        shutil.copytree(whole, folder / name, ignore=left_out)
    (folder / "a.jsonl").write_text(json.dumps({"text": "The old dog barked."}) + "\n")
    (folder / "a.tsv").write_text("source\ttarget\nThe dog\tDer Hund\n")
    (folder / "a.pdf").write_text("no text")
    (folder / "words.txt").write_text("house 3\ndog\n")
    (folder / "nothing.txt").write_text("house 0\n")
    kept = {"encoder.self": {"0": [0], "99": [0]}}
    (folder / "plan.json").write_text(json.dumps({"version": 1, "kept": kept}))
    (folder / "good.json").write_text(json.dumps({"version": 1, "kept": {}}))
    return folder


LM = ("--data", "{}/a.jsonl", "--task", "causal-lm")
PRUNE = ("prune", "{}/gpt2", *LM, "--dev", "{}/a.jsonl", "--out", "{}/out")
PRUNED = (*PRUNE, "--keep", 2)
CURVE = ("curve", "{}/gpt2", *LM, "--dev", "{}/a.jsonl", "--out", "{}/out", "--methods", "random")
TRANSLATION = ("--data", "{}/a.tsv", "--dev", "{}/a.tsv", "--task", "translation")
COMPACT = ("compact", "{}/bert", "--out", "{}/out", "--plan")
EVALUATE = ("evaluate", "{}/gpt2", *LM)
ANALYZE = ("analyze", "{}/bert", "{}/a.jsonl", "--out", "{}/out")

REFUSED = {
    "at most 6 heads to keep, since .* has .*decoder.self 2 layers x 3 heads": (
        *PRUNE,
        *("--keep", 7),
    ),
    "at most 6 heads to keep, since": (*CURVE, "--keep", 2, 99),
    "at most 6 heads to keep at decoder.cross": (
        *("prune", "{}/marian", *TRANSLATION, "--out", "{}/out"),
        *("--site", "decoder.cross", "--keep", 99),
    ),
    "heads of .* in --protect, which has .* got dec.99.1": (*PRUNED, "--protect", "dec.99.1"),
    "the role sink to protect, found none.*--analysis": (*PRUNED, "--protect", "sink"),
    "heads of .* in the plan, which has .* got enc.99.0": (*COMPACT, "{}/plan.json"),
    "ending in .txt, .*, got .*a.pdf": (*COMPACT, "{}/good.json", "--data", "{}/a.pdf"),
    "limit of at least 1 sentence, got 0": (*COMPACT, "{}/good.json", "--limit", 0),
    "limit of at least 1 sentence, got -1": ("export", "{}/bert", "--to", "onnx", "--limit", -1),
    "how a corpus is read, so rename": ("export", "{}/bert", "--to", "onnx", "--data", "{}/a.pdf"),
    "lists of messages. for roles=assistant, got texts": (*EVALUATE, "--roles", "assistant"),
    "limit of at least 1 example, got -3": (*EVALUATE, "--limit", -3),
    "--max-length of at least 2 tokens, got 0": (*EVALUATE, "--max-length", 0),
    "pieces of at most .* positions by its configuration, got 999999": (
        *EVALUATE,
        *("--max-length", 999999),
    ),
    "words.txt:2: expected a word and its count": (*ANALYZE, "--frequencies", "{}/words.txt"),
    "word count. in .*nothing.txt, got none": (*ANALYZE, "--frequencies", "{}/nothing.txt"),
}


@pytest.mark.parametrize("reported", REFUSED)
def test_it_is_refused_before_the_model_is_loaded(reported: str, weightless: Path) -> None:
    arguments = [str(each).replace("{}", str(weightless)) for each in REFUSED[reported]]
    status, _, errors = headcount(*arguments)
    said = " ".join(errors.split())
    assert status == 2 and "can't be loaded" not in said
    assert re.search(reported, said), said


def test_judgements_in_the_form_of_beir_are_no_table(weightless: Path, tmp_path: Path) -> None:
    """Their columns are those of BEIR; the folder itself has no file to read."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text("")
    judged = tmp_path / "qrels" / "dev.tsv"
    judged.write_text("query-id\tcorpus-id\tscore\nq\tp\t1\n")
    search = ("evaluate", weightless / "bert", "--task", "search", "--data")
    assert "can't be loaded" in headcount(*search, judged)[2]
    status, _, errors = headcount(*search, tmp_path)
    assert status == 2 and f"got the folder. Name {judged}." in errors


def test_the_folders_do_not_load(weightless: Path) -> None:
    status, _, errors = headcount(*[str(each).replace("{}", str(weightless)) for each in EVALUATE])
    assert status == 2 and "can't be loaded" in errors


@pytest.mark.once
@pytest.mark.parametrize("name", tiny.TAPPED)
def test_a_configuration_states_the_heads_of_the_model(name: str) -> None:
    model = tiny.TAPPED[name]()
    grids = grids_of(model.config)
    assert not grids or examine(model).heads in grids
    assert grids or name in ("albert", "whisper", "gemma3_text")


def test_nothing_is_stated_of_a_model_that_is_not_there() -> None:
    stated = Stated.of("nobody/nothing")
    assert stated == Stated("nobody/nothing")
    stated.check_keep(10**9)
    stated.check_length(10**9)
