r"""Antecedents: windows of documents, the mentions to resolve in them, and three baselines.

A mention is a case if an earlier mention of its entity lies in its window. Candidates are the heads
of all earlier mentions in the window, other than its own head; the choice is right if it is the
head of a mention of the same entity. Windows are stretches of complete sentences that overlap by
half, and every mention is resolved in the window with the most text before it.

Baselines choose among the same candidates:

- `nearest`: the nearest.
- `head_match`: the nearest with the same head word, in any case; the nearest if there is none.
- `rules`: the nearest that passes the first possible one of four sieves: the same words, the same
  head word, the same person, number and gender as far as these are known, any.

GAP's questions: which of two names a pronoun means, answered by every head.

A head says yes to the name with the larger weight in the row of the pronoun, and no to the other.
Every passage has two answers, which are right or wrong, and

$$F_1 = \frac{2\,|\text{yes} \cap \text{right}|}{|\text{yes}| + |\text{right}|}$$

over the answers for both names of all passages. The baseline says yes to the name nearest to the
pronoun, in words.

Reference: What Does BERT Look At? (Clark et al., 2019), section 4.3, https://arxiv.org/abs/1906.04341
Reference: Stanford's Multi-Pass Sieve Coreference Resolution System (Lee et al., 2011),
https://aclanthology.org/W11-1902

Reference: Mind the GAP (Webster et al., 2018), https://arxiv.org/abs/1810.05201
Departure: a causal model can't see a name after the pronoun, and says yes to the other one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.coreference.result import CoreferenceOptions, NameRow
from headcount.corpora import (
    FEMININE,
    FIRST,
    MASCULINE,
    NEUTER,
    PLURAL,
    SECOND,
    Document,
    Mention,
    NameQuestion,
    stretches,
)
from headcount.statistics import Bootstrap


@final
@dataclass(frozen=True)
class Choices:
    """Right choices in a window, and the names that heads chose in GAP's."""

    hits: str
    """Whether each head is right in each case, as bits in hexadecimal digits."""
    shape: tuple[int, ...]
    """Numbers of heads and of cases."""
    names: str | None = None
    """The name, 0 or 1, that each head chooses; None if nothing is asked."""

    @classmethod
    def of(
        cls, hits_HC: Int[np.ndarray, "head case"], name_H: Int[np.ndarray, " head"] | None
    ) -> "Choices":
        """The choices of a window: whether they are right, and the name that each head chooses."""
        names = None if name_H is None else _packed(name_H)
        return cls(_packed(hits_HC), hits_HC.shape, names)

    @property
    def hits_HC(self) -> Int[np.ndarray, "head case"]:
        """Whether each head is right in each case."""
        return _unpacked(self.hits, int(np.prod(self.shape))).reshape(self.shape)

    @property
    def name_H(self) -> Int[np.ndarray, " head"] | None:
        """The name, 0 or 1, that each head chooses; None if nothing is asked."""
        return None if self.names is None else _unpacked(self.names, self.shape[0])


def _packed(bits: Int[np.ndarray, "..."]) -> str:
    return np.packbits(bits.astype(bool)).tobytes().hex()


def _unpacked(text: str, size: int) -> Int[np.ndarray, " bit"]:
    packed = np.frombuffer(bytes.fromhex(text), np.uint8)
    return np.unpackbits(packed, count=size).astype(int)


GENDERS = {"all": None, "feminine": FEMININE, "masculine": MASCULINE}
"""Pronouns by gender; None for any."""


def chosen_names(
    weights_HMM: Float[Tensor, "head mention mention"], question: NameQuestion
) -> Int[np.ndarray, " head"]:
    """The number, 0 or 1, of the name with the larger weight in the row of the pronoun."""
    row_HM = weights_HMM[:, question.pronoun]
    return row_HM[:, list(question.names)].argmax(1).numpy()


