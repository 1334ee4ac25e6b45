"""A batch: some sentences as tensors, ready for a model and for the measures.

Axes: B sentence, N token, A arc. Rows are padded on the right.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar, final

import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

from headcount.core import Grid
from headcount.corpora.halves import FIRST_HALF, SECOND_HALF
from headcount.corpora.sentence import Encoded, Sentence

M = TypeVar("M", bound="Movable")


@dataclass(frozen=True, eq=False)
class Movable:
    """A record of tensors, which can be on any device."""

    def to(self: M, device: torch.device | str) -> M:
        """Copy all tensors to another device, those of records and of dicts in it, too."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{name: _moved(part, device) for name, part in parts.items()})


def _moved(part: Any, device: torch.device | str) -> Any:
    if isinstance(part, Tensor | Movable):
        return part.to(device)
    is_dict = isinstance(part, Mapping)
    return {name: _moved(each, device) for name, each in part.items()} if is_dict else part


@final
@dataclass(frozen=True, eq=False)
class Tokens(Movable):
    """One side of a batch."""

    ids_BN: Int64[Tensor, "batch token"]
    is_token_BN: Bool[Tensor, "batch token"]
    """True unless padding."""
    is_content_BN: Bool[Tensor, "batch token"]
    """True unless special or padding."""
    is_sep_BN: Bool[Tensor, "batch token"]
    """True for special tokens that separate or end."""
    is_punct_BN: Bool[Tensor, "batch token"]
    """True for content tokens that consist of punctuation only."""
    word_BN: Int64[Tensor, "batch token"]
    """Index of the piece's word, merged words as one (see `Encoded`); -1 for special tokens,
    padding and text without words."""
    rarest_B2: Int64[Tensor, "batch 2"]
    """Positions of the rarest and second rarest content token, see `Frequencies.rarest`."""
    count_BN: Int64[Tensor, "batch token"]
    """Frequency of each token."""
    is_rare_BN: Bool[Tensor, "batch token"]
    """True for tokens that are not among the most common ones."""
    unit_BN: Int64[Tensor, "batch token"]
    """Number of the token's unit in the corpus, see `halves`; -1 for padding."""
    half_BN: Int64[Tensor, "batch token"]
    """Half of the corpus: `FIRST_HALF` or `SECOND_HALF`; `NO_HALF` for padding and context."""
    rows_B: Int64[Tensor, " batch"]
    """Number of rows, in all batches, that a unit of each row is in; 0 if that is not known."""
    is_picture_BN: Bool[Tensor, "batch token"] | None = None
    """True for tokens that stand for a part of a picture; None if texts have no pictures."""

    @cached_property
    def is_half_2BN(self) -> Bool[Tensor, "half batch token"]:
        """Tokens of the first and of the second half of the corpus."""
        return torch.stack([self.half_BN == FIRST_HALF, self.half_BN == SECOND_HALF])

    def only(self, is_left_BN: Bool[Tensor, "batch token"]) -> "Tokens":
        """The same tokens; those that are not left count as padding."""
        names = ("is_token_BN", "is_content_BN", "is_sep_BN", "is_punct_BN")
        return replace(self, **{name: getattr(self, name) & is_left_BN for name in names})


@final
@dataclass(frozen=True, eq=False)
class LinkFields(Movable):
    """The words that are compared for links that name their candidates, see `Link.compared`."""

    sentence_F: Int64[Tensor, " field"]
    """Row in the batch."""
    word_FW: Int64[Tensor, "field word"]
    """Word indices in order; `NO_WORD` is padding."""
    query_F: Int64[Tensor, " field"]
    """Place of the query in its field."""
    kind_F: Int64[Tensor, " field"]
    """Index of the link's name among those that name candidates."""
    arc_K: Int64[Tensor, " key"]
    """Arc to each key."""
    field_K: Int64[Tensor, " key"]
    """Its field."""
    key_K: Int64[Tensor, " key"]
    """Its place in the field."""


@final
@dataclass(frozen=True, eq=False)
class Arcs(Movable):
    """The dependency arcs of a batch, without root arcs, and the links, an arc for each key."""

    sentence_A: Int64[Tensor, " arc"]
    """Row in the batch."""
    dependent_A: Int64[Tensor, " arc"]
    """Word index of the dependent."""
    head_A: Int64[Tensor, " arc"]
    """Word index of the head."""
    relation_A: Int64[Tensor, " arc"]
    """Index into `Census.relations`, followed by `Census.links`."""
    is_baseline_A: Bool[Tensor, " arc"]
    """True if the arc spans the most frequent offset of its relation in the first half."""
    num_relations: int
    """Number of relations and kinds of links."""
    num_roots: int
    """Number of words that no other word governs."""
    link_A: Int64[Tensor, " arc"] | None = None
    """Number of the link that each arc is part of, from 0 on; None if each is one of its own."""
    num_narrowed: int = 0
    """Number of kinds of links that name their candidates; they are the last relations."""
    fields: LinkFields | None = None
    """The words that are compared for these; None if the batch has no such link."""

    @cached_property
    def offset_A(self) -> Int64[Tensor, " arc"]:
        """Offset head - dependent of each arc in words, or in words of its field."""
        offset_A, its = self.head_A - self.dependent_A, self.fields
        if its is None:
            return offset_A
        return offset_A.index_copy(0, its.arc_K, its.key_K - its.query_F[its.field_K])


@final
@dataclass(frozen=True, eq=False)
class Batch(Movable):
    """Some sentences, ready for a model and for the measures."""

    inputs: dict[str, Shaped[Tensor, "batch ..."]]
    """Keyword arguments of the model's forward."""
    source: Tokens
    target: Tokens | None
    """The decoder side of an encoder-decoder."""
    arcs: Arcs | None
    """Dependency arcs and links; None if the corpus has no trees and no links."""
    sentences: tuple[Sentence, ...]
    """Sentence of each row; a text that is read in windows has several rows."""
    is_measured_BN: Bool[Tensor, "batch token"] | None = None
    """False for the context at the beginning of windows; None if no row is a window."""
    grid: Grid | None = None
    """Patches of the images; None for sentences."""
    encoded: tuple[Encoded, ...] = ()
    """Source of each row."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens on both sides, without padding."""
        sides = (self.source, self.target)
        return sum(int(side.is_token_BN.sum()) for side in sides if side is not None)

    @property
    def num_measured(self) -> int:
        """Number of tokens of the source that are measured: all, if no row is a window."""
        its_BN = self.is_measured_BN if self.is_measured_BN is not None else self.source.is_token_BN
        return int(its_BN.sum())

    def words_at(self, row: int) -> dict[int, list[int]]:
        """The words of a row's treebank at each index in `word_BN`."""
        return self.encoded[row].words_at(len(self.sentences[row].words or ()))
