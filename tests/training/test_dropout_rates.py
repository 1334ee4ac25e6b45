"""A different dropout rate during training, and the model's own rate afterwards."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from headcount.core import InputError
from headcount.models import Loaded
from headcount.tasks import Task
from headcount.training import FinetuneConfig, TrainingRun, check_finetuning, finetune
from headcount.training.finetuning import at_rate, rates
from tests import tiny
from tests.tasks import loaded as small

QUICK = FinetuneConfig(updates=1, batch_tokens=100, warmup=0)


def own_copy(name: str) -> tuple[Loaded, Task]:
    """A model to modify, which no other test shares."""
    loaded, task = small.TASKS[name]()
    return Loaded(copy.deepcopy(loaded.model), loaded.tokenizer, loaded.name), task


def noise(model: PreTrainedModel) -> float:
    """Distance between two passes in training mode."""
    batch, found = tiny.inputs(model), []
    model.train()
    for seed in (0, 1):
        torch.manual_seed(seed)
        found.append(model(**batch)[0].detach())
    model.eval()
    return (found[0] - found[1]).abs().max().item()


@pytest.mark.parametrize("name", ["bert", "m2m_100", "t5", "gpt2", "vit"])
def test_every_dropout_has_the_rate_in_the_block(name: str) -> None:
    model = tiny.MODELS[name]()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2
        elif name == "m2m_100" and "dropout" in vars(module):
            vars(module)["dropout"] = 0.2
    before = rates(model)
    assert before and noise(model) > 1e-3
    with at_rate(model, 0.0):
        assert noise(model) == 0
    with at_rate(model, 0.4):
        assert [each.value for each in rates(model)] == [0.4] * len(before)
    with at_rate(model, None):
        assert rates(model) == before
    assert rates(model) == before


@pytest.mark.slow
def test_a_training_takes_the_rate_and_leaves_the_models_own() -> None:
    loaded, task = own_copy("translation-M2M100")
    for module in loaded.model.modules():
        if "dropout" in vars(module):
            vars(module)["dropout"] = 0.5
    own, without = (finetune(loaded, task, replace(QUICK, dropout=rate)) for rate in (None, 0.0))
    weights = [each.loaded.model.state_dict() for each in (own, without)]
    assert any(not torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    again = finetune(
        loaded, task, replace(QUICK, dropout=0.0), run=TrainingRun(0)
    ).loaded.model.state_dict()
    assert all(torch.equal(again[key], weights[1][key]) for key in again)
    assert {each.value for each in rates(without.loaded.model)} == {0.5}


def test_rates_that_can_not_be_are_refused() -> None:
    loaded, task = own_copy("classes-bert")
    for each in rates(loaded.model):
        setattr(each.module, each.name, 0.0)
    with pytest.raises(InputError, match="Expected a model with dropout.*Leave dropout out"):
        check_finetuning(loaded, task, replace(QUICK, dropout=0.1))
    check_finetuning(loaded, task, replace(QUICK, dropout=0.0))
    with pytest.raises(
        InputError, match="Expected a number of at least 0 and below 1 for dropout, got 1"
    ):
        replace(QUICK, dropout=1.0)
