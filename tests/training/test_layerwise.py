"""The distance of hidden states equals its definition, one token at a time, for every kind."""

import copy

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from headcount.core import InputError, ModelError
from headcount.tasks import TaskBatch
from headcount.training import FinetuneConfig, finetune
from headcount.training.distillation import DistillationLoss, hidden_states, layerwise_distance
from tests.tasks import loaded as small


def rows(model: PreTrainedModel, batch: TaskBatch) -> list[list[Tensor]]:
    """The states of every token except padding, by layer, extracted one at a time."""
    output = model(**batch.inputs, output_hidden_states=True)
    if hasattr(output, "encoder_hidden_states"):
        sides = [
            (output.encoder_hidden_states, "attention_mask"),
            (output.decoder_hidden_states, "decoder_attention_mask"),
        ]
    else:
        sides = [(output.hidden_states, "attention_mask")]
    layers = []
    for states, mask in sides:
        for layer in states[1:]:
            seen = batch.inputs[mask].tolist()
            layers.append(
                [
                    layer[row, place]
                    for row, marks in enumerate(seen)
                    for place, mark in enumerate(marks)
                    if mark
                ]
            )
    return layers


@pytest.mark.once
@pytest.mark.parametrize(
    "name",
    [
        "classes-bert",
        "causal-llama",
        "causal-gpt2",
        "masked-roberta",
        "similarity-bert",
        "translation-Marian",
        "translation-T5ForC",
        "translation-M2M100",
    ],
)
def test_by_definition(name: str) -> None:
    loaded, task = small.TASKS[name]()
    (batch,) = task.batches(10**6)
    student = loaded.model.eval()
    teacher = copy.deepcopy(student)
    with torch.no_grad():
        for number, weight in enumerate(teacher.parameters()):
            weight.mul_(1 + 0.2 * (-1) ** number)
        pairs = list(zip(rows(teacher, batch), rows(student, batch), strict=True))
        apart = [
            sum(
                float((t / t.norm() - s / s.norm()).square().sum())
                for t, s in zip(*both, strict=True)
            )
            / len(both[0])
            for both in pairs
        ]
        plain, taught, itself = (
            DistillationLoss(student, task, FinetuneConfig(layerwise=weight), of)(batch)[
                "loss"
            ].item()
            for weight, of in ((0.0, None), (3.0, teacher), (3.0, student))
        )
    stacks = {site.partition(".")[0] for site in loaded.heads.counts}
    layers = [len(loaded.heads.counts[f"{stack}.self"]) for stack in stacks]
    assert len(apart) == sum(layers)
    mean = sum(apart) / len(apart)
    assert mean > 1e-4 and taught == pytest.approx(plain + 3 * mean, rel=1e-4)
    assert itself == pytest.approx(plain, rel=1e-5)


def test_ends() -> None:
    """At unit length, opposite states have distance 4, parallel ones 0, in every layer."""
    teacher = [torch.tensor([[1.0, 0.0], [0.0, 5.0]]), torch.tensor([[3.0, 4.0]])]
    student = [torch.tensor([[-2.0, 0.0], [0.0, 1.0]]), torch.tensor([[30.0, 40.0]])]
    assert layerwise_distance(teacher, student).item() == pytest.approx((4 + 0) / 2 / 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classes-bert", "translation-M2M100"])
def test_states_come_nearer(name: str) -> None:
    """A damaged copy's states get closer when only states count in the gradient."""
    loaded, task = small.TASKS[name]()
    quick = FinetuneConfig(updates=6, batch_tokens=400, peak=0.02, warmup=0)
    worse = finetune(loaded, task, quick).loaded
    tuning = FinetuneConfig(updates=13, batch_tokens=400, peak=3e-3, warmup=2, layerwise=1e3)
    better = finetune(worse, task, tuning, teacher=loaded.model).loaded
    (batch,) = task.batches(10**6)
    with torch.no_grad():
        whole, before, after = (
            hidden_states(each.model(**batch.inputs, output_hidden_states=True), batch)
            for each in (loaded, worse, better)
        )
    assert layerwise_distance(whole, after) < 0.8 * layerwise_distance(whole, before)


def test_refusals() -> None:
    with pytest.raises(InputError, match="of at least 0 for layerwise, got -1.0"):
        FinetuneConfig(layerwise=-1.0)
    with pytest.raises(InputError, match="of at least 0 for layerwise, got nan"):
        FinetuneConfig(layerwise=float("nan"))
    loaded, task = small.TASKS["classes-bert"]()
    with pytest.raises(InputError, match="Expected a teacher"):
        DistillationLoss(loaded.model, task, FinetuneConfig(layerwise=1.0))
    (batch,) = task.batches(10**6)
    silent = BaseModelOutput(last_hidden_state=torch.zeros(1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="output to distil, got none. Set layerwise to 0"):
        hidden_states(silent, batch)
