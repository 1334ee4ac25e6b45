"""Which syntactic heads are found again in texts of another kind, and what the lost ones share.

    python benchmarks/other_genres.py MODEL OUT --treebank en_ewt-ud-train.conllu \
        --genres answers email newsgroup reviews weblog
    python benchmarks/other_genres.py MODEL OUT --treebank gsd.conllu taiga.conllu

Genres are what sentence ids begin with. Each is held out once: heads get their roles by the other
genres and are looked for in it. Without genres, every treebank confirms every other one. Analyses
are kept in OUT.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import tyro
from scipy.stats import binomtest

import headcount
from headcount import Corpus
from headcount.models import Loaded
from headcount.results import Analysis, Claim, RelationResult, confirm, read_run

HEADER = """| found in | looked for in | certainty | found again | of | 95 % |
|---|---|---|---:|---:|---|"""
LOST = """
| lost in | head | cell | certainty | accuracy here, there | fixed offset | its own here, there |
|---|---|---|---|---:|---:|---:|"""
CERTAIN = ("clear", "borderline")


@final
@dataclass(frozen=True)
class Arguments:
    """Confirm syntactic heads on texts of other kinds."""

    model: tyro.conf.Positional[str]
    """A model."""
    out: tyro.conf.Positional[Path]
    """Folder for analyses."""
    treebank: tuple[Path, ...]
    """Treebanks (CoNLL-U)."""
    genres: tuple[str, ...] = ()
    """What sentence ids of the one treebank begin with."""
    limit: int = 1500
    """Largest number of sentences of each genre, as whole documents from the first on."""


def main() -> None:
    """Print a row for each kind of text that is held out, and one for each role that is lost."""
    given = tyro.cli(Arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    loaded = headcount.load(given.model)
    print(HEADER)
    lost, counts = list[str](), dict[str, list[int]]()
    for name, other, one, there in _pairs(given, loaded):
        claims = [
            each
            for each in confirm(one, there).claims
            if each.trait.role == "syntactic" and each.outcome != "not tested"
        ]
        for certainty in CERTAIN:
            some = [each for each in claims if each.certainty == certainty]
            again = sum(each.outcome == "found again" for each in some)
            print(f"| {name} | {other} | {certainty} | {_share(again, len(some))} |", flush=True)
            both = counts.setdefault(certainty, [0, 0])
            both[0], both[1] = both[0] + again, both[1] + len(some)
        lost += (_row(each, other, one, there) for each in claims if each.outcome != "found again")
    for certainty, (again, number) in counts.items():
        print(f"| all | | {certainty} | {_share(again, number)} |")
    print(LOST)
    print("\n".join(lost))


def _pairs(given: Arguments, loaded: Loaded) -> Iterator[tuple[str, str, Analysis, Analysis]]:
    if not given.genres:
        found = {each.stem: _analysed(given.out, loaded, each) for each in given.treebank}
        for one in found:
            for other in found:
                if one != other:
                    yield one, other, found[one], found[other]
        return
    texts = {genre: _of_genre(given, genre) for genre in given.genres}
    for genre in given.genres:
        files = dict[str, Path]()
        rest = "".join(text for other, text in texts.items() if other != genre)
        for name, text in (("rest", rest), ("held out", texts[genre])):
            files[name] = given.out / f"{genre} {name}.conllu"
            files[name].write_text(text)
        one, there = (_analysed(given.out, loaded, each) for each in files.values())
        yield "the others", genre, one, there


def _of_genre(given: Arguments, genre: str) -> str:
    """The first documents of a genre."""
    (file,) = given.treebank
    blocks = file.read_text().strip().split("\n\n")
    own = [each for each in blocks if f"# sent_id = {genre}-" in each]
    return "".join(f"{each}\n\n" for each in own[: given.limit])


def _analysed(out: Path, loaded: Loaded, file: Path) -> Analysis:
    folder = out / file.stem
    if not (folder / "run.json").exists():
        headcount.analyze(loaded, Corpus(file), out=folder).write(folder)
    return read_run(folder)


def _share(again: int, number: int) -> str:
    if not number:
        return "0 | 0 | "
    found = binomtest(again, number).proportion_ci()
    return f"{again} | {number} | {found.low:.2f} to {found.high:.2f}"


def _row(claim: Claim, where: str, one: Analysis, there: Analysis) -> str:
    """How much of the lost gain the head has lost, and how much the fixed offset has won."""
    trait = claim.trait
    key = (trait.head, trait.relation, trait.direction)
    here, other = (_relation(each, *key) for each in (one, there))
    accuracies = f"{here.accuracy:.3f}, {other.accuracy:.3f}"
    offsets = f"{here.baseline:.3f}, {other.baseline:.3f}"
    what = f"{trait.relation} {trait.direction}"
    return (
        f"| {where} | {trait.head} | {what} | {claim.certainty} | {accuracies} "
        f"| {here.baseline_offset:+.0f} | {offsets} |"
    )


def _relation(
    found: Analysis, head: str, relation: str | None, direction: str | None
) -> RelationResult:
    rows = found.relation_rows or ()
    (row,) = (
        each
        for each in rows
        if (each.head, each.relation, each.direction) == (head, relation, direction)
    )
    return row


if __name__ == "__main__":
    main()
