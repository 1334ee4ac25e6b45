"""Commands on models whose trained head gives a number, classes of words, or choices."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import BertConfig, BertForSequenceClassification, BertForTokenClassification

from headcount import load
from headcount.results import METRICS
from tests import saved, tiny_tokenizers
from tests.commanding import SAMPLE, headcount
from tests.tasks.loaded import NUMBERS
from tests.turns import slow

Case = tuple[Path, tuple[object, ...], list[Path], str]


def bert(folder: Path, kind: type, *names: str) -> Path:
    tokenizer = tiny_tokenizers.wordpiece()
    sizes: dict[str, Any] = saved.SIZES | {"vocab_size": len(tokenizer)}
    sizes |= {"max_position_embeddings": 64, "num_labels": len(names)}
    config = BertConfig(**sizes, id2label=dict(enumerate(names)))
    config.label2id = {name: number for number, name in enumerate(names)}
    return saved.save(folder, kind, config, tokenizer)


@pytest.fixture(scope="module", params=["numbers", *slow("words", "choices")])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A model, its task, three data sets, and the metric."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "words":
        blocks = SAMPLE.read_text(encoding="utf-8").strip().split("\n\n")
        tags = {row.split("\t")[3] for block in blocks for row in block.splitlines() if "\t" in row}
        model = bert(folder / "model", BertForTokenClassification, *sorted(tags))
        files = [folder / f"{name}.conllu" for name in ("train", "dev", "test")]
        for number, file in enumerate(files):
            file.write_text("\n\n".join(blocks[number::12]) + "\n\n", encoding="utf-8")
        options = ("--task", "token-classification", "--metric", "macro-f1")
        return model, options, files, "macro-f1"
    files = [folder / f"{name}.jsonl" for name in ("train", "dev", "test")]
    if request.param == "choices":
        texts = SAMPLE.with_name("sample.tsv").read_text(encoding="utf-8").split()
        for number, file in enumerate(files):
            parts = [texts[at : at + 6] for at in range(number, 150, 17)]
            rows = [
                {"prompt": " ".join(part[:3]), "choices": part[3:5], "answer": part[3]}
                for part in parts
            ]
            file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        options = ("--task", "choice", "--likelihood-per", "character")
        return saved.llama(folder / "model"), options, files, "accuracy"
    model = bert(folder / "model", BertForSequenceClassification, "score")
    rows = [dict(zip(NUMBERS, row, strict=True)) for row in zip(*NUMBERS.values(), strict=True)]
    for number, file in enumerate(files):
        mixed = [row | {"text": f"{row['text']} {number}"} for row in rows]
        file.write_text("\n".join(map(json.dumps, mixed)), encoding="utf-8")
    return model, ("--task", "classification", "--scale", 0, 5), files, "spearman"


def succeeds(*arguments: object) -> str:
    status, output, errors = headcount(*arguments)
    assert status == 0, errors
    return output


@pytest.mark.slow
def test_from_importance_to_a_smaller_model(case: Case, tmp_path: Path) -> None:
    model, task, (train, dev, test), metric = case
    given = (*task, "--data", train)
    output = succeeds(
        "importance", model, *given, "--out", tmp_path / "i", "--quantity", "score",
        "--methods", "gradient", "relevance", "ablation",
    )  # fmt: skip
    assert f" {METRICS.get(metric, metric)} " in output and "the dense model has loss" in output
    files = (*given, "--dev", dev, "--test", test)
    succeeds("curve", model, *files, "--methods", "gradient", "--keep", 2, "--out", tmp_path / "c")
    succeeds("prune", model, *files, "--method", "gradient", "--keep", 4, "--out", tmp_path / "p")
    smaller = load(tmp_path / "p")
    assert len(smaller.heads) == 4
    assert isinstance(smaller.model, type(load(model).model))
    record = json.loads((tmp_path / "p" / "prune.json").read_text())
    assert f"metric:{metric}" in record["signature"] and record["test"]["score"]
    output = succeeds("evaluate", tmp_path / "p", *task, "--data", test)
    assert metric in output


@pytest.mark.slow
def test_it_can_be_trained_and_followed(case: Case, tmp_path: Path) -> None:
    from headcount.papers import Followed

    model, task, (train, dev, _), metric = case
    tuned = tmp_path / "tuned"
    how = ("--set", "updates=3", "peak=3e-3", "warmup=1", "distilled=0.5", "--teacher", model)
    output = succeeds("finetune", model, *task, "--data", train, "--dev", dev, *how, "--out", tuned)
    assert f"dev: {metric}" in output
    out = tmp_path / "followed"
    succeeds("follow", model, tuned, *task, "--data", dev, "--method", "norm", "--out", out)
    assert Followed.read(out).record.metric == metric


def test_similarity_is_refused(case: Case, tmp_path: Path) -> None:
    model, _, _, metric = case
    (pairs := tmp_path / "a.csv").write_text("sentence1,sentence2,score\na,b,1\nb,c,2\n")
    status, _, errors = headcount(
        "importance", model, "--task", "similarity", "--data", pairs, "--out", tmp_path / "out"
    )
    fits = {
        "macro-f1": "token-classification",
        "spearman": "classification",
        "accuracy": "causal-lm, choice",
    }[metric]
    assert status == 2 and f"Tasks that fit: {fits}." in errors
