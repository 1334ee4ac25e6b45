"""Rows: token ids of any batch size and length, random or from a text."""

from collections.abc import Iterable
from itertools import islice
from typing import final

import torch
from jaxtyping import Int64
from torch import Tensor
from transformers import PreTrainedConfig

from headcount.corpora import Corpus
from headcount.corpora.census import chunks
from headcount.models.load import Loaded

SENTENCES_AT_ONCE = 64


@final
class TokenRows:
    """Cuts a stream of token ids into rows; the stream repeats when it ends.

    Rows have no special tokens and no padding, so all tokens of a batch count.
    """

    def __init__(self, ids_T: Int64[Tensor, " token"]) -> None:
        self.ids_T = ids_T

    @classmethod
    def random(cls, loaded: Loaded, num_tokens: int, seed: int = 0) -> "TokenRows":
        """Random ids, without special ones."""
        usual = sorted(set(range(vocabulary(loaded.model.config))) - _special(loaded))
        generator = torch.Generator().manual_seed(seed)
        choice_T = torch.randint(len(usual), (num_tokens,), generator=generator)
        return cls(torch.tensor(usual)[choice_T])

    @classmethod
    def of_text(cls, loaded: Loaded, corpus: Corpus, num_tokens: int) -> "TokenRows":
        """The first tokens of a corpus, without those that the tokenizer adds.

        Where the decoder has fewer ids than the encoder, higher ids wrap around to 0.
        """
        encoder = loaded.encoder()

        def tokens() -> Iterable[int]:
            for sentences in chunks(corpus, SENTENCES_AT_ONCE):
                for encoded in encoder.sources(sentences):
                    pairs = zip(encoded.ids, encoded.is_special, strict=True)
                    yield from (token for token, special in pairs if not special)

        ids_T = torch.tensor(list(islice(tokens(), num_tokens)))
        return cls(ids_T % vocabulary(loaded.model.config))

    def rows(self, batch: int, length: int) -> Int64[Tensor, "row token"]:
        """The first rows of a given length."""
        index_T = torch.arange(batch * length) % len(self.ids_T)
        return self.ids_T[index_T].reshape(batch, length)


def vocabulary(config: PreTrainedConfig) -> int:
    """Number of token ids that both sides of a model have.

    >>> from transformers import MarianConfig
    >>> vocabulary(MarianConfig(vocab_size=58101, decoder_vocab_size=70000))
    58101
    """
    text = config.get_text_config()
    return min(text.vocab_size, getattr(text, "decoder_vocab_size", None) or text.vocab_size)


def _special(loaded: Loaded) -> set[int]:
    config = loaded.model.config.get_text_config()
    kinds = ("pad", "bos", "eos", "sep", "cls", "mask", "decoder_start")
    named = {getattr(config, f"{kind}_token_id", None) for kind in kinds}
    ids = named if loaded.tokenizer is None else named | set(loaded.tokenizer.all_special_ids)
    return {each for each in ids if isinstance(each, int)}
