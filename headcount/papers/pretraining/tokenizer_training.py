"""Pieces: one joint vocabulary for both sides, learned from the training text.

Byte-pair encoding of words and punctuation marks, which are kept apart. The space before a word is
its first character, so that decoding restores the text. `</s>` ends every text on both sides.
Reference: Neural Machine Translation of Rare Words with Subword Units (Sennrich et al., 2016),
https://aclanthology.org/P16-1162

BPE-dropout: each time a word occurs, it is split into pieces at random.

A word starts as its characters. At each step every possible merge is skipped with some
probability, and of the others the merge learned first is applied, until none is left. So rare
pieces are seen in many contexts, and no sentence is memorised as one sequence of ids.

Reference: BPE-Dropout: Simple and Effective Subword Regularization (Provilkov et al., 2020),
section 3, algorithm 1, https://aclanthology.org/2020.acl-main.170
Departure: a word has at most 32 random splits; each occurrence draws one of them.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, final

import numpy as np
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from headcount.core import CorpusError, ModelError, amount, reason
from headcount.models import place_of
from headcount.papers.pretraining.recipe import ModelRecipe
from headcount.papers.pretraining.rows import Rows

SPECIAL = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
ALPHABET = 1000
"""Number of most frequent characters in the alphabet; all others become <unk>."""
WORD = rf"{SPACE}?(?:[\p{{L}}\p{{M}}]+|\p{{N}}+|[^{SPACE}\p{{L}}\p{{M}}\p{{N}}])|{SPACE}"
"""Letters, digits, or a single other character, each with the space before it."""


def learn_pieces(texts: Iterable[str], size: int, max_length: int) -> PreTrainedTokenizerFast:
    """Learn a tokenizer.

    Args:
        texts: both sides of the training text.
        size: number of pieces in the vocabulary, special tokens included.
        max_length: largest number of tokens in a text, `</s>` included.

    Raises:
        CorpusError: if the text is too small for a vocabulary of this size.
    """
    backend = _backend()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(SPECIAL.values()),
        limit_alphabet=ALPHABET,
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    if backend.get_vocab_size() != size:
        raise CorpusError(
            f"Expected text for a vocabulary of {amount(size, 'piece')}, got text that supports "
            f"{backend.get_vocab_size():,}. Set the recipe's pieces to that (pieces="
            f"{backend.get_vocab_size()}), or train on more text."
        )
    end = SPECIAL["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}",
        pair=f"$A {end} $B {end}",
        special_tokens=[(end, backend.token_to_id(end))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        **SPECIAL,
    )


def _backend() -> Tokenizer:
    """The tokenizer before any pieces are learned."""
    backend = Tokenizer(models.BPE(unk_token=SPECIAL["unk_token"]))
    backend.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
    )
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=False),
            pre_tokenizers.Split(Regex(WORD), "isolated"),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return backend


def tokenizer_in(
    out: Path, model: str | None, rows: Rows, recipe: ModelRecipe
) -> PreTrainedTokenizerBase:
    """The tokenizer in a training's folder, created on the first call.

    Args:
        out: the folder.
        model: model whose tokenizer to use; None to learn one.
        rows: text to learn it from.
        recipe: sets the number of pieces and the longest text.

    Raises:
        ModelError: if there is no such model, or the folder's tokenizer can't be read.
    """
    if not (out / "tokenizer_config.json").exists():  # slow tokenizers have no tokenizer.json
        texts = (side for row in rows.rows for side in row)
        tokenizer = (
            learn_pieces(texts, recipe.pieces, recipe.max_length)
            if model is None
            else read_tokenizer(place_of(model))
        )
        tokenizer.model_max_length = recipe.max_length  # not the other model's
        tokenizer.save_pretrained(out)
    return read_tokenizer(out)


def read_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model.

    Raises:
        ModelError: if there is none that can be loaded.
    """
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # damaged files may raise anything in the libraries that read them
        raise ModelError(
            f"Expected a model with a tokenizer, got {str(folder)!r}, which has none that can be "
            f"loaded ({reason(error)}). Name another model."
        ) from error


DRAWS = 32
"""Largest number of random splits of a word."""

Ids = list[int]


@final
class BpeDropout:
    """Splits texts into pieces at random; the same seed and batch give the same split.

    Args:
        tokenizer: a fast tokenizer with BPE pieces and `</s>` after every text.
        texts: the texts of every side.
        ids: the token ids of these texts, without dropout.
        dropout: the probability that a merge is skipped.
        seed: seed of the draws.

    Raises:
        ModelError: if the tokenizer splits texts in another way.
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
        """The function that splits the examples of a side for batch `number` of the training."""
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
        """Merge a word's characters, always by the first-learned merge that is not skipped."""
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
        """Check that without dropout our pieces equal those of the tokenizer itself."""
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
    """The function that normalizes a text and splits it into words, as the tokenizer does."""
    normalizer, splitter = backend.normalizer, backend.pre_tokenizer

    def words(text: str) -> list[str]:
        plain = text if normalizer is None else normalizer.normalize_str(text)
        return [plain] if splitter is None else [w for w, _ in splitter.pre_tokenize_str(plain)]

    return words


def _cuts_otherwise(tokenizer: PreTrainedTokenizerBase, found: str) -> ModelError:
    return ModelError(
        "Expected a tokenizer with byte-pair pieces and </s> after every text for bpe_dropout, "
        f"such as `headcount train` learns; got {tokenizer.name_or_path}, which has {found}. "
        "Set bpe_dropout to 0."
    )
