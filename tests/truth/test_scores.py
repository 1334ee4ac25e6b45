"""What scores say of heads that are known, where they once were wrong."""

import pytest

from headcount.core import Head
from headcount.importance import gradient, matryoshka
from headcount.tasks import CausalLanguageModelling
from headcount.testing import Planted, Program, planted_model, written

NEEDED = Planted(Head("decoder.self", 0, 1), "offset", "needed", 2, 0, 3.0, -1)


@pytest.mark.slow
def test_gradients_of_a_layer_that_is_not_needed_are_not_scaled_up() -> None:
    """Its heads have rounding for gradients, which its norm would make as large as any."""
    program = Program((NEEDED,), layers=2)
    model = planted_model(program)
    texts = [*map(written, program.texts(20, seed=0))]
    task = CausalLanguageModelling(model, {"text": texts})
    scores = {head: float(gradient(model, task)[head.layer_id][head.index]) for head in model.heads}
    assert scores.pop(NEEDED.head) > 0.99 and max(scores.values()) < 0.01


@pytest.mark.slow
def test_the_head_that_is_needed_comes_first_when_scores_are_learned() -> None:
    program = Program((NEEDED,), layers=2)
    model = planted_model(program)
    texts = [*map(written, program.texts(12, seed=0))]
    task = CausalLanguageModelling(model, {"text": texts})
    found = matryoshka(model, task, steps=20, step_examples=4)
    scores = {head: float(found[head.layer_id][head.index]) for head in model.heads}
    assert scores.pop(NEEDED.head) > 0.5 + max(scores.values())
