"""Pieces: one joint vocabulary for both sides, learned from the training text.

Byte-pair encoding of words and punctuation marks, which are kept apart. The space before a word is
its first character, so that decoding restores the text. `</s>` ends every text on both sides.
Reference: Neural Machine Translation of Rare Words with Subword Units (Sennrich et al., 2016),
https://aclanthology.org/P16-1162
"""

from collections.abc import Iterable
from pathlib import Path

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
