"""Heads replaced in a batch, against the stock model with one hook at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headcount.core import Head
from headcount.explanation import runs
from headcount.explanation.changes import Change, Look
from headcount.explanation.runs import Reading, Row, Run, aligned
from headcount.models import Loaded, Past
from tests import tiny
from tests.textbook import blocking
from tests.textbook import explanation as book

IDS, OTHER = (5, 9, 11, 23, 17, 8, 30), (5, 9, 14, 44, 17, 8, 30)
PLACES = (0, 1, 2, 2, 4, 5, 6)


def rows_of(loaded: Loaded) -> tuple[Row, Row]:
    decoder = (2, 7, 8, 9) if loaded.config.is_encoder_decoder else None
    readings = (Reading(-1, 7, 1.0), Reading(-1, 12, -1.0))
    return Row(IDS, decoder, readings, PLACES), Row(OTHER, decoder, readings, PLACES)


@pytest.fixture(params=["llama", "gpt2", "bert", "t5"])
def loaded(request: pytest.FixtureRequest) -> Loaded:
    return Loaded(tiny.MODELS[request.param](), None, request.param)


@pytest.mark.once
def test_each_head_is_replaced_in_its_own_row(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of several rows, which begin at the lowest layer that they change."""
    monkeypatch.setattr(runs, "TOKENS", 4 * len(IDS))
    row, other = rows_of(loaded)
    run, second = Run(loaded, row), Run(loaded, other)
    model, inputs, read = loaded.model, row.inputs(loaded), book.difference(-1, 7, 12)
    assert run.value == pytest.approx(read(_logits(model, inputs)), abs=2e-6)
    put = book.head_inputs(model, other.inputs(loaded))
    put = {
        (site, layer): each if site.startswith("decoder") and row.decoder_ids else each[[*PLACES]]
        for (site, layer), each in put.items()
    }
    zero = {key: torch.zeros_like(each) for key, each in put.items()}
    heads = [*loaded.heads][::-1]  # out of order
    ours = {layer: torch.zeros_like(each[:1]) for layer, each in run.outputs.items()}
    for outputs, instead in [(aligned(row, second.outputs), put), (ours, zero)]:
        found = run.values([Change([head], outputs) for head in heads])
        expected = [
            book.without(model, inputs, [(head.site, head.layer, head.index)], instead, read)
            for head in heads
        ]
        np.testing.assert_allclose(found, expected, atol=5e-6)


@pytest.mark.once
def test_several_heads_at_once(loaded: Loaded) -> None:
    row, _ = rows_of(loaded)
    run, heads = Run(loaded, row), [*loaded.heads]
    zero = {layer: torch.zeros_like(each[:1]) for layer, each in run.outputs.items()}
    sets: list[list[Head]] = [[], heads[::3], heads[2:5], heads]
    found = run.values([Change(each, zero) for each in sets])
    given = book.head_inputs(loaded.model, row.inputs(loaded))
    instead = {key: torch.zeros_like(each) for key, each in given.items()}
    for value, each in zip(found, sets, strict=True):
        named = [(head.site, head.layer, head.index) for head in each]
        expected = book.without(
            loaded.model, row.inputs(loaded), named, instead, book.difference(-1, 7, 12)
        )
        assert value == pytest.approx(expected, abs=5e-6)


@pytest.mark.once
@pytest.mark.parametrize("queries", [(), (2, 3)])
def test_looks_are_knocked_out_of_one_head_each(loaded: Loaded, queries: tuple[int, ...]) -> None:
    """Of an encoder-decoder, in cross-attention; no queries stand for all."""
    row, _ = rows_of(loaded)
    site = "decoder.cross" if row.decoder_ids else next(iter(loaded.heads.counts))
    row = replace(row, look=Look(site, queries, (1, 2)))
    heads = [*loaded.heads]
    found = Run(loaded, row).values([Change([head], None) for head in heads])
    layers = {layer.layer_id: layer for layer in loaded.anatomy.layers}
    length = len(row.decoder_ids or row.ids)
    for value, head in zip(found, heads, strict=True):
        layer, scores = layers[head.layer_id], list[tuple[int, int, int, int]]()
        if head.site == site:
            scores = [(0, head.index, q, k) for q in queries or range(length) for k in (1, 2)]
        if head.site == "decoder.self":  # nor what a causal mask keeps from it
            scores = [each for each in scores if each[3] <= each[2]]
        with_all = {layer.module: (layer.num_heads, scores)}
        batch = row.inputs(loaded)
        masks = {
            "attention_mask": torch.ones_like(batch["input_ids"]),
            **({"decoder_attention_mask": torch.ones(1, length).long()} if row.decoder_ids else {}),
        }
        logits = blocking.run(loaded.model, {**batch, **masks}, with_all).logits[0].double()
        expected = book.difference(-1, 7, 12)(logits)
        assert value == pytest.approx(expected, abs=2e-5)


