"""Tokens of planted models: rows of bits, how they are written, and how rare they are."""

import numpy as np
from jaxtyping import Float, Int

PAYLOAD = 7
"""Number of bits of a token that are even at random."""
PUNCTUATION, RARE, GATE = PAYLOAD, PAYLOAD + 1, PAYLOAD + 2
"""Bits that name a class of tokens."""
BITS = PAYLOAD + 3
SHARE = {PUNCTUATION: 0.15, RARE: 0.1, GATE: 0.7}
"""Share of the tokens that have each of these bits."""
RARITY = {RARE: 8.0, PUNCTUATION: -8.0, GATE: 2.0, 0: 1.0, 1: 0.5}
"""How much rarer a token is with each bit: punctuation marks are frequent."""
_LETTERS = ("bp", "ae", "dt", "io", "gk", "uy", "lr", "mn", "sz")
_MARKS = (".,", ";:", "!?", "-_", "()", "[]", "{}", "/\\", "*&")


def rarity(bits: Int[np.ndarray, "*shape bit"]) -> Float[np.ndarray, "*shape"]:
    """How rare tokens are in other texts, for which see `counts`."""
    return bits[..., [*RARITY]] @ np.array([*RARITY.values()])


def counts() -> dict[str, int]:
    """How often each token occurs in other texts, less often by `rarity`."""
    each_V = np.round(1e6 * np.exp(-rarity(vocabulary()) / 4)).astype(int)
    return dict(zip(map(word, vocabulary()), each_V.tolist(), strict=True))


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Int[np.ndarray, "*shape bit"]:
    """Bits of random tokens."""
    share_K = np.array([SHARE.get(bit, 0.5) for bit in range(BITS)])
    return np.where(rng.random((*shape, BITS)) < share_K, 1, -1)


def word(bits_K: Int[np.ndarray, " bit"]) -> str:
    r"""How a token is written: letters, or punctuation marks.

    >>> word(np.ones(BITS, int)), word(-np.ones(BITS, int))
    (',:?_)]}\\&', 'badigulms')
    """
    others = [bool(bit > 0) for number, bit in enumerate(bits_K) if number != PUNCTUATION]
    spelled = _MARKS if bits_K[PUNCTUATION] > 0 else _LETTERS
    return "".join(pair[is_one] for pair, is_one in zip(spelled, others, strict=True))


def vocabulary() -> Int[np.ndarray, "token bit"]:
    """The bits of every token, in the order of their numbers."""
    return 2 * (np.arange(1 << BITS)[:, None] >> np.arange(BITS) & 1) - 1


def written(bits_TK: Int[np.ndarray, "token bit"]) -> str:
    """A text as it is written, with a blank between tokens."""
    return " ".join(map(word, bits_TK))
