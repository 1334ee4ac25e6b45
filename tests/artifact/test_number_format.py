"""A saved model keeps the number format of its source where no number needs more."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import headcount
from headcount.artifact.saving import in_source_format, write_model
from headcount.core import Plan
from headcount.results import Certificate
from tests import saved

PLAN = Plan({"encoder.self": {0: (1,)}})
SITES = {"gpt2": "decoder.self", "llama": "decoder.self"}
HALVES = [torch.float16, torch.bfloat16]


def source(path: Path, dtype: torch.dtype, kind: str = "bert", **options: Any) -> Path:
    """A folder with a tiny model in a number format."""
    getattr(saved, kind)(path)
    loaded = headcount.load(path)
    (path / "model.safetensors").unlink()
    torch.nn.Module.to(loaded.model, dtype)
    loaded.model.save_pretrained(path, **options)
    return path


def tensors(path: Path) -> dict[str, Tensor]:
    return {
        name: each for file in path.glob("*.safetensors") for name, each in load_file(file).items()
    }


def formats(path: Path) -> set[torch.dtype]:
    return {tensor.dtype for tensor in tensors(path).values()}


def stated(path: Path) -> str:
    return json.loads((path / "config.json").read_text())["dtype"]


def compacted(path: Path, out: Path, plan: Plan = PLAN) -> Certificate:
    return headcount.save_compact(headcount.load(path), plan, out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "marian"])
@pytest.mark.parametrize("dtype", HALVES)
def test_what_is_cut_keeps_its_format(tmp_path: Path, dtype: torch.dtype, kind: str) -> None:
    """Tied weights too; no number changes, so the certificate holds as in float32."""
    path, out = source(tmp_path / "model", dtype, kind), tmp_path / "small"
    kept = (0, 1) if kind == "llama" else (1,)
    certificate = compacted(path, out, Plan({SITES.get(kind, "encoder.self"): {0: kept}}))
    assert formats(out) == {dtype}
    assert stated(out) == str(dtype).removeprefix("torch.")
    sizes = [(each / "model.safetensors").stat().st_size for each in (path, out)]
    assert sizes[1] < sizes[0]
    compact, reloaded = certificate.comparisons
    assert (compact.dtype, compact.difference) == (reloaded.dtype, reloaded.difference)
    assert compact.dtype == "float32" and reloaded.share <= 1e-5
    again = headcount.load(out)
    assert again.model.dtype == torch.float32
    auto = getattr(transformers, stated_auto(out)).from_pretrained(out, trust_remote_code=True)
    assert auto.dtype == dtype
    state, own = again.model.state_dict(), auto.state_dict()
    for name in tensors(out):
        assert torch.equal(own[name].float(), state[name])


def stated_auto(path: Path) -> str:
    return str(json.loads((path / "prune.json").read_text())["auto_class"])


@pytest.mark.slow
def test_a_float32_source_stays_float32(tmp_path: Path) -> None:
    compacted(source(tmp_path / "model", torch.float32), tmp_path / "small")
    assert formats(tmp_path / "small") == {torch.float32}
    assert stated(tmp_path / "small") == "float32"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", HALVES)
def test_a_weight_that_changed_is_exact(tmp_path: Path, dtype: torch.dtype) -> None:
    """It is written in float32, the others in their own format, and the folder loads as float32."""
    loaded = headcount.load(source(tmp_path / "model", dtype))
    name = "bert.encoder.layer.1.output.dense.weight"
    weight = loaded.model.get_parameter(name)
    weight.data *= 1.1
    out = tmp_path / "small"
    headcount.save_compact(loaded, PLAN, out)
    found = tensors(out)
    assert {key for key, each in found.items() if each.dtype == torch.float32} == {name}
    assert formats(out) == {dtype, torch.float32}
    assert stated(out) == "float32"
    assert torch.equal(headcount.load(out).model.get_parameter(name), weight)


def shards(path: Path) -> Path:
    return source(path, torch.float16, max_shard_size="20KB")


def pickled(path: Path) -> Path:
    source(path, torch.float16)
    torch.save(load_file(path / "model.safetensors"), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    return path


def pickled_shards(path: Path) -> Path:
    shards(path)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    for file in {*index["weight_map"].values()}:
        torch.save(load_file(path / file), path / f"{file}.bin")
        (path / file).unlink()
    index["weight_map"] = {name: f"{file}.bin" for name, file in index["weight_map"].items()}
    (path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    (path / "model.safetensors.index.json").unlink()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("make", [shards, pickled, pickled_shards])
@pytest.mark.parametrize("is_stated", [True, False])
def test_forms_of_checkpoints(
    tmp_path: Path, make: Callable[[Path], Path], is_stated: bool
) -> None:
    """The weights' own format counts, whether the configuration states it or not."""
    path, out = make(tmp_path / "model"), tmp_path / "small"
    config = json.loads((path / "config.json").read_text())
    assert config.pop("dtype") == "float16"
    if not is_stated:
        (path / "config.json").write_text(json.dumps(config))
    compacted(path, out)
    assert formats(out) == {torch.float16}


@pytest.mark.parametrize(("many", "few"), [("float16", "float32"), ("float32", "float16")])
def test_the_format_of_most_numbers_is_the_source_s(many: str, few: str, tmp_path: Path) -> None:
    written = {"few": torch.zeros(3, dtype=getattr(torch, few))}
    written |= {"many": torch.zeros(64, dtype=getattr(torch, many))}
    save_file(written, tmp_path / "model.safetensors")
    tensors, narrowed = in_source_format({"weight": torch.ones(2)}, str(tmp_path))
    assert tensors["weight"].dtype == getattr(torch, many)
    assert narrowed == (torch.float16 if many == "float16" else None)


@pytest.mark.slow
def test_a_format_asked_for_is_kept(tmp_path: Path) -> None:
    path, out = source(tmp_path / "model", torch.float16), tmp_path / "small"
    headcount.save_compact(headcount.load(path, dtype="bfloat16"), PLAN, out)
    assert formats(out) == {torch.bfloat16} and stated(out) == "bfloat16"


def test_training_needs_more(tmp_path: Path) -> None:
    """What `finetune` learned is written in float32, what stayed as it was in its own format."""
    loaded = headcount.load(source(tmp_path / "model", torch.bfloat16))
    frozen = loaded.model.get_parameter("bert.embeddings.word_embeddings.weight")
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            if parameter is not frozen:
                parameter += 1e-4
    write_model(tmp_path / "tuned", loaded.model, loaded.tokenizer)
    found = tensors(tmp_path / "tuned")
    exact = {name for name, each in found.items() if each.dtype == torch.bfloat16}
    assert exact == {"bert.embeddings.word_embeddings.weight"}
    again = headcount.load(tmp_path / "tuned").model.state_dict()
    for name, tensor in loaded.model.state_dict().items():
        torch.testing.assert_close(again[name], tensor, rtol=0, atol=0)
