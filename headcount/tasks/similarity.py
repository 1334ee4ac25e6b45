r"""Similarity: how alike two sentences are, by the cosine of their embeddings.

$$\mathrm{loss} = \Big(\cos(u, v) - \frac{\mathrm{gold} - a}{b - a}\Big)^2$$

u and v are means of the last hidden states over all tokens, including special ones but not
padding (or the first token's state); gold lies on the scale from a to b. Outcome: the cosine.
Score: Spearman's rank correlation of cosine and gold, between -1 and 1.
Reference: Sentence-BERT (Reimers and Gurevych, 2019), sections 3 and 4.1,
https://arxiv.org/abs/1908.10084
Departure: the loss compares with gold on the scale from 0 to 1. Of a sentence-transformers folder,
the prompt, the Transformer with its limit of tokens, and the pooling are used. If anything else in
it changes embeddings, such as a Dense module, it is refused, or skipped with a warning if the
pooling is given.
"""

import warnings
from dataclasses import replace
from typing import Any, ClassVar, final, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize
from transformers import PreTrainedModel

from headcount.core import CorpusError, InputError, amount, check_choice
from headcount.corpora import Columns, Data, Encoder, Noted, Sentence
from headcount.models import Loaded, NotLookedUpError, SentenceEncoding
from headcount.tasks.metrics import RankedTask, Scale, gold_numbers
from headcount.tasks.options import Pooling
from headcount.tasks.task import Answers, Losses, TaskBatch, pad_id, text_inputs

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
        self._encoding = encoding = _encoding(loaded, pooling)
        low, high = STS_SCALE if scale is None else scale
        self.gold_N = gold_numbers(table, "score", (low, high))
        if scale is None:
            _check_scale(self.gold_N)
        self._target_N = (self.gold_N - low) / (high - low)
        self.sha256 = table.sha256_with(
            scale=None if (low, high) == STS_SCALE else [low, high],
            pooling=None if encoding.pooling == "mean" else encoding.pooling,
            prompt=encoding.prompt or None,
            pools_prompt=None if encoding.pools_prompt else False,
        )
        encoder = loaded.encoder()
        self._num_skipped = 0 if encoding.pools_prompt else _length(encoding.prompt, encoder)
        sides = [
            encoder.sources(table.sentences(side, encoding.prompt))
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
        pooled_RW = self.pooled(output.last_hidden_state, batch.inputs["attention_mask"])
        return Answers(normalize(pooled_RW))

    def cosines(
        self, hidden_RNW: Float[Tensor, "row token width"], batch: TaskBatch
    ) -> Float[Tensor, " example"]:
        """Cosines of the embeddings of every pair, from a batch's last hidden states."""
        pooled_RW = self.pooled(hidden_RNW, batch.inputs["attention_mask"])
        # Stable: of an example's two rows, the first sentence stays first, also when repeated.
        order_R = batch.example_R.argsort(stable=True)
        first_EW, second_EW = pooled_RW[order_R].unflatten(0, (-1, 2)).unbind(1)
        return cosine_similarity(first_EW, second_EW)

    def pooled(
        self, hidden_RNW: Float[Tensor, "row token width"], mask_RN: Int[Tensor, "row token"]
    ) -> Float[Tensor, "row width"]:
        """Embeddings of the rows: means of their states, or the first ones."""
        hidden_RNW = hidden_RNW.to(torch.promote_types(hidden_RNW.dtype, torch.float32))
        skipped = self._num_skipped
        if self._encoding.pooling == "cls" and not skipped:
            return hidden_RNW[:, 0]
        if skipped:
            mask_RN = mask_RN.clone()
            mask_RN[:, :skipped] = 0  # rows are padded on the right
        if self._encoding.pooling == "cls":
            return hidden_RNW[torch.arange(len(mask_RN)), mask_RN.argmax(1)]
        mask_RN = mask_RN.to(hidden_RNW)
        count_R1 = mask_RN.sum(1, keepdim=True).clamp(min=1)  # 0 for a text that is cut off
        return torch.einsum("rnw,rn->rw", hidden_RNW, mask_RN) / count_R1


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
                f"{name}: the model's pooling could not be looked up, so similarity uses the mean "
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
            f"{name}: similarity is that of its pooled Transformer. Skipped: {skipped}",
            stacklevel=3,
        )
    return replace(stated, pooling=pooling)


def _check_scale(gold_N: Float[np.ndarray, " example"]) -> None:
    """Check that the data can be on the STS scale."""
    if gold_N.max() <= 1:
        raise CorpusError(
            f"Expected STS scores from 0 to 5, got {amount(len(gold_N), 'score')} of at most 1. "
            "Give the scale of the data: --scale 0 1 or --scale 0 5."
        )
