"""ONNX Runtime gives a compact model's outputs, in families that read a text at once."""

from pathlib import Path

import pytest
import torch
from transformers import BartConfig, BartForSequenceClassification

from headcount.artifact import export, save_compact
from headcount.artifact.comparing import Data, compare, runner
from headcount.artifact.exporting import with_types
from headcount.artifact.onnx import export_onnx, onnx_runner
from headcount.compaction import compact
from headcount.core import ModelError, Plan
from headcount.models import Loaded, as_loaded, load
from headcount.pruning import Units
from headcount.tap import SampleRun, tiny_inputs
from tests import saved, tiny


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "modernbert", "vit"])
def test_families(name: str, tmp_path: Path) -> None:
    """Outputs also agree for more rows and padding than at export.

    Llama's kind, T5 and Marian are exported with a cache: `test_onnx_generation.py`.
    """
    loaded = as_loaded(tiny.shallow(name), None)
    units = Units.of(loaded.anatomy, None).units
    kept = [head for unit in units[::2] for head in unit]
    assert 0 < len(kept) < len(loaded.heads)
    model = compact(loaded, Plan.keeping(loaded.heads, kept))
    batch = tiny_inputs(model)
    export_onnx(model, batch, tmp_path / "model.onnx")
    longer = {key: torch.cat([each, each[:1]]) for key, each in batch.items()}
    for mask in [each for key, each in longer.items() if key.endswith("attention_mask")]:
        mask[0, 2:] = 0
    data = Data([batch, longer])
    (found,) = compare(
        ("torch", runner(model)), {"ONNX": onnx_runner(tmp_path / "model.onnx")}, data, model.dtype
    )
    found.check_equal()
    with pytest.raises(ModelError, match="ONNX Runtime can't run the export"):
        wrong = {key: each.bool() for key, each in batch.items()}
        onnx_runner(tmp_path / "model.onnx")(SampleRun(wrong))
    assert found.batches == 2 and found.largest_output > 0.01


def test_an_export_is_compared_on_tokens_of_both_texts_of_a_pair(tmp_path: Path) -> None:
    loaded = load(saved.bert(tmp_path))
    (batch,) = with_types(loaded, Data([tiny_inputs(loaded.model)])).batches
    types_RN, length = batch["token_type_ids"], batch["input_ids"].shape[1]
    assert types_RN.sum(1).tolist() == [length - length // 2] * len(types_RN)
    assert types_RN.diff(dim=1).sum(1).tolist() == [1] * len(types_RN)


def test_a_classifier_with_a_decoder_is_refused(tmp_path: Path) -> None:
    """Only its body would be exported."""
    config = BartConfig(
        vocab_size=50,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
    )
    model = BartForSequenceClassification(config)
    with pytest.raises(ModelError, match="BartForSequenceClassification makes decoder inputs"):
        export_onnx(model, tiny_inputs(model), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_what_the_dense_model_rounds_in_the_runtime_is_allowed(tmp_path: Path) -> None:
    """Embeddings of one large mean: a norm takes it off, in every runtime with other roundings."""
    model = tiny.shallow("gpt2")
    with torch.no_grad():
        model.get_input_embeddings().get_parameter("weight").add_(1000)
    loaded = Loaded(model, None, "gpt2")
    save_compact(loaded, Plan({"decoder.self": {0: (1,)}}), tmp_path / "small")
    found = export(load(tmp_path / "small"), tmp_path / "small").comparisons[-1]
    assert found.what == "ONNX and reloaded"
    assert 1e-5 < found.share < found.tolerance <= 1e-2
