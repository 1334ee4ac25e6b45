"""Causal language modelling: how well each token is predicted from the tokens before it.

Loss: NLL of an example's tokens except the first, in nats. Score: perplexity (lower is better).
Reference: `headcount.tasks.metrics`.
Departure: an example is a line of a `.txt` (a row elsewhere), not a stretch of one long stream.

Masked language modelling: how well masked tokens are predicted from both sides.

Loss: NLL of an example's masked tokens, in nats. Score: perplexity of masked tokens (lower is
better), which is not the perplexity of the text.
Reference: BERT (Devlin et al., 2019), section 3.1, https://arxiv.org/abs/1810.04805
Departure: masks are drawn once, from the seed and the example's number (in training, again for
every batch), with exactly the given share of each example's content tokens (rounded, at least
one). A mask is always [MASK], unless `Masking(replacement="bert")` asks for the paper's 80 %
[MASK], 10 % random, 10 % unchanged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Int
from torch.nn.functional import pad
from transformers import PreTrainedModel
from transformers import PreTrainedTokenizerBase as Tokenizer

from headcount.core import CorpusError, InputError, ModelError, amount
from headcount.corpora import Columns, Data, Encoded, Encoder, Noted, Table
from headcount.models import Loaded
from headcount.results import START
from headcount.tasks.batch import TaskBatch, pad_id, padded, text_inputs
from headcount.tasks.metrics import IGNORED, PerplexityTask
from headcount.tasks.options import Masking, check_roles
from headcount.tasks.pictured import Pictured


def whole_texts(loaded: Loaded, table: Table) -> list[Encoded]:
    """Encode the column `text`, however long its texts are."""
    return whole_encoder(loaded).sources(table.sentences("text"))


def whole_encoder(loaded: Loaded) -> Encoder:
    """The encoder of texts that are cut later, not truncated."""
    return Encoder(loaded.encoder().tokenizer)


def asked_of(text: Encoded, roles: Sequence[str]) -> list[bool] | None:
    """Which tokens of a chat are predicted: what messages of some roles say; None for a text."""
    if text.roles is None:
        return None
    return [role in roles if roles else role is not None for role in text.roles]


def piece_length(loaded: Loaded, max_length: int | None) -> int | None:
    """Number of tokens in a piece: as many as requested, or the model's limit.

    Raises:
        InputError: if more are requested than the model accepts.
    """
    longest = loaded.max_length
    if max_length is not None and longest is not None and max_length > longest:
        raise InputError(
            f"Expected pieces of at most {amount(longest, 'token')}, the limit of {loaded.name}, "
            f"got max_length={max_length}."
        )
    return longest if max_length is None else max_length


def chained(
    ids: Sequence[int],
    max_length: int | None,
    start: Sequence[int] = (),
    is_asked: Sequence[bool] | None = None,
) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces of a text, and which of their tokens are predicted.

    A piece begins with `start` and the last token of the piece before, so each token of the text
    except the first is predicted once. A piece of which no token is predicted is left out.

    Args:
        ids: the complete text, which begins with `start` itself.
        max_length: largest number of tokens in a piece.
        start: what every piece begins with.
        is_asked: which tokens of the text are predicted; None for all.
    """
    size = max(2, len(ids)) if max_length is None else max_length
    if size < len(start) + 2:
        added = f", since every piece begins with {len(start)} of its own" if start else ""
        raise InputError(
            f"Expected at least {len(start) + 2} tokens in a piece{added}, got "
            f"max_length={max_length}."
        )
    asked, before = [True] * len(ids) if is_asked is None else is_asked, len(start) + 1
    steps = [(1, size), *((at, at + size - before) for at in range(size, len(ids), size - before))]
    for begin, end in steps:
        if any(asked[begin:end]):
            front = [*(start if begin > 1 else ()), ids[begin - 1]]
            yield [*front, *ids[begin:end]], [False] * len(front) + list(asked[begin:end])


