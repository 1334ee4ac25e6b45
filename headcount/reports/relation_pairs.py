"""Relations in two runs: of each, the head that one half of the corpus chose."""

from dataclasses import dataclass
from typing import final

from headcount.results import Analysis, Profiles, TraitStrength


@final
@dataclass(frozen=True)
class RelationPair:
    """One relation in both runs."""

    relation: str
    best: tuple[TraitStrength, TraitStrength]
    """The head that was chosen in each run."""

    @property
    def change(self) -> float:
        """Difference of the two shares."""
        return self.best[1].share - self.best[0].share

    @property
    def apart(self) -> bool:
        """Whether the two intervals do not meet."""
        one, other = map(share_interval, self.best)
        return one[1] < other[0] or other[1] < one[0]


def relation_pairs(one: Analysis, other: Analysis) -> tuple[RelationPair, ...]:
    """Relations that both runs tested, those with the largest difference first."""
    first, second = (_best(run.traits or {}) for run in (one, other))
    shared = [name for name in first if name in second]
    pairs = [RelationPair(name, (first[name], second[name])) for name in shared]
    return tuple(sorted(pairs, key=lambda pair: -abs(pair.change)))


def _best(profiles: Profiles) -> dict[str, TraitStrength]:
    """The head that the first half of the corpus chose for each relation, with enough cases."""
    best: dict[str, TraitStrength] = {}
    for traits in profiles.values():
        for trait in traits:
            if trait.relation is None or trait.verdict == "untested":
                continue
            known = best.get(trait.trait)
            if known is None or trait.first_gain > known.first_gain:
                best[trait.trait] = trait
    return best


def share_interval(trait: TraitStrength) -> tuple[float, float]:
    """The 90 % interval of a share, from that of its strength, cut to 0 ... 1."""
    low, high = (
        min(1.0, max(0.0, trait.null + each * (trait.attainable - trait.null)))
        for each in (trait.low, trait.high)
    )
    return low, high
