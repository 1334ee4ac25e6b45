"""Words of a treebank in the text as it is written, by definition, one character at a time.

Two words are merged if they stand at one place (German "zum" is "zu" and "dem") or if one piece has
a character of each; so are all words that are merged with one of them.
"""

from collections.abc import Sequence

Span = tuple[int, int]


def places_of(text: str, words: Sequence[str]) -> list[Span]:
    """Where each word stands in a text, found from left to right; white space does not count."""
    at, found = 0, []
    for word in words:
        start = None
        for letter in word:
            if letter.isspace():
                continue
            while text[at].isspace():
                at += 1
            assert text[at] == letter
            start = at if start is None else start
            at += 1
        assert start is not None
        found.append((start, at))
    assert not text[at:].strip()
    return found


def words_touched(text: str, words: Sequence[Span], piece: Span) -> set[int]:
    """The words that have a character of a piece.

    White space alone is the next word's, or at the end of the text the last one's.
    """

    def words_at(place: int) -> set[int]:
        if text[place].isspace():
            return set()
        return {word for word, (start, end) in enumerate(words) if start <= place < end}

    touched = set[int]().union(*(words_at(place) for place in range(*piece)))
    for place in range(piece[1], len(text)):
        if not touched and words_at(place):
            return {min(words_at(place))}
    return touched or {len(words) - 1}


def merged(text: str, words: Sequence[Span], pieces: Sequence[Span]) -> list[int]:
    """Number of the merged word that each word is part of."""
    groups = [{word} for word in range(len(words))]
    together = [words_touched(text, words, piece) for piece in pieces]
    together += [{a, b} for a in range(len(words)) for b in range(a) if words[a] == words[b]]
    for its in together:
        joined = set[int]().union(*(group for group in groups if group & its))
        groups = [group for group in groups if not group & its] + [joined]
    groups.sort(key=min)
    return [
        next(number for number, group in enumerate(groups) if word in group)
        for word in range(len(words))
    ]


def word_of(text: str, words: Sequence[Span], pieces: Sequence[Span]) -> list[int]:
    """Number of the merged word of each piece."""
    number = merged(text, words, pieces)
    return [number[min(words_touched(text, words, piece))] for piece in pieces]


def contracted(heads: Sequence[int], number: Sequence[int]) -> tuple[list[int], list[int]]:
    """The tree over merged words: the head of each, -1 for the root, and the word it takes it from.

    It is the head of the word that is nearest to the root.
    """
    found, taken = [], []
    for group in range(max(number) + 1):
        its = [word for word in range(len(heads)) if number[word] == group]
        depth = {}
        for word in its:
            path = [word]
            while heads[path[-1]] >= 0:
                path.append(heads[path[-1]])
            depth[word] = len(path)
        top = next(word for word in its if depth[word] == min(depth.values()))
        found.append(-1 if heads[top] < 0 else number[heads[top]])
        taken.append(top)
    return found, taken
