"""A score: how much does the loss rise when a head is dimmed?"""

from dataclasses import dataclass

import torch

import headcount
from headcount.importance import Score, score_column
from headcount.tasks import evaluate


@headcount.register
@dataclass(frozen=True)
class Dimmed(Score):
    """Rise of the loss when the head's output is multiplied by a gate."""

    gate: float = 0.5
    """What the output is multiplied by."""
    name = "dimmed"
    column = score_column("dimmed", "dimmed", "how much the loss rises when it is dimmed", "ours")
    definition = "Rise of the mean loss when the head's output is multiplied by a gate."

    def of(self, loaded, task, max_tokens=4096):
        dense, rises = evaluate(loaded.model, task, max_tokens).loss, {}
        for head in loaded.heads:
            with headcount.gated(loaded, {str(head): self.gate}):
                dimmed = evaluate(loaded.model, task, max_tokens).loss
            rises.setdefault(head.layer_id, []).append(dimmed - dense)
        return {layer: torch.tensor(each) for layer, each in rises.items()}
