"""Graphs with a cache write what the model writes, whatever heads its layers kept."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from headcount.artifact import onnx_generation
from headcount.artifact.comparing import Data
from headcount.artifact.onnx_generation import (
    DECODER,
    ENCODER,
    OnnxGeneration,
    compare_generation,
    export_generation,
)
from headcount.compaction import compact
from headcount.core import Head, ModelError, Plan
from headcount.models import Loaded, as_loaded
from headcount.tap import tiny_inputs
from tests import tiny


def pruned(name: str) -> Loaded:
    """A model whose layers kept different heads; sites of some layers lost all of theirs."""
    loaded = as_loaded(tiny.MODELS[name](), None)

    def is_kept(head: Head) -> bool:
        if name in ("llama", "gpt2"):
            return head.layer == 1 or (name == "llama" and head.index < 3)
        is_dead = (head.site, head.layer) in (("decoder.self", 1), ("decoder.cross", 0))
        return not is_dead and head.index % 3 != head.layer

    kept = [head for head in loaded.heads if is_kept(head)]
    return as_loaded(compact(loaded, Plan.keeping(loaded.heads, kept)), None)


@pytest.mark.parametrize("name", ["llama", "gpt2", "marian", "m2m_100", "t5"])
def test_families(name: str, tmp_path: Path) -> None:
    loaded = pruned(name)
    export_generation(loaded, tmp_path)
    batch = tiny_inputs(loaded.model)
    longer = {key: torch.cat([each, each[:1]]) for key, each in batch.items()}
    longer["attention_mask"][0, 2:] = 0
    (found,) = compare_generation(loaded, tmp_path, Data([batch, longer]), ("torch", "ONNX"))
    found.check_equal()
    assert found.what == "ONNX and torch" and found.largest_output > 0.01
