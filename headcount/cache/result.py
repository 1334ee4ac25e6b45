"""A cache's plan: scores of key/value groups, which of them stream, and what a model then finds."""

from dataclasses import dataclass
from typing import final

from headcount.core import amount, omitted
from headcount.results import CachePart, ModelRecord, Result, table

DENSE = "dense"
"""Name of the plan under which no group streams."""
NEEDLES, NEXT = "needles", "next sentence"
"""Kinds of questions."""


@final
@dataclass(frozen=True)
class GroupRow:
    """A key/value group."""

    layer: int
    """Number of its layer among those with self-attention."""
    group: int
    """Number of its key/value head in the layer."""
    score: float
    """Its score; groups with higher ones keep all tokens."""
    full: bool
    """Whether it keeps all the tokens that the model lets it keep."""
    stays: str = ""
    """Why it could not stream; empty for a group that could."""


ENOUGH_DRAWS = 5
"""Least number of random plans that say what chance gives."""


def few_draws(number: int) -> tuple[str, ...]:
    """A warning if too few random plans say anything about chance; else nothing.

    >>> few_draws(5)
    ()
    """
    if number >= ENOUGH_DRAWS:
        return ()
    return (
        f"{amount(number, 'random plan')} can't say what chance gives, since random plans differ: "
        f"compare with --draws {ENOUGH_DRAWS}",
    )


@final
@dataclass(frozen=True)
class JudgedRow:
    """What a model answers under a plan; intervals are 95 %, over texts, and paired."""

    plan: str
    """`dense`, `random`, or the score that the plan was chosen by."""
    kind: str
    """`needles` or `next sentence`."""
    length: int | None
    """Number of tokens of the texts; None for all of them."""
    right: float
    """Share of questions that were answered right; intervals of random plans are over plans, too,
    and NaN for one plan."""
    right_low: float
    right_high: float
    loss: float
    """Mean negative log-likelihood of the right answer, in nats per token."""
    against_dense: float
    """Share under the plan minus that of the dense model, 0 for itself."""
    against_dense_low: float
    against_dense_high: float
    against_random: float
    """Share under the plan minus that under random plans, in the mean over them."""
    against_random_low: float
    against_random_high: float
    questions: int
    """Number of questions."""


FAR = 8000
"""Number of tokens at which the size of the cache is stated."""


@final
@dataclass(frozen=True)
class CacheSize:
    r"""What a cache takes, in bytes, by the number of tokens that it holds.

    Layers without a window keep all tokens, but for the groups that stream. With b bytes a token in
    these layers, a share s of their groups streaming, and w tokens kept by a group that streams,
    $b ((1 - s) n + s \min(n, w))$ bytes are theirs; windows keep no more than their own tokens.
    """

    dtype: str
    """Number format of keys and values, e.g. `bfloat16`."""
    weights: int
    """Bytes of the model's weights."""
    parts: tuple[CachePart, ...]
    """Parts of the cache, by the window of their layers."""
    longest: int | None = None
    """Largest number of tokens of a text; None if the model states none."""

    @property
    def far(self) -> int:
        """Number of tokens at which the size is stated: 8,000, or as many as the model takes."""
        return min(FAR, self.longest or FAR)

    def of(self, tokens: int, streaming: float = 0.0, kept: int = 0) -> int:
        """Bytes of one text's cache.

        >>> CacheSize("float32", 0, (CachePart("decoder.self", None, 10),)).of(100, 0.5, 20)
        600

        Args:
            tokens: number of tokens of the text.
            streaming: share of the groups without a window that stream.
            kept: number of tokens that such a group keeps.
        """
        found = 0.0
        for part in self.parts:
            if part.window is not None:
                found += part.bytes_per_token * min(tokens, part.window)
            else:
                held = (1 - streaming) * tokens + streaming * min(tokens, kept)
                found += part.bytes_per_token * held
        return round(found)


@final
@dataclass(frozen=True)
class TriedDrop:
    """A number of streaming groups that a search tried."""

    streaming: int
    """The number."""
    drop: float
    """Upper end of the 95 % interval by which fewer needles are found, as a share of them."""


@final
@dataclass(frozen=True, kw_only=True)
class CachePlanRecord(ModelRecord):
    """Facts about a cache's plan that its tables do not hold."""

    FILE = "cache.json"
    COMMAND = "headcount cache"
    DESCRIBES = ("plan.json",)

    revision: str
    """Revision of the model, which a plan is good for."""
    layers: int
    """Number of layers, those that lost all heads included."""
    able: int
    """Number of groups that could stream, since they keep all tokens without the plan."""
    score: str
    """Score that groups were chosen by."""
    draws: int = 1
    """Number of random plans; 1 in records of versions that do not say it."""
    sink: int
    """Number of first tokens that they keep."""
    recent: int
    """Number of last tokens that they keep."""
    cut: float
    """Largest score of a group that streams."""
    found: int | None
    """Number of needles that the model found to score retrieval; None if it is not scored."""
    asked: int | None
    """Number of needles that it was asked for."""
    start: tuple[str, ...]
    """Tokens in front of every text; none for many models."""
    budget: str = omitted("")
    """The budget, as the command line takes it; empty in records from before version 0.4."""
    tried: tuple[TriedDrop, ...] = omitted(())
    """What a search for the largest drop tried, in order."""
    size: CacheSize | None = omitted(None)
    """What the cache takes; None in records from before version 0.4."""
    lengths: tuple[int, ...] = omitted(())
    """Numbers of tokens of the texts with needles; none in records from before version 0.4."""


@final
@dataclass(frozen=True)
class PlannedCache(Result[CachePlanRecord]):
    """Scores of key/value groups, and what a model finds if the lowest of them stream."""

    DOCUMENTS = ("cache.md", "cache.html", "plan.json")

    record: CachePlanRecord
    groups: tuple[GroupRow, ...] = table(
        "groups.parquet", "scores of key/value groups", key=("layer", "group")
    )
    """A row for each group."""
    judged: tuple[JudgedRow, ...] = table(
        "judged.parquet", "what is answered under plans", key=("plan", "kind", "length")
    )
    """A row for each plan, kind of questions and length."""
