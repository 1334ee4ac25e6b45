"""Slices: parts of a data set that may fare differently: short and long, with rare tokens or not.

Thirds of the examples by number of tokens (of the source, in translation) and by how often the
rarest of their tokens occurs in it and in the data that heads were chosen with; no thirds of what
is the same in all.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from headcount.tasks import Task


def slices(task: Task, known: Task, max_tokens: int = 4096) -> dict[str, Int[np.ndarray, " some"]]:
    """Numbers of the examples of every slice, by its name; none for models that take no text.

    Args:
        task: what is cut.
        known: counts tokens, beside it.
        max_tokens: padded tokens in a batch.
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
    """Batch by batch every token's example and id; of a pair both texts'."""
    for batch in task.batches(max_tokens):
        if "input_ids" not in batch.inputs:
            return
        is_token_RN = batch.inputs["attention_mask"].bool()
        index_R = batch.index_E[batch.example_R]
        index_T = index_R.repeat_interleave(is_token_RN.sum(1))
        yield np.stack([index_T, batch.inputs["input_ids"][is_token_RN]])
