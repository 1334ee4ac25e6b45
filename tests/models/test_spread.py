"""Models with layers in memory and on disk: their numbers are those of the model in memory."""

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
import transformers as hf

import headcount as hc
from headcount.core import InputError, ModelError, Plan
from headcount.models import Loaded, load, random_copy, revision
from headcount.tap import input_device, is_spread
from tests import tiny
from tests.tasks.loaded import loaded
from tests.tasks.tiny_task import TinyTask

LLAMA = "LlamaForCausalLM"
IDS = torch.arange(9, 16)[None]
PLAN = Plan({"decoder.self": {0: (0, 1, 2), 1: ()}})
PLACES = {
    "last": {"": "cpu", "model.layers.1": "disk", "lm_head": "disk"},
    "first": {"model.layers.0": "disk", "": "cpu", "model.embed_tokens": "disk"},
    "everything": {"": "disk"},
    "nothing": {"": "cpu"},
    "auto": "auto",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    held, folder = loaded(LLAMA), tmp_path_factory.mktemp("model")
    assert held.tokenizer is not None
    held.model.save_pretrained(folder)
    held.tokenizer.save_pretrained(folder)
    yield folder


@pytest.fixture(scope="module")
def on_disk(folder: Path) -> Loaded:
    """Shared, so that it is examined once."""
    return load(folder, device_map=PLACES["last"])


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("where", PLACES)
def test_a_model_is_the_same_wherever_weights_are(where: str, folder: Path) -> None:
    held, spread = load(folder), load(folder, device_map=PLACES[where])
    assert is_spread(spread.model) == (where in ("last", "first", "everything"))
    assert input_device(spread.model) == torch.device("cpu")
    assert revision(spread.model) == revision(held.model)
    assert logits(spread).equal(logits(held))
    assert revision(spread.model) == revision(held.model), "after a pass, too"


@pytest.mark.slow
def test_a_compact_model_of_weights_on_disk(folder: Path, on_disk: Loaded, tmp_path: Path) -> None:
    """Weights, certificate and card, to the last byte."""
    for model, out in ((load(folder), "held"), (on_disk, "spread")):
        hc.save_compact(model, PLAN, tmp_path / out)
    assert files(tmp_path / "spread") == files(tmp_path / "held")
    again = load(tmp_path / "spread", device_map={"": "disk"})
    assert logits(again).equal(logits(load(tmp_path / "held")))


SAME = (
    *("measure", "importance.norm", "importance.gradient", "importance.relevance"),
    *("importance.ablation", "streaming_cache", "speed.ceiling"),
)


@pytest.mark.once
@pytest.mark.parametrize("name", SAME)
def test_numbers_of_a_model_on_disk(name: str, on_disk: Loaded, tmp_path: Path) -> None:
    from tests.test_any_model import CASES, assert_same

    assert_same(CASES[name](on_disk, {}, tmp_path), CASES[name](loaded(LLAMA), {}, tmp_path))
    learns = {each.requires_grad for each in on_disk.model.parameters()}
    assert learns == {True}


@pytest.mark.slow
def test_weights_that_accelerate_moved_to_the_cpu(folder: Path, tmp_path: Path) -> None:
    """`cpu_offload` leaves no map of devices."""
    held = load(folder)
    moved: Any = accelerate.cpu_offload(load(folder).model, execution_device=torch.device("cpu"))
    spread = replace(held, model=moved)
    assert all(each.is_meta for each in moved.parameters())
    assert revision(moved) == revision(held.model)
    hc.save(replace(held, model=hc.compact(spread, PLAN)), tmp_path)
    assert logits(load(tmp_path)).equal(logits(hc.compact(held, PLAN)))
    roots = [layer.output_root(moved) for layer in spread.anatomy.layers]
    for layer, root in zip(held.anatomy.layers, roots, strict=True):
        expected = layer.output_root(held.model)
        assert root is not None and expected is not None and root.equal(expected)


@pytest.mark.slow
def test_tied_weights_and_files_of_a_model_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tied weights are written once, and all in the format of their source, file by file.

    While a file is made, no more than one tensor is in the format that it was computed in.
    """
    from headcount.artifact import saving

    config = hf.LlamaConfig(**tiny.GROUPED, tie_word_embeddings=True)
    model: Any = tiny.seeded(hf.LlamaForCausalLM(config))
    model.to(torch.bfloat16).save_pretrained(tmp_path / "model")
    held, spread = (load(tmp_path / "model", device_map=each) for each in (None, {"": "disk"}))
    assert logits(spread).equal(logits(held)) and revision(spread.model) == revision(held.model)
    monkeypatch.setattr(saving, "SHARD", "5KB")
    smaller, numbers, read = hc.compact(spread, PLAN), saving.numbers_of, list[Any]()

    def one_by_one(model: Any, name: str) -> torch.Tensor:
        assert not [each for each in read if each() is not None]
        tensor = numbers(model, name)
        read.append(weakref.ref(tensor))
        return tensor

    monkeypatch.setattr(saving, "numbers_of", one_by_one)
    hc.save(smaller, tmp_path / "parts")
    assert len([*(tmp_path / "parts").glob("model-*.safetensors")]) > 2
    again: Any = load(tmp_path / "parts", dtype="auto").model
    assert again.dtype == torch.bfloat16
    assert revision(again.float()) == revision(hc.compact(held, PLAN)) == revision(smaller)


def test_a_random_copy_lies_where_the_model_lies(folder: Path, on_disk: Loaded) -> None:
    copy: Any = random_copy(on_disk.model, seed=3)
    assert is_spread(copy) and copy.lm_head.weight.is_meta
    assert revision(copy) == revision(random_copy(load(folder).model, seed=3))


REFUSED: Mapping[str, tuple[Any, str]] = {
    "no layer": ({"foo": "cpu"}, "Expected names of modules of LlamaForCausalLM .* got 'foo'"),
    "empty": ({}, "Expected a place for every module .* got none for LlamaForCausalLM"),
    "a part": ({"model": "disk"}, "Expected a place for every module .* got none for lm_head"),
    "a device": ({"": "cuda:9"}, "Expected a device that torch has here .* got 'cuda:9'"),
    "a number": ({"": 9}, "Expected a device that torch has here .* got 'cuda:9'"),
    "a word": ("cpu", "Expected a device_map of auto, .* got 'cpu'. Name a single device with"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_maps_that_do_not_fit(name: str, folder: Path) -> None:
    places, said = REFUSED[name]
    with pytest.raises(ModelError, match=said):
        load(folder, device_map=places)


def test_tied_weights_in_two_places(tmp_path: Path) -> None:
    config = hf.LlamaConfig(**tiny.GROUPED, tie_word_embeddings=True)
    tiny.seeded(hf.LlamaForCausalLM(config)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"one place for lm_head.weight and .* got cpu and disk"):
        load(tmp_path, device_map={"": "cpu", "lm_head": "disk"})


def test_auto_under_torchrun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ModelError, match="Expected one process for --device auto .* got several"):
        load(folder, device="auto")


@pytest.mark.slow
def test_folding_and_rescaling_of_a_model_on_disk(folder: Path, tmp_path: Path) -> None:
    """As in memory, to the last byte; only the projections that change are in memory afterwards."""
    from headcount.pruning.reconstruction import fold, output_moments, rescale

    everywhere = load(folder, device_map={"": "disk"})
    for model, out in ((load(folder), "held"), (everywhere, "spread")):
        sums = output_moments(model.model, TinyTask(model.model), model.anatomy)
        folded, made = fold(model, PLAN, sums), rescale(model, PLAN, sums, per="map")
        hc.save_compact(folded, PLAN, tmp_path / f"{out} folded")
        hc.save_compact(made, PLAN, tmp_path / f"{out} made")
    for part in ("folded", "made"):
        assert files(tmp_path / f"held {part}") == files(tmp_path / f"spread {part}")
    away = {path for path, each in made.model.named_parameters() if each.is_meta}
    every = {path for path, _ in everywhere.model.named_parameters()}
    assert every - away == {f"model.layers.{layer}.self_attn.o_proj.weight" for layer in (0, 1)}
    assert revision(everywhere.model) == revision(load(folder).model) != revision(made.model)


@pytest.mark.slow
def test_pruning_a_model_on_disk(on_disk: Loaded) -> None:
    """Training changes all weights, which must be in memory."""
    from headcount.training import FinetuneConfig, finetune
    from tests.test_any_model import splits

    pruned = hc.prune(on_disk, splits(), "gradient", 6)
    done = pruned.record.pipeline
    assert is_spread(pruned.model) and done is not None and len(done.stages) == 7
    with pytest.raises(InputError, match="all weights in memory for training, got .*weight in"):
        finetune(on_disk, splits().train, FinetuneConfig(updates=1))
