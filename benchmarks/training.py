"""Cost of a training step on a CPU, beside one with torch's own dropout and fused attention.

Both sides run the same batch of the recipe `small`, forward and backward, in one process and in
turns; a ratio is the median over rounds of ratios within a round.

    python benchmarks/training.py
    LD_PRELOAD=libtcmalloc_minimal.so.4 python benchmarks/training.py    # another allocator
"""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median

import torch
import tyro
from torch import Tensor
from transformers import M2M100ForConditionalGeneration

from headcount import load
from headcount.papers import RECIPES, translation_model
from headcount.papers.pretraining.trainer import smoothed
from headcount.training.batches_trainer import quicker_steps


@dataclass(frozen=True)
class Arguments:
    """Time training steps."""

    rounds: int = 15
    """Number of rounds."""
    length: int = 12
    """Number of tokens per sentence."""


def main() -> None:
    """Print one Markdown table row."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(2)
    recipe, tokenizer = RECIPES["small"], load("headcount:en-de").tokenizer
    assert tokenizer is not None
    model = translation_model(recipe, tokenizer, 1).train()
    shape = (recipe.batch_tokens // arguments.length, arguments.length)
    ids_BN = torch.randint(5, len(tokenizer), shape)
    for _ in range(3):
        seconds(model, ids_BN, nullcontext())
    pairs = [
        (seconds(model, ids_BN, quicker_steps(model.device)), seconds(model, ids_BN, nullcontext()))
        for _ in range(arguments.rounds)
    ]
    ratios = sorted(ours / usual for ours, usual in pairs)
    rate = shape[0] * shape[1] / median(ours for ours, _ in pairs)
    print("| step | of torch's own step | target tokens/s without the optimiser |")
    print("|---|---|---|")
    spread = f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    print(f"| small, bfloat16 | {spread} | {rate:,.0f} |")


def seconds(
    model: M2M100ForConditionalGeneration,
    ids_BN: Tensor,
    dropout: AbstractContextManager[object],
) -> float:
    """Seconds of one forward and backward pass."""
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16), dropout:
        outputs = model(input_ids=ids_BN, decoder_input_ids=ids_BN)
        loss = smoothed(0.1)(outputs, ids_BN)
    loss.backward()
    model.zero_grad()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
