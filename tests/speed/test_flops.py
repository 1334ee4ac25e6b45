"""FLOPs equal a count by hand, also for fused attention on the CPU."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, PreTrainedModel

from headcount.speed import flops
from headcount.speed.inputs import forward, generation
from tests import tiny
from tests.examined import examined
from tests.textbook.flops import of_attention, of_feed_forward, of_product

HIDDEN, HEADS, INNER, LAYERS, TOKENS = 55, 5, 23, 2, 13


def counted(model: PreTrainedModel, batch: int = 1, tokens: int = TOKENS) -> int:
    ids_BN = torch.full((batch, tokens), tiny.FIRST_ID, device=model.device)
    with torch.inference_mode():
        return flops(forward(model.eval(), ids_BN, 0))


def encoder(device: str = "cpu", implementation: str = "sdpa") -> PreTrainedModel:
    options: dict[str, Any] = {"attn_implementation": implementation}
    config = BertConfig(
        vocab_size=40,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        **options,
    )
    with torch.device(device):
        return BertModel(config, add_pooling_layer=False)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_an_encoder_by_hand(implementation: str) -> None:
    attention = of_attention(HIDDEN, HIDDEN // HEADS, HEADS, HEADS, TOKENS, TOKENS)
    layer = attention + of_feed_forward(HIDDEN, INNER, TOKENS)
    assert counted(encoder(implementation=implementation)) == LAYERS * layer


def test_groups_by_hand() -> None:
    """Six query heads of 10 share two key/value heads; the vocabulary is a map, too."""
    model, _ = examined("llama")
    config = model.config
    layer = of_attention(config.hidden_size, 10, 6, 2, TOKENS, TOKENS)
    layer += of_feed_forward(config.hidden_size, 23, TOKENS, maps=3)
    vocabulary = of_product(TOKENS, config.hidden_size, config.vocab_size)
    assert counted(model) == 2 * layer + vocabulary


def test_a_model_without_numbers_counts_the_same() -> None:
    assert counted(encoder("meta")) == counted(encoder())


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "llama", "marian", "t5"])
def test_rows_cost_the_same(name: str) -> None:
    model, _ = examined(name)
    assert counted(model, batch=3) == 3 * counted(model)


def test_a_generation_counts_every_step_once() -> None:
    """With a cache, each step has one query, and its keys are all tokens so far."""
    model, _ = examined("gpt2")
    config, new = model.config, 3
    ids_BN = torch.full((1, TOKENS), tiny.FIRST_ID)
    with torch.inference_mode():
        found = flops(generation(model.eval(), ids_BN, new))
    hidden, heads = config.n_embd, config.n_head

    def step(queries: int, keys: int) -> int:
        one = of_attention(hidden, hidden // heads, heads, 0, queries, keys)
        one += 2 * of_product(queries, hidden, hidden)  # keys and values of new tokens only
        one += of_feed_forward(hidden, config.n_inner or 4 * hidden, queries)
        return config.n_layer * one + of_product(1, hidden, config.vocab_size)

    steps = [step(TOKENS, TOKENS)] + [step(1, TOKENS + each) for each in range(1, new)]
    assert found == sum(steps)
