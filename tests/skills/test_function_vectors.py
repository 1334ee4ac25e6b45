"""Function vectors: effects of heads on few-shot prompts, beside a model patched head by head."""

import numpy as np
import pytest

import headcount
from headcount.models import Loaded
from headcount.skills import SkillOptions
from headcount.skills import function_vectors as under_test
from headcount.skills.function_vectors import Prompt, Prompts, answer, indirect_effects, read_tasks
from tests import saved
from tests.textbook import function_vectors as textbook


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.llama(tmp_path_factory.mktemp("llama")))


@pytest.fixture(scope="module")
def prompts(loaded: Loaded) -> tuple[Prompt, ...]:
    """Five prompts of each of our tasks."""
    return Prompts(loaded, read_tasks(), SkillOptions(prompts=5)).all


@pytest.mark.slow
@pytest.mark.parametrize("step_bytes", [2**30, 9_000])
def test_effects_are_those_of_a_model_patched_head_by_head(
    loaded: Loaded,
    prompts: tuple[Prompt, ...],
    step_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one step and in several ones."""
    monkeypatch.setattr(under_test, "STEP_BYTES", step_bytes)
    task = prompts[:5]
    outputs = answer(loaded, task).outputs
    found = indirect_effects(loaded, task, outputs)
    expected = textbook.indirect_effects(
        loaded.model,
        [[*each.clean] for each in task],
        [([*each.shuffled], each.answer) for each in task],
    )
    assert found.effect_NH.shape == (5, len(loaded.heads)) and abs(expected).max() > 1e-6
    np.testing.assert_allclose(found.effect_NH, expected, rtol=1e-3, atol=2e-9)


def test_means_leave_out_prompts_that_ask_for_the_same_word(
    loaded: Loaded, prompts: tuple[Prompt, ...]
) -> None:
    """A task with fewer pairs than prompts asks for a word again, behind other examples."""
    asked = [*prompts[:4], *prompts[:4]]
    outputs = answer(loaded, asked).outputs
    far = [*outputs[:4], {layer: 10 * each for layer, each in outputs[4].items()}, *outputs[5:]]
    before, after = (indirect_effects(loaded, asked, each).effect_NH for each in (outputs, far))
    np.testing.assert_array_equal(after[[0, 4]], before[[0, 4]])
    assert (after[2] != before[2]).any() and (after[6] != before[6]).any()


def test_means_are_of_the_same_task(loaded: Loaded, prompts: tuple[Prompt, ...]) -> None:
    two = [*prompts[:4], *prompts[5:9]]
    outputs = answer(loaded, two).outputs
    together = indirect_effects(loaded, two, outputs).effect_NH
    alone = indirect_effects(loaded, two[4:], outputs[4:]).effect_NH
    np.testing.assert_allclose(together[4:], alone, atol=1e-12)
