"""Holding: layers that read another's keys, and latents, stream as masks say."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headcount
from headcount.cache import (
    CacheOptions,
    CachePlan,
    StreamingLayer,
    check_cache_plan,
    plan_cache,
    plan_for_cache,
    plan_of,
    streamable,
    streaming_cache,
    streaming_masks,
)
from headcount.cache.holding import holding_of
from headcount.cache.kvpress import kvpress_scores
from headcount.core import InputError, ModelError
from headcount.corpora import Corpus
from headcount.models import Loaded
from tests import saved, tiny
from tests.cache.families import LATENT, SHARING, family
from tests.cache.test_judging import TEXTS

SINK, RECENT, NEW = 3, 6, 20
LENGTHS = (29, 11, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARING)
def test_a_layer_that_reads_another_ones_keys_has_no_groups(name: str) -> None:
    model, anatomy = family(name)
    holding = holding_of(model, anatomy)
    assert holding.counts == (2, 2, 2, 0, 0)
    assert [each.reads for each in holding.layers] == [0, 1, 2, 1, 2]
    assert streamable(model, anatomy) == ((0, 0), (0, 1), (2, 0), (2, 1))  # layer 1 slides


@pytest.mark.once
@pytest.mark.parametrize("name", LATENT)
def test_latents_are_one_group_of_all_heads(name: str) -> None:
    model, anatomy = family(name)
    assert streamable(model, anatomy) == ((0, 0), (1, 0))
    message = "which has 2 layers x 1 key/value groups, got one of 2 layers x 5"
    with pytest.raises(InputError, match=message):
        check_cache_plan(CachePlan(((True,) * 5, (False,) * 5)), model, anatomy)


def generated(name: str, plan: CachePlan, **options: Any) -> tuple[Tensor, Tensor, Any]:
    """Logits of generated tokens with a streaming cache, those of masks, and the cache."""
    model, anatomy = family(name)
    batch = tiny.inputs(model, LENGTHS, "left")
    with streaming_cache(model, plan, anatomy) as held:
        output: Any = model.generate(
            **batch,
            past_key_values=held,
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **options,
        )
    more = torch.ones(len(LENGTHS), NEW, dtype=torch.long)
    mask_BN = torch.cat([batch["attention_mask"], more], 1)
    positions_BN = (mask_BN.cumsum(1) - 1).clamp_min(0)
    given = {"attention_mask": mask_BN, "position_ids": positions_BN}
    with torch.no_grad(), streaming_masks(model, plan, anatomy):
        masked = model(output.sequences, **given).logits[:, max(LENGTHS) - 1 : -1]
    return torch.stack(output.logits, 1), masked, held


PLANS = {
    **dict.fromkeys(SHARING, ((0, 0), (2, 1))),  # one group each of layers that are split
    **dict.fromkeys(LATENT, ((1, 0),)),
}


@pytest.mark.once
@pytest.mark.parametrize("options", [{}, {"prefill_chunk_size": 4}], ids=str)
@pytest.mark.parametrize("all_stream", [True, False])
@pytest.mark.parametrize("name", PLANS)
def test_logits_are_those_of_masks(name: str, all_stream: bool, options: dict[str, Any]) -> None:
    model, anatomy = family(name)
    chosen = streamable(model, anatomy) if all_stream else PLANS[name]
    plan = plan_for_cache(model, chosen, SINK, RECENT, anatomy)
    found, masked, held = generated(name, plan, **options)
    limit = 1e-6 if found.dtype == torch.float64 else 2e-5
    assert (found - masked).abs().max() <= limit * masked.abs().max()
    streaming = [each for each in held.layers if isinstance(each, StreamingLayer)]
    assert len(streaming) == len({layer for layer, _ in chosen})
    for layer in streaming:  # keys of the window, which those that read them later saw, too
        assert {each.shape[2] for each in layer.streaming} == {SINK + RECENT - 1}
        if name in LATENT:
            assert {each.shape[1] for each in layer.streaming} == {1}


def test_a_score_counts_by_the_layer_that_needs_it_most() -> None:
    model, anatomy = family("gemma4")
    scores = np.array([1.0, 2.0, 0.0, 0.0, 5.0, 6.0, 9.0, 8.0, 7.0, 3.0])
    assert holding_of(model, anatomy).of_groups(scores).tolist() == [1, 2, 9, 8, 7, 6]


@pytest.mark.parametrize("name", SHARING)
def test_kvpress_scores_what_is_held(name: str) -> None:
    """Layers that read another one's keys rotate queries alone."""
    model, anatomy = family(name)
    scores = kvpress_scores(Loaded(model, None, name), [torch.arange(5, 60)])
    assert len(scores) == sum(holding_of(model, anatomy).counts)
    assert ((scores > 0) & (scores <= 1)).all()


def test_kvpress_does_not_know_latents() -> None:
    model, anatomy = family("deepseek_v3")
    with pytest.raises(ModelError, match="made of latents.* Use --score retrieval"):
        kvpress_scores(Loaded(model, None, "latent"), [torch.arange(5, 60)])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemma4", "minicpm3"])
def test_a_plan_is_chosen_and_judged(name: str, tmp_path: Path) -> None:
    """Rows of the table are groups that the cache holds, and so are those of the plan."""
    other = headcount.load(saved.llama(tmp_path))
    config = copy.deepcopy(family(name)[0].config)
    config.vocab_size = config.vocab_size_per_layer_input = other.model.config.vocab_size
    config.max_position_embeddings = 512
    model = tiny.seeded(type(family(name)[0])(config))
    loaded = Loaded(model, other.tokenizer, name)
    options = CacheOptions(
        score="distance", lengths=(150,), recent=60, per_length=2, needles=1, sentences=1
    )
    found = plan_cache(loaded, Corpus(TEXTS), options)
    counts = holding_of(model, loaded.anatomy).counts
    assert len(found.groups) == sum(counts)
    assert tuple(map(len, plan_of(found).full)) == counts
    assert found.record.able == len(streamable(loaded))
    assert len(plan_of(found).streaming) == found.record.able // 2
    with streaming_cache(loaded, plan_of(found)):
        pass
