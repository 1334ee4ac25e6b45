"""Masks: what a streaming group sees, with and without a cache."""

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from headcount.cache import CachePlan, streaming_masks
from tests import examined, tiny
from tests.textbook import streaming

SINK, RECENT, SIZE = 2, 5, 19
FULL = {
    "llama": ((True, False), (False, False)),
    "qwen3": ((False, True), (True, True)),
    "gpt2": ((True, False, False, True, False), (False, True, False, False, True)),
    "gpt_neox": ((False, False, True, True, True), (False,) * 5),
}
"""Groups of tiny models that keep all keys: unequal in all layers; all or none in some."""


def batch(lengths: tuple[int, ...]) -> tuple[Tensor, Tensor, list[int]]:
    """Random tokens padded on the left, their mask, and each row's first token."""
    generator = torch.Generator().manual_seed(5)
    firsts = [SIZE - length for length in lengths]
    ids_BN = torch.randint(tiny.FIRST_ID, tiny.VOCAB, (len(lengths), SIZE), generator=generator)
    mask_BN = torch.tensor([[int(n >= first) for n in range(SIZE)] for first in firsts])
    return ids_BN, mask_BN, firsts


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("lengths", [(SIZE,), (SIZE, 11, 3)], ids=str)
def test_masks_are_those_of_the_definition(name: str, lengths: tuple[int, ...]) -> None:
    """The stock eager model with a mask for every head, read at once."""
    model, anatomy = examined.examined(name)
    ids_BN, mask_BN, firsts = batch(lengths)
    modules = [each.module for each in anatomy.layers]
    expected = streaming.logits(model, modules, FULL[name], SINK, RECENT, ids_BN, firsts)
    plan = CachePlan(FULL[name], SINK, RECENT)
    positions_BN = (mask_BN.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad():
        given = {"attention_mask": mask_BN, "position_ids": positions_BN}
        dense = model(ids_BN, **given).logits
        with streaming_masks(model, plan, anatomy):
            found = model(ids_BN, **given).logits
        again = model(ids_BN, **given).logits
    is_token_BN = mask_BN.bool()
    torch.testing.assert_close(found[is_token_BN], expected[is_token_BN], atol=1e-5, rtol=1e-5)
    assert (found - dense)[is_token_BN].abs().max() > 0.1
    assert torch.equal(dense, again)


@pytest.mark.parametrize("name", FULL)
def test_masks_are_the_same_behind_a_cache(name: str) -> None:
    """A text read at once, and in a prompt and single tokens, padded on the left."""
    model, anatomy = examined.examined(name)
    ids_BN, mask_BN, _ = batch((SIZE, 11, 3))
    positions_BN = (mask_BN.cumsum(1) - 1).clamp_min(0)
    cache, found = DynamicCache(config=model.config), []
    with torch.no_grad(), streaming_masks(model, CachePlan(FULL[name], SINK, RECENT), anatomy):
        whole = model(ids_BN, attention_mask=mask_BN, position_ids=positions_BN).logits
        for start, end in ((0, 10), *((n, n + 1) for n in range(10, SIZE))):
            output = model(
                ids_BN[:, start:end],
                attention_mask=mask_BN[:, :end],
                position_ids=positions_BN[:, start:end],
                past_key_values=cache,
            )
            found.append(output.logits)
    is_token_BN = mask_BN.bool()
    torch.testing.assert_close(
        torch.cat(found, 1)[is_token_BN], whole[is_token_BN], atol=1e-5, rtol=1e-5
    )
