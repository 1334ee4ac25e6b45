"""Findings of Voita et al. on evolution: planted ones are found; bands decide; models are read."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headcount import papers
from headcount.papers import (
    Evolution,
    EvolutionOptions,
    EvolutionRecord,
    EvolutionRow,
    Finding,
    StoreFacts,
    findings,
)
from headcount.papers.evolution.mutual_information import ESTIMATES
from headcount.papers.reproduce.voita2019evolution import (
    CAUSAL,
    MASKED,
    TRANSLATION,
    VOITA_OPTIONS,
    ceiling_sentence,
)

RECORD = EvolutionRecord(signature="headcount:1", models=("a",), corpora=("b.txt",))

INFORMATION = {
    (TRANSLATION, "input"): (3.9, 3.8, 3.8, 3.7),
    (CAUSAL, "input"): (3.9, 3.0, 2.5, 2.0),
    (MASKED, "input"): (3.8, 2.5, 2.7, 3.4),
    (MASKED, "replaced input"): (3.8, 3.5, 2.7, 2.0),
    (MASKED, "replaced output"): (1.8, 1.5, 1.7, 2.4),
    (CAUSAL, "output"): (1.0, 1.5, 2.0, 2.5),
}

CURVES = {
    **{
        (objective, estimate, against): values
        for (objective, against), values in INFORMATION.items()
        for estimate in ESTIMATES
    },
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


def band(finding: Finding) -> tuple[float, float]:
    """The band of the first estimate."""
    return next(iter(finding.bands.values()))


def named(found: list[Finding], words: str) -> Finding:
    return next(each for each in found if words in each.claim)


def test_planted_findings_hold_with_five_seeds() -> None:
    found = findings(evolution(seeds=5))
    assert [each.verdict for each in found] == ["holds"] * 8
    assert list(named(found, "identity").bands) == list(ESTIMATES)
    low, _ = band(named(found, "false token"))
    assert low == pytest.approx(0.6, abs=0.05)
    rebuilt = named(found, "rebuilds")
    assert 0.8 < band(rebuilt)[0] <= 0.9 + 0.05 and rebuilt.seeds == 5


@pytest.mark.parametrize(
    ("seeds", "between", "within"),
    [
        (1, "undecided", "undecided"),
        (2, "in both seeds", "in both seeds"),
        (3, "holds", "in all 3 seeds"),
        (4, "holds", "in all 4 seeds"),
    ],
)
def test_few_seeds_do_not_hold(seeds: int, between: str, within: str) -> None:
    """Two models against two are in this order by chance once in six, three once in twenty."""
    found = findings(evolution(seeds))
    against_others = [named(found, "identity of tokens"), named(found, "position of tokens")]
    assert {each.verdict for each in against_others} == {between}
    assert {each.verdict for each in found if each not in against_others} == {within}
    chance = [named(found, words).chance for words in ("identity of", "past")]
    assert chance == pytest.approx([{1: 1 / 2, 2: 1 / 6, 3: 1 / 20, 4: 1 / 70}[seeds], 0.5**seeds])


def test_a_finding_holds_only_where_all_estimates_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    for estimate in ESTIMATES:
        with monkeypatch.context() as patch:
            patch.setitem(CURVES, (CAUSAL, estimate, "input"), (2.0, 3.0, 2.5, 2.2))
            past = named(findings(evolution(seeds=5)), "forgets the past")
        assert past.verdict == "undecided", estimate
    for estimate in ESTIMATES:
        monkeypatch.setitem(CURVES, (CAUSAL, estimate, "input"), (2.0, 3.0, 2.5, 2.2))
    assert named(findings(evolution(seeds=5)), "forgets the past").verdict == "fails"
    assert named(findings(evolution(seeds=3)), "forgets the past").verdict == "in none of 3 seeds"
    assert named(findings(evolution(seeds=2)), "forgets the past").verdict == "in neither seed"


def test_an_estimate_that_is_missing_tests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CURVES, (CAUSAL, "mi-left-out", "input"))
    assert not [each for each in findings(evolution()) if "past" in each.claim]


def test_translation_is_compared_with_the_nearest_other() -> None:
    found = findings(evolution(noise=0))
    assert band(named(found, "position of tokens")) == pytest.approx((1.2, 1.2)), "2.2, not 2.7"
    assert band(named(found, "identity"))[0] == pytest.approx(3.7 - 3.4)


@pytest.mark.parametrize(("left", "verdict"), [(0.09, "holds"), (0.15, "fails")])
def test_an_effect_goes_away_if_less_than_half_is_left(
    left: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The influence of rare tokens is 0.2 above that of frequent ones."""
    rare = (TRANSLATION, "influence-swapped", "frequency 1-5")
    monkeypatch.setitem(CURVES, rare, (0.1 + left,) * 3)
    found = named(findings(evolution(seeds=5, noise=0)), "goes away")
    assert found.verdict == verdict and band(found)[0] == pytest.approx(0.1 - left)


