"""A small real task for any tiny model: a smooth loss on every output, rows of unequal length."""

from collections.abc import Iterator

import numpy as np
import torch
from transformers import PreTrainedModel

from headcount.tasks import Evaluation, Losses, Task, TaskBatch
from tests import tiny

LENGTHS = ((7, 4, 2), (5, 3))
"""Number of tokens in the rows of each batch."""


class TinyTask(Task):
    """Five examples in two batches; the loss is summed over all tokens except padding."""

    name = "tiny"
    metric = "sum"
    higher_is_better = True
    num_examples = 5

    def __init__(self, model: PreTrainedModel) -> None:
        self._dtype = model.dtype
        self.inputs = [
            {name: self._cast(tensor) for name, tensor in tiny.inputs(model, lengths).items()}
            for lengths in LENGTHS
        ]
        self.runs: list[int] = []

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._dtype) if tensor.is_floating_point() else tensor

    def batches(self, max_tokens: int = 4096) -> Iterator[TaskBatch]:
        """Indices of the examples, not in the order of the data."""
        for inputs, index in zip(self.inputs, ([4, 0, 2], [3, 1]), strict=True):
            weight = torch.tensor([0.5 + number for number in index], dtype=self._dtype)
            rows = torch.arange(len(index))
            yield TaskBatch(inputs, {"weight": weight}, rows, torch.tensor(index))

    def losses(self, model: PreTrainedModel, batch: TaskBatch) -> Losses:
        """Log of one plus the square of the outputs' sum, over all tokens."""
        self.runs.append(len(batch.example_R))
        output = model(**batch.inputs, use_cache=False) if decodes(model) else model(**batch.inputs)
        states = next(value for value in output.values() if value.ndim >= 2)
        states = states[:, None] if states.ndim == 2 else states  # ViT's classes
        weights = torch.linspace(-1, 1, states.shape[-1], dtype=states.dtype)
        loss_RN = (1 + (states @ weights).square()).log()
        is_token_RN = torch.ones_like(loss_RN, dtype=torch.bool)
        if "input_ids" in batch.inputs or "decoder_attention_mask" in batch.inputs:
            is_token_RN = batch.is_query("decoder.self")
        loss_E = (loss_RN * is_token_RN).sum(1) * batch.labels["weight"]
        return Losses(loss_E, is_token_RN.sum(1), 2 * loss_E.detach())

    def score(self, evaluation: Evaluation, index_S: np.ndarray | None = None) -> float:
        """The sum of the outcomes."""
        outcome_N = evaluation.outcome_N
        return float((outcome_N if index_S is None else outcome_N[index_S]).sum())


def decodes(model: PreTrainedModel) -> bool:
    """Whether the model's forward takes a cache."""
    return model.config.is_encoder_decoder or model.config.model_type in tiny.DECODERS
