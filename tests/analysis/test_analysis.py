"""The main use from Python."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import headcount
from headcount.analysis import reading
from headcount.measures import Confidence, Entropy
from headcount.models import Loaded
from headcount.results import Analysis
from headcount.tap import Chosen, Statistics
from headcount.tap.kernel_blocks import AttentionCall
from headcount.tap.kernel_triton import IS_INTERPRETED
from headcount.testing import leaving_no_trace
from tests import saved

SAMPLE = Path(headcount.__file__).parent / "data" / "sample.conllu"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return headcount.load(saved.bert(tmp_path_factory.mktemp("bert")))


def confidence_of(frame: pd.DataFrame) -> pd.Series:
    column = frame["confidence"]
    assert isinstance(column, pd.Series)
    return column


@pytest.mark.slow
def test_a_plain_model_gives_the_numbers_of_a_loaded_one(loaded: Loaded) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=9)
    whole = headcount.analyze(loaded, corpus).heads.frame
    some = headcount.measure(loaded.model, corpus, (Entropy, Confidence), loaded.tokenizer).frame
    assert list(some) == ["head", "site", "layer", "index", "entropy", "confidence"]
    pd.testing.assert_series_equal(confidence_of(some), confidence_of(whole))
    with pytest.raises(headcount.ModelError, match="Expected a tokenizer beside the weights"):
        headcount.measure(loaded.model, corpus)


@pytest.mark.slow
def test_analysis_leaves_no_trace(loaded: Loaded) -> None:
    batch = {"input_ids": torch.tensor([[5, 6, 7]])}
    with leaving_no_trace(loaded.model, batch):
        headcount.analyze(loaded, headcount.Corpus(SAMPLE, limit=9), headcount.Options(null=True))


@pytest.mark.slow
def test_batches_of_any_size_give_the_same_numbers(loaded: Loaded) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=40)
    tables = []
    for options in (headcount.Options(), headcount.Options(max_tokens=100, pool=7)):
        analysis = headcount.analyze(loaded, corpus, options)
        assert analysis.relations is not None
        tables.append((analysis.heads.frame, analysis.relations, analysis.offsets))
        assert {len(shown) for shown in analysis.examples.values()} == {3}
    for one, other in zip(*tables, strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_frequencies_from_a_file_change_what_is_rare(loaded: Loaded, tmp_path: Path) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=40)
    path = tmp_path / "counts.txt"
    path.write_text("the 1000\n")  # all others are unseen, so rare
    options = headcount.Options(), headcount.Options(frequencies=path)
    frames = [headcount.analyze(loaded, corpus, each).heads.frame for each in options]
    counted, given = (each[["rare_cases", "rare_share"]].to_numpy(dtype=float) for each in frames)
    assert not counted[:, 0].any() and np.isnan(counted[:, 1]).all()
    assert (given[:, 0] > 0).all() and np.isfinite(given[:, 1]).all()


@pytest.mark.slow
def test_special_tokens_can_count_in_confidence(loaded: Loaded, tmp_path: Path) -> None:
    """BERT looks at [CLS] and [SEP] too; sums of another confidence are not resumed."""
    corpus = headcount.Corpus(SAMPLE, limit=20)
    plain = headcount.analyze(loaded, corpus, out=tmp_path)
    options = headcount.Options(exclude_keys=False)
    keys = headcount.analyze(loaded, corpus, options, out=tmp_path / "keys")
    found, without = (each.heads.frame["confidence"].to_numpy() for each in (keys, plain))
    assert np.all(found >= without) and np.any(found > without)
    assert "|special:keys|" in keys.record.signature
    assert "special:" not in plain.record.signature
    assert "special tokens count in confidence, as keys" in keys.record.warnings
    with pytest.raises(headcount.InputError, match="needs the same model, data"):
        headcount.analyze(loaded, corpus, options, out=tmp_path)


@pytest.mark.slow
def test_thresholds_decide_roles(loaded: Loaded) -> None:
    corpus = headcount.Corpus(SAMPLE, limit=40)
    lax = {"test_cases": 1, "test_sentences": 2, "test_alpha": 1.0}
    low = headcount.Options(thresholds=headcount.Thresholds(positional_share=0.0, **lax))
    roles = headcount.analyze(loaded, corpus, low).roles
    assert all(found[0].role == "positional" for found in roles.values())


def renamed(old: str, new: str) -> headcount.Corpus:
    """The sample, with another name for a relation."""
    sentences = []
    for each in headcount.Corpus(SAMPLE, limit=60):
        assert each.tree is not None
        names = tuple(new if name == old else name for name in each.tree.relations)
        sentences.append(replace(each, tree=replace(each.tree, relations=names)))
    return headcount.Corpus.from_sentences(sentences)


@pytest.mark.slow
def test_a_relation_may_be_called_like_a_trait(loaded: Loaded, tmp_path: Path) -> None:
    limits = headcount.Thresholds(test_cases=20, syntactic_cases=20)
    options = headcount.Options(thresholds=limits)
    headcount.analyze(loaded, renamed("case", "first"), options).write(tmp_path)
    found = Analysis.read(tmp_path)
    usual = headcount.analyze(loaded, renamed("case", "case"), options)
    assert found.traits is not None and usual.traits is not None
    for head, rows in found.traits.items():
        roles = [row.role for row in rows if row.trait == "first"]
        assert sorted(roles) == ["sink", "syntactic"]
        for row in rows:
            trait = "case" if row.relation == "first" else row.trait
            same = found.expected.get(row.key)
            assert same == usual.expected.get((head, trait, row.role)), row.key


def test_a_relation_called_like_all_of_them_is_refused(loaded: Loaded) -> None:
    with pytest.raises(headcount.CorpusError, match="got 'all', the name of all relations"):
        headcount.analyze(loaded, renamed("case", "all"))


def test_batches_without_tokens_are_refused_before_anything_is_written(
    loaded: Loaded, tmp_path: Path
) -> None:
    options = headcount.Options(max_tokens=0)
    with pytest.raises(headcount.CorpusError, match="Expected at least 1 token a batch"):
        headcount.analyze(loaded, headcount.Corpus(SAMPLE, limit=4), options, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(headcount.InputError, match="Expected a seed of at least 0, got -2"):
        headcount.Options(seed=-2)


@pytest.mark.slow
def test_rates_are_of_what_this_run_read(loaded: Loaded, tmp_path: Path) -> None:
    """Not of what an interrupted one had read, nor of all that both did."""
    corpus, options = headcount.Corpus(SAMPLE, limit=12), headcount.Options(max_tokens=60)
    seen: list[int] = []

    def interrupted(stage: str, done: int, total: int) -> None:
        if stage != "measuring":
            return
        seen.append(done)
        if done > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        headcount.analyze(loaded, corpus, options, tmp_path, interrupted)
    record = headcount.analyze(loaded, corpus, options, tmp_path).record
    read = [record.timings[name] * record.timings["measure_s"] for name in RATES]
    assert read[0] == pytest.approx(12 - seen[-1], rel=0.2)
    first = headcount.analyze(loaded, corpus, options).record
    ratio = first.timings["tokens_per_s"] / first.timings["sentences_per_s"]
    assert ratio == pytest.approx(record.counts.tokens / 12, rel=0.01)
    nothing = headcount.analyze(loaded, corpus, options, tmp_path).record
    assert not {*RATES} & {*nothing.timings}


RATES = ("sentences_per_s", "tokens_per_s")


@pytest.mark.slow
def test_the_kernel_is_recorded_and_not_mixed(loaded: Loaded, tmp_path: Path) -> None:
    """Sums of another kernel are not resumed; a model that the sweep can't take is said to be."""
    corpus, options = headcount.Corpus(SAMPLE, limit=9), headcount.Options(kernel="sweep")
    blocks = headcount.analyze(loaded, corpus, out=tmp_path)
    sweep = headcount.analyze(loaded, corpus, options, out=tmp_path / "sweep")
    assert (blocks.record.kernel, sweep.record.kernel) == ("blocks", "sweep")
    assert "|sums:sweep|" in sweep.record.signature and "|sums:" not in blocks.record.signature
    assert "numba" in sweep.record.versions and "numba" not in blocks.record.versions
    for name in ("confidence", "entropy", "attn_punct"):
        one, other = (each.heads.frame[name].to_numpy() for each in (blocks, sweep))
        np.testing.assert_allclose(one, other, rtol=1e-5)
    with pytest.raises(headcount.InputError, match="needs the same model, data"):
        headcount.analyze(loaded, corpus, options, out=tmp_path)


