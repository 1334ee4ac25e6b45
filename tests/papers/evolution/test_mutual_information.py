"""Mutual information, beside the textbook's loops; planted structure is found, noise is not."""

from math import log

import numpy as np
import pytest
from scipy import stats

from headcount.core import CorpusError
from headcount.papers.evolution.mutual_information import (
    ESTIMATES,
    clusters_of,
    information,
    information_by_position,
    left_out,
    miller_madow,
    plug_in,
    shuffled,
)
from tests.textbook import evolution as textbook


def test_estimates_are_those_of_the_textbook() -> None:
    generator = np.random.default_rng(3)
    token_S, cluster_S = generator.integers(0, 7, 211), generator.integers(0, 5, 211)
    cluster_S[:90] = token_S[:90] % 5
    expected = textbook.mutual_information(token_S.tolist(), cluster_S.tolist())
    assert plug_in(token_S, cluster_S) == pytest.approx(expected)
    expected = textbook.miller_madow(token_S.tolist(), cluster_S.tolist())
    assert miller_madow(token_S, cluster_S) == pytest.approx(expected)
    expected = textbook.left_out(token_S.tolist(), cluster_S.tolist())
    assert left_out(token_S, cluster_S) == pytest.approx(expected)


def test_planted_tokens_are_found_and_noise_is_not() -> None:
    generator = np.random.default_rng(3)
    token_S = np.repeat(np.arange(8), 250)
    noise_SD = generator.normal(size=(2000, 6)).astype(np.float32)
    planted_SD = noise_SD + 20 * np.eye(8, 6, dtype=np.float32)[token_S]
    planted_SD[:, 0] += 20 * (token_S == 7)
    planted, independent = (
        {row.quantity: row for row in information(token_S, clusters_of(states, 20, 0), "input", 0)}
        for states in (planted_SD, noise_SD)
    )
    assert planted["mi"].value > 0.8 * log(8)
    control = independent["mi-shuffled"]
    assert control.low * 0.7 < independent["mi"].value < control.high * 1.4
    assert abs(independent["mi-miller-madow"].value) < 0.012
    assert control.cases == 2000


def test_states_that_differ_by_rounding_are_one() -> None:
    """Also a state with one very large number, and one whose neighbour is another state."""
    generator = np.random.default_rng(3)
    state_TD = generator.normal(size=(8, 16)).astype(np.float32)
    state_TD[1, 0], state_TD[3] = 900, state_TD[2] * 1.01
    token_S = np.repeat(np.arange(8), 5)
    unit_SD = np.spacing(state_TD.astype(np.float16)).astype(np.float32)[token_S]
    copy_SD = state_TD.astype(np.float16).astype(np.float32)[token_S]
    for moved in (0, 1):  # by one unit in the last place of float16
        states = copy_SD + unit_SD * generator.integers(0, moved + 1, copy_SD.shape)
        cluster_S = clusters_of(states.astype(np.float32), 40, 0)
        assert len(np.unique(cluster_S)) == 8 == len(np.unique(token_S * 40 + cluster_S))


def test_independent_tokens_have_nothing_left_out() -> None:
    """Clusters of five states, drawn by themselves, know nothing of 300 tokens."""
    token_S = np.repeat(np.arange(300), 50)
    cluster_S = np.random.default_rng(5).integers(0, 3000, len(token_S))
    assert left_out(token_S, cluster_S) == pytest.approx(0, abs=1e-3)


def test_the_interval_of_shuffled_tokens_is_students() -> None:
    generator = np.random.default_rng(3)
    token_S, cluster_S = generator.integers(0, 7, 211), generator.integers(0, 5, 211)
    found = {row.quantity: row for row in information(token_S, cluster_S, "input", 4)}
    drawn = shuffled(token_S, cluster_S, 4)
    expected = stats.t.interval(0.95, len(drawn) - 1, np.mean(drawn), stats.sem(drawn))
    control = found["mi-shuffled"]
    assert (control.low, control.high) == pytest.approx(expected)
    assert control.value == pytest.approx(np.mean(drawn))


@pytest.mark.parametrize("even", [True, False], ids=["even", "zipf"])
@pytest.mark.parametrize("own", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_estimates_lie_on_both_sides_of_planted_information(even: bool, own: float) -> None:
    """40 tokens of 300 states; a state is in a cluster of its token's with probability `own`."""
    num_tokens, num_clusters, states = 40, 80, 300
    weight_C = np.ones(num_clusters) if even else 1 / np.arange(1, num_clusters + 1)
    is_own_TC = np.arange(num_clusters) % num_tokens == np.arange(num_tokens)[:, None]
    own_TC = is_own_TC * weight_C / (is_own_TC * weight_C).sum(1, keepdims=True)
    share_TC = own * own_TC + (1 - own) * weight_C / weight_C.sum()
    ratio_TC = share_TC / share_TC.mean(0)
    truth = (share_TC * np.log(np.where(share_TC > 0, ratio_TC, 1))).sum() / num_tokens
    generator = np.random.default_rng(7)
    token_S = np.repeat(np.arange(num_tokens), states)
    cluster_S = np.concatenate([generator.choice(num_clusters, states, p=row) for row in share_TC])
    found = {row.quantity: row.value for row in information(token_S, cluster_S, "input", 0)}
    assert found["mi-left-out"] <= truth + 0.01
    assert found["mi-less-shuffled"] <= truth + 0.04
    assert found["mi-miller-madow"] >= truth - 0.01
    for name in ESTIMATES:
        assert found[name] == pytest.approx(truth, abs=0.15), name
    assert found["mi"] > truth + 0.03 or own == 1


def test_the_paper_s_design_gives_independent_tokens_information() -> None:
    """1,000 states each of 1,000 tokens in 10,000 clusters, drawn by themselves."""
    token_S = np.repeat(np.arange(1000), 1000)
    cluster_S = np.random.default_rng(5).integers(0, 10_000, 1_000_000)
    assert plug_in(token_S, cluster_S) == pytest.approx(2.37, abs=0.01)


def test_the_correction_takes_away_what_chance_gives() -> None:
    generator = np.random.default_rng(11)
    found = [
        miller_madow(generator.integers(0, 9, 1300), generator.integers(0, 13, 1300))
        for _ in range(20)
    ]
    assert abs(np.mean(found)) < 0.005


def test_positions_are_measured_apart() -> None:
    position_S = np.repeat([0, 1, 7], [300, 300, 150])
    token_S = np.random.default_rng(0).integers(0, 3, 750)
    cluster_S = np.where(position_S == 1, token_S, 0)
    found = {
        (row.quantity, row.against): row.value
        for row in information_by_position(token_S, cluster_S, position_S, "input", 0)
    }
    assert found["mi", "input at 1"] == pytest.approx(log(3), abs=0.02)
    assert found["mi", "input at 0"] == pytest.approx(0)
    assert ("mi", "input at 5-8") not in found


def test_fewer_states_than_clusters_are_refused() -> None:
    with pytest.raises(CorpusError, match=r"at least as many states as clusters \(7\), got 5"):
        clusters_of(np.zeros((5, 3), dtype=np.float32), 7, 0)
