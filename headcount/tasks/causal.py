"""Causal language modelling: how well each token is predicted from the tokens before it.

Loss: NLL of an example's tokens except the first, in nats. Score: perplexity (lower is better).
Reference: `headcount.tasks.likelihood`.
Departure: an example is a line of a `.txt` (a row elsewhere), not a stretch of one long stream.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Int
from torch.nn.functional import pad
from transformers import PreTrainedModel

from headcount.core import CorpusError, amount
from headcount.corpora import Columns, Data, read_data
from headcount.models import Loaded
from headcount.tasks.likelihood import IGNORED, likelihoods, perplexities, perplexity
from headcount.tasks.options import COLUMNS
from headcount.tasks.supported import check_fits
from headcount.tasks.task import Answers, Distils, Evaluation, Losses, Resampled, Task, TaskBatch
from headcount.tasks.token_rows import chained, pad_id, piece_length, text_inputs, whole_texts


@final
class CausalLanguageModelling(Task):
    """Next-token prediction on running text.

    A text longer than `max_length` is cut into pieces, and each piece is an example. A piece begins
    with the last token of the piece before, so every token of a text except the first is
    predicted exactly once. A text of one token has nothing to predict: it is skipped and
    counted in `num_unpredictable`, which changes neither loss nor perplexity.

    Args:
        loaded: a decoder with its tokenizer.
        data: files, or `{"text": [...]}`.
        columns: `{"text": NAME}`.
        max_length: largest number of tokens in a piece; the model's limit if None.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "causal-lm"
    distils: ClassVar[Distils | None] = "answers"

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        max_length: int | None = None,
        limit: int | None = None,
    ) -> None:
        check_fits(loaded.model, self.name)
        self.metric, self.higher_is_better = "perplexity", False
        table = read_data(data, columns, COLUMNS[self.name]).first(limit)
        self.sha256 = table.sha256_with(max_length=max_length)
        texts = whole_texts(loaded, table)
        length = piece_length(loaded, max_length)
        pieces = [list(chained(text.ids, length)) for text in texts]
        self._ids = [piece for of_text in pieces for piece in of_text]
        self._pad_id = pad_id(loaded)
        self.num_texts = len(texts)
        self.num_cut = sum(len(of_text) > 1 for of_text in pieces)
        """Number of texts longer than the model's limit."""
        self.num_unpredictable = sum(not of_text for of_text in pieces)
        """Number of texts with one token."""
        self.num_examples = len(self._ids)
        if not self._ids:
            raise CorpusError(
                f"Expected text to predict, got {amount(len(texts), 'text')} of one token. "
                "Give longer ones."
            )

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every piece."""
        return np.array([len(ids) for ids in self._ids])

    def warnings(self) -> list[str]:
        """Warning about skipped texts."""
        if not self.num_unpredictable:
            return []
        number = f"{self.num_unpredictable:,} of {self.num_texts:,}"
        return [f"texts of one token have nothing to predict and are skipped: {number}"]

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pieces; the label of each token is the next one."""
        inputs = text_inputs([self._ids[index] for index in index_E], self._pad_id)
        rows = torch.arange(len(index_E))
        return TaskBatch(inputs, {"labels": _next(inputs)}, rows, torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, use_cache=False, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """NLL of each row's tokens except the first; padding is neither seen nor predicted."""
        return likelihoods(output.logits, batch.labels["labels"])

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """Logits and labels of every token except the first of each row."""
        return Answers(output.logits, batch.labels["labels"])

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """Perplexity."""
        return perplexity(evaluation, index_S)

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """Perplexity as a function of the examples drawn."""
        return perplexities(evaluation)


def _next(inputs: Mapping[str, torch.Tensor]) -> Int[torch.Tensor, "row token"]:
    """The token after each token; ignored after the last one."""
    is_token_RN = inputs["attention_mask"].bool()
    labels_RN = inputs["input_ids"].masked_fill(~is_token_RN, IGNORED)
    return pad(labels_RN[:, 1:], (0, 1), value=IGNORED)
