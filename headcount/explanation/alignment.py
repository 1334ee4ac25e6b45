"""Alignment: the places of a prompt's tokens in its second prompt."""

from dataclasses import replace

from headcount.corpora import LabelledTokens
from headcount.explanation.changes import At
from headcount.explanation.runs import Row

Tokens = tuple[int, ...]


def aligned_places(
    text: LabelledTokens, other: LabelledTokens, ids: Tokens, end: int, other_end: int
) -> Tokens:
    """For each token of a row, its place in the row of the other prompt.

    Texts of one length are aligned place by place. Otherwise they differ in one word, whose tokens
    are aligned from its end.

    Args:
        text: the prompt.
        other: the other prompt.
        ids: tokens of the prompt's row, the target's included.
        end: the place in the prompt where the target's tokens are inserted.
        other_end: the same in the other prompt.
    """
    places = list(range(len(text.ids)))
    if len(text.ids) != len(other.ids):
        places = [
            there[max(n - len(here), -len(there))]
            for here, there in zip(_by_word(text), _by_word(other), strict=True)
            for n in range(len(here))
        ]
    num = len(ids) - len(text.ids)
    shifted = [place + num * (place >= other_end) for place in places]
    return (*shifted[:end], *range(other_end, other_end + num), *shifted[end:])


def at_the_same(row: Row, other: Row) -> Row:
    """A row of the second prompt, whose heads are replaced at the tokens of the first one's."""
    at = other.at
    if at is None:
        return row
    is_text = row.decoder_ids is None or at.sites[0] == "encoder.self"
    there = {place for place, first in enumerate(row.in_other) if first in at.places}
    return replace(row, at=At(at.sites, tuple(sorted(there)) if is_text else at.places))


def _by_word(text: LabelledTokens) -> list[list[int]]:
    """The places of the tokens of each word."""
    found: list[list[int]] = [[] for _ in text.words]
    for place, word in enumerate(text.word_of):
        found[word].append(place)
    return found
