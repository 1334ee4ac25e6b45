r"""GAP's questions: which of two names a pronoun means, answered by every head.

A head says yes to the name with the larger weight in the row of the pronoun, and no to the other.
Every passage has two answers, which are right or wrong, and

$$F_1 = \frac{2\,|\text{yes} \cap \text{right}|}{|\text{yes}| + |\text{right}|}$$

over the answers for both names of all passages. The baseline says yes to the name nearest to the
pronoun, in words.

Reference: Mind the GAP (Webster et al., 2018), https://arxiv.org/abs/1810.05201
Departure: a causal model can't see a name after the pronoun, and says yes to the other one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from headcount.corpora import FEMININE, MASCULINE, Document, NameQuestion
from headcount.probes.coreference_options import CoreferenceOptions
from headcount.results import NameRow
from headcount.statistics import Bootstrap

GENDERS = {"all": None, "feminine": FEMININE, "masculine": MASCULINE}
"""Pronouns by gender; None for any."""


def chosen_names(
    weights_HMM: Float[Tensor, "head mention mention"], question: NameQuestion
) -> Int[np.ndarray, " head"]:
    """The number, 0 or 1, of the name with the larger weight in the row of the pronoun."""
    row_HM = weights_HMM[:, question.pronoun]
    return row_HM[:, list(question.names)].argmax(1).numpy()


def nearest_name(document: Document, question: NameQuestion) -> int:
    """The number, 0 or 1, of the name nearest to the pronoun in words; the first of two as near."""
    pronoun = document.mentions[question.pronoun]
    heads = [document.mentions[name].head for name in question.names]
    distances = [abs(head - pronoun.head) for head in heads]
    return int(distances[1] < distances[0])


@final
class NameAnswers:
    """Right answers of every head, and of the nearest name, by passage.

    Args:
        documents: the documents; those without a question are left out.
        chosen: the name that every head chooses, by number of the document.
        heads: names of the heads.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        chosen: Mapping[int, Int[np.ndarray, " head"]],
        heads: Sequence[str],
    ) -> None:
        self._heads = heads
        passages = [
            (documents[number], question, choice_H)
            for number, choice_H in sorted(chosen.items())
            if (question := documents[number].question) is not None
        ]
        self.pronouns = [
            document.words[document.mentions[question.pronoun].head].lower()
            for document, question, _ in passages
        ]
        right_P2 = np.array([question.is_right for _, question, _ in passages], float)
        self.num_right_P = right_P2.reshape(-1, 2).sum(1)
        """Number of right names of each passage: 0, 1, or 2."""
        choice_PR = [[*choice, nearest_name(each, asked)] for each, asked, choice in passages]
        places = np.arange(len(passages))[:, None]
        self.hit_PR = right_P2.reshape(-1, 2)[
            places, np.array(choice_PR, int).reshape(-1, 1 + len(heads))
        ]
        """Whether the chosen name is right, of the heads and, last, of the nearest name."""

    def rows(self, options: CoreferenceOptions) -> Iterator[NameRow]:
        """A row for every head and gender; none for a gender without a passage."""
        every = range(len(self._heads))
        for gender in GENDERS:
            yield from self._rows(every, gender, self._of(gender), options)

    def best(self, options: CoreferenceOptions) -> Iterator[NameRow]:
        """The head with the highest F1 on one half of the passages, on the other half."""
        order = np.random.default_rng(options.seed).permutation(len(self.pronouns))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        if not len(first):
            return
        best = int(self._f1(first)[:-1].argmax())
        for gender in GENDERS:
            yield from self._rows([best], gender, np.intersect1d(second, self._of(gender)), options)

    def _of(self, gender: str) -> Int[np.ndarray, " passage"]:
        some = GENDERS[gender]
        return np.flatnonzero([some is None or pronoun in some for pronoun in self.pronouns])

    def _f1(self, places_P: Int[np.ndarray, " passage"]) -> Float[np.ndarray, " answerer"]:
        return 2 * self.hit_PR[places_P].sum(0) / (1 + self.num_right_P[places_P]).sum()

    def _rows(
        self,
        heads: Sequence[int],
        gender: str,
        places_P: Int[np.ndarray, " passage"],
        options: CoreferenceOptions,
    ) -> Iterator[NameRow]:
        """The rows of some heads on some passages; none without a passage."""
        if not len(places_P):
            return
        hit_PH, right_P = self.hit_PR[places_P][:, list(heads)], self.num_right_P[places_P]
        drawn = Bootstrap(len(places_P), options.samples, options.seed)
        answers_PH = np.repeat(1 + right_P[:, None], len(heads), 1)
        for place, ratio in enumerate(drawn.ratios(2 * hit_PH, answers_PH)):
            its = ratio.within(0.0, 1.0)
            yield NameRow(
                head=self._heads[heads[place]],
                gender=gender,
                f1=its.value,
                low=its.low,
                high=its.high,
                accuracy=float(hit_PH[:, place].sum() / max(1, (right_P > 0).sum())),
                passages=len(places_P),
                nearest=float(self._f1(places_P)[-1]),
            )
