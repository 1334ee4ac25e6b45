"""Heads whose weights are set by hand look from a word to its patch, or at one patch, whatever."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from torch import Tensor

from headcount import Analysis, Corpus, Loaded, Options, analyze
from headcount.pages.attention_view import view_of
from headcount.results import read_run
from tests import tiny_pictures as tiny

COLORS = {"red": (255, 0, 0), "dog": (0, 255, 0), "cat": (0, 0, 255)}
"""What each word names: a patch of a color."""
SPOT = 5
"""The patch at which a head always looks, and where half of all places are."""
NUM_PICTURES = 90
FINDS, STARES = "dec.0.0", "dec.0.1"
SHARP = 40.0
SLOW = (2, 3, 6, 7)
"""Dimensions of a head that hardly turn with the position."""


def pictures(folder: Path) -> list[dict[str, Any]]:
    """Chats about pictures, each with three patches of a color and links to them."""
    rng, rows = np.random.default_rng(0), []
    for number in range(NUM_PICTURES):
        pixels = np.zeros((16, 16, 3), np.uint8)
        others = [each for each in range(16) if each != SPOT]
        patches = rng.choice(others, 3, replace=False)
        patches[rng.integers(3)] = SPOT
        names, links = rng.permutation([*COLORS]).tolist(), []
        for name, patch in zip(names, patches, strict=True):
            top, left = (4 * int(each) for each in divmod(patch, 4))
            pixels[top : top + 4, left : left + 4] = COLORS[name]
            box = [left, top, left + 4, top + 4]
            links.append({"name": "named", "phrase": name, "boxes": [box]})
        path = folder / f"{number}.png"
        Image.fromarray(pixels).save(path)
        rows.append(
            tiny.chat(str(path), "describe it .", " ".join(names) + " .") | {"links": links}
        )
    return rows


def planted(rows: list[dict[str, Any]], num_heads: int = 3, seed: int = 0) -> Loaded:
    """A LLaVA of which two heads of the first layer are set, by what the layer reads."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        sizes: dict[str, Any] = tiny.SIZES | {"hidden_size": 48, "num_hidden_layers": 1}
        sizes |= {"num_attention_heads": num_heads, "num_key_value_heads": num_heads}
        seen: dict[str, Any] = tiny.SEEN | {"hidden_size": 32}
        rope = {"rope_type": "default", "rope_theta": 1e12}
        config = hf.LlavaConfig(
            text_config=hf.LlamaConfig(**sizes, rope_parameters=rope),
            vision_config=hf.CLIPVisionConfig(**seen),
            image_token_index=tiny.VOCABULARY["<image>"],
            vision_feature_layer=-1,
        )
        model: Any = hf.LlavaForConditionalGeneration(config).eval()
        _, processor = tiny.llava()
        loaded = Loaded(model, processor.tokenizer, "planted llava", processor=processor)
        with torch.no_grad():
            _plant(loaded, rows)
    return loaded


def _plant(loaded: Loaded, rows: list[dict[str, Any]]) -> None:
    model: Any = loaded.model
    tower = model.model.vision_tower
    for layer in tower.encoder.layers if hasattr(tower, "encoder") else tower.layers:
        for part in (layer.self_attn.out_proj, layer.mlp.fc2):
            part.weight.zero_()
            part.bias.zero_()
    embeddings = tower.embeddings
    embeddings.position_embedding.weight.zero_()
    embeddings.position_embedding.weight[1 + SPOT] = torch.randn(32)
    embeddings.patch_embedding.weight.normal_()
    model.get_input_embeddings().weight.normal_()
    own = model.model.language_model.layers[0].self_attn
    read_KW, keys = _read(loaded, rows)
    words = torch.tensor([[*tiny.VOCABULARY].index(each) for each in COLORS])
    norm = model.model.language_model.layers[0].input_layernorm
    said_3W = norm(model.get_input_embeddings()(words))
    inverse_WK = torch.linalg.pinv(read_KW.double(), rtol=1e-6)
    is_color_K3 = torch.tensor([[each == name for name in COLORS] for each, _ in keys])
    is_spot_K = torch.tensor([is_spot for _, is_spot in keys])
    own.q_proj.weight.zero_()  # so that the third head looks everywhere alike
    own.k_proj.weight[:16] = 0
    for number, dim in enumerate(SLOW[:3]):
        own.k_proj.weight[dim] = inverse_WK @ is_color_K3[:, number].double()
        target_3 = torch.eye(3, dtype=torch.float64)[number]
        own.q_proj.weight[dim] = SHARP * (torch.linalg.pinv(said_3W.double()) @ target_3)
    own.k_proj.weight[8 + SLOW[0]] = inverse_WK @ is_spot_K.double()
    own.q_proj.weight[8 + SLOW[0]] = SHARP * (
        torch.linalg.pinv(said_3W.double()) @ torch.ones(3).double()
    )


