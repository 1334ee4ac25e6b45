"""Two explanations compared: paired and independent prompts by scipy, and what can't be."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from headcount.compare import compare_explanations
from headcount.core import InputError
from headcount.explanation import Blocks, Explained, ExplainOptions, apart, explain
from headcount.models import Loaded
from headcount.statistics import holm
from tests.commanding import headcount
from tests.explanation.test_circuits import PROMPTS
from tests.tasks.loaded import loaded

LLAMA, OPTIONS = "LlamaForCausalLM", ExplainOptions(effects=("zero",), together=(), reasons=0)


def _changed(held: Loaded) -> Loaded:
    """The model with a head that does ten times as much."""
    held = replace(held, model=copy.deepcopy(held.model))
    model: Any = held.model
    dim = model.model.layers[1].self_attn.head_dim
    model.model.layers[1].self_attn.o_proj.weight.data[:, 2 * dim : 3 * dim] *= 10
    return held


@pytest.fixture(scope="module")
def both() -> tuple[Explained, Explained]:
    held = loaded(LLAMA)
    one, other = (explain(each, PROMPTS, options=OPTIONS) for each in (held, _changed(held)))
    return one, other


def _values(found: Explained) -> np.ndarray:
    return np.array([row.value for row in found.alone]).reshape(12, 8).T


def test_effects_of_each_prompt_are_kept(both: tuple[Explained, Explained]) -> None:
    one, _ = both
    parts = [*dict.fromkeys(row.part for row in one.alone)]
    assert parts == [*map(str, loaded(LLAMA).heads)]
    assert [row.prompt for row in one.alone[:9]] == [*range(8), 0]
    for part, value in zip(parts, _values(one).mean(0), strict=True):
        assert one.of("zero")[part].value == pytest.approx(value)


def test_same_prompts_are_paired(both: tuple[Explained, Explained]) -> None:
    found = compare_explanations(*both)
    assert found.is_paired and found.effects == ("zero",)
    one, other = map(_values, both)
    tested: Any = stats.ttest_rel(other, one)
    ends, p_H = tested.confidence_interval(), holm(tested.pvalue)
    rows = {row.part: row for row in found.changes}
    for n, head in enumerate(map(str, loaded(LLAMA).heads)):
        row = rows[head]
        assert (row.low, row.high) == pytest.approx((ends.low[n], ends.high[n]), abs=1e-6)
        assert row.p == pytest.approx(p_H[n], abs=1e-6)
        assert row.change == pytest.approx(row.other - row.one)
    assert [abs(row.change) for row in found.changes] == sorted(
        (abs(row.change) for row in found.changes), reverse=True
    )
    certain = [row.part for row in found.changes if row.is_certain]
    assert found.headline.startswith(f"{len(certain)} of 12 heads changed for certain by “zero”")


def test_other_prompts_are_independent() -> None:
    random = np.random.default_rng(0)
    first, second = random.normal(0, 1, (9, 4)), random.normal(0.5, 3, (14, 4))
    pairs = [(Blocks(np.arange(len(each))), each) for each in (first, second)]
    (mean, low, high), p_H = apart(*pairs)
    tested: Any = stats.ttest_ind(second, first, equal_var=False)
    ends = tested.confidence_interval()
    assert mean == pytest.approx(second.mean(0) - first.mean(0))
    assert low == pytest.approx(ends.low) and high == pytest.approx(ends.high)
    assert p_H == pytest.approx(holm(tested.pvalue))


def test_templates_are_compared_by_the_command(
    both: tuple[Explained, Explained], tmp_path: Path
) -> None:
    one = both[0]
    other = replace(one, prompts=(replace(one.prompts[0], prompt="Another"), *one.prompts[1:]))
    for name, found in (("a", one), ("b", other), ("c", replace(one, alone=()))):
        (tmp_path / name).mkdir()
        found.write(tmp_path / name)
    out = tmp_path / "out"
    status, output, _ = headcount("compare", tmp_path / "a", tmp_path / "b", "--out", out)
    assert status == 0 and "0 of 12 heads changed for certain" in output
    assert "over different prompts" in output
    text = (out / "comparison.md").read_text(encoding="utf-8")
    assert "add the variances of both" in text and (out / "comparison.html").exists()
    status, _, errors = headcount("compare", tmp_path / "a", tmp_path / "c", "--out", out)
    assert status == 2 and "Expected effects of heads on each of several prompts in c" in errors
    status, _, errors = headcount("compare", tmp_path / "a", tmp_path / "b", "--match")
    assert status == 2 and "got two explanations" in errors


def test_other_effects_or_heads_are_not_compared(both: tuple[Explained, Explained]) -> None:
    one, other = both
    few = tuple(row for row in one.effects if row.part != "dec.0.3")
    mean = tuple(replace(row, effect="mean") for row in one.effects)
    for what, effects in {"heads": few, "effects": mean}.items():
        with pytest.raises(InputError, match=f"Expected explanations with the same {what}"):
            compare_explanations(replace(one, effects=effects), other)