@pytest.mark.skipif(not IS_INTERPRETED, reason="needs triton and TRITON_INTERPRET=1: make kernels")
def test_an_analysis_with_triton(loaded: Loaded, tmp_path: Path) -> None:
    """Texts give the numbers of the blocks; what was left to these, because of trees, is said."""
    (text := tmp_path / "text.txt").write_text("The cat sat on the mat.\nDogs bark.\n")
    options = headcount.Options(kernel="triton")
    blocks = headcount.analyze(loaded, headcount.Corpus(text))
    triton = headcount.analyze(loaded, headcount.Corpus(text), options)
    assert triton.record.kernel == "triton" and "|sums:triton|" in triton.record.signature
    assert "triton" in triton.record.versions
    for name in ("confidence", "entropy", "attn_punct", "norm_sep"):
        one, other = (each.heads.frame[name].to_numpy() for each in (blocks, triton))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    said = "some layers or batches were computed in blocks"
    assert not [each for each in triton.record.warnings if each.startswith(said)]
    trees = headcount.analyze(loaded, headcount.Corpus(SAMPLE, limit=2), options)
    assert f"{said}, since maps of words or patches are read" in trees.record.warnings


class _Reluctant:
    """A kernel that leaves every call to the blocks."""

    name, left, checks = "reluctant", {"there are gradients", "scores are blocked"}, 0

    def takes(self, call: AttentionCall, statistics: Statistics) -> bool:
        return False

    def begin(self, call: AttentionCall, asked: Statistics, size: int) -> Tensor:
        raise AssertionError("it takes nothing")

    def check(self) -> None:
        self.checks += 1


def test_what_a_kernel_leaves_to_the_blocks_is_recorded(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = _Reluctant()
    monkeypatch.setattr(reading, "chosen", lambda *given: Chosen(kernel))
    record = headcount.analyze(loaded, headcount.Corpus(SAMPLE, limit=3)).record
    assert record.kernel == "reluctant" and "|sums:reluctant|" in record.signature
    said = "some layers or batches were computed in blocks, since scores are blocked, "
    assert f"{said}there are gradients" in record.warnings
    assert kernel.checks == 1, "once a batch"


def test_a_model_that_the_sweep_cant_take_is_measured_in_blocks(loaded: Loaded) -> None:
    eager = replace(loaded)
    vars(eager)["anatomy"] = replace(loaded.anatomy, eager=True)
    corpus, options = headcount.Corpus(SAMPLE, limit=9), headcount.Options(kernel="sweep")
    record = headcount.analyze(eager, corpus, options).record
    assert record.kernel == "blocks" and "|sums:" not in record.signature
    said = "attention was computed in blocks: the model's own eager function computes its weights"
    assert said in record.warnings
