"""Induction and duplicate-token heads in the profiles of causal models."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import headcount
from headcount import Corpus
from headcount.analysis import Options
from headcount.analysis.roles import (
    LENGTH,
    TEXTS,
    find_roles,
    judged,
    repeated_profiles,
    repeated_roles,
    tendencies,
)
from headcount.measures.induction import RepeatedTokens, pattern_means
from headcount.models import Loaded
from tests import saved

TRAITS = ("induction", "duplicate")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


def planted(loaded: Loaded, monkeypatch: pytest.MonkeyPatch, gains: list[float]) -> pd.DataFrame:
    """Profiles of heads whose induction exceeds its control by some gains, with noise."""
    random, num_heads = np.random.default_rng(1), len(loaded.heads)
    gain_H = np.resize(gains, num_heads)
    other = random.uniform(0.0, 0.1, (3, TEXTS, num_heads))
    repeated = random.uniform(0.0, 0.1, (3, TEXTS, num_heads))
    repeated[0] += gain_H
    monkeypatch.setattr("headcount.analysis.roles.pattern_means", lambda *_: (repeated, other))
    return judged(repeated_profiles(loaded))


@pytest.mark.slow
def test_numbers_are_those_of_the_second_half_of_the_texts(loaded: Loaded) -> None:
    tokens = RepeatedTokens.draw(loaded, LENGTH, TEXTS, seed=0)
    repeated, other = pattern_means(loaded, tokens)
    profiles = repeated_profiles(loaded).set_index(["head", "trait"])
    assert len(profiles) == 2 * len(loaded.heads)
    for number, head in enumerate(map(str, loaded.heads)):
        for pattern, trait in enumerate(TRAITS):
            row = profiles.loc[(head, trait)]
            with_copy, without = repeated[pattern, :, number], other[pattern, :, number]
            second = slice(TEXTS // 2, None)
            null = without[second].mean()
            assert row["share"] == pytest.approx(with_copy[second].mean())
            assert row["null"] == pytest.approx(null) and row["attainable"] == 1
            assert row["strength"] == pytest.approx((row["share"] - null) / (1 - null))
            test = stats.ttest_rel(with_copy[second], without[second], alternative="greater")
            assert row["p"] == pytest.approx(test.pvalue, rel=1e-6)  # type: ignore[attr-defined]
            low, high = test.confidence_interval(0.95)[0], row["high"]  # type: ignore[attr-defined]
            assert row["low"] == pytest.approx(low / (1 - null)) and high > row["strength"]
            assert (row["cases"], row["units"]) == (tokens.length * TEXTS // 2, TEXTS // 2)


def test_planted_heads_are_found_and_no_others(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = planted(loaded, monkeypatch, [0.8, 0.2, 0.0])
    roles, tended = find_roles(profiles), tendencies(profiles)
    for number, head in enumerate(map(str, loaded.heads)):
        has_role, tends = (number % 3 == 0), (number % 3 == 1)
        assert [role.role for role in roles[head]] == ["induction"] * has_role
        assert tended.get(head, []) == ["induction"] * tends
    evidence = roles[str(next(iter(loaded.heads)))][0].evidence
    assert "attention to the token after an earlier copy; without a copy it gives 4.8" in evidence


def test_roles_alone(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the profiles, and the heads that surely give the previous token half or more."""
    random, num_heads = np.random.default_rng(1), len(loaded.heads)
    other = random.uniform(0.0, 0.1, (3, TEXTS, num_heads))
    repeated = other.copy()
    repeated[0, :, 0] += 0.8 + random.normal(0, 0.02, TEXTS)
    repeated[1, :, 1] += 0.8 + random.normal(0, 0.02, TEXTS)
    repeated[2, :, 1] = random.normal(0.6, 0.02, TEXTS)
    repeated[2, :, 2] = random.normal(0.5, 0.2, TEXTS)  # the interval reaches below 0.5
    monkeypatch.setattr("headcount.analysis.roles.pattern_means", lambda *_: (repeated, other))
    first, second, *rest = repeated_roles(loaded).values()
    assert (first, second) == (["induction"], ["duplicate", "previous"]) and not any(rest)


@pytest.mark.slow
def test_analyses_of_causal_models_have_these_traits(bert_like: Path, loaded: Loaded) -> None:
    corpus = Corpus.from_sentences(["a dog sees a cat", "the cat runs"] * 3)
    traits = set(headcount.analyze(loaded, corpus).profiles["trait"])
    assert {*TRAITS} < traits
    without = headcount.analyze(loaded, corpus, Options(induction=False))
    assert not {*TRAITS} & {*without.profiles["trait"]} and not without.record.warnings
    encoder = headcount.load(bert_like)
    assert not {*TRAITS} & {*headcount.analyze(encoder, corpus).profiles["trait"]}


def test_a_model_that_takes_too_few_tokens_says_so(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded.tokenizer, "model_max_length", 12)
    analysis = headcount.analyze(loaded, Corpus.from_sentences(["a dog sees a cat"]))
    assert not {*TRAITS} & {*analysis.profiles["trait"]}
    assert analysis.record.warnings[-1].startswith(
        "induction was not tested: Expected texts of at least 8"
    )


@pytest.fixture(scope="module")
def bert_like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved.bert(tmp_path_factory.mktemp("bert"))
