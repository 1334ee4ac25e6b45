"""Roles and tendencies of trained heads beside those of random weights, on the same corpus.

python benchmarks/random_roles.py MODEL CORPUS --limit 300 --seeds 3
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
import tyro

from headcount import Loaded, Options, analyze, load
from headcount.core import table
from headcount.corpora import Corpus
from headcount.models import random_copy


@dataclass(frozen=True)
class Arguments:
    """Count roles and tendencies of a model and of random-weight copies."""

    model: tyro.conf.Positional[str]
    """Name or folder of a model."""
    corpus: tyro.conf.Positional[Path]
    """Treebank or text."""
    limit: int = 300
    """Number of sentences."""
    as_words: bool = False
    """Read a treebank's words joined by spaces instead of its text as it is written."""
    seeds: int = 3
    """Number of random-weight copies."""


def main() -> None:
    """Print a row for the trained weights and for every random-weight copy."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model)
    corpus = Corpus([arguments.corpus], limit=arguments.limit, as_words=arguments.as_words)
    rows = [["trained", *_counts(loaded, corpus)]]
    for seed in range(arguments.seeds):
        copy = Loaded(random_copy(loaded.model, seed), loaded.tokenizer, loaded.name)
        rows.append([f"random, seed {seed}", *_counts(copy, corpus)])
    print(table(("weights", "heads", "tested", "roles", "tendencies"), rows))


def _counts(loaded: Loaded, corpus: Corpus) -> list[str]:
    found = analyze(loaded, corpus, Options()).profiles
    tested = found[found["p_holm"].notna()]
    return [
        str(len(loaded.heads)),
        f"{len(tested):,}",
        _kinds(found.query("verdict == 'role'")),
        _kinds(found.query("verdict == 'tendency'")),
    ]


def _kinds(traits: pd.DataFrame) -> str:
    """Numbers by trait, with the largest strength (0: as chance or position, 1: attainable)."""
    groups = sorted(traits.groupby("trait"), key=lambda each: -len(each[1]))
    found = [f"{len(rows)} {trait} (to {rows['strength'].max():.2f})" for trait, rows in groups]
    return ", ".join(found) or "none"


if __name__ == "__main__":
    main()
