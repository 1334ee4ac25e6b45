r"""Similarity: how alike two sentences are, by the cosine of their embeddings.

$$\mathrm{loss} = \Big(\cos(u, v) - \frac{\mathrm{gold} - a}{b - a}\Big)^2$$

u and v are means of the last hidden states over all tokens, including special ones but not
padding (or the first token's state); gold lies on the scale from a to b. Outcome: the cosine.
Score: Spearman's rank correlation of cosine and gold, between -1 and 1.
Reference: Sentence-BERT (Reimers and Gurevych, 2019), sections 3 and 4.1,
https://arxiv.org/abs/1908.10084
Departure: the loss compares with gold on the scale from 0 to 1.
"""

from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize
from transformers import PreTrainedModel

from headcount.core import CorpusError, amount
from headcount.corpora import Columns, Data, Noted
from headcount.models import Loaded
from headcount.tasks.batch import Answers, Losses, TaskBatch, pad_id, text_inputs
from headcount.tasks.embedding import Embedding
from headcount.tasks.metrics import RankedTask, Scale, gold_numbers
from headcount.tasks.options import Pooling

STS_SCALE = (0, 5)
"""The scale of the STS tasks."""


@final
class Similarity(RankedTask):
    """Cosines of pairs of sentences against gold similarities.

    A pair is two rows of a batch: all first sentences, then all second ones. Sentences longer than
    the model's limit are truncated and counted in `num_truncated`.

    Args:
        loaded: a text encoder with its tokenizer.
        data: files, or `{"sentence1": [...], "sentence2": [...], "score": [...]}`.
        columns: `{"sentence1": NAME, "sentence2": NAME, "score": NAME}`.
        scale: lowest and highest gold number that the data can have. None means 0 and 5, and is
            refused for data of at most 1.
        pooling: `mean` over tokens, or `cls`, the first token. None means what a
            sentence-transformers model states, or the mean if nothing is stated.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "similarity"
    by_example: ClassVar[tuple[str, ...]] = ("gold_N", "_target_N", "_pairs")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        scale: Scale | None = None,
        pooling: Pooling | None = None,
        limit: int | None = None,
    ) -> None:
        table = self.read(loaded, data, columns, limit)
        self.embedding = Embedding.of(loaded, pooling)
        low, high = STS_SCALE if scale is None else scale
        self.gold_N = gold_numbers(table, "score", (low, high))
        if scale is None:
            _check_scale(self.gold_N)
        self._target_N = (self.gold_N - low) / (high - low)
        self.sha256 = table.sha256_with(
            scale=None if (low, high) == STS_SCALE else [low, high],
            **self.embedding.signed,
        )
        prompt = self.embedding.encoding.prompt
        sides = [
            loaded.encoder().sources(table.sentences(side, prompt))
            for side in ("sentence1", "sentence2")
        ]
        self.num_truncated = sum(one.truncated for side in sides for one in side)
        self.noted = Noted.of(one for side in sides for one in side)
        self._pairs = [[one.ids for one in pair] for pair in zip(*sides, strict=True)]
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Twice the tokens of the longer sentence of every pair, since a pair is two rows."""
        return 2 * np.array([max(map(len, pair)) for pair in self._pairs])

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pairs: first sentences, then second ones."""
        rows = [self._pairs[index][side] for side in (0, 1) for index in index_E]
        labels = {"target": torch.from_numpy(self._target_N[index_E])}
        example_R = torch.arange(len(index_E)).repeat(2)
        inputs = text_inputs(rows, self._pad_id)
        return TaskBatch(inputs, labels, example_R, torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model without its head."""
        return model.base_model(**batch.inputs, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Squared distance of the cosine from the gold number on the scale from 0 to 1."""
        cosine_E = self.cosines(output.last_hidden_state, batch)
        loss_E = (cosine_E - batch.labels["target"].to(cosine_E)) ** 2
        return Losses(loss_E, torch.ones_like(batch.index_E), cosine_E.detach())

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The embeddings of the sentences."""
        pooled_RW = self.embedding.pooled(output.last_hidden_state, batch.inputs["attention_mask"])
        return Answers(normalize(pooled_RW))

    def cosines(
        self, hidden_RNW: Float[Tensor, "row token width"], batch: TaskBatch
    ) -> Float[Tensor, " example"]:
        """Cosines of the embeddings of every pair, from a batch's last hidden states."""
        pooled_RW = self.embedding.pooled(hidden_RNW, batch.inputs["attention_mask"])
        first_EW, second_EW = batch.by_example(pooled_RW).unbind(1)
        return cosine_similarity(first_EW, second_EW)


def _check_scale(gold_N: Float[np.ndarray, " example"]) -> None:
    """Check that the data can be on the STS scale."""
    if gold_N.max() <= 1:
        raise CorpusError(
            f"Expected STS scores from 0 to 5, got {amount(len(gold_N), 'score')} of at most 1. "
            "Give the scale of the data: --scale 0 1 or --scale 0 5."
        )
