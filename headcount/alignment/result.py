"""A word alignment: how well every head links the words of translations; and its options."""

import math
import re
from dataclasses import dataclass
from typing import final

from headcount.core import MAX_TOKENS, Count, InputError, Seed, check_options
from headcount.results import CorpusRecord, Result, table


@final
@dataclass(frozen=True, kw_only=True)
class AlignmentRow:
    """How well the links of one head, of one layer or of another aligner agree with gold links."""

    head: str
    """Name of the head, e.g. `cross.5.0`; of the layer, e.g. `cross.5`; or of the aligner."""
    level: str
    """`head`, `layer`, `mean of heads` (of a layer's numbers), or `aligner`."""
    quantity: str
    """What links are read from: `weights`, `norms` of the weighted vectors, or a `file`."""
    direction: str
    """The row of a target word: `output`, `input`, `target->source`, `target<-source` or both,
    `target<->source`; `file` for another aligner."""
    aer: float
    """Alignment error rate, from 0 to 1; lower is better."""
    aer_low: float = math.nan
    """Lower end of the 95 % interval of the error rate, over pairs."""
    aer_high: float = math.nan
    """Upper end of the 95 % interval of the error rate, over pairs."""
    precision: float
    """Share of the links that are sure or possible."""
    recall: float
    """Share of the sure links that are found."""
    accuracy: float = math.nan
    """Share of the target words with gold links that are linked to one of theirs."""


@final
@dataclass(frozen=True, kw_only=True)
class AlignmentRecord(CorpusRecord):
    """Facts about an alignment that its rows do not hold."""

    FILE = "alignment.json"
    COMMAND = "headcount align"

    gold: str
    """Name of the file with gold links."""
    pairs: int
    """Number of pairs that were aligned."""
    too_long: int = 0
    """Number of pairs that are too long for the model and were left out."""
    sure: int
    """Number of sure links."""
    possible: int
    """Number of possible links, the sure ones included."""
    cases: int
    """Number of target words with gold links."""
    sentences: tuple[str, ...] = ()
    """Sentences on the best head and its margin."""


@final
@dataclass(frozen=True)
class Alignment(Result[AlignmentRecord]):
    """The result of an alignment."""

    DOCUMENTS = ("alignment.md", "alignment.html")

    record: AlignmentRecord
    rows: tuple[AlignmentRow, ...] = table("alignment.parquet", "the rows of an alignment")

    def ranked(self, level: str = "head", quantity: str = "weights") -> list[AlignmentRow]:
        """The rows of one level and quantity, each head in its best direction, the best first."""
        best: dict[str, AlignmentRow] = {}
        for row in self.rows:
            if row.level == level and row.quantity in (quantity, "file"):
                other = best.get(row.head)
                if other is None or row.aer < other.aer:
                    best[row.head] = row
        return sorted(best.values(), key=lambda row: row.aer)


@final
@dataclass(frozen=True)
class AlignmentOptions:
    """Settings of `align`, in Python and as options of the command."""

    join: str | None = None
    r"""Text between source and target for models that read both in one sequence (\n for a new
    line); by default the tokenizer's own template for pairs."""
    split_punctuation: bool = False
    """Make punctuation marks words of their own; by default only spaces separate words."""
    elements: str | None = None
    """Regular expression that a word must begin with to take part, such as [A-Za-z[] for atoms; by
    default all words do."""
    end_of_source: bool = False
    """Let the end of the source be a candidate of every target word, and drop links to it, as the
    code of Kobayashi et al. (2020) does; for models with cross-attention."""
    compare: tuple[str, ...] = ()
    """Files with links of the same pairs by other aligners, as GIZA++ or eflomal write them
    (0-0 1-2), to score beside the heads."""
    max_tokens: Count = MAX_TOKENS
    """Number of padded tokens in a batch; lower it if memory runs out."""
    samples: Count = 1000
    """Number of bootstrap samples of pairs for the intervals."""
    seed: Seed = 0
    """Seed of the bootstrap samples."""

    def __post_init__(self) -> None:
        check_options(self)
        try:
            re.compile(self.elements or "")
        except re.error as error:
            raise InputError(
                f"Expected a regular expression for elements, got {self.elements!r} ({error}). "
                "Escape characters that have a meaning with a backslash."
            ) from error
