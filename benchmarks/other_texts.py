"""BLEU of a dense and a pruned model on texts of other kinds, and by words of the source.

Pairs are drawn from every file by a seed. The change is that of the second model against the
first, with the 95 % interval of paired approximate randomization.

    python benchmarks/other_texts.py --data newstest2014.tsv flickr.tsv test.tsv
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from headcount import load
from headcount.importance import score_deltas
from headcount.papers import read_pairs
from headcount.tasks import Evaluation, Translation, evaluate

LENGTHS = ((1, 4), (5, 6), (7, 8), (9, 12), (13, None))
"""Smallest and largest number of words of a source."""


@dataclass(frozen=True)
class Arguments:
    """Compare two translators on several files."""

    data: tuple[Path, ...]
    """Pairs, one file for each kind of text: source and target, with or without a header."""
    models: tuple[str, str] = ("headcount:en-de", "headcount:en-de-36")
    """The dense and the pruned model."""
    pairs: int = 400
    """Largest number of pairs of each file."""
    seed: int = 0
    """Seed of the draw."""


def main() -> None:
    """Print two Markdown tables: by file, and by words of the source."""
    arguments = tyro.cli(Arguments)
    dense, pruned = map(load, arguments.models)
    print("| texts | pairs | dense | pruned | change (95 %) |\n|---|---|---|---|---|")
    by_length: list[str] = []
    for file in arguments.data:
        rows = read_pairs([file], {}).rows
        index = np.random.default_rng(arguments.seed).permutation(len(rows))[: arguments.pairs]
        some = [rows[each] for each in sorted(index)]
        data = {"source": [each[0] for each in some], "target": [each[1] for each in some]}
        tasks = [Translation(loaded, data) for loaded in (dense, pruned)]
        found = [
            evaluate(loaded.model, task, texts=True)
            for loaded, task in zip((dense, pruned), tasks, strict=True)
        ]
        print(f"| {file.name} | {len(some)} | {_row(tasks[0], found)} |", flush=True)
        words_N = np.array([len(source.split()) for source in data["source"]])
        for least, most in LENGTHS:
            (index_N,) = np.nonzero((words_N >= least) & (words_N <= (most or np.inf)))
            if len(index_N) > 1:
                name = f"{least}-{most}" if most else f"{least} and more"
                cells = _row(tasks[0], found, index_N)
                by_length.append(f"| {file.name} | {name} | {len(index_N)} | {cells} |")
    print("\n| texts | words | pairs | dense | pruned | change (95 %) |\n|---|---|---|---|---|---|")
    print("\n".join(by_length))


def _row(task: Translation, found: Sequence[Evaluation], index_N: np.ndarray | None = None) -> str:
    """Both scores and the change."""
    dense, pruned = found
    scores = " | ".join(f"{task.score(each, index_N):.1f}" for each in found)
    drop = score_deltas(task, [pruned], dense, index_N=index_N)[0]
    return f"{scores} | {-drop.delta:+.2f} ({-drop.high:+.2f} to {-drop.low:+.2f})"


if __name__ == "__main__":
    main()
