"""Every step works on every kind of checkpoint, with the numbers of the plain one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForCausalLM

import headcount
from headcount.core import Plan
from headcount.tasks import build, evaluate
from headcount.training import finetune
from tests import saved, tiny_tokenizers
from tests.turns import slow

TEXTS = [*tiny_tokenizers.SENTENCES[:5], "The dog.", "Old dogs and three tired children ran."]
TASKS = {"bert": "masked-lm", "gpt2": "causal-lm", "llama": "causal-lm"}
QUICK = headcount.FinetuneConfig(updates=2, batch_tokens=100, peak=1e-3, warmup=1)


@dataclass(frozen=True)
class Found:
    """Numbers of every step on one checkpoint."""

    measured: np.ndarray
    """Columns of the table of heads."""
    loss: float
    trained: float
    """The loss after two updates."""
    weights: dict[str, Tensor]
    """Tensors of the compact model, as the folder holds them."""


def steps(kind: str, path: Path, out: Path, **options: Any) -> Found:
    """Diagnose, measure, score, train, compact and reload."""
    findings = headcount.diagnose(path, **options)
    assert all(each.works for each in findings if each.subject != "certificate"), findings
    loaded = headcount.load(path, **options)
    task = build(TASKS[kind], loaded, {"text": TEXTS})
    table = headcount.measure(loaded, headcount.Corpus.from_sentences(TEXTS)).frame
    # which offset has the most looks is a choice that rounding may change, its share is not
    numbers = table.select_dtypes("number").drop(columns="positional_offset")
    columns = numbers.to_numpy(dtype=float)
    trained = finetune(loaded, task, QUICK).loaded
    losses = [evaluate(each.model, task) for each in (loaded, trained)]
    mean, after = (each.loss_N.sum() / each.count_N.sum() for each in losses)
    site = "encoder.self" if kind == "bert" else "decoder.self"
    plan = Plan({site: {0: (0, 1) if kind == "llama" else (1,)}})
    headcount.save_compact(loaded, plan, out)
    assert len(headcount.load(out, **options).heads) < len(loaded.heads)
    return Found(columns, float(mean), float(after), load_file(out / "model.safetensors"))


def check_same(found: Found, plain: Found, *, atol: float, rtol: float) -> None:
    """Check that two checkpoints of one model gave the same numbers."""
    np.testing.assert_allclose(found.measured, plain.measured, atol=atol, rtol=rtol)
    np.testing.assert_allclose(found.loss, plain.loss, atol=atol, rtol=rtol)
    np.testing.assert_allclose(found.trained, plain.trained, atol=atol, rtol=rtol)
    assert found.weights.keys() == plain.weights.keys()
    for name, tensor in found.weights.items():
        np.testing.assert_allclose(
            tensor.float(), plain.weights[name].float(), atol=atol, rtol=rtol
        )


def shards(path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(path)
    (path / "model.safetensors").unlink()
    model.save_pretrained(path, max_shard_size="20KB")
    assert len([*path.glob("*.safetensors")]) > 2


def pickled(path: Path) -> None:
    """As `torch.save` wrote checkpoints before safetensors, one file or many."""
    for file in path.glob("*.safetensors"):
        torch.save(load_file(file), path / f"{file.stem.replace('model', 'pytorch_model')}.bin")
        file.unlink()
    if (index := path / "model.safetensors.index.json").exists():
        said = json.loads(index.read_text())
        said["weight_map"] = {
            name: f"{Path(file).stem.replace('model', 'pytorch_model')}.bin"
            for name, file in said["weight_map"].items()
        }
        (path / "pytorch_model.bin.index.json").write_text(json.dumps(said))
        index.unlink()


def pickled_shards(path: Path) -> None:
    shards(path)
    pickled(path)


def padded_left(path: Path) -> None:
    file = path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"padding_side": "left"}))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Found]:
    """A function that returns the numbers of a plain checkpoint."""

    @cache
    def found(kind: str) -> Found:
        folder = tmp_path_factory.mktemp(kind)
        return steps(kind, getattr(saved, kind)(folder / "plain"), folder / "small")

    return found


FORMS = {each.__name__: each for each in (shards, pickled, pickled_shards, padded_left)}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["gpt2", *slow("llama")])
def test_forms(tmp_path: Path, plain: Callable[[str], Found], kind: str, form: str) -> None:
    """Files and the tokenizer's padding change no number; GPT-2 is tied, Llama has groups."""
    path = getattr(saved, kind)(tmp_path / "model")
    FORMS[form](path)
    check_same(steps(kind, path, tmp_path / "other"), plain(kind), atol=0, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["llama", *slow("bert", "gpt2")])
def test_dtype(tmp_path: Path, plain: Callable[[str], Found], kind: str, dtype: str) -> None:
    """Sixteen bits give the numbers of float32 roughly, and `auto` gives those of the format."""
    path = getattr(saved, kind)(tmp_path / "model")
    found = steps(kind, path, tmp_path / "half", dtype=dtype)
    check_same(found, plain(kind), atol=0.15, rtol=0.1)
    assert {each.dtype for each in found.weights.values()} == {getattr(torch, dtype)}
    model = headcount.load(path, dtype=dtype)
    model.model.save_pretrained(path)
    check_same(steps(kind, path, tmp_path / "auto", dtype="auto"), found, atol=0, rtol=0)


def ends(loaded: headcount.Loaded) -> tuple[Tensor, ...]:
    """Weights of the embeddings and of the output."""
    model: Any = loaded.model
    return model.get_input_embeddings().weight, model.get_output_embeddings().weight


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_tied_weights_stay_tied(tmp_path: Path, kind: str) -> None:
    """After training and compaction, in memory and on disk."""
    path, out = getattr(saved, kind)(tmp_path / "model"), tmp_path / "small"
    loaded = headcount.load(path)
    trained = finetune(loaded, build(TASKS[kind], loaded, {"text": TEXTS}), QUICK).loaded
    site = "encoder.self" if kind == "bert" else "decoder.self"
    headcount.save_compact(trained, Plan({site: {0: (1,)}}), out)
    for each in (loaded, trained, headcount.load(out)):
        embeddings, head = ends(each)
        assert head is embeddings
    shape = ends(loaded)[0].shape
    shapes = [each.shape for each in load_file(out / "model.safetensors").values()]
    assert shapes.count(shape) == 1


@pytest.mark.slow
def test_weights_that_are_not_tied(tmp_path: Path) -> None:
    """Llama's output weights are its own, and keep their own numbers."""
    loaded = headcount.load(saved.llama(tmp_path / "model"))
    headcount.save_compact(loaded, Plan({"decoder.self": {0: (0, 1)}}), tmp_path / "small")
    embeddings, head = ends(headcount.load(tmp_path / "small"))
    assert torch.equal(head, ends(loaded)[1])
    assert not torch.equal(head, embeddings)
