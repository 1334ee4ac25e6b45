"""BPE-dropout: every time a word comes it is cut into other pieces.

A word begins as its characters. Of the merges that could come next each is left out with some
probability, of the others the one learned first is made; until there is none. Rare pieces are seen
in many surroundings then, and no sentence is learned by heart as one row of ids.

Reference: BPE-Dropout: Simple and Effective Subword Regularization (Provilkov et al., 2020),
section 3, algorithm 1, https://aclanthology.org/2020.acl-main.170
Departure: a word is cut anew at most 32 times; where it comes, one of these is drawn.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, final

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from headcount.errors import ModelError

DRAWS = 32
"""Ways to cut a word that are drawn at most."""

Ids = list[int]


@final
class BpeDropout:
    """Cuts texts into pieces at random, the same way again for the same seed and batch.

    Args:
        tokenizer: a fast tokenizer with BPE pieces and `</s>` behind every text.
        texts: of every side.
        ids: of the same, without dropout.
        dropout: the probability that a merge is left out.
        seed: of the draws.

    Raises:
        ModelError: if the tokenizer cuts in another way.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[Sequence[str]],
        ids: Sequence[Sequence[Ids]],
        dropout: float,
        seed: int,
    ) -> None:
        backend: Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise _cuts_otherwise(tokenizer, "no fast tokenizer")
        pieces = json.loads(backend.to_str())["model"]
        if pieces["type"] != "BPE":
            raise _cuts_otherwise(tokenizer, f"pieces of the type {pieces['type']}")
        self._dropout, self._seed = dropout, seed
        special: Any = tokenizer
        self._end: int = special.eos_token_id
        self._unknown: int = special.unk_token_id
        self._ids: dict[str, int] = pieces["vocab"]
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pieces["merges"])}
        self._cut: dict[tuple[str, int], Ids] = {}
        words = _words(backend)
        self._words = [[words(text) for text in side] for side in texts]
        self._check(tokenizer, texts, ids)

    def of_batch(self, side: int, number: int) -> Callable[[int], Ids]:
        """What cuts the examples of a side for batch `number` of the training."""
        rng = np.random.default_rng((self._seed, number, side))

        def cut(example: int) -> Ids:
            words = self._words[side][example]
            draws = rng.integers(DRAWS, size=len(words)).tolist()
            cuts = map(self._drawn, words, draws)
            return [*(id for ids in cuts for id in ids), self._end]

        return cut

    def _drawn(self, word: str, draw: int) -> Ids:
        if (word, draw) not in self._cut:
            rng = Random(f"{self._seed} {draw} {word}")
            self._cut[word, draw] = self._pieces(word, lambda: rng.random() >= self._dropout)
        return self._cut[word, draw]

    def _pieces(self, word: str, stays: Callable[[], bool]) -> Ids:
        """Merge a word's characters, each time by the first-learned of the merges that stay."""
        pieces = list(word)
        while True:
            ranked = [
                (self._ranks[pair], place)
                for place, pair in enumerate(zip(pieces, pieces[1:], strict=False))
                if pair in self._ranks and stays()
            ]
            if not ranked:
                return [self._ids.get(piece, self._unknown) for piece in pieces]
            _, place = min(ranked)
            pieces[place : place + 2] = ["".join(pieces[place : place + 2])]

    def _check(
        self,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[Sequence[str]],
        ids: Sequence[Sequence[Ids]],
    ) -> None:
        """That nothing is dropped for sure, and nothing else done, by the tokenizer itself."""
        known: dict[str, Ids] = {}
        for side, encoded in enumerate(ids):
            for example, expected in enumerate(encoded):
                words = self._words[side][example]
                for word in words:
                    if word not in known:
                        known[word] = self._pieces(word, lambda: True)
                if [*(id for word in words for id in known[word]), self._end] != list(expected):
                    raise _cuts_otherwise(tokenizer, f"other pieces of {texts[side][example]!r}")


def _words(backend: Tokenizer) -> Callable[[str], list[str]]:
    """What a fast tokenizer makes of a text before it cuts it into pieces."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer

    def words(text: str) -> list[str]:
        plain = text if normalizer is None else normalizer.normalize_str(text)
        return [plain] if splitter is None else [w for w, _ in splitter.pre_tokenize_str(plain)]

    return words


def _cuts_otherwise(tokenizer: PreTrainedTokenizerBase, found: str) -> ModelError:
    return ModelError(
        "bpe_dropout needs byte-pair pieces with </s> behind every text, such as `headcount train` "
        f"learns; that of {tokenizer.name_or_path} has {found}: set bpe_dropout to 0"
    )
