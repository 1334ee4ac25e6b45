r"""Frames of sound: how much of a head stays near in time, and goes to one moment of every file.

Near: the weight on frames of the sound that are at most `NEAR` s away. By chance a head that looks
at the sound in no particular place gives m / n there, of n frames of the recording, and position
what it gives to frames at such offsets (`traits`).

Moments: the weight on one and the same frame of every recording, whatever is in it,

$$\mathrm{moment}(h, p) = \frac{1}{|Q|} \sum_{q \in Q} A_h(q, p)$$

by chance 1 / n of all n frames that the model reads, those behind the sound included.

References: after distance: Dosovitskiy et al. (2021), figure 7, https://arxiv.org/abs/2010.11929;
    after sinks: Clark et al. (2019), section 3.2, https://arxiv.org/abs/1906.04341
Departure: no paper defines them for sound.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.measures.class_weights import ClassWeights
from headcount.measures.key_classes import Trait
from headcount.measures.reductions import Attention, Sides
from headcount.measures.sums import Sums
from headcount.measures.units import Moments
from headcount.tap import Reduction
from headcount.vocabulary import SOUND

NEAR = 10
"""Frames that are near: 0.2 s in a Whisper."""
ENCODER, CROSS = "encoder.self", "decoder.cross"


@final
class Nearby(Trait):
    """Frames of the sound that are near in time."""

    name, takes = "frames_near", (SOUND,)

    def keys(self, sides: Sides, rows: slice, queries: slice) -> Bool[Tensor, "row query key"]:
        """The frames of the recording at offsets of up to `NEAR`."""
        is_content_BK = sides.keys.is_content_BN[rows]
        place_K = torch.arange(is_content_BK.shape[1], device=is_content_BK.device)
        near_QK = (place_K - place_K[queries, None]).abs() <= NEAR
        return near_QK & is_content_BK[:, None]


@final
@dataclass(frozen=True)
class FrameTraits(ClassWeights):
    """Weight on frames that are near, and what chance has there."""

    name = "frame_traits"
    takes = (SOUND,)
    classes: ClassVar[tuple[Trait, ...]] = (Nearby(),)
    of_content: ClassVar[bool] = True

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Frames that look at frames only."""
        return attention.layer.site == ENCODER


@final
@dataclass(frozen=True)
class FrameMoments(Sums):
    """Weight on every frame that the model reads, by half of the recordings."""

    name = "frame_moments"
    takes = (SOUND,)
    needs = frozenset({Reduction.COLUMN})

    weight: Float[Tensor, "half head frame"]
    """Sum over queries of the weight on each frame."""
    moments: Moments
    """Moments of that weight over recordings of the second half, by frame and head."""
    tokens: Int[Tensor, " half"]
    """Number of queries."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """What looks at frames only."""
        return attention.layer.site in (ENCODER, CROSS)

    @classmethod
    def of(cls, attention: Attention) -> "FrameMoments":
        """The sums over one batch."""
        queries = attention.queries
        halves = [
            queries.is_token_BN.any(1) & (its & queries.is_token_BN).any(1)
            for its in queries.is_half_2BN
        ]
        column_BHK = attention.column_BHK.double()
        tokens_B1 = queries.is_token_BN.sum(1, keepdim=True)
        second_BKH = column_BHK[halves[1]].transpose(1, 2)
        return cls(
            torch.stack([column_BHK[each].sum(0) for each in halves]),
            Moments.of_closed(second_BKH, tokens_B1[halves[1]].expand(-1, second_BKH.shape[1])),
            torch.stack([tokens_B1[each].sum() for each in halves]),
        )
