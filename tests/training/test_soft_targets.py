"""The loss and its gradient equal their definitions, one answer at a time."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headcount.core import InputError
from headcount.training import distillation
from headcount.training.distillation import Targets, soft_cross_entropy

IGNORED = -100
PLACES, ANSWERS = 5, 7
LABELS = torch.tensor([3, IGNORED, 0, 6, IGNORED])


def drawn(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


def softmax(logits: list[float], temperature: float = 1) -> list[float]:
    weights = [math.exp(each / temperature) for each in logits]
    return [weight / sum(weights) for weight in weights]


def textbook(
    student: Tensor, labels: Tensor, targets: Targets, teacher: Tensor, count: int
) -> float:
    """The loss position by position and answer by answer, as both papers define it."""
    epsilon, alpha, temperature = targets.smoothing, targets.distilled, targets.temperature
    total = 0.0
    for z, right, t in zip(student.tolist(), labels.tolist(), teacher.tolist(), strict=True):
        if right == IGNORED:
            continue
        hard = 0.0
        for answer, p in enumerate(softmax(z)):
            wanted = epsilon / len(z) + (1 - epsilon if answer == right else 0)
            hard -= wanted * math.log(p)
        soft = 0.0
        for p, q in zip(softmax(t, temperature), softmax(z, temperature), strict=True):
            soft += p * math.log(p / q)
        total += (1 - alpha) * hard + alpha * temperature**2 * soft
    return total / count


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(
    "targets",
    [Targets(), Targets(0.2), Targets(0.0, 0.6), Targets(0.1, 0.3, 2.5), Targets(0.1, 1.0)],
)
def test_by_definition(targets: Targets, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk size does not matter."""
    monkeypatch.setattr(distillation, "CACHED", rows * ANSWERS)
    student, teacher = drawn(0, PLACES, ANSWERS), drawn(1, PLACES, ANSWERS)
    for count in (None, 11):
        loss = soft_cross_entropy(student, LABELS, targets, teacher, count)
        assert loss.item() == pytest.approx(
            textbook(student, LABELS, targets, teacher, count or 3), rel=1e-9
        )


@pytest.mark.slow
@given(
    smoothing=st.floats(0, 0.9),
    distilled=st.floats(0, 1),
    temperature=st.floats(0.5, 4),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_gradient_is_that_of_the_loss(
    smoothing: float, distilled: float, temperature: float, seed: int
) -> None:
    """The gradient equals finite differences, also if the loss is part of another one."""
    targets = Targets(smoothing, distilled, temperature)
    student = drawn(seed, PLACES, ANSWERS).requires_grad_()
    teacher = drawn(seed + 100, PLACES, ANSWERS)

    def loss(logits: Tensor) -> Tensor:
        return 0.7 * soft_cross_entropy(logits, LABELS, targets, teacher)

    assert torch.autograd.gradcheck(loss, (student,))


def test_gradient_is_scaled_once_or_as_often_as_asked() -> None:
    student = drawn(0, PLACES, ANSWERS).requires_grad_()

    def gradient(of: Callable[[Tensor], Tensor]) -> Tensor:
        loss = of(soft_cross_entropy(student, LABELS, Targets(0.1)))
        first, second = (torch.autograd.grad(loss, student, retain_graph=True)[0] for _ in range(2))
        torch.testing.assert_close(first, second, rtol=0, atol=0)
        return first

    torch.testing.assert_close(gradient(lambda loss: 3 * loss), 3 * gradient(lambda loss: loss))


def test_places_of_any_shape_and_number_format() -> None:
    """Rows of tokens are flattened; bfloat16 logits give a loss in single precision."""
    student, teacher = drawn(0, 2, 3, ANSWERS), drawn(1, 2, 3, ANSWERS)
    labels = torch.tensor([[1, IGNORED, 2], [4, 4, IGNORED]])
    targets = Targets(0.1, 0.4)
    flat = soft_cross_entropy(
        student.flatten(0, 1), labels.flatten(), targets, teacher.flatten(0, 1)
    )
    assert soft_cross_entropy(student, labels, targets, teacher).item() == flat.item()
    rough = student.bfloat16().requires_grad_()
    loss = soft_cross_entropy(rough, labels, targets, teacher.bfloat16())
    loss.backward()
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(flat.item(), rel=0.02)
    assert rough.grad is not None and rough.grad.dtype == torch.bfloat16
    assert not rough.grad[labels == IGNORED].any()


def test_nothing_asked_is_no_loss() -> None:
    student = drawn(0, PLACES, ANSWERS).requires_grad_()
    loss = soft_cross_entropy(student, torch.full((PLACES,), IGNORED), Targets(0.1))
    loss.backward()
    assert loss.item() == 0 and student.grad is not None and not student.grad.any()


def test_itself_as_teacher_teaches_nothing() -> None:
    student = drawn(0, PLACES, ANSWERS)
    assert soft_cross_entropy(student, LABELS, Targets(0.0, 1.0, 3.0), student).item() < 1e-12


def test_no_teacher_is_refused() -> None:
    with pytest.raises(InputError, match="Expected a teacher's logits"):
        soft_cross_entropy(drawn(0, PLACES, ANSWERS), LABELS, Targets(0.0, 0.5))
