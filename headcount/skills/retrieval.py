r"""Retrieval: which heads copy a needle's answer out of a long text.

$$\mathrm{retrieval}_h = \overline{\frac{1}{n} \sum_{t=1}^{n} [k_t \in \mathrm{answer}]
[x_{k_t} = y_t]}, \qquad k_t = \arg\max_k A_h(t, k)$$

over the n tokens y_t that the model produces where the answer of n tokens is expected, each with
the attention of the query that produces it; x are the tokens of the prompt, and the mean is over
the runs in which the model found its needle: it produced more than half of the answer's tokens.
The range is [0, 1]; a head with 0.1 or more is a retrieval head.

Reference: Retrieval Head Mechanistically Explains Long-Context Factuality (Wu et al., 2024),
https://arxiv.org/abs/2404.15574
Departure: the needle is the answer alone, since the cue repeats the words before it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from headcount.core import LayerId, Steps, silent_steps, spread
from headcount.models import Loaded, Removal, last_logits, running
from headcount.skills.needles import Needle
from headcount.tap import AttentionLayer, Block, input_device

FOUND = 0.5
"""Share of an answer's tokens above which the needle is found (ROUGE-1 recall)."""
ROWS = 8
"""Number of prompts in a batch."""


@final
class TopKeys:
    """Listens to the last query's attention and keeps the key of every head's largest weight."""

    def __init__(self) -> None:
        self.keys: dict[LayerId, Int64[Tensor, "batch head"]] = {}

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Begin a layer."""
        batch, heads = value_BHKD.shape[:2]
        self.keys[layer.layer_id] = torch.zeros(
            batch, heads, dtype=torch.long, device=value_BHKD.device
        )
        self._last = num_queries - 1

    def block(self, block: Block) -> None:
        """Keep the places, if the block holds the last query."""
        if block.queries.stop > self._last:
            keys = block.weights_BHQK[:, :, -1].argmax(-1)
            self.keys[block.layer.layer_id][block.rows, block.heads] = keys

    def end(self, layer: AttentionLayer) -> None:
        """Finish the layer."""


@final
@dataclass(frozen=True)
class Retrieved:
    """What a model produced for needles, and which heads looked at it."""

    needles: tuple[Needle, ...]
    produced: tuple[tuple[int, ...], ...]
    """Tokens that the model produced in place of every answer."""
    copied_NH: Float[np.ndarray, "needle head"] | None
    """Share of the answer that every head looked at when it was produced; None if not listened."""

    @property
    def recall_N(self) -> Float[np.ndarray, " needle"]:
        """Share of every answer's tokens that were produced, in any order."""
        pairs = zip(self.needles, self.produced, strict=True)
        shared = [(Counter(each.answer) & Counter(made)).total() for each, made in pairs]
        return np.array(shared) / [len(needle.answer) for needle in self.needles]

    @property
    def exact_N(self) -> Bool[np.ndarray, " needle"]:
        """Whether exactly the answer was produced."""
        pairs = zip(self.needles, self.produced, strict=True)
        return np.array([needle.answer == made for needle, made in pairs])

    @property
    def found_N(self) -> Bool[np.ndarray, " needle"]:
        """Whether the needle was found."""
        return self.recall_N > FOUND


def retrieve(
    loaded: Loaded,
    needles: Sequence[Needle],
    removal: Removal | None = None,
    steps: Steps = silent_steps,
) -> Retrieved:
    """Ask a model for needles, token by token, always taking the likeliest one.

    Args:
        loaded: a causal language model.
        needles: the needles.
        removal: heads that are removed; where the others look is not noted then.
        steps: called with the number of needles so far, and of all.
    """
    found, by_length = dict[int, _Produced](), dict[int, list[int]]()
    for number, needle in enumerate(needles):
        by_length.setdefault(needle.length, []).append(number)
    batches = [
        numbers[first : first + ROWS]
        for numbers in by_length.values()
        for first in range(0, len(numbers), ROWS)
    ]

    def of_batch(batch: Sequence[int]) -> list[_Produced]:
        return _produced(loaded, [needles[each] for each in batch], removal)

    for batch, rows in zip(batches, spread(of_batch, batches, "batches of needles"), strict=True):
        found |= zip(batch, rows, strict=True)
        steps(len(found), len(needles))
    in_order = [found[number] for number in range(len(needles))]
    copied_NH = None if removal is not None else np.stack([copied for _, copied in in_order])
    return Retrieved(tuple(needles), tuple(made for made, _ in in_order), copied_NH)


_Produced = tuple[tuple[int, ...], Float[np.ndarray, " head"]]
"""The tokens that a model produces, and the share of an answer that every head copied."""


def _produced(loaded: Loaded, rows: Sequence[Needle], removal: Removal | None) -> list[_Produced]:
    model, listener = loaded.model, TopKeys() if removal is None else None
    ids_BN = torch.tensor([row.ids for row in rows], device=input_device(model))
    layers = [LayerId("decoder.self", n) for n in range(len(loaded.heads.counts["decoder.self"]))]
    made = [list[int]() for _ in rows]
    copied_BH = np.zeros((len(rows), len(loaded.heads)))
    with running(loaded, removal=removal):
        past = model(input_ids=ids_BN[:, :-1], use_cache=True, **last_logits(model)).past_key_values
    last_B1, everything_BN = ids_BN[:, -1:], ids_BN
    with running(loaded, listener, removal):
        for step in range(max(len(row.answer) for row in rows)):
            output: Any = model(input_ids=last_B1, past_key_values=past, use_cache=True)
            past, last_B1 = output.past_key_values, output.logits[:, -1].argmax(-1, keepdim=True)
            keys_BH = None
            if listener is not None:
                keys_BH = torch.cat([listener.keys[each] for each in layers], dim=1).cpu()
            for b, row in enumerate(rows):
                made[b].append(int(last_B1[b]))
                if keys_BH is None or step >= len(row.answer):
                    continue
                inside_H = (keys_BH[b] >= row.place) & (keys_BH[b] < row.place + len(row.answer))
                same_H = everything_BN[b].cpu()[keys_BH[b]] == made[b][-1]
                copied_BH[b] += (inside_H & same_H).numpy() / len(row.answer)
            everything_BN = torch.cat([everything_BN, last_B1], dim=1)
    answers = [tuple(ids[: len(row.answer)]) for ids, row in zip(made, rows, strict=True)]
    return [*zip(answers, copied_BH, strict=True)]
