"""ONNX Runtime gives what a compact model gives, whatever its family."""

from pathlib import Path

import pytest
import torch

from headcount.artifact.batches import Data
from headcount.artifact.certificate import compare, runner
from headcount.artifact.onnx import export_onnx, onnx_runner
from headcount.compaction import compact
from headcount.models.load import as_loaded
from headcount.models.tiny_inputs import tiny_inputs
from headcount.pruning import Plan, Units
from tests import tiny


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "modernbert", "vit"])
def test_families(name: str, tmp_path: Path) -> None:
    """Also for more rows and more padding than the model was exported with."""
    loaded = as_loaded(tiny.MODELS[name](), None)
    units = Units.of(loaded.anatomy, None).units
    kept = [head for unit in units[::2] for head in unit]
    assert 0 < len(kept) < len(loaded.heads)
    model = compact(loaded, Plan.keeping(loaded.heads, kept))
    batch = tiny_inputs(model)
    export_onnx(model, batch, tmp_path / "model.onnx")
    longer = {name: torch.cat([each, each[:1]]) for name, each in batch.items()}
    for mask in [each for name, each in longer.items() if name.endswith("attention_mask")]:
        mask[0, 2:] = 0
    data = Data([batch, longer])
    (found,) = compare(
        ("torch", runner(model)), {"ONNX": onnx_runner(tmp_path / "model.onnx")}, data, model.dtype
    )
    found.refuse_unequal()
    assert found.batches == 2 and found.largest_output > 0.01
