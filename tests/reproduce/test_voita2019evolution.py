"""Findings of Voita et al. on evolution: planted ones are found; bands decide; models are read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount import reproduce
from headcount.evolution import EvolutionOptions
from headcount.reproduce import Finding, findings
from headcount.reproduce.evolution_findings import CAUSAL, INFORMATION, MASKED, TRANSLATION
from headcount.reproduce.voita2019evolution import OPTIONS, ceiling_sentence
from headcount.results import Evolution, EvolutionRecord, EvolutionRow, StoreFacts

RECORD = EvolutionRecord(signature="headcount:1", models=("a",), corpora=("b.txt",))

CURVES = {
    (TRANSLATION, INFORMATION, "input"): (3.9, 3.8, 3.8, 3.7),
    (CAUSAL, INFORMATION, "input"): (3.9, 3.0, 2.5, 2.0),
    (MASKED, INFORMATION, "input"): (3.8, 2.5, 2.7, 3.4),
    (MASKED, INFORMATION, "replaced input"): (3.8, 3.5, 2.7, 2.0),
    (MASKED, INFORMATION, "replaced output"): (1.8, 1.5, 1.7, 2.4),
    (CAUSAL, INFORMATION, "output"): (1.0, 1.5, 2.0, 2.5),
    (TRANSLATION, "neighbours", "position"): (3.0, 1.5, 1.2, 1.0),
    (CAUSAL, "neighbours", "position"): (3.0, 2.5, 2.6, 2.7),
    (MASKED, "neighbours", "position"): (3.0, 2.0, 2.1, 2.2),
    (TRANSLATION, "influence", "frequency 1-5"): (0.3, 0.3, 0.3),
    (TRANSLATION, "influence", "frequency 900-9000"): (0.1, 0.1, 0.1),
    (TRANSLATION, "influence-swapped", "frequency 1-5"): (0.11, 0.1, 0.1),
    (TRANSLATION, "influence-swapped", "frequency 900-9000"): (0.1, 0.1, 0.1),
}


def evolution(seeds: int = 2, noise: float = 0.01, flat: bool = False) -> Evolution:
    generator = np.random.default_rng(0)
    rows = [
        EvolutionRow(
            f"{objective}-{seed}",
            objective,
            seed,
            layer,
            quantity,
            against,
            (1.0 if flat else value) + float(generator.normal(0, noise)),
        )
        for seed in range(1, seeds + 1)
        for (objective, quantity, against), values in CURVES.items()
        for layer, value in enumerate(values)
    ]
    return Evolution(RECORD, tuple(rows), ())


def test_planted_findings_hold() -> None:
    found = findings(evolution())
    assert [each.verdict for each in found] == ["holds"] * 8
    rebuilt = next(each for each in found if "rebuilds" in each.claim)
    replaced = next(each for each in found if "false token" in each.claim)
    assert replaced.low == pytest.approx(0.6, abs=0.05)
    assert 0.8 < rebuilt.low <= 0.9 + 0.05 and rebuilt.seeds == 2


def test_translation_is_compared_with_the_nearest_other() -> None:
    found = findings(evolution(noise=0))
    position = next(each for each in found if "position of tokens" in each.claim)
    assert (position.low, position.high) == pytest.approx((1.2, 1.2)), "2.2, not 2.7, less 1"
    identity = next(each for each in found if "identity" in each.claim)
    assert identity.low == pytest.approx(3.7 - 3.4)


@pytest.mark.parametrize(("left", "verdict"), [(0.09, "holds"), (0.15, "fails")])
def test_an_effect_goes_away_if_less_than_half_is_left(
    left: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The influence of rare tokens is 0.2 above that of frequent ones."""
    rare = (TRANSLATION, "influence-swapped", "frequency 1-5")
    monkeypatch.setitem(CURVES, rare, (0.1 + left,) * 3)
    (found,) = [each for each in findings(evolution(noise=0)) if "goes away" in each.claim]
    assert found.verdict == verdict and found.low == pytest.approx(0.1 - left)


def test_noise_is_undecided_or_fails() -> None:
    """Without structure no finding holds, but one that takes the lowest of several layers."""
    found = findings(evolution(seeds=5, noise=0.5, flat=True))
    assert {each.verdict for each in found if "rebuilds" not in each.claim} == {"undecided"}


def test_one_seed_decides_nothing() -> None:
    assert {each.verdict for each in findings(evolution(seeds=1))} == {"undecided"}


def test_a_band_below_the_control_fails() -> None:
    assert Finding("", "", -0.3, -0.1, 2).verdict == "fails"
    assert Finding("", "", -0.1, 0.1, 2).verdict == "undecided"
    assert Finding("", "", 0.1, 0.3, 2).verdict == "holds"


def test_quantities_that_are_missing_test_nothing() -> None:
    assert findings(Evolution(RECORD, (), ())) == []


def test_the_document_shows_findings_curves_and_figures(tmp_path: Path) -> None:
    path = reproduce.write_voita2019evolution(evolution(), tmp_path)
    text = path.read_text(encoding="utf-8")
    assert "| A causal language model forgets the past" in text and "holds" in text
    assert "causal-lm drops from 3.9" in text and "lowest 2.5" in text
    assert (tmp_path / "figures" / "mi-miller-madow-input.svg").exists()


def test_the_document_says_how_near_information_is_to_its_ceiling() -> None:
    assert ceiling_sentence(evolution()) == ""
    facts = StoreFacts("a", TRANSLATION, 1, "text", 50, 300, 15_000, 1)
    found = replace(evolution(noise=0), record=replace(RECORD, stores=(facts,)))
    said = ceiling_sentence(found)
    assert "300 tokens have at most ln 300 = 5.704 nats" in said
    assert "translation 64.87 to 64.87 %, causal-lm 35.06 to 35.06 %" in said


def test_information_of_the_reproduction_does_not_saturate() -> None:
    """States are bounded, tokens are many, and each can have clusters of its own."""
    assert isinstance(OPTIONS, EvolutionOptions) and OPTIONS.clusters is not None
    assert OPTIONS.types * OPTIONS.occurrences <= 20_000
    assert OPTIONS.types >= 300 and OPTIONS.clusters >= 2 * OPTIONS.types
    assert OPTIONS.nearest < OPTIONS.occurrences


def test_missing_models_have_trainings() -> None:
    found = reproduce.evolution_trainings(["a.tsv"], ["b.tsv"], seeds=2)
    assert list(found)[:3] == ["translation-1", "causal-lm-1", "masked-lm-1"] and len(found) == 6
    one = found["causal-lm-2"]
    assert (one.objective, one.seed, one.recipe.epochs) == ("causal-lm", 2, 6)
    assert one.recipe.batch_tokens == 6000 and one.recipe.concatenated == pytest.approx(0)
