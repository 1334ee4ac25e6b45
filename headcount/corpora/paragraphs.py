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
from contextlib import suppress
from itertools import groupby, islice, pairwise
from pathlib import Path

import numpy as np

from headcount.core import CorpusError
from headcount.corpora.lines import HowRead, note, numbered_lines

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


def texts_of(path: Path, how: HowRead) -> Iterator[Line]:
    """The texts of a file that are not blank: its lines or, if they were wrapped, its paragraphs.

    Each has the number of its first line.
    """
    joins = is_joined(path, how)
    if joins:
        note(f"{path}: its lines were wrapped, and are joined to paragraphs; --lines keeps them")
    groups = groupby(numbered_lines(path), lambda line: bool(line[1].strip()))
    for lines in (lines for is_text, lines in groups if is_text):
        if joins:
            numbers, texts = zip(*lines, strict=True)
            yield numbers[0], " ".join(map(str.strip, texts))
        else:
            yield from ((number, line.strip()) for number, line in lines)


def is_joined(path: Path, how: HowRead) -> bool:
    """Whether a file's lines are joined: they look wrapped, and the user does not keep them."""
    if how.lines:
        return False
    first = list[str]()
    with suppress(CorpusError):  # a line that can't be read is an error when its turn comes
        first.extend(line for _, line in islice(numbered_lines(path), LOOKED_AT))
    return are_wrapped(first)


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
