"""Classification: which class a text, or a pair of texts, belongs to.

Loss: cross-entropy of the correct class, in nats, one per example. Outcome: the predicted class.
Score: accuracy; F1 of class 1 if there are two classes, else the mean F1 over classes (macro); or
Matthews' correlation.
Reference: GLUE (Wang et al., 2019), section 3, https://arxiv.org/abs/1804.07461
"""

from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Int
from sklearn import metrics
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headcount.corpora import TOKEN_TYPES
from headcount.errors import CorpusError, ModelError
from headcount.models.load import Loaded
from headcount.options import refuse_other
from headcount.tasks.class_labels import by_number, class_numbers
from headcount.tasks.fit import refuse_misfit
from headcount.tasks.padding import pad_id, padded, text_inputs
from headcount.tasks.pairs import encoded_pairs
from headcount.tasks.reading import read_data
from headcount.tasks.table import Column, Columns, Data
from headcount.tasks.task import Answers, Distils, Evaluation, Losses, Resampled, Task, TaskBatch

FIRST = ("text", "sentence1", "premise", "question1", "question", "sentence", "text1")
SECOND = ("sentence2", "hypothesis", "question2", "text2", "text_pair")
ROLES = {
    "text": Column(FIRST),
    "second": Column(SECOND, needed=False, beside={"question": ("sentence", "passage", "context")}),
    "label": Column(("label", "labels", "class")),
}
Metric = Literal["accuracy", "f1", "matthews"]


@final
class Classification(Task):
    """Classes of texts, or of pairs of texts.

    Texts longer than the model's limit are truncated by its tokenizer and counted in
    `num_truncated`.

    Args:
        loaded: a `...ForSequenceClassification` with its tokenizer.
        data: files, or `{"text": [...], "label": [...]}`.
        columns: `{"text": NAME, "label": NAME}`, with `"second"` for pairs. Labels are names of
            the config's `label2id` or `id2label`, or numbers of classes.
        metric: `accuracy`, `f1` or `matthews`.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "classification"
    distils: ClassVar[Distils | None] = "answers"

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: Metric = "accuracy",
        limit: int | None = None,
    ) -> None:
        refuse_other("a metric", metric, Metric)
        refuse_misfit(loaded.model, self.name)
        _refuse_other_problems(loaded)
        self.metric, self.higher_is_better = metric, True
        table = read_data(data, columns, ROLES).first(limit)
        self.sha256 = table.sha256
        self.gold_N = class_numbers(table, loaded.model.config)
        """Number of the correct class of every example."""
        self._by_number = by_number(table, loaded.model.config)
        self._num_classes = loaded.model.config.num_labels
        if metric != "accuracy" and len(set(self.gold_N.tolist())) < 2:
            raise CorpusError(
                f"Expected examples of at least two classes for {metric}, got {len(table)} "
                f"examples of class {self.gold_N[0]}. Add others, or use the metric accuracy."
            )
        self._rows, self.num_truncated = encoded_pairs(loaded, table, "text", "second")
        self._pad_id = pad_id(loaded)
        self.num_examples = len(table)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every text, or pair of texts."""
        return np.array([len(row.ids) for row in self._rows])

    def warnings(self) -> list[str]:
        """Warnings about truncation and about differing class names."""
        return [*super().warnings(), *self._by_number]

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of texts with their classes."""
        rows = [self._rows[index] for index in index_E]
        inputs = text_inputs([row.ids for row in rows], self._pad_id)
        if all(row.types is not None for row in rows):
            inputs[TOKEN_TYPES] = padded([row.types or [] for row in rows], 0)
        labels = {"class": torch.from_numpy(self.gold_N[index_E])}
        return TaskBatch(inputs, labels, torch.arange(len(rows)), torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Cross-entropy of the correct class."""
        logits_EC = output.logits
        logits_EC = logits_EC.to(torch.promote_types(logits_EC.dtype, torch.float32))
        loss_E = cross_entropy(logits_EC, batch.labels["class"], reduction="none")
        predicted_E = logits_EC.detach().argmax(1).to(loss_E)
        return Losses(loss_E, torch.ones_like(batch.labels["class"]), predicted_E)

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """Logits of the texts and their classes."""
        return Answers(output.logits, batch.labels["class"])

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The metric of the predicted classes, between 0 and 1 (Matthews: -1 and 1).

        If all examples drawn have one class and are predicted as such, Matthews' correlation is 0.
        """
        chosen = slice(None) if index_S is None else index_S
        gold_S, predicted_S = self.gold_N[chosen], evaluation.outcome_N[chosen].astype(int)
        if self.metric == "accuracy":
            return float(metrics.accuracy_score(gold_S, predicted_S))
        if self.metric == "matthews":
            return _matthews(gold_S, predicted_S)
        average = "binary" if self._num_classes == 2 else "macro"
        none: Any = 0.0  # for a class that is neither correct nor predicted
        return float(metrics.f1_score(gold_S, predicted_S, average=average, zero_division=none))

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn; accuracy of all draws at once."""
        if self.metric != "accuracy":
            return super().resampled(evaluation)
        is_right_N = evaluation.outcome_N == self.gold_N
        return lambda index_DS: is_right_N[index_DS].mean(1)


def _matthews(gold_S: Int[np.ndarray, " sample"], predicted_S: Int[np.ndarray, " sample"]) -> float:
    if len(np.union1d(gold_S, predicted_S)) < 2:  # scikit-learn also gives 0, with a warning
        return 0.0
    return float(metrics.matthews_corrcoef(gold_S, predicted_S))


def _refuse_other_problems(loaded: Loaded) -> None:
    config = loaded.model.config
    if (config.num_labels or 0) < 2 or config.problem_type in (
        "regression",
        "multi_label_classification",
    ):
        raise ModelError(
            f"Expected a model that chooses one of several classes, got {loaded.name} with "
            f"{config.num_labels} labels and problem_type {config.problem_type!r}."
        )
    text_config = config.get_text_config()
    # These find the last token that is not padding by its id.
    if text_config.pad_token_id is None:
        raise ModelError(
            f"Expected a pad_token_id in the config of {loaded.name}, got none, so it can't "
            "distinguish padding from text. Set model.config.pad_token_id to the tokenizer's."
        )
