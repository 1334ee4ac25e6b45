"""Replacements for an ablated head's output besides zero: its mean, or its output without a choice.

- mean: the head's output averaged over all queries of a corpus, which is what folding it into the
  output bias leaves.
- uniform: the head's output under uniform attention over the keys it may see.

Reference: Revealing the Dark Secrets of BERT (Kovaleva et al., 2019), section 4.4, https://arxiv.org/abs/1908.08593
"""

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from headcount.heads import Place
from headcount.models.anatomy import Anatomy, AttentionLayer
from headcount.models.selfcheck import evaluating, examine
from headcount.tap import Block, Replacement, Tap
from headcount.tasks.task import Task, TaskBatch


def uniform(
    layer: AttentionLayer, value_BHKD: Tensor, mask: Tensor | None
) -> Float[Tensor, "batch query head dim"]:
    """Every head's output if it attended equally to all keys it may see."""
    if mask is None:
        return value_BHKD.mean(2)[:, None]
    visible = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
    share = visible.to(value_BHKD)
    share = share / share.sum(-1, keepdim=True).clamp_min(1)
    return (share @ value_BHKD).transpose(1, 2)


def mean(
    model: PreTrainedModel, task: Task, anatomy: Anatomy | None = None, max_tokens: int = 4096
) -> Replacement:
    """Each head's mean output over the queries of a task's data, without padding."""
    anatomy = anatomy or examine(model)
    listener = _MeanOutput()
    with evaluating(model), torch.inference_mode(), Tap(model, anatomy, listener):
        for batch in task.batches(max_tokens):
            listener.batch = batch.to(model.device)
            task.losses(model, listener.batch)
    means = {place: total / listener.queries[place] for place, total in listener.sums.items()}
    return lambda layer, value, mask: means[layer.site, layer.layer].to(value)


class _MeanOutput:
    """Sums every head's output over queries that are not padding."""

    def __init__(self) -> None:
        self.sums: dict[Place, Tensor] = {}
        self.queries: dict[Place, int] = {}
        self.batch: TaskBatch | None = None
        self._value: Tensor | None = None
        self._is_query_BQ = torch.empty(0)

    def begin(self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int) -> None:
        """Store the values until the layer ends."""
        assert self.batch is not None
        self._value = value_BHKD
        place, shape = (layer.site, layer.layer), (len(value_BHKD), num_queries)
        self._is_query_BQ = self.batch.is_query(layer.site, shape)
        zeros = value_BHKD.new_zeros(layer.num_heads, layer.head_dim, dtype=torch.float64)
        self.sums.setdefault(place, zeros)
        self.queries[place] = self.queries.get(place, 0) + int(self._is_query_BQ.sum())

    def block(self, block: Block) -> None:
        """Add the block's outputs."""
        assert self._value is not None
        output_BHQD = block.weights_BHQK @ self._value[block.rows, block.heads]
        is_query = self._is_query_BQ[block.rows, None, block.queries, None]
        total = (output_BHQD * is_query).sum((0, 2), dtype=torch.float64)
        self.sums[block.layer.site, block.layer.layer][block.heads] += total

    def end(self, layer: AttentionLayer) -> None:
        """Drop the values."""
        self._value = None
