"""Links of other aligners, such as statistical ones, scored beside those of the heads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from headcount.core import InputError
from headcount.corpora import Links, WordPair, read_links
from headcount.probes.link_scores import Found, Place


def check_names(files: Sequence[str]) -> None:
    """Check that the files of other aligners have names of their own, which their rows take.

    Raises:
        InputError: if two files have one name.
    """
    names = [Path(file).stem for file in files]
    if twice := sorted(name for name in set(names) if names.count(name) > 1):
        raise InputError(
            f"Expected files of links with different names, got {twice[0]} twice. Rename one."
        )


def other_links(
    files: Sequence[str],
    pairs: Sequence[WordPair],
    kept: Sequence[int],
    gold: Sequence[Links],
    takes_part: tuple[Sequence[Sequence[bool]], Sequence[Sequence[bool]]],
) -> Iterator[tuple[Place, Found]]:
    """The links of every other aligner, in the pairs that are scored.

    Args:
        files: files with links of all pairs.
        pairs: all pairs.
        kept: numbers of the pairs that are scored.
        gold: gold links of these.
        takes_part: for every source word of these and every target word, whether it takes part.

    Raises:
        CorpusError: if links can't be read, or one is out of range.
    """
    for file in files:
        links = read_links(file, len(pairs))
        for pair, its in zip(pairs, links, strict=True):
            its.check(len(pair.source_spans), len(pair.target_spans))
        counts = [
            _counts(links[number], right, is_source, is_target)
            for number, right, is_source, is_target in zip(kept, gold, *takes_part, strict=True)
        ]
        yield Place(Path(file).stem, "aligner", "file", "file"), Found(*np.array(counts).T)


def _counts(
    links: Links, gold: Links, is_source: Sequence[bool], is_target: Sequence[bool]
) -> tuple[int, int, int]:
    """Numbers of links, of sure ones and of possible ones, between words that take part."""
    drawn = {
        (source, target)
        for source, target in links.possible
        if is_source[source] and is_target[target]
    }
    return len(drawn), len(drawn & gold.sure), len(drawn & gold.possible)
