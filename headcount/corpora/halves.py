"""Halves of a corpus: what is chosen on the first half is tested on the second.

Which half a text is in depends on a hash of the text alone: not on its place in the corpus, on the
model or on batches, and equal texts are in the same half. A *unit* is what a test takes as
independent: a text, or, if a text has more than `LONG` tokens, a run of `UNIT` tokens in it. The
units of a long text are in either half, so that a corpus of one text can be tested too.
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


def units(
    sentences: Sequence[Sentence], lengths: Sequence[int]
) -> tuple[Int64[np.ndarray, "row token"], Bool[np.ndarray, "row token"]]:
    """Number of each token's unit, from 0 in a batch, and whether it is in the second half."""
    shape = (len(sentences), max(lengths))
    unit_RN, is_second_RN = np.full(shape, NO_UNIT, dtype=np.int64), np.zeros(shape, dtype=bool)
    num_units = 0
    for row, (sentence, length) in enumerate(zip(sentences, lengths, strict=True)):
        count = 1 if length <= LONG else length // UNIT
        own_N = np.minimum(np.arange(length) // UNIT, count - 1)
        second_U = np.array([is_in_second_half(sentence, unit) for unit in range(count)])
        unit_RN[row, :length] = num_units + own_N
        is_second_RN[row, :length] = second_U[own_N]
        num_units += count
    return unit_RN, is_second_RN
