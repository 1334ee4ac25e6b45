"""A training reads its tokenizer once, then resumes with the copy in its own folder."""

from pathlib import Path
from shutil import rmtree

from headcount.papers import ModelRecipe, Rows
from headcount.papers.pretraining.tokenizer_training import tokenizer_in
from tests import tiny_tokenizers


def test_a_slow_one_is_read_once(pairs: Rows, tmp_path: Path) -> None:
    """Such a tokenizer saves no tokenizer.json."""
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    tiny_tokenizers.marian(source).save_pretrained(source)
    first = tokenizer_in(out, str(source), pairs, ModelRecipe(max_length=32))
    assert not (out / "tokenizer.json").exists()
    rmtree(source)
    again = tokenizer_in(out, str(source), pairs, ModelRecipe(max_length=32))
    assert type(again) is type(first) and again.model_max_length == 32
    assert again("The old dog")["input_ids"] == first("The old dog")["input_ids"]
