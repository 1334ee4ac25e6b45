"""Batches of examples, sorted by length and filled up to a budget of padded tokens."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from headcount.core import InputError
from headcount.corpora import padded as padded_rows
from headcount.corpora import present
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
        raise InputError(f"Expected at least 1 token a batch, got {max_tokens}")
    group: list[int] = []
    for index in np.argsort(length_N, kind="stable"):
        if group and (len(group) + 1) * length_N[index] > max_tokens:
            yield np.array(group)
            group = []
        group.append(int(index))
    if group:
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


def pad_id(loaded: Loaded) -> int:
    """The model's padding id (some look at the id itself), or any id that fills as well."""
    own = loaded.model.config.get_text_config().pad_token_id
    return own if isinstance(own, int) and own >= 0 else loaded.encoder().pad_id
