"""Blocks of prompts: which share names, and intervals and tests that count each block once."""

import numpy as np
import pytest
from scipy import stats

from headcount.explanation import ExplainOptions, Prompt, explain
from headcount.explanation.blocks import Blocks
from headcount.statistics import holm
from tests.tasks.loaded import loaded

NAMES = ("Ann", "Tom", "Eve", "Sam", "Ida", "Ben", "Zoe", "Max")


def test_prompts_with_a_name_in_common_are_one_block() -> None:
    """In the text, in the second prompt, or by way of a third; words of the template are none."""
    texts = [
        ("When Ann met Tom, Tom left", " Ann", " Tom", "When Ann met Tom, Eve left"),
        ("When Sam met Ida, Ida left", " Sam", " Ida", "When Sam met Ida, Ben left"),
        ("When Zoe met Max, Max left", " Zoe", " Max", "When Zoe met Max, Eve left"),
        ("The key fell", " is", " are", "The keys fell"),
        ("The cat fell", " is", " are", "The cats fell"),
        ("When Max met Joe, Joe left", " Max", " Joe", None),
        ("She said that", " she", None, None),
    ]
    assert Blocks.of([Prompt(*each) for each in texts]).numbers.tolist() == [0, 1, 0, 2, 3, 0, 4]


def test_intervals_are_students_over_blocks() -> None:
    """Each of nine blocks holds its number twice, which must tell no more than once."""
    values_BH = np.random.default_rng(1).normal(0.3, 1, (9, 4))
    once, twice = Blocks(np.arange(9)), Blocks(np.repeat(np.arange(9), 2))
    twice_NH = np.repeat(values_BH, 2, 0)
    for blocks, values_NH in ((once, values_BH), (twice, twice_NH)):
        mean, low, high = blocks.interval(values_NH)
        expected = stats.t.interval(0.95, 8, values_BH.mean(0), stats.sem(values_BH))
        np.testing.assert_allclose([mean, low, high], [values_BH.mean(0), *expected])
        alone = np.asarray(stats.ttest_1samp(values_BH, 0))[1]
        np.testing.assert_allclose(blocks.p(values_NH), holm(alone))


def test_fewer_than_eight_blocks_have_no_interval_and_the_reason() -> None:
    blocks = Blocks(np.arange(16) % 7)
    assert np.isnan(blocks.interval(np.arange(16.0))[1:]).all()
    assert np.isnan(blocks.p(np.ones((16, 3)))).all()
    (warning,) = blocks.warnings()
    assert "from 7 blocks are wide or missing" in warning
    for few in (np.arange(16) % 8, np.zeros(1, int)):
        assert not [*Blocks(few).warnings()]


@pytest.mark.slow
def test_effects_are_corrected_over_heads() -> None:
    """On random weights a single interval leaves out 0 in 5 % of cases; of all heads, few do."""
    prompts = [Prompt(f"The dog of {name} barked at", " moon", " rain") for name in NAMES]
    options = ExplainOptions(effects=("attribution",), together=())
    found = explain(loaded("LlamaForCausalLM"), prompts, options=options)
    rows = [*found.of("attribution").values()]
    alone = []
    for row in rows:
        reach = (row.high - row.low) / 2 / stats.t.ppf(0.975, 7)
        alone.append(2 * stats.t.sf(abs(row.value) / reach, 7))
    heads = [n for n, row in enumerate(rows) if row.is_head]
    expected = holm(np.array([alone[n] for n in heads]))
    assert [rows[n].p for n in heads] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-9)
    assert all(np.isnan(row.p) for row in rows if not row.is_head)
    assert not any("wide or missing" in each for each in found.record.warnings)
