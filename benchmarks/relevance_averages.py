"""Relevance per target step against the steps of an example together: its cost, and what differs.

Voita et al. (2019) normalise relevance over a layer's heads for every target step. That takes a
backward pass per step. The default of `headcount importance` normalises the steps of an example
together, in one backward pass. Both ways run the same batches in one process.

    python benchmarks/relevance_averages.py --data dev.tsv --limit 100
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import tyro
from scipy.stats import spearmanr

from headcount import load
from headcount.core import LayerId
from headcount.importance import relevance
from headcount.tasks import build, evaluate

T = TypeVar("T")


@dataclass(frozen=True)
class Arguments:
    """Compare both averages of relevance on a translation model."""

    data: Path
    """A .tsv file of sentence pairs."""
    model: str = "headcount:en-de"
    """Model to score."""
    limit: int = 100
    """Largest number of pairs."""


def main() -> None:
    """Print the costs in forward passes, and the agreement."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model)
    task = build("translation", loaded, arguments.data, limit=arguments.limit)
    model, anatomy = loaded.model, loaded.anatomy
    evaluate(model, task)
    seconds = [_timed(lambda: evaluate(model, task))[0]]
    found: list[Mapping[LayerId, torch.Tensor]] = []
    for per_step in (False, True):
        way = partial(relevance, model, task, anatomy=anatomy, per_step=per_step)
        spent, scored = _timed(way)
        seconds.append(spent)
        found.append(scored.scores)
    fast, published = (
        np.concatenate([each.numpy() for each in scores.values()]) for scores in found
    )
    differ = sum(int(found[0][place].argmax() != found[1][place].argmax()) for place in found[0])
    forward, together, per_step = seconds
    print("| average | cost, in forwards | Spearman's rho over all heads | another top head |")
    print("|---|---|---|---|")
    print(f"| per example | {together / forward:.1f} | | |")
    rho = float(np.asarray(spearmanr(fast, published)[0]))
    print(
        f"| per step | {per_step / forward:.1f} | {rho:.3f} | {differ} of {len(found[0])} layers |"
    )


def _timed(way: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of one call, and its result."""
    start = time.process_time()
    result = way()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
