"""What must hold for every relation: its links, and a planted head that follows them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import cleandoc
from itertools import chain, cycle, islice
from typing import Literal

import numpy as np

from headcount.analysis import analyze
from headcount.core import Head, amount
from headcount.corpora import Corpus, Data, Link, Relation, Sentence
from headcount.numbers import percent
from headcount.results import Analysis
from headcount.testing.checks import LeftOut, check, expect, expect_words, shown
from headcount.testing.examples import at_random, read
from headcount.testing.planted import planted_model
from headcount.testing.programs import Planted, Program
from headcount.testing.tokens import PUNCTUATION, drawn, word
from headcount.vocabulary import Thresholds

CASES = 400
"""Number of links that heads are asked about: half of them test, and a role needs 100."""
PROGRAM = Program(
    (Planted(Head("encoder.self", 1, 2), "punctuation", "needed", 1, 1, 3.0),),
    layers=2,
    site="encoder.self",
)
"""A head that looks at the only punctuation mark, which is put where a link ends."""
ROLE = "linking"


@dataclass(frozen=True)
class RelationSubject:
    """A relation to check, and the sentences that have its links."""

    relation: Relation
    sentences: tuple[Sentence, ...]

    def linked(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Sentences with their words and links, as a corpus has them."""
        return [*Corpus(list(sentences), links=self.relation)]


def _linked(given: RelationSubject) -> list[tuple[Sentence, Link]]:
    """Every link with its sentence."""
    return [
        (each, link)
        for each in given.linked(given.sentences)
        for link in each.links
        if link.keys != (link.query,)
    ]


@check("laws")
def links(given: RelationSubject) -> str:
    """It links words of the sentences, always under its own name."""
    found = _linked(given)
    number = amount(len(given.sentences), "sentence")
    expect(found, f"none of {number} has a link: name texts that have some (--data FILE, or data=)")
    other = {link.name for _, link in found} - {given.relation.name}
    expect(not other, f"links are called {', '.join(sorted(other))}, not {given.relation.name}")
    return f"{amount(len(found), 'link')} in {number}"


@check("laws")
def order(given: RelationSubject) -> str:
    """A sentence has the same links whichever sentences came before it."""
    forwards = [each.links for each in given.linked(given.sentences)]
    backwards = [each.links for each in given.linked(given.sentences[::-1])]
    pairs = zip(forwards, backwards[::-1], strict=True)
    differ = [number for number, (one, other) in enumerate(pairs) if one != other]
    for number in differ[:1]:
        expect(False, f"sentence {number} has {forwards[number]}, or {backwards[number]}")
    return f"{amount(len(forwards), 'sentence')} have the same links in both orders"


def _replaced(sentence: Sentence, link: Link, rng: np.random.Generator) -> Sentence:
    """Random words of the planted models in place of the sentence's, with one mark: at the key."""
    assert sentence.words is not None
    bits_TK = drawn(rng, (len(sentence.words),))
    bits_TK[:, PUNCTUATION] = -1
    bits_TK[link.keys[0], PUNCTUATION] = 1
    words = tuple(map(word, bits_TK))
    return Sentence(" ".join(words), words=words, links=(link,))


@lru_cache(maxsize=4)
def _analysed(given: RelationSubject, which: Literal["planted", "random"]) -> Analysis:
    """The heads of a model on the links of the sentences, each with random words."""
    if not (found := _linked(given)):
        raise LeftOut("there is no link")
    rng = np.random.default_rng(5)
    texts = [_replaced(*each, rng) for each in islice(cycle(found), CASES)]
    is_planted = which == "planted"
    model = planted_model(PROGRAM, "encoder") if is_planted else at_random("encoder").model
    return analyze(model, Corpus.from_sentences(texts))


def _linking(given: RelationSubject, analysis: Analysis) -> list[str]:
    """The heads with the role of the relation."""
    return [
        head for head, roles in analysis.roles.items() if any(each.role == ROLE for each in roles)
    ]


@check("truth")
def found(given: RelationSubject) -> str:
    """In a model where one head looks at the ends of links, that head has the role, no other."""
    true = str(PROGRAM.planted[0].head)
    heads = _linking(given, _analysed(given, "planted"))
    offset, share = _fixed(given)
    text = f"the role is of {', '.join(heads) or 'no head'}, not of {true} alone"
    fixed = f"the word at {offset:+} alone is right in {percent(share)} of the links"
    gain = 100 * Thresholds().linking_gain
    expect(heads == [true], f"{text} ({fixed}, and the role needs {gain:g} points more)")
    return f"{true} has the role, and no other head"


def _fixed(given: RelationSubject) -> tuple[int, float]:
    """The most frequent offset of a key from its query, and the share of links that have it."""
    found = [{*map(link.offset, link.keys)} for _, link in _linked(given)]
    ((offset, number),) = Counter(chain.from_iterable(found)).most_common(1)
    return offset, number / len(found)


@check("nulls")
def chance(given: RelationSubject) -> str:
    """With random weights, no head has the role."""
    heads = _linking(given, _analysed(given, "random"))
    expect(not heads, f"the role is of {', '.join(heads)}")
    return "no head has the role"


@check("words")
def words(given: RelationSubject) -> str:
    """It has a name, nouns for its ends, a meaning, and reads well where no or one head has it."""
    its = given.relation
    expect_words("the name", its.name)
    expect_words("the noun of the query", its.query)
    if its.key:
        expect_words("the noun of the key", its.key)
    about = cleandoc(type(its).__doc__ or "").partition("\n")[0]
    expect_words("the first line of the docstring", about, is_sentence=True)
    for which in ("random", "planted") if _linked(given) else ():
        shown("analyze", _analysed(given, which), section="links")
    return about


RELATION_CHECKS = (links, order, found, chance, words)
"""What is asked of every relation."""


def relation_subject(
    given: type[Relation] | Relation, data: Data | Corpus | None = None
) -> RelationSubject:
    """A relation as given to `check_relation`, and sentences that have its links."""
    relation = given() if isinstance(given, type) else given
    return RelationSubject(relation, tuple(read(data)))
