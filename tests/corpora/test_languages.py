"""Multilingual translators: languages are set, shown, kept and required, never guessed."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    M2M100Config,
    M2M100ForConditionalGeneration,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    PreTrainedTokenizerBase,
)

from headcount.core import InputError
from headcount.corpora import Corpus, Sentence, language_in_generation, set_languages
from headcount.models import Loaded, load, tokenizer_revision
from headcount.models.pseudo_targets import translated
from headcount.tasks import Translation
from tests import tiny, tiny_tokenizers

PAIR = {"source": ["The old dog."], "target": ["Der alte Hund."]}
LANGUAGES = {"nllb": ("eng_Latn", "deu_Latn"), "m2m100": ("en", "de"), "mbart": ("en_XX", "de_DE")}
KINDS = {"nllb": tiny_tokenizers.nllb, "mbart": tiny_tokenizers.mbart}


@pytest.fixture(params=[*LANGUAGES])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def tokenizer(kind: str, tmp_path: Path) -> PreTrainedTokenizerBase:
    return KINDS[kind]() if kind in KINDS else tiny_tokenizers.m2m100(tmp_path)


def of(tokenizer: PreTrainedTokenizerBase) -> Loaded:
    sizes: dict[str, Any] = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    sizes |= dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2)
    sizes |= dict.fromkeys(("d_model", "encoder_ffn_dim", "decoder_ffn_dim"), 16)
    ids: dict[str, Any] = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    sizes |= ids | {"max_position_embeddings": 64}
    if isinstance(tokenizer, MBartTokenizer):  # whose models wrap the language around
        model: Any = MBartForConditionalGeneration(MBartConfig(vocab_size=len(tokenizer), **sizes))
    else:
        model = M2M100ForConditionalGeneration(
            M2M100Config(vocab_size=len(tokenizer) + 200, **sizes)
        )
    return Loaded(tiny.seeded(model), tokenizer, "tiny")


@pytest.mark.slow
def test_unset_languages_are_asked_for(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    from headcount import diagnose

    loaded = of(tokenizer)
    with pytest.raises(InputError, match="languages .* none are set. Give --languages"):
        Translation(loaded, PAIR)
    with pytest.raises(InputError, match="none are set"):
        loaded.encoder().encode([Sentence("The dog.", target="Der Hund.")])
    with pytest.raises(InputError, match="none are set"):
        corpus = Corpus.from_sentences(["a"])
        translated(loaded.model, loaded.encoder(), corpus, Path("none"), Path("none"))
    assert tokenizer.tgt_lang is None, "nothing was guessed"  # type: ignore[attr-defined]
    loaded.model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    assert any("--languages" in each.text for each in diagnose(tmp_path / "model"))


def test_decoders_that_start_with_the_language_are_not_trained(
    kind: str, tokenizer: PreTrainedTokenizerBase
) -> None:
    """A new decoder starts with </s>, whatever its targets end with."""
    from headcount.papers import RECIPES, Rows
    from headcount.papers.pretraining.examples import encode

    set_languages(tokenizer, LANGUAGES[kind])
    rows = Rows(("source", "target"), [("the", "der")])
    refusal = pytest.raises(InputError, match="Expected a tokenizer whose targets end with </s>")
    with refusal if kind == "mbart" else nullcontext():
        assert encode(rows, tokenizer, RECIPES["tiny"], seed=0).num_long == 0


def test_the_decoder_starts_in_the_targets_language(
    tokenizer: PreTrainedTokenizerBase, kind: str
) -> None:
    """Loss, translation search and analysis treat it alike."""
    set_languages(tokenizer, LANGUAGES[kind])
    loaded = of(tokenizer)
    source, target = (
        tokenizer.convert_tokens_to_ids(f"__{name}__" if kind == "m2m100" else name)
        for name in LANGUAGES[kind]
    )
    start = [target] if kind == "mbart" else [2, target]
    place = -1 if kind == "mbart" else 0
    task = Translation(loaded, PAIR, num_beams=1)
    assert f":{target}" in task.signature
    (batch,) = task.batches()
    assert source != target and batch.inputs["input_ids"][0, place] == source
    assert batch.inputs["decoder_input_ids"][0, : len(start)].tolist() == start
    seen: list[torch.Tensor] = []
    generate: Any = loaded.model.generate

    def heard(**options: object) -> torch.Tensor:
        seen.append(generate(**options))
        return seen[-1]

    loaded.model.generate = heard  # type: ignore[assignment]
    task.translate(loaded.model)
    assert seen[0][0, : len(start)].tolist() == start
    (pair,) = loaded.encoder().encode([Sentence("The dog.", target="Der Hund.")])
    assert pair.target is not None and pair.target.ids[: len(start)] == start
    assert target not in pair.target.ids[len(start) :]


def test_own_translations_are_in_the_language(
    tokenizer: PreTrainedTokenizerBase, kind: str, tmp_path: Path
) -> None:
    set_languages(tokenizer, LANGUAGES[kind])
    loaded, seen = of(tokenizer), []
    generate: Any = loaded.model.generate
    loaded.model.generate = lambda **options: seen.append(options) or generate(**options)  # type: ignore[assignment]
    corpus = Corpus.from_sentences(["The dog."])
    translated(loaded.model, loaded.encoder(), corpus, tmp_path / "targets.txt", tmp_path)
    reported = language_in_generation(tokenizer)
    assert reported and seen[0] | reported == seen[0]


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
    with pytest.raises(InputError, match="Expected languages .* got 'tlh'"):
        set_languages(tokenizer, ("tlh", "de"))
    with pytest.raises(InputError, match="BertTokenizer, which knows none. Omit the option"):
        set_languages(tiny_tokenizers.wordpiece(), ("en", "de"))


def test_others_begin_with_no_language() -> None:
    assert language_in_generation(tiny_tokenizers.t5()) == {}
