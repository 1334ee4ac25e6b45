"""Link fields: links whose key is chosen among some words only.

A link may name its candidates, e.g. the nouns of a sentence. Then the query, the keys and the
candidates are its *field*, and each direction compares the words of the field alone: the largest
weight of the query's row, of a key's row, and of the query's column. Offsets are counted in words
of the field, too. So a head gains nothing from having few words to choose from: the fixed offset
and the head's habit, which it has to beat, choose among the same words.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from headcount.corpora import LinkFields
from headcount.vocabulary import DIRECTIONS

NUM_DIRECTIONS = len(DIRECTIONS)


@final
@dataclass(frozen=True)
class FieldRows:
    """The fields of some rows, which are counted from the first."""

    row_F: Int64[Tensor, " field"]
    first_FW: Int64[Tensor, "field word"]
    """First piece of each word; that of the query in place of padding."""
    is_word_FW: Bool[Tensor, "field word"]
    query_F: Int64[Tensor, " field"]
    """Place of the query in its field."""
    kind_F: Int64[Tensor, " field"]
    arc_K: Int64[Tensor, " key"]
    """Arc to each key."""
    field_K: Int64[Tensor, " key"]
    key_K: Int64[Tensor, " key"]
    """Place of the key in its field."""

    @classmethod
    def of(cls, fields: LinkFields, rows: slice, first_BW: Tensor) -> "FieldRows":
        """The fields of some rows, whose words begin with the pieces at some positions."""
        row_F = fields.sentence_F - rows.start
        is_here_F = (row_F >= 0) & (row_F < len(first_BW))
        number_F, is_here_K = is_here_F.cumsum(0) - 1, is_here_F[fields.field_K]
        row_F, word_FW = row_F[is_here_F], fields.word_FW[is_here_F]
        query_F = fields.query_F[is_here_F]
        is_word_FW = word_FW >= 0
        word_FW = word_FW.where(is_word_FW, word_FW.gather(1, query_F[:, None]))
        return cls(
            row_F,
            first_BW[row_F[:, None], word_FW],
            is_word_FW,
            query_F,
            fields.kind_F[is_here_F],
            fields.arc_K[is_here_K],
            number_F[fields.field_K[is_here_K]],
            fields.key_K[is_here_K],
        )

    def largest(self, map_BHNN: Tensor, hidden: int) -> "FieldLooks":
        """Where the largest weights are in a map between words that stand at their first pieces."""
        row_F1, query_F1 = self.row_F[:, None], self.query_F[:, None]
        query_F1 = self.first_FW.gather(1, query_F1)
        first_KW, row_K1 = self.first_FW[self.field_K], row_F1[self.field_K]
        key_K1 = first_KW.gather(1, self.key_K[:, None])
        is_word_KW = self.is_word_FW[self.field_K]
        weights = (
            (map_BHNN[row_F1, :, query_F1, self.first_FW], self.is_word_FW),
            (map_BHNN[row_K1, :, key_K1, first_KW], is_word_KW),
            (map_BHNN[row_F1, :, self.first_FW, query_F1], self.is_word_FW),
        )
        return FieldLooks(self, *(_first(each, is_word, hidden) for each, is_word in weights))


def _first(weights_RWH: Tensor, is_word_RW: Tensor, hidden: int) -> Int64[Tensor, "row head"]:
    """Place of the largest positive weight of each row, the first in a tie; -1 without one."""
    weights_RWH = weights_RWH.masked_fill(~is_word_RW[..., None], hidden)
    found = weights_RWH.transpose(1, 2).contiguous().max(-1)
    return found.indices.masked_fill(found.values <= 0, -1)


@final
@dataclass(frozen=True)
class FieldLooks:
    """Where heads look in fields, by places of words; -1 if nowhere."""

    rows: FieldRows
    query_FH: Int64[Tensor, "field head"]
    """The word that each query looks at most."""
    key_KH: Int64[Tensor, "key head"]
    """The word that each key looks at most."""
    column_FH: Int64[Tensor, "field head"]
    """The word that looks most at each query."""

    def hits(self) -> Bool[Tensor, "direction key head"]:
        """Whether the key, the query, and the key again is there, in the order of `DIRECTIONS`."""
        field_K, key_K1 = self.rows.field_K, self.rows.key_K[:, None]
        query_K1 = self.rows.query_F[field_K][:, None]
        return torch.stack(
            [
                self.query_FH[field_K] == key_K1,
                self.key_KH == query_K1,
                self.column_FH[field_K] == key_K1,
            ]
        )

    def counted(self, num_kinds: int, reach: int) -> Int64[Tensor, "head side offset"]:
        """Number of words that look at each offset, and farther (the last), by kind and direction.

        Of a query's row, of a key's row, and of a query's column.
        """
        rows = self.rows
        looks = (
            (self.query_FH, rows.query_F, rows.kind_F),
            (self.key_KH, rows.key_K, rows.kind_F[rows.field_K]),
            (self.column_FH, rows.query_F, rows.kind_F),
        )
        num_heads, width = self.query_FH.shape[1], 2 * reach + 2
        head_H, bins = torch.arange(num_heads, device=rows.row_F.device), list[Tensor]()
        for side, (place_RH, own_R, kind_R) in enumerate(looks):
            bin_RH = place_RH - own_R[:, None] + reach
            is_far_RH = (bin_RH < 0) | (bin_RH > 2 * reach)
            bin_RH = bin_RH.masked_fill(is_far_RH, width - 1)
            side_R1 = (kind_R * NUM_DIRECTIONS + side)[:, None]
            bin_RH = (head_H * num_kinds * NUM_DIRECTIONS + side_R1) * width + bin_RH
            bins.append(bin_RH[place_RH >= 0])
        shape = (num_heads, num_kinds * NUM_DIRECTIONS, width)
        bin_L, found = torch.cat(bins), head_H.new_zeros(shape)
        found.view(-1).index_add_(0, bin_L, torch.ones_like(bin_L))
        return found
