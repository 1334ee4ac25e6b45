r"""Regression: classification by a model with one output, whose answer is a number.

$$\mathrm{loss} = (f(x) - y)^2$$

x is the model's output and y the gold number. f is the function that a cross-encoder of
sentence-transformers states for its score (`Sigmoid`, `Identity`); of other models it is the
sigmoid if the output was trained as a probability (`problem_type` multi_label_classification), else
the identity. Outcome: f(x). Score: Spearman's rank correlation of f(x) and y.
Reference: STS-B in GLUE (Wang et al., 2019), section 3.2, https://arxiv.org/abs/1804.07461
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headcount.core import CorpusError, ModelError
from headcount.corpora import Columns, Data, Noted
from headcount.models import Loaded, stated_activation
from headcount.tasks.batch import Answers, Losses, TaskBatch, pad_id
from headcount.tasks.classification import check_knows_padding, encoded_pairs, padded_inputs
from headcount.tasks.metrics import RankedTask, Scale, gold_numbers

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[str, Activation] = {
    "Sigmoid": torch.sigmoid,
    "Identity": lambda output: output,
}
"""Functions of one output that a model may state."""


@final
class Regression(RankedTask):
    """Numbers of texts, or of pairs of texts.

    Texts longer than the model's limit are truncated by its tokenizer and counted in
    `num_truncated`.

    Args:
        loaded: a `...ForSequenceClassification` with one output, and its tokenizer.
        data: files, or `{"text": [...], "label": [...]}`.
        columns: `{"text": NAME, "label": NAME}`, with `"second"` for pairs. Labels are numbers.
        scale: lowest and highest label that the data can have, which become 0 and 1. None leaves
            labels as they are; a model whose score is a sigmoid needs labels from 0 to 1.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "classification"
    by_example: ClassVar[tuple[str, ...]] = ("gold_N", "_target_N", "_rows")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        scale: Scale | None = None,
        limit: int | None = None,
    ) -> None:
        checks = (activation_of, check_knows_padding)
        table = self.read(loaded, data, columns, limit, *checks)
        activation = activation_of(loaded)
        self._activation = ACTIVATIONS[activation]
        self.gold_N = gold_numbers(table, "label", scale)
        low, high = (0, 1) if scale is None else scale
        self._target_N = (self.gold_N - low) / (high - low)
        if activation == "Sigmoid":
            _check_reaches(self._target_N)
        self.sha256 = table.sha256_with(scale=None if scale is None else [low, high])
        self._rows = encoded_pairs(loaded, table)
        self.num_truncated = sum(one.truncated for one in self._rows)
        self.noted = Noted.of(self._rows)
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every text, or pair of texts."""
        return np.array([len(row.ids) for row in self._rows])

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of texts with their numbers."""
        inputs = padded_inputs([self._rows[index] for index in index_E], self._pad_id)
        labels = {"target": torch.from_numpy(self._target_N[index_E])}
        return TaskBatch.of(inputs, labels, index_E)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Squared distance of the model's number from the gold number."""
        number_E = self._numbers(output)
        loss_E = (number_E - batch.labels["target"].to(number_E)) ** 2
        return Losses(loss_E, torch.ones_like(batch.index_E), number_E.detach())

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """The model's numbers, each an embedding of one dimension: distances are compared."""
        return Answers(self._numbers(output)[:, None])

    def _numbers(self, output: Any) -> Float[Tensor, " example"]:
        logit_E = output.logits[:, 0]
        precise = torch.promote_types(logit_E.dtype, torch.float32)
        return self._activation(logit_E.to(precise))


def is_regression(loaded: Loaded) -> bool:
    """Whether a classifier's answer is one number, by its one output."""
    return loaded.model.config.num_labels == 1


def activation_of(loaded: Loaded) -> str:
    """The function of a classifier's one output that is its score, out of `ACTIVATIONS`.

    Raises:
        ModelError: if there are several outputs, or the output has another function.
    """
    config = loaded.model.config
    if not is_regression(loaded):
        raise ModelError(
            f"Expected a classifier with one output, got {loaded.name} with {config.num_labels}. "
            "Use Classification."
        )
    if config.problem_type == "single_label_classification":
        raise ModelError(
            f"Expected a number or several classes as the answer, got {loaded.name} with one class "
            "(problem_type 'single_label_classification'), which is always right. Set problem_type "
            "to 'regression' if it is a number."
        )
    stated = stated_activation(config.name_or_path or "", config)
    if stated is None:
        is_logistic = config.problem_type == "multi_label_classification"
        return "Sigmoid" if is_logistic else "Identity"
    if stated not in ACTIVATIONS:
        raise ModelError(
            f"Expected {' or '.join(ACTIVATIONS)} as the function of the output that is the score, "
            f"got {stated}, which {loaded.name} states. Score it in sentence-transformers."
        )
    return stated


def _check_reaches(target_N: Float[np.ndarray, " example"]) -> None:
    if target_N.min() < 0 or target_N.max() > 1:
        raise CorpusError(
            "Expected labels from 0 to 1, since the model's score is a sigmoid, got "
            f"{target_N.min():g} to {target_N.max():g}. Give the scale of the data: --scale 0 5."
        )
