r"""Cases: a prompt as the model reads it, and where in its logits the prediction stands.

What is read off the logits of some rows of tokens is a sum over targets,

$$m = \sum_i c_i \log P(t_i), \qquad c_i = 1 \text{ for the target}, -1 \text{ for its rival}$$

in nats: of one token and its rival, the difference of their logits; of several tokens, of their
joint log-probabilities; without a rival, the log-probability. A causal model continues a prompt, an
encoder-decoder answers a source, a masked model fills one [MASK], a classifier gives a label.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from headcount.corpora import LabelledTokens
from headcount.explanation.prompts import Prompt
from headcount.models import Loaded
from headcount.tap import input_device


@final
@dataclass(frozen=True)
class Reading:
    """One number that is read off the logits."""

    place: int | None
    """Its token's place, counted from the end; None for a classifier."""
    token: int
    """The token or the label."""
    sign: float
    """1 for the target, -1 for its rival."""


@final
@dataclass(frozen=True)
class Look:
    """Which looks of heads are knocked out."""

    site: str
    """Site of the heads."""
    queries: tuple[int, ...]
    """Places of the tokens that look; none stands for all."""
    keys: tuple[int, ...]
    """Places of the tokens that are not seen."""


@final
@dataclass(frozen=True)
class Row:
    """One row of tokens that the model reads, and what is read off its logits."""

    ids: tuple[int, ...]
    """Tokens of the text; of an encoder-decoder, of the source."""
    decoder_ids: tuple[int, ...] | None
    """Tokens that the decoder of an encoder-decoder reads."""
    readings: tuple[Reading, ...]
    in_other: tuple[int, ...] = ()
    """For each token of the text, its place in the same row of the other prompt, if there is one;
    a decoder reads the same tokens for both."""
    look: Look | None = None
    """Which looks are knocked out; None where the prompt lacks the word to be looked at."""

    @property
    def last(self) -> int:
        """Number of tokens at the end whose logits are read."""
        return max(-(each.place or 0) for each in self.readings)

    def inputs(self, loaded: Loaded, num: int = 1) -> dict[str, Tensor]:
        """The inputs of the model, in as many copies."""
        rows = {"input_ids": self.ids, "decoder_input_ids": self.decoder_ids}
        return {
            name: torch.tensor([ids], device=input_device(loaded.model)).expand(num, -1)
            for name, ids in rows.items()
            if ids is not None
        }

    def logits(self, logits: Float[Tensor, "row ..."]) -> Float64[Tensor, "row reading"]:
        """The logits that are read."""
        read = [_at(logits, each.place)[:, each.token].double() for each in self.readings]
        return torch.stack(read, 1)

    def log_probabilities(self, logits: Float[Tensor, "row ..."]) -> Float64[Tensor, "row reading"]:
        """Log-probabilities of what is read."""
        norms = [_at(logits, each.place).double().logsumexp(-1) for each in self.readings]
        return self.logits(logits) - torch.stack(norms, 1)

    def signs(self, like: Tensor) -> Tensor:
        """The sign of each reading."""
        return torch.tensor([each.sign for each in self.readings]).to(like)


def _at(logits: Tensor, place: int | None) -> Tensor:
    return logits if place is None else logits[:, place]


@final
@dataclass(frozen=True)
class Case:
    """A prompt and its second one, as the model reads them."""

    prompt: Prompt
    text: LabelledTokens
    """The prompt's tokens and words."""
    tokens: tuple[str, ...]
    """The tokens of the target that are read."""
    rows: tuple[Row, ...]
    corrupt: tuple[Row, ...] | None
    """The rows of the second prompt."""
