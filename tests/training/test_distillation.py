"""The loss of a lesson uses exactly the answers that the task counts, for every task."""

import copy

import pytest
import torch
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel

from headcount.core import InputError
from headcount.tasks import drawn
from headcount.training import FinetuneConfig
from headcount.training.distillation import DistillationLoss, embedding_distance
from headcount.training.finetuning import rates
from tests.tasks import loaded as small
from tests.tasks.tiny_task import TinyTask


def damaged(model: PreTrainedModel) -> PreTrainedModel:
    """A copy with different outputs."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for number, weight in enumerate(other.parameters()):
            weight.mul_(1 + 0.3 * (-1) ** number)
    return other


@pytest.mark.once
@pytest.mark.parametrize(
    "name", ["translation-Marian", "causal-llama", "masked-bert", "classes-bert"]
)
def test_what_is_heard_is_what_is_counted(name: str) -> None:
    """Smoothing and a teacher act on exactly the answers in the task's loss."""
    loaded, task = small.TASKS[name]()
    (batch,) = task.batches(10**6)
    model = loaded.model.eval()
    teacher = damaged(model)
    with torch.no_grad():
        answers = task.answers(task.output(model, batch), batch)
        its = task.answers(task.output(teacher, batch), batch)
        losses = task.losses(model, batch)
        plain, smooth, taught, itself = (
            DistillationLoss(model, task, tuning, of)(batch)["loss"].item()
            for tuning, of in (
                (FinetuneConfig(), None),
                (FinetuneConfig(label_smoothing=0.3), None),
                (FinetuneConfig(distilled=0.4), teacher),
                (FinetuneConfig(distilled=0.4, temperature=2.0), model),
            )
        )
    assert answers.labels is not None
    right = answers.labels != -100
    log_s, log_t = (log_softmax(each.values[right], -1) for each in (answers, its))
    nll = -log_s.gather(1, answers.labels[right][:, None])
    assert int(right.sum()) == int(losses.count_E.sum())
    assert plain == pytest.approx(nll.mean().item(), rel=1e-5)
    assert plain == pytest.approx((losses.loss_E.sum() / losses.count_E.sum()).item(), rel=1e-5)
    assert smooth == pytest.approx(0.7 * plain - 0.3 * log_s.mean().item(), rel=1e-5)
    apart = (log_t.exp() * (log_t - log_s)).sum(1).mean().item()
    assert apart > 1e-4 and taught == pytest.approx(0.6 * plain + 0.4 * apart, rel=1e-4)
    assert itself == pytest.approx(0.6 * plain, rel=1e-5)
    lesson = DistillationLoss(model, task, FinetuneConfig(distilled=0.4), teacher)
    assert len(list(lesson.parameters())) == len(list(model.parameters()))


def test_embedding_distance_by_definition() -> None:
    """Pooled by hand, sentence by sentence, from the model's own states."""
    loaded, task = small.TASKS["similarity-bert"]()
    (batch,) = task.batches(10**6)
    model = loaded.model.eval()
    teacher = damaged(model)

    def embeddings(of: PreTrainedModel) -> list[torch.Tensor]:
        mask = batch.inputs["attention_mask"].bool()
        states = of.base_model(**batch.inputs).last_hidden_state
        means = [row[seen].mean(0) for row, seen in zip(states, mask, strict=True)]
        return [mean / mean.norm() for mean in means]

    with torch.no_grad():
        apart = [
            ((t - s) ** 2).sum().item()
            for t, s in zip(embeddings(teacher), embeddings(model), strict=True)
        ]
        plain = DistillationLoss(model, task, FinetuneConfig())(batch)["loss"].item()
        taught = DistillationLoss(model, task, FinetuneConfig(distilled=0.4), teacher)(batch)[
            "loss"
        ].item()
        itself = DistillationLoss(model, task, FinetuneConfig(distilled=0.4), model)(batch)[
            "loss"
        ].item()
    mean = sum(apart) / len(apart)
    assert mean > 1e-3 and taught == pytest.approx(0.6 * plain + 0.4 * mean, rel=1e-4)
    assert itself == pytest.approx(0.6 * plain, rel=1e-5)
    ends = torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([[-1.0, 0.0], [0.6, 0.8]])
    assert embedding_distance(*ends).item() == pytest.approx(2)


@pytest.mark.parametrize("name", ["translation-Marian", "causal-llama", "similarity-bert"])
def test_drawn_examples_teach_like_the_whole(name: str) -> None:
    loaded, task = small.TASKS[name]()
    loaded.model.eval()
    teacher = damaged(loaded.model)
    some = drawn(task, task.num_examples - 1)
    (batch,) = some.batches(10**6)
    tuning = FinetuneConfig(distilled=0.4)
    with torch.no_grad():
        part, whole = (
            DistillationLoss(loaded.model, each, tuning, teacher)(batch)["loss"].item()
            for each in (some, task)
        )
    assert part == whole


def test_a_teacher_teaches_without_dropout() -> None:
    """It may be in training mode, like a user's own model, and keeps that mode."""
    loaded, task = small.TASKS["masked-bert"]()
    (batch,) = task.batches(10**6)
    model = loaded.model.eval()
    teacher = copy.deepcopy(model).train()
    assert rates(teacher)
    lesson = DistillationLoss(model, task, FinetuneConfig(distilled=1.0), teacher)
    assert lesson(batch)["loss"].item() == pytest.approx(0, abs=1e-6)
    assert all(module.training for module in teacher.modules())


def test_refusals() -> None:
    loaded, task = small.TASKS["masked-bert"]()
    with pytest.raises(InputError, match="distilled or smoothed, got the task tiny"):
        DistillationLoss(loaded.model, TinyTask(loaded.model), FinetuneConfig(label_smoothing=0.1))
    with pytest.raises(InputError, match="Expected a teacher"):
        DistillationLoss(loaded.model, task, FinetuneConfig(distilled=0.5))
