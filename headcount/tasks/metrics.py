r"""Gold numbers, and Spearman's rank correlation of a model's numbers with them.

Negative log-likelihood of tokens, and perplexity.

$$\mathrm{NLL}(e) = -\sum_{t} \log p(y_t), \qquad
  \mathrm{perplexity} = \exp \frac{\sum_e \mathrm{NLL}(e)}{\sum_e |e|}$$

NLL is in nats, perplexity at least 1. There is no label smoothing.
Reference: Perplexity - a measure of the difficulty of speech recognition tasks (Jelinek et al.,
1977), https://doi.org/10.1121/1.2016299

BLEU, chrF and metrics of classes, of many sums of counts at once, for tests that need thousands of
scores.

$$\mathrm{BLEU} = 100 \min(1, e^{1 - r / c}) \Big(\prod_{n=1}^4 \frac{m_n}{t_n}\Big)^{1/4}, \qquad
  \mathrm{chrF} = 100 \frac{5 P R}{4 P + R}$$

m of the t n-grams of a translation are in its reference; c and r are the lengths of both in tokens.
P and R are the mean precision and recall of n-grams of 1 to 6 characters, over the orders that both
texts have. The k-th of BLEU's orders without a match counts as 2^-k matches. Both scores are between
0 and 100, and equal sacreBLEU's with its default options.

Reference: BLEU (Papineni et al., 2002), https://aclanthology.org/P02-1040; smoothing: Chen and
    Cherry (2014), method 3, https://aclanthology.org/W14-3346; chrF (Popović, 2015),
    https://aclanthology.org/W15-3049
"""  # noqa: E501

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, CorpusError, InputError, amount, levels, spread
from headcount.corpora import Table
from headcount.statistics import rank_correlations
from headcount.tap import evaluating, intercepted
from headcount.tasks.batch import Answers, Evaluation, Losses, TaskBatch
from headcount.tasks.options import SPEARMAN
from headcount.tasks.task import Distils, Resampled, Task

Scale = tuple[int | float, int | float]
"""Lowest and highest number that the data can have."""


def gold_numbers(table: Table, role: str, scale: Scale | None) -> Float[np.ndarray, " example"]:
    """A column of gold numbers, which must differ and lie on the scale, if there is one.

    Raises:
        InputError: if the scale does not rise.
        CorpusError: for a cell that is no number or outside the scale, or if all are equal.
    """
    low, high = (-np.inf, np.inf) if scale is None else scale
    if not low < high:
        raise InputError(
            f"Expected a scale from a lower to a higher number, got {low:g} to {high:g}."
        )
    numbers = table.numbers(role)
    for number, origin in zip(numbers, table.origins, strict=True):
        if not low <= number <= high:
            raise CorpusError(
                f"{origin}: expected a {role} between {low:g} and {high:g}, got {number:g}. Fix "
                "the line, or give the scale of the data with --scale LOW HIGH."
            )
    if len(set(numbers)) < 2:
        raise CorpusError(
            f"Expected different {role}s for Spearman's correlation, got "
            f"{amount(len(numbers), role)} of {numbers[0]:g} each."
        )
    return np.array(numbers)


def spearmans(
    outcome_N: Float[np.ndarray, " example"], gold_N: Float[np.ndarray, " example"]
) -> Resampled:
    """Spearman's correlation as a function of the examples drawn.

    It is NaN if the numbers, or the gold numbers, of a draw are all equal. Outcomes that differ by
    rounding, as those of two pairs of one text do, share a rank.
    """
    level_N = np.where(np.isnan(outcome_N), np.nan, levels(outcome_N))
    return lambda index_DS: rank_correlations(level_N[index_DS], gold_N[index_DS])


IGNORED = -100
"""Label of a token that is not predicted."""


def likelihoods(
    logits: Float[Tensor, "_ _ vocabulary"], labels_RN: Int[Tensor, "row token"]
) -> Losses:
    """Summed NLL of each row's labels.

    Args:
        logits: the predictions of all tokens, or in one row those of the tokens with a label.
        labels_RN: the labels, aligned with the predictions.
    """
    is_counted_RN = labels_RN != IGNORED
    are_all = logits.shape[:2] == labels_RN.shape
    logits_PV = logits[is_counted_RN] if are_all else logits[0]
    precise = torch.promote_types(logits.dtype, torch.float32)
    loss_P = cross_entropy(logits_PV.to(precise), labels_RN[is_counted_RN], reduction="none")
    loss_RN = loss_P.new_zeros(labels_RN.shape).masked_scatter(is_counted_RN, loss_P)
    loss_R = loss_RN.sum(1)
    return Losses(loss_R, is_counted_RN.sum(1), torch.full_like(loss_R, torch.nan))


