"""Doctor reports what works for a model before anything runs."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from headcount import analyze, diagnose
from headcount.artifact import save
from headcount.compaction import compact
from headcount.core import ModelError, Plan
from headcount.corpora import Corpus, Sentence
from headcount.importance import Options, assess
from headcount.models import load
from headcount.tasks import build
from tests import pictures, saved, tiny


def test_what_works(tmp_path: Path) -> None:
    findings = {each.subject: each for each in diagnose(saved.bert(tmp_path / "bert"))}
    assert all(each.works for each in findings.values())
    assert "prune, compact" in findings["compaction"].text
    assert findings["pruning"].text.startswith("heads are ") and "times as fast" in (
        findings["pruning"].text
    )
    assert findings["kernel"].text.startswith("attention is measured in blocks")
    assert findings["kernel"].text.endswith("--kernel triton, for GPUs: not run on a device yet")


def test_a_model_of_images(tmp_path: Path) -> None:
    findings = {each.subject: each for each in diagnose(pictures.save(pictures.random(), tmp_path))}
    assert all(each.works for each in findings.values())
    found = "ViTImageProcessorPil, 12 x 15 pixels: 4 x 5 patches after 1 special token; give images"
    assert findings["images"].text == found and "tokenizer" not in findings
    assert findings["pruning"].text.endswith("\u202f% smaller")  # FLOPs are counted of text
    (tmp_path / "preprocessor_config.json").unlink()
    (missing,) = [each for each in diagnose(tmp_path) if not each.works]
    assert missing.text.startswith("Expected an image processor beside the weights of")


def test_a_model_without_heads(tmp_path: Path) -> None:
    """Nothing is said to work on missing heads; without heads nothing is measured."""
    loaded = load(saved.bert(tmp_path / "bert"))
    save(compact(loaded, Plan.keeping(loaded.heads, [])), tmp_path / "small", loaded.tokenizer)
    findings = {each.subject: each for each in diagnose(tmp_path / "small")}
    assert findings["loading"].works and not findings["attention"].works
    assert findings.keys() == {"loading", "attention"}
    small = load(tmp_path / "small")
    task = build("masked-lm", small, {"text": ["The old dog barked."]})
    for measure in (
        lambda: assess(small, task, Options(methods=("norm",))),
        lambda: analyze(small, Corpus.from_sentences([Sentence("The old dog barked.")])),
    ):
        with pytest.raises(ModelError, match="attention heads, got .*small with none left"):
            measure()


def test_a_model_that_can_t_be_made_smaller(tmp_path: Path) -> None:
    """One module for all layers, and no tokenizer: transformers creates an empty one."""
    tiny.MODELS["albert"]().save_pretrained(tmp_path)
    findings = {each.subject: each for each in diagnose(tmp_path)}
    assert findings["heads"].works and findings["self-check"].works
    assert not findings["compaction"].works
    assert "share the attention module" in findings["compaction"].text
    assert not findings["tokenizer"].works
    assert "Expected a tokenizer beside the weights" in findings["tokenizer"].text


def test_a_model_that_runs_with_all_its_heads_only(tmp_path: Path) -> None:
    """The model's code slices fused queries, keys and values by the configuration's count."""
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60, "pad_token_id": 0}
    hf.Phi3ForCausalLM(hf.Phi3Config(**sizes)).save_pretrained(tmp_path)
    findings = {each.subject: each for each in diagnose(tmp_path)}
    assert findings["self-check"].works and not findings["compaction"].works
    assert "does not run with fewer heads" in findings["compaction"].text
    assert not findings["compaction"].is_required and findings["self-check"].is_required


def test_no_memory_for_a_second_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is still reported."""

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("headcount.doctor.check_prunable", full)
    findings = {each.subject: each for each in diagnose(saved.bert(tmp_path / "bert"))}
    assert "not tried: not enough memory" in findings["compaction"].text
    assert [name for name, each in findings.items() if not each.works] == ["compaction"]


@pytest.mark.slow
def test_a_model_of_sound(tmp_path: Path) -> None:
    """It reads no text; that is reported once."""
    tiny.MODELS["whisper"]().save_pretrained(tmp_path)
    findings = diagnose(tmp_path)
    assert [each.subject for each in findings if not each.works] == ["tokenizer"]
    assert "which reads input_features" in findings[-1].text


def test_heads_that_cannot_be_seen(tmp_path: Path) -> None:
    """The pooling head of SigLIP calls torch's fused attention."""
    config = hf.SiglipVisionConfig(
        image_size=16,
        patch_size=8,
        num_attention_heads=4,
        hidden_size=32,
        intermediate_size=37,
        num_hidden_layers=2,
    )
    hf.SiglipVisionModel(config).save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match="can't be seen"):
        findings = {each.subject: each for each in diagnose(tmp_path)}
    assert not findings["unseen attention"].works
    assert not findings["unseen attention"].is_required


def test_a_vocabulary_of_something_else(tmp_path: Path) -> None:
    """Unknown pieces of ordinary words are counted."""
    findings = {each.subject: each for each in diagnose(saved.bert(tmp_path / "bert"))}
    assert re.search(r"; \d of \d+ pieces are \[UNK\]", findings["treebank words"].text)
