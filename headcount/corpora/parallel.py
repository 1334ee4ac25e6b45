"""Parallel text: `.tsv` with source<TAB>target, or two files with one example per line each."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from headcount.core import CorpusError, amount
from headcount.corpora.conllu import is_treebank, read_conllu
from headcount.corpora.sentence import Sentence
from headcount.corpora.text import numbered_lines


def read_tsv(path: Path) -> Iterator[Sentence]:
    """Yield the pairs of a file with source<TAB>target; blank lines are skipped."""
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            advice = "sources alone belong in a .txt file"
            if len(columns) > 2:
                advice = "further references, as target2, are read by --task translation only"
            raise CorpusError(
                f"{path}:{number}: expected source<TAB>target, got "
                f"{amount(len(columns), 'column')}. Keep two columns ({advice})."
            )
        source, target = columns[0].strip(), columns[1].strip()
        if not source or not target:
            raise CorpusError(
                f"{path}:{number}: expected text on both sides of the tab, got an empty "
                f"{'target' if source else 'source'}. Complete or remove the line."
            )
        yield Sentence(source, target=target, origin=f"{path}:{number}")


def read_pair(source: Path, target: Path) -> Iterator[Sentence]:
    """Yield source sentences, with line i of `target` as the other side of source example i.

    An example is a sentence of a `.conllu` source, or a line of any other. A line that is blank on
    both sides is skipped.
    """
    examples = read_conllu if is_treebank(source) else _line_examples
    num_sources = num_targets = 0
    for left, right in zip_longest(examples(source), numbered_lines(target)):
        num_sources += left is not None
        num_targets += right is not None
        if left is not None and right is not None:
            pair = _pair(left, right[1].strip(), f"{target}:{right[0]}")
            if pair is not None:
                yield pair
    if num_sources != num_targets:
        kind = "sentences" if is_treebank(source) else "lines"
        raise CorpusError(
            f"Expected as many lines in {target} as {kind} in {source}, got {num_targets} and "
            f"{num_sources}. Line i of one file must translate example i of the other."
        )


def _line_examples(path: Path) -> Iterator[Sentence]:
    for number, line in numbered_lines(path):
        yield Sentence(line.strip(), origin=f"{path}:{number}")


def _pair(sentence: Sentence, target: str, target_origin: str) -> Sentence | None:
    if not sentence.text and not target:
        return None
    if not sentence.text or not target:
        blank, full = sentence.origin, target_origin
        if sentence.text:
            blank, full = full, blank
        raise CorpusError(
            f"{blank}: the line is blank but its other side, {full}, is not. "
            "Complete the pair or remove it from both files."
        )
    return replace(sentence, target=target)
