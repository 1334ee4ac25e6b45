"""What the measures see of a batch: tokens of one side, and arcs between words.

Axes: B sentence, N token, A arc. Rows are padded on the right.
"""

from dataclasses import dataclass, fields
from typing import final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Tokens:
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
    """Index of the piece's word; -1 for special tokens, padding and text without words."""
    rarest_B2: Int64[Tensor, "batch 2"]
    """Positions of the rarest and second rarest content token, see `Frequencies.rarest`."""

    def to(self, device: torch.device | str) -> "Tokens":
        """Copy the tokens to another device."""
        tensors = (getattr(self, field.name).to(device) for field in fields(self))
        return Tokens(*tensors)


@final
@dataclass(frozen=True, eq=False)
class Arcs:
    """The dependency arcs of a batch, without root arcs."""

    sentence_A: Int64[Tensor, " arc"]
    """Row in the batch."""
    dependent_A: Int64[Tensor, " arc"]
    """Word index of the dependent."""
    head_A: Int64[Tensor, " arc"]
    """Word index of the head."""
    relation_A: Int64[Tensor, " arc"]
    """Index into `Census.relations`."""
    num_relations: int
    """Length of `Census.relations`."""
    num_roots: int
    """Number of words that no other word governs."""

    def to(self, device: torch.device | str) -> "Arcs":
        """Copy the arcs to another device."""
        return Arcs(
            self.sentence_A.to(device),
            self.dependent_A.to(device),
            self.head_A.to(device),
            self.relation_A.to(device),
            self.num_relations,
            self.num_roots,
        )
