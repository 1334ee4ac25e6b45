"""Bytes of a cache in which some groups stream, and tokens a second, beside the dense cache.

Random groups stream. Caches are filled with random keys and values, since neither bytes nor seconds
depend on what they are; at `--read` tokens a text of random tokens is read as well, and must leave
the same bytes. A round times single-token steps behind three caches in turn: dense, streaming, and
one of a single token. The ceiling is what bytes alone would allow: a step takes as long as behind
one token, and the rest of a dense step shrinks as its bytes do. A model gets random weights where
a length is beyond its context. Seconds are those of the processor, on one thread, so that other
work on the machine counts for less.

    python benchmarks/streaming_cache.py MODEL --lengths 2048 8192 --batch 1 8
"""

import copy
import gc
import random
import time
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import torch
import tyro
from transformers import AutoModelForCausalLM, Cache, DynamicCache

from headcount.cache import StreamingLayer, cache_bytes, plan_for_cache, streamable, streaming_cache
from headcount.models import load
from headcount.tap import examine


@dataclass(frozen=True)
class Arguments:
    """Bytes and seconds of dense and of streaming caches."""

    model: tyro.conf.Positional[str]
    """Folder or name of a causal model."""
    lengths: tuple[int, ...] = (2048, 8192)
    """Numbers of tokens in the cache."""
    batch: tuple[int, ...] = (1, 8)
    """Numbers of rows."""
    stream: float = 0.5
    """Share of groups that stream."""
    sink: int = 4
    recent: int = 128
    rounds: int = 7
    """Number of rounds."""
    steps: int = 4
    """Number of tokens in each turn of a round."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format."""
    read: tuple[int, ...] = (2048,)
    """Lengths at which a text is also read, in one row."""
    readings: int = 3
    """Number of rounds of reading, of which the median is printed."""


def main() -> None:
    """Print a row for each batch and length."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    model: Any = load(arguments.model, dtype=arguments.dtype).model
    if max(arguments.lengths) + 64 > model.config.max_position_embeddings:
        model.config.max_position_embeddings = 2 * max(arguments.lengths)
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype).eval()
    anatomy = examine(model)
    groups = streamable(model, anatomy)
    chosen = random.Random(0).sample(groups, round(arguments.stream * len(groups)))
    plan = plan_for_cache(model, chosen, arguments.sink, arguments.recent, anatomy)
    print(plan)
    print(
        "| rows | tokens | dense MB | streaming MB | share | tokens/s dense | streaming | ceiling |"
    )
    print("|---|---|---|---|---|---|---|---|")
    dense, options = copy.deepcopy(model), arguments
    with torch.inference_mode(), streaming_cache(model, plan, anatomy) as cache:
        for rows in options.batch:
            for length in options.lengths:
                print(row(dense, model, cache, options, rows, length), flush=True)
        for length in options.read:
            print(reading(dense, model, cache, length, options.readings), flush=True)


def row(dense: Any, model: Any, cache: Cache, options: Arguments, rows: int, length: int) -> str:
    """One row of the table."""
    caches = [DynamicCache(config=model.config), cache, DynamicCache(config=model.config)]
    cache.reset()
    for each, tokens in zip(caches, (length, length, 1), strict=True):
        fill(model, each, rows, tokens)
    before, after = cache_bytes(caches[0]), cache_bytes(cache)
    seconds: list[list[float]] = []
    for number in range(options.rounds + 1):
        turns = zip((dense, model, dense), caches, strict=True)
        taken = [timed(one, each, rows, options.steps) for one, each in turns]
        seconds += [taken] if number else []  # the first round warms up
    of_dense, of_streaming, of_empty = (median(each) for each in zip(*seconds, strict=True))
    least = of_empty + (of_dense - of_empty) * after / before
    speeds = [f"{rows / each:.2f}" for each in (of_dense, of_streaming, least)]
    cells = [str(rows), str(length), f"{before / 1e6:.1f}", f"{after / 1e6:.1f}"]
    return f"| {' | '.join([*cells, f'{after / before:.3f}', *speeds])} |"


def timed(model: Any, cache: Cache, rows: int, steps: int) -> float:
    """Seconds of a step that reads one token in each row."""
    ids_B1 = torch.full((rows, 1), 9)
    start = time.process_time()
    for _ in range(steps):
        model(input_ids=ids_B1, past_key_values=cache)
    return (time.process_time() - start) / steps


def reading(dense: Any, model: Any, cache: Cache, length: int, rounds: int) -> str:
    """Seconds to read a text, and a check that it leaves the bytes of a cache that is filled."""
    ids_1N = torch.randint(9, model.config.vocab_size, (1, length))
    cache.reset()
    fill(model, cache, 1, length)
    filled, stock, taken = (
        cache_bytes(cache),
        DynamicCache(config=model.config),
        list[list[float]](),
    )
    for _ in range(rounds):
        taken.append([])
        for one, each in ((dense, stock), (model, cache)):
            each.reset()
            start = time.process_time()
            one(input_ids=ids_1N, past_key_values=each, logits_to_keep=1)
            taken[-1].append(time.process_time() - start)
    assert cache_bytes(cache) == filled, (cache_bytes(cache), filled)
    before, after = (median(each) for each in zip(*taken, strict=True))
    ratios = sorted(after / before for before, after in taken)
    return (
        f"A text of {length} tokens: {before:.2f} s dense, {after:.2f} s streaming, ratios in a "
        f"round {ratios[0]:.2f} to {ratios[-1]:.2f}; {filled} bytes either way."
    )


def fill(model: Any, cache: Cache, rows: int, length: int) -> None:
    """Fill a cache with random keys and values."""
    config = model.config
    shape = (rows, config.num_key_value_heads, length, config.head_dim)
    for number in range(config.num_hidden_layers):
        keys, values = torch.randn(shape, dtype=model.dtype), torch.randn(shape, dtype=model.dtype)
        layer: Any = cache.layers[number]
        if isinstance(layer, StreamingLayer):
            layer.lazy_initialization(keys, values)
            held = layer.attention.sink + layer.attention.recent - 1
            full, streaming = layer.split.full, layer.split.streaming
            layer.full = [full.of_groups(each).clone() for each in (keys, values)]
            layer.streaming = [
                streaming.of_groups(each)[:, :, :held].clone() for each in (keys, values)
            ]
            layer.length = length
        else:
            layer.update(keys, values)
    gc.collect()


if __name__ == "__main__":
    main()
