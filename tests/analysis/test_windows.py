"""Texts longer than the model, read in windows: planted attention, and what is counted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import headcount
from headcount.measures import Confidence, Positional
from headcount.models import Loaded, random_copy
from tests import saved, tiny, tiny_tokenizers
from tests.corpora.test_halves import text_of
from tests.corpora.test_windows import treebank

LIMIT = 16
WINDOWS = headcount.Options(windows=True)


def planted() -> Loaded:
    """A model for 16 tokens whose only head looks at the token before."""
    tokenizer = tiny_tokenizers.wordpiece(LIMIT)
    sizes = {"hidden_size": LIMIT, "intermediate_size": 4, "max_position_embeddings": LIMIT}
    make: Any = BertConfig
    config = make(vocab_size=len(tokenizer), num_hidden_layers=1, num_attention_heads=1, **sizes)
    model: Any = BertModel(config).eval()

    with torch.no_grad():
        model.embeddings.word_embeddings.weight.zero_()
        model.embeddings.token_type_embeddings.weight.zero_()
        model.embeddings.position_embeddings.weight.copy_(torch.eye(LIMIT))
        attention = model.encoder.layer[0].attention.self
        attention.key.weight.copy_(torch.eye(LIMIT))
        attention.query.weight.copy_(20 * torch.eye(LIMIT).roll(-1, 0))  # q asks for q - 1
        attention.query.bias.zero_()
        attention.key.bias.zero_()
    return Loaded(model, tokenizer, "planted")


def test_a_planted_head_is_found_in_every_window() -> None:
    loaded, sentences = planted(), treebank(30, 4)
    corpus = headcount.Corpus.from_sentences(sentences)
    tokens = [len(each.ids) - 2 for each in loaded.encoder(windows=True).sources(sentences)]
    frame = headcount.measure(loaded, corpus, (Positional, Confidence), windows=True).frame
    assert frame["positional_offset"].tolist() == [-1]
    # All but the first token of each text see the token before in the window that measures them
    assert frame["positional_share"].tolist() == pytest.approx([1 - 2 / sum(tokens)], abs=1e-12)
    analysis = headcount.analyze(loaded, corpus, WINDOWS)
    assert analysis.heads.frame["positional_share"].tolist() == frame["positional_share"].tolist()
    counts, census = analysis.record.counts, loaded.encoder(windows=True).encode(sentences[:1])
    assert (counts.sentences, counts.truncated, counts.longest) == (2, 0, LIMIT)
    assert (counts.windowed, counts.windows) == (1, len(census))
    assert counts.tokens == sum(tokens) + 2 * (1 + len(census))
    assert analysis.relations is not None
    arcs = analysis.relations.query("relation == 'obj' and direction == 'dependent->head'")
    assert arcs["cases"].tolist() == [32 - counts.out_of_reach]
    assert counts.out_of_reach > 0
    assert any("read in windows: 1 of 2" in each for each in analysis.record.warnings)
    unreached = f"without a common window, not counted: {analysis.record.counts.out_of_reach}"
    assert any(each.endswith(unreached) for each in analysis.record.warnings)
    assert "|windows:True|" in analysis.record.signature


def test_a_causal_model_reads_every_token_once() -> None:
    tokenizer = tiny_tokenizers.llama()
    sizes: dict[str, Any] = tiny.GROUPED | {"max_position_embeddings": 24}
    sizes["vocab_size"] = len(tokenizer)
    loaded = Loaded(tiny.seeded(LlamaForCausalLM(LlamaConfig(**sizes))), tokenizer, "tiny")
    corpus = headcount.Corpus.from_sentences(["der Hund sah über 2024 Äpfel und schlief " * 4])
    (text,) = loaded.encoder(windows=True).sources([*corpus])
    sums = headcount.measure(loaded, corpus, (Confidence,), windows=True).frame
    every = []
    with torch.no_grad():
        for pair in loaded.encoder(windows=True).encode([*corpus]):
            ids = torch.tensor([pair.source.ids])
            maps = tiny.attention_maps(loaded.model, {"input_ids": ids})["decoder.self"]
            content = [not flag for flag in pair.source.is_special]
            weights = torch.stack(maps)[:, 0][..., torch.tensor(content)]
            is_query = torch.tensor(pair.source.is_measured) & torch.tensor(content)
            every.append(weights[:, :, is_query].amax(-1))
    peaks = torch.cat(every, -1)
    assert peaks.shape[-1] == text.is_special.count(False) > 24
    expected = peaks.double().mean(-1).flatten().tolist()
    assert sums["confidence"].tolist() == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


@pytest.mark.slow
def test_if_everything_fits_nothing_changes(bert: Loaded) -> None:
    corpus = headcount.Corpus.from_sentences(treebank(3, 7, 5, 4))
    plain, read = headcount.analyze(bert, corpus), headcount.analyze(bert, corpus, WINDOWS)
    pd.testing.assert_frame_equal(read.heads.frame, plain.heads.frame, check_exact=True)
    assert read.profiles is not None and plain.profiles is not None
    pd.testing.assert_frame_equal(read.profiles, plain.profiles, check_exact=True)
    same = replace(read.record, signature="", timings={})
    assert same == replace(plain.record, signature="", timings={})
    assert "windows" not in plain.record.to_json()["counts"], "run.json is as it was"


@pytest.mark.slow
def test_an_interrupted_run_resumes(bert: Loaded, tmp_path: Path) -> None:
    corpus = headcount.Corpus.from_sentences(treebank(40, 7))
    options = replace(WINDOWS, max_tokens=64, save_every=0.0)
    whole = headcount.analyze(bert, corpus, options)
    done = list[int]()

    def stop(stage: str, so_far: int, total: int) -> None:
        if stage != "measuring":
            return
        done.append(so_far)
        assert so_far <= total
        if len(done) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        headcount.analyze(bert, corpus, options, tmp_path, stop)
    resumed = headcount.analyze(bert, corpus, options, tmp_path)
    pd.testing.assert_frame_equal(resumed.heads.frame, whole.heads.frame, check_exact=True)
    with pytest.raises(headcount.InputError, match="--resume needs the same"):
        headcount.analyze(bert, corpus, replace(options, windows=False), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("make", [saved.bert, saved.gpt2])
def test_random_weights_have_no_role_in_one_long_text(
    make: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Weights on the first token and offsets are tested, in ten segments of each half."""
    loaded = headcount.load(make(tmp_path))
    copy = Loaded(random_copy(loaded.model), loaded.tokenizer, "random")
    corpus = headcount.Corpus.from_sentences([text_of(3300, 0)])
    analysis = headcount.analyze(copy, corpus, replace(WINDOWS, induction=False))
    assert "|units:segments|" in analysis.record.signature
    assert analysis.profiles is not None
    tested = analysis.profiles.query("verdict != 'untested'")
    assert {"first", "previous", "self", "offset"} <= {*tested["trait"]}
    assert {*tested["verdict"]} == {"none"}
    assert {*tested["units"]} == {10}


def test_strict_and_windows_exclude_each_other() -> None:
    with pytest.raises(headcount.InputError, match="one of --strict and --windows"):
        headcount.Options(strict=True, windows=True)
