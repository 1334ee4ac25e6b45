"""The loss against its formula, token by token."""

import math

import torch
from transformers.utils.generic import ModelOutput

from headcount.papers.pretraining.trainer import smoothed


def test_formula() -> None:
    torch.manual_seed(1)
    logits = torch.randn(2, 3, 7, dtype=torch.float64)
    labels = torch.tensor([[4, 0, -100], [6, -100, -100]])
    expected, epsilon = 0.0, 0.1
    for row, place in ((0, 0), (0, 1), (1, 0)):
        scores = logits[row, place].tolist()
        total = sum(math.exp(score) for score in scores)
        logs = [math.log(math.exp(score) / total) for score in scores]
        right = logs[int(labels[row, place])]
        expected -= (1 - epsilon) * right + epsilon * sum(logs) / 7
    output = ModelOutput(logits=logits)
    loss = smoothed(0.1)
    torch.testing.assert_close(loss(output, labels).item(), expected / 3, rtol=1e-6, atol=0)
    torch.testing.assert_close(
        loss(output, labels, num_items_in_batch=12).item(), expected / 12, rtol=1e-6, atol=0
    )
    assert smoothed(0.0)(output, torch.full((2, 3), -100)) == 0, "nothing to predict is no loss"
