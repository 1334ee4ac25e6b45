"""Windows: a text that is longer than the model takes, as stretches that overlap by half.

A text is a row of units that no window divides: sentences, words or tokens. A window holds as many
units as fit. It begins with those before it, up to half of its size, which are context. All others
are *measured* in it: every unit once, in the window with the most text before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby

from headcount.corpora.sentence import NO_WORD, Encoded

SMALLEST = 2
"""Smallest room of a window for tokens that are not special."""


def stretches(sizes: Sequence[int], limit: int) -> Iterator[tuple[int, int, int]]:
    """First unit, first unit that is measured, and end of each window.

    Args:
        sizes: the size of each unit; one that is larger than the limit is in no window.
        limit: the largest size of a window.

    >>> [*stretches([1, 1, 1, 1, 1, 1, 1], limit=4)]
    [(0, 0, 4), (2, 4, 6), (4, 6, 7)]
    """
    measured = 0
    while measured < len(sizes):
        if sizes[measured] > limit:  # it fits no window
            measured += 1
            continue
        begin, size = measured, sizes[measured]
        while begin > 0 and size - sizes[measured] + sizes[begin - 1] <= limit // 2:
            if size + sizes[begin - 1] > limit:
                break
            begin -= 1
            size += sizes[begin]
        end = measured + 1
        while end < len(sizes) and size + sizes[end] <= limit:
            size += sizes[end]
            end += 1
        yield begin, measured, end
        measured = end


def in_windows(text: Encoded, max_length: int) -> list[Encoded]:
    """The windows of a text, each with the text's special tokens; the text itself if it fits.

    Words stay in one piece. One that is longer than a window is read as tokens without a word and
    counted as cut.

    Args:
        text: the complete text, with special tokens at its ends.
        max_length: the largest number of tokens, special ones included; it leaves room for some.
    """
    if len(text.ids) <= max_length:
        return [text]
    before, after = _num_special(text.is_special), _num_special(text.is_special[::-1])
    limit, stop = max_length - before - after, len(text.ids) - after
    sizes, is_long = _units(text.word_of[before:stop], limit)
    word_of = list(text.word_of)
    for place, long in enumerate(is_long, start=before):
        word_of[place] = NO_WORD if long else word_of[place]
    cut = {word for word, long in zip(text.word_of[before:stop], is_long, strict=True) if long}
    starts = list(accumulate(sizes, initial=before))
    found = list[Encoded]()
    first = 0
    for begin, measured, end in stretches(sizes, limit):
        inside = range(starts[begin], starts[end])
        places = [*range(before), *inside, *range(stop, len(text.ids))]
        window = Encoded(
            ids=[text.ids[place] for place in places],
            word_of=[word_of[place] for place in places],
            is_special=[text.is_special[place] for place in places],
            full_length=len(places),
            num_words_cut=0 if found else len(cut),
            num_words_lost=0 if found else text.num_words_lost,
            is_measured=[place not in inside or place >= starts[measured] for place in places],
            first_token=first,
            merged=text.merged,
            is_mapped=text.is_mapped,
        )
        found.append(window)
        first += len(window.measured(places))
    return [replace(window, num_windows=len(found)) for window in found]


def _num_special(is_special: Sequence[bool]) -> int:
    """Number of special tokens before the first content token."""
    return is_special.index(False) if False in is_special else len(is_special)


def _units(word_of: Sequence[int], limit: int) -> tuple[list[int], list[bool]]:
    """Sizes of the words and of the tokens without one; whether each token's word is too long."""
    sizes, is_long = list[int](), list[bool]()
    for word, pieces in groupby(word_of):
        size = len([*pieces])
        is_too_long = word != NO_WORD and size > limit
        is_single = word == NO_WORD or is_too_long
        sizes += [1] * size if is_single else [size]
        is_long += [is_too_long] * size
    return sizes, is_long
