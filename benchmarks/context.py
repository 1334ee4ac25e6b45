"""How far what a causal model's heads look at depends on how much they see.

Queries of one text are put in groups by position: the same words, and more and more context. Rare
tokens are the rarest one that a query sees.

    python benchmarks/context.py MODEL TEXT
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from headcount.core import LayerId
from headcount.models import load
from headcount.tap import Block, tapped

GROUPS = ((10, 32), (32, 128), (128, 512))
"""Positions of the queries of each group."""
TRAITS = ("previous token", "self", "weight on the first token", "rarest token")


@dataclass(frozen=True)
class Arguments:
    """Shares of queries, by how many keys they see."""

    model: tyro.conf.Positional[str]
    """Folder or name of a causal model."""
    text: tyro.conf.Positional[Path]
    """A long text."""
    pieces: int = 4
    """Number of pieces of 512 tokens."""
    begin: str = ""
    """Text before which the file is skipped."""


def main() -> None:
    """Print the mean over heads of each trait, and how well two groups of queries correlate."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model)
    text = arguments.text.read_text(encoding="utf-8")
    tokenizer: Any = loaded.tokenizer
    ids = tokenizer(text[text.index(arguments.begin) :])["input_ids"]
    counts = Counter(ids)
    sums: dict[tuple[LayerId, int], torch.Tensor] = {}
    for number in range(arguments.pieces):
        piece = ids[number * 512 : (number + 1) * 512]
        rarest = _rarest([counts[each] for each in piece])

        def listener(block: Block, rarest: torch.Tensor = rarest) -> None:
            shares_HG4 = _shares(block.weights_BHQK[0].clone(), block.queries.start or 0, rarest)
            for head, found in enumerate(shares_HG4, block.heads.start or 0):
                place = (block.layer.layer_id, head)
                sums[place] = sums.get(place, torch.zeros_like(found)) + found

        with torch.no_grad(), tapped(loaded.model, listener, anatomy=loaded.anatomy):
            loaded.model(torch.tensor([piece]))
    sizes = torch.tensor([end - begin for begin, end in GROUPS]) * arguments.pieces
    shares = torch.stack(list(sums.values())) / sizes[:, None]
    for trait, of_trait_HG in zip(TRAITS, shares.unbind(-1), strict=True):
        means = ", ".join(f"{each:.3f}" for each in of_trait_HG.mean(0))
        halves = ", ".join(str(int(each)) for each in (of_trait_HG >= 0.5).sum(0))
        r = torch.corrcoef(of_trait_HG[:, [0, -1]].T)[0, 1].item()
        print(f"{trait}: mean {means}; heads of at least half {halves}; r {r:.2f}")


def _rarest(counts: list[int]) -> torch.Tensor:
    """The place of the rarest token up to each position, without the first token."""
    places = [1]
    for place in range(1, len(counts)):
        places.append(place if counts[place] <= counts[places[-1]] else places[-1])
    return torch.tensor(places)


def _shares(weights_HQK: torch.Tensor, first: int, rarest: torch.Tensor) -> torch.Tensor:
    """Sums over the queries of each group: head x group x trait."""
    sink_HQ = weights_HQK[..., 0].clone()
    weights_HQK[..., 0] = -1
    best_HQ = weights_HQK.argmax(-1)
    query_Q = torch.arange(first, first + best_HQ.shape[1])
    offset_HQ = best_HQ - query_Q
    values = (offset_HQ == -1, offset_HQ == 0, sink_HQ, best_HQ == rarest[query_Q])
    is_in = [(query_Q >= begin) & (query_Q < end) for begin, end in GROUPS]
    groups = [torch.stack([each[:, rows].float().sum(1) for each in values], -1) for rows in is_in]
    return torch.stack(groups, 1)


if __name__ == "__main__":
    main()