def test_blocks_below_do_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = Loaded(tiny.MODELS["gemma3_text"](), None, "gemma3")
    row, _ = rows_of(loaded)
    run, ran = Run(loaded, row), list[int]()
    zero = {layer: torch.zeros_like(each[:1]) for layer, each in run.outputs.items()}
    changes = [Change([Head("decoder.self", 2, 0)], zero)]
    run.values(changes)  # the first time it tries whether the prediction is the same without them
    model: Any = loaded.model
    hooks = [
        layer.register_forward_pre_hook(lambda *_, n=n: ran.append(n))
        for n, layer in enumerate(model.model.layers)
    ]
    mlps = list[int]()
    hooks += [
        layer.mlp.register_forward_pre_hook(lambda *_, n=n: mlps.append(n))
        for n, layer in enumerate(model.model.layers)
    ]
    run.values(changes)
    for hook in hooks:
        hook.remove()
    assert ran == [0, 1, 2] and mlps == [2]


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3_text"])
def test_tokens_before_the_first_change_do_not_run_again(name: str) -> None:
    """Those that both prompts begin with, or that look at nothing that is blocked."""
    loaded = Loaded(tiny.MODELS[name](), None, name)
    row, other = rows_of(loaded)
    row = replace(row, look=Look("decoder.self", (5, 6), (1, 2)))
    run, second = Run(loaded, row), Run(loaded, other)
    heads, read = [*loaded.heads], list[int]()
    embedding: Any = loaded.model.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda _, given, out: read.append(out.shape[1]))
    zero = {layer: torch.zeros_like(each[:1]) for layer, each in run.outputs.items()}
    found = list[int]()
    for outputs in (aligned(row, second.outputs), zero, None):
        run.values([Change([head], outputs) for head in heads])
        found.append(read[-1])
    hook.remove()
    has_window = name == "gemma3_text"  # whose cache lacks the keys that are blocked
    assert found == [5, 7, 7 if has_window else 2]


def test_a_cache_that_is_not_enough_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is predicted is then read from the first token on."""
    loaded = Loaded(tiny.MODELS["llama"](), None, "llama")
    row, other = rows_of(loaded)
    changes = [
        Change([head], aligned(row, Run(loaded, other).outputs)) for head in [*loaded.heads][:3]
    ]
    expected = Run(loaded, row).values(changes)
    copies = Past.copies

    def wrong(past: Past, num: int) -> Any:
        cache = copies(past, num)
        cache.layers[0].keys = cache.layers[0].keys * 2
        return cache

    monkeypatch.setattr(Past, "copies", wrong)
    np.testing.assert_allclose(Run(loaded, row).values(changes), expected, atol=5e-6)


@pytest.mark.parametrize("is_lost", [False, True])
def test_blocks_that_pass_more_than_they_return_run_again(is_lost: bool) -> None:
    """What a block below leaves elsewhere is missing or old where it is skipped."""
    loaded = Loaded(tiny.MODELS["llama"](), None, "llama")
    model: Any = loaded.model
    row, _ = rows_of(loaded)
    first, last = model.model.layers
    left = [] if is_lost else [torch.zeros(1, 1, 1)]

    def leave(module: Any, given: Any, output: torch.Tensor) -> None:
        left.append(output.mean((1, 2), keepdim=True))

    def add(module: Any, given: Any, output: torch.Tensor) -> torch.Tensor:
        return output + 3 * left.pop()

    hooks = [first.mlp.register_forward_hook(leave), last.mlp.register_forward_hook(add)]
    try:
        run = Run(loaded, row)
        zero = {layer: torch.zeros_like(each[:1]) for layer, each in run.outputs.items()}
        found = run.values([Change([Head("decoder.self", 1, 0)], zero)])
        instead = {("decoder.self", 1): torch.zeros(len(IDS), 60)}
        expected = book.without(
            model,
            row.inputs(loaded),
            [("decoder.self", 1, 0)],
            instead,
            book.difference(-1, 7, 12),
        )
    finally:
        for hook in hooks:
            hook.remove()
    assert found[0] == pytest.approx(expected, abs=5e-6)


def _logits(model: Any, inputs: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).logits[0].double()
