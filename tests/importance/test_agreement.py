"""Agreement equals Spearman's definition, and its sentence matches the numbers."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from headcount.core import InputError
from headcount.importance import agreement, effects
from headcount.importance.score_agreement import across
from headcount.results import Agreement, ImportanceRecord
from tests.textbook import statistics


def frame(num: int = 61, seed: int = 3) -> pd.DataFrame:
    """Relevance correlates with ablation, entropy negatively, confidence and sinks not at all."""
    random = np.random.default_rng(seed)
    effect, noise = random.normal(size=num), random.normal(size=(5, num))
    return pd.DataFrame(
        {
            "head": [f"enc.{number // 10}.{number % 10}" for number in range(num)],
            "ablation_delta": effect,
            "ablation_p": random.uniform(size=num),
            "gradient": effect.round() + noise[0],
            "relevance": np.exp(effect + 0.3 * noise[1]),
            "sink_score": noise[2],
            "confidence": noise[3],
            "entropy": -effect + 1.5 * noise[4],
        }
    )


def test_is_the_textbook():
    table = frame()
    found = agreement(table)
    assert found.names == (
        "ablation_delta",
        "gradient",
        "relevance",
        "sink_score",
        "confidence",
        "entropy",
    )
    for one in found.names:
        for other in found.names:
            cell = found.of(one, other)
            if one == other:
                assert (cell.rho, cell.low, cell.high) == (1, 1, 1)
                continue
            expected = statistics.spearman(table[one].tolist(), table[other].tolist())
            assert (cell.rho, cell.low, cell.high) == pytest.approx(expected)
            scipys = spearmanr(table[one], table[other])[0]
            assert cell.rho == pytest.approx(scipys)  # pyright: ignore[reportArgumentType]
            assert cell.num_heads == 61


def test_heads_without_a_number_are_left_out_pair_by_pair_and_counted():
    table = frame()
    table.loc[[3, 5], "relevance"] = np.nan
    table.loc[[5, 7, 9], "gradient"] = np.nan
    found = agreement(table)
    assert found.of("relevance", "ablation_delta").num_heads == 59
    assert found.of("relevance", "gradient").num_heads == 57
    assert found.of("entropy", "confidence").num_heads == 61
    known = table.dropna(subset=["relevance", "gradient"])
    expected = statistics.spearman(known["relevance"].tolist(), known["gradient"].tolist())
    assert found.of("relevance", "gradient").rho == pytest.approx(expected[0])


def test_whole_numbers_with_gaps_are_taken():
    table = frame().assign(rank=pd.array([None, *range(60)], dtype="Int64"))
    assert agreement(table, ["rank", "entropy"]).of("rank", "entropy").num_heads == 60


def test_nothing_is_said_of_a_constant_or_of_few_heads():
    table = frame().assign(gradient=0.3)
    assert math.isnan(agreement(table).of("gradient", "relevance").rho)
    assert "gradient" not in agreement(table).sentence
    few = agreement(frame(3))
    assert np.isnan(few.rho).all() and few.best_predictor is None
    assert few.sentence == (
        "No score can be tested by measured ablation: fewer than 4 heads have both."
    )
    equal = agreement(frame().assign(ablation_delta=0.0))
    assert equal.sentence == (
        "No score can be tested by measured ablation: all heads have the same value of one."
    )
    alone = agreement(frame(), ["ablation_delta"])
    assert alone.sentence == ("Fewer than two scores were measured: there is nothing to compare.")


def test_best_predictor_is_the_largest_of_either_sign():
    assert agreement(frame()).best_predictor == "relevance"
    turned = frame().assign(relevance=lambda table: -table["relevance"])
    found = agreement(turned)
    assert found.best_predictor == "relevance"
    assert agreement(frame()).pruning_score() == "relevance"
    assert found.pruning_score() != "relevance", "it would prune the heads that matter"
    assert found.sentence.startswith(
        "On this model relevance predicts measured ablation best, in reverse (rho −0.9"
    )
    # Three of four heads in order looks strong, yet may be chance
    few = turned.drop(columns="relevance").assign(sink_score=np.nan)
    few.loc[few["ablation_delta"].to_numpy()[:4].argsort(), "sink_score"] = [0.0, 1.0, 3.0, 2.0]
    found = agreement(few)
    by_chance = found.of("sink_score", "ablation_delta")
    assert abs(by_chance.rho) > abs(found.of("gradient", "ablation_delta").rho)
    assert by_chance.low < 0 < by_chance.high and found.best_predictor == "gradient"


def test_all_other_scores_are_ranked():
    found = agreement(frame())
    for of in found.names:
        assert {name for name, _ in found.ranked(of)} == {*found.names} - {of}


def test_sentence():
    found = agreement(frame())
    best, entropy = (found.of(name, "ablation_delta") for name in ("relevance", "entropy"))
    sentence = found.sentence
    assert sentence.startswith(
        f"On this model relevance predicts measured ablation best (rho {best.rho:.2f}, "
        f"{best.low:.2f} to {best.high:.2f} over 61 heads; chosen from 5 on the same "
        "heads); gradient "
    )
    assert f"entropy somewhat, in reverse (−{abs(entropy.rho):.2f}, −" in sentence
    assert sentence.endswith("no better than chance.")
    assert "sink score (" in sentence and "confidence (" in sentence


def test_sentence_without_a_predictor_or_without_ablation():
    table = frame().drop(columns=["gradient", "relevance", "entropy"])
    assert "no score predicts measured ablation better than chance" in agreement(table).sentence
    without = agreement(frame().drop(columns="ablation_delta")).sentence
    assert without.startswith("Ablation was not measured, so no score can be tested; gradient and")


def test_what_is_not_known_is_nan():
    found = agreement(frame().assign(gradient=0.3))
    row = found.names.index("gradient")
    assert np.isnan([found.rho[row], found.low[row]]).all()
    assert found.best_predictor == "relevance" and found.num_heads[0][0] == 61


def test_a_column_that_is_not_there():
    with pytest.raises(InputError, match="it has no fisher. Run the method"):
        agreement(frame(), ["relevance", "fisher"])


def test_effects_on_two_data_sets():
    a, b = frame(), frame()
    b["ablation_delta"] = b["relevance"]
    b.loc[4, "ablation_delta"] = np.nan
    found = effects(a, b.sample(frac=1, random_state=1))
    kept = [n for n in range(61) if n != 4]
    x, y = (table["ablation_delta"][kept].tolist() for table in (a, b))
    assert found.spearman.rho == pytest.approx(statistics.spearman(x, y)[0])
    assert found.pearson.rho == pytest.approx(statistics.pearson(x, y))
    assert found.pearson.num_heads == 60
    wide = 1.959963984540054 / math.sqrt(57)
    middle = math.atanh(found.pearson.rho)
    assert (found.pearson.low, found.pearson.high) == pytest.approx(
        (math.tanh(middle - wide), math.tanh(middle + wide))
    )


def test_effects_of_two_models_are_refused():
    with pytest.raises(InputError, match=r"enc\.6\.0 is in only one \(1 such head\)"):
        effects(frame(61), frame(60))
    with pytest.raises(InputError, match="with the column fisher"):
        effects(frame(), frame(), "fisher")


def test_agreement_is_symmetric():
    found: Agreement = agreement(frame())
    for matrix in (found.rho, found.low, found.high, found.num_heads):
        assert np.array_equal(matrix, np.transpose(matrix))


def test_effects_that_can_not_be_compared_are_said_so():
    few = ImportanceRecord(task="t", num_examples=7)
    found = across(frame(), frame().assign(ablation_delta=0.0), few)
    assert "is unknown" in found.sentence and math.isnan(found.pearson.rho)
    same = across(frame(), frame(), ImportanceRecord(task="t", num_examples=1234))
    assert same.sentence.startswith("The effects of single heads agree with those on the other")
    assert "(1,234 examples of t): Pearson's r 1.00" in same.sentence
    turned = frame().assign(ablation_delta=-frame()["ablation_delta"])
    assert "contradict" in across(frame(), turned, few).sentence
