"""BLEU of one person's translation against another's, beside the model's BLEU.

Tatoeba has several German translations of many English sentences. For every test pair whose source
has another one, a random other translation and the model's are scored against the reference.

    python benchmarks/human_translations.py --pairs deu.txt --test test.tsv
"""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from sacrebleu.metrics.bleu import BLEU

from headcount import load
from headcount.papers import read_pairs
from headcount.tasks import Translation


@dataclass(frozen=True)
class Arguments:
    """Compare people's translations with a model's."""

    pairs: Path
    """All pairs: source and target in the first two columns, no header."""
    test: Path
    """The test pairs, with the columns source and target."""
    model: str = "headcount:en-de"
    """A Hugging Face name, a folder, or headcount:en-de."""
    seed: int = 0
    """Seed of the draw among several other translations."""


def main() -> None:
    """Print one Markdown table row per set of test pairs."""
    arguments = tyro.cli(Arguments)
    known: dict[str, set[str]] = defaultdict(set)
    for source, target in read_pairs([arguments.pairs], {"source": 0, "target": 1}).rows:
        known[source.lower()].add(target)
    rows = read_pairs([arguments.test], {}).rows
    loaded = load(arguments.model)
    texts = Translation(loaded, [arguments.test]).translate(loaded.model)
    chance = random.Random(arguments.seed)
    several, single, all_known = [], [], []
    for (source, target), text in zip(rows, texts, strict=True):
        others = sorted(each for each in known[source.lower()] if each.lower() != target.lower())
        all_known.append((text, [target, *others]))
        if others:
            several.append((text, target, chance.choice(others)))
        else:
            single.append((text, target))
    print("| test pairs | number | a person's BLEU | the model's |")
    print("|---|---|---|---|")
    model, person = ([(each[i], [each[1]]) for each in several] for i in (0, 2))
    print(f"| with another translation | {len(several)} | {bleu(person):.1f} | {bleu(model):.1f} |")
    alone = bleu([(text, [target]) for text, target in single])
    print(f"| without | {len(single)} | | {alone:.1f} |")
    print(f"| all, against every translation | {len(rows)} | | {bleu(all_known):.1f} |")


def bleu(scored: Sequence[tuple[str, Sequence[str]]]) -> float:
    """BLEU of translations, each against its references."""
    most = max(len(references) for _, references in scored)
    columns = [
        [references[i] if i < len(references) else None for _, references in scored]
        for i in range(most)
    ]
    texts = [text for text, _ in scored]
    return BLEU().corpus_score(texts, columns).score  # type: ignore[arg-type]  # None: no more


if __name__ == "__main__":
    main()
