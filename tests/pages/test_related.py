"""Related heads: the cosine of two profiles, in loops, and heads that are made alike."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount.numbers import weight
from headcount.pages import report_view
from headcount.results import Profiles, TraitStrength
from headcount.results.profiles import LEAST, RELATED, related_heads
from tests.pages.run_folder import shared_run
from tests.pages.test_profile_view import TRAIT


def cosine(one: dict[str, float], other: dict[str, float]) -> float:
    """The cosine of two profiles, trait by trait."""
    product = sum(one[trait] * other[trait] for trait in one if trait in other)
    size = math.sqrt(sum(x * x for x in one.values())) * math.sqrt(
        sum(x * x for x in other.values())
    )
    return product / size if size else 0.0


def strengths(profiles: Profiles, head: str) -> dict[str, float]:
    """What counts of a profile: tested traits, cut to 0 ... 1."""
    return {
        each.trait: min(1.0, max(0.0, each.strength))
        for each in profiles[head]
        if each.verdict != "untested"
    }


def test_related_heads_are_those_of_the_textbook(profiled: Path):
    run = shared_run(profiled)
    assert run.traits is not None
    heads = [row.head for row in run.rows]
    for head, found in related_heads(run.traits, heads).items():
        own = strengths(run.traits, head)
        others = {
            other: cosine(own, strengths(run.traits, other)) for other in heads if other != head
        }
        best = sorted((others[each] for each in others), reverse=True)[:RELATED]
        assert [each.similarity for each in found] == [weight(x) for x in best if x >= LEAST]
        for each in found:
            assert weight(others[each.head]) == each.similarity


def test_a_twin_is_found_and_noise_is_not():
    random = np.random.default_rng(5)
    traits = [f"t{number}" for number in range(41)]

    def profile(head: str, strength_T: np.ndarray) -> list[TraitStrength]:
        return [
            replace(TRAIT, head=head, trait=trait, strength=float(strength))
            for trait, strength in zip(traits, strength_T, strict=True)
        ]

    one, two = np.zeros(41), np.zeros(41)
    one[[3, 7]], two[[11, 13]] = (0.8, 0.3), (0.9, 0.2)
    profiles = {
        "enc.0.0": profile("enc.0.0", one),
        "enc.0.1": profile("enc.0.1", two),
        "enc.1.0": profile("enc.1.0", 0.5 * one + 0.01 * random.random(41)),
        "enc.1.1": profile("enc.1.1", np.full(41, -0.2)),
    }
    found = related_heads(profiles, [*profiles])
    assert [each.head for each in found["enc.0.0"]] == ["enc.1.0"]
    assert found["enc.0.1"] == found["enc.1.1"] == ()


def test_a_trait_that_could_not_be_tested_relates_nothing():
    few = replace(TRAIT, trait="rare", strength=0.9, verdict="untested")
    profiles = {"enc.0.0": (few,), "enc.0.1": (replace(few, head="enc.0.1"),)}
    assert related_heads(profiles, [*profiles]) == {"enc.0.0": (), "enc.0.1": ()}


@pytest.mark.slow
def test_cards_name_related_heads_and_runs_without_profiles_none(profiled: Path, plain: Path):
    assert any(card.related for card in report_view(shared_run(profiled)).cards)
    assert not any(card.related for card in report_view(shared_run(plain)).cards)
