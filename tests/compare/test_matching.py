"""Heads matched by what they do: a shuffled copy is found, random numbers agree by chance only."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from headcount.compare import Matching, SiteMatching, match_heads, write_comparison
from headcount.core import InputError
from headcount.results import Analysis, read_run
from tests.commanding import headcount
from tests.pages.changed import changed
from tests.pages.run_folder import TRAITS, Wish, write_run
from tests.textbook.matching import best_pairs

pytestmark = pytest.mark.usefixtures("one_format")


def match(one: Analysis, other: Analysis) -> Matching:
    return match_heads(one, other, draws=200)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """A run over 3 layers x 5 heads at two sites, with random traits."""
    wish = Wish(sites=("encoder.self", "decoder.cross"), layers=3, heads=5, profiles=True)
    found = read_run(write_run(tmp_path_factory.mktemp("run"), wish))
    return with_traits(found, np.random.default_rng(0).normal(0, 0.3, (30, len(TRAITS))))


def with_traits(run: Analysis, strengths: np.ndarray) -> Analysis:
    """The run with other strengths, by head and trait."""
    profiles = {
        row.head: tuple(
            replace(trait, strength=float(strength))
            for trait, strength in zip((run.traits or {})[row.head], values, strict=True)
        )
        for row, values in zip(run.rows, strengths, strict=True)
    }
    return changed(run, traits=profiles)


def strengths_of(run: Analysis) -> np.ndarray:
    profiles = run.traits or {}
    return np.array([[trait.strength for trait in profiles[row.head]] for row in run.rows])


def shuffled(
    run: Analysis, order: Callable[[np.ndarray], np.ndarray]
) -> tuple[Analysis, dict[str, str]]:
    """The run with the heads of each site in another order, and the new name of each head."""
    places = np.arange(len(run.rows))
    new = np.concatenate([order(places[:15]), order(places[15:])])
    heads = tuple(
        replace(row, values=run.rows[old].values) for row, old in zip(run.rows, new, strict=True)
    )
    names = {run.rows[old].head: row.head for row, old in zip(run.rows, new, strict=True)}
    return with_traits(changed(run, rows=heads), strengths_of(run)[new]), names


def same_names(site: SiteMatching) -> int:
    return sum(pair.one == pair.other for pair in site.pairs)


def first(run: Analysis, other: Analysis) -> SiteMatching:
    return match(run, other).sites[0]


@pytest.mark.slow
def test_a_copy_with_other_numbers_of_heads_is_matched_exactly(run: Analysis) -> None:
    other, names = shuffled(run, np.random.default_rng(1).permutation)
    found = [site for site in match(run, other).sites if site.across_layers]
    assert {pair.one: pair.other for site in found for pair in site.pairs} == names
    for site in found:
        assert site.distance == pytest.approx(0, abs=1e-9)
        assert site.distance_by_chance.p == 1 / 101 and site.distance_by_chance.low > 0.1
        rhos = {each.number: each.rho for each in site.correlations}
        assert rhos["confidence"] == pytest.approx(1) and rhos["all held-out traits"] > 0.99
        moved = [abs(int(a.split(".")[1]) - int(b.split(".")[1])) for a, b in names.items()]
        half = slice(0, 15) if site.site == "encoder.self" else slice(15, 30)
        assert site.layers_apart == pytest.approx(np.mean(moved[half]))
    assert same_names(first(run, run)) == 15
    assert first(run, run).layers_apart_by_chance.p == 1 / 201


def test_within_layers_heads_keep_their_layer(run: Analysis) -> None:
    other, names = shuffled(run, lambda places: places.reshape(3, 5)[:, ::-1].ravel())
    across, within = match(run, other).sites[:2]
    assert not within.across_layers and within.layers_apart == 0
    assert {pair.one: pair.other for pair in within.pairs} == {
        head: names[head] for head in names if head.startswith("enc")
    }
    assert [pair.one for pair in across.pairs] == [row.head for row in run.rows[:15]]
    moved, _ = shuffled(run, np.random.default_rng(2).permutation)
    for pair in match(run, moved).sites[1].pairs:
        assert pair.one.split(".")[:2] == pair.other.split(".")[:2]


def test_pairs_and_distances_are_those_of_the_definition(run: Analysis) -> None:
    other = with_traits(run, np.random.default_rng(5).normal(0, 0.9, (30, len(TRAITS))))
    few = [changed(each, rows=each.rows[:6]) for each in (run, other)]
    tables = [dict(zip(TRAITS, strengths_of(each).T[:, :6].tolist(), strict=True)) for each in few]
    pairs, distance = best_pairs(tables[0], tables[1], TRAITS)
    found = first(few[0], few[1])
    heads = [row.head for row in run.rows]
    assert [heads.index(pair.other) for pair in found.pairs] == pairs
    assert found.distance == pytest.approx(distance)
    held_out = {trait: role for trait, role in TRAITS.items() if role != "positional"}
    pairs, _ = best_pairs(tables[0], tables[1], held_out)
    rho = spearmanr(tables[0]["previous"], np.array(tables[1]["previous"])[pairs])[0]
    (previous,) = (each for each in found.correlations if each.number == "previous")
    assert previous.rho == pytest.approx(rho) and previous.group == "positional"


@pytest.mark.slow
def test_random_numbers_give_what_chance_gives(run: Analysis) -> None:
    random = np.random.default_rng(7)
    one = changed(run, rows=run.rows[:15])
    p, distances = [], []
    for _ in range(12):
        site = first(one, with_traits(one, random.normal(0, 0.3, (15, len(TRAITS)))))
        p.append(site.correlations[0].random.p)
        distances.append(site.distance_by_chance.p)
    assert sum(each < 0.1 for each in p) <= 3 and 0.25 < np.mean(p) < 0.75
    assert sum(each < 0.1 for each in distances) <= 3


@pytest.mark.slow
def test_traits_that_come_together_are_found_and_depth_alone_is_not_enough(run: Analysis) -> None:
    random = np.random.default_rng(3)

    def noisy(latent: np.ndarray) -> Analysis:
        return with_traits(run, 0.3 * latent[:, None] + random.normal(0, 0.05, (30, len(TRAITS))))

    latent = random.normal(0, 1, 30)
    other, _ = shuffled(noisy(latent), random.permutation)
    for found in (first(noisy(latent), other), first(noisy(latent), noisy(latent))):
        mean = found.correlations[0]
        assert mean.rho > 0.6 and mean.random.p < 0.01
        assert mean.same_layers is not None and mean.same_layers.p < 0.01
    depth = np.repeat([0.0, 1.0, 2.0, 0.0, 1.0, 2.0], 5)
    layers = first(noisy(depth), noisy(depth)).correlations[0]
    assert layers.random.p < 0.01
    assert layers.same_layers is not None and layers.same_layers.p > 0.05
    assert layers.rho - layers.same_layers.mean < 0.15


def test_the_larger_model_keeps_heads_without_a_pair(run: Analysis) -> None:
    larger = changed(run, rows=run.rows[:15])
    smaller = changed(run, rows=run.rows[2:9])
    for pair in (larger, smaller), (smaller, larger):
        site = first(*pair)
        assert sorted(site.heads) == [7, 15] and len(site.pairs) == same_names(site) == 7


def test_what_cannot_be_matched_is_refused(run: Analysis) -> None:
    with pytest.raises(InputError, match="profiles, but B has none"):
        match(run, changed(run, traits=None))
    cross = changed(run, rows=run.rows[15:])
    assert match(run, cross).warnings == ("encoder.self: only one of the models has it",)
    with pytest.raises(InputError, match="share a site with traits of two kinds"):
        match(cross, changed(run, rows=run.rows[:15]))
    constant = strengths_of(run)
    constant[:, 1:] = 0.5
    with pytest.raises(InputError, match="fewer than two kinds of traits"):
        match(run, with_traits(run, constant))
    untested = {
        head: tuple(replace(trait, verdict="untested") for trait in traits)
        for head, traits in (run.traits or {}).items()
    }
    with pytest.raises(InputError, match="fewer than two kinds of traits"):
        match(run, changed(run, traits=untested))


@pytest.mark.slow
def test_the_command_writes_the_matching(tmp_path: Path) -> None:
    wish = Wish(layers=2, heads=11, profiles=True)
    one = write_run(tmp_path / "one", wish)
    other = write_run(tmp_path / "other", replace(wish, heads=7, seed=4))
    out = tmp_path / "out"
    status, output, errors = headcount("compare", one, other, "--match", "--out", out)
    assert status == 0, errors
    assert "Encoder self-attention, across layers: Held-out traits of matched heads" in output
    found = Matching.read(out)
    assert [site.across_layers for site in found.sites] == [True, False]
    assert found.runs == ("one", "other") and len(found.sites[0].pairs) == 14
    for name in ("comparison.md", "comparison.html"):
        text = (out / name).read_text(encoding="utf-8")
        assert "atched heads correlate" in text and found.sites[0].pairs[0].other in text
    assert write_comparison(one, other, out).matching is None
    assert not (out / "matching.json").exists()
