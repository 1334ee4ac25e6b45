"""Findings of Voita et al. (2019) on how representations evolve, tested with a band over seeds.

Every finding is a difference that the paper says is above 0. Its band runs from the smallest to the
largest difference between the seeds. Differences of mutual information have a band for each of the
estimates that correct it (see `mutual_information`), since each has a bias of its own that may move
with the evenness of clusters. The finding is

- *undecided* if there is one seed only, if a band contains 0, or if the estimates disagree;
- *in all N seeds*, or *in none of N seeds*, if all bands are above 0, or below;
- and only then *holds*, or *fails*, if chance orders so many seeds like this with a probability of
  at most 0.05. For N models against N others it is 1 / (2N choose N), which takes three seeds. For
  differences within each of N models it is 1 / 2^N, which takes five.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import final

from headcount.papers.evolution.mutual_information import ESTIMATES
from headcount.papers.evolution.record import Evolution

TRANSLATION, CAUSAL, MASKED = "translation", "causal-lm", "masked-lm"


@final
@dataclass(frozen=True)
class Finding:
    """One finding of the paper, and what our models say."""

    claim: str
    """What the paper found."""
    measure: str
    """The difference that must be above 0, in words."""
    bands: Mapping[str, tuple[float, float]]
    """Smallest and largest difference between seeds, by quantity."""
    seeds: int
    """Number of seeds of each objective."""
    chance: float
    """Probability that chance orders so many seeds like this."""

    @property
    def verdict(self) -> str:
        """`holds`, `fails`, `undecided`, or in how many seeds it is so."""
        is_above = {low > 0 for low, _ in self.bands.values()}
        has_zero = any(low <= 0 <= high for low, high in self.bands.values())
        if self.seeds < 2 or has_zero or len(is_above) > 1:
            return "undecided"
        if self.chance <= 0.05:
            return "holds" if is_above == {True} else "fails"
        if self.seeds == 2:
            return "in both seeds" if is_above == {True} else "in neither seed"
        return f"in {'all' if is_above == {True} else 'none of'} {self.seeds} seeds"


@final
@dataclass(frozen=True)
class _Band:
    """A difference over seeds."""

    low: float
    high: float
    seeds: int
    chance: float


@final
@dataclass(frozen=True)
class _Claim:
    """A finding before it is tested."""

    claim: str
    measure: str
    quantities: tuple[str, ...]
    compared: Callable[[Evolution, str], _Band | None]
    """The difference of a quantity; None if the numbers are not there."""

    def tested(self, evolution: Evolution) -> Finding | None:
        """What the numbers say; None unless all quantities are there."""
        bands = {each: self.compared(evolution, each) for each in self.quantities}
        found = [band for band in bands.values() if band is not None]
        if len(found) < len(bands):
            return None
        ends = {name: (band.low, band.high) for name, band in zip(bands, found, strict=True)}
        return Finding(self.claim, self.measure, ends, found[0].seeds, found[0].chance)


def findings(evolution: Evolution) -> list[Finding]:
    """Every finding that the numbers allow to test."""
    return [found for claim in _claims() if (found := claim.tested(evolution)) is not None]


def _claims() -> Iterator[_Claim]:
    rare = "influence of the rarest tokens less that of the most frequent, mean of layers"
    yield _Claim(
        "Translation keeps the identity of tokens best",
        "information about the input token in the last layer: translation less the best other",
        ESTIMATES,
        _identity,
    )
    yield _Claim(
        "Translation keeps the position of tokens best",
        "distance in position of the nearest states in the last layer, in tokens: the lowest other "
        "less translation",
        ("neighbours",),
        _position,
    )
    yield _Claim(
        "A causal language model forgets the past",
        "information about the input token: first layer less last layer",
        ESTIMATES,
        _past,
    )
    yield _Claim(
        "A causal language model builds the future",
        "information about the next token: last layer less first layer",
        ESTIMATES,
        _future,
    )
    yield _Claim(
        "A masked language model loses the token, then rebuilds it",
        "information about the input token: the lower of first and last layer less the lowest "
        "layer between",
        ESTIMATES,
        _rebuilt,
    )
    yield _Claim(
        "A masked language model forgets a false token and builds the right one",
        "information about a false token: first layer less last; about the right one: last less "
        "first; the smaller of both",
        ESTIMATES,
        _replaced,
    )
    yield _Claim(
        "Rare tokens influence others most (translation)", rare, ("influence",), _influence
    )
    yield _Claim(
        "The influence of rare tokens goes away with swapped tokens",
        f"{rare}: half of it less that with swapped tokens",
        ("influence-swapped",),
        _swapped,
    )


def _identity(evolution: Evolution, quantity: str) -> _Band | None:
    last = _last(evolution, quantity, "input")
    if last is None:
        return None
    others = [max(pair) for pair in zip(last[CAUSAL], last[MASKED], strict=False)]
    return _between(last[TRANSLATION], others)


def _position(evolution: Evolution, quantity: str) -> _Band | None:
    last = _last(evolution, quantity, "position")
    if last is None:
        return None
    others = [min(pair) for pair in zip(last[CAUSAL], last[MASKED], strict=False)]
    return _between(others, last[TRANSLATION])


def _past(evolution: Evolution, quantity: str) -> _Band | None:
    curves = evolution.curves(quantity, "input").get(CAUSAL)
    return None if curves is None else _within(_less(curves[min(curves)], curves[max(curves)]))


def _future(evolution: Evolution, quantity: str) -> _Band | None:
    curves = evolution.curves(quantity, "output").get(CAUSAL)
    return None if curves is None else _within(_less(curves[max(curves)], curves[min(curves)]))


def _rebuilt(evolution: Evolution, quantity: str) -> _Band | None:
    curves = evolution.curves(quantity, "input").get(MASKED)
    if curves is None or len(curves) < 3:
        return None
    first, *inner, last = (curves[layer] for layer in sorted(curves))
    lowest, ends = map(min, zip(*inner, strict=True)), map(min, zip(first, last, strict=True))
    return _within(_less(ends, lowest))


def _replaced(evolution: Evolution, quantity: str) -> _Band | None:
    """Both must happen: the smaller of what is forgotten and what is built."""
    false, right = (
        evolution.curves(quantity, f"replaced {which}").get(MASKED) for which in ("input", "output")
    )
    if false is None or right is None:
        return None
    first, last = min(false), max(false)
    forgotten, built = _less(false[first], false[last]), _less(right[last], right[first])
    return _within([*map(min, zip(forgotten, built, strict=True))])


def _influence(evolution: Evolution, quantity: str) -> _Band | None:
    found = _rarest_less_most_frequent(evolution, quantity)
    return None if found is None else _within(found)


def _swapped(evolution: Evolution, quantity: str) -> _Band | None:
    """The effect goes away if less than half of it is left."""
    effect, left = (_rarest_less_most_frequent(evolution, name) for name in ("influence", quantity))
    if effect is None or left is None:
        return None
    return _within(_less((each / 2 for each in effect), left))


def _rarest_less_most_frequent(evolution: Evolution, quantity: str) -> list[float] | None:
    """The mean influence over layers of the rarest bin less that of the last, by seed."""
    rows = evolution.select(quantity=quantity, objective=TRANSLATION)
    bins = list(dict.fromkeys(row.against for row in rows if row.against.startswith("frequency ")))
    if len(bins) < 2:
        return None
    rare, frequent = (
        [
            fmean(row.value for row in rows if (row.against, row.seed) == (name, seed))
            for seed in sorted({row.seed for row in rows})
        ]
        for name in (bins[0], bins[-1])
    )
    return _less(rare, frequent)


def _last(evolution: Evolution, quantity: str, against: str) -> dict[str, list[float]] | None:
    """The values of all seeds in the last layer, by objective; None unless all three are there."""
    curves = evolution.curves(quantity, against)
    if not {TRANSLATION, CAUSAL, MASKED} <= set(curves):
        return None
    return {objective: layers[max(layers)] for objective, layers in curves.items()}


def _less(larger: Iterable[float], smaller: Iterable[float]) -> list[float]:
    return [one - other for one, other in zip(larger, smaller, strict=True)]


def _within(differences: Sequence[float]) -> _Band:
    """Differences within each model: chance gives each its sign."""
    count = len(differences)
    return _Band(min(differences), max(differences), count, 0.5**count)


def _between(larger: Sequence[float], smaller: Sequence[float]) -> _Band:
    """Differences between models: chance gives them any order."""
    low, high = min(larger) - max(smaller), max(larger) - min(smaller)
    chance = 1 / comb(len(larger) + len(smaller), len(larger))
    return _Band(low, high, min(len(larger), len(smaller)), chance)
