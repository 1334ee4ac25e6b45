r"""Pictures beside text: how much weight goes from words and from pictures to which.

$$\mathrm{weight}_{a \to b}(h) = \frac{1}{|a|} \sum_{q \in a} \sum_{k \in b} A_h(q, k) \in [0, 1]$$

a and b are the tokens of pictures (or of recordings), or those of what the text says; the rest of
the weight goes to the tokens of the template, among them the first one. In a causal model a token
sees earlier ones only, so that a picture in front of the text gives the text nothing.

The sink is the share of the weight on a picture's tokens that goes to one of them, the same for all
queries of a text: for K tokens of pictures, even attention gives 1 / K.

$$\mathrm{sink}(h) = \frac{\sum_t \max_{k \in t} c_h(k)}{\sum_t \sum_{k \in t} c_h(k)}, \qquad
c_h(k) = \sum_{q} A_h(q, k)$$

References: weight of a head on a picture: Your Large Vision-Language Model Only Needs A Few
    Attention Heads For Visual Grounding (Kang et al., 2025), section 3,
    https://arxiv.org/abs/2503.06287; sinks in pictures: See What You Are Told (Kang et al., 2025),
    section 3, https://arxiv.org/abs/2503.03321
Departure: the papers take the last token of the prompt alone; here every token counts.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount import numbers
from headcount.measures.reductions import Attention
from headcount.measures.sums import Sums
from headcount.tap import Reduction
from headcount.vocabulary import PICTURES, ColumnEntry

_SOURCE = "[Kang 2025](https://arxiv.org/abs/2503.06287) 3"


@final
@dataclass(frozen=True)
class PictureWeights(Sums):
    """Mean weight from text and from pictures to each, and the share of one token of a picture."""

    name = "picture_weights"
    columns = (
        ColumnEntry(
            "text_to_picture",
            "weight from words to pictures or sound",
            PICTURES,
            "mean weight of a token of the text on tokens of pictures or recordings",
            numbers.percent,
            _SOURCE,
        ),
        ColumnEntry(
            "text_to_text",
            "weight from words to words",
            PICTURES,
            "mean weight of a token of the text on tokens of the text",
            numbers.percent,
            _SOURCE,
        ),
        ColumnEntry(
            "picture_to_picture",
            "weight from pictures or sound to these",
            PICTURES,
            "mean weight of a token of a picture or recording on these tokens",
            numbers.percent,
            _SOURCE,
        ),
        ColumnEntry(
            "picture_to_text",
            "weight from pictures or sound to words",
            PICTURES,
            "mean weight of a token of a picture or recording on tokens of the text",
            numbers.percent,
            _SOURCE,
        ),
        ColumnEntry(
            "picture_sink",
            "share of one token of a picture or sound",
            PICTURES,
            "share of the weight on pictures or recordings on one token of them in each text",
            numbers.percent,
            "[Kang 2025b](https://arxiv.org/abs/2503.03321) 3",
        ),
    )
    needs = frozenset({Reduction.KINDS, Reduction.COLUMN})

    weight: Float[Tensor, "head from to"]
    """Sum over tokens of the text, and of pictures, of the weight on pictures and on the text."""
    tokens: Int[Tensor, " from"]
    """Number of tokens of the text and of pictures."""
    on_one: Float[Tensor, " head"]
    """Sum over texts of the weight that the token of a picture with most of it gets."""
    on_all: Float[Tensor, " head"]
    """Sum over texts of the weight on all tokens of pictures."""

    @classmethod
    def applies(cls, attention: Attention) -> bool:
        """Whether texts beside pictures attend to themselves."""
        return attention.sides.is_self and attention.keys.is_picture_BN is not None

    @classmethod
    def of(cls, attention: Attention) -> "PictureWeights":
        """The sums over one batch."""
        queries, kinds_BHQ2 = attention.queries, attention.kinds_BHQM
        is_shown_BQ, is_shown_BK = queries.is_picture_BN, attention.keys.is_picture_BN
        assert is_shown_BQ is not None and is_shown_BK is not None and kinds_BHQ2 is not None
        is_query_BQ = queries.is_token_BN & queries.is_content_BN
        kinds_2BQ = torch.stack([is_query_BQ & ~is_shown_BQ, is_query_BQ & is_shown_BQ])
        weight_H22 = torch.einsum("bhqt,fbq->hft", kinds_BHQ2.double(), kinds_2BQ.double())
        column_BHK = attention.column_BHK.double() * is_shown_BK[:, None]
        on_one, on_all = column_BHK.amax(-1).sum(0), column_BHK.sum((0, -1))
        return cls(weight_H22, kinds_2BQ.sum((1, 2)), on_one, on_all)

    def value(self) -> dict[str, Float[Tensor, " head"]]:
        """The five shares, each between 0 and 1; NaN where there is no such token."""
        shares_H4 = (self.weight / self.tokens[:, None]).flatten(1)
        text_picture, text_text, picture_picture, picture_text = shares_H4.unbind(-1)
        found = (text_picture, text_text, picture_picture, picture_text, self.on_one / self.on_all)
        return dict(zip(self.names(), found, strict=True))
