"""Weight from words and from pictures to each, by definition, from a stock model's own weights.

Reference: Kang et al. 2025, section 3, https://arxiv.org/abs/2503.06287
"""

from collections.abc import Iterator, Sequence

import numpy as np

from headcount.corpora import Link

KINDS = ("text", "picture")


def over_texts(texts: Sequence[tuple[np.ndarray, Sequence[str]]]) -> dict[str, list[float]]:
    """The numbers of every head of a layer, by column.

    Args:
        texts: for each, the weights [head, query, key], and what each token is: `text`, `picture`,
            or something else.
    """
    heads = len(texts[0][0])
    found: dict[str, list[float]] = {}
    for start in KINDS:
        for end in KINDS:
            found[f"{start}_to_{end}"] = [_mean(texts, head, start, end) for head in range(heads)]
    found["picture_sink"] = [_sink(texts, head) for head in range(heads)]
    return found


def _mean(
    texts: Sequence[tuple[np.ndarray, Sequence[str]]], head: int, start: str, end: str
) -> float:
    """How much of a token's attention goes to tokens of a kind, on average over tokens."""
    shares = []
    for A, kinds in texts:
        for query, kind in enumerate(kinds):
            if kind == start:
                share = 0.0
                for key, other in enumerate(kinds):
                    if other == end:
                        share += float(A[head, query, key])
                shares.append(share)
    return sum(shares) / len(shares)


def _sink(texts: Sequence[tuple[np.ndarray, Sequence[str]]], head: int) -> float:
    """How much of the attention on pictures goes to the token that gets most in each text."""
    most = total = 0.0
    for A, kinds in texts:
        columns = []
        for key, kind in enumerate(kinds):
            if kind == "picture":
                columns.append(sum(float(A[head, query, key]) for query in range(len(kinds))))
        most, total = most + max(columns, default=0.0), total + sum(columns)
    return most / total


class Seen:
    """Cases of looks at each offset and the chance of a hit, from which keys each query sees.

    Args:
        reach: the largest offset that is counted on its own.
    """

    def __init__(self, reach: int) -> None:
        self.reach, width = reach, 2 * reach + 1
        self.cases = np.zeros((2, width))
        self.chance = np.zeros((2, width))
        self.far_pairs = np.zeros((2, 2))
        self.queries = [0, 0]
        self.at_offset = [0] * 5
        """Number of queries that see a token at -2, -1, 0, 1 and 2."""
        self.pairs_beyond_2 = 0

    def add(self, sees: Sequence[Sequence[bool]], special: Sequence[bool], half: int) -> None:
        """Add a prompt, by what each query sees, and which tokens are the template's."""
        content = [key for key in range(len(special)) if not special[key]]
        for query in range(len(special)):
            for key in range(len(special)):
                if sees[query][key] and abs(key - query) <= 2:
                    self.at_offset[key - query + 2] += 1
                elif sees[query][key]:
                    self.pairs_beyond_2 += 1
            can_look_at = [key for key in content if key > 0 and sees[query][key]]
            if special[query] or not can_look_at:
                continue
            self.queries[half] += 1
            for key in content[1:]:
                offset = key - query
                if not sees[query][key]:
                    continue
                if abs(offset) <= self.reach:
                    self.cases[half, offset + self.reach] += 1
                    self.chance[half, offset + self.reach] += 1 / len(can_look_at)
                else:
                    self.far_pairs[half, int(offset > 0)] += 1


def words_that_see(sees: Sequence[Sequence[bool]], word_of: Sequence[int]) -> set[tuple[int, int]]:
    """The pairs of words of which a token of the one sees the first token of the other."""
    found = set[tuple[int, int]]()
    for query, word in enumerate(word_of):
        for other in set(word_of):
            if word >= 0 and other >= 0 and sees[query][word_of.index(other)]:
                found.add((word, other))
    return found


def pairs_in_field(
    link: Link, field: Sequence[int], sees: set[tuple[int, int]]
) -> Iterator[tuple[str, int]]:
    """The pairs that can look at each other, by direction, and their offsets in a link's field."""
    for direction, owns in (
        ("dependent->head", [link.query]),
        ("head->dependent", link.keys),
        ("head<-dependent", [link.query]),
    ):
        for own in owns:
            for other in field:
                pair = (other, own) if "<-" in direction else (own, other)
                if own != other and pair in sees:
                    yield direction, field.index(other) - field.index(own)
