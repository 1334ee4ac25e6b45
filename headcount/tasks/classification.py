"""Classification: which class a text, or a pair of texts, belongs to.

Loss: cross-entropy of the correct class, in nats, one per example. Outcome: the predicted class.
Score: accuracy; F1 of class 1 if there are two classes, else the mean F1 over classes (macro); or
Matthews' correlation.
Reference: GLUE (Wang et al., 2019), section 3, https://arxiv.org/abs/1804.07461

Tasks of classes: loss and scores of examples that belong to one of several classes.

Cross-entropy of the correct class, and accuracy, F1 or Matthews' correlation of the predicted ones.

Image classification: which class an image belongs to.

Cross-entropy of the correct class, and accuracy, F1 or Matthews' correlation of the predicted ones.
An image is in the folder that is named after its class.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedConfig

from headcount.core import CorpusError, ModelError, amount, check_choice
from headcount.corpora import (
    TOKEN_TYPES,
    Columns,
    Data,
    Encoded,
    Noted,
    Table,
    encode_inputs,
    image_digests,
)
from headcount.models import Loaded, image_encoder
from headcount.tasks.batch import (
    Answers,
    Evaluation,
    Losses,
    TaskBatch,
    pad_id,
    padded,
    text_inputs,
)
from headcount.tasks.metrics import COUNTED
from headcount.tasks.options import ClassMetric
from headcount.tasks.task import Distils, Resampled, Task


class ClassTask(Task, ABC):
    """A task whose examples each have one class, by a model with logits of the classes."""

    distils: ClassVar[Distils | None] = "answers"
    gold_N: Int64[np.ndarray, " example"]
    """Number of the correct class of every example."""
    num_classes: int
    """Number of classes of the model."""

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
        from sklearn import metrics

        chosen = slice(None) if index_S is None else index_S
        gold_S, predicted_S = self.gold_N[chosen], evaluation.outcome_N[chosen].astype(int)
        if self.metric == "accuracy":
            return float(metrics.accuracy_score(gold_S, predicted_S))
        if self.metric == "matthews":
            return _matthews(gold_S, predicted_S)
        average = "binary" if self.num_classes == 2 else "macro"
        none: Any = 0.0  # for a class that is neither correct nor predicted
        return float(metrics.f1_score(gold_S, predicted_S, average=average, zero_division=none))

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn; accuracy of all draws at once."""
        if self.metric != "accuracy":
            return super().resampled(evaluation)
        is_right_N = evaluation.outcome_N == self.gold_N
        return lambda index_DS: is_right_N[index_DS].mean(1)

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"]:
        """Count by class whether each example is right, is predicted as such, and belongs to it."""
        of_class = np.eye(self.num_classes)
        predicted_NC = of_class[evaluation.outcome_N.astype(int)]
        correct_NC = of_class[self.gold_N]
        return np.concatenate([predicted_NC * correct_NC, predicted_NC, correct_NC], 1)

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """The metric of many sums of counts."""
        return COUNTED[self.metric](sums_DK.reshape(len(sums_DK), 3, -1))


