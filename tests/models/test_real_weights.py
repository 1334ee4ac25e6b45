"""Models trained by others, from PyPI packages: what works for tiny random ones works for them.

Each test is skipped, naming the package, where it is not installed; docs/models.md says how.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headcount
from headcount import Loaded, Plan
from headcount.core import ModelError
from headcount.corpora import Corpus, Sentence
from headcount.tasks import TaskSplits, evaluate
from tests import packaged

pytestmark = pytest.mark.slow

REACTIONS = (
    "CCO.CC(=O)O>>CC(=O)OCC",
    "CC[O-].[Na+].BrCC>>CCOCC",
    "O=C(Cl)c1ccccc1.NCC>>CCNC(=O)c1ccccc1",
    "OB(O)c1ccccc1.Brc1ccncc1>>c1ccc(cc1)-c1ccncc1",
    "CC(C)=O.NN>>CC(C)=NN",
)
"""An esterification, an ether synthesis, an acylation, a coupling and a condensation."""
ANTIBODIES = (
    "[HEAVY] [HUMAN] E V Q L V E S G G G L V Q P G G S L R L S C A A S G F T F S S Y A M S W V R Q",
    "[LIGHT] [HUMAN] D I Q M T Q S P S S L S A S V G D R V T I T C R A S Q S I S S Y L N W Y Q Q K",
    "[HEAVY] [MOUSE] Q V Q L Q Q S G A E L A R P G A S V K M S C K A S G Y T F T R Y T M H W V K Q",
)
"""The usual beginnings of chains."""
PROSE = (
    "The old dog slept under the kitchen table all afternoon.",
    "She bought three apples, a loaf of bread and some cheese.",
    "The capital of France is Paris.",
)
HEADS = {
    "smollm2": "decoder.self 30 layers x 9 heads",
    "rxnfp": "encoder.self 12 layers x 4 heads",
    "rxnmapper": "encoder.self 12 layers x 8 heads",
    "iglm": "decoder.self 4 layers x 8 heads",
    "whisper": ", ".join(
        f"{site} 4 layers x 6 heads" for site in ("encoder.self", "decoder.self", "decoder.cross")
    ),
}
TEXTS = {"smollm2": PROSE, "rxnfp": REACTIONS, "rxnmapper": REACTIONS, "iglm": ANTIBODIES}
TASKS = {"rxnfp": "masked-lm", "iglm": "causal-lm"}

Get = Callable[[str], Loaded]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Get]:
    """Load a model of a package; its folder is made once."""

    @cache
    def get(name: str) -> Loaded:
        package, path, save = packaged.PACKAGED[name]
        needed = [package, "gguf"] if name == "smollm2" else [package]
        missing = [each for each in needed if packaged.inside(each) is None]
        if missing:
            pytest.skip(f"needs the package {' and '.join(missing)} (docs/models.md)")
        source = packaged.inside(package, *path)
        assert source is not None
        folder = tmp_path_factory.mktemp(name) / name
        save(source, folder)
        inputs = _sound(folder) if name == "whisper" else None
        return headcount.load(folder, inputs=inputs)

    yield get
    get.cache_clear()


def _sound(folder: Path) -> dict[str, torch.Tensor]:
    """Two rising tones of unequal lengths as the model's own features, beside unequal texts."""
    from transformers import WhisperFeatureExtractor

    extract: Any = WhisperFeatureExtractor.from_pretrained(folder)
    waves = [np.sin(np.linspace(0, 900, length) ** 1.4) for length in (32_000, 21_000)]
    features = extract(waves, sampling_rate=16_000, return_tensors="pt").input_features
    ids = torch.tensor([[50257, 50362, 383, 1468, 3290], [50257, 50362, 1375, 50256, 50256]])
    return {
        "input_features": features,
        "decoder_input_ids": ids,
        "decoder_attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
    }


@pytest.mark.parametrize("name", HEADS)
def test_heads_are_found_and_checked(real: Get, name: str) -> None:
    loaded = real(name)
    assert str(loaded.heads) == HEADS[name]
    assert max(loaded.anatomy.differences.values()) < 1e-5
    assert all(layer.output is not None for layer in loaded.anatomy.layers)


