"""Matryoshka attribution: mixed outputs by hooks, and a planted circuit that is learned."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from headcount.core import InputError
from headcount.explanation import ExplainOptions, Plan, Reader, explain
from headcount.explanation.circuits import ends_of
from headcount.explanation.matryoshka import Mixed, Prompted
from headcount.explanation.runs import Case
from headcount.models import Loaded
from headcount.results import select
from tests.explanation.test_circuits import PROMPTS, copied, planted_model
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book


def test_prompts_of_a_batch_are_mixed_as_by_the_book() -> None:
    """Two learners on three prompts of other lengths, in one batch, and by hooks one at a time."""
    held, random = loaded("LlamaForCausalLM"), np.random.default_rng(0)
    options = ExplainOptions(circuit=True, others=("second",))
    cases = [Reader(held, options).case(each) for each in PROMPTS[:4]]
    plan = Plan.of(held, cases, options, ())
    (end,), _ = ends_of(plan)
    gate_PLH = torch.from_numpy(random.uniform(size=(3, 2, 12)))
    numbers = [0, 1, 3]
    assert len({len(cases[n].rows[0].ids) for n in numbers}) > 1
    with torch.no_grad():
        left_PL = Mixed(plan, 2).left([Prompted.of(end, n) for n in numbers], gate_PLH)
    for n, gate_LH, left_L in zip(numbers, gate_PLH, left_PL.tolist(), strict=True):
        for gate_H, left in zip(gate_LH, left_L, strict=True):
            assert left == pytest.approx(_mixed(held, cases[n], gate_H), abs=1e-5)


def _mixed(held: Loaded, case: Case, gate_H: torch.Tensor) -> float:
    """A prediction with every head in part from the second prompt, by hooks on projections."""
    total = 0.0
    for row, other in zip(case.rows, case.corrupt or (), strict=True):
        second = book.head_inputs(held.model, other.inputs(held))
        there = [second["decoder.self", layer][[*row.in_other]] for layer in range(2)]
        with ExitStack() as stack:
            for layer, module in enumerate(book.projections(held.model)["decoder.self"]):

                def change(_: Any, given: Any, layer: int = layer, there: Any = there) -> Any:
                    gate = gate_H.view(2, -1)[layer].repeat_interleave(given[0].shape[-1] // 6)
                    return ((gate * given[0] + (1 - gate) * there[layer]).float(),)

                stack.callback(module.register_forward_pre_hook(change).remove)
            with torch.no_grad():
                log = held.model(**row.inputs(held)).logits[0].double().log_softmax(-1)
        total += sum(each.sign * float(log[each.place, each.token]) for each in row.readings)
    return total


@pytest.mark.slow
def test_a_planted_circuit_is_learned() -> None:
    """The two heads that do all of it come first for both halves; it is the same again."""
    held = planted_model()
    options = ExplainOptions(
        effects=("estimate",),
        together=(),
        draws=1,
        circuit=True,
        others=("second",),
        steps=40,
        learners=2,
    )
    found = explain(held, copied(held), options=options)
    (row,) = select(found.circuits, ranking="matryoshka", level=0.95)
    assert row.heads == 2 and {*row.names.replace("|", "").split()} == {"dec.0.2", "dec.1.4"}
    assert row.shared == 2 and row.value == pytest.approx(1, abs=1e-4)
    assert not select(found.faithfulness, ranking="matryoshka", order="size")
    (area, *_) = select(found.areas, ranking="matryoshka", sizes="ours", scale="linear")
    assert area.cmd < 0.2


def test_options_of_learning_are_checked() -> None:
    for wrong, says in [
        ({"steps": 3}, "got --steps 3 without one"),
        ({"steps": -1}, "Expected steps of at least 0"),
        ({"steps": 3, "circuit": True, "learners": 0}, "Expected learners of at least 1"),
    ]:
        with pytest.raises(InputError, match=says):
            ExplainOptions(**wrong)


@pytest.mark.slow
def test_other_outputs_than_those_of_second_prompts_will_do() -> None:
    """Means, zeros and other prompts take their place; nothing is left on the model."""
    held = loaded("LlamaForCausalLM")
    inputs = {"input_ids": torch.tensor([[1, 2, 3]])}
    before = held.model(**inputs).logits
    options = ExplainOptions(
        effects=("gradient",), together=(), draws=1, circuit=True, others=("resample",), steps=2
    )
    plain = [replace(each, corrupt=None) for each in PROMPTS]
    found = explain(held, plain, options=options)
    assert len(select(found.areas, ranking="matryoshka")) == 4
    assert torch.equal(before, held.model(**inputs).logits)
    assert all(each.requires_grad for each in held.model.parameters())
