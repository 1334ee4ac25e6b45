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
    JudgedRow,
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
class TextArguments:
    """A model, two texts, and where what is done is kept."""

    model: tyro.conf.Positional[str]
    """Folder or name of a causal model."""
    scored: tyro.conf.Positional[Path]
    """Text that scores groups."""
    judged: tyro.conf.Positional[Path]
    """Another text that judges plans."""
    out: tyro.conf.Positional[Path]
    """Folder of what is done."""
    dtype: Literal["float32", "bfloat16"] = field(default="bfloat16", kw_only=True)
    """Number format."""

    def load(self) -> Loaded:
        """Make the folder, and load the model for one thread."""
        torch.set_num_threads(1)
        self.out.mkdir(parents=True, exist_ok=True)
        return load(self.model, dtype=self.dtype)


@dataclass(frozen=True)
class Arguments(TextArguments):
    """Answers under plans by every score, beside the dense model and random plans."""

    scores: tuple[ScoreName, ...] = ("retrieval", "kvpress", "both", "distance")
    """Scores, besides chance."""
    shares: tuple[float, ...] = (0.5, 0.75)
    """Shares of the groups that stream."""
    how: tyro.conf.OmitArgPrefixes[CacheOptions] = field(
        default_factory=lambda: CacheOptions(
            lengths=(1000, 2000), per_length=8, sentences=3, draws=2
        )
    )


def main() -> None:
    """Print a table of plans."""
    arguments = tyro.cli(Arguments)
    loaded = arguments.load()
    how = arguments.how
    key = f"{revision(loaded.model)} {arguments.scored} {how.window} {how.scored} {how.seed}"
    scores = Kept(arguments.out / "scores.json", key, "scores", tuple[float, ...])
    key = f"{key} {arguments.judged} {how}"
    answers = Kept(arguments.out / "answers.json", key, "answers", Answered)
    texts = Questions(loaded, lines_of(arguments.judged), how).all
    group_scores = GroupScores(loaded, lines_of(arguments.scored), how)
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


def lines_of(path: Path) -> list[str]:
    """The lines of a text."""
    return [each.text for each in Corpus(path)]


def cells_of(row: JudgedRow, digits: int) -> list[str]:
    """What is found, alone and against others, with intervals, and the loss."""
    numbers = (
        [f"{getattr(row, name + end):.{digits}f}" for end in ("", "_low", "_high")]
        for name in ("right", "against_dense", "against_random")
    )
    return [*(f"{mean} ({low} to {high})" for mean, low, high in numbers), f"{row.loss:.2f}"]


def _print(loaded: Loaded, title: str, texts: object, found: dict[str, list[Answered]]) -> None:
    print(f"\n{loaded.name}: {title}")
    for row in judged(texts, found):  # type: ignore[arg-type]
        line = (row.plan, row.kind, row.length or "all", row.questions, *cells_of(row, 2))
        print(f"| {' | '.join(map(str, line))} |", flush=True)


if __name__ == "__main__":
    main()
