"""Antecedents: windows of documents, the mentions to resolve in them, and three baselines.

A mention is a case if an earlier mention of its entity lies in its window. Candidates are the heads
of all earlier mentions in the window, other than its own head; the choice is right if it is the
head of a mention of the same entity. Windows are stretches of complete sentences that overlap by
half, and every mention is resolved in the window with the most text before it.

Baselines choose among the same candidates:

- `nearest`: the nearest.
- `head_match`: the nearest with the same head word, in any case; the nearest if there is none.
- `rules`: the nearest that passes the first possible one of four sieves: the same words, the same
  head word, the same person, number and gender as far as these are known, any.

Reference: What Does BERT Look At? (Clark et al., 2019), section 4.3, https://arxiv.org/abs/1906.04341
Reference: Stanford's Multi-Pass Sieve Coreference Resolution System (Lee et al., 2011),
https://aclanthology.org/W11-1902
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headcount.corpora import (
    FEMININE,
    FIRST,
    MASCULINE,
    NEUTER,
    PLURAL,
    SECOND,
    Document,
    Mention,
    stretches,
)

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
    out_of_reach: int
    """Number of these whose antecedents all lie before their window."""
    too_long: int
    """Number of sentences that are longer than a window; their mentions are left out."""


def windows_of(
    documents: Sequence[Document], lengths: Sequence[Sequence[int]], limit: int
) -> Windows:
    """Cut documents into windows.

    Args:
        documents: the documents.
        lengths: number of tokens of every sentence of each document, without special tokens.
        limit: largest number of tokens in a window, without special tokens.
    """
    found, anaphoric, too_long, cases = list[Window](), 0, 0, 0
    for number, (document, sizes) in enumerate(zip(documents, lengths, strict=True)):
        seen = set[str]()
        for mention in document.mentions:
            anaphoric += mention.entity in seen
            seen.add(mention.entity)
        too_long += sum(size > limit for size in sizes)
        starts = np.cumsum([0, *map(len, document.sentences)])
        for begin, resolved, end in stretches(sizes, limit):
            words = (int(starts[i]) for i in (begin, resolved, end))
            window = _window(number, document, range(begin, end), *words)
            cases += int(window.is_case_M.sum())
            found.append(window)
    return Windows(tuple(found), anaphoric, anaphoric - cases, too_long)


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
    return Window(
        document=number,
        first=begin,
        sentences=sentences,
        mentions=mentions,
        is_case_M=is_case_M,
        is_candidate_MM=is_candidate_MM,
        is_right_MM=is_right_MM,
    )


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
        mention = window.mentions[case]
        heads = [p for p in candidates if _same_head(mention, window.mentions[p], words)]
        texts = [p for p in candidates if _same_text(mention, window.mentions[p], words)]
        agreeing = [p for p in candidates if _agree(mention, window.mentions[p], words)]
        found["nearest"].append(candidates[0])
        found["head_match"].append((heads or candidates)[0])
        found["rules"].append((texts or heads or agreeing or candidates)[0])
    return found


def _same_head(one: Mention, other: Mention, words: Sequence[str]) -> bool:
    return words[one.head].lower() == words[other.head].lower()


def _same_text(one: Mention, other: Mention, words: Sequence[str]) -> bool:
    texts = (" ".join(words[each.start : each.end + 1]).lower() for each in (one, other))
    return next(texts) == next(texts)


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
