"""Heads at each token: the best heads replaced at one token alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headcount.core import InputError
from headcount.explanation import ExplainOptions, Prompt, explain
from headcount.explanation.positions_document import position_blocks
from headcount.explanation.reader import Reader
from headcount.results import select
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

LLAMA = "LlamaForCausalLM"
PROMPTS = [
    Prompt("The old dog barked at the", " moon", " dog", "The old moon barked at the"),
    Prompt("A painter bought two green", " old", " and", "A dog bought two green"),
]
OPTIONS = ExplainOptions(
    effects=("zero", "corrupt"), heads=("dec.0.4", "dec.1.3"), each_position=True, reasons=0
)


def test_effects_are_those_of_hooks_at_one_token() -> None:
    """Zeroed and patched, for each prompt's tokens from the end, of as many as the shortest has."""
    held = loaded(LLAMA)
    found = explain(held, PROMPTS, options=OPTIONS)
    cases = [Reader(held, OPTIONS).case(each) for each in PROMPTS]
    num = min(len(each.text.ids) for each in cases)
    assert len(found.positions) == 2 * 2 * num
    for row in found.positions:
        expected, site, layer, index = [], "decoder.self", int(row.head[4]), int(row.head[6])
        for case in cases:
            assert case.corrupt is not None
            lost = 0.0
            for clean, other in zip(case.rows, case.corrupt, strict=True):
                inputs = clean.inputs(held)
                instead = book.head_inputs(held.model, inputs)
                there = book.head_inputs(held.model, other.inputs(held))
                place = len(case.text.ids) + row.place
                for key, states in instead.items():
                    at = there[key][clean.in_other[place]]
                    states[place] = at if row.effect == "corrupt" else torch.zeros_like(at)

                def read(logits: torch.Tensor, clean: object = clean) -> float:
                    log = logits.log_softmax(-1)
                    readings = clean.readings  # type: ignore[attr-defined]
                    return sum(each.sign * float(log[each.place, each.token]) for each in readings)

                whole = book.without(held.model, inputs, [], instead, read)
                lost += whole - book.without(
                    held.model, inputs, [(site, layer, index)], instead, read
                )
            expected.append(lost)
        assert row.value == pytest.approx(np.mean(expected), abs=5e-5)
    last = select(found.positions, place=-1)
    assert {each.token for each in last} == {""}, "the prompts end in different words"
    labels = [getattr(each, "name", "") for each in position_blocks(found)]
    assert "positions-zero" in labels and "positions-corrupt" in labels


@pytest.mark.slow
def test_tokens_are_named_by_what_most_prompts_have() -> None:
    found = explain(loaded(LLAMA), PROMPTS[:1], options=replace(OPTIONS, effects=("zero",)))
    tokens = [row.token for row in select(found.positions, head="dec.0.4")]
    assert tokens[-2:] == ["at", "the"]
    assert not explain(
        loaded(LLAMA), PROMPTS[:1], options=replace(OPTIONS, each_position=False)
    ).positions


def test_all_tokens_or_some_are_asked_for() -> None:
    with pytest.raises(InputError, match="each token or at some, got --each-position and --at 'a'"):
        ExplainOptions(at="a", each_position=True)
