"""Multilingual translators: languages are set, told, kept and asked for, never guessed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, PreTrainedTokenizerBase

from headcount import doctor
from headcount.corpora import Corpus, Encoder, Sentence
from headcount.corpora.languages import language_id, set_languages
from headcount.errors import InputError
from headcount.models.load import Loaded, load
from headcount.signature import tokenizer_revision
from headcount.tasks import Translation
from headcount.translating import translated
from tests import tiny, tiny_tokenizers

PAIR = {"source": ["The old dog."], "target": ["Der alte Hund."]}
LANGUAGES = {"nllb": ("eng_Latn", "deu_Latn"), "m2m100": ("en", "de")}


@pytest.fixture(params=["nllb", "m2m100"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tokenizer(kind: str, tmp_path: Path) -> PreTrainedTokenizerBase:
    return tiny_tokenizers.nllb() if kind == "nllb" else tiny_tokenizers.m2m100(tmp_path)


def of(tokenizer: PreTrainedTokenizerBase) -> Loaded:
    sizes: dict[str, Any] = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
    sizes |= dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16)
    ids: dict[str, Any] = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = M2M100Config(
        vocab_size=len(tokenizer) + 200, max_position_embeddings=64, **sizes, **ids
    )
    return Loaded(tiny._seeded(M2M100ForConditionalGeneration(config)), tokenizer, "tiny")


def test_unset_languages_are_asked_for(tokenizer: PreTrainedTokenizerBase) -> None:
    loaded = of(tokenizer)
    with pytest.raises(InputError, match="languages .* none are set: give --languages"):
        Translation(loaded, PAIR)
    with pytest.raises(InputError, match="none are set"):
        loaded.encoder().encode([Sentence("The dog.", target="Der Hund.")])
    assert tokenizer.tgt_lang is None, "nothing was guessed"  # type: ignore[attr-defined]
    assert any("--languages" in each.text for each in doctor._tokenizer(loaded))


def test_targets_begin_with_their_language_and_so_do_translations(
    tokenizer: PreTrainedTokenizerBase, kind: str
) -> None:
    set_languages(tokenizer, LANGUAGES[kind])
    loaded = of(tokenizer)
    source, target = (
        tokenizer.convert_tokens_to_ids(name if kind == "nllb" else f"__{name}__")
        for name in LANGUAGES[kind]
    )
    assert source != target and language_id(tokenizer) == target
    task = Translation(loaded, PAIR, num_beams=1)
    assert f"forced_bos_token_id:{target}" in task.signature
    (batch,) = task.batches()
    assert batch.inputs["input_ids"][0, 0] == source and batch.labels["labels"][0, 0] == target
    seen: list[torch.Tensor] = []
    generate: Any = loaded.model.generate

    def heard(**options: object) -> torch.Tensor:
        seen.append(generate(**options))
        return seen[-1]

    loaded.model.generate = heard  # type: ignore[assignment]
    task.translate(loaded.model)
    assert seen[0][0, :2].tolist() == [2, target]
    (pair,) = loaded.encoder().encode([Sentence("The dog.", target="Der Hund.")])
    assert pair.target is not None and pair.target.ids[:2] == [2, target]


def test_own_translations_are_in_the_language(
    tokenizer: PreTrainedTokenizerBase, kind: str, tmp_path: Path
) -> None:
    set_languages(tokenizer, LANGUAGES[kind])
    loaded, seen = of(tokenizer), []
    generate: Any = loaded.model.generate
    loaded.model.generate = lambda **options: seen.append(options) or generate(**options)  # type: ignore[assignment]
    corpus = Corpus.from_sentences(["The dog."])
    translated(loaded.model, loaded.encoder(), corpus, tmp_path / "targets.txt", tmp_path)
    assert seen[0]["forced_bos_token_id"] == language_id(tokenizer)


def test_languages_are_kept_and_signed(
    tokenizer: PreTrainedTokenizerBase, kind: str, tmp_path: Path
) -> None:
    loaded = of(tokenizer)
    before = tokenizer_revision(tokenizer)
    for part in (loaded.model, tokenizer):
        part.save_pretrained(tmp_path / "saved")
    first = load(tmp_path / "saved", languages=LANGUAGES[kind])
    assert first.tokenizer is not None and tokenizer_revision(first.tokenizer) != before
    first.tokenizer.save_pretrained(tmp_path / "saved")
    again = load(tmp_path / "saved").tokenizer
    assert again is not None
    assert (again.src_lang, again.tgt_lang) == LANGUAGES[kind]  # type: ignore[attr-defined]
    assert tokenizer_revision(again) == tokenizer_revision(first.tokenizer)


def test_unknown_languages_are_refused(tokenizer: PreTrainedTokenizerBase) -> None:
    with pytest.raises(InputError, match="does not know 'tlh'"):
        set_languages(tokenizer, ("tlh", "de"))
    with pytest.raises(InputError, match="BertTokenizer knows none: leave the option out"):
        set_languages(tiny_tokenizers.wordpiece(), ("en", "de"))


def test_others_begin_with_no_language() -> None:
    assert Encoder(tiny_tokenizers.t5(), start_id=0).language_id is None