def halves(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The documents that choose the best heads, and those that measure them, drawn at random."""
    order = np.random.default_rng(seed).permutation(number)
    return order[: number // 2], order[number // 2 :]


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
        first, second = halves(len(self.pronouns), options.seed)
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
        nearest = float(self._f1(places_P)[-1])
        for place, its in enumerate(drawn.ratios(2 * hit_PH, answers_PH, shares=True)):
            accuracy = float(hit_PH[:, place].sum() / max(1, (right_P > 0).sum()))
            numbers = (its.value, its.low, its.high, accuracy, len(places_P))
            yield NameRow(self._heads[heads[place]], gender, *numbers, nearest)


MALE_WORDS = frozenset("mr mr. sir man boy father brother son uncle husband king lord".split())
FEMALE_WORDS = frozenset(
    "mrs mrs. miss ms ms. lady woman girl mother sister daughter aunt wife queen madam".split()
)
PLURAL_DETERMINERS = frozenset("these those many several few both two three four five".split())
SINGULAR_DETERMINERS = frozenset("a an this that another each every".split())
BASELINES = ("nearest", "head_match", "rules")


@final
@dataclass(frozen=True, eq=False)
class Window:
    """A stretch of a document, with the heads of its mentions."""

    document: int
    """Number of the document."""
    first: int
    """Its first word, counted over the document."""
    sentences: range
    """Its sentences, counted over the document."""
    mentions: tuple[Mention, ...]
    """The mentions that lie in it completely, in order."""
    is_case_M: Bool[np.ndarray, " mention"]
    """Mentions to resolve here."""
    is_candidate_MM: Bool[np.ndarray, "mention mention"]
    """For each mention, the earlier ones that may be chosen."""
    is_right_MM: Bool[np.ndarray, "mention mention"]
    """For each mention, the candidates that share their head with one of its antecedents."""


@final
@dataclass(frozen=True)
class Windows:
    """The windows of all documents, and what is out of their reach."""

    windows: tuple[Window, ...]
    anaphoric: int
    """Number of mentions with an earlier mention of their entity in the document."""
    too_long: int
    """Number of sentences that are longer than a window; their mentions are left out."""

    @property
    def cases(self) -> int:
        """Number of mentions to resolve."""
        return int(sum(window.is_case_M.sum() for window in self.windows))

    @property
    def out_of_reach(self) -> int:
        """Number of anaphoric mentions whose antecedents all lie before their window."""
        return self.anaphoric - self.cases

    @property
    def single(self) -> int:
        """Number of cases with one candidate."""
        candidates = (each.is_candidate_MM[each.is_case_M].sum(1) for each in self.windows)
        return int(sum((count_C == 1).sum() for count_C in candidates))


def windows_of(
    documents: Sequence[Document], lengths: Sequence[Sequence[int]], limit: int
) -> Windows:
    """Cut documents into windows.

    Args:
        documents: the documents.
        lengths: number of tokens of every sentence of each document, without special tokens.
        limit: largest number of tokens in a window, without special tokens.
    """
    found, anaphoric, too_long = list[Window](), 0, 0
    for number, (document, sizes) in enumerate(zip(documents, lengths, strict=True)):
        seen = set[str]()
        for mention in document.mentions:
            anaphoric += mention.entity in seen
            seen.add(mention.entity)
        too_long += sum(size > limit for size in sizes)
        starts = np.cumsum([0, *map(len, document.sentences)])
        for begin, resolved, end in stretches(sizes, limit):
            words = (int(starts[i]) for i in (begin, resolved, end))
            found.append(_window(number, document, range(begin, end), *words))
    return Windows(tuple(found), anaphoric, too_long)


def _window(
    number: int, document: Document, sentences: range, begin: int, resolved: int, end: int
) -> Window:
    """The window from word `begin` to `end`, which resolves mentions that begin at `resolved`."""
    mentions = tuple(m for m in document.mentions if begin <= m.start and m.end < end)
    head_M = np.array([mention.head for mention in mentions], int)
    entity_M = np.unique([mention.entity for mention in mentions], return_inverse=True)[1]
    order = np.arange(len(mentions))
    is_candidate_MM = (order[:, None] > order) & (head_M[:, None] > head_M)
    is_same_MM = (entity_M[:, None] == entity_M) & is_candidate_MM
    # A candidate whose head is also the head of an antecedent is as good
    shares_MM = head_M[:, None] == head_M
    is_right_MM = (is_same_MM.astype(int) @ shares_MM > 0) & is_candidate_MM
    starts_here_M = np.array([mention.start >= resolved for mention in mentions], bool)
    is_case_M = starts_here_M & is_right_MM.any(1) if len(mentions) else starts_here_M
    return Window(number, begin, sentences, mentions, is_case_M, is_candidate_MM, is_right_MM)


def are_right(
    weights_HMM: Float[Tensor, "head mention mention"], window: Window
) -> Int[np.ndarray, "head case"]:
    """Whether the largest weight among the candidates is on the head of an antecedent."""
    size, cases = len(window.mentions), np.flatnonzero(window.is_case_M)
    weights_HCM = weights_HMM[:, cases, :size].numpy()
    weights_HCM = np.where(window.is_candidate_MM[cases], weights_HCM, -1.0)
    return window.is_right_MM[cases, weights_HCM.argmax(-1)].astype(int)


def baseline_choices(window: Window, words: Sequence[str]) -> dict[str, list[int]]:
    """The mention that each baseline chooses for each case, in order.

    Args:
        window: the window.
        words: the words of the document.
    """
    found: dict[str, list[int]] = {name: [] for name in BASELINES}
    for case in np.flatnonzero(window.is_case_M):
        candidates = np.flatnonzero(window.is_candidate_MM[case]).tolist()
        candidates.sort(key=lambda place: -window.mentions[place].head)
        mention, others = window.mentions[case], [(p, window.mentions[p]) for p in candidates]
        head, text = words[mention.head].lower(), _text(mention, words)
        heads = [p for p, other in others if words[other.head].lower() == head]
        texts = [p for p, other in others if _text(other, words) == text]
        agreeing = [p for p, other in others if _agree(mention, other, words)]
        found["nearest"].append(candidates[0])
        found["head_match"].append((heads or candidates)[0])
        found["rules"].append((texts or heads or agreeing or candidates)[0])
    return found


def _text(mention: Mention, words: Sequence[str]) -> str:
    return " ".join(words[mention.start : mention.end + 1]).lower()


def _agree(one: Mention, other: Mention, words: Sequence[str]) -> bool:
    """Whether person, number and gender are the same wherever both are known."""
    pairs = zip(_traits(one, words), _traits(other, words), strict=True)
    return all(a is None or b is None or a == b for a, b in pairs)


def _traits(mention: Mention, words: Sequence[str]) -> tuple[int, str | None, str | None]:
    """Person, number and gender of a mention; None if unknown."""
    head = words[mention.head].lower()
    its = {word.lower() for word in words[mention.start : mention.end + 1]}
    person = 1 if head in FIRST else 2 if head in SECOND else 3
    gender = None
    for name, some in (("m", MASCULINE | MALE_WORDS), ("f", FEMININE | FEMALE_WORDS)):
        if head in some or (mention.kind == "proper" and its & some):
            gender = name
    gender = "n" if head in NEUTER else gender
    number = None
    if head in PLURAL or its & PLURAL_DETERMINERS:
        number = "plural"
    elif mention.kind == "pronoun" and person != 2 or gender is not None:
        number = "singular"
    elif mention.kind == "proper" or words[mention.start].lower() in SINGULAR_DETERMINERS:
        number = "singular"
    elif mention.kind == "nominal" and head.endswith("s") and not head.endswith("ss"):
        number = "plural"
    return person, number, gender
