"""Doctor says what works for a model before anything runs."""

from pathlib import Path

import pytest

from headcount import analyze, diagnose
from headcount.artifact.save import save
from headcount.compaction import compact
from headcount.corpora import Corpus, Sentence
from headcount.errors import ModelError
from headcount.importance import Methods, assess
from headcount.models import load
from headcount.pruning.plan import Plan
from headcount.tasks import build
from tests import saved, tiny


def test_what_works(tmp_path: Path) -> None:
    findings = {each.subject: each for each in diagnose(saved.bert(tmp_path / "bert"))}
    assert all(each.works for each in findings.values())
    assert "prune, compact" in findings["compaction"].text


def test_a_model_without_heads(tmp_path: Path) -> None:
    """Nothing is said to work on heads that are not there; nothing is measured of none."""
    loaded = load(saved.bert(tmp_path / "bert"))
    save(compact(loaded, Plan.keeping(loaded.heads, [])), tmp_path / "small", loaded.tokenizer)
    findings = {each.subject: each for each in diagnose(tmp_path / "small")}
    assert findings["loading"].works and not findings["attention"].works
    assert findings.keys() == {"loading", "attention"}
    small = load(tmp_path / "small")
    task = build("masked-lm", small, {"text": ["The old dog barked."]})
    for measure in (
        lambda: assess(small, task, Methods(names=("norm",))),
        lambda: analyze(small, Corpus.from_sentences([Sentence("The old dog barked.")])),
    ):
        with pytest.raises(ModelError, match="attention heads was expected; .*small has none left"):
            measure()


def test_a_model_that_can_t_be_made_smaller(tmp_path: Path) -> None:
    """One module for all layers, and no tokenizer: transformers makes an empty one."""
    tiny.MODELS["albert"]().save_pretrained(tmp_path)
    findings = {each.subject: each for each in diagnose(tmp_path)}
    assert findings["heads"].works and findings["self-check"].works
    assert not findings["compaction"].works
    assert "share the attention module" in findings["compaction"].text
    assert not findings["tokenizer"].works
    assert "a tokenizer was expected beside the weights" in findings["tokenizer"].text
