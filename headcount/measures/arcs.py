"""Arcs between words: which heads connect the two words of each dependency arc.

Word level: keys of a word's pieces are summed, queries averaged; tokens that belong to no word and
the word itself are excluded. Most words are one piece. So the tap's block becomes the word-level
map in place: pieces are added to the first piece of their word, and other tokens are hidden.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from torch.nn.functional import pad

from headcount.corpora import Arcs, Tokens
from headcount.measures.link_fields import NUM_DIRECTIONS, FieldRows
from headcount.tap import Block, moved
from headcount.vocabulary import DIRECTIONS

REACH = 8
"""Largest offset, in words, that is counted on its own; farther ones are counted together."""

_HIDDEN = -1
"""Weight of what is excluded, below every weight."""


@final
class Words:
    """Where the words and arcs of a batch are; the same for all of its layers.

    Args:
        tokens: the tokens of the batch.
        arcs: the arcs of all sentences.
        is_measured_BN: the tokens whose words' looks count.
        host: the same in main memory, where places are found.
    """

    def __init__(
        self, tokens: Tokens, arcs: Arcs, is_measured_BN: Tensor, host: "Words | None" = None
    ) -> None:
        self.tokens, self.arcs, self.is_measured_BN = tokens, arcs, is_measured_BN
        self._host = host
        self.num_words: int = host.num_words if host else max(1, int(tokens.word_BN.max()) + 1)
        self._found: dict[tuple[int, int], _Rows] = {}

    def of_rows(self, rows: slice) -> "_Rows":
        """The words of some rows; found once."""
        place = (rows.start, rows.stop)
        if place not in self._found:
            its = None if self._host is None else self._host.of_rows(rows)
            device = self.tokens.word_BN.device
            self._found[place] = self._of_rows(rows) if its is None else moved(its, device)
        return self._found[place]

    def _of_rows(self, rows: slice) -> "_Rows":
        word_BN, num_tokens = self.tokens.word_BN[rows], self.tokens.word_BN.shape[1]
        fields = self.arcs.fields
        token_BN = torch.arange(num_tokens, device=word_BN.device).expand_as(word_BN)
        is_wordless_BN, index_BN = word_BN < 0, word_BN.clamp_min(0)
        first_BW = word_BN.new_full((len(word_BN), self.num_words), num_tokens)
        first_BW.scatter_reduce_(
            1, index_BN, token_BN.masked_fill(is_wordless_BN, num_tokens), "amin"
        )
        own_first_BN = first_BW.gather(1, index_BN)
        row_P, piece_P = (~is_wordless_BN & (own_first_BN != token_BN)).nonzero(as_tuple=True)
        place_P = row_P * num_tokens + own_first_BN[row_P, piece_P]
        place_W, index_P, size_W = place_P.unique(return_inverse=True, return_counts=True)
        is_other_BN = is_wordless_BN | (own_first_BN != token_BN)
        # Blocks end with the last token of their longest row
        num_later_N = self.tokens.is_token_BN[rows].sum(0).flip(0).cumsum(0).flip(0)
        return _Rows(
            (place_W // num_tokens, place_W % num_tokens),
            1 + size_W,
            (row_P, piece_P),
            index_P,
            (is_other_BN & (num_later_N > 0)).nonzero(as_tuple=True),
            (is_wordless_BN & (num_later_N > 0)).nonzero(as_tuple=True),
            *self._arcs_of(rows, first_BW),
            *self._near(first_BW, self.is_measured_BN[rows]),
            fields and FieldRows.of(fields, rows, first_BW),
        )

    def _near(
        self, first_BW: Tensor, is_measured_BN: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The words that have pieces and are measured, and the words around each."""
        num_tokens = self.tokens.word_BN.shape[1]
        is_measured_BW = pad(is_measured_BN, (0, 1)).gather(1, first_BW)
        row_V, word_V = is_measured_BW.nonzero(as_tuple=True)
        first_V = first_BW[row_V, word_V]
        padded_BW = pad(first_BW, (REACH, REACH), value=num_tokens)
        around_O1 = torch.arange(2 * REACH + 1, device=first_BW.device)[:, None]
        near_OV = padded_BW[row_V, word_V + around_O1]
        return (row_V, first_V), torch.where(near_OV < num_tokens, near_OV, first_V)

    def _arcs_of(self, rows: slice, first_BW: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The arcs of some rows whose two words have pieces; the others connect nothing."""
        row_A = self.arcs.sentence_A - rows.start
        arc_A = ((row_A >= 0) & (row_A < len(first_BW))).nonzero().squeeze(1)
        row_A = row_A[arc_A]
        words = (self.arcs.dependent_A, self.arcs.head_A)
        dependent_A, head_A = (first_BW[row_A, word_A[arc_A]] for word_A in words)
        exists_A = torch.maximum(dependent_A, head_A) < self.tokens.word_BN.shape[1]
        ends = (row_A[exists_A], dependent_A[exists_A], head_A[exists_A])
        return arc_A[exists_A], ends


@final
@dataclass(frozen=True)
class _Rows:
    """The words of some rows, which are counted from the first."""

    first_W: tuple[Tensor, Tensor]
    """Row and position of the first piece of each word that has several."""
    size_W: Int64[Tensor, " word"]
    """Number of pieces of each of these words."""
    piece_P: tuple[Tensor, Tensor]
    """Row and position of each other piece."""
    word_P: Int64[Tensor, " piece"]
    """Index into the words with several pieces, of each of these pieces."""
    others: tuple[Tensor, ...]
    """Row and position of each token that is not the first piece of a word."""
    wordless: tuple[Tensor, ...]
    """Row and position of each token that has no word."""
    arc_A: Int64[Tensor, " arc"]
    """Index of each arc."""
    ends: tuple[Tensor, ...]
    """Row, first piece of the dependent, and first piece of the head of each arc."""
    word_V: tuple[Tensor, Tensor]
    """Row and first piece of each word."""
    near_OV: Int64[Tensor, "offset single"]
    """First piece of the word at each offset up to `REACH`; its own first piece, whose weight is
    hidden, if there is none."""
    fields: FieldRows | None
    """The fields of links that name their candidates."""


@final
class ArcHits:
    """Finds the arcs that each head of one layer predicts, from the tap's blocks.

    Args:
        words: the words and arcs of the batch.
        num_heads: number of heads.
        with_looks: whether to count where words look, too.
    """

    def __init__(self, words: Words, num_heads: int, with_looks: bool = False) -> None:
        self._words, self._with_looks = words, with_looks
        num_sides, size = NUM_DIRECTIONS * words.arcs.num_narrowed, 2 * REACH + 2
        self._looks = words.tokens.word_BN.new_zeros(num_heads, 2, size)
        self._field_looks = words.tokens.word_BN.new_zeros(num_heads, num_sides, size)
        shape = (len(DIRECTIONS), len(words.arcs.head_A), num_heads)
        self._hits_DAH = words.tokens.word_BN.new_zeros(shape, dtype=torch.bool)
        self._parts: dict[int, list[Tensor]] = {}

    def block(self, block: Block) -> None:
        """Take a block, whose weights are overwritten. Parts of long rows wait for the others."""
        weights = block.weights_BHQK
        if weights.shape[2] < weights.shape[3]:
            parts = self._parts.setdefault(block.rows.start, [])
            parts.append(weights)
            if block.queries.start + weights.shape[2] < weights.shape[3]:
                return
            weights = torch.cat(self._parts.pop(block.rows.start), 2)
        rows = self._words.of_rows(block.rows)
        _to_words(weights, rows)
        largest = _largest(weights, 3), _largest(weights, 2)
        self._hits_DAH[:, rows.arc_A, block.heads] = _hits(weights, *largest, rows)
        if self._with_looks:
            maps = (weights, weights.transpose(2, 3))
            looks = [_looks(*each, rows) for each in zip(maps, largest, strict=True)]
            self._looks[block.heads] += torch.stack(looks, 1)
        if rows.fields is not None:
            found = rows.fields.largest(weights, _HIDDEN)
            self._hits_DAH[:, rows.fields.arc_K, block.heads] = found.hits()
            num_kinds = self._words.arcs.num_narrowed
            self._field_looks[block.heads] += found.counted(num_kinds, REACH)

    @property
    def looks(self) -> Int64[Tensor, "head side offset"]:
        """Number of words whose largest weight is at each offset from -`REACH` to `REACH`.

        Those farther away are the last. Sides are the word's row and its column; then those of the
        fields of each kind of links, in every direction (`FieldLooks.counted`).
        """
        if not self._words.arcs.num_narrowed:
            return self._looks
        return torch.cat([self._looks, self._field_looks], 1)

    def hits(self) -> Bool[Tensor, "arc head direction"]:
        """Whether each head predicts each arc, in each of `DIRECTIONS`."""
        return self._hits_DAH.movedim(0, -1)


def _to_words(weights_BHNN: Tensor, rows: _Rows) -> None:
    """Make a map between tokens one between words, which stand at their first pieces.

    The other pieces' keys remain, since a weight is never larger than the sum at the first piece.
    """
    _merge(weights_BHNN.permute(0, 3, 1, 2), rows)
    _merge(weights_BHNN.permute(0, 2, 1, 3), rows, mean=True)
    row, token = rows.others
    weights_BHNN[row, :, token] = _HIDDEN
    row, token = rows.wordless
    weights_BHNN[row, :, :, token] = _HIDDEN
    weights_BHNN.diagonal(dim1=2, dim2=3).fill_(_HIDDEN)
    (row, first), (_, piece) = rows.first_W, rows.piece_P  # the word's own pieces
    weights_BHNN[row[rows.word_P], :, first[rows.word_P], piece] = _HIDDEN


def _merge(numbers_BNHX: Tensor, rows: _Rows, mean: bool = False) -> None:
    """Add the pieces of each word to its first one, or take their mean, in place."""
    sum_WHX = numbers_BNHX[rows.first_W].index_add_(0, rows.word_P, numbers_BNHX[rows.piece_P])
    numbers_BNHX[rows.first_W] = sum_WHX / rows.size_W[:, None, None] if mean else sum_WHX


def _largest(weights: Tensor, axis: int) -> Tensor:
    """`amax` by halves, which is several times faster where rows are short."""
    while (size := weights.shape[axis]) > 1:
        half = (size + 1) // 2
        weights = torch.maximum(
            weights.narrow(axis, 0, half), weights.narrow(axis, size - half, half)
        )
    return weights.squeeze(axis)


def _looks(map_BHNN: Tensor, largest_BHN: Tensor, rows: _Rows) -> Int64[Tensor, "head offset"]:
    """Number of words whose largest weight is at each offset. In a tie, all of them count."""
    row_V, first_V = rows.word_V
    largest_VH = largest_BHN[row_V, :, first_V]
    is_word_VH = largest_VH > 0
    near_OVH = map_BHNN[row_V, :, first_V, rows.near_OV]
    # Ones in place of booleans, whose sums are not vectorised
    at_OVH = torch.eq(near_OVH, largest_VH.where(is_word_VH, torch.nan), out=near_OVH)
    is_far_VH = is_word_VH & (at_OVH.amax(0) == 0)
    return torch.cat([at_OVH.sum(1), is_far_VH.sum(0)[None]]).long().T


def _hits(
    map_BHNN: Tensor, by_query_BHN: Tensor, by_key_BHN: Tensor, rows: _Rows
) -> Bool[Tensor, "direction arc head"]:
    """Whether a word's largest weight is at the other word of an arc; the first in a tie.

    Few weights are the largest of their word, so only there is a tie looked for.
    """
    row_A, dependent_A, head_A = rows.ends
    at_head_AH = map_BHNN[row_A, :, dependent_A, head_A]
    at_dependent_AH = map_BHNN[row_A, :, head_A, dependent_A]
    weights_DAH = torch.stack([at_head_AH, at_dependent_AH, at_dependent_AH])
    largest_DAH = torch.stack(
        [
            by_query_BHN[row_A, :, dependent_A],
            by_query_BHN[row_A, :, head_A],
            by_key_BHN[row_A, :, dependent_A],
        ]
    )
    hits_DAH = (weights_DAH == largest_DAH) & (weights_DAH > 0)
    for hits_AH, maps_BHNN, of_A, at_A in (
        (hits_DAH[0], map_BHNN, dependent_A, head_A),
        (hits_DAH[1], map_BHNN, head_A, dependent_A),
        (hits_DAH[2], map_BHNN.transpose(2, 3), dependent_A, head_A),
    ):
        arc, head = hits_AH.nonzero(as_tuple=True)
        first = maps_BHNN[row_A[arc], head, of_A[arc]].max(-1).indices
        hits_AH[arc, head] = first == at_A[arc]
    return hits_DAH