def framed(encoded: Encoded, max_length: int | None) -> Iterator[tuple[list[int], list[bool]]]:
    """Pieces between the special tokens of the complete text, and which tokens are special."""
    content = [index for index, special in enumerate(encoded.is_special) if not special]
    if not content:
        return
    begin, end = content[0], content[-1] + 1
    before, inside, after = encoded.ids[:begin], encoded.ids[begin:end], encoded.ids[end:]
    step = len(inside) if max_length is None else max_length - len(before) - len(after)
    if step < 1:
        raise InputError(
            f"Expected more than {amount(len(before) + len(after), 'token')} in a piece, since "
            f"that many are special, got max_length={max_length}."
        )
    for start in range(0, len(inside), step):
        special = encoded.is_special[begin:end][start : start + step]
        flags = [True] * len(before) + special + [True] * len(after)
        yield [*before, *inside[start : start + step], *after], flags


@final
class CausalLanguageModelling(PerplexityTask):
    """Next-token prediction on running text, or on what the messages of chats say.

    A text longer than `max_length` is cut into pieces, and each piece is an example. A piece begins
    as the tokenizer begins a text, if it puts a token in front, and then with the last token of the
    piece before. Every token of a text except the first is predicted exactly once. A text of one
    token has nothing to predict: it is skipped and counted in `num_unpredictable`, which changes
    neither loss nor perplexity.

    A text that is a list of messages is written by the tokenizer's chat template. The content of
    the messages is predicted, not what the template writes around it. Chats may have pictures, if
    the model reads some; such chats are not cut.

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
    by_example: ClassVar[tuple[str, ...]] = ("pieces", "_texts")

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
        table = self.read(loaded, data, columns, limit)
        check_roles(roles, bool(table.chats))
        encoder = whole_encoder(loaded)
        self._start, self._roles = encoder.start_ids if start else (), tuple(roles)
        self._pictured = Pictured.of(loaded, table)
        length = piece_length(loaded, max_length)
        if self._pictured is None:
            whole, signed = whole_texts(loaded, table), None
        else:  # a chat is read with its pictures, and so not cut
            pairs = self._pictured.encoder.encode(self._pictured.sentences)
            whole, length, signed = [each.source for each in pairs], None, self._pictured.signed
        texts = [(text, asked_of(text, roles)) for text in whole]
        options = {"max_length": max_length, "pictures": signed, **self.signed_options}
        self.sha256 = table.sha256_with(**options)
        self.noted = Noted.of(text for text, _ in texts)
        pieces = [
            list(chained(text.ids, length, self._start_of(text.ids), asked))
            for text, asked in texts
        ]
        self.pieces = [piece for of_text in pieces for piece in of_text]
        self._texts = [number for number, of_text in enumerate(pieces) for _ in of_text]
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
        found = super().warnings()
        if not self.num_unpredictable:
            return found
        number = f"{self.num_unpredictable:,} of {self.num_texts:,}"
        what = f"chats without {', '.join(self._roles)}" if self._roles else "texts of one token"
        return [*found, f"{what} have nothing to predict and are skipped: {number}"]

    def _start_of(self, ids: Sequence[int]) -> tuple[int, ...]:
        """What the pieces of a text begin with: nothing, if a chat does not begin with it."""
        return self._start if tuple(ids[: len(self._start)]) == self._start else ()

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pieces; the label of each token is the next one."""
        ids, asked = zip(*(self.pieces[index] for index in index_E), strict=True)
        inputs = text_inputs(ids, self._pad_id)
        labels_RN = inputs["input_ids"].masked_fill(~padded(asked, False).bool(), IGNORED)
        labels = {"labels": pad(labels_RN[:, 1:], (0, 1), value=IGNORED)}
        if self._pictured is not None:
            beside = [self._pictured.sentences[self._texts[index]] for index in index_E]
            inputs = self._pictured.inputs(beside, inputs)
        return TaskBatch.of(inputs, labels, index_E)

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, use_cache=False, **more)


MASKING = Masking()
"""The usual masking."""
SHARE_MASK, SHARE_RANDOM = 0.8, 0.1
"""Shares of the masked tokens under `bert`; the rest is unchanged."""