def test_noise_is_undecided_or_fails() -> None:
    """Without structure no finding holds, but one that takes the lowest of several layers."""
    found = findings(evolution(seeds=5, noise=0.5, flat=True))
    assert {each.verdict for each in found if "rebuilds" not in each.claim} == {"undecided"}


def test_quantities_that_are_missing_test_nothing() -> None:
    assert findings(Evolution(RECORD, (), ())) == []
    assert papers.findings_table(Evolution(RECORD, (), ())).rows == ()


@pytest.mark.slow
def test_the_document_shows_findings_curves_and_figures(tmp_path: Path) -> None:
    path = tmp_path / "voita2019evolution.md"
    papers.voita2019evolution_document(evolution()).write(path)
    text = path.read_text(encoding="utf-8")
    assert "| A causal language model forgets the past" in text and "in both seeds" in text
    assert "miller-madow 1.8" in text and "; left-out 1.8" in text
    assert "less-shuffled drops" not in text and "(on states left out)" in text
    assert "causal-lm drops from 3.9" in text and "lowest 2.5" in text
    assert (tmp_path / "figures" / "mi-miller-madow-input.svg").exists()


def test_the_document_says_how_near_information_is_to_its_ceiling() -> None:
    assert ceiling_sentence(evolution()) == ""
    facts = StoreFacts("a", TRANSLATION, 1, "text", 50, 300, 15_000, 1)
    found = replace(evolution(noise=0), record=replace(RECORD, stores=(facts,)))
    said = ceiling_sentence(found)
    assert "300 tokens have at most ln 300 = 5.704 nats" in said
    assert "translation 64.9\u202f% to 64.9\u202f%, causal-lm 35.1\u202f% to 35.1\u202f%" in said


def test_information_of_the_reproduction_does_not_saturate() -> None:
    """States are bounded, each token can have clusters of its own, and clusters many states."""
    assert isinstance(VOITA_OPTIONS, EvolutionOptions) and VOITA_OPTIONS.clusters is not None
    states = VOITA_OPTIONS.types * VOITA_OPTIONS.occurrences
    assert states <= 40_000 and states / VOITA_OPTIONS.clusters >= 2 * VOITA_OPTIONS.types
    assert VOITA_OPTIONS.types >= 100 and VOITA_OPTIONS.clusters >= 2 * VOITA_OPTIONS.types
    assert VOITA_OPTIONS.nearest < VOITA_OPTIONS.occurrences


def test_missing_models_have_trainings() -> None:
    found = papers.evolution_trainings(["a.tsv"], ["b.tsv"], seeds=2)
    assert list(found)[:3] == ["translation-1", "causal-lm-1", "masked-lm-1"] and len(found) == 6
    one = found["causal-lm-2"]
    assert (one.objective, one.seed, one.recipe.epochs) == ("causal-lm", 2, 6)
    assert one.recipe.batch_tokens == 6000 and one.recipe.concatenated == pytest.approx(0)
