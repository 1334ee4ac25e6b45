"""Tasks of texts: every example is one text or several, a row of the batch each.

A task of one's own that compares texts derives from `TextsTask`, names the columns that it reads,
and says what its loss and its score are.
"""

from abc import ABC
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import PreTrainedModel

from headcount.corpora import Columns, Data, Noted
from headcount.models import Loaded
from headcount.tasks.batch import TaskBatch, mean_states, pad_id, text_inputs
from headcount.tasks.task import Task


class TextsTask(Task, ABC):
    """A task whose examples are texts: those of the columns that it `reads`, in their order.

    Args:
        loaded: the model with its tokenizer.
        data: files, or columns in memory.
        columns: the task's name of a column, mapped to its name or number in the data.
        limit: largest number of examples.
    """

    by_example: ClassVar[tuple[str, ...]] = ("_texts",)

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        limit: int | None = None,
    ) -> None:
        table, encoder = self.read(loaded, data, columns, limit), loaded.encoder()
        sides = [encoder.sources(table.sentences(column)) for column in self.reads]
        self.num_truncated = sum(one.truncated for side in sides for one in side)
        self.noted = Noted.of(one for side in sides for one in side)
        self._texts = [[one.ids for one in texts] for texts in zip(*sides, strict=True)]
        self._pad_id = pad_id(loaded)

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """The tokens of the longest text of every example, as often as it has texts."""
        return len(self.reads) * np.array([max(map(len, texts)) for texts in self._texts])

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch: all first texts, then all second ones, and so on."""
        sides = range(len(self.reads))
        rows = [self._texts[index][side] for side in sides for index in index_E]
        example_R = torch.arange(len(index_E)).repeat(len(sides))
        return TaskBatch(text_inputs(rows, self._pad_id), {}, example_R, torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model without its head."""
        return model.base_model(**batch.inputs, **more)

    def means(self, output: Any, batch: TaskBatch) -> Float[Tensor, "example text width"]:
        """The mean last hidden state of every text, over all tokens but padding."""
        hidden_RNW = output.last_hidden_state
        return batch.by_example(mean_states(hidden_RNW, batch.inputs["attention_mask"]))
