r"""Matching: which head of one model does what a head of another model does.

Two models trained apart number their heads by chance. Each head is described by its profile: the
strength of every trait that most heads of the site have enough cases for in both runs, limited to
[-1, 1] and standardised over the heads of the site, run by run. A trait is divided by the root of
the number of traits that can give the same role, so every role weighs alike. Pairs minimise the sum
of Euclidean distances (the Hungarian method):

$$\min_\pi \sum_h \lVert z_A(h) - z_B(\pi(h)) \rVert$$

Numbers that chose pairs agree over them by construction. So correlations are of held-out numbers:
traits of one role over pairs chosen by the traits of all other roles, and columns of the head
table (confidence, importance), which choose nothing. They are compared with those of random pairs
within the site, and of pairs whose second heads are shuffled within their layers: the part that
the depth of a head alone explains.

Reference: The Hungarian Method for the Assignment Problem (Kuhn, 1955),
    https://doi.org/10.1002/nav.3800020109; models trained apart: Convergent Learning: Do different
    neural networks learn the same representations? (Li et al., 2016),
    https://arxiv.org/abs/1511.07543
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from headcount.compare.matching import Chance, MatchedPair, Matching, PairCorrelation, SiteMatching
from headcount.core import InputError, paced
from headcount.results import Analysis, HeadRow
from headcount.statistics import check_draws, holm, middle, p_at_least

DRAWS = 10_000
"""Number of random pairings of a correlation."""

REMATCHED = 100
"""Number of shuffled profiles that are matched again."""

COLUMNS = ("confidence", "entropy", "ablation_delta", "gradient", "relevance")
"""Columns of the head table whose correlation over pairs is reported, if both runs have them."""

ALL_TRAITS = "all held-out traits"
"""Name of the mean over held-out traits."""

Pairs = tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]
"""Numbers of the paired heads in both models."""


def match_heads(
    one: Analysis, other: Analysis, names: tuple[str, str] = ("A", "B"), draws: int = DRAWS
) -> Matching:
    """Pair the heads of two runs by their profiles, across layers and within them.

    Args:
        one: the first run.
        other: the second run, of a model with other weights or on other data.
        names: names of the runs.
        draws: number of random pairings of a correlation.

    Raises:
        InputError: if a run has no profiles, or the runs share no site with traits to match by.
    """
    for run, name in zip((one, other), names, strict=True):
        if not run.traits:
            raise InputError(
                f"Expected runs with profiles, but {name} has none. "
                "Analyze it again with this version."
            )
    found, warnings = list[SiteMatching](), list[str]()
    for site in one.sites:
        if site not in other.sites:
            warnings.append(f"{site}: only one of the models has it")
            continue
        pair = _Site(site, one), _Site(site, other)
        traits = _shared(*pair)
        if len({role for _, role in traits}) < 2:
            warnings.append(f"{site}: fewer than two kinds of traits were measured in both runs")
            continue
        found += _Matcher(pair, traits, draws).run()
    if not found:
        raise InputError(
            f"Expected runs that share a site with traits of two kinds, got {'; '.join(warnings)}. "
            "Analyze both on more text."
        )
    signatures = (one.record.signature, other.record.signature)
    return Matching(
        runs=names,
        signatures=signatures,
        draws=draws,
        sites=tuple(found),
        warnings=tuple(warnings),
    )


@final
class _Site:
    """The heads of one site of one run, with their traits and columns as arrays."""

    def __init__(self, site: str, run: Analysis) -> None:
        self.site = site
        self.rows: Sequence[HeadRow] = [row for row in run.rows if row.site == site]
        self.layers = np.array([row.layer for row in self.rows])
        traits: dict[tuple[str, str], list[float]] = {}
        tested: dict[tuple[str, str], int] = {}
        for row in self.rows:
            for trait in (run.traits or {}).get(row.head, ()):
                key = (trait.trait, trait.role)
                traits.setdefault(key, []).append(float(np.clip(trait.strength, -1, 1)))
                tested[key] = tested.get(key, 0) + (trait.verdict != "untested")
        self.traits: Mapping[tuple[str, str], np.ndarray] = {
            key: np.array(values)
            for key, values in traits.items()
            if 2 * tested[key] > len(self.rows) == len(values) and _varies(np.array(values))
        }

    def column(self, name: str) -> np.ndarray:
        """A column of the head table; NaN where a head or the run lacks it."""
        return np.array([row.values.get(name, np.nan) for row in self.rows])

    def standardised(self, traits: Sequence[tuple[str, str]]) -> Float[np.ndarray, "head trait"]:
        """The traits with mean 0 and deviation 1 over heads, each role with the same weight."""
        roles = [role for _, role in traits]
        values = np.stack([self.traits[key] for key in traits], axis=1)
        values = (values - values.mean(0)) / values.std(0)
        return values / np.sqrt([roles.count(role) for role in roles])


def _varies(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all() and np.ptp(values) > 0)


def _shared(one: _Site, other: _Site) -> list[tuple[str, str]]:
    """Name and role of the traits that both runs measured."""
    return [key for key in one.traits if key in other.traits]


@final
@dataclass(frozen=True)
class _Matcher:
    """The matching of one site by shared traits."""

    pair: tuple[_Site, _Site]
    traits: Sequence[tuple[str, str]]
    draws: int

    def run(self) -> Iterator[SiteMatching]:
        """The matching across layers and, if layers can be paired, within them."""
        yield self._matching(None)
        is_same_layer = self.pair[0].layers[:, None] == self.pair[1].layers
        if is_same_layer.any():
            yield self._matching(is_same_layer)

    def _matching(self, is_allowed: Bool[np.ndarray, "one other"] | None) -> SiteMatching:
        one, other = self.pair
        places = [side.standardised(self.traits) for side in self.pair]
        distances = cdist(places[0], places[1])
        pairs = assign(distances, is_allowed)
        distance = float(distances[pairs].mean())
        apart = _layers_apart(one.layers, other.layers)
        random = np.random.default_rng(0)
        return SiteMatching(
            site=one.site,
            across_layers=is_allowed is None,
            heads=(len(one.rows), len(other.rows)),
            traits=tuple(name for name, _ in self.traits),
            pairs=tuple(
                MatchedPair(one.rows[a].head, other.rows[b].head, float(distances[a, b]))
                for a, b in zip(*pairs, strict=True)
            ),
            distance=distance,
            distance_by_chance=_chance(distance, self._rematched(is_allowed), lower=True),
            layers_apart=float(apart[pairs].mean()),
            layers_apart_by_chance=_chance(
                float(apart[pairs].mean()),
                np.array([apart[p].mean() for p in _random_pairs(apart.shape, random, self.draws)]),
                lower=True,
            ),
            correlations=self._correlations(pairs, is_allowed),
        )

    def _rematched(self, is_allowed: np.ndarray | None) -> Float[np.ndarray, " draw"]:
        """Mean distances of pairs after every trait of the second model is shuffled on its own."""
        random = np.random.default_rng(0)
        one, other = (side.standardised(self.traits) for side in self.pair)
        found = []
        for _ in range(REMATCHED):
            distances = cdist(one, random.permuted(other, axis=0))
            found.append(distances[assign(distances, is_allowed)].mean())
        return np.array(found)

    def _correlations(
        self, pairs: Pairs, is_allowed: np.ndarray | None
    ) -> tuple[PairCorrelation, ...]:
        """Correlations of held-out traits, their mean first, and of columns of the head table."""
        drawn = list[_Drawn]()
        for role in dict.fromkeys(role for _, role in self.traits):
            chosen_by = [key for key in self.traits if key[1] != role]
            places = [side.standardised(chosen_by) for side in self.pair]
            own = assign(cdist(places[0], places[1]), is_allowed)
            one, other = (side.traits for side in self.pair)
            held_out = [key for key in self.traits if key[1] == role]
            numbers = [(key[0], role, one[key], other[key]) for key in held_out]
            drawn += self._drawn(own, numbers)
        drawn.insert(0, _mean_of(drawn))
        columns = []
        for name in COLUMNS:
            one, other = (side.column(name) for side in self.pair)
            if _varies(one) and _varies(other):
                columns.append((name, "", one, other))
        drawn += self._drawn(pairs, columns)
        p = holm(np.array([each.p for each in drawn[1:]]))
        corrected = [drawn[0].p, *p.tolist()]
        return tuple(each.found(p) for each, p in zip(drawn, corrected, strict=True))

    def _drawn(
        self, pairs: Pairs, numbers: Sequence[tuple[str, str, np.ndarray, np.ndarray]]
    ) -> Iterator["_Drawn"]:
        """Correlations of some numbers over pairs, and over the same random ones for all."""
        layers = self.pair[1].layers[pairs[1]]
        num = len(layers)
        is_shuffled = num > len(set(layers.tolist()))
        random = np.random.default_rng(0)
        check_draws(self.draws, num)
        orders = [random.permuted(np.tile(np.arange(num), (self.draws, 1)), axis=1)]
        if is_shuffled:
            orders.append(_within(layers, orders[0]))
        for name, group, one, other in numbers:
            x, y = _ranks(one[pairs[0]]), _ranks(other[pairs[1]])
            values = [y[order] @ x for order in orders]
            yield _Drawn(name, group, float(x @ y), values[0], values[1] if is_shuffled else None)


@final
@dataclass(frozen=True)
class _Drawn:
    """A correlation with those of random pairs."""

    number: str
    group: str
    rho: float
    random: Float[np.ndarray, " draw"]
    """Correlations over random pairs within the site."""
    same_layers: Float[np.ndarray, " draw"] | None
    """The same with second heads shuffled within their layers."""

    @property
    def p(self) -> float:
        """The larger of both p-values."""
        kinds = [each for each in (self.random, self.same_layers) if each is not None]
        return max(_chance(self.rho, each).p for each in kinds)

    def found(self, p_holm: float) -> PairCorrelation:
        """The correlation as it is reported."""
        layers = None if self.same_layers is None else _chance(self.rho, self.same_layers)
        random = _chance(self.rho, self.random)
        return PairCorrelation(self.number, self.group, self.rho, random, layers, p_holm)


def _mean_of(drawn: Sequence[_Drawn]) -> _Drawn:
    """The mean of the correlations of traits, draw by draw."""
    layers = [each.same_layers for each in drawn if each.same_layers is not None]
    return _Drawn(
        ALL_TRAITS,
        "",
        float(np.mean([each.rho for each in drawn])),
        np.mean([each.random for each in drawn], axis=0),
        np.mean(layers, axis=0) if len(layers) == len(drawn) else None,
    )


def assign(
    distances: Float[np.ndarray, "one other"],
    is_allowed: Bool[np.ndarray, "one other"] | None = None,
) -> Pairs:
    """The pairs with the least sum of distances, by rows.

    Args:
        distances: distances of heads of two models.
        is_allowed: blocks of heads that can be paired (the heads of a layer); None for all.
    """
    if is_allowed is None:
        return linear_sum_assignment(distances)
    rows, columns = list[int](), list[int]()
    blocks = dict.fromkeys(map(tuple, is_allowed[is_allowed.any(1)].tolist()))
    for block in blocks:
        (inside,) = np.nonzero((is_allowed == np.array(block)).all(1))
        (beside,) = np.nonzero(block)
        one, other = linear_sum_assignment(distances[np.ix_(inside, beside)])
        rows += inside[one].tolist()
        columns += beside[other].tolist()
    order = np.argsort(rows)
    return np.array(rows)[order], np.array(columns)[order]


def _layers_apart(one: np.ndarray, other: np.ndarray) -> Float[np.ndarray, "one other"]:
    """Layers between heads; the second model's layers are scaled to as many as the first's."""
    scale = max(one.max(), 1) / max(other.max(), 1)
    return np.abs(one[:, None] - other * scale)


def _random_pairs(
    shape: tuple[int, ...], random: np.random.Generator, draws: int
) -> Iterator[Pairs]:
    num = min(shape)
    for _ in paced(range(draws), draws, "draws"):
        yield random.permutation(shape[0])[:num], random.permutation(shape[1])[:num]


def _within(layers: np.ndarray, orders: Int[np.ndarray, "draw pair"]) -> np.ndarray:
    """Orders that shuffle pairs within layers, from orders that shuffle all pairs."""
    shuffled = np.empty_like(orders)
    for layer in np.unique(layers):
        (places,) = np.nonzero(layers == layer)
        shuffled[:, places] = places[np.argsort(orders[:, places], axis=1)]
    return shuffled


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks of mean 0 and length 1, whose products are rank correlations; 0 if all are equal."""
    ranks = rankdata(values) - (len(values) + 1) / 2
    length = np.linalg.norm(ranks)
    return ranks / length if length else ranks


def _chance(value: float, drawn: Float[np.ndarray, " draw"], lower: bool = False) -> Chance:
    """Mean, range and p-value of what chance gives; lower numbers are better if `lower`."""
    p = p_at_least(-value, -drawn) if lower else p_at_least(value, drawn)
    return Chance(float(drawn.mean()), *middle(drawn), p)
