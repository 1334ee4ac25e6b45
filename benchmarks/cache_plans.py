"""Which score of key/value groups makes the best plan of a cache, at several shares that stream.

python benchmarks/cache_plans.py MODEL SCORED.txt JUDGED.txt OUT --lengths 1000 2000 4000

Groups are scored on one text, and plans are judged on another. What is done is kept in OUT, so that
a run that was stopped goes on.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import tyro

from headcount.cache import (
    DENSE,
    Answered,
    CacheOptions,
    CachePlan,
    GroupScores,
    Questions,
    ScoreName,
    answered,
    cut,
    judged,
    random_plans,
)
from headcount.core import Kept
from headcount.corpora import Corpus
from headcount.models import Loaded, load, revision
from headcount.numbers import percent
from headcount.results import RANDOM

ALL = "all stream"


@dataclass(frozen=True)
class Arguments:
    """Answers under plans by every score, beside the dense model and random plans."""

    model: tyro.conf.Positional[str]
    """Folder or name of a causal model."""
    scored: tyro.conf.Positional[Path]
    """Text that scores groups."""
    judged: tyro.conf.Positional[Path]
    """Another text that judges plans."""
    out: tyro.conf.Positional[Path]
    """Folder of what is done."""
    scores: tuple[ScoreName, ...] = ("retrieval", "kvpress", "both", "distance")
    """Scores, besides chance."""
    shares: tuple[float, ...] = (0.5, 0.75)
    """Shares of the groups that stream."""
    how: tyro.conf.OmitArgPrefixes[CacheOptions] = field(
        default_factory=lambda: CacheOptions(lengths=(1000, 2000), draws=2)
    )
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format."""


def main() -> None:
    """Print a table of plans."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model, dtype=arguments.dtype)
    arguments.out.mkdir(parents=True, exist_ok=True)
    how = arguments.how
    key = f"{revision(loaded.model)} {arguments.scored} {how.window} {how.scored} {how.seed}"
    scores = Kept(arguments.out / "scores.json", key, "scores", tuple[float, ...])
    key = f"{key} {arguments.judged} {how}"
    answers = Kept(arguments.out / "answers.json", key, "answers", Answered)
    texts = Questions(loaded, _lines(arguments.judged), how).all
    group_scores = GroupScores(loaded, _lines(arguments.scored), how)
    of_groups = {
        name: np.array(scores.once(name, lambda name=name: tuple(group_scores.of(name).tolist())))
        for name in arguments.scores
    }

    def ask(name: str, plan: CachePlan | None) -> Answered:
        found = answers.once(name, partial(answered, loaded, texts, plan))
        print(name, answers.seconds.get(name), round(np.mean(found.right), 3), flush=True)
        return found

    found = {DENSE: [ask(DENSE, None)]}
    for share in arguments.shares:
        some = replace(how, stream=share)
        plans = {name: [cut(loaded, each, some)] for name, each in of_groups.items()}
        plans[RANDOM] = [*random_plans(loaded, some)]
        of_share = {
            name: [ask(f"{share:g} {name} {n}", plan) for n, plan in enumerate(each)]
            for name, each in plans.items()
        }
        _print(loaded, f"{percent(share)} of the groups stream", texts, found | of_share)
    number = len(next(iter(of_groups.values())))
    every = cut(loaded, np.zeros(number), replace(how, stream=1.0))
    _print(loaded, ALL, texts, found | {ALL: [ask(ALL, every)]})


def _lines(path: Path) -> list[str]:
    return [each.text for each in Corpus(path)]


def _print(loaded: Loaded, title: str, texts: object, found: dict[str, list[Answered]]) -> None:
    print(f"\n{loaded.name}: {title}")
    for row in judged(texts, found):  # type: ignore[arg-type]
        numbers = (
            [getattr(row, f"{name}{end}") for end in ("", "_low", "_high")]
            for name in ("right", "against_dense", "against_random")
        )
        cells = (f"{mean:.2f} ({low:.2f} to {high:.2f})" for mean, low, high in numbers)
        length = row.length or "all"
        line = (row.plan, row.kind, length, row.questions, *cells, f"{row.loss:.2f}")
        print(f"| {' | '.join(map(str, line))} |", flush=True)


if __name__ == "__main__":
    main()
