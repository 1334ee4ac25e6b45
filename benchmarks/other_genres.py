"""Which syntactic heads are found again in texts of another kind, and what the lost ones share.

    python benchmarks/other_genres.py MODEL OUT --treebank en_ewt-ud-train.conllu \
        --genres answers email newsgroup reviews weblog
    python benchmarks/other_genres.py MODEL OUT --treebank gsd.conllu taiga.conllu

Genres are what sentence ids begin with. Each is held out once: heads get their roles by the other
genres and are looked for in it. Without genres, every treebank confirms every other one. Analyses
are kept in OUT.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import tyro
from scipy.stats import binomtest

import headcount
from headcount import Corpus
from headcount.analysis import Claim, confirm
from headcount.corpora import Link, Sentence
from headcount.models import Loaded
from headcount.results import Analysis, RelationResult, read_run

HEADER = """| found in | looked for in | certainty | found again | of | 95 % |
|---|---|---|---:|---:|---|"""
CHANGES = """
| certainty | outcome | cells | change of the head's accuracy | of the fixed offset's |
|---|---|---:|---:|---:|"""
LOST = """
| lost in | head | cell | certainty | here, there | fixed offset | here, there | gain | mixed |
|---|---|---|---|---:|---:|---:|---:|---:|"""
CERTAIN = ("clear", "borderline")
FARTHEST = 5
"""Offset from which on links are counted together."""
AS_LINKS = {
    "dependent->head": "query->key",
    "head->dependent": "key->query",
    "head<-dependent": "key<-query",
}
"""Directions of relations, as those of links from a dependent to its head are called."""


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
    limit: int = 1000
    """Largest number of sentences of each genre, from the first on."""
    distances: bool = False
    """Whether to ask, for roles that are lost, what the head would gain if links were as long as
    where it was found: two more analyses, with every link named by its length."""


def main() -> None:
    """Print a row for each kind of text that is held out, and one for each role that is lost.

    With `--distances`, the last column mixes: accuracies there at lengths here, and the reverse.
    """
    given = tyro.cli(Arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    loaded = headcount.load(given.model)
    print(HEADER)
    lost, counts = list[str](), dict[str, list[int]]()
    changes = dict[tuple[str, str], list[tuple[float, float]]]()
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
        for each in claims:
            here, yonder = (_relation(some, each) for some in (one, there))
            change = yonder.accuracy - here.accuracy, yonder.baseline - here.baseline
            changes.setdefault((str(each.certainty), each.outcome), []).append(change)
        gone = [each for each in claims if each.outcome != "found again"]
        both_by_distance = _by_distance(given, loaded, other, gone)
        lost += (_row(each, other, one, there, both_by_distance) for each in gone)
    for certainty, (again, number) in counts.items():
        print(f"| all | | {certainty} | {_share(again, number)} |")
    print(CHANGES)
    for (certainty, outcome), each in sorted(changes.items()):
        head, fixed = np.mean(each, 0)
        print(f"| {certainty} | {outcome} | {len(each)} | {head:+.3f} | {fixed:+.3f} |")
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
        rest = "".join(text for other, text in texts.items() if other != genre)
        files = _files(given, genre)
        for file, text in zip(files, (rest, texts[genre]), strict=True):
            file.write_text(text)
        one, there = (_analysed(given.out, loaded, each) for each in files)
        yield "the others", genre, one, there


def _files(given: Arguments, genre: str) -> tuple[Path, Path]:
    """The treebanks of the other genres, and of one."""
    return given.out / f"{genre} rest.conllu", given.out / f"{genre} held out.conllu"


def _of_genre(given: Arguments, genre: str) -> str:
    """The first documents of a genre."""
    (file,) = given.treebank  # genres are of one
    blocks = file.read_text().strip().split("\n\n")
    own = [each for each in blocks if f"# sent_id = {genre}-" in each]
    return "".join(f"{each}\n\n" for each in own[: given.limit])


def _analysed(
    out: Path, loaded: Loaded, file: Path, links: Callable[[Sentence], Iterable[Link]] | None = None
) -> Analysis:
    folder = out / (f"{file.stem} by length" if links else file.stem)
    if not (folder / "run.json").exists():
        corpus = Corpus(file, links=links or ())
        headcount.analyze(loaded, corpus, out=folder).write(folder)
    return read_run(folder)


def _by_distance(
    given: Arguments, loaded: Loaded, genre: str, gone: Sequence[Claim]
) -> tuple[Analysis, Analysis] | None:
    """Analyses of the other genres and of one, in which links are named by how long they are."""
    relations = {each.trait.relation for each in gone}
    if not (given.distances and given.genres and relations):
        return None

    def by_length(sentence: Sentence) -> Iterator[Link]:
        assert sentence.tree is not None
        for word, (head, name) in enumerate(
            zip(sentence.tree.heads, sentence.tree.relations, strict=True)
        ):
            if name in relations and head >= 0:
                yield Link(f"{name} {_length(head - word)}", word, (head,))

    one, there = (_analysed(given.out, loaded, each, by_length) for each in _files(given, genre))
    return one, there


def _length(offset: int) -> str:
    """An offset; of those beyond the farthest, the side."""
    return f"{max(-FARTHEST, min(FARTHEST, offset)):+d}"


def _mixed(one: Analysis, there: Analysis, claim: Claim, offset: float) -> float:
    """A head's gain if its accuracy at each length is that of `there`, and links are as in `one`.

    The fixed offset finds the links of its length.
    """
    trait, cases = claim.trait, dict[str, int]()
    assert trait.direction is not None
    direction = AS_LINKS[trait.direction]
    lengths = {_length(each): each for each in range(-FARTHEST, FARTHEST + 1) if each}
    names = {f"{trait.relation} {length}": each for length, each in lengths.items()}
    for row in one.link_rows or ():
        if (row.head, row.direction) == (trait.head, direction) and row.relation in names:
            cases[row.relation] = row.cases
    found = {
        row.relation: row.accuracy
        for row in there.link_rows or ()
        if (row.head, row.direction) == (trait.head, direction) and row.relation in cases
    }
    total = sum(cases[name] for name in found)
    accuracy = sum(cases[name] * each for name, each in found.items()) / total
    # of head->dependent, the offset is from the head
    sign = -1 if trait.direction == "head->dependent" else 1
    fixed = sum(cases[name] for name in found if names[name] == sign * offset) / total
    return accuracy - fixed


def _share(again: int, number: int) -> str:
    if not number:
        return "0 | 0 | "
    found = binomtest(again, number).proportion_ci()
    return f"{again} | {number} | {found.low:.2f} to {found.high:.2f}"


def _row(
    claim: Claim,
    where: str,
    one: Analysis,
    there: Analysis,
    by_distance: tuple[Analysis, Analysis] | None,
) -> str:
    """How much of the lost gain the head has lost, and how much the fixed offset has won."""
    trait = claim.trait
    here, other = (_relation(each, claim) for each in (one, there))
    accuracies = f"{here.accuracy:.3f}, {other.accuracy:.3f}"
    offsets = f"{here.baseline:.3f}, {other.baseline:.3f}"
    what = f"{trait.relation} {trait.direction}"
    gains = f"{here.gain:+.3f}, {other.gain:+.3f}"
    others = ""
    if by_distance is not None:
        first, second = by_distance
        as_long = _mixed(first, second, claim, here.baseline_offset)
        as_good = _mixed(second, first, claim, here.baseline_offset)
        others = f"{as_long:+.3f}, {as_good:+.3f}"
    return (
        f"| {where} | {trait.head} | {what} | {claim.certainty} | {accuracies} "
        f"| {here.baseline_offset:+.0f} | {offsets} | {gains} | {others} |"
    )


def _relation(found: Analysis, claim: Claim) -> RelationResult:
    trait = claim.trait
    wanted = trait.head, trait.relation, trait.direction
    rows = found.relation_rows or ()
    return next(each for each in rows if (each.head, each.relation, each.direction) == wanted)


if __name__ == "__main__":
    main()
