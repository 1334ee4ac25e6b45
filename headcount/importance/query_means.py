"""Query means: scores that average a quantity of attention over queries, without any labels.

They take one forward over the task's batches. The quantity is appended to the values as extra
columns: the product that makes the heads' outputs also makes it, and no attention map is stored.
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from transformers import PreTrainedModel

from headcount.core import MAX_TOKENS, Head, InputError, LayerId, ModelError, added, spread
from headcount.models import batch_tokens
from headcount.tap import (
    Anatomy,
    AnyModel,
    AttentionLayer,
    Block,
    Listener,
    Tap,
    evaluating,
    examined,
    input_device,
)
from headcount.tasks import Task, TaskBatch


@final
@dataclass(frozen=True)
class Seen:
    """The inputs of a quantity when a layer's attention begins."""

    value_BHKD: Float[Tensor, "row head key dim"]
    """The values, with key/value heads repeated."""
    first_B: Int64[Tensor, " row"]
    """Index of the first key of each row that is not padding."""
    root_HDD: Float[Tensor, "head dim dim"] | None
    """R of every head with ||x W_O|| = ||x R||; None where no output projection was found."""


@runtime_checkable
class Quantity(Protocol):
    """A number per query of every head that is linear in the weights before its last step."""

    def columns(self, seen: Seen) -> Float[Tensor, "row head key column"]:
        """The columns that the weights are multiplied with."""
        ...

    def per_query(
        self, masses_BHQC: Float[Tensor, "row head query column"]
    ) -> Float[Tensor, "row head query"]:
        """The number of each query, computed from the products."""
        ...


@final
@dataclass(frozen=True)
class QuerySums:
    """Frozen sums over the queries of independent examples, for all heads of one layer."""

    total: Float64[Tensor, "head ..."]
    """Sum of the quantity over the queries that are not padding."""
    queries: int
    """Number of these queries."""

    def __add__(self, other: "QuerySums") -> "QuerySums":
        return QuerySums(self.total + other.total, self.queries + other.queries)

    def value(self) -> Float64[Tensor, "head ..."]:
        """The mean over queries."""
        return self.total / self.queries


class QueryListener(Listener):
    """A tap's listener that sums something over the queries of every batch of a task."""

    def __init__(self) -> None:
        self.batch: TaskBatch | None = None
        self.sums: dict[LayerId, QuerySums] = {}
        """The sums over the batch, by layer."""

    def over(
        self, task: Task, model: PreTrainedModel, anatomy: Anatomy, max_tokens: int
    ) -> dict[LayerId, QuerySums]:
        """The sums over all examples of a task."""

        def of_batch(batch: TaskBatch) -> dict[LayerId, QuerySums]:
            self.batch, self.sums = batch.to(input_device(model)), {}
            task.losses(model, self.batch)
            return self.sums

        sums: dict[LayerId, QuerySums] = {}
        with evaluating(model), torch.inference_mode(), Tap(model, anatomy, self):
            batches = task.batches(batch_tokens(model, max_tokens))
            for parts in spread(of_batch, batches, "batches"):
                sums = added(sums, parts)
        return sums


def query_means(
    model: AnyModel,
    task: Task,
    quantity: Quantity,
    anatomy: Anatomy | None = None,
    max_tokens: int = MAX_TOKENS,
) -> dict[LayerId, Float64[Tensor, " head"]]:
    """The mean of a quantity over all queries of a task's examples, without padding, by layer.

    Args:
        model: Any model that the tap supports.
        task: Task that provides the examples.
        quantity: Quantity to average.
        anatomy: Result of `examine(model)`; examined now if None.
        max_tokens: Number of padded tokens in a batch.

    Raises:
        InputError: If the task has no examples.
        ModelError: If a mean is not a finite number; the message names the head.
    """
    model, anatomy = examined(model, anatomy)
    listener = _Averaging(model, anatomy, quantity)
    sums = listener.over(task, model, anatomy, max_tokens)
    if not sums:
        raise InputError(f"Expected at least one example in the task {task.name}, got none.")
    means = {place: each.value() for place, each in sums.items()}
    _check_finite(means, listener.without_root)
    return means


@final
class _Averaging(QueryListener):
    """Sums a quantity over the queries of a batch."""

    def __init__(self, model: PreTrainedModel, anatomy: Anatomy, quantity: Quantity) -> None:
        super().__init__()
        self.quantity = quantity
        self._roots = {layer: layer.output_root(model) for layer in anatomy.layers}
        self._per_query_BHQ = torch.empty(0)
        self.without_root = {layer.layer_id for layer, root in self._roots.items() if root is None}

    def begin(
        self, layer: AttentionLayer, value_BHKD: Tensor, num_queries: int
    ) -> Float[Tensor, "row head key column"]:
        """Start a layer, and return the quantity's columns."""
        assert self.batch is not None
        # Keys are the tokens that attend at the site; in cross-attention, the encoder's tokens.
        site = "encoder.self" if layer.site == "decoder.cross" else layer.site
        rows, heads, num_keys, _ = value_BHKD.shape
        first_B = self.batch.is_query(site, (rows, num_keys)).int().argmax(-1)
        first_B = first_B.to(value_BHKD.device)
        self._per_query_BHQ = value_BHKD.new_empty(rows, heads, num_queries)
        return self.quantity.columns(Seen(value_BHKD, first_B, self._roots[layer]))

    def block(self, block: Block) -> None:
        """Reduce a block to one number per query."""
        place = (block.rows, block.heads, block.queries)
        self._per_query_BHQ[place] = self.quantity.per_query(block.masses_BHQC)

    def end(self, layer: AttentionLayer) -> None:
        """Finish a layer by summing over its queries."""
        assert self.batch is not None
        rows, _, num_queries = self._per_query_BHQ.shape
        is_query_BQ = self.batch.is_query(layer.site, (rows, num_queries))
        counted_BHQ = self._per_query_BHQ * is_query_BQ[:, None].to(self._per_query_BHQ.device)
        total_H = counted_BHQ.sum((0, 2), dtype=torch.float64).cpu()
        part = QuerySums(total_H, int(is_query_BQ.sum()))
        self.sums = added(self.sums, {layer.layer_id: part})


def _check_finite(means: dict[LayerId, Tensor], without_root: Container[LayerId]) -> None:
    """Raise an error for infinite or NaN means, except NaN in a layer without output projection."""
    for place, mean_H in means.items():
        broken_H = ~mean_H.isfinite()
        if broken_H.any() and not (mean_H.isnan().all() and place in without_root):
            head = Head(*place, int(broken_H.nonzero()[0]))
            raise ModelError(
                f"Expected finite numbers for all heads, but head {head} gave NaN or infinity. "
                "Check the model's parameters, or load it in float32."
            )
