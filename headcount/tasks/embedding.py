"""Embeddings of texts: the pooled states of a text encoder, as sentence-transformers makes them.

Of a sentence-transformers folder, the prompts, the Transformer with its limit of tokens, and the
pooling are used. If anything else in it changes embeddings, such as a Dense module, it is refused,
or skipped with a warning if the pooling is given.
Reference: Sentence-BERT (Reimers and Gurevych, 2019), section 3, https://arxiv.org/abs/1908.10084
"""

import warnings
from dataclasses import dataclass, field, replace
from typing import final, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount.core import InputError, check_choice
from headcount.corpora import Encoder, Sentence
from headcount.models import Loaded, NotLookedUpError, SentenceEncoding
from headcount.tasks.batch import mean_states
from headcount.tasks.options import Pooling


@final
@dataclass(frozen=True)
class Embedding:
    """How a model's states of tokens become embeddings of texts."""

    encoding: SentenceEncoding
    """What the model states, with the pooling that was asked for."""
    num_skipped: int = field(init=False, default=0)
    """Number of a prompt's tokens that are not pooled."""

    @classmethod
    def of(cls, loaded: Loaded, asked: Pooling | None, prompt: str | None = None) -> "Embedding":
        """How a model pools.

        Args:
            loaded: the model.
            asked: the pooling to use; None for what the model states, or the mean.
            prompt: the text before every text; None for what the model states.

        Raises:
            InputError: for a pooling that is neither a mean nor the first token, or a model whose
                embeddings need more than that.
        """
        found = cls(_encoding(loaded, asked))
        if prompt is not None:
            found = cls(replace(found.encoding, prompt=prompt))
        if not found.encoding.pools_prompt:
            number = _length(found.encoding.prompt, loaded.encoder())
            object.__setattr__(found, "num_skipped", number)
        return found

    @property
    def signed(self) -> dict[str, object]:
        """What decides the model's input or the pooling, by its short name; None if it is usual."""
        encoding = self.encoding
        return {
            "pooling": None if encoding.pooling == "mean" else encoding.pooling,
            "prompt": encoding.prompt or None,
            "pools_prompt": None if encoding.pools_prompt else False,
        }

    def pooled(
        self, hidden_RNW: Float[Tensor, "row token width"], mask_RN: Int[Tensor, "row token"]
    ) -> Float[Tensor, "row width"]:
        """Embeddings of the rows: means of their states, or the first ones."""
        hidden_RNW = hidden_RNW.to(torch.promote_types(hidden_RNW.dtype, torch.float32))
        skipped = self.num_skipped
        if self.encoding.pooling == "cls" and not skipped:
            return hidden_RNW[:, 0]
        if skipped:
            mask_RN = mask_RN.clone()
            mask_RN[:, :skipped] = 0  # rows are padded on the right
        if self.encoding.pooling == "cls":
            return hidden_RNW[torch.arange(len(mask_RN)), mask_RN.argmax(1)]
        return mean_states(hidden_RNW, mask_RN)  # 0 for a text that is cut off


def _length(prompt: str, encoder: Encoder) -> int:
    """Number of a prompt's tokens as sentence-transformers counts them: without a special end."""
    if not prompt:
        return 0
    ids = encoder.sources([Sentence(prompt)])[0].ids
    return len(ids) - (ids[-1] in encoder.tokenizer.all_special_ids)


def _encoding(loaded: Loaded, asked: Pooling | None) -> SentenceEncoding:
    """What the model states, with the pooling that was requested if any."""
    if asked is not None:
        check_choice("a pooling", asked, Pooling)
    name = loaded.model.config.name_or_path or ""
    try:
        stated = SentenceEncoding.of(name)
    except NotLookedUpError as error:
        if asked is None:
            warnings.warn(
                f"{name}: the model's pooling could not be looked up, so embeddings are the mean "
                f"of its tokens. Give --pooling mean or cls, as on the model's card: {error}",
                stacklevel=3,
            )
        return SentenceEncoding(asked or "mean")
    pooling = asked or stated.pooling or "mean"
    if pooling not in get_args(Pooling):
        raise InputError(
            f"Expected pooling by mean or cls, got {pooling}, which {name} states. Say which of "
            "the two to measure, e.g. --pooling mean."
        )
    if stated.left_out:
        skipped = ", ".join(stated.left_out)
        if asked is None:
            raise InputError(
                f"Expected embeddings by a Transformer, a pooling and a normalisation, but {name} "
                f"also has {skipped}. To score the pooled Transformer without it, give --pooling "
                f"{pooling}."
            )
        warnings.warn(
            f"{name}: embeddings are those of its pooled Transformer. Skipped: {skipped}",
            stacklevel=3,
        )
    return replace(stated, pooling=pooling)
