"""Slices: parts of a data set that may fare differently: short and long, with rare tokens or not.

Thirds of the examples by number of tokens (of the source, in translation) and by how often the
rarest of their tokens occurs in it and in the data that heads were chosen with.
"""

from collections import Counter
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
    rows = sorted(_rows(task, max_tokens))
    if not rows:
        return {}
    counts = Counter(token for _, ids in rows for token in ids)
    counts.update(token for _, ids in _rows(known, max_tokens) for token in ids)
    length_N = np.array([len(ids) for _, ids in rows])
    rarest_N = np.array([min(counts[token] for token in ids) for _, ids in rows])
    names = ("short", "middling", "long"), ("rarest tokens", "rare tokens", "no rare tokens")
    found = {}
    for three, number_N in zip(names, (length_N, rarest_N), strict=True):
        for name, part in zip(three, np.array_split(np.argsort(number_N, kind="stable"), 3),
                              strict=True):  # fmt: skip
            if len(part):
                found[f"{name} ({number_N[part].min():,} to {number_N[part].max():,})"] = part
    return found


def _rows(task: Task, max_tokens: int) -> Iterator[tuple[int, list[int]]]:
    """Number and tokens of every example; of a pair both."""
    for batch in task.batches(max_tokens):
        if "input_ids" not in batch.inputs:
            return
        mask = batch.inputs["attention_mask"].bool()
        for example, index in enumerate(batch.index_E.tolist()):
            rows = (batch.example_R == example).nonzero().flatten()
            tokens = batch.inputs["input_ids"][rows][mask[rows]]
            yield index, tokens.tolist()
