"""The data sets of headcount:en-de out of Tatoeba's file: training, development and test pairs.

python benchmarks/translation_set.py deu.txt OUT

They are the model's own, since `headcount train --hold-out 1000 2000 --seed 1` draws them in the
same way: no pair of one set shares a side with a training pair, in lower case.
"""

from pathlib import Path

import tyro

from headcount.papers import hold_out, read_pairs

COLUMNS = {"source": "0", "target": "1"}
DEV = 300
"""Number of development pairs that choices are made on."""


def main(
    pairs: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    sizes: tuple[int, int] = (1000, 2000),
    most: int | None = None,
) -> None:
    """Write train.tsv, dev.tsv and test.tsv.

    Args:
        pairs: Tatoeba's `deu.txt`: English and German, one pair a line.
        out: folder for the files; it is created.
        sizes: numbers of development and test pairs to hold out.
        most: largest number of training pairs to write.
    """
    train, (dev, test) = hold_out(read_pairs(str(pairs), COLUMNS), sizes, seed=1)
    out.mkdir(parents=True, exist_ok=True)
    written = {"train": train.rows[:most], "dev": dev.rows[:DEV], "test": test.rows}
    for name, rows in written.items():
        lines = ["\t".join(row) for row in [train.sides, *rows]]
        (out / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        print(f"{name}: {len(rows):,} pairs")


if __name__ == "__main__":
    tyro.cli(main)
