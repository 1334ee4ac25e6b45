"""Where heads look by the attention that the stock model returns, with no code of ours between.

A model with noise, or trained on, no longer runs its program. What is right to say of its heads is
then what its own attention says, read token by token.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import torch

from headcount.core import Head
from headcount.testing import PUNCTUATION, Known, Planted
from headcount.testing.tokens import rarity

EARLY = 10
"""Number of first queries of a causal model that count in no mean weight."""


@final
@dataclass(frozen=True)
class Looking:
    """The attention of a known model, of one text after the other."""

    known: Known

    @cached_property
    def maps(self) -> Mapping[Head, list[np.ndarray]]:
        """Every text's attention weights of each head, [query, key]."""
        model, found = self.known.model.model, dict[Head, list[np.ndarray]]()
        before = model.config._attn_implementation or "sdpa"
        model.set_attn_implementation("eager")
        for bits_TK in self.known.texts:
            ids_T = 1 + torch.tensor((bits_TK > 0) @ (1 << np.arange(bits_TK.shape[1])))
            with torch.no_grad():
                attentions = model(ids_T[None], output_attentions=True).attentions
            for head in self.known.heads:
                found.setdefault(head, []).append(attentions[head.layer][0, head.index].numpy())
        model.set_attn_implementation(before)
        return found

    def offsets(self, head: Head) -> Mapping[int, float]:
        """Share of the queries at each offset of the key with the largest weight."""
        found = Counter[int]()
        for map_QK in self.maps[head]:
            found.update((map_QK.argmax(1) - np.arange(len(map_QK))).tolist())
        return {offset: number / found.total() for offset, number in found.items()}

    def strength(self, planted: Planted) -> float:
        """How far a head does what it is named for: see the thresholds of `analyze`.

        The share of queries that have a key at the offset and look most at it, or that look most at
        one of the two rarest tokens; the mean weight of the first token, or of punctuation marks,
        where the first ten queries of a causal model are no cases: they can hardly look elsewhere.

        Raises:
            ValueError: For a kind that is named by other numbers.
        """
        found, is_causal = list[float](), self.known.program.is_causal
        for bits_TK, map_QK in zip(self.known.texts, self.maps[planted.head], strict=True):
            num_queries = len(map_QK)
            at_Q, top_Q = np.arange(num_queries), map_QK.argmax(1)
            late_QK = map_QK[EARLY:] if is_causal else map_QK
            match planted.kind:
                case "offset" | "tell":
                    key_Q = at_Q + (-1 if planted.kind == "tell" else planted.offset)
                    has_key_Q = (0 <= key_Q) & (key_Q < num_queries)
                    found += (top_Q == key_Q)[has_key_Q].tolist()
                case "rare":
                    for query in range(2, num_queries):
                        rarity_K = rarity(bits_TK[: query + 1 if is_causal else num_queries])
                        found.append(rarity_K[top_Q[query]] >= np.sort(rarity_K)[-2])
                case "first":
                    found += late_QK[:, 0].tolist()
                case "punctuation":
                    found += late_QK[:, bits_TK[:, PUNCTUATION] > 0].sum(1).tolist()
                case other:
                    raise ValueError(f"Expected a kind that one map shows, got {other}.")
        return float(np.mean(found))
