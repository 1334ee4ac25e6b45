"""Mentions: which word of a noun phrase is its head, and what kind of mention it is.

With a parse, the head is the word whose own head lies outside the mention, and its tag gives the
kind. Without one, rules for English decide:

- The head is the last word outside prepositional phrases, relative clauses and appositions: the
  last word before the first preposition, relative pronoun or comma after the mention's first word.
  A possessive *'s* at the end does not count.
- A mention is a pronoun if it is one word of a list. It is a proper name if its head begins with a
  capital letter, unless the head begins the sentence and the same word also occurs in the document
  without the capital. All others are nominal.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, final

from headcount.corpora.sentence import Tree

Kind = Literal["pronoun", "proper", "nominal"]

MASCULINE = frozenset("he him his himself".split())
FEMININE = frozenset("she her hers herself".split())
NEUTER = frozenset("it its itself".split())
PLURAL = frozenset("they them their theirs themselves we us our ours ourselves".split())
FIRST = frozenset("i me my mine myself we us our ours ourselves".split())
SECOND = frozenset("you your yours yourself yourselves thou thee thy thine".split())
PRONOUNS = (
    MASCULINE
    | FEMININE
    | NEUTER
    | PLURAL
    | FIRST
    | SECOND
    | frozenset("who whom whose which that this these those one oneself".split())
)
PREPOSITIONS = frozenset(
    "of in on at by for with from to into onto upon over under about against between among through "
    "during without within near behind beside beyond above below after before since until as like "
    "around across along toward towards off inside outside concerning regarding including".split()
)
RELATIVES = frozenset(("who", "whom", "whose", "which", "that", ",", ";", ":", "--", "where"))
POSSESSIVES = frozenset(("'s", "’s", "'", "’"))


@final
@dataclass(frozen=True)
class Mention:
    """A mention of an entity; words are counted over the document."""

    start: int
    """First word."""
    end: int
    """Last word."""
    head: int
    """Head word."""
    entity: str
    """Name of the entity; mentions of one entity share it."""
    kind: Kind


def head_without_parse(words: Sequence[str]) -> int:
    """Position of the head in the words of a mention, by the rules above.

    >>> head_without_parse("the tall man in the boat".split())
    2
    >>> head_without_parse("Lincoln 's Inn Hall".split()), head_without_parse(["its"])
    (3, 0)
    """
    ends = (
        place
        for place, word in enumerate(words)
        if place and word.lower() in PREPOSITIONS | RELATIVES
    )
    head = next(ends, len(words)) - 1
    while head > 0 and words[head] in POSSESSIVES:
        head -= 1
    return head


def kind_without_parse(
    words: Sequence[str], head: str, begins_sentence: bool, lower: Collection[str]
) -> Kind:
    """The kind of a mention, by the rules above.

    Args:
        words: the words of the mention.
        head: its head.
        begins_sentence: whether the head is the first word of a sentence.
        lower: words of the document that occur without a capital letter.
    """
    if len(words) == 1 and head.lower() in PRONOUNS:
        return "pronoun"
    if head[:1].isupper() and not (begins_sentence and head.lower() in lower):
        return "proper"
    return "nominal"


def head_by_parse(tree: Tree, start: int, end: int) -> int:
    """The first word from start to end whose head in the tree lies outside."""
    inside = range(start, end + 1)
    return next((word for word in inside if tree.heads[word] not in inside), end)


def kind_by_tag(tag: str, word: str) -> Kind:
    """The kind of a mention by the universal tag of its head."""
    if tag == "PRON" or (tag == "DET" and word.lower() in PRONOUNS):
        return "pronoun"
    return "proper" if tag == "PROPN" else "nominal"


ONTONOTES = {"PRP": "PRON", "PRP$": "PRON", "NNP": "PROPN", "NNPS": "PROPN"}
"""Universal tags of OntoNotes' tags that matter here."""
