"""Findings of Voita et al. (2019) on how representations evolve, tested with a band over seeds.

Every finding is a difference that the paper says is above 0. Its band runs from the smallest to the
largest difference between the seeds. A finding *holds* if the band is above 0, *fails* if it is
below, and is *undecided* if the band contains 0 or there is one seed only. Mutual information and
shares of neighbours are compared between models with the same control.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

from headcount.papers.evolution.record import Evolution

TRANSLATION, CAUSAL, MASKED = "translation", "causal-lm", "masked-lm"
INFORMATION = "mi-miller-madow"


@final
@dataclass(frozen=True)
class Finding:
    """One finding of the paper, and what our models say."""

    claim: str
    """What the paper found."""
    measure: str
    """The difference that must be above 0, in words."""
    low: float
    """Smallest difference between seeds."""
    high: float
    """Largest difference between seeds."""
    seeds: int
    """Number of seeds of each objective."""

    @property
    def verdict(self) -> str:
        """`holds`, `fails` or `undecided`."""
        if self.seeds < 2 or self.low <= 0 <= self.high:
            return "undecided"
        return "holds" if self.low > 0 else "fails"


def findings(evolution: Evolution) -> list[Finding]:
    """Every finding that the numbers allow to test."""
    tests: tuple[Callable[[Evolution], Finding | None], ...] = (
        _identity,
        _position,
        _past,
        _future,
        _rebuilt,
        _replaced,
        _rare,
        _swapped,
    )
    return [found for test in tests if (found := test(evolution)) is not None]


def _identity(evolution: Evolution) -> Finding | None:
    found = _last(evolution, INFORMATION, "input")
    if found is None:
        return None
    others = [*found[CAUSAL], *found[MASKED]]
    return _difference(
        "Translation keeps the identity of tokens best",
        "information about the input token in the last layer: translation less the best other",
        found[TRANSLATION],
        [max(pair) for pair in zip(found[CAUSAL], found[MASKED], strict=False)] or others,
    )


def _position(evolution: Evolution) -> Finding | None:
    found = _last(evolution, "neighbours", "position")
    if found is None:
        return None
    return _difference(
        "Translation keeps the position of tokens best",
        "distance in position of the nearest states in the last layer, in tokens: the lowest other "
        "less translation",
        [min(pair) for pair in zip(found[CAUSAL], found[MASKED], strict=False)],
        found[TRANSLATION],
    )


def _past(evolution: Evolution) -> Finding | None:
    curves = evolution.curves(INFORMATION, "input").get(CAUSAL)
    if curves is None:
        return None
    return _difference(
        "A causal language model forgets the past",
        "information about the input token: first layer less last layer",
        curves[min(curves)],
        curves[max(curves)],
    )


def _future(evolution: Evolution) -> Finding | None:
    curves = evolution.curves(INFORMATION, "output").get(CAUSAL)
    if curves is None:
        return None
    return _difference(
        "A causal language model builds the future",
        "information about the next token: last layer less first layer",
        curves[max(curves)],
        curves[min(curves)],
    )


def _rebuilt(evolution: Evolution) -> Finding | None:
    curves = evolution.curves(INFORMATION, "input").get(MASKED)
    if curves is None or len(curves) < 3:
        return None
    first, *inner, last = (curves[layer] for layer in sorted(curves))
    differences = [
        min(first[seed], last[seed]) - min(each[seed] for each in inner)
        for seed in range(len(first))
    ]
    return _of_seeds(
        "A masked language model loses the token, then rebuilds it",
        "information about the input token: the lower of first and last layer less the lowest "
        "layer between",
        differences,
    )


def _replaced(evolution: Evolution) -> Finding | None:
    """Both must happen: the smaller of what is forgotten and what is built."""
    false, right = (
        evolution.curves(INFORMATION, f"replaced {which}").get(MASKED)
        for which in ("input", "output")
    )
    if false is None or right is None:
        return None
    first, last = min(false), max(false)
    differences = [
        min(false[first][seed] - false[last][seed], right[last][seed] - right[first][seed])
        for seed in range(len(false[first]))
    ]
    return _of_seeds(
        "A masked language model forgets a false token and builds the right one",
        "information about a false token: first layer less last; about the right one: last less "
        "first; the smaller of both",
        differences,
    )


def _rare(evolution: Evolution) -> Finding | None:
    found = _rarest_and_most_frequent(evolution, "influence")
    if found is None:
        return None
    return _difference("Rare tokens influence others most (translation)", _rare_words(""), *found)


def _swapped(evolution: Evolution) -> Finding | None:
    """The effect goes away if less than half of it is left."""
    plain = _rarest_and_most_frequent(evolution, "influence")
    swapped = _rarest_and_most_frequent(evolution, "influence-swapped")
    if plain is None or swapped is None:
        return None
    effect, left = (
        [rare - frequent for rare, frequent in zip(*pair, strict=True)] for pair in (plain, swapped)
    )
    return _difference(
        "The influence of rare tokens goes away with swapped tokens",
        _rare_words(": half of it less that with swapped tokens"),
        [each / 2 for each in effect],
        left,
    )


def _rare_words(more: str) -> str:
    return f"influence of the rarest tokens less that of the most frequent, mean of layers{more}"


def _rarest_and_most_frequent(
    evolution: Evolution, quantity: str
) -> tuple[list[float], list[float]] | None:
    """The mean influence over layers of the first and the last bin of frequency, by seed."""
    rows = evolution.select(quantity=quantity, objective=TRANSLATION)
    bins = list(dict.fromkeys(row.against for row in rows if row.against.startswith("frequency ")))
    if len(bins) < 2:
        return None
    seeds = sorted({row.seed for row in rows})
    rare, frequent = (
        [
            _mean(row.value for row in rows if (row.against, row.seed) == (name, seed))
            for seed in seeds
        ]
        for name in (bins[0], bins[-1])
    )
    return rare, frequent


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _last(evolution: Evolution, quantity: str, against: str) -> dict[str, list[float]] | None:
    """The values of all seeds in the last layer, by objective; None unless all three are there."""
    curves = evolution.curves(quantity, against)
    if not {TRANSLATION, CAUSAL, MASKED} <= set(curves):
        return None
    return {objective: layers[max(layers)] for objective, layers in curves.items()}


def _of_seeds(claim: str, measure: str, differences: Sequence[float]) -> Finding:
    return Finding(claim, measure, min(differences), max(differences), len(differences))


def _difference(
    claim: str, measure: str, larger: Sequence[float], smaller: Sequence[float]
) -> Finding:
    return Finding(
        claim,
        measure,
        min(larger) - max(smaller),
        max(larger) - min(smaller),
        min(len(larger), len(smaller)),
    )
