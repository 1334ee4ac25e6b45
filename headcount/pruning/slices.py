"""Slices: parts of a data set that pruning may affect differently, by length and rare tokens.

Examples are divided into thirds by their number of tokens (of the source, in translation), and by
how often their rarest token occurs in the data set and in the data used to choose heads. A
quantity that is the same for all examples gives no thirds.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from headcount.tasks import Task


def slices(task: Task, known: Task, max_tokens: int = 4096) -> dict[str, Int[np.ndarray, " some"]]:
    """Indices of the examples in every slice, by its name; empty for models that take no text.

    Args:
        task: the data set to divide.
        known: the data used to choose heads, whose tokens are counted too.
        max_tokens: largest number of padded tokens in a batch.
    """
    batches = [*_tokens(task, max_tokens)]
    if not batches:
        return {}
    index_T, id_T = np.concatenate(batches, 1)
    count_V = np.bincount(id_T)
    for _, id_B in _tokens(known, max_tokens):
        more_V = np.bincount(id_B, minlength=len(count_V))
        count_V = np.pad(count_V, (0, len(more_V) - len(count_V))) + more_V
    length_N = np.bincount(index_T, minlength=task.num_examples)
    rarest_N = np.full(task.num_examples, count_V.max())
    np.minimum.at(rarest_N, index_T, count_V[id_T])
    names = ("short", "middling", "long"), ("rarest tokens", "rarer tokens", "least rare tokens")
    found = {}
    for three, number_N in zip(names, (length_N, rarest_N), strict=True):
        if number_N.min() == number_N.max():
            continue
        for name, part in zip(three, np.array_split(np.argsort(number_N, kind="stable"), 3),
                              strict=True):  # fmt: skip
            if len(part):
                found[f"{name} ({number_N[part].min():,} to {number_N[part].max():,})"] = part
    return found


def _tokens(task: Task, max_tokens: int) -> Iterator[Int[np.ndarray, "2 token"]]:
    """Every token's example and id, batch by batch; for pairs, the tokens of both texts."""
    for batch in task.batches(max_tokens):
        if "input_ids" not in batch.inputs:
            return
        is_token_RN = batch.inputs["attention_mask"].bool()
        index_R = batch.index_E[batch.example_R]
        index_T = index_R.repeat_interleave(is_token_RN.sum(1))
        yield np.stack([index_T, batch.inputs["input_ids"][is_token_RN]])
