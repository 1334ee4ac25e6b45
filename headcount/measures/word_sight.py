"""Word sight: which words of a text each word sees, by the places of their tokens.

A word sees another if one of its tokens sees the other's first token. In a causal model these are
the words in front of it; where a prompt sees all of itself, or a picture, later ones, too.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headcount.corpora import Arcs
from headcount.measures.link_fields import NUM_DIRECTIONS
from headcount.measures.reductions import Sides
from headcount.measures.units import counts
from headcount.vocabulary import DIRECTIONS


@final
@dataclass(frozen=True, eq=False)
class WordSight:
    """Where the words of a batch stand, and how far each sees."""

    first_BW: Int[Tensor, "batch word"]
    """Place of each word's first token; the number of tokens if it has none."""
    last_BW: Int[Tensor, "batch word"]
    """The last place that a token of the word sees."""

    @classmethod
    def of(cls, sides: Sides) -> "WordSight":
        """The words of one batch, which attend to themselves."""
        word_BN = sides.keys.word_BN
        size, num_words = word_BN.shape[1], max(1, int(word_BN.max()) + 1)
        place_BN = torch.arange(size, device=word_BN.device).expand_as(word_BN)
        last_BN = place_BN if sides.is_causal else place_BN.new_full(place_BN.shape, size)
        last_BN = last_BN if sides.last_BQ is None else sides.last_BQ.to(word_BN)
        # Tokens without a word are in the first column
        first_BW = place_BN.new_full((len(word_BN), num_words + 1), size)
        first_BW = first_BW.scatter_reduce(1, word_BN + 1, place_BN, "amin")
        last_BW = place_BN.new_full(first_BW.shape, -1)
        last_BW = last_BW.scatter_reduce(1, word_BN + 1, last_BN, "amax")
        return cls(first_BW[:, 1:], last_BW[:, 1:])

    def sees(
        self, row: Int[Tensor, "..."], query: Int[Tensor, "..."], key: Int[Tensor, "..."]
    ) -> Bool[Tensor, "..."]:
        """Whether words of some rows see others."""
        return self.first_BW[row, key] <= self.last_BW[row, query]


def field_words(arcs: Arcs, reach: int, sight: WordSight) -> Int[Tensor, "side offset"]:
    """Number of pairs of words of a field that can look at each other, by offset and direction.

    A row for each kind and direction, as in `FieldLooks.counted`; the last two columns are pairs of
    words farther before and after.
    """
    width, fields = 2 * reach + 3, arcs.fields
    found = arcs.head_A.new_zeros(NUM_DIRECTIONS * arcs.num_narrowed, width)
    if fields is None:
        return found
    every_F = torch.arange(len(fields.query_F), device=found.device)
    owns = (fields.query_F, every_F), (fields.key_K, fields.field_K), (fields.query_F, every_F)
    for side, (direction, (own_R, field_R)) in enumerate(zip(DIRECTIONS, owns, strict=True)):
        word_RW, row_R1 = fields.word_FW[field_R], fields.sentence_F[field_R, None]
        other_RW, own_R1 = word_RW.clamp_min(0), word_RW.gather(1, own_R[:, None])
        pairs = (other_RW, own_R1) if "<-" in direction else (own_R1, other_RW)
        offset_RW = torch.arange(word_RW.shape[1], device=found.device) - own_R[:, None]
        is_pair_RW = (word_RW >= 0) & (offset_RW != 0) & sight.sees(row_R1, *pairs)
        bin_RW = (offset_RW + reach).where(offset_RW >= -reach, width - 2)
        bin_RW = bin_RW.where(offset_RW <= reach, width - 1)
        bin_RW = (NUM_DIRECTIONS * fields.kind_F[field_R] + side)[:, None] * width + bin_RW
        found += counts(bin_RW[is_pair_RW], found.numel()).view_as(found)
    return found
