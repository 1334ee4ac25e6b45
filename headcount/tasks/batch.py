"""Batches of a task: filled up to a budget of padded tokens, the shortest rows first.

What a model's run on one says: losses, and outcomes that the score is made of.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64, Shaped
from torch import Tensor

from headcount.core import InputError
from headcount.corpora import Movable, groups_by_length, present
from headcount.corpora import padded as padded_rows
from headcount.models import Loaded


def groups(
    length_N: Int[np.ndarray, " example"], max_tokens: int
) -> Iterator[Int[np.ndarray, " some"]]:
    """Numbers of the examples in each batch: shortest first, ties in order.

    Args:
        length_N: padded tokens that an example needs when it is the longest.
        max_tokens: largest number of padded tokens in a batch; a longer example forms a batch.
    """
    if max_tokens < 1:
        raise InputError(
            f"Expected at least 1 token a batch, got {max_tokens}. Use a larger number."
        )
    for group in groups_by_length(range(len(length_N)), length_N.__getitem__, max_tokens):
        yield np.array(group)


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int64[Tensor, "row token"]:
    """Rows of numbers, padded on the right."""
    return torch.from_numpy(padded_rows(rows, fill))


def text_inputs(
    rows: Sequence[Sequence[int]], pad_id: int
) -> dict[str, Int64[Tensor, "row token"]]:
    """Token ids with their attention mask."""
    mask_RN = torch.from_numpy(present(rows)).long()
    return {"input_ids": padded(rows, pad_id), "attention_mask": mask_RN}


def mean_states(
    hidden_RNW: Float[Tensor, "row token width"], mask_RN: Int[Tensor, "row token"]
) -> Float[Tensor, "row width"]:
    """Means of the states of the tokens that a mask shows, in float32; 0 of none."""
    hidden_RNW = hidden_RNW.to(torch.promote_types(hidden_RNW.dtype, torch.float32))
    mask_RN = mask_RN.to(hidden_RNW)
    count_R1 = mask_RN.sum(1, keepdim=True).clamp(min=1)
    return torch.einsum("rnw,rn->rw", hidden_RNW, mask_RN) / count_R1


def unwritten(what: str, metric: str) -> InputError:
    """The error for an evaluation without what the model writes, which a score needs."""
    return InputError(
        f"Expected {what} to compute {metric}, got an evaluation without any. Use "
        "evaluate(model, task, texts=True) or task.with_texts(evaluation, model)."
    )


def pad_id(loaded: Loaded) -> int:
    """The model's padding id (some look at the id itself), or any id that fills as well."""
    own = loaded.model.config.get_text_config().pad_token_id
    return own if isinstance(own, int) and own >= 0 else loaded.encoder().pad_id


@final
@dataclass(frozen=True, eq=False)
class TaskBatch(Movable):
    """Some examples, ready for a model."""

    inputs: dict[str, Tensor]
    """Keyword arguments of the model's forward; the first axis is the row."""
    labels: dict[str, Tensor]
    """Targets of the loss; the first axis is the example."""
    example_R: Int[Tensor, " row"]
    """The example of the batch that each row belongs to; a pair of sentences is two rows."""
    index_E: Int[Tensor, " example"]
    """The number of each example in the task's data."""

    @classmethod
    def of(
        cls,
        inputs: dict[str, Tensor],
        labels: dict[str, Tensor],
        index_E: Int[np.ndarray, " example"],
    ) -> "TaskBatch":
        """Examples with a row each."""
        return cls(inputs, labels, torch.arange(len(index_E)), torch.from_numpy(index_E))

    @property
    def num_examples(self) -> int:
        """Number of examples in the batch."""
        return len(self.index_E)

    def by_example(self, each_R: Shaped[Tensor, "row ..."]) -> Shaped[Tensor, "example own ..."]:
        """What rows have, for every example; its first row stays first, also if it is repeated."""
        order_R = self.example_R.argsort(stable=True)
        return each_R[order_R].unflatten(0, (self.num_examples, -1))

    def is_query(
        self, site: str, shape: tuple[int, int] | None = None
    ) -> Bool[Tensor, "row query"]:
        """Which tokens, excluding padding, attend at a site.

        Args:
            site: the attention site.
            shape: rows and queries there; all of them count if the model takes no mask (images,
                sound).

        Raises:
            InputError: if there is neither mask nor shape, or the mask has another shape.
        """
        decodes = site != "encoder.self" and "decoder_attention_mask" in self.inputs
        mask_RQ = self.inputs.get("decoder_attention_mask" if decodes else "attention_mask")
        if site == "vision.self":
            mask_RQ = None  # images have no padding
        if mask_RQ is not None:
            if shape is not None and mask_RQ.numel() != shape[0] * shape[1]:
                raise InputError(
                    f"Expected an attention mask of {shape[0]} by {shape[1]} for the queries at "
                    f"{site}, got one of {tuple(mask_RQ.shape)}. An encoder-decoder takes a "
                    "decoder_attention_mask too."
                )
            return mask_RQ.bool()
        if shape is None:
            raise InputError(
                "Expected an attention mask among the inputs of the task's batches, since it says "
                f"which tokens attend, got {', '.join(self.inputs)}. Add one of ones."
            )
        return torch.ones(shape, dtype=torch.bool, device=self.index_E.device)

    def repeated(self, times: int) -> "TaskBatch":
        """The batch `times` times in a row, as if there were more examples."""
        shift = torch.arange(times, device=self.example_R.device) * self.num_examples
        return TaskBatch(
            {name: torch.cat([tensor] * times) for name, tensor in self.inputs.items()},
            {name: torch.cat([tensor] * times) for name, tensor in self.labels.items()},
            (shift[:, None] + self.example_R).flatten(),
            self.index_E.repeat(times),
        )


@final
@dataclass(frozen=True, eq=False)
class Losses:
    """A model's losses on the examples of one batch."""

    loss_E: Float[Tensor, " example"]
    """Summed loss of each example, in nats if it is a cross-entropy; gradients flow."""
    count_E: Int[Tensor, " example"]
    """Number of terms in the loss: predicted tokens, or 1."""
    outcome_E: Float[Tensor, " example *outcome"]
    """The score's input: a predicted class, a cosine, or counts of the task's `outcome_shape`; NaN
    if the score is made of the losses."""


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """The part of a model's output on one batch that can be distilled."""

    values: Float[Tensor, "*place answer"]
    """Logits at every place of the batch, or embeddings of its sentences at unit length."""
    labels: Int[Tensor, "*place"] | None = None
    """The number of the correct answer at each place, `IGNORED` where nothing is asked; None for
    embeddings."""


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model's results on every example of a task, in the order of the data."""

    loss_N: Float[np.ndarray, " example"]
    count_N: Int[np.ndarray, " example"]
    outcome_N: Shaped[np.ndarray, " example *outcome"]
    """Numbers, or texts (objects) if the model writes."""

    @property
    def loss(self) -> float:
        """Mean loss over everything that was predicted."""
        return float(self.loss_N.sum() / self.count_N.sum())
