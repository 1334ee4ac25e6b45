r"""Multiple choice: which continuation of a prompt a causal model holds to be the most likely.

$$s_c = \frac{1}{n_c} \sum_t \log p(c_t \mid \text{prompt}, c_{<t}), \qquad
  \mathrm{loss} = -\log \frac{e^{s_a}}{\sum_c e^{s_c}}$$

c are the choices and a the right one; n is 1, or the number of tokens or characters of the choice
(`likelihood_per`). The loss is the cross-entropy of the right choice, in nats, one per example.
Outcome: the choice with the largest s. Score: accuracy.
Reference: Language Models are Few-Shot Learners (Brown et al., 2020), section 2.4,
https://arxiv.org/abs/2005.14165; by characters: acc_norm of lm-evaluation-harness,
https://github.com/EleutherAI/lm-evaluation-harness

Rows of a multiple choice: the tokens that a causal model reads for each choice.

A choice is read after its prompt and one space. The context of an example is the tokens that its
prompt alone begins with and that all its choices share; the tokens after it are the choice's. The
last one is predicted and need not be read, so that choices of one token share the row that ends
with the context. A prompt with pictures, or one that is a chat, is written by the chat template of
a model that reads pictures, with the choice as the reply.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headcount.core import CorpusError, check_choice
from headcount.corpora import Columns, Data, Encoded, Encoder, Noted, Sentence, Table
from headcount.models import Loaded
from headcount.tasks.batch import Answers, Losses, TaskBatch, pad_id, padded, text_inputs
from headcount.tasks.classification import ClassTask
from headcount.tasks.metrics import IGNORED
from headcount.tasks.options import LikelihoodPer
from headcount.tasks.pictured import Pictured
from headcount.tasks.task import Distils


@final
@dataclass(frozen=True)
class ChoiceRows:
    """The rows of one example, and the tokens of its choices."""

    rows: list[list[int]]
    """Token ids that the model reads, each row once."""
    row_of: list[int]
    """The row of each choice."""
    tokens: list[list[int]]
    """The tokens of each choice; the first is predicted by the last token of the context."""
    num_context: int
    """Number of tokens in the context."""
    is_cut: bool
    """Whether tokens of the context were left out, since the model has a limit."""
    num_repeated: int = 0
    """Number of tokens that the prompt begins with itself, see `Encoded`."""

    @property
    def longest(self) -> int:
        """Number of tokens in the longest row."""
        return max(map(len, self.rows))


def choice_rows(loaded: Loaded, table: Table) -> list[ChoiceRows]:
    """The rows of every example.

    Raises:
        CorpusError: if an example has fewer than two choices, a choice has no token of its own, or
            one is too long for the model.
    """
    encoder = Encoder(loaded.encoder().tokenizer)
    prompts = encoder.sources(table.sentences("prompt"))
    whole = iter(encoder.sources([*_whole(table)]))
    limit = loaded.max_length
    return [
        _rows(_without_end(prompt), [_without_end(next(whole)) for _ in choices], limit, origin)
        for prompt, choices, origin in zip(
            prompts, table.lists["choices"], table.origins, strict=True
        )
    ]


def pictured_rows(pictured: Pictured, table: Table) -> list[ChoiceRows]:
    """The rows of every example whose prompt has pictures, with each choice as the reply.

    Raises:
        CorpusError: as `choice_rows`, and for a prompt that is too long with its pictures.
    """
    wholes = iter(pair.source for pair in pictured.encoder.encode(pictured.sentences))
    found = list[ChoiceRows]()
    for choices, origin in zip(table.lists["choices"], table.origins, strict=True):
        _check_number(choices, origin)
        its = [next(wholes) for _ in choices]
        prompt = _cut(its[0], _reply(its[0]).start)
        found.append(_rows(prompt, [_cut(each, _reply(each).stop) for each in its], None, origin))
    return found


def _reply(encoded: Encoded) -> range:
    """Places of the tokens of the last reply."""
    says = [role == "assistant" for role in encoded.roles or ()]
    stop = len(says) - says[::-1].index(True)
    return range(stop - sum(1 for _ in takewhile(bool, reversed(says[:stop]))), stop)


def answers(table: Table) -> list[int]:
    """Number of the right choice of every example.

    All answers of a data set are read in the same way: as texts of choices or as numbers from 0,
    whichever fits more of them; in a tie, as texts.

    Raises:
        CorpusError: for the first answer that is no choice, with its line.
    """
    lists = table.lists["choices"]
    by_text = [{text: number for number, text in enumerate(texts)} for texts in lists]
    by_number = [{str(number): number for number in range(len(texts))} for texts in lists]
    given = table["answer"]
    ways = max(
        (by_text, by_number),
        key=lambda way: sum(one in of for one, of in zip(given, way, strict=True)),
    )
    kinds = ("text", "number") if ways is by_text else ("number", "text")
    others = by_number if ways is by_text else by_text
    for row in zip(given, ways, others, lists, table.origins, strict=True):
        one, of, others_of, texts, origin = row
        if one not in of and one in others_of:
            raise CorpusError(
                f"{origin}: expected the {kinds[0]} of a choice as the answer, as in most lines, "
                f"got {one!r}, the {kinds[1]} of one. Write all answers as {kinds[0]}s."
            )
        if one not in of:
            raise CorpusError(
                f"{origin}: expected one of the {len(texts)} choices as the answer, got {one!r}. "
                f"Answers are numbers from 0 to {len(texts) - 1}, or texts of choices, the same "
                "kind in all lines."
            )
    return [of[one] for one, of in zip(given, ways, strict=True)]


def _whole(table: Table) -> Iterator[Sentence]:
    for prompt, choices, origin in zip(
        table["prompt"], table.lists["choices"], table.origins, strict=True
    ):
        _check_number(choices, origin)
        for choice in choices:
            yield Sentence(f"{prompt} {choice}", origin=origin)


def _check_number(choices: Sequence[str], origin: str) -> None:
    if len(choices) < 2:
        raise CorpusError(
            f"{origin}: expected at least two choices, got {len(choices)}. Complete or remove "
            "the line."
        )


def _without_end(encoded: Encoded) -> Encoded:
    """The tokens up to the last one that is no special token, since what follows is not asked."""
    ends = sum(1 for _ in takewhile(bool, reversed(encoded.is_special)))
    return _cut(encoded, len(encoded.ids) - ends)


def _cut(encoded: Encoded, keep: int) -> Encoded:
    """The first tokens."""
    return replace(
        encoded,
        ids=encoded.ids[:keep],
        word_of=encoded.word_of[:keep],
        is_special=encoded.is_special[:keep],
    )


def _rows(prompt: Encoded, wholes: Sequence[Encoded], limit: int | None, origin: str) -> ChoiceRows:
    all_ids = [whole.ids for whole in wholes]
    shared = zip(prompt.ids, *all_ids, strict=False)
    num_context = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, shared))
    context, tokens = prompt.ids[:num_context], [ids[num_context:] for ids in all_ids]
    if not num_context or not all(tokens):
        raise CorpusError(
            f"{origin}: expected tokens of the prompt before those of each choice, got "
            f"{num_context} and {', '.join(str(len(ids)) for ids in tokens)}. Fix the line."
        )
    starts = sum(1 for _ in takewhile(bool, prompt.is_special))
    surplus = 0 if limit is None else num_context + max(map(len, tokens)) - 1 - limit
    if surplus > 0:
        if surplus >= num_context - starts:
            raise CorpusError(
                f"{origin}: expected choices that leave room for the prompt within {limit} tokens, "
                f"got one of {max(map(len, tokens))}. Shorten it."
            )
        context = [*context[:starts], *context[starts + surplus :]]
    read = [(*context, *ids[:-1]) for ids in tokens]
    rows = list(dict.fromkeys(read))
    row_of = [rows.index(row) for row in read]
    return ChoiceRows(
        [list(row) for row in rows],
        row_of,
        tokens,
        len(context),
        surplus > 0,
        prompt.num_repeated,
    )


@final
class Choice(ClassTask):
    """Choices among continuations of prompts.

    An example has a row for each choice, but choices of one token share a row. Prompts that do not
    fit the model lose their first tokens, except those with which the tokenizer begins every text,
    and are counted in `num_truncated`.

    Args:
        loaded: a decoder with its tokenizer.
        data: files, or `{"prompt": [...], "choices": [[...]], "answer": [...]}`, and `"image"` with
            a picture each, or a list of them, for a model that reads pictures. A prompt may be a
            list of messages for such a model.
        columns: `{"prompt": NAME, "choices": NAME, "answer": NAME, "image": NAME}`. Answers are
            numbers of choices from 0, or their texts.
        likelihood_per: what the log-likelihoods of choices are compared by: a whole `choice`, or
            the mean for each `token` or `character` of it.
        limit: largest number of examples.
    """

    name: ClassVar[str] = "choice"
    by_example: ClassVar[tuple[str, ...]] = ("gold_N", "_examples", "_lengths", "_sentences")
    distils: Distils | None  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        loaded: Loaded,
        data: Data,
        columns: Columns | None = None,
        likelihood_per: LikelihoodPer = "choice",
        limit: int | None = None,
    ) -> None:
        check_choice("a unit", likelihood_per, LikelihoodPer)
        self.metric, self.higher_is_better = "accuracy", True
        table = self.read(loaded, data, columns, limit)
        self._per = None if likelihood_per == "choice" else likelihood_per
        self._pictured = Pictured.choices(loaded, table)
        beside = self._pictured
        signed = None if beside is None else beside.signed
        if beside is None:
            table.columns.pop("image", None)  # of which all are empty
        self.sha256 = table.sha256_with(likelihood_per=self._per, pictures=signed)
        self._examples = (
            choice_rows(loaded, table) if beside is None else pictured_rows(beside, table)
        )
        self._sentences = _sentences_of(self._examples, beside)
        self.gold_N = np.array(answers(table))
        texts = table.lists["choices"]
        self._lengths = {
            "choice": [[1 for _ in each] for each in texts],
            "token": [[len(ids) for ids in each.tokens] for each in self._examples],
            "character": [[len(text) for text in each] for each in texts],
        }[likelihood_per]
        self.num_classes = max(map(len, texts))
        # Absent choices have no likelihood that a student could learn
        self.distils = "answers" if len({len(each) for each in texts}) == 1 else None
        self.num_truncated = sum(each.is_cut for each in self._examples)
        self.noted = Noted(sum(each.num_repeated > 0 for each in self._examples))
        self._most_rows = max(len(each.rows) for each in self._examples)
        self._pad_id = pad_id(loaded)

    @property
    def signature(self) -> str:
        """Accuracy, and the unit that log-likelihoods are means for."""
        return self.metric + (f"|per:{self._per}" if self._per else "")

    @property
    def signed_options(self) -> Mapping[str, object]:
        """The unit that log-likelihoods are means for."""
        return {"per": self._per}

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Tokens of the longest row of every example, times the most rows of any example."""
        return self._most_rows * np.array([each.longest for each in self._examples])

    def batch(self, index_E: Int[np.ndarray, " example"]) -> TaskBatch:
        """A batch of examples with the rows of each, one example after the other."""
        examples = [self._examples[index] for index in index_E]
        inputs = text_inputs([row for each in examples for row in each.rows], self._pad_id)
        if self._pictured is not None:
            beside = [each for index in index_E for each in self._sentences[index]]
            inputs = self._pictured.inputs(beside, inputs)
        labels = {
            "class": torch.from_numpy(self.gold_N[index_E]),
            "row": padded([each.row_of for each in examples], -1),
            "length": padded([self._lengths[index] for index in index_E], 1),
            "start": torch.tensor([each.num_context - 1 for each in examples]),
            "tokens": self._tokens(index_E),
        }
        num_rows = torch.tensor([len(each.rows) for each in examples])
        example_R = torch.arange(len(examples)).repeat_interleave(num_rows)
        return TaskBatch(inputs, labels, example_R, torch.from_numpy(index_E))

    def output(self, model: PreTrainedModel, batch: TaskBatch, **more: Any) -> Any:
        """The output of the model."""
        return model(**batch.inputs, use_cache=False, **more)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """Cross-entropy of the right choice among the choices of each example."""
        score_EC = self.scores(output, batch)
        loss_E = cross_entropy(score_EC, batch.labels["class"], reduction="none")
        chosen_E = score_EC.detach().argmax(1).to(loss_E)
        return Losses(loss_E, torch.ones_like(batch.labels["class"]), chosen_E)

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """Scores of the choices, as logits."""
        return Answers(self.scores(output, batch), batch.labels["class"])

    def scores(self, output: Any, batch: TaskBatch) -> Float[Tensor, "example choice"]:
        """Log-likelihoods of the choices by their unit, minus infinity where there is no choice."""
        logits_PV, is_token_ECT = asked_logits(output.logits, batch)
        nll_P = cross_entropy(logits_PV, batch.labels["tokens"][is_token_ECT], reduction="none")
        blank_ECT = torch.zeros(is_token_ECT.shape, device=nll_P.device, dtype=nll_P.dtype)
        likelihood_EC = blank_ECT.masked_scatter(is_token_ECT, -nll_P).sum(-1)
        score_EC = likelihood_EC / batch.labels["length"]
        return score_EC.masked_fill(batch.labels["row"] < 0, -torch.inf)

    def _tokens(self, index_E: Int[np.ndarray, " example"]) -> Int[Tensor, "example choice token"]:
        """Tokens of the choices, `IGNORED` where there is none."""
        count = max(len(self._examples[index].tokens) for index in index_E)
        flat = []
        for index in index_E:
            tokens = self._examples[index].tokens
            flat += [*tokens, *[[]] * (count - len(tokens))]
        return padded(flat, IGNORED).unflatten(0, (len(index_E), count))


