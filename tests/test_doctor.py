"""Doctor says what works for a model before anything runs."""

from pathlib import Path

from headcount import diagnose
from tests import saved, tiny


def test_what_works(tmp_path: Path) -> None:
    findings = {each.subject: each for each in diagnose(saved.bert(tmp_path / "bert"))}
    assert all(each.works for each in findings.values())
    assert "prune, compact" in findings["compaction"].text


def test_a_model_that_can_t_be_made_smaller(tmp_path: Path) -> None:
    """One module for all layers, and no tokenizer: transformers makes an empty one."""
    tiny.MODELS["albert"]().save_pretrained(tmp_path)
    findings = {each.subject: each for each in diagnose(tmp_path)}
    assert findings["heads"].works and findings["self-check"].works
    assert not findings["compaction"].works
    assert "share the attention module" in findings["compaction"].text
    assert not findings["tokenizer"].works
    assert "a tokenizer was expected beside the weights" in findings["tokenizer"].text
