"""The vision tower of a model of pictures and words is analysed as a model of images."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from headcount import Corpus, Options, analyze
from headcount.core import ModelError
from headcount.models import tower_of
from headcount.models.towers import SIDE
from headcount.tap import Block, Tap, examine, tapped
from headcount.testing import leaving_no_trace
from tests import tiny_pictures as tiny
from tests.textbook import towers

MARKS = {
    "gemma": "<start_of_image>",
    "qwen": "<|vision_start|> <|image_pad|> <|vision_end|>",
    "qwen3": "<|vision_start|> <|image_pad|> <|vision_end|>",
    "internvl": "<IMG_CONTEXT>",
}
LAST = ("idefics", "smolvlm", "internvl")
"""Kinds whose processor writes the whole picture behind its tiles."""
EVERYDAY = ("llava", "idefics", "qwen")
KINDS = [
    pytest.param(kind, marks=() if kind in EVERYDAY else pytest.mark.slow) for kind in tiny.KINDS
]
Maps = dict[torch.nn.Module, list[np.ndarray]]


@contextmanager
def recording(config: Any, maps: Maps) -> Iterator[None]:
    """Inside, attention of a configuration is a plain softmax that keeps its weights."""

    def attend(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any
    ) -> Any:
        mask, scores_BHQK = attention_mask, query @ key.transpose(2, 3) * kwargs["scaling"]
        weights_BHQK = (scores_BHQK if mask is None else scores_BHQK + mask).softmax(-1)
        maps.setdefault(module, []).append(weights_BHQK.double().numpy())
        return (weights_BHQK @ value).transpose(1, 2), weights_BHQK

    own = config._attn_implementation
    AttentionInterface.register("recorded", attend)
    AttentionMaskInterface.register("recorded", eager_mask)
    config._attn_implementation = "recorded"
    try:
        yield
    finally:
        config._attn_implementation = own


def inside_the_whole(loaded: Any, kind: str, paths: list[str]) -> list[list[np.ndarray]]:
    """Weights [head, query, key] of each picture and layer, in the model that reads it in a text.

    Tokens are patches line by line.
    """
    found, vision = [], loaded.model.config.vision_config
    for path in paths:
        image = tiny.opened(path)
        if kind in ("qwen", "qwen3"):
            image = image.resize((SIDE, SIDE))
        text = [f"{MARKS.get(kind, '<image>')} what"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the processor's own code
            inputs = loaded.processor(text=text, images=[[image]], return_tensors="pt")
        maps: Maps = {}
        with torch.no_grad(), recording(vision, maps):
            loaded.model(**inputs)
        if kind not in ("qwen", "qwen3"):
            tile = -1 if kind in LAST else 0
            found.append([each[tile] for [each] in maps.values()])
            continue
        _, rows, columns = inputs["image_grid_thw"][0].tolist()
        patches = towers.by_squares(rows, columns, 2)
        if kind == "qwen":  # windows of 16 pixels, which are 2 x 2 squares
            patches = towers.by_windows(rows, columns, 2, 2)
        found.append(
            [
                np.stack([towers.whole_map([w[0, head] for w in its], patches) for head in (0, 1)])
                for its in maps.values()
            ]
        )
    return found


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_inside_the_whole_model(kind: str, tmp_path: Path) -> None:
    """Of an eager stock model that reads each picture beside a text."""
    paths = [tiny.picture(tmp_path / f"{n}.png", (19 + n, 16), seed=n) for n in range(3)]
    loaded = tiny.loaded(kind)
    found = analyze(loaded, Corpus(paths), Options(null=False))
    maps = inside_the_whole(loaded, kind, paths)
    names = [f"enc.{layer}.{head}" for layer in range(2) for head in range(2)]
    assert found.heads.frame["head"].tolist() == names == [*map(str, tower_of(loaded).heads)]
    for number, name in enumerate(names):
        layer, head = divmod(number, 2)
        A_BQK = np.stack([each[layer][head] for each in maps])
        logs_BQK = np.log(A_BQK, where=A_BQK > 0, out=np.zeros_like(A_BQK))
        expected = {
            "entropy": -(A_BQK * logs_BQK).sum(-1).mean(),
            "attn_self": A_BQK.diagonal(axis1=1, axis2=2).mean(),
        }
        if kind in ("llava", "next_llava", "internvl"):
            expected["attn_class"] = A_BQK[..., 0].mean()
        else:  # no class token: distances in the grid are those of all tokens
            expected["attn_distance"] = _mean_distance(A_BQK)
        row = found.heads.frame.set_index("head").loc[name]
        for column, value in expected.items():
            assert row[column] == pytest.approx(value, abs=2e-5), (name, column)


def _mean_distance(A_BQK: np.ndarray) -> float:
    side = round(A_BQK.shape[-1] ** 0.5)
    total = 0.0
    for query in range(side * side):
        for key in range(side * side):
            apart = np.hypot(query // side - key // side, query % side - key % side)
            total += A_BQK[:, query, key].mean() * apart
    return total / side**2


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_several_windows_and_pictures_are_one_call_of_a_layer(tmp_path: Path) -> None:
    """Qwen2.5-VL on two pictures of several windows, examined on one of one window."""
    loaded = tiny.loaded("qwen")
    tower: Any = next(each for each in loaded.model.modules() if "VisionT" in type(each).__name__)
    anatomy = examine(tower)
    assert [layer.module for layer in anatomy.layers] == ["blocks.0.attn", "blocks.1.attn"]
    assert [layer.output for layer in anatomy.layers] == [
        "blocks.0.attn.proj",
        "blocks.1.attn.proj",
    ]
    grids = torch.tensor([[1, 8, 6], [1, 4, 8]])
    pixels = torch.randn(80, 3 * 2 * 16, generator=torch.Generator().manual_seed(0))
    inputs = {"hidden_states": pixels, "grid_thw": grids}
    maps: Maps = {}
    with torch.no_grad():
        stock = tower(**inputs).last_hidden_state
        with recording(tower.config, maps):
            tower(**inputs)
    found = dict[int, torch.Tensor]()

    def hear(block: Block) -> None:
        found[block.layer.layer] = block.weights_BHQK

    with torch.no_grad(), leaving_no_trace(tower, inputs), tapped(tower, hear, anatomy=anatomy):
        own = tower(**inputs).last_hidden_state
        with Tap(tower, anatomy, gates={}):  # inside another
            nested = tower(**inputs).last_hidden_state
    torch.testing.assert_close(own, stock, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(nested, stock, atol=1e-5, rtol=1e-4)
    gates = {layer.layer_id: torch.zeros(2) for layer in anatomy.layers}
    with torch.no_grad(), Tap(tower, anatomy, gates=gates):
        gated = tower(**inputs).last_hidden_state
        with Tap(tower, anatomy):  # gates around it stay
            torch.testing.assert_close(tower(**inputs).last_hidden_state, gated)
    assert (gated - stock).abs().max() > 0.01
    for layer, its in enumerate(maps.values()):
        for head in (0, 1):
            expected = towers.whole_map([each[0, head] for each in its], list(range(80)))
            np.testing.assert_allclose(found[layer][0, head].numpy(), expected, atol=1e-6)
    assert [len(each) for each in maps.values()] == [6, 2]


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_a_model_without_a_tower_of_pixels_is_refused(tmp_path: Path) -> None:
    loaded = tiny.loaded("llava")
    loaded.model.model.vision_tower = torch.nn.Identity()
    with pytest.raises(ModelError, match="a vision tower that reads pixels, or patches .*llava"):
        analyze(loaded, Corpus([tiny.picture(tmp_path / "0.png")]))


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_pictures_that_are_no_tokens_are_refused(tmp_path: Path) -> None:
    """Mllama with chats and with images alone; texts are read."""
    loaded, path = tiny.loaded("mllama"), tiny.picture(tmp_path / "0.png")
    for corpus in (Corpus([tiny.chat(path)]), Corpus([path])):
        with pytest.raises(ModelError, match=r"pictures as tokens .*mllama.* look at pictures al"):
            analyze(loaded, corpus)
    found = analyze(loaded, Corpus(["what is it ?", "the red cat"]), Options(null=False))
    assert len(found.heads.frame) == 3
