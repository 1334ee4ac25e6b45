"""Paragraphs: lines of running text that were wrapped at some width are read as whole paragraphs.

Books and mails on disk have lines of some 70 characters, which are no texts of their own. A file
looks wrapped if it has groups of lines between blank ones and, among the lines that another line of
their group follows,

- there are `LEAST` or more in the first `LOOKED_AT` lines of the file,
- fewer than 3 in 10 end a sentence,
- 9 in 10 are nearly as long as the longest (at least 0.7 of the 95th percentile of lengths).

Prose and licences on disk pass with 0 to 4 % of ends and nearly all lines long; verse, lists,
source code and files with a sentence a line do not.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice, pairwise

import numpy as np

Line = tuple[int, str]
"""Number of a line in its file, from 1, and its text."""

LOOKED_AT = 1000
"""Number of lines of a file that tell whether it is wrapped."""
LEAST = 20
"""Least number of lines that another one follows for a file to look wrapped."""
MOST_ENDS = 0.3
"""Share of these that end a sentence from which on a file does not look wrapped."""
LEAST_LONG, NEARLY, LONGEST = 0.9, 0.7, 95
"""Least share of these that are long; what is long, as a share of a percentile of lengths."""

_ENDS = tuple(".!?…。！？")
_CLOSING = "\"'”’»)]_*"


def with_paragraphs(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of a file or, if it is wrapped, its paragraphs with the numbers of their first lines.

    >>> poem = ["The rose is red,", "the violet blue.", "", "Sugar is sweet"]
    >>> [text for _, text in with_paragraphs(enumerate(poem, start=1))] == poem
    True
    """
    rest = iter(lines)
    first = [*islice(rest, LOOKED_AT)]
    every = chain(first, rest)
    return _joined(every) if are_wrapped(text for _, text in first) else every


def are_wrapped(lines: Iterable[str]) -> bool:
    """Whether lines look like running text that was wrapped at some width."""
    groups = [[*group] for is_text, group in groupby(map(str.strip, lines), bool) if is_text]
    followed = [line for group in groups for line, _ in pairwise(group)]
    if len(groups) < 2 or len(followed) < LEAST:
        return False
    lengths = np.array([*map(len, followed)])
    is_long = lengths >= NEARLY * np.percentile(lengths, LONGEST)
    ends = sum(line.rstrip(_CLOSING).endswith(_ENDS) for line in followed)
    return bool(ends < MOST_ENDS * len(followed) and is_long.mean() >= LEAST_LONG)


def _joined(lines: Iterable[Line]) -> Iterator[Line]:
    """Each group of lines between blank ones, joined by spaces."""
    for is_text, group in groupby(lines, lambda line: bool(line[1].strip())):
        if is_text:
            numbers, texts = zip(*group, strict=True)
            yield numbers[0], " ".join(map(str.strip, texts))
