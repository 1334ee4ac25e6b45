"""Plan of a cache: which key/value groups keep all keys, and what the others keep.

Options of the choice of a cache's plan. Needs no torch.

Files of others: patterns of DuoAttention, which kvpress reads, and scores of Wu's and HeadKV's.

A pattern is a folder. `full_attention_heads.tsv` has a row for each layer and a column for each
key/value head, with numbers from 0 (streams) to 1 (keeps all keys), which tabs separate.
`config.json` has `sink_size` and `recent_size`.

References: DuoAttention (Xiao et al., 2024), https://arxiv.org/abs/2410.10819, directory
`attn_patterns` of its code; kvpress 0.5, class `DuoAttentionPress`.

Scores are one object, `{"layer-head": [score, ...]}`, with a number for each run that a query head
was scored in.

References: Retrieval Head (Wu et al., 2024), https://arxiv.org/abs/2404.15574; HeadKV (Fu et al.,
2024), https://arxiv.org/abs/2410.19258, directory `head_score` of their code.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Annotated, Literal, NamedTuple, final

from headcount.cache.result import ENOUGH_DRAWS
from headcount.core import (
    Count,
    Head,
    InputError,
    JsonObject,
    Seed,
    amount,
    at_least,
    check_options,
    encoded,
    make_folder,
    reason,
    write_json,
    write_text,
)
from headcount.corpora import check_template
from headcount.numbers import part
from headcount.skills import SHORTEST

SINK, RECENT = 4, 128
"""Default numbers of first and of last tokens whose keys a streaming group keeps."""

VERSION = 1


class Group(NamedTuple):
    """A key/value group: the query heads of one layer that share keys and values; from 0."""

    layer: int
    """Number of the layer among those of `decoder.self`."""
    index: int
    """Number of the key/value head in the layer."""


@final
@dataclass(frozen=True)
class CachePlan:
    """Which key/value groups keep all keys; the others *stream*: they keep the first and the last.

    >>> plan = CachePlan(((True, False), (False, False)), sink=4, recent=128)
    >>> plan
    CachePlan(1 of 4 groups keeps all keys; 3 keep the first 4 and the last 128)
    >>> plan.streaming
    (Group(layer=0, index=1), Group(layer=1, index=0), Group(layer=1, index=1))
    """

    full: tuple[tuple[bool, ...], ...]
    """Whether a group keeps all keys, by layer of `decoder.self`, then group."""
    sink: int = SINK
    """Number of first tokens whose keys a streaming group keeps; padding on the left is none."""
    recent: int = RECENT
    """Number of last tokens whose keys a streaming group keeps; a token is one of its own."""
    model: str | None = None
    """`revision` of the model that the plan was made for; None fits any with these groups."""

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            InputError: for a size below 1, or a plan without a group.
        """
        for name in ("sink", "recent"):
            if (size := getattr(self, name)) < 1:
                raise InputError(
                    f"Expected `{name}` of a cache's plan to be a number of tokens from 1, got "
                    f"{size}. Without first tokens or its own, a head has nowhere to look."
                )
        if not any(self.full):
            raise InputError(
                "Expected the groups of a cache's plan by layer, such as ((True, False),), got "
                f"{self.full!r}. Name at least one group."
            )

    def __repr__(self) -> str:
        num_full, num_streaming = sum(map(sum, self.full)), len(self.streaming)
        keeps, keep = ("keeps" if each == 1 else "keep" for each in (num_full, num_streaming))
        return (
            f"CachePlan({num_full} of {amount(len(self.groups), 'group')} {keeps} all keys; "
            f"{num_streaming} {keep} the first {self.sink} and the last {self.recent})"
        )

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in order."""
        return tuple(
            Group(layer, index) for layer, row in enumerate(self.full) for index in range(len(row))
        )

    @property
    def streaming(self) -> tuple[Group, ...]:
        """The groups that stream, in order."""
        return tuple(group for group in self.groups if not self.full[group.layer][group.index])

    def write(self, path: str | Path) -> None:
        """Write the plan as JSON, completely or not at all."""
        write_json(Path(path), {"version": VERSION} | encoded(self))

    @classmethod
    def read(cls, path: str | Path) -> "CachePlan":
        """Read a plan from a file.

        Raises:
            InputError: if the file can't be read or is not a plan; the error says why.
        """
        found = JsonObject.read(Path(path), "headcount cache", "a plan of a cache")
        plan = found.decode(cls)
        for name in ("sink", "recent"):  # the defaults are those of Python
            found.field(name, int)
        return plan


ScoreName = Literal["kvpress", "retrieval", "answers", "distance", "both", "random"]
"""Scores of key/value groups."""


@final
@dataclass(frozen=True)
class CacheOptions:
    """How groups are chosen, and which questions judge the choice.

    Raises:
        InputError: for values that can't be used.
    """

    stream: float | None = None
    """Share of the key/value groups that keep the first and the last tokens only; 0.5 if no other
    budget is given."""
    bytes: str | None = None
    """Let as few groups stream as bring the cache down to this size, such as 60% of its bytes, at
    8,000 tokens or as many as the model takes."""
    max_drop: str | None = None
    """Let as many groups stream as lose at most this share of needles, such as 2% (points), by the
    upper end of the 95 % interval; found by bisection, on needles in the texts that score
    groups."""
    score: ScoreName = "kvpress"
    """Score that chooses the groups with all tokens: kvpress's estimate of the weight of far
    keys, retrieval of needles, answers to needles in other words, distance of their output, the
    mean rank by retrieval and distance, or chance."""
    sink: Count = SINK
    """Number of first tokens that a streaming group keeps."""
    recent: Count = RECENT
    """Number of last tokens that it keeps."""
    scored: tuple[int, ...] = (400, 700)
    """Numbers of tokens of the prompts with needles that score retrieval or answers."""
    lengths: tuple[int, ...] = ()
    """Numbers of tokens of the texts with other needles that judge the plan; by default 1000 and
    2000, or half and all of what TEXT and the model allow."""
    per_length: Annotated[int, at_least(2)] = 4
    """Number of texts of each of these lengths; more give narrower intervals, in proportion to the
    time."""
    needles: Count = 10
    """Number of needles in each."""
    sentences: Count = 1
    """Number of questions for the next sentence in each."""
    draws: Count = ENOUGH_DRAWS
    """Number of random plans that the plan is compared with. Each takes as long to judge as the
    plan itself; with fewer than 5, no sentence compares it with chance."""
    chat: bool = False
    """Hide needles in a user's message in the tokenizer's chat template; in raw text by default."""
    template: tuple[str, ...] = ()
    """Values for the chat template as NAME=VALUE, such as enable_thinking=false; VALUE is JSON, or
    else a text."""
    seed: Seed = 0
    """Seed of the needles, of the questions and of the random plans."""

    def __post_init__(self) -> None:
        check_options(self)
        check_template(self.chat, self.template)
        self._check_budget()
        if min(self.scored, default=0) < SHORTEST:
            raise InputError(
                f"Expected numbers of tokens from {SHORTEST} in scored, got "
                f"{', '.join(map(str, self.scored)) or 'none'}. A needle is hidden in more text "
                "than its own."
            )
        if min(self.lengths, default=sum(self.window) + 1) <= sum(self.window):
            raise InputError(
                f"Expected lengths above the {self.sink:,} + {amount(self.recent, 'token')} that a "
                f"streaming group keeps, got {min(self.lengths):,}. A plan can't be judged on what "
                "it keeps: give longer texts and --lengths, or a smaller --sink or --recent."
            )

    def _check_budget(self) -> None:
        given = [
            f"--{name.replace('_', '-')}"
            for name in ("stream", "bytes", "max_drop")
            if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise InputError(
                f"Expected one budget out of --stream, --bytes and --max-drop, got "
                f"{' and '.join(given)}. Leave out all but one."
            )
        if self.stream is not None and not 0 < self.stream <= 1:
            raise InputError(
                f"Expected a share of streaming groups above 0 and at most 1, got {self.stream:g}. "
                "0.5 lets half of them stream."
            )
        if self.bytes is not None and not 0 < part(self.bytes) < 1:
            raise InputError(
                f"Expected a share of the cache's bytes between 0 and 100 %, got {self.bytes}. 60% "
                "makes it at most 60 % as large."
            )
        if self.max_drop is not None and not 0 <= part(self.max_drop) < 1:
            raise InputError(
                f"Expected a largest drop from 0 to below 100 % of the needles, got "
                f"{self.max_drop}. 2% allows to find two in a hundred fewer."
            )

    @property
    def budget(self) -> str:
        """The budget, as the command line takes it."""
        if self.bytes is not None:
            return f"--bytes {self.bytes}"
        if self.max_drop is not None:
            return f"--max-drop {self.max_drop}"
        return f"--stream {self.share:g}"

    @property
    def share(self) -> float:
        """The share of the groups that stream, if no other budget is given."""
        return 0.5 if self.stream is None else self.stream

    @property
    def window(self) -> tuple[int, int]:
        """The numbers of first and of last tokens that a streaming group keeps."""
        return self.sink, self.recent


PATTERN, SIZES = "full_attention_heads.tsv", "config.json"
"""Names of the files of a pattern."""


@final
@dataclass(frozen=True)
class _Sizes:
    sink_size: int
    recent_size: int


def write_pattern(plan: CachePlan, folder: str | Path) -> None:
    """Write a plan as a pattern of DuoAttention and kvpress: 1 keeps all keys, 0 streams.

    Raises:
        InputError: if layers have different numbers of groups, since a pattern is a table.
    """
    if len({len(row) for row in plan.full}) > 1:
        raise InputError(
            "Expected as many groups in every layer, since a pattern is a table, got "
            f"{'/'.join(str(len(row)) for row in plan.full)}. Keep the plan as it is."
        )
    rows = ("\t".join(str(float(each)) for each in row) for row in plan.full)
    make_folder(Path(folder))
    write_text(Path(folder) / PATTERN, "".join(f"{row}\n" for row in rows))
    write_json(Path(folder) / SIZES, {"sink_size": plan.sink, "recent_size": plan.recent})


def read_pattern(folder: str | Path, stream: float | None = None) -> CachePlan:
    """The plan in a pattern of DuoAttention or kvpress.

    Args:
        folder: the folder with both files.
        stream: the share of groups that stream, those with the smallest numbers (of equal ones the
            first); by default those with a number below 0.5.

    Raises:
        InputError: for a share outside 0 to 1, or if a file can't be read or is no such file.
    """
    if stream is not None and not 0 <= stream <= 1:
        raise InputError(
            f"Expected the share of groups that stream from 0 to 1, got {stream}. 0.5 lets half of "
            "them stream."
        )
    folder = Path(folder)
    sizes = JsonObject.read(folder / SIZES, "headcount cache", "a pattern").decode(_Sizes)
    rows = _table(folder / PATTERN)
    places = [(layer, index) for layer, row in enumerate(rows) for index in range(len(row))]
    ordered = sorted(places, key=lambda place: rows[place[0]][place[1]])
    below = sum(number < 0.5 for row in rows for number in row)
    streaming = set(ordered[: below if stream is None else round(stream * len(places))])
    full = tuple(
        tuple((layer, index) not in streaming for index in range(len(row)))
        for layer, row in enumerate(rows)
    )
    return CachePlan(full, sizes.sink_size, sizes.recent_size)


def _table(path: Path) -> list[list[float]]:
    """The numbers of a table, as many in each row.

    Raises:
        InputError: if it can't be read or is no such table.
    """
    try:
        text = path.read_text(encoding="utf-8")
        rows = [[float(cell) for cell in line.split("\t")] for line in text.splitlines()]
        if len({len(row) for row in rows}) != 1:
            raise ValueError("rows of different lengths" if rows else "no row")
        if not all(0 <= number <= 1 for row in rows for number in row):
            raise ValueError("a number outside 0 to 1")
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected a row of numbers from 0 to 1 for each layer, with tabs between, in {path}, "
            f"got {reason(error)}. Name the folder of a pattern."
        ) from error
    return rows


def write_scores(scores: Mapping[Head, float], path: str | Path) -> None:
    """Write scores of query heads of `decoder.self`, of which each is a list of one number."""
    named = {f"{head.layer}-{head.index}": [float(score)] for head, score in scores.items()}
    write_json(Path(path), named)


def read_scores(path: str | Path) -> dict[Head, float]:
    """The mean score of each query head of `decoder.self` in a file of Wu's or HeadKV's.

    Raises:
        InputError: if the file can't be read or is no such file.
    """
    found = JsonObject.read(Path(path), "headcount skills", "a file of scores")
    scores = dict[Head, float]()
    for name in found.values:
        numbers = found.field(name, tuple[float, ...])
        match = _NAME.fullmatch(name)
        if match is None or not numbers or not all(map(math.isfinite, numbers)):
            raise InputError(
                'Expected scores as {"layer-head": [0.5, ...]}, at least a number for each head, '
                f"in {path}, got {name!r}: {list(numbers)}. Name a file of such scores."
            )
        scores[Head("decoder.self", int(match[1]), int(match[2]))] = mean(numbers)
    return scores


_NAME = re.compile(r"(\d{1,9})-(\d{1,9})")
