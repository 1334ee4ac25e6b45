"""Causal language modelling: how well each token is predicted from the tokens before it.

Loss: NLL of an example's tokens except the first, in nats. Score: perplexity (lower is better).
Reference: `headcount.tasks.metrics`.
Departure: an example is a line of a `.txt` (a row elsewhere), not a stretch of one long stream.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Int
from torch.nn.functional import pad
from transformers import PreTrainedModel

from headcount.core import CorpusError, amount
from headcount.corpora import Columns, Data
from headcount.models import Loaded
from headcount.results import START
from headcount.tasks.metrics import IGNORED, PerplexityTask
from headcount.tasks.options import check_roles, read_examples
from headcount.tasks.supported import check_fits
from headcount.tasks.task import TaskBatch
from headcount.tasks.token_rows import (
    chained,
    pad_id,
    padded,
    piece_length,
    predicted,
    text_inputs,
    whole_encoder,
)


@final
class CausalLanguageModelling(PerplexityTask):
    """Next-token prediction on running text, or on what the messages of chats say.

    A text longer than `max_length` is cut into pieces, and each piece is an example. A piece begins
    as the tokenizer begins a text, if it puts a token in front, and then with the last token of the
    piece before. Every token of a text except the first is predicted exactly once. A text of one
    token has nothing to predict: it is skipped and counted in `num_unpredictable`, which changes
    neither loss nor perplexity.

    A text that is a list of messages is written by the tokenizer's chat template. The content of
    the messages is predicted, not what the template writes around it.

    Args:
        loaded: a decoder with its tokenizer.
        data: files, or data in memory: `{"text": [...]}`, texts, rows as dicts.
        columns: `{"text": NAME}`.
        max_length: largest number of tokens in a piece; the model's limit if None.
        limit: largest number of examples.
        start: whether every piece, not only a text's first, begins with the token that the
            tokenizer puts in front of a text; False for models that were trained without.
        roles: whose messages are predicted in chats, such as `["assistant"]`; all if empty.
    """

    name: ClassVar[str] = "causal-lm"

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        max_length: int | None = None,
        limit: int | None = None,
        start: bool = True,
        roles: Sequence[str] = (),
    ) -> None:
        check_fits(loaded.model, self.name)
        table = read_examples(self.name, data, columns, limit)
        check_roles(roles, bool(table.chats))
        encoder = whole_encoder(loaded)
        self._start, self._roles = encoder.start_ids if start else (), tuple(roles)
        texts = predicted(loaded, table, roles)
        self.sha256 = table.sha256_with(max_length=max_length, **self.signed_options)
        length = piece_length(loaded, max_length)
        pieces = [list(chained(ids, length, self._start_of(ids), asked)) for ids, asked in texts]
        self.pieces = [piece for of_text in pieces for piece in of_text]
        self._pad_id = pad_id(loaded)
        self.num_texts = len(texts)
        self.num_cut = sum(len(of_text) > 1 for of_text in pieces)
        """Number of texts longer than the model's limit."""
        self.num_unpredictable = sum(not of_text for of_text in pieces)
        """Number of texts with one token, and of chats without a message of the roles."""
        self.num_examples = len(self.pieces)
        if not self.pieces:
            what = f"{amount(len(texts), 'text')} of one token. Give longer ones"
            if roles:
                what = f"no message of the roles {', '.join(roles)}. Check the names"
            raise CorpusError(f"Expected text to predict, got {what}.")

    @property
    def signed_options(self) -> Mapping[str, object]:
        """Whether every piece begins with the token that begins a text; roles, if some count."""
        roles = {"roles": "+".join(self._roles)} if self._roles else {}
        return ({START: "pieces"} if self._start else {}) | roles

    @property
    def signature(self) -> str:
        """Perplexity, and the options that it depends on."""
        return "|".join([self.metric, *(f"{a}:{b}" for a, b in self.signed_options.items())])

    def warnings(self) -> list[str]:
        """Warning about skipped texts."""
        if not self.num_unpredictable:
            return []
        number = f"{self.num_unpredictable:,} of {self.num_texts:,}"
        what = f"chats without {', '.join(self._roles)}" if self._roles else "texts of one token"
        return [f"{what} have nothing to predict and are skipped: {number}"]

    def _start_of(self, ids: Sequence[int]) -> tuple[int, ...]:
        """What the pieces of a text begin with: nothing, if a chat does not begin with it."""
        return self._start if tuple(ids[: len(self._start)]) == self._start else ()

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pieces; the label of each token is the next one."""
        ids, asked = zip(*(self.pieces[index] for index in index_E), strict=True)
        inputs, rows = text_inputs(ids, self._pad_id), torch.arange(len(index_E))
        labels_RN = inputs["input_ids"].masked_fill(~padded(asked, False).bool(), IGNORED)
        labels = {"labels": pad(labels_RN[:, 1:], (0, 1), value=IGNORED)}
        return TaskBatch(inputs, labels, rows, torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, use_cache=False, **more)
