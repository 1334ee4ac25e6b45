"""Words of running text, whatever the tokenizer: every token belongs to a word with a text."""

from pathlib import Path

import pytest

from headcount.corpora import Encoder, LabelledTokens, label_source, label_target
from tests import saved, tiny_tokenizers

TEXT = "She doesn't believe it: 2,024 green chairs (and a dog)!"
WORDS = ["She", "doesn't", "believe", "it", ":", "2,024", "green", "chairs", "(", "and", "a"]
WORDS += ["dog", ")!"]

TOKENIZERS = {
    "wordpiece": tiny_tokenizers.wordpiece,
    "gpt2": lambda: tiny_tokenizers.byte_level("gpt2"),
    "t5": tiny_tokenizers.t5,
    "llama": tiny_tokenizers.llama,
    "byt5": tiny_tokenizers.byt5,
}


def plain(tokens: LabelledTokens) -> list[str]:
    pairs = zip(tokens.words, tokens.is_special, strict=True)
    return [word for word, is_special in pairs if not is_special]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_punctuation_and_numbers_are_words(name: str) -> None:
    tokens = label_source(Encoder(TOKENIZERS[name]()), TEXT)
    assert plain(tokens) == WORDS
    assert [*dict.fromkeys(tokens.word_of)] == [*range(len(tokens.words))]
    assert len(tokens.ids) == len(tokens.word_of)


def test_words_that_share_a_piece_are_one() -> None:
    tokens = label_source(Encoder(tiny_tokenizers.across_words()), "The dog saw a dog, too.")
    assert "".join(plain(tokens)).replace(" ", "").lower() == "thedogsawadog,too."
    assert any(" " in word for word in tokens.words)


@pytest.mark.parametrize("text", ["\u202e x \x00", "🙂🙂", "<s></s> [MASK] <script>", "a\u0301"])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_hostile_text_has_words(name: str, text: str) -> None:
    tokens = label_source(Encoder(TOKENIZERS[name]()), text)
    assert max(tokens.word_of) == len(tokens.words) - 1 and len(tokens.ids) == len(tokens.word_of)


def test_a_pair_is_one_sequence_with_types() -> None:
    encoder = Encoder(tiny_tokenizers.wordpiece(), token_types=True)
    tokens = label_source(encoder, "The dog.", "A dog.")
    assert tokens.words == ("[CLS]", "The", "dog", ".", "[SEP]", "A", "dog", ".", "[SEP]")
    assert tokens.type_ids is not None and tokens.type_ids[0] == 0 and tokens.type_ids[-1] == 1


@pytest.mark.parametrize("separate", [False, True])
def test_a_target_is_shifted_behind_the_start(tmp_path: Path, separate: bool) -> None:
    tokenizer = tiny_tokenizers.marian(tmp_path, separate_vocabs=separate)
    encoder = Encoder(tokenizer, start_id=saved.number(tokenizer.pad_token_id))
    tokens = label_target(encoder, "Der alte Hund bellte.")
    assert tokens.words == ("(start)", "Der", "alte", "Hund", "bellte", ".")
    assert tokens.ids[0] == tokenizer.pad_token_id and tokens.word_of[0] == 0
    assert label_source(encoder, "The old dog.").words == ("The", "old", "dog", ".", "</s>")