@pytest.mark.parametrize("name", TEXTS)
def test_they_are_analysed(real: Get, name: str) -> None:
    """Weights are finite, sharper than uniform somewhere, and known words are not unknown."""
    loaded = real(name)
    corpus = Corpus.from_sentences([Sentence(text) for text in TEXTS[name]])
    table = headcount.analyze(loaded, corpus).heads
    confidence = np.array([table.row(str(head))["confidence"] for head in loaded.heads])
    assert len(confidence) == len(loaded.heads) and np.isfinite(confidence).all()
    assert 0 < confidence.min() and 0.5 < confidence.max() <= 1
    tokenizer: Any = loaded.tokenizer
    ids = [i for text in TEXTS[name] for i in tokenizer(text)["input_ids"]]
    assert tokenizer.unk_token_id is None or tokenizer.unk_token_id not in ids


@pytest.mark.parametrize("name", TASKS)
def test_they_are_pruned(real: Get, name: str, tmp_path: Path) -> None:
    """Gated, compact and reloaded model are equal; what was trained is much better than chance."""
    loaded = real(name)
    data = {"text": list(TEXTS[name])}
    splits = TaskSplits.build(TASKS[name], loaded, train=data, dev=data)
    keep = len(loaded.heads) * 2 // 3
    pruned = headcount.prune(loaded, splits, "gradient", keep=keep)
    headcount.save_pruned(pruned, tmp_path / "small")
    again = headcount.load(tmp_path / "small")
    assert len(again.heads) == keep
    assert again.model.num_parameters() < loaded.model.num_parameters()
    assert evaluate(loaded.model, splits.dev).loss < 0.7 * np.log(loaded.model.config.vocab_size)


def test_layers_that_share_weights_are_not_pruned(real: Get, tmp_path: Path) -> None:
    """ALBERT calls one module twelve times; gates work, cutting is refused with the reason."""
    from headcount.artifact import save_compact

    loaded = real("rxnmapper")
    (refused,) = [each for each in headcount.diagnose(loaded.name) if not each.works]
    assert refused.subject == "compaction" and "share the attention module" in refused.text
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if head.index])
    with pytest.raises(
        ModelError, match="share the attention module .* gated but not made smaller"
    ):
        save_compact(loaded, plan, tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_sound(real: Get, tmp_path: Path) -> None:
    """Whisper is gated, made smaller and read again on features of sound."""
    from headcount.artifact import save_compact

    loaded = real("whisper")
    heads = {f"{site}.{layer}.0": 0.0 for site in ("enc", "dec", "cross") for layer in range(4)}
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if str(head) not in heads])
    assert loaded.inputs is not None
    with torch.inference_mode():
        dense = loaded.model(**loaded.inputs).logits
        with headcount.gated(loaded.model, heads):
            gated = loaded.model(**loaded.inputs).logits
    save_compact(loaded, plan, tmp_path / "small")
    again = headcount.load(tmp_path / "small", inputs=loaded.inputs)
    with torch.inference_mode():
        compact = again.model(**loaded.inputs).logits
    assert len(again.heads) == 60
    assert (gated - dense).abs().max() > 0.1
    real_tokens = loaded.inputs["decoder_attention_mask"].bool()
    torch.testing.assert_close(compact[real_tokens], gated[real_tokens], rtol=0, atol=2e-4)


@pytest.mark.parametrize("lengths", [(300,), (300, 41, 7)], ids=str)
def test_a_streaming_cache_gives_the_logits_of_masks(real: Get, lengths: tuple[int, ...]) -> None:
    """Every other group of SmolLM2 streams, behind a prompt that is read in chunks."""
    loaded, num_new = real("smollm2"), 20
    model: Any = loaded.model
    groups = headcount.cache.streamable(loaded)
    plan = headcount.cache.plan_for_cache(loaded, groups[::2], sink=4, recent=16)
    generator = torch.Generator().manual_seed(3)
    ids_BN = torch.randint(20, 40000, (len(lengths), max(lengths)), generator=generator)
    mask_BN = torch.tensor([[0] * (max(lengths) - each) + [1] * each for each in lengths])
    with headcount.streaming_cache(loaded, plan) as cache:
        output: Any = model.generate(
            ids_BN,
            attention_mask=mask_BN,
            past_key_values=cache,
            prefill_chunk_size=128,
            max_new_tokens=num_new,
            min_new_tokens=num_new,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    mask_BN = torch.cat([mask_BN, mask_BN.new_ones(len(lengths), num_new)], 1)
    positions_BN = (mask_BN.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad(), headcount.streaming_masks(loaded, plan):
        given = {"attention_mask": mask_BN, "position_ids": positions_BN}
        expected = model(output.sequences, **given).logits[:, max(lengths) - 1 : -1]
    difference = (torch.stack(output.logits, 1) - expected).abs().max()
    assert difference <= 1e-5 * expected.abs().max()
