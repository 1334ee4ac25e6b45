"""A cache that streams: its logits are those of masks, and it keeps the keys of the plan."""

import copy
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from headcount.cache import CachePlan, cache_bytes, streaming_cache, streaming_masks
from headcount.cache.planning import size_of
from headcount.core import InputError
from headcount.models import Loaded
from headcount.tap import Anatomy, examine
from tests import tiny
from tests.cache.families import LATENT, SHARING, family
from tests.cache.test_masks import FULL

SINK, RECENT = 3, 13
LENGTHS = (29, 11, 2)
"""Tokens of three prompts: more than are kept, fewer, and fewer than the first that are kept."""


@cache
def long(name: str) -> tuple[Any, Anatomy]:
    """A tiny model of `tests/tiny.py` that takes 400 tokens."""
    config: Any = copy.deepcopy(tiny.MODELS[name]().config)
    config.max_position_embeddings = 400
    make: Any = type(tiny.MODELS[name]())
    model: Any = tiny.seeded(make(config))
    return model, examine(model)


def prompts(lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Random tokens, padded on the left."""
    model, _ = long("llama")
    return tiny.inputs(model, lengths, "left")


def under_masks(name: str, plan: CachePlan, ids_BN: Tensor, mask_BN: Tensor) -> Tensor:
    """Logits of a text that is read at once under the masks of a plan."""
    model, anatomy = long(name)
    positions_BN = (mask_BN.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad(), streaming_masks(model, plan, anatomy):
        return model(ids_BN, attention_mask=mask_BN, position_ids=positions_BN).logits


def check_generation(name: str, lengths: tuple[int, ...], new: int, **options: Any) -> None:
    """Generate with a cache that streams, and compare all logits with those of masks."""
    model, anatomy = long(name)
    plan, batch = CachePlan(FULL[name], SINK, RECENT), prompts(lengths)
    with streaming_cache(model, plan, anatomy) as held:
        output: Any = model.generate(
            **batch,
            past_key_values=held,
            max_new_tokens=new,
            min_new_tokens=new,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            **options,
        )
    more = torch.ones(len(lengths), new, dtype=torch.long)
    mask_BN = torch.cat([batch["attention_mask"], more], 1)
    expected = under_masks(name, plan, output.sequences, mask_BN)[:, max(lengths) - 1 : -1]
    torch.testing.assert_close(torch.stack(output.logits, 1), expected, atol=1e-5, rtol=1e-5)
    assert held.get_seq_length() == max(lengths) + new - 1
    layers: Any = held.layers
    for layer, row in zip(layers, plan.full, strict=True):
        if not all(row):
            tokens = max(lengths) + new - 1
            num_full = sum(row)
            assert layer.full[0].shape[1:3] == (num_full, tokens)
            size = (len(row) - num_full, SINK + RECENT - 1)
            assert [each.shape[1:3] for each in layer.streaming] == [size, size]


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("lengths", [LENGTHS[:1], LENGTHS], ids=str)
def test_logits_are_those_of_masks(name: str, lengths: tuple[int, ...]) -> None:
    check_generation(name, lengths, 300 if name == "qwen3" else 50)


@pytest.mark.parametrize("chunk", [1, 4, 17])
@pytest.mark.parametrize("lengths", [LENGTHS[:1], LENGTHS], ids=str)
def test_a_prompt_can_be_read_in_chunks(chunk: int, lengths: tuple[int, ...]) -> None:
    check_generation("qwen3", lengths, 9, prefill_chunk_size=chunk)


@pytest.mark.parametrize("lengths", [LENGTHS[:1], LENGTHS], ids=str)
def test_queries_of_a_prompt_are_read_in_blocks(
    lengths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headcount.cache.holding.BLOCK", 5)
    check_generation("qwen3", lengths, 9)


def generated(
    name: str, lengths: tuple[int, ...], assistant: PreTrainedModel | None = None, **options: Any
) -> tuple[Any, Any]:
    """What is generated with a cache that streams, and under masks with a stock cache."""
    model, anatomy = long(name)
    plan, batch = CachePlan(FULL[name], SINK, RECENT), prompts(lengths)
    given = {"max_new_tokens": 40, "do_sample": False, "return_dict_in_generate": True}
    given |= {"output_scores": True, **batch}
    helped = {} if assistant is None else {"assistant_model": assistant}
    with streaming_cache(model, plan, anatomy) as held:
        streamed = model.generate(**given, **options, **helped, past_key_values=held)
    with streaming_masks(model, plan, anatomy):
        masked = model.generate(**given, **options)
    return streamed, masked


def test_beam_search_is_that_of_masks() -> None:
    streamed, masked = generated("llama", LENGTHS, num_beams=4, num_return_sequences=3)
    assert torch.equal(streamed.sequences, masked.sequences)
    torch.testing.assert_close(streamed.sequences_scores, masked.sequences_scores)
    assert (streamed.beam_indices.diff() != 0).any()


@pytest.mark.parametrize("by", ["prompt", "assistant"])
def test_assisted_decoding_is_that_of_masks(by: str) -> None:
    """Guessed tokens are read at once, and those that were wrong are cropped."""
    lookup = {"prompt_lookup_num_tokens": 5} if by == "prompt" else {}
    assistant = copy.deepcopy(long("llama")[0])
    with torch.no_grad():
        assistant.get_output_embeddings().weight.mul_(-1)[::2].mul_(-1)  # half of its guesses
    helper = assistant if by == "assistant" else None
    streamed, masked = generated("llama", LENGTHS[:1], assistant=helper, **lookup)
    assert torch.equal(streamed.sequences, masked.sequences)
    for found, expected in zip(streamed.scores, masked.scores, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def read(model: PreTrainedModel, ids_BN: Tensor, held: Any, **given: Any) -> Tensor:
    with torch.no_grad():
        return model(ids_BN, past_key_values=held, **given).logits


@pytest.fixture
def text() -> Tensor:
    return prompts((59,))["input_ids"]


LLAMA = CachePlan(FULL["llama"], SINK, RECENT)


@pytest.mark.parametrize("start", [1, 12, 40])
def test_crop_goes_back(text: Tensor, start: int) -> None:
    """The last tokens are forgotten and others read, before and after keys were dropped."""
    model, anatomy = long("llama")
    expected = under_masks("llama", LLAMA, text, torch.ones_like(text))
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text[:, :start], held)
        held.activate_past_recording()
        read(model, text.flip(1)[:, :9], held)
        held.crop(-9)
        found = read(model, text[:, start:50], held)
        held.crop(0)
        found = torch.cat([found, read(model, text[:, 50:], held)], 1)
        assert held.get_seq_length() == 59
    torch.testing.assert_close(found, expected[:, start:], atol=1e-5, rtol=1e-5)


def test_crop_beyond_what_is_held_is_refused(text: Tensor) -> None:
    model, anatomy = long("llama")
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text, held)
        message = "last 12 keys, but cropping 2 tokens leaves 10: .*activate_past_recording"
        with pytest.raises(InputError, match=message):
            held.crop(-2)
        with pytest.raises(InputError, match="Expected minus the number of tokens .* got 2"):
            held.crop(2)
        held.crop(0)


def test_a_cache_is_copied_and_emptied(text: Tensor) -> None:
    """One prompt, two texts that go on, and then another text."""
    model, anatomy = long("llama")
    expected = under_masks("llama", LLAMA, text, torch.ones_like(text))
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text[:, :40], held)
        second = copy.deepcopy(held)
        read(model, text[:, :19], held)
        found = read(model, text[:, 40:], second)
        torch.testing.assert_close(found, expected[:, 40:], atol=1e-5, rtol=1e-5)
        held.reset()
        assert held.get_seq_length() == 0
        torch.testing.assert_close(read(model, text, held), expected, atol=1e-5, rtol=1e-5)


def test_rows_are_repeated_and_chosen() -> None:
    model, anatomy = long("llama")
    batch = prompts(LENGTHS)
    ids_BN, mask_BN = batch["input_ids"], batch["attention_mask"]
    more = torch.randint(tiny.FIRST_ID, tiny.VOCAB, (4, 5))
    rows = torch.tensor([2, 0, 0, 2])
    expected = under_masks(
        "llama",
        LLAMA,
        torch.cat([ids_BN[rows], more], 1),
        mask_4N := torch.cat([mask_BN[rows], torch.ones_like(more)], 1),
    )
    positions = (mask_4N.cumsum(1) - 1).clamp_min(0)
    size = ids_BN.shape[1]
    with streaming_cache(model, LLAMA, anatomy) as held:
        first = (mask_BN.cumsum(1) - 1).clamp_min(0)
        read(model, ids_BN, held, attention_mask=mask_BN, position_ids=first)
        held.batch_repeat_interleave(2)
        held.batch_select_indices(torch.tensor([5, 0, 1, 4]))
        given = {"attention_mask": mask_4N, "position_ids": positions[:, size:]}
        found = read(model, more, held, **given)
    torch.testing.assert_close(found, expected[:, size:], atol=1e-5, rtol=1e-5)


def test_bytes_are_those_of_the_keys_that_are_kept(text: Tensor) -> None:
    """Keys and values of float32: heads of 10, one group of layer 0 keeps all 59 tokens."""
    model, anatomy = long("llama")
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text, held)
        read(model, text[:, :1], held)
    each = 2 * 4 * 10
    assert held.num_bytes == each * (60 + 3 * (SINK + RECENT - 1))
    dense = model(text).past_key_values
    assert cache_bytes(dense) == each * 59 * 4


def test_nothing_is_left(text: Tensor) -> None:
    model, anatomy = long("llama")
    before = model(text).logits
    with pytest.raises(ZeroDivisionError), streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text, held)
        raise ZeroDivisionError
    assert torch.equal(model(text).logits, before)


def test_a_call_without_the_cache_is_refused(text: Tensor) -> None:
    model, anatomy = long("llama")
    with (
        streaming_cache(model, LLAMA, anatomy),
        pytest.raises(InputError, match="Expected a call with the streaming cache, got one witho"),
    ):
        model(text)


def test_the_cache_of_another_context_is_refused(text: Tensor) -> None:
    """After the block, under masks, and inside a second block."""
    model, anatomy = long("llama")
    message = "Expected the attention that reads a streaming cache, but the model has another"
    with streaming_cache(model, LLAMA, anatomy) as held:
        with streaming_masks(model, LLAMA, anatomy), pytest.raises(InputError, match=message):
            read(model, text, held)
        with streaming_cache(model, LLAMA, anatomy), pytest.raises(InputError, match="got one wi"):
            read(model, text, held)
    held.reset()
    with pytest.raises(InputError, match=message):
        read(model, text, held)


def test_a_mask_of_new_tokens_alone_is_refused() -> None:
    model, anatomy = long("llama")
    batch = prompts(LENGTHS)
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, batch["input_ids"], held, attention_mask=batch["attention_mask"])
        message = "whose row 1 began at token 18 before, got one that begins at 0"
        with pytest.raises(InputError, match=message):
            read(model, batch["input_ids"][:, :2], held)


@pytest.mark.slow
def test_layers_with_a_sliding_window_are_left_as_they_are() -> None:
    model, anatomy = long("gemma3_text")
    plan = CachePlan(((True, True), (False, True), (True, True)), SINK, RECENT)
    batch = prompts(LENGTHS)
    with streaming_cache(model, plan, anatomy) as held:
        output: Any = model.generate(
            **batch,
            past_key_values=held,
            max_new_tokens=40,
            min_new_tokens=40,
            output_logits=True,
            return_dict_in_generate=True,
            do_sample=False,
        )
    mask_BN = torch.cat([batch["attention_mask"], torch.ones(3, 40, dtype=torch.long)], 1)
    expected = under_masks("gemma3_text", plan, output.sequences, mask_BN)
    expected = expected[:, max(LENGTHS) - 1 : -1]
    torch.testing.assert_close(torch.stack(output.logits, 1), expected, atol=1e-5, rtol=1e-5)
    assert held.is_sliding == [True, False, True]


@pytest.mark.once
@pytest.mark.parametrize("name", ["llama", "gemma2", *SHARING, *LATENT])
def test_the_size_of_a_cache_is_that_of_its_tensors(name: str) -> None:
    """To a token: a window holds one token less once the next one is asked for."""
    model, _ = family(name) if name in (*SHARING, *LATENT) else long(name)
    size = size_of(Loaded(model, None, name))
    assert size is not None and size.weights == sum(each.nbytes for each in model.parameters())
    layers = model(torch.arange(1, 41)[None]).past_key_values.layers
    held = sum(each.keys.nbytes + each.values.nbytes for each in layers if each.keys is not None)
    a_token = sum(part.bytes_per_token for part in size.parts if part.window is not None)
    assert 0 <= size.of(40) - held <= a_token
    assert size.of(80) - size.of(40) == 40 * sum(
        part.bytes_per_token for part in size.parts if part.window is None
    )


def test_the_size_under_a_plan_is_that_of_its_cache(text: Tensor) -> None:
    model, anatomy = long("llama")
    with streaming_cache(model, LLAMA, anatomy) as held:
        read(model, text, held)
        read(model, text[:, :1], held)
    size = size_of(Loaded(model, None, "llama"))
    assert size is not None
    streaming = len(LLAMA.streaming) / sum(map(len, LLAMA.full))
    each = 2 * 4 * 10
    assert 0 <= size.of(60, streaming, SINK + RECENT) - held.num_bytes <= 3 * each