@contextmanager
def _counted(model: PreTrainedModel, labels_RN: Int[Tensor, "row token"]) -> Iterator[None]:
    """Inside, the map to the vocabulary reads only the tokens with a label, in one row."""
    unembedding = model.get_output_embeddings()

    def chosen(module: nn.Module, hidden: Tensor) -> Tensor | None:
        is_all = type(hidden) is Tensor and hidden.shape[:-1] == labels_RN.shape
        is_counted_RN = (labels_RN != IGNORED).to(hidden.device)
        return hidden[is_counted_RN][None] if is_all else None

    with intercepted([] if unembedding is None else [unembedding], chosen):
        yield


BETA = 2.0
"""Weight of recall against precision in chrF."""


def bleu(sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
    """BLEU from both lengths, the matches of every order, and the n-grams of every order."""
    length_D, reference_D = sums_DK[:, 0], sums_DK[:, 1]
    match_DO, total_DO = np.split(sums_DK[:, 2:], 2, axis=1)
    is_missed_DO = match_DO == 0
    smoothed_DO = np.where(is_missed_DO, 0.5 ** is_missed_DO.cumsum(1), match_DO)
    is_known_D = (total_DO > 0).all(1) & (match_DO > 0).any(1)
    log_D = np.log(smoothed_DO / np.where(total_DO > 0, total_DO, 1)).mean(1)
    log_D += np.minimum(0, 1 - reference_D / np.where(length_D > 0, length_D, 1))
    return np.where(is_known_D, 100 * np.exp(log_D), 0.0)


def chrf(sums_DK: Float[np.ndarray, "draw statistic"]) -> Float[np.ndarray, " draw"]:
    """The chrF of counts of n-grams in translation, reference and both, for every order."""
    ours_DO, theirs_DO, match_DO = (sums_DK[:, start::3] for start in range(3))
    counts_DO = (ours_DO > 0) & (theirs_DO > 0)
    number_D = np.maximum(counts_DO.sum(1), 1)

    def mean(total_DO: np.ndarray) -> np.ndarray:
        return (counts_DO * match_DO / np.maximum(total_DO, 1)).sum(1) / number_D

    precision_D, recall_D = mean(ours_DO), mean(theirs_DO)
    below_D = BETA**2 * precision_D + recall_D
    above_D = (1 + BETA**2) * precision_D * recall_D
    return 100 * np.divide(above_D, below_D, out=np.zeros_like(above_D), where=below_D > 0)


Counts = Float[np.ndarray, "draw 3 label"]
"""Numbers by class: right and predicted as such, predicted as such, and correct."""


def _accuracies(counts_D3C: Counts) -> Float[np.ndarray, " draw"]:
    """The shares that are right."""
    return _ratio(counts_D3C[:, 0].sum(-1), counts_D3C[:, 2].sum(-1))


def _macro_f1s(counts_D3C: Counts) -> Float[np.ndarray, " draw"]:
    """The means of F1 over all classes that occur or are predicted."""
    has_class_DC = counts_D3C[:, 1:].sum(1) > 0
    return _ratio(_f1s_of_classes(counts_D3C).sum(-1), has_class_DC.sum(-1))


def _f1s(counts_D3C: Counts) -> Float[np.ndarray, " draw"]:
    """F1 of class 1 of two classes, or the mean over all classes that occur."""
    is_binary = counts_D3C.shape[-1] == 2
    return _f1s_of_classes(counts_D3C)[:, 1] if is_binary else _macro_f1s(counts_D3C)


def _f1s_of_classes(counts_D3C: Counts) -> Float[np.ndarray, "draw label"]:
    return _ratio(2 * counts_D3C[:, 0], counts_D3C[:, 1:].sum(1))


def _correlations(counts_D3C: Counts) -> Float[np.ndarray, " draw"]:
    """Matthews' correlation, 0 where all examples have one class or are predicted as one."""
    hits_D, num_D = (counts_D3C[:, each].sum(-1) for each in (0, 2))
    sides = counts_D3C[:, 1], counts_D3C[:, 2]
    together_D = hits_D * num_D - np.multiply(*sides).sum(-1)
    spreads = (num_D**2 - (each_DC**2).sum(-1) for each_DC in sides)
    return _ratio(together_D, np.sqrt(np.prod([*spreads], axis=0)))


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """The quotients; 0 where nothing is divided by."""
    return np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


COUNTED: Mapping[str, Callable[[Counts], Float[np.ndarray, " draw"]]] = {
    "accuracy": _accuracies,
    "f1": _f1s,
    "macro-f1": _macro_f1s,
    "matthews": _correlations,
}
"""Metrics of classes, of many sums of counts."""


class ResampledTask(Task, ABC):
    """A task whose score over all examples is that of a draw of each of them."""

    def score(
        self, evaluation: Evaluation, index_S: Int[np.ndarray, " sample"] | None = None
    ) -> float:
        """The score of one draw."""
        index_S = np.arange(self.num_examples) if index_S is None else index_S
        return float(self.resampled(evaluation)(index_S[None])[0])

    @abstractmethod
    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn."""


class TokenTask(ResampledTask, ABC):
    """A task whose examples have tokens to predict, by a model with logits at every token."""

    distils: ClassVar[Distils | None] = "answers"

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """The losses, for which no logits are computed of tokens without a label."""
        with _counted(model, batch.labels["labels"]):
            return super().losses(model, batch)

    def losses_of(self, output: Any, batch: TaskBatch) -> Losses:
        """NLL of each example's tokens with a label; padding is neither seen nor predicted."""
        return likelihoods(output.logits, batch.labels["labels"])

    def answers(self, output: Any, batch: TaskBatch) -> Answers:
        """Logits and labels of all tokens."""
        return Answers(output.logits, batch.labels["labels"])


class WritingTask(TokenTask, ABC):
    """A task that is scored by the texts that an encoder-decoder writes itself."""

    writes: ClassVar[bool] = True
    texts_file: ClassVar[str]
    """Name of the file that gets the texts, one of `EvaluationRecord.TEXTS`."""

    @abstractmethod
    def searches(self, max_tokens: int) -> Iterator[tuple[Int[np.ndarray, " example"], int]]:
        """Batches of examples that are searched together, and the most tokens of their texts."""

    @abstractmethod
    def searched(
        self, model: PreTrainedModel, index_E: Int[np.ndarray, " example"], most: int
    ) -> list[str]:
        """The texts that the model writes for a batch."""

    def written(self, model: PreTrainedModel, max_tokens: int = MAX_TOKENS) -> list[str]:
        """The texts that the model writes, in the order of the data."""
        texts, run_N = [""] * self.num_examples, np.zeros(self.num_examples, bool)
        self.steps(*self.counted(run_N))

        def of_batch(search: tuple[np.ndarray, int]) -> tuple[np.ndarray, list[str]]:
            return search[0], self.searched(model, *search)

        with evaluating(model), torch.inference_mode():
            for index_E, found in spread(of_batch, self.searches(max_tokens), "batches"):
                for index, text in zip(index_E, found, strict=True):
                    texts[index] = " ".join(text.split())
                run_N[index_E] = True
                self.steps(*self.counted(run_N))
        return texts

    def with_texts(
        self, evaluation: Evaluation, model: PreTrainedModel, max_tokens: int = MAX_TOKENS
    ) -> Evaluation:
        """An evaluation whose outcomes are the texts that the model writes."""
        texts = self.written(model, max_tokens)
        return replace(evaluation, outcome_N=np.array(texts, dtype=object))


class PerplexityTask(TokenTask, ABC):
    """A task whose examples are pieces of texts, scored by the perplexity of their tokens."""

    metric = "perplexity"
    higher_is_better = False
    pieces: Sequence[tuple[Sequence[int], Any]]
    """Tokens of every example, and what is asked of them."""

    @property
    def length_N(self) -> Int[np.ndarray, " example"]:
        """Number of tokens in every piece."""
        return np.array([len(ids) for ids, _ in self.pieces])

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """Perplexity as a function of the examples drawn."""

        def scores(index_DS: Int[np.ndarray, "draw sample"]) -> Float[np.ndarray, " draw"]:
            with np.errstate(over="ignore"):  # a broken model's perplexity is infinite
                mean_D = evaluation.loss_N[index_DS].sum(1) / evaluation.count_N[index_DS].sum(1)
                return np.exp(mean_D)

        return scores


class RankedTask(ResampledTask, ABC):
    """A task with a number for each example, scored by Spearman's correlation with gold numbers."""

    distils: ClassVar[Distils | None] = "embeddings"
    metric = SPEARMAN
    higher_is_better = True
    gold_N: Float[np.ndarray, " example"]
    """Gold number of every example, as in the data."""

    def resampled(self, evaluation: Evaluation) -> Resampled:
        """The score as a function of the examples drawn: Pearson's correlation of their ranks.

        NaN if the numbers, or the gold numbers drawn, are all equal.
        """
        return spearmans(evaluation.outcome_N, self.gold_N)
