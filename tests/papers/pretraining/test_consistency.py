"""Two passes that should agree: the loss against its formula, and the effect of a weight of 0."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers.utils.generic import ModelOutput

from headcount.papers import RECIPES, PretrainingConfig, Rows, train
from headcount.papers.pretraining.trainer import consistent, smoothed, twice

LABELS = torch.tensor([[4, 0, -100], [6, -100, -100]])


def _logs(scores: list[float]) -> list[float]:
    total = sum(math.exp(score) for score in scores)
    return [math.log(math.exp(score) / total) for score in scores]


def test_formula() -> None:
    """The formula token by token, for two passes through a batch of two examples."""
    torch.manual_seed(1)
    logits = torch.randn(4, 3, 7, dtype=torch.float64)
    epsilon, alpha = 0.1, 3.0
    cross_entropies, apart = 0.0, 0.0
    for row, place in ((0, 0), (0, 1), (1, 0)):
        passes = [_logs(logits[row + 2 * number, place].tolist()) for number in range(2)]
        for logs in passes:
            right = logs[int(LABELS[row, place])]
            cross_entropies -= (1 - epsilon) * right + epsilon * sum(logs) / 7
        for p, q in (passes, passes[::-1]):
            apart += sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True))
    expected = cross_entropies / 2 / 3 + alpha / 4 / 3 * apart
    batch = twice({"logits": logits[:2], "labels": LABELS})
    assert torch.equal(batch["logits"][2:], logits[:2])
    loss, output = consistent(epsilon, alpha), ModelOutput(logits=logits)
    actual = loss(output, batch["labels"])
    torch.testing.assert_close(actual.item(), expected, rtol=1e-6, atol=0)
    accumulated = loss(output, batch["labels"], num_items_in_batch=12)  # of two such batches
    torch.testing.assert_close(accumulated.item(), expected / 2, rtol=1e-6, atol=0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_passes_that_agree_cost_nothing(smoothing: float) -> None:
    """Equal passes have the loss of one pass; a weight of 0 means training without consistency."""
    torch.manual_seed(1)
    batch = twice({"logits": torch.randn(2, 3, 7), "labels": LABELS})
    one = smoothed(smoothing)(ModelOutput(logits=batch["logits"][:2]), LABELS)
    two = consistent(smoothing, 5.0)(ModelOutput(logits=batch["logits"]), batch["labels"])
    torch.testing.assert_close(two, one)
    logits = torch.randn(4, 3, 7)
    unweighted = consistent(smoothing, 0.0)(ModelOutput(logits=logits), batch["labels"])
    plain = smoothed(smoothing)(ModelOutput(logits=logits), batch["labels"])
    torch.testing.assert_close(unweighted, plain)


def test_nothing_to_predict_is_no_loss() -> None:
    logits = torch.randn(4, 3, 7, requires_grad=True)
    loss = consistent(0.1, 3.0)(ModelOutput(logits=logits), torch.full((4, 3), -100))
    loss.backward()
    assert loss == 0 and logits.grad is not None and not logits.grad.any()


@pytest.mark.slow
def test_training_brings_the_passes_together(pairs: Rows, tmp_path: Path) -> None:
    """With high dropout, two passes nearly agree only after training with consistency."""
    recipe = replace(
        RECIPES["tiny"], layers=1, epochs=6, pieces=150, batch_tokens=600, peak=1e-2, dropout=0.3
    )
    distances = {}
    for weight in (0.0, 5.0):
        job = PretrainingConfig(
            "translation", replace(recipe, consistency=weight), pairs.columns, save_every=99
        )
        model = train(job, tmp_path / str(weight)).loaded.model.train()
        torch.manual_seed(0)
        ids = torch.randint(5, 150, (40, 6))
        said = model(**twice({"input_ids": ids, "decoder_input_ids": ids})).logits
        first, second = said.log_softmax(-1).chunk(2)
        distances[weight] = ((first.exp() - second.exp()) * (first - second)).sum(-1).mean().item()
    assert 0 < distances[5.0] < distances[0.0] / 2, distances