class LabelTask(ClassTask, ABC):
    """A task whose data name the classes, or number them, as the model's config does."""

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: ClassMetric = "accuracy",
        limit: int | None = None,
    ) -> None:
        check_choice("a metric", metric, ClassMetric)
        self.metric, self.higher_is_better = metric, True
        table = self.read(loaded, data, columns, limit, self._check)
        self.gold_N = class_numbers(table, loaded.model.config)
        self.num_classes = loaded.model.config.num_labels or 0
        if self.metric != "accuracy" and len(set(self.gold_N.tolist())) < 2:
            raise CorpusError(
                f"Expected examples of at least two classes for {self.metric}, got "
                f"{amount(len(self.gold_N), 'example')} of class {self.gold_N[0]}. Add others, or "
                "use the metric accuracy."
            )
        self._encode(loaded, table)

    def _check(self, loaded: Loaded) -> None:
        """Raise an error for a model that can't do the task, before data are read."""
        check_chooses(loaded)

    @abstractmethod
    def _encode(self, loaded: Loaded, table: Table) -> None:
        """Keep what a batch of the examples is made of."""

    @abstractmethod
    def _inputs(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        """The model's inputs for some examples, which have a row each."""

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of examples with their classes."""
        labels = {"class": torch.from_numpy(self.gold_N[index_E])}
        return TaskBatch.of(self._inputs(index_E), labels, index_E)


def check_chooses(loaded: Loaded) -> None:
    """Check that a model chooses one of several classes.

    Raises:
        ModelError: if it does not.
    """
    config = loaded.model.config
    if (config.num_labels or 0) < 2 or config.problem_type in (
        "regression",
        "multi_label_classification",
    ):
        raise ModelError(
            f"Expected a model that chooses one of several classes, got {loaded.name} with "
            f"{amount(config.num_labels or 0, 'label')} and problem_type {config.problem_type!r}."
        )


def _matthews(gold_S: Int[np.ndarray, " sample"], predicted_S: Int[np.ndarray, " sample"]) -> float:
    if len(np.union1d(gold_S, predicted_S)) < 2:  # scikit-learn also gives 0, with a warning
        return 0.0
    from sklearn import metrics

    return float(metrics.matthews_corrcoef(gold_S, predicted_S))


def class_numbers(table: Table, config: PreTrainedConfig) -> Int64[np.ndarray, " example"]:
    """Number of each example's class.

    All labels of a data set are read in the same way: as class names in the model's config or as
    numbers from 0, whichever fits more of them; in a tie, as names. If the data set names its
    classes, as on the hub, its numbers are mapped by name, provided the model has the names.

    Raises:
        CorpusError: for the first label that is not a class of the model, with its line.
    """
    labels = table["label"]
    count = config.num_labels or 0
    names, *_ = ways = [*_names(config, count), {str(n): n for n in range(count)}]
    classes = _named(table, ways) or max(
        ways, key=lambda way: sum(label in way for label in labels)
    )
    for label, origin in zip(labels, table.origins, strict=True):
        if label not in classes:
            listed = [f"{number} {name}" for name, number in names.items()]
            raise CorpusError(
                f"{origin}: expected one of the model's {amount(count, 'class')} "
                f"({_shortened(listed)}), got {label!r}. Labels are numbers from 0 to {count - 1}, "
                "or names of classes in the model's config, the same kind in all lines."
            )
    return np.array([classes[label] for label in labels], dtype=np.int64)


def by_number(table: Table, config: PreTrainedConfig) -> list[str]:
    """A warning if data and model name their classes differently, so that numbers are used."""
    own, ways = table.class_names.get("label"), [*_names(config, config.num_labels or 0)]
    if not own or _named(table, ways):
        return []
    return [
        f"labels are taken by number: the data set calls its classes {_shortened(own)}, the model "
        f"{_shortened([*ways[0]])}"
    ]


def _named(table: Table, ways: Sequence[Mapping[str, int]]) -> dict[str, int] | None:
    """The model's class for each number in the data set, by name; None if the names differ.

    Upper and lower case are equivalent.
    """
    own = table.class_names.get("label", [])
    for way in ways:
        folded = {name.casefold(): number for name, number in way.items()}
        if own and all(name.casefold() in folded for name in own):
            return {str(number): folded[name.casefold()] for number, name in enumerate(own)}
    return None


def _names(config: PreTrainedConfig, count: int) -> Iterator[dict[str, int]]:
    """The classes by name; a config made with one of its two maps may lack the other."""
    by_name = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    if set(by_name.values()) == set(range(count)):
        yield by_name
    yield {str(name): int(number) for number, name in (config.id2label or {}).items()}


def _shortened(listed: list[str]) -> str:
    return ", ".join(listed if len(listed) <= 8 else [*listed[:8], "..."])


def encoded_pairs(loaded: Loaded, table: Table) -> list[Encoded]:
    """The column `text`, paired with `second` if there is one, with the model's token types."""
    sentences = table.sentences("text", second="second")
    found = encode_inputs(loaded.encoder().tokenizer, sentences, loaded.max_length)
    for one, origin in zip(found, table.origins, strict=True):
        if not one.ids:
            raise CorpusError(f"{origin}: expected at least one token, got none. Remove the line.")
    if loaded.takes_token_types:
        return found
    return [replace(one, type_ids=None) for one in found]


def padded_inputs(rows: Sequence[Encoded], pad_id: int) -> dict[str, Int64[Tensor, "row token"]]:
    """Token ids of rows with their attention mask and, if the model has them, token types."""
    inputs = text_inputs([row.ids for row in rows], pad_id)
    if all(row.type_ids is not None for row in rows):
        inputs[TOKEN_TYPES] = padded([row.type_ids or [] for row in rows], 0)
    return inputs


@final
class Classification(LabelTask):
    """Classes of texts, or of pairs of texts.

    Texts longer than the model's limit are truncated by its tokenizer and counted in
    `num_truncated`.

    Args:
        loaded: a `...ForSequenceClassification` with a label for each class, and its tokenizer.
        data: files, or `{"text": [...], "label": [...]}`.
        columns: `{"text": NAME, "label": NAME}`, with `"second"` for pairs. Labels are names of
            the config's `label2id` or `id2label`, or numbers of classes.
        metric: `accuracy`, `f1` or `matthews`.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "classification"
    by_example: ClassVar[tuple[str, ...]] = ("gold_N", "_rows")

    def _check(self, loaded: Loaded) -> None:
        super()._check(loaded)
        check_knows_padding(loaded)

    def _encode(self, loaded: Loaded, table: Table) -> None:
        self._by_number = by_number(table, loaded.model.config)
        self._rows = encoded_pairs(loaded, table)
        self.num_truncated = sum(one.truncated for one in self._rows)
        self.noted = Noted.of(self._rows)
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every text, or pair of texts."""
        return np.array([len(row.ids) for row in self._rows])

    def warnings(self) -> list[str]:
        """Warnings about truncation and about differing class names."""
        return [*super().warnings(), *self._by_number]

    def _inputs(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        return padded_inputs([self._rows[index] for index in index_E], self._pad_id)


def check_knows_padding(loaded: Loaded) -> None:
    """Check that a classifier can tell padding from text.

    Raises:
        ModelError: if its config has no id of padding.
    """
    text_config = loaded.model.config.get_text_config()
    # These find the last token that is not padding by its id.
    if text_config.pad_token_id is None:
        raise ModelError(
            f"Expected a pad_token_id in the config of {loaded.name}, got none, so it can't "
            "distinguish padding from text. Set model.config.pad_token_id to the tokenizer's."
        )


HELD = 2**30
"""Number of bytes of pixels that are kept in memory; the other images are read again."""


@final
class ImageClassification(LabelTask):
    """Classes of images.

    Args:
        loaded: a `...ForImageClassification` with its image processor.
        data: folders `FOLDER/label/image.png`, tables with paths of images, or
            `{"image": [...], "label": [...]}`.
        columns: `{"image": NAME, "label": NAME}` in tables. Labels are names of the config's
            `label2id` or `id2label`, or numbers of classes.
        metric: `accuracy`, `f1` or `matthews`.
        limit: largest number of images; labels take turns.
    """

    name: ClassVar[str] = "image-classification"
    by_example: ClassVar[tuple[str, ...]] = ("gold_N", "_paths")

    def _encode(self, loaded: Loaded, table: Table) -> None:
        self._paths = [Path(cell) for cell in table["image"]]
        cells = "".join(map(str, zip(image_digests(table["image"]), table["label"], strict=True)))
        self.sha256 = hashlib.sha256(cells.encode()).hexdigest()
        self._encoder = image_encoder(loaded)
        self._held: dict[Path, Tensor] = {}

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every image."""
        return np.full(self.num_examples, self._encoder.grid.num_tokens)

    def _inputs(self, index_E: Int[np.ndarray, " example"]) -> dict[str, Tensor]:
        return {"pixel_values": torch.stack([self._pixels(self._paths[n]) for n in index_E])}

    def _pixels(self, path: Path) -> Tensor:
        if path in self._held:
            return self._held[path]
        (pixels,) = self._encoder.pixels([path])
        if (len(self._held) + 1) * pixels.nbytes <= HELD:
            self._held[path] = pixels
        return pixels
