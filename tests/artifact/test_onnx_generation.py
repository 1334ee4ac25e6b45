"""Graphs with a cache write what the model writes, whatever heads its layers kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from headcount.artifact import exporting, onnx_generation
from headcount.artifact.comparing import Data
from headcount.artifact.exporting import compare_generation
from headcount.artifact.onnx_generation import export_generation
from headcount.compaction import compact
from headcount.core import Head, ModelError, Plan
from headcount.models import Loaded, as_loaded
from headcount.tap import tiny_inputs
from tests import tiny

CAUSAL = ("llama", "gpt2", "gemma2", "gemma3_text")
"""Some layers of the Gemmas see three tokens back only."""


def stock(name: str) -> Loaded:
    return as_loaded(tiny.even_t5() if name == "t5" else tiny.MODELS[name](), None)


def pruned(name: str, loaded: Loaded | None = None) -> Loaded:
    """A model whose layers kept different heads; sites of some layers lost all of theirs."""
    loaded = loaded or stock(name)

    def is_kept(head: Head) -> bool:
        if name in CAUSAL:  # GPT-2 loses all heads of a layer
            return head.layer == 1 or (name != "gpt2" and head.index < 3)
        is_dead = (head.site, head.layer) in (("decoder.self", 1), ("decoder.cross", 0))
        return not is_dead and head.index % 3 != head.layer

    kept = [head for head in loaded.heads if is_kept(head)]
    return as_loaded(compact(loaded, Plan.keeping(loaded.heads, kept)), None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma3_text", "marian", "t5"])
def test_onnx_runtime_gives_the_logits_of_generate(name: str, tmp_path: Path) -> None:
    """With other numbers of rows and tokens than the exporter saw, and with padding.

    Gemma 3 has all that Llama has: rotated positions and grouped queries.
    """
    shallow = None if name == "t5" else as_loaded(tiny.shallow(name), None)
    loaded = pruned(name, shallow)
    export_generation(loaded, tmp_path)
    batch = tiny_inputs(loaded.model)
    longer = {key: torch.cat([each, each[:1]]) for key, each in batch.items()}
    longer["attention_mask"][0, 2:] = 0
    (found,) = compare_generation(loaded, tmp_path, Data([batch, longer]), ("torch", "ONNX"))
    found.check_equal()
    assert found.what == "ONNX and torch" and found.largest_output > 0.01


Written = dict[str, tuple[nn.Module, dict[str, Tensor], list[str]]]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """The modules that would be exported, with their inputs and names of outputs, by file."""
    found: Written = {}

    def keep(
        module: nn.Module,
        inputs: Mapping[str, Tensor],
        outputs: Sequence[str],
        dynamic: Sequence[Mapping[int, Any]],
        *,
        path: Path,
    ) -> None:
        assert len(dynamic) == len(inputs)
        found[path.name] = module, dict(inputs), list(outputs)

    monkeypatch.setattr(onnx_generation, "write_onnx", keep)
    return found


def run(written: Written, file: str, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    module, inputs, outputs = written[file]
    with torch.no_grad():
        return dict(zip(outputs, module(*(given[name] for name in inputs)), strict=True))


def empty(written: Written, rows: int, own: str) -> dict[str, Tensor]:
    """The cache of the first step."""
    inputs = written["decoder.onnx"][1]
    pasts = {name: each for name, each in inputs.items() if own in name}
    return {name: each[:1, :, :0].expand(rows, -1, -1, -1) for name, each in pasts.items()}


def longer(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.replace("present", "past_key_values"): each for name, each in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["marian", "m2m_100", "t5"])
def test_the_modules_of_an_encoder_decoder(name: str, written: Written) -> None:
    loaded = pruned(name)
    model: Any = loaded.model
    export_generation(loaded, Path())
    assert [*written] == ["encoder.onnx", "decoder.onnx"]
    assert not any(".1.decoder." in each for each in written["decoder.onnx"][1]), "no heads"
    assert not any(".0.encoder." in each for each in written["encoder.onnx"][2]), "no heads"
    sizes = {each.shape[1] for key, each in written["decoder.onnx"][1].items() if "key" in key}
    assert len(sizes) > 1 or name == "t5", "heads differ by layer"
    batch = tiny.inputs(model, (7, 4, 5))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    targets = torch.randint(5, 60, (3, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets).logits
    fixed = run(written, "encoder.onnx", {"input_ids": ids, "attention_mask": mask})
    fixed["attention_mask"] = mask
    cache = empty(written, 3, ".decoder.")
    for begin, end in ((0, 1), (1, 4), (4, 5), (5, 6)):
        given = {"decoder_input_ids": targets[:, begin:end], **fixed, **cache}
        found = run(written, "decoder.onnx", given)
        torch.testing.assert_close(found.pop("logits"), expected[:, end - 1], rtol=0, atol=2e-5)
        cache = longer(found)
        assert {each.shape[2] for each in cache.values()} == {end}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSAL)
def test_the_module_of_a_causal_model(name: str, written: Written) -> None:
    """Padding on the left, also in the cache, does not count as a position."""
    loaded = pruned(name)
    model: Any = loaded.model
    export_generation(loaded, Path())
    _, inputs, outputs = written["decoder.onnx"]
    assert [*inputs][:2] == ["input_ids", "attention_mask"] and outputs[0] == "logits"
    assert any(".0." in each for each in inputs) == (name != "gpt2"), "GPT-2's lost its heads"
    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    cache = empty(written, 2, "past")
    for begin, end in ((0, 5), (5, 6), (6, 9)):
        given = {"input_ids": ids[:, begin:end], "attention_mask": mask[:, :end], **cache}
        found = run(written, "decoder.onnx", given)
        with torch.no_grad():
            alone = [
                model(input_ids=row[None]).logits[0, -1] for row in (ids[0, :end], ids[1, 3:end])
            ]
        torch.testing.assert_close(found.pop("logits"), torch.stack(alone), rtol=0, atol=2e-5)
        cache = longer(found)


class Session:
    """What runs a module as ONNX Runtime would; the last of `off` steps has other logits."""

    def __init__(self, file: tuple[nn.Module, dict[str, Tensor], list[str]], off: int) -> None:
        self._file, self._off, self._runs = file, off, 0

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=n, shape=each.shape) for n, each in self._file[1].items()]

    def get_outputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name=name) for name in self._file[2]]

    def run(self, names: None, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        assert set(feed) == {*self._file[1]}
        self._runs += 1
        if "past_key_values.1.key" in feed:  # a causal model
            assert feed["attention_mask"][:, -1].all(), "padding is on the left"
            assert not feed["attention_mask"].all()
        given = {name: torch.from_numpy(each) for name, each in feed.items()}
        found = run({"": self._file}, "", given)
        if self._runs == self._off:
            found["logits"] = found["logits"] + 0.5
        return [each.numpy() for each in found.values()]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "marian"])
def test_the_comparison_feeds_what_the_model_wrote(
    name: str, written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = pruned(name)
    export_generation(loaded, tmp_path)
    (tmp_path / "encoder.onnx").write_bytes(b"") if "encoder.onnx" in written else None
    batch = tiny_inputs(loaded.model)
    batch["attention_mask"][0, 2:] = 0
    data = Data([batch, batch])
    for off in (0, 2 * exporting.STEPS):
        monkeypatch.setattr(
            exporting,
            "session",
            lambda path, threads, off=off: Session(written[path.name], off),
        )
        (found,) = compare_generation(loaded, tmp_path, data, ("torch", "ONNX"))
        assert found.difference == pytest.approx(0.5 if off else 0, abs=1e-3)
        assert (found.what, found.batches) == ("ONNX and torch", 2)
    with pytest.raises(ModelError, match="Expected ONNX and torch to differ by at most"):
        found.check_equal()


@pytest.mark.slow
def test_models_without_a_cache_are_refused(tmp_path: Path) -> None:
    for name in ("bert", "whisper", "vit"):
        with pytest.raises(ModelError, match=r"Expected a model that reads text and generates"):
            export_generation(stock(name), tmp_path)
    loaded = stock("marian")
    kept = [head for head in loaded.heads if head.site != "decoder.self"]
    none = as_loaded(compact(loaded, Plan.keeping(loaded.heads, kept)), None)
    with pytest.raises(ModelError, match="with a head in the decoder's self-attention"):
        export_generation(none, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_model_that_cannot_generate_is_named(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stock T5 gives its decoder's cache the encoder's length."""
    loaded = stock("llama")
    export_generation(loaded, tmp_path)
    monkeypatch.setattr(
        exporting, "session", lambda path, threads: Session(written["decoder.onnx"], 0)
    )
    uneven, data = as_loaded(tiny.MODELS["t5"](), None), Data([tiny_inputs(stock("t5").model)])
    with pytest.raises(ModelError, match=r"to generate, but it fails: .*without --cache"):
        compare_generation(uneven, tmp_path, data, ("torch", "ONNX"))
