"""Halves of a corpus: what is chosen on the first half is tested on the second.

Which half a text is in depends on a hash of the text alone: not on its place in the corpus, on the
model or on batches, and equal texts are in the same half. A *unit* is what a test takes as
independent: a text, or, if a text has more than `LONG` tokens, a run of `UNIT` tokens in it. The
units of a long text are in either half, so that a corpus of one text can be tested too. A window of
a text (see `windows`) is a text of its own here, and an image is one unit, whatever its size.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from jaxtyping import Bool, Int64

from headcount.corpora.sentence import Sentence

LONG = 128
"""Largest number of tokens of a text that is one unit."""
UNIT = 32
"""Number of tokens in each unit of a longer text; the last unit may have up to twice as many."""
NO_UNIT = -1


def is_in_second_half(sentence: Sentence, unit: int = 0) -> bool:
    """Whether a unit of a sentence is in the second half of the corpus."""
    text = "\n".join([sentence.text, sentence.second or "", str(unit)])
    return bool(blake2b(text.encode(), digest_size=1).digest()[0] & 1)


def num_units(length: int) -> int:
    """Number of units in a text, or a window of one, with some number of tokens."""
    return 1 if length <= LONG else length // UNIT


def units(
    sentences: Sequence[Sentence], lengths: Sequence[int], firsts: Sequence[int]
) -> tuple[Int64[np.ndarray, "row token"], Bool[np.ndarray, "row token"]]:
    """Number of each token's unit, from 0 in a batch, and whether it is in the second half.

    Args:
        sentences: the text of each row.
        lengths: number of tokens of each row.
        firsts: number of units in the earlier windows of each row's text.
    """
    shape = (len(sentences), max(lengths))
    unit_RN, is_second_RN = np.full(shape, NO_UNIT, dtype=np.int64), np.zeros(shape, dtype=bool)
    total = 0
    rows = zip(sentences, lengths, firsts, strict=True)
    for row, (sentence, length, first) in enumerate(rows):
        count = num_units(length) if sentence.image is None else 1
        own_N = np.minimum(np.arange(length) // UNIT, count - 1)
        second_U = np.array([is_in_second_half(sentence, first + unit) for unit in range(count)])
        unit_RN[row, :length] = total + own_N
        is_second_RN[row, :length] = second_U[own_N]
        total += count
    return unit_RN, is_second_RN
