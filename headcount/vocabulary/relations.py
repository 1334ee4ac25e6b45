"""Relations in plain words: the two words of each, and the directions between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from headcount.core import omitted, with_article

ALL = "all"
"""Name of all relations together, with roots."""

NOT_SYNTAX = frozenset({"punct", ALL})
"""Relations that do not make a head syntactic: UD attaches punctuation by convention, and all
relations together are not one relation."""

DIRECTIONS: dict[str, tuple[str, str]] = {
    "dependent->head": ("dependent → head", "the dependent looks most at its head"),
    "head->dependent": ("head → dependent", "the head looks most at this dependent"),
    "head<-dependent": ("head ← dependent", "of all words, the head looks most at this dependent"),
}
"""Prediction directions between the two words of an arc, with short form and meaning; the third
reads the dependent's column (Clark 2019)."""

LINK_DIRECTIONS: dict[str, tuple[str, str]] = {
    "query->key": ("query → key", "the query looks most at one of its keys"),
    "key->query": ("key → query", "one of its keys looks most at the query"),
    "key<-query": ("key ← query", "of all words, one of its keys looks most at the query"),
}
"""The same of links, whose query and keys are as a dependent and its head are."""


@final
@dataclass(frozen=True)
class LinkWords:
    """What a kind of link is called; records keep it, so that they are read without its code."""

    query: str
    """Noun of the word that looks, e.g. "verb"."""
    key: str
    """Noun of the words that are right, e.g. "negation"."""
    about: str = ""
    """What the links are, in a sentence."""
    source: str = ""
    """Paper that describes them."""
    origin: str = ""
    """Where they are from: a plug-in with its version, or a file's column."""
    candidate: str = omitted("")
    """Noun of the words among which a key is chosen; empty if these are all words."""


def words_of_link(name: str) -> LinkWords:
    """The words of links of which only the name is known.

    >>> words_of_link("same_noun").key
    'same noun'
    """
    return LinkWords("word", name.replace("_", " "))


RELATIONS: Mapping[str, tuple[str, str]] = {
    "nsubj": ("subject", "verb"),
    "nsubj:pass": ("passive subject", "verb"),
    "obj": ("direct object", "verb"),
    "iobj": ("indirect object", "verb"),
    "csubj": ("clausal subject", "verb"),
    "ccomp": ("clausal complement", "verb"),
    "xcomp": ("open complement", "verb"),
    "obl": ("oblique nominal", "verb"),
    "obl:npmod": ("adverbial noun", "verb"),
    "obl:tmod": ("time expression", "verb"),
    "obl:agent": ("agent", "passive verb"),
    "vocative": ("addressee", "verb"),
    "expl": ("expletive", "verb"),
    "dislocated": ("dislocated element", "verb"),
    "advcl": ("adverbial clause", "verb"),
    "advmod": ("adverb", "modified word"),
    "discourse": ("discourse word", "verb"),
    "aux": ("auxiliary", "verb"),
    "aux:pass": ("passive auxiliary", "verb"),
    "cop": ("copula", "predicate"),
    "mark": ("clause marker", "verb"),
    "nmod": ("nominal modifier", "noun"),
    "nmod:poss": ("possessor", "noun"),
    "appos": ("apposition", "noun"),
    "nummod": ("number", "noun"),
    "acl": ("modifying clause", "noun"),
    "acl:relcl": ("relative clause", "noun"),
    "amod": ("adjective", "noun"),
    "det": ("determiner", "noun"),
    "case": ("preposition", "noun"),
    "conj": ("later conjunct", "first conjunct"),
    "cc": ("conjunction", "conjunct"),
    "cc:preconj": ("first half of a conjunction", "conjunct"),
    "fixed": ("later word of a fixed expression", "first word"),
    "flat": ("later part of a name", "first part"),
    "compound": ("compound modifier", "noun"),
    "compound:prt": ("verb particle", "verb"),
    "list": ("later list item", "first item"),
    "parataxis": ("side-by-side clause", "main verb"),
    "orphan": ("orphan of an ellipsis", "promoted word"),
    "goeswith": ("later part of a split word", "first part"),
    "reparandum": ("repaired word", "repair"),
    "punct": ("punctuation mark", "word it belongs to"),
    "dep": ("unspecified dependent", "head word"),
    "all": ("dependent", "head word"),
}
"""English names of the dependent and of the head of each Universal Dependencies relation."""


def _pair(relation: str) -> tuple[str, str] | None:
    """The two words of a relation; an unknown subtype falls back to its main type."""
    return RELATIONS.get(relation, RELATIONS.get(relation.partition(":")[0]))


def relation_words(relation: str, words: LinkWords | None = None) -> str:
    """The relation in plain words; empty if it is unknown.

    >>> relation_words("nsubj"), relation_words("obl:unknown")
    ('subject of a verb', 'oblique nominal of a verb')
    """
    if words is not None:
        return f"{words.key} of {with_article(words.query)}"
    pair = _pair(relation)
    return f"{pair[0]} of {with_article(pair[1])}" if pair else ""


def relation_target(relation: str, direction: str, words: LinkWords | None = None) -> str:
    """The word that is found, as the object of "finds".

    Args:
        relation: name of the relation.
        direction: one of `DIRECTIONS`, or of `LINK_DIRECTIONS`.
        words: what links are called; None for a dependency relation.

    >>> relation_target("nsubj", "head->dependent")
    'the subject of a verb'
    >>> relation_target("obj", "dependent->head")
    'the verb of a direct object'
    >>> relation_target("det", "head<-dependent")
    'the noun of a determiner, as the word that looks at it most'
    >>> relation_target("negation", "query->key", LinkWords("verb", "negation"))
    'the negation of a verb'
    """
    dependent, head = _pair(relation) or ("dependent", "head word")
    if words is not None:
        dependent, head = words.query, words.key
    match direction:
        case "head->dependent" | "key->query":
            return f"the {dependent} of {with_article(head)}"
        case "dependent->head" | "query->key":
            return f"the {head} of {with_article(dependent)}"
        case "head<-dependent" | "key<-query":
            return f"the {head} of {with_article(dependent)}, as the word that looks at it most"
        case _:
            raise AssertionError(f"no head is asked for the direction {direction!r}")


def relation_label(relation: str, direction: str, words: LinkWords | None = None) -> str:
    """A relation with its direction, as an arrow.

    >>> relation_label("nsubj", "dependent->head")
    'nsubj, dependent → head'
    >>> relation_label("negation", "key<-query", LinkWords("verb", "negation"))
    'negation, negation ← verb'
    """
    if words is None:
        return f"{relation}, {DIRECTIONS.get(direction, (direction, ''))[0]}"
    short = LINK_DIRECTIONS.get(direction, (direction, ""))[0]
    nouns = {"query": words.query, "key": words.key}
    return f"{relation}, {' '.join(nouns.get(each, each) for each in short.split())}"
