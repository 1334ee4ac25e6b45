"""Distance from a teacher and label smoothing equal their definitions, one answer at a time."""

import copy
import math

import pytest
import torch
from transformers import PreTrainedModel

from headcount.errors import InputError
from headcount.training.answers import Listening, distance, embedding_distance, unevenness
from headcount.training.lesson import Lesson
from headcount.training.tuning import Tuning
from tests.importance.tiny_task import TinyTask
from tests.tasks import loaded as small


def softmax(logits: list[float], temperature: float) -> list[float]:
    weights = [math.exp(each / temperature) for each in logits]
    return [weight / sum(weights) for weight in weights]


def test_distance_by_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    teacher, student = (2 * torch.randn(5, 7, generator=generator) for _ in range(2))
    total = 0.0
    for t, s in zip(teacher.tolist(), student.tolist(), strict=True):
        for p, q in zip(softmax(t, 3), softmax(s, 3), strict=True):
            total += p * math.log(p / q)
    assert distance(teacher, student, 3).item() == pytest.approx(9 * total / 5, rel=1e-4)
    assert distance(teacher, teacher, 3).item() == pytest.approx(0, abs=1e-6)


def test_embedding_distance_by_definition() -> None:
    """Pooled by hand, sentence by sentence, from the model's own states."""
    loaded, task = small.TASKS["similarity-bert"]()
    (batch,) = task.batches(10**6)
    model = loaded.model.eval()
    teacher = copy.deepcopy(model)
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.mul_(1.3)

    def embeddings(of: PreTrainedModel) -> list[torch.Tensor]:
        mask = batch.inputs["attention_mask"].bool()
        states = of.base_model(**batch.inputs).last_hidden_state
        means = [row[seen].mean(0) for row, seen in zip(states, mask, strict=True)]
        return [mean / mean.norm() for mean in means]

    with torch.no_grad():
        apart = [((t - s) ** 2).sum().item() for t, s in
                 zip(embeddings(teacher), embeddings(model), strict=True)]  # fmt: skip
        plain = Lesson(model, task, Tuning())(batch)["loss"].item()
        taught = Lesson(model, task, Tuning(distilled=0.4), teacher)(batch)["loss"].item()
        itself = Lesson(model, task, Tuning(distilled=0.4), model)(batch)["loss"].item()
    mean = sum(apart) / len(apart)
    assert mean > 1e-3 and taught == pytest.approx(0.6 * plain + 0.4 * mean, rel=1e-4)
    assert itself == pytest.approx(0.6 * plain, rel=1e-5)
    ends = torch.tensor([[1.0, 0.0], [0.6, 0.8]]), torch.tensor([[-1.0, 0.0], [0.6, 0.8]])
    assert embedding_distance(*ends).item() == pytest.approx(2)


def test_unevenness_by_definition() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    logs = [math.log(p) for row in logits.tolist() for p in softmax(row, 1)]
    assert unevenness(logits).item() == pytest.approx(-sum(logs) / 6)


@pytest.mark.parametrize("name", ["translation-Marian", "causal-llama", "masked-bert"])
def test_what_is_heard_is_what_is_counted(name: str) -> None:
    """Smoothing mixes the task's own loss with evenness over exactly the tokens it counts."""
    loaded, task = small.TASKS[name]()
    (batch,) = task.batches(10**6)
    loaded.model.eval()
    plain, smooth, none = (
        Lesson(loaded.model, task, Tuning(label_smoothing=each))(batch)["loss"].item()
        for each in (0.0, 0.3, 1e-12)
    )
    listening = Listening(task)
    with listening.to(loaded.model):
        losses = task.losses(loaded.model, batch)
    said_PV = listening.said(batch).answers
    ids_RN, seen_RN = batch.inputs["input_ids"], batch.inputs["attention_mask"].bool()
    right_P = ids_RN[:, 1:][seen_RN[:, 1:]]
    if "labels" in batch.labels:
        right_P = batch.labels["labels"][batch.labels["labels"] >= 0]
    nll_P = said_PV.logsumexp(1) - said_PV.gather(1, right_P[:, None])[:, 0]
    assert nll_P.sum().item() == pytest.approx(losses.loss_E.sum().item(), rel=1e-5)
    assert smooth == pytest.approx(0.7 * plain + 0.3 * unevenness(said_PV).item(), rel=1e-5)
    assert plain == pytest.approx((losses.loss_E.sum() / losses.count_E.sum()).item())
    assert none == pytest.approx(plain) and smooth != pytest.approx(plain)
    same = Lesson(loaded.model, task, Tuning(distilled=0.4, temperature=2.0), loaded.model)
    assert same(batch)["loss"].item() == pytest.approx(0.6 * plain, rel=1e-5)
    assert len(list(same.parameters())) == len(list(loaded.model.parameters()))


def test_a_task_without_answers_is_refused() -> None:
    loaded, _ = small.TASKS["masked-bert"]()
    with pytest.raises(InputError, match="answers of one of the tasks translation, .*; came tiny"):
        Lesson(loaded.model, TinyTask(loaded.model), Tuning(label_smoothing=0.1))