def _read(loaded: Loaded, rows: list[dict[str, Any]]) -> tuple[Tensor, list[tuple[str, bool]]]:
    """What the first layer reads of every kind of token, and the color of each and its place."""
    from headcount.models import encoder_of

    corpus, kept = Corpus(rows[:12]), list[Tensor]()
    encoder: Any = encoder_of(loaded, corpus)
    norm = loaded.model.model.language_model.layers[0].input_layernorm
    found: dict[tuple[str, bool, int], Tensor] = {}
    handle = norm.register_forward_hook(lambda *parts: kept.append(parts[2][0]))
    for pair in encoder.encode([*corpus]):
        ids = torch.tensor([pair.source.ids])
        loaded.model(**encoder.arguments([pair.sentence], ids, torch.ones_like(ids).bool()))
        pixels = np.asarray(Image.open(pair.sentence.pictures[0].path))
        patch = 0
        for place, token in enumerate(pair.source.ids):
            color, is_spot = "", False
            if token == encoder.picture_id:
                top, left = (4 * each for each in divmod(patch, 4))
                at = tuple(int(each) for each in pixels[top, left])
                color = next((name for name, its in COLORS.items() if its == at), "")
                is_spot, patch, token = patch == SPOT, patch + 1, -1
            found.setdefault((color, is_spot, token), kept[-1][place])
    handle.remove()
    return torch.stack([*found.values()]), [(color, is_spot) for color, is_spot, _ in found]


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    rows = pictures(tmp_path_factory.mktemp("pictures"))
    with pytest.warns(UserWarning, match="saw no image"):
        return analyze(planted(rows), Corpus(rows), Options(induction=False))


def test_the_head_that_finds_places_is_found(analysis: Analysis) -> None:
    roles = {head: [each.role for each in its] for head, its in analysis.record.roles.items()}
    assert "linking" in roles[FINDS]
    assert not any("linking" in its for head, its in roles.items() if head != FINDS)
    assert analysis.links is not None
    of_rows = analysis.links[analysis.links["direction"] == "query->key"].set_index("head")
    assert of_rows.loc[FINDS, "accuracy"] > 0.95


def test_a_head_that_stares_is_none(analysis: Analysis) -> None:
    """It finds as many places as the best fixed place does, which is its null."""
    assert analysis.links is not None
    of_rows = analysis.links[analysis.links["direction"] == "query->key"].set_index("head")
    stares = of_rows.loc[STARES]
    assert stares["accuracy"] == pytest.approx(stares["baseline"]) == pytest.approx(1 / 3)
    assert stares["baseline_offset"] == SPOT - 16


def test_examples_are_drawn_over_the_picture(analysis: Analysis, tmp_path: Path) -> None:
    """The head that finds places is shown on texts where it finds all of them."""
    analysis.write(tmp_path)
    run = read_run(tmp_path)
    over, *_, between = run.examples[FINDS]
    assert over.caption.endswith("the largest weight is there for 3 of 3")
    assert over.size == (16, 16) and len(over.regions) == 16 == len(over.keys)
    assert over.regions[SPOT] == pytest.approx((0.25, 0.25, 0.5, 0.5), abs=0.01)
    for word, patch in over.arcs:
        assert over.queries[word] in COLORS and over.weights_QK[word, patch] == 255
    view: Any = view_of(over, None)
    assert (
        view.words == over.queries and view.regions[4 * SPOT : 4 * SPOT + 4] == over.regions[SPOT]
    )
    assert not between.regions and "(picture)" in between.keys