@final
class MaskedLanguageModelling(PerplexityTask):
    """Prediction of masked tokens, which are always the same except in training.

    A text longer than `max_length` is cut into pieces. Each piece, between special tokens of its
    own, is an example.

    Args:
        loaded: an encoder with its tokenizer.
        data: files, or `{"text": [...]}`.
        columns: `{"text": NAME}`.
        masking: which tokens are masked, and what replaces them.
        max_length: largest number of tokens in a piece; the model's limit if None.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "masked-lm"
    by_example: ClassVar[tuple[str, ...]] = ("pieces", "_numbers")

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        *,
        masking: Masking = MASKING,
        max_length: int | None = None,
        limit: int | None = None,
    ) -> None:
        table = self.read(loaded, data, columns, limit)
        self.sha256 = table.sha256_with(**asdict(masking), max_length=max_length)
        self._mask = _Mask(loaded, masking)
        self.pieces = list[tuple[list[int], list[bool]]]()
        self.num_texts, self.num_cut = len(table), 0
        length = piece_length(loaded, max_length)
        texts = whole_texts(loaded, table)
        self.noted = Noted.of(texts)
        for text, origin in zip(texts, table.origins, strict=True):
            pieces = list(framed(text, length))
            if not pieces:
                raise CorpusError(f"{origin}: expected a token to mask, got none. Remove the line.")
            self.num_cut += len(pieces) > 1
            self.pieces += pieces
        self._pad_id = pad_id(loaded)
        self.num_examples = len(self.pieces)
        self._numbers = range(self.num_examples)

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of pieces, masked as always."""
        return self._drawn(index_E, draw=0)

    def training_batch(self, index_E: Int[np.ndarray, " example"], number: int) -> TaskBatch:
        """A batch of pieces with masks of their own for every batch."""
        return self._drawn(index_E, draw=number + 1)

    def _drawn(self, index_E: Int[np.ndarray, " example"], draw: int) -> TaskBatch:
        masked = [self._mask.of(self._numbers[n], draw, *self.pieces[n]) for n in index_E]
        inputs = text_inputs([ids for ids, _ in masked], self._pad_id)
        labels_EN = padded([labels for _, labels in masked], IGNORED)
        return TaskBatch.of(inputs, {"labels": labels_EN}, index_E)


def mask_id_of(loaded: Loaded) -> int:
    """The id of the mask token.

    Raises:
        ModelError: if the tokenizer has none.
    """
    tokenizer = loaded.encoder().tokenizer
    if not isinstance(found := tokenizer.mask_token_id, int):
        raise ModelError(
            f"Expected a tokenizer with a mask token, got the {type(tokenizer).__name__} of "
            f"{loaded.name}. Set mask_token in tokenizer_config.json."
        )
    return found


@final
class _Mask:
    """Draws masks, which depend on the seed, the number of the example and that of the draw."""

    def __init__(self, loaded: Loaded, masking: Masking) -> None:
        tokenizer: Tokenizer = loaded.encoder().tokenizer
        self._mask_id, self._masking = mask_id_of(loaded), masking
        size = min(len(tokenizer), loaded.model.config.get_text_config().vocab_size)
        self._usual = np.setdiff1d(np.arange(size), tokenizer.all_special_ids)

    def of(
        self, index: int, draw: int, ids: list[int], is_special: list[bool]
    ) -> tuple[list[int], list[int]]:
        """Masked ids, and the labels at masked positions."""
        rng = np.random.default_rng((self._masking.seed, index, draw))
        content = np.flatnonzero(~np.array(is_special))
        count = max(1, round(self._masking.share * len(content)))
        chosen = rng.choice(content, count, replace=False)
        masked, labels = np.array(ids), np.full(len(ids), IGNORED)
        labels[chosen] = masked[chosen]
        masked[chosen] = self._stand_ins(masked[chosen], rng)
        return masked.tolist(), labels.tolist()

    def _stand_ins(
        self, ids_M: Int[np.ndarray, " masked"], rng: np.random.Generator
    ) -> Int[np.ndarray, " masked"]:
        masks = np.full_like(ids_M, self._mask_id)
        if self._masking.replacement == "mask":
            return masks
        lot = rng.random(len(ids_M))
        random = rng.choice(self._usual, len(ids_M))
        others = np.where(lot < SHARE_MASK + SHARE_RANDOM, random, ids_M)
        return np.where(lot < SHARE_MASK, masks, others)
