"""Files of others: patterns of DuoAttention, which kvpress reads, and scores of Wu's and HeadKV's.

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
from typing import final

from headcount.cache.plan import CachePlan
from headcount.core import Head, InputError, JsonObject, make_folder, reason, write_json, write_text

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
