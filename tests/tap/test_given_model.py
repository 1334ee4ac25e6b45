"""Models that are split, without weights or compiled are refused with the reason."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import headcount
from headcount.compaction import compact
from headcount.core import InputError, ModelError, Plan
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.tap import check_is_model, examine, gated
from tests import tiny
from tests.commanding import SAMPLE
from tests.forked import ranks

SIZES: dict[str, Any] = tiny.GROUPED | {
    **{"num_attention_heads": 4, "num_key_value_heads": 4, "hidden_size": 24},
    **{"intermediate_size": 26, "vocab_size": 60},
}
"""Two layers with 4 heads, which two processes can share."""


def llama() -> Any:
    return tiny.seeded(hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)))


@pytest.mark.slow
def test_models_that_are_split_over_processes(tmp_path: Path) -> None:
    """Of those, the heads of one that transformers split (`tp_plan`) have their own numbers."""
    llama().save_pretrained(tmp_path)
    processes = ranks("tests.tap.split", tmp_path)
    outputs = [process.communicate()[0] for process in processes]
    for output in outputs:
        said = dict(line.split(": ", 1) for line in output.splitlines() if ": Exp" in line)
        assert "LlamaForCausalLM split over several by parallelize_module" in said["parallelized"]
        for kind in ("fully_sharded", "wrapped_layers"):
            assert "LlamaForCausalLM sharded by FSDP: each process holds a part" in said[kind]
        assert "FullyShardedDataParallel. Each process holds a part of every" in said["wrapped"]
        assert "Pass the model inside (`.module`)" in said["replicated"]
        whole = "decoder.self 2 layers x 4 heads, changed by"
        changed = re.findall(rf"(?:tp_plan|whole): {whole} ([\d.]+)", output)
        assert len(said) == 5 and len(changed) == 2 and changed[0] == changed[1]


def test_a_model_that_deepspeed_sharded() -> None:
    """DeepSpeed numbers the parameters that ZeRO-3 takes apart, and transformers asks for that."""
    model = llama()
    model.lm_head.weight.ds_id = 3
    with pytest.raises(ModelError, match=r"sharded by DeepSpeed \(ZeRO-3\): each process holds"):
        examine(model)


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "examine": examine,
    "gated": lambda model: gated(model, {"dec.1.1": 0}).__enter__(),
    "compact": lambda model: compact(model, Plan({"decoder.self": {0: (1,)}})),
    "analyze": lambda model: headcount.analyze(model, Corpus(SAMPLE)),
    "loaded": lambda model: headcount.analyze(Loaded(model, None, "loaded"), Corpus(SAMPLE)),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_weights_without_numbers(entry: str) -> None:
    with torch.device("meta"):
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)).eval()
    said = "a LlamaForCausalLM with weights, got model.embed_tokens.weight on the meta device"
    with pytest.raises(ModelError, match=said):
        ENTRIES[entry](model)


def wholly(model: Any) -> Any:
    model.compile(backend="eager")
    return model


def by_forward(model: Any) -> Any:
    model.forward = torch.compile(model.forward, backend="eager")
    return model


def by_layer(model: Any) -> Any:
    for layer in model.model.layers:
        layer.compile(backend="eager")
    return model


def by_wrapped_layer(model: Any) -> Any:
    model.model.layers[1] = torch.compile(model.model.layers[1], backend="eager")
    return model


def wrapping(model: Any) -> Any:
    return torch.compile(model, backend="eager")


@pytest.mark.parametrize(
    ("compiled", "reported"),
    [
        (wholly, "but LlamaForCausalLM was, by torch.compile: it has the attention"),
        (by_forward, "but LlamaForCausalLM was, by torch.compile: it has the attention"),
        (by_layer, "but model.layers.0 in LlamaForCausalLM was, by torch.compile"),
        (by_wrapped_layer, "but model.layers.1 in LlamaForCausalLM was, by torch.compile"),
        (wrapping, r"What torch.compile returns has the attention .* \(`._orig_mod`\)"),
    ],
)
def test_compiled_models(compiled: Any, reported: str) -> None:
    model = compiled(llama())
    with pytest.raises(InputError, match=reported):
        check_is_model(model)


@pytest.mark.slow
def test_what_was_compiled_is_itself_as_it_was() -> None:
    model: Any = torch.compile(llama(), backend="eager")
    model(torch.arange(5, 9)[None])
    assert str(examine(model._orig_mod).heads) == "decoder.self 2 layers x 4 heads"
