"""Modes: those that fit a model; a generation is greedy and has exactly its length."""

import copy

import pytest
import torch

from headcount.speed import fitting
from headcount.speed.inputs import generation
from tests import tiny
from tests.examined import examined

IDS = torch.arange(tiny.FIRST_ID, tiny.FIRST_ID + 10).reshape(2, 5)


def test_what_fits() -> None:
    assert fitting(examined("bert")[0]) == ("forward",)
    assert (
        fitting(examined("llama")[0]) == fitting(examined("marian")[0]) == ("forward", "generate")
    )


@pytest.mark.parametrize("name, before", [("gpt2", 5), ("marian", 1)])
def test_a_generation_has_its_length_whatever_the_model_wants(name: str, before: int) -> None:
    """The model's first output becomes its end of sentence; beams and sampling are its defaults."""
    model = copy.deepcopy(examined(name)[0]).eval()
    plain = generation(model, IDS, 6)()
    assert isinstance(plain, torch.Tensor) and plain.shape == (2, before + 6)
    habits = model.generation_config
    habits.num_beams, habits.do_sample, habits.max_length = 3, True, 4
    assert torch.equal(generation(model, IDS, 6)(), plain)  # type: ignore[arg-type]
    habits.eos_token_id = int(plain[0, before])
    ended = generation(model, IDS[:1], 6)()
    assert isinstance(ended, torch.Tensor) and ended.shape == (1, before + 6)
