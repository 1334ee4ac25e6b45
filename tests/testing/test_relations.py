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


@pytest.mark.once("words")
@parametrize(Determined)
def test_a_relation(check: Callable[[], Outcome]) -> None:
    check()
