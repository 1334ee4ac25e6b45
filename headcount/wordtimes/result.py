"""Word times: which cross-attention heads follow sound, what they are worth, and the times."""

import math
from dataclasses import dataclass
from typing import Annotated, final

from headcount.core import Count, Seed, at_least, check_options
from headcount.results import CorpusRecord, Result, table


@final
@dataclass(frozen=True, kw_only=True)
class HeadTimesRow:
    """How well one cross-attention head follows sound, word by word."""

    head: str
    """Name of the head, e.g. `cross.3.2`."""
    rank: int
    """Its rank, from 1, by agreement, without word times."""
    is_chosen: bool
    """Whether it is in the list that was found without word times."""
    is_own: bool
    """Whether it is in the model's own `alignment_heads`."""
    disagreement_ms: float
    """Mean difference between its path and the median path of the heads that agree best."""
    gain: float
    """Mean of its standardised map along its path."""
    monotone: float
    """Share of successive tokens whose largest weight moves on."""
    coverage: float
    """Share of the sound between the largest weights of its first and last token."""
    norm: float
    """Mean over recordings of the norms of its map's rows and columns."""
    start_ms: float = math.nan
    """Mean absolute error of the starts of words, if word times are given."""
    start_low: float = math.nan
    """Lower end of its 95 % interval, over recordings."""
    start_high: float = math.nan
    """Upper end of its 95 % interval, over recordings."""
    end_ms: float = math.nan
    """Mean absolute error of the ends of words."""
    within_50: float = math.nan
    """Share of the words that begin at most 50 ms off."""
    within_100: float = math.nan
    """Share of the words that begin at most 100 ms off."""
    within_200: float = math.nan
    """Share of the words that begin at most 200 ms off."""


@final
@dataclass(frozen=True, kw_only=True)
class ListTimesRow:
    """How far off the word times of a list of heads are, on recordings that did not choose it."""

    name: str
    """What chose the list."""
    heads: tuple[str, ...]
    """Names of its heads; none where each recording has its own, or none is used."""
    start_ms: float
    """Mean absolute error of the starts of words."""
    start_low: float
    """Lower end of its 95 % interval, over recordings."""
    start_high: float
    """Upper end of its 95 % interval, over recordings."""
    end_ms: float
    """Mean absolute error of the ends of words."""
    end_low: float
    """Lower end of its 95 % interval, over recordings."""
    end_high: float
    """Upper end of its 95 % interval, over recordings."""
    within_50: float
    """Share of the words that begin at most 50 ms off."""
    within_100: float
    """Share of the words that begin at most 100 ms off."""
    within_200: float
    """Share of the words that begin at most 200 ms off."""
    more_ms: float = math.nan
    """Error of starts minus that of the model's own list, on the same words."""
    more_low: float = math.nan
    """Lower end of its 95 % interval, over recordings."""
    more_high: float = math.nan
    """Upper end of its 95 % interval, over recordings."""


@final
@dataclass(frozen=True, kw_only=True)
class WordRow:
    """When a word is spoken, by the list that was found."""

    recording: str
    """Name of the recording."""
    word: str
    """The word, as in the transcript."""
    start: float
    """Second at which it begins."""
    end: float
    """Second at which it ends."""


@final
@dataclass(frozen=True, kw_only=True)
class ExampleRow:
    """A recording with the paths of the chosen heads through it."""

    recording: str
    """Its name."""
    sound: bytes
    """Its sound, as FLAC."""
    rate: int
    """Samples of the sound in a second."""
    words: tuple[str, ...]
    """Its words."""
    starts: tuple[float, ...]
    """Seconds at which words begin and the last ends, by the list."""
    known: tuple[float, ...]
    """Known seconds at which words begin; empty without any."""
    heads: tuple[str, ...]
    """Names of the chosen heads."""
    paths: tuple[float, ...]
    """Seconds at which words begin and the last ends by the path of each head, one after other."""


@final
@dataclass(frozen=True, kw_only=True)
class WordTimesRecord(CorpusRecord):
    """Facts about word times that the tables do not hold."""

    FILE = "word_times.json"
    COMMAND = "headcount align"

    recordings: int
    """Number of recordings that were read."""
    seconds: float
    """Length of all of them together."""
    words: int
    """Number of their words."""
    timed: int = 0
    """Number of recordings with known word times."""
    fixed_ms: float = math.nan
    """Mean difference between word starts by the fixed list and by heads chosen for each
    recording."""
    prepared: tuple[str, ...] = ()
    """Sentences on sound that was resampled, or mixed to one channel."""


@final
@dataclass(frozen=True)
class WordTimes(Result[WordTimesRecord]):
    """The word times of recordings, and the heads that they are read from."""

    DOCUMENTS = ("word_times.md", "word_times.html")

    record: WordTimesRecord
    rows: tuple[HeadTimesRow, ...] = table("alignment_heads.parquet", "the scores of heads")
    words: tuple[WordRow, ...] = table("words.parquet", "the word times")
    lists: tuple[ListTimesRow, ...] = table(
        "lists.parquet", "the errors of lists of heads", default=()
    )
    examples: tuple[ExampleRow, ...] = table(
        "examples.parquet", "the recordings to listen to", default=()
    )

    @property
    def chosen(self) -> tuple[str, ...]:
        """The heads of the list that was found without word times, the best first."""
        ranked = sorted(self.rows, key=lambda row: row.rank)
        return tuple(row.head for row in ranked if row.is_chosen)


@final
@dataclass(frozen=True)
class WordTimesOptions:
    """Settings of `word_times`, in Python and as options of the command."""

    heads: Annotated[int | None, at_least(1)] = None
    """Number of heads in the list; by default as many as the model's own list has, or 8, and at
    most a third of its cross-attention heads."""
    language: str | None = None
    """Language spoken, for multilingual models, e.g. en or german; by default what the model's
    settings say, or what it hears."""
    samples: Count = 1000
    """Number of bootstrap samples of recordings for the intervals."""
    seed: Seed = 0
    """Seed of the bootstrap samples."""

    def __post_init__(self) -> None:
        check_options(self)