def _sentences_of(examples: Sequence[ChoiceRows], beside: Pictured | None) -> list[list[Sentence]]:
    """The prompt with pictures of each row of every example; none without pictures."""
    if beside is None:
        return [[] for _ in examples]
    rest = iter(beside.sentences)
    of_choices = [[next(rest) for _ in each.row_of] for each in examples]
    return [
        [sentences[each.row_of.index(row)] for row in range(len(each.rows))]
        for each, sentences in zip(examples, of_choices, strict=True)
    ]


def asked_logits(
    logits_RNV: Float[Tensor, "row token vocabulary"], batch: TaskBatch
) -> tuple[Float[Tensor, "place vocabulary"], Tensor]:
    """Logits that predict the tokens of choices, in single precision, and where they are."""
    labels = batch.labels
    is_token_ECT = labels["tokens"] != IGNORED
    num_rows_E = torch.bincount(batch.example_R, minlength=batch.num_examples)
    row_EC = (num_rows_E.cumsum(0) - num_rows_E)[:, None] + labels["row"]
    place_T = torch.arange(is_token_ECT.shape[-1], device=row_EC.device)
    place_ECT = (labels["start"][:, None, None] + place_T).expand(is_token_ECT.shape)
    row_ECT = row_EC[..., None].expand(is_token_ECT.shape)
    # A batch that is repeated has the rows of each copy together, in order of its examples
    row_P = batch.example_R.argsort(stable=True)[row_ECT[is_token_ECT]]
    logits_PV = logits_RNV[row_P, place_ECT[is_token_ECT]]
    return logits_PV.to(torch.promote_types(logits_PV.dtype, torch.float32)), is_token_ECT
