"""The vision tower of a model of pictures and words is analysed as a model of images."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount import Corpus, Options, analyze
from headcount.core import ModelError
from headcount.models import tower_of
from tests import tiny_pictures as tiny


@pytest.mark.filterwarnings("ignore:.*saw no image")
@pytest.mark.parametrize("kind", ["llava", pytest.param("gemma", marks=pytest.mark.slow)])
def test_weights_are_those_inside_the_whole_model(kind: str, tmp_path: Path) -> None:
    """Of an eager stock model that reads each picture beside a text."""
    paths = [tiny.picture(tmp_path / f"{n}.png", (19 + n, 16), seed=n) for n in range(5)]
    loaded = tiny.loaded(kind)
    model: Any = loaded.model
    found = analyze(loaded, Corpus(paths), Options())
    own, tower = model.config._attn_implementation, tower_of(loaded).model
    maps, processor = list[list[np.ndarray]](), loaded.processor

    def hear(_: Any, given: Any, named: dict[str, Any], __: Any) -> None:
        pixels = named.get("pixel_values", given[0] if given else None)
        with torch.no_grad():
            every = tower.forward(pixels, output_attentions=True).attentions
        maps.append([each[0].double().numpy() for each in every])

    model.set_attn_implementation("eager")
    handle = tower.register_forward_hook(hear, with_kwargs=True)
    mark = {"gemma": "<start_of_image>"}.get(kind, "<image>")
    for path in paths:
        images = [[tiny.opened(path)]]
        with torch.no_grad():
            model(**processor(text=[f"{mark} what"], images=images, return_tensors="pt"))
    handle.remove()
    model.set_attn_implementation(own)
    names = [f"enc.{layer}.{head}" for layer in range(2) for head in range(2)]
    assert found.heads.frame["head"].tolist() == names == [*map(str, tower_of(loaded).heads)]
    for number, name in enumerate(names):
        layer, head = divmod(number, 2)
        A_BQK = np.stack([each[layer][head] for each in maps])
        expected = {
            "entropy": -(A_BQK * np.log(A_BQK)).sum(-1).mean(),
            "attn_self": A_BQK.diagonal(axis1=1, axis2=2).mean(),
        }
        if A_BQK.shape[-1] > 16:
            expected["attn_class"] = A_BQK[..., 0].mean()
        row = found.heads.frame.set_index("head").loc[name]
        for column, value in expected.items():
            assert row[column] == pytest.approx(value, abs=2e-5), (name, column)


@pytest.mark.filterwarnings("ignore:.*saw no image")
def test_a_tower_that_reads_rows_of_patches_is_refused(tmp_path: Path) -> None:
    corpus = Corpus([tiny.picture(tmp_path / "0.png")])
    with pytest.raises(
        ModelError, match="a vision tower that reads images of one size, got .*qwen"
    ):
        analyze(tiny.loaded("qwen"), corpus)
