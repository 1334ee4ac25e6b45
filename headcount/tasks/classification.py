"""Classification: which class a text, or a pair of texts, belongs to.

Loss: cross-entropy of the correct class, in nats, one per example. Outcome: the predicted class.
Score: accuracy; F1 of class 1 if there are two classes, else the mean F1 over classes (macro); or
Matthews' correlation.
Reference: GLUE (Wang et al., 2019), section 3, https://arxiv.org/abs/1804.07461
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor
from transformers import PreTrainedConfig

from headcount.core import CorpusError, ModelError, amount, check_choice
from headcount.corpora import TOKEN_TYPES, Columns, Data, Table
from headcount.models import Loaded
from headcount.tasks.class_task import ClassTask, check_chooses
from headcount.tasks.options import ClassMetric, read_examples
from headcount.tasks.supported import check_fits
from headcount.tasks.task import TaskBatch
from headcount.tasks.token_rows import pad_id, padded, text_inputs


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


@final
@dataclass(frozen=True)
class Row:
    """Token ids of one text, or of two with their separators."""

    ids: list[int]
    types: list[int] | None
    """0 for the first text, 1 for the second, if the model has token types."""


def encoded_pairs(loaded: Loaded, table: Table, first: str, second: str) -> tuple[list[Row], int]:
    """Rows of the column `first`, paired with `second` if there is one.

    Returns:
        One row per example, and the number of rows that the tokenizer had to truncate.
    """
    tokenizer: Any = loaded.encoder().tokenizer
    reported = {"return_token_type_ids": loaded.takes_token_types}
    texts = [table[first]] + ([table[second]] if second in table else [])
    rows = list(_rows(tokenizer, texts, reported))
    for row, origin in zip(rows, table.origins, strict=True):
        if not row.ids:
            raise CorpusError(f"{origin}: expected at least one token, got none. Remove the line.")
    limit = loaded.max_length
    long = [] if limit is None else [i for i, row in enumerate(rows) if len(row.ids) > limit]
    if long:
        some = [[column[index] for index in long] for column in texts]
        options = {"truncation": True, "max_length": limit, **reported}
        for index, row in zip(long, _rows(tokenizer, some, options), strict=True):
            rows[index] = row
        # One more call, without truncation, leaves the backend as we found it.
        tokenizer("a")
    return rows, len(long)


def inputs_of(rows: Sequence[Row], pad_id: int) -> dict[str, Int64[Tensor, "row token"]]:
    """Token ids of rows with their attention mask and, if the model has them, token types."""
    inputs = text_inputs([row.ids for row in rows], pad_id)
    if all(row.types is not None for row in rows):
        inputs[TOKEN_TYPES] = padded([row.types or [] for row in rows], 0)
    return inputs


def _rows(tokenizer: Any, texts: Sequence[Sequence[str]], options: dict[str, Any]) -> Iterator[Row]:
    """Rows of text columns; not verbose, since we report overlong text ourselves."""
    encoding = tokenizer(*(list(column) for column in texts), verbose=False, **options)
    types = encoding.get(TOKEN_TYPES)
    for index, ids in enumerate(encoding["input_ids"]):
        yield Row(list(ids), None if types is None else list(types[index]))


@final
class Classification(ClassTask):
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

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: ClassMetric = "accuracy",
        limit: int | None = None,
    ) -> None:
        check_choice("a metric", metric, ClassMetric)
        check_fits(loaded.model, self.name)
        check_chooses(loaded)
        check_knows_padding(loaded)
        self.metric, self.higher_is_better = metric, True
        table = read_examples(self.name, data, columns, limit)
        self.sha256 = table.sha256
        self.gold_N = class_numbers(table, loaded.model.config)
        self._by_number = by_number(table, loaded.model.config)
        self.num_classes = loaded.model.config.num_labels or 0
        self.check_metric()
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
        inputs = inputs_of([self._rows[index] for index in index_E], self._pad_id)
        labels = {"class": torch.from_numpy(self.gold_N[index_E])}
        return TaskBatch(inputs, labels, torch.arange(len(index_E)), torch.from_numpy(index_E))


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
