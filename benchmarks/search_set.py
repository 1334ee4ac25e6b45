"""A set for search out of plain text: a sentence is the query, what stands around it is found.

python benchmarks/search_set.py wiki.train.tokens OUT

This is the inverse cloze task (Lee et al., 2019, section 4, https://arxiv.org/abs/1906.00300). An
article is in one of three sets, so that no passage of a test query is in training. All passages of
a set are searched, also those without a query.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import tyro

SIZES = {"train": (800, 800), "dev": (250, 500), "test": (2000, 2000)}
"""Number of queries and of passages of each set; the passages of its queries are among them."""

WORDS = 8
"""Least number of words of a query."""


def main(
    text: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    seed: int = 0,
    share: float = 1.0,
) -> None:
    """Write train.tsv, dev.tsv and test.tsv.

    Args:
        text: text with headings such as `= Title =`, a paragraph a line.
        out: folder for the files; it is created.
        seed: seed of the draws.
        share: share of the sizes to write.
    """
    generator, articles = np.random.default_rng(seed), list[list[str]]()
    for line in text.read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r" = [^=].*[^=] = ", line):
            articles.append([])
        elif articles and not line.startswith(" =") and len(line.split()) > 60:
            articles[-1].append(_plain(line))
    order = generator.permutation(len(articles)).tolist()
    out.mkdir(parents=True, exist_ok=True)
    sizes = {name: [round(each * share) for each in both] for name, both in SIZES.items()}
    for (name, (most, size)), part in zip(sizes.items(), np.array_split(order, 3), strict=True):
        rows = [_row(each) for article in part for each in articles[article] if _is_long(each)]
        drawn = [rows[index] for index in generator.permutation(len(rows))[:size].tolist()]
        table = pd.DataFrame(drawn, columns=["query", "passage"])
        table.loc[most:, "query"] = ""  # only searched
        table.to_csv(out / f"{name}.tsv", sep="\t", index=False)
        print(f"{name}: {most} queries, {len(table)} passages of {len(part)} articles")


def _plain(line: str) -> str:
    """A paragraph of WikiText without its marks."""
    joined = re.sub(r" @(\W)@ ", r"\1", line).replace("<unk>", "").replace('"', "")
    return " ".join(re.sub(r" ([,.;:)])", r"\1", joined).split())


def _sentences(paragraph: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)


def _is_long(paragraph: str) -> bool:
    """Whether a paragraph has a query of some words, which no other text shares, and a rest."""
    sentences = _sentences(paragraph)
    return len(sentences) > 2 and len(sentences[1].split()) >= WORDS


def _row(paragraph: str) -> tuple[str, str]:
    """The second sentence of a paragraph, and the sentences around it, three at most."""
    first, query, *others = _sentences(paragraph)
    return query, " ".join([first, *others[:2]])


if __name__ == "__main__":
    tyro.cli(main)
