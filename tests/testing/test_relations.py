"""A relation as an outsider writes it passes the checks."""

from collections.abc import Callable, Iterator

import pytest

from headcount import Relation, Sentence
from headcount.testing import Outcome, parametrize


class Determined(Relation):
    """Links from a determiner to the noun that it determines."""

    name, query, key = "determined", "determiner", "noun"

    def links(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        assert sentence.tree is not None
        pairs = zip(sentence.tree.heads, sentence.tree.relations, strict=True)
        for word, (head, name) in enumerate(pairs):
            if name == "det":
                yield word, head


class Owner(Relation):
    """What is owned looks at its owner."""

    name, query, key = "owner", "thing", "owner"

    def links(self, sentence: Sentence) -> Iterator[tuple[int, int]]:
        assert sentence.words is not None
        for place, word in enumerate(sentence.words):
            if word == "'s" and place + 2 < len(sentence.words):
                yield place + 1 + (place % 2), place - 1


@pytest.mark.slow
@parametrize(Owner, data=["The dog's old bone is Mary's.", "Saw the king's new hat fall."])
def test_plain_texts_of_ones_own_are_split_into_words(check: Callable[[], Outcome]) -> None:
    check()


@pytest.mark.once("words")
@parametrize(Determined)
def test_a_relation(check: Callable[[], Outcome]) -> None:
    check()
