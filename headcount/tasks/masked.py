"""Masked language modelling: how well masked tokens are predicted from both sides.

Loss: NLL of an example's masked tokens, in nats. Score: perplexity of masked tokens (lower is
better), which is not the perplexity of the text.
Reference: BERT (Devlin et al., 2019), section 3.1, https://arxiv.org/abs/1810.04805
Departure: masks are drawn once, from the seed and the example's number (in training, again for
every batch), with exactly the given share of each example's content tokens (rounded, at least
one). A mask is always [MASK], unless `Masking(replacement="bert")` asks for the paper's 80 %
[MASK], 10 % random, 10 % unchanged.
"""

from dataclasses import asdict
from typing import ClassVar, final

import numpy as np
import torch
from jaxtyping import Int
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import CorpusError, ModelError
from headcount.corpora import Columns, Data
from headcount.models import Loaded
from headcount.tasks.metrics import IGNORED, PerplexityTask
from headcount.tasks.options import Masking, read_examples
from headcount.tasks.supported import check_fits
from headcount.tasks.task import TaskBatch
from headcount.tasks.token_rows import (
    framed,
    pad_id,
    padded,
    piece_length,
    text_inputs,
    whole_texts,
)

MASKING = Masking()
"""The usual masking."""
SHARE_MASK, SHARE_RANDOM = 0.8, 0.1
"""Shares of the masked tokens under `bert`; the rest is unchanged."""


@final
class MaskedLanguageModelling(PerplexityTask):
    """Prediction of masked tokens, which are always the same except in training.

    A text longer than `max_length` is cut into pieces. Each piece, between special tokens of its
    own, is an example.

    Args:
        loaded: an encoder with its tokenizer.
        data: files, or `{"text": [...]}`.
        columns: `{"text": NAME}`.
        masking: which tokens are masked, and what replaces them.
        max_length: largest number of tokens in a piece; the model's limit if None.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "masked-lm"

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        *,
        masking: Masking = MASKING,
        max_length: int | None = None,
        limit: int | None = None,
    ) -> None:
        check_fits(loaded.model, self.name)
        table = read_examples(self.name, data, columns, limit)
        self.sha256 = table.sha256_with(**asdict(masking), max_length=max_length)
        self._mask = _Mask(loaded, masking)
        self.pieces = list[tuple[list[int], list[bool]]]()
        self.num_texts, self.num_cut = len(table), 0
        length = piece_length(loaded, max_length)
        for text, origin in zip(whole_texts(loaded, table), table.origins, strict=True):
            pieces = list(framed(text, length))
            if not pieces:
                raise CorpusError(f"{origin}: expected a token to mask, got none. Remove the line.")
            self.num_cut += len(pieces) > 1
            self.pieces += pieces
        self._pad_id = pad_id(loaded)
        self.num_examples = len(self.pieces)

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pieces, masked as always."""
        return self._drawn(index_E, draw=0)

    def training_batch(self, index_E: Int[np.ndarray, " example"], number: int) -> TaskBatch:
        """A batch of pieces with masks of their own for every batch."""
        return self._drawn(index_E, draw=number + 1)

    def _drawn(self, index_E: Int[np.ndarray, " example"], draw: int) -> TaskBatch:
        masked = [self._mask.of(int(index), draw, *self.pieces[index]) for index in index_E]
        inputs = text_inputs([ids for ids, _ in masked], self._pad_id)
        labels_EN = padded([labels for _, labels in masked], IGNORED)
        rows = torch.arange(len(index_E))
        return TaskBatch(inputs, {"labels": labels_EN}, rows, torch.from_numpy(index_E))


@final
class _Mask:
    """Draws masks, which depend on the seed, the number of the example and that of the draw."""

    def __init__(self, loaded: Loaded, masking: Masking) -> None:
        tokenizer: Tokenizer = loaded.encoder().tokenizer
        mask_id = tokenizer.mask_token_id
        if not isinstance(mask_id, int):
            raise ModelError(
                f"Expected a tokenizer with a mask token for masked-lm, got the "
                f"{type(tokenizer).__name__} of {loaded.name}. Set mask_token in "
                "tokenizer_config.json."
            )
        self._mask_id, self._masking = mask_id, masking
        size = min(len(tokenizer), loaded.model.config.get_text_config().vocab_size)
        self._usual = np.setdiff1d(np.arange(size), tokenizer.all_special_ids)

    def of(
        self, index: int, draw: int, ids: list[int], is_special: list[bool]
    ) -> tuple[list[int], list[int]]:
        """Masked ids, and the labels at masked positions."""
        rng = np.random.default_rng((self._masking.seed, index, draw))
        content = np.flatnonzero(~np.array(is_special))
        count = max(1, round(self._masking.share * len(content)))
        chosen = rng.choice(content, count, replace=False)
        masked, labels = np.array(ids), np.full(len(ids), IGNORED)
        labels[chosen] = masked[chosen]
        masked[chosen] = self._stand_ins(masked[chosen], rng)
        return masked.tolist(), labels.tolist()

    def _stand_ins(
        self, ids_M: Int[np.ndarray, " masked"], rng: np.random.Generator
    ) -> Int[np.ndarray, " masked"]:
        masks = np.full_like(ids_M, self._mask_id)
        if self._masking.replacement == "mask":
            return masks
        lot = rng.random(len(ids_M))
        random = rng.choice(self._usual, len(ids_M))
        others = np.where(lot < SHARE_MASK + SHARE_RANDOM, random, ids_M)
        return np.where(lot < SHARE_MASK, masks, others)
