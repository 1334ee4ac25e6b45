"""Gold links between the words of translations, in Pharaoh's format and in NAACL's.

- Pharaoh: line i holds the links of pair i, each `SOURCE-TARGET`, counted from 0. `3-4` is sure;
  `3p4` and `3?4` are possible.
- NAACL: a line per link, `PAIR SOURCE TARGET [S|P] [CONFIDENCE]`, counted from 1. Links are sure
  unless marked P. Position 0 is the empty word: such a link is counted and left out.

Reference: An Evaluation Exercise for Word Alignment (Mihalcea & Pedersen, 2003), section 2,
https://aclanthology.org/W03-0301
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from headcount.core import CorpusError, amount
from headcount.corpora.lines import numbered_lines

Pair = tuple[int, int]
"""0-based positions of a source word and a target word."""

_PHARAOH = re.compile(r"(\d+)([-p?])(\d+)", re.ASCII)
_NAACL = re.compile(r"(\d+)\s+(\d+)\s+(\d+)(?:\s+([SP]))?(?:\s+[\d.eE+-]+)?", re.ASCII)


@final
@dataclass(frozen=True)
class Links:
    """The gold links of one pair of sentences."""

    sure: frozenset[Pair]
    """Links that an alignment must have."""
    possible: frozenset[Pair]
    """Links that an alignment may have, the sure ones among them."""
    origin: str = "<python>"
    """File and line, for errors."""

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            extra = sorted(self.sure - self.possible)[0]
            raise CorpusError(
                f"{self.origin}: expected every sure link to be possible, too, got {extra}. "
                "Add it to the possible ones."
            )

    def check(self, num_source: int, num_target: int) -> None:
        """Check that every link joins two words of a pair.

        Raises:
            CorpusError: if a link is out of range.
        """
        for source, target in sorted(self.possible):
            for word, count, side in (
                (source, num_source, "source"),
                (target, num_target, "target"),
            ):
                if word >= count:
                    raise CorpusError(
                        f"{self.origin}: the link {source}-{target} (counted from 0) is out of "
                        f"range, since the {side} has {amount(count, 'word')}. Give the gold links "
                        "of these pairs, source first, for the same words: with "
                        "--split-punctuation, punctuation marks are words, too."
                    )


def read_links(path: str | Path, num_pairs: int) -> list[Links]:
    """The gold links of every pair, from a file in either format.

    Args:
        path: the file; its first line with text says which format it has.
        num_pairs: number of pairs of sentences.

    Raises:
        CorpusError: for a file that is missing, a line of neither format, or another number of
            pairs.
    """
    path = Path(path)
    lines = list(numbered_lines(path))
    first = next((line for _, line in lines if line.strip()), None)
    if first is None:
        raise CorpusError(f"Expected gold links in {path}, got none. Give a file with links.")
    read = _read_naacl if first.split()[0].isdecimal() else _read_pharaoh
    return read(path, lines, num_pairs)


def _read_pharaoh(path: Path, lines: Sequence[tuple[int, str]], num_pairs: int) -> list[Links]:
    if len(lines) != num_pairs:
        raise CorpusError(
            f"Expected one line of links in {path} for each of {amount(num_pairs, 'pair')}, got "
            f"{len(lines)}. Line i holds the links of pair i, and is empty if it has none."
        )
    found = []
    for number, line in lines:
        sure, possible = set[Pair](), set[Pair]()
        for item in line.split():
            match = _PHARAOH.fullmatch(item)
            if match is None:
                raise CorpusError(
                    f"{path}:{number}: expected links such as 3-4 (sure) or 3p4 (possible), got "
                    f"{item!r}. Fix the line."
                )
            link = int(match[1]), int(match[3])
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        found.append(Links(frozenset(sure), frozenset(possible), f"{path}:{number}"))
    return found


def _read_naacl(path: Path, lines: Sequence[tuple[int, str]], num_pairs: int) -> list[Links]:
    sure: list[set[Pair]] = [set() for _ in range(num_pairs)]
    possible: list[set[Pair]] = [set() for _ in range(num_pairs)]
    origins = [str(path)] * num_pairs
    for number, line in lines:
        if not line.strip():
            continue
        match = _NAACL.fullmatch(line.strip())
        if match is None:
            raise CorpusError(
                f"{path}:{number}: expected PAIR SOURCE TARGET, then S or P, as in 1 2 3 S, got "
                f"{line.strip()!r}. Fix the line."
            )
        pair, source, target = (int(match[index]) for index in (1, 2, 3))
        if not 1 <= pair <= num_pairs:
            raise CorpusError(
                f"{path}:{number}: expected a pair from 1 to {num_pairs}, got {pair}. Give the "
                "gold links of these pairs."
            )
        if source == 0 or target == 0:  # the empty word
            continue
        link = source - 1, target - 1
        possible[pair - 1].add(link)
        if match[4] != "P":
            sure[pair - 1].add(link)
        if origins[pair - 1] == str(path):
            origins[pair - 1] = f"{path}:{number}"
    rows = zip(sure, possible, origins, strict=True)
    return [Links(frozenset(each), frozenset(more), origin) for each, more, origin in rows]
