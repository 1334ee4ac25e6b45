"""Whether heads find more than the nearest word of a class, and whether that explains lost roles.

    python benchmarks/nearest_words.py OUT --genres answers email newsgroup reviews weblog

OUT is the folder of `other_genres.py`, with a model's heads in all genres but one and in that one.
A rule looks from a word at the nearest one of a class (by the treebank's tags) on one side. The
best of each relation is chosen where heads were found. Each rule is also judged as if it were a
head, which knows distances and classes and nothing else.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import final

from headcount import Corpus
from headcount.analysis import confirm
from headcount.corpora import Tree
from headcount.results import read_run

CLASSES = {tag: {tag} for tag in "NOUN PROPN VERB AUX ADJ ADV PRON NUM DET ADP".split()} | {
    "noun": {"NOUN", "PROPN"},
    "nominal": {"NOUN", "PROPN", "PRON"},
    "verb": {"VERB", "AUX"},
    "content": {"NOUN", "PROPN", "VERB", "ADJ"},
    "predicate": {"VERB", "AUX", "ADJ", "NOUN"},
}
Rule = tuple[int, str]
"""The side, -1 or 1, and the class of the nearest word."""
RULES: list[Rule] = [*product((-1, 1), CLASSES)]
GAIN, CASES = 0.1, 200
"""Least gain of a role, and least number of cases of a relation for rules as heads."""


@final
@dataclass
class Found:
    """How often offsets and rules find the other word of a relation."""

    cases: int = 0
    offsets: Counter[int] = field(default_factory=Counter)
    rules: Counter[Rule] = field(default_factory=Counter)

    def offset(self) -> float:
        """Accuracy of the best fixed offset."""
        return max(self.offsets.values()) / self.cases

    def rule(self, rule: Rule) -> float:
        """Accuracy of a rule."""
        return self.rules[rule] / self.cases


def nearest(tree: Tree, rule: Rule) -> Iterator[int]:
    """The word that a rule finds from each word; -1 if there is none. From the side's end on."""
    side, last = rule[0], -1
    for word in range(len(tree.tags))[::-side]:
        yield last
        if tree.tags[word] in CLASSES[rule[1]]:
            last = word


def counted(file: Path) -> dict[tuple[str, bool], Found]:
    """What is found of each relation, from the dependent, and from its head."""
    found = defaultdict[tuple[str, bool], Found](Found)
    for sentence in Corpus(file):
        tree = sentence.tree
        assert tree is not None
        by_rule = {rule: [*nearest(tree, rule)][:: -rule[0]] for rule in RULES}
        for word, (head, name) in enumerate(zip(tree.heads, tree.relations, strict=True)):
            ends = ((word, head, False), (head, word, True)) if head >= 0 else ()
            for one, other, is_from_head in ends:
                each = found[name, is_from_head]
                each.cases += 1
                each.offsets[other - one] += 1
                each.rules.update(rule for rule in RULES if by_rule[rule][one] == other)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Judge heads by a null of distance and class.")
    parser.add_argument("out", type=Path, help="folder of other_genres.py")
    parser.add_argument("--genres", nargs="+", required=True)
    given = parser.parse_args()
    counts = Counter[str]()
    for genre in given.genres:
        parts = [given.out / f"{genre} {which}" for which in ("rest", "held out")]
        here, there = (counted(part.with_name(f"{part.name}.conllu")) for part in parts)
        one, other = map(read_run, parts)
        rows = {(e.head, e.relation, e.direction): e for e in one.relation_rows or ()}
        for claim in confirm(one, other).claims:
            trait = claim.trait
            if trait.role != "syntactic" or claim.outcome == "not tested":
                continue
            assert trait.relation is not None and trait.direction is not None
            best = here[trait.relation, trait.direction == "head->dependent"]
            null = max(best.rule(rule) for rule in RULES)
            gain = rows[trait.head, trait.relation, trait.direction].accuracy - null
            counts[f"heads: {claim.certainty}"] += 1
            counts[f"heads: {claim.certainty}, 10 points above the rule"] += gain >= GAIN
            counts[f"heads: {claim.certainty}, above the rule"] += gain > 0
        for relation, rule in product(here, RULES):
            before, after = here[relation], there.get(relation, Found())
            if min(before.cases, after.cases) >= CASES:
                is_role = before.rule(rule) - before.offset() >= GAIN
                counts["rules: 10 points above the offset"] += is_role
                again = is_role and after.rule(rule) - after.offset() >= GAIN
                counts["rules: found again"] += again
    for what, number in sorted(counts.items()):
        print(f"{what}: {number}")


if __name__ == "__main__":
    main()
