"""Batches of a corpus: some tokens are masked, and what was measured of each batch is joined."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from headcount.corpora import Batch

Part = TypeVar("Part", bound=Any)


def joined(parts: Sequence[Part]) -> Part:
    """One dataclass of arrays for several: every field, part after part."""
    names = (field.name for field in fields(parts[0]))
    arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    return type(parts[0])(*arrays)


def masked(batches: Iterable[Batch], share: float, mask_id: int, seed: int) -> Iterator[Batch]:
    """Replace a share of the tokens of every text, rounded down, but at least one.

    Special tokens are never replaced. What is known of a token, such as its kind, is still that of
    the text as it was.

    Args:
        batches: the texts.
        share: the share of the tokens.
        mask_id: what replaces them.
        seed: seed of the draws.
    """
    random = np.random.default_rng(seed)
    for batch in batches:
        ids_BN = batch.inputs["input_ids"].clone()
        for row, is_content_N in enumerate(batch.source.is_content_BN):
            places = is_content_N.nonzero()[:, 0].numpy()
            count = min(len(places), max(1, int(share * len(places))))
            ids_BN[row, random.choice(places, count, replace=False)] = mask_id
        yield replace(batch, inputs=batch.inputs | {"input_ids": ids_BN})
