r"""Token classification: which class each word of a text belongs to, such as its part of speech.

$$\mathrm{loss} = -\sum_w \log p(y_w \mid \text{first piece of } w), \qquad
  \mathrm{accuracy} = \frac{\sum_c h_c}{\sum_c g_c}, \qquad
  \text{macro-F1} = \frac{1}{|C|} \sum_{c \in C} \frac{2 h_c}{g_c + p_c}$$

The first piece of a word is asked; later pieces and special tokens are not. Of class c, g words are
right, p are predicted and h are both; C are the classes that are right or predicted somewhere. The
loss is in nats, one term for each word; both scores are between 0 and 1. Words, not spans, are
counted: a named entity of three words counts three times.
Reference: BERT (Devlin et al., 2019), section 5.3, https://arxiv.org/abs/1810.04805
"""

from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch.nn.functional import one_hot

from headcount.core import CorpusError, ModelError, amount, check_choice
from headcount.corpora import LABELS, NO_LABEL, WORDS, Columns, Data, Encoded, Noted, Table
from headcount.models import Loaded
from headcount.tasks.batch import Evaluation, Losses, TaskBatch, pad_id, padded, text_inputs
from headcount.tasks.classification import class_numbers
from headcount.tasks.metrics import COUNTED, IGNORED, TokenTask
from headcount.tasks.options import TokenMetric
from headcount.tasks.task import Resampled


@final
class TokenClassification(TokenTask):
    """Classes of words, asked at the first piece of each word.

    Words that truncation removes, that the tokenizer turns into nothing, or that have no label
    (`_`, unless the model has such a class) are not asked; they are counted in `num_unasked`. A
    sentence without any word to ask is an error.

    Args:
        loaded: a `...ForTokenClassification` with its tokenizer.
        data: treebanks in CoNLL-U, tables whose cells are lists, or
            `{"words": [[...]], "labels": [[...]]}`.
        columns: `{"words": NAME, "labels": NAME}`; of treebanks `{"labels": "upos"}` (the default),
            `xpos`, `deprel`, `feats.KEY` or `misc.KEY`. Labels are names of the config's
            `label2id` or `id2label`, or numbers of classes.
        metric: `accuracy` or `macro-f1`.
        limit: largest number of sentences.
    """

    name: ClassVar[str] = "token-classification"
    by_example: ClassVar[tuple[str, ...]] = ("_ids", "_labels", "_right_NC")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        metric: TokenMetric = "accuracy",
        limit: int | None = None,
    ) -> None:
        check_choice("a metric", metric, TokenMetric)
        self.metric, self.higher_is_better = metric, True
        table = self.read(loaded, data, columns, limit, _check_chooses)
        self.num_classes = loaded.model.config.num_labels or 0
        self.outcome_shape = (2, self.num_classes)
        encoded = loaded.encoder().sources(table.sentences(WORDS))
        self._ids = [one.ids for one in encoded]
        self._labels, self._right_NC = self._asked(table, encoded, loaded)
        self.num_truncated = sum(one.truncated for one in encoded)
        self.noted = Noted.of(encoded)
        self.num_words = sum(map(len, table.lists[WORDS]))
        """Number of words of the data."""
        self.num_unasked = self.num_words - int(self._right_NC.sum())
        """Number of words that are not asked."""
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every sentence."""
        return np.array([len(ids) for ids in self._ids])

    def warnings(self) -> list[str]:
        """Warnings about truncation and about words that are not asked."""
        found = super().warnings()
        if self.num_unasked:
            number = f"{self.num_unasked:,} of {self.num_words:,}"
            found.append(f"words without a label or without a piece are not asked: {number}")
        return found

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of sentences, with labels at the first pieces of words."""
        inputs = text_inputs([self._ids[index] for index in index_E], self._pad_id)
        labels = {"labels": padded([self._labels[index] for index in index_E], IGNORED)}
        return TaskBatch.of(inputs, labels, index_E)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Summed cross-entropy of each sentence's words, and its words by class.

        The outcome counts, for every class, words that are right and predicted as such, and all
        words that are predicted as such.
        """
        labels_EN = batch.labels["labels"]
        losses = super().losses_of(output, batch)
        predicted_EN = output.logits.detach().argmax(-1)
        is_asked_EN = labels_EN != IGNORED
        predicted_ENC = one_hot(predicted_EN, self.num_classes) * is_asked_EN[..., None]
        is_hit_EN = predicted_EN == labels_EN
        hits_EC, predicted_EC = (predicted_ENC * is_hit_EN[..., None]).sum(1), predicted_ENC.sum(1)
        outcome_E2C = torch.stack([hits_EC, predicted_EC], 1).to(losses.loss_E.dtype)
        return Losses(losses.loss_E, losses.count_E, outcome_E2C)

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The metric of the predicted classes, over all words of the sentences drawn."""
        counts_NK = self.statistics(evaluation)
        return lambda index_DS: self.of_sums(
            np.stack([counts_NK[index_S].sum(0) for index_S in index_DS])
        )

    def statistics(self, evaluation: Evaluation) -> Float[np.ndarray, "example statistic"]:
        """Words of every sentence by class: right and predicted, predicted, and right."""
        counts_N3C = np.concatenate([evaluation.outcome_N, self._right_NC[:, None]], 1)
        return counts_N3C.reshape(len(counts_N3C), -1)

    def of_sums(self, sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
        """The metric of many sums of counts."""
        return COUNTED[self.metric](sums_DK.reshape(len(sums_DK), 3, -1))

    def _asked(
        self, table: Table, encoded: list[Encoded], loaded: Loaded
    ) -> tuple[list[list[int]], Float[np.ndarray, "example label"]]:
        """Classes at the first pieces of words, and each sentence's number of words by class."""
        number_of = _class_of(table, loaded)
        rows = []
        right_NC = np.zeros((len(encoded), self.num_classes))
        for index, (one, labels) in enumerate(zip(encoded, table.lists[LABELS], strict=True)):
            row, seen = [IGNORED] * len(one.ids), set()
            for place, word in enumerate(one.word_of):
                if word < 0 or word in seen:
                    continue
                seen.add(word)
                if labels[word] in number_of:
                    row[place] = number_of[labels[word]]
                    right_NC[index, row[place]] += 1
            if not right_NC[index].any():
                raise CorpusError(
                    f"{table.origins[index]}: expected a word with a label, got none. Remove the "
                    "sentence."
                )
            rows.append(row)
        return rows, right_NC


def _check_chooses(loaded: Loaded) -> None:
    """Check that a model has several classes to choose from."""
    if (count := loaded.model.config.num_labels or 0) < 2:
        raise ModelError(
            f"Expected a model that chooses one of several classes, got {loaded.name} with "
            f"{amount(count, 'label')}."
        )


def _class_of(table: Table, loaded: Loaded) -> dict[str, int]:
    """The model's class for each label of the data.

    Raises:
        CorpusError: for the first label that is not a class of the model.
    """
    first_of: dict[str, str] = {}
    for labels, origin in zip(table.lists[LABELS], table.origins, strict=True):
        for label in labels:
            first_of.setdefault(label, origin)
    config = loaded.model.config
    if NO_LABEL not in {*(config.label2id or {}), *(config.id2label or {}).values()}:
        first_of.pop(NO_LABEL, None)
    names = {"label": table.class_names[LABELS]} if LABELS in table.class_names else {}
    flat = Table({"label": [*first_of]}, [*first_of.values()], names)
    numbers = class_numbers(flat, config).tolist()
    return dict(zip(first_of, numbers, strict=True))
