"""Links of a statistical aligner, eflomal (pip install eflomal), to compare heads with.

python benchmarks/statistical_aligner.py --pairs PAIRS.tsv --more TRAIN.tsv --out eflomal
headcount align MODEL PAIRS.tsv --gold GOLD --split-punctuation --compare eflomal-*.links
"""

from dataclasses import dataclass
from pathlib import Path

import tyro

from headcount import Corpus
from headcount.corpora import pairs_of_words


@dataclass(frozen=True)
class Arguments:
    """Train eflomal on pairs and on more parallel text, and write the links of the pairs."""

    pairs: tuple[Path, ...]
    """Parallel text to align (.tsv)."""
    out: Path
    """Beginning of the names of the files: forward, reverse, both (their intersection), any."""
    more: tuple[Path, ...] = ()
    """More parallel text to train on."""
    limit: int | None = None
    """Largest number of pairs of it; all by default."""


def read(path: Path, number: int) -> list[set[tuple[int, int]]]:
    """The links of the first pairs in a file of eflomal."""
    lines = path.read_text(encoding="utf-8").splitlines()[:number]
    return [{(int(s), int(t)) for s, t in (link.split("-") for link in x.split())} for x in lines]


def main(arguments: Arguments) -> None:
    from eflomal import Aligner  # pyright: ignore[reportMissingImports]

    pairs = pairs_of_words(Corpus(arguments.pairs), split_punctuation=True)
    number = len(pairs)
    if arguments.more:
        more = Corpus(arguments.more, limit=arguments.limit)
        pairs += pairs_of_words(more, split_punctuation=True)
    source = [" ".join(pair.source.words) + "\n" for pair in pairs]
    target = [" ".join(pair.target.words) + "\n" for pair in pairs]
    names = ("forward", "reverse", "both", "any")
    files = {name: arguments.out.with_name(f"{arguments.out.name}-{name}.links") for name in names}
    Aligner().align(source, target, str(files["forward"]), str(files["reverse"]))
    forward, reverse = (read(files[name], number) for name in ("forward", "reverse"))
    both = [a & b for a, b in zip(forward, reverse, strict=True)]
    every = [a | b for a, b in zip(forward, reverse, strict=True)]
    for name, links in zip(names, (forward, reverse, both, every), strict=True):
        lines = (" ".join(f"{s}-{t}" for s, t in sorted(each)) + "\n" for each in links)
        files[name].write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
