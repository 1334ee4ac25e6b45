"""Two models in one run: the cases that are run, left out, and refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount.compaction import compact
from headcount.core import InputError, ModelError, Plan
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.speed import Options, Size, Speed, compare_speed
from headcount.testing import leaving_no_trace
from tests import tiny
from tests.examined import examined
from tests.tasks.loaded import TEXTS, loaded

FEW = Options(batch=(1, 3), length=(5,), new_tokens=4, rounds=2)


@pytest.fixture(autouse=True)
def no_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.speed.timing.MOST_REPEATS", 1)


@pytest.mark.slow
def test_every_mode_batch_and_length_is_run() -> None:
    """A decoder runs over its prompt, then generates."""
    dense, reported = loaded("LlamaForCausalLM"), []
    options = replace(FEW, length=(5, 7))
    found = compare_speed(dense, dense, options, progress=lambda *what: reported.append(what))
    cases = [(each.case.mode, each.case.batch, each.case.length) for each in found.timings]
    assert cases == [
        (mode, batch, length)
        for mode in ("forward", "generate")
        for length in (5, 7)
        for batch in (1, 3)
    ]
    assert [(done, total) for _, done, total in reported] == [(done, 8) for done in range(8)]
    assert reported[5][0] == "generate, batch 3, 5 + 4 tokens"
    for each in found.timings:
        assert each.seconds_RW.shape == (2, 3) and (each.seconds_RW > 0).all()
        assert each.ceiling == 1 and each.dense.peak_bytes == each.pruned.peak_bytes > 0
    one, three = found.timings[:2]
    assert three.dense.flops == 3 * one.dense.flops


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MarianMTModel", "BartForSequenceClassification"])
def test_encoder_decoders(name: str) -> None:
    dense = loaded(name)
    found = compare_speed(dense, dense, replace(FEW, batch=(2,)))
    modes = ["forward", "generate"] if name == "MarianMTModel" else ["forward"]
    assert [each.case.mode for each in found.timings] == modes


def test_the_models_keep_their_modes() -> None:
    dense = loaded("BertForMaskedLM")
    dense.model.train()
    with leaving_no_trace(dense.model, tiny.inputs(dense.model)):
        compare_speed(dense, dense, replace(FEW, batch=(1,)))
    assert dense.model.training
    dense.model.eval()


def test_text_is_run_instead_of_random_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    dense, seen = loaded("BertForMaskedLM"), []
    hook = dense.model.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    corpus = Corpus.from_sentences(TEXTS)
    compare_speed(dense, dense, replace(FEW, batch=(2,)), corpus)
    hook.remove()
    assert dense.tokenizer is not None
    special = dense.tokenizer.all_special_ids
    ids = [token for token in dense.tokenizer(TEXTS[0])["input_ids"] if token not in special]
    assert seen[-1].flatten().tolist()[: len(ids)] == ids[:10]


@pytest.mark.slow
def test_lengths_that_do_not_fit_are_reported() -> None:
    """With 64 places, 61 tokens plus 4 new ones are one too many to generate, but fit a forward."""
    model = loaded("GPT2LMHeadModel", n_positions=64)
    found = compare_speed(model, model, replace(FEW, batch=(1,), length=(60, 61, 65)))
    assert [(each.case.mode, each.case.length) for each in found.timings] == [
        ("forward", 60),
        ("forward", 61),
        ("generate", 60),
    ]
    assert list(found.left_out) == [
        "forward at 65 tokens was left out: it needs 65 positions, the model has 64",
        "generate at 61 tokens was left out: it needs 65 positions, the model has 64",
        "generate at 65 tokens was left out: it needs 69 positions, the model has 64",
    ]
    assert found.warnings()[:3] == list(found.left_out)
    with pytest.raises(InputError, match="Expected a length that .* can take, got none: .*99"):
        compare_speed(model, model, replace(FEW, length=(99,)))


def test_what_there_is_no_memory_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier measurements are kept."""

    def in_turns(works: Any, rounds: int, device: torch.device) -> Any:
        rows = next(each for each in reported[::-1])
        if "batch 3" in rows:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return np.ones((rounds, len(works)))

    reported: list[str] = []
    monkeypatch.setattr("headcount.speed.comparison.in_turns", in_turns)
    model = loaded("BertForMaskedLM")

    def run(*batches: int) -> Speed:
        options = replace(FEW, batch=batches)
        return compare_speed(model, model, options, progress=lambda *all: reported.append(all[0]))

    found = run(1, 3)
    assert [each.case.batch for each in found.timings] == [1]
    assert (
        list(found.left_out) == [f"{reported[1]} was left out for lack of memory"]
        and "batch 3" in reported[1]
    )
    with pytest.raises(InputError, match="that fit into memory, got none: .*batch 3"):
        run(3)


@pytest.mark.slow
def test_an_encoder_decoder_needs_places_on_its_longer_side() -> None:
    model = loaded("MarianMTModel", max_position_embeddings=20)
    found = compare_speed(model, model, Options((1,), (19,), new_tokens=19, rounds=2))
    assert len(found.timings) == 2 and not found.left_out
    found = compare_speed(model, model, Options((1,), (19,), new_tokens=20, rounds=2))
    assert [each.case.mode for each in found.timings] == ["forward"]


@pytest.mark.parametrize(
    "options, sentence",
    [
        (Options(batch=(4, 0)), "Expected batch of at least 1, got 4, 0"),
        (Options(length=()), "Expected length of at least 1, got none"),
        (Options(length=(0,)), "Expected length of at least 1, got 0"),
        (Options(rounds=1), "Expected rounds of at least 2, got 1"),
        (Options(new_tokens=0), "Expected new_tokens of at least 1, got 0"),
        (Options(modes=("generate",)), "an encoder can't generate"),
    ],
)
def test_options_that_cannot_be_run(options: Options, sentence: str) -> None:
    model = loaded("BertForMaskedLM")
    with pytest.raises(InputError, match=sentence):
        compare_speed(model, model, options)


def test_models_that_cannot_stand_in_for_each_other() -> None:
    dense = loaded("BertForMaskedLM")
    for other, sentence in (
        (loaded("GPT2LMHeadModel"), "two models with the same architecture, .* bert .* gpt2"),
        (loaded("BertForMaskedLM", vocab_size=41), "models with the same vocabulary, .* has 41"),
        (loaded("BertForSequenceClassification"), "with the same task, .*logits of size 3"),
        (Loaded(tiny.MODELS["bert"]().double(), None, "wide"), "vocabulary|number format"),
    ):
        with pytest.raises(InputError, match=sentence):
            compare_speed(dense, other, FEW)
    double = Loaded(dense.model.__class__(dense.model.config).double(), dense.tokenizer, "double")
    with pytest.raises(
        InputError, match="the same number format, .*float32 and double has torch.float64"
    ):
        compare_speed(dense, double, FEW)
    picture = Loaded(examined("vit")[0], None, "vit")
    with pytest.raises(ModelError, match="a model that reads tokens, .* takes 'pixel_values'"):
        compare_speed(picture, picture, FEW)


def test_weights_that_lie_twice_in_a_folder_are_counted_once(tmp_path: Path) -> None:
    """Mistral's folders have such files beside transformers' own."""
    for name, size in (
        ("model-1.safetensors", 5),
        ("model-2.safetensors", 7),
        ("all.bin", 11),
        ("consolidated.safetensors", 12),
    ):
        (tmp_path / name).write_bytes(b"." * size)
    placed = replace(loaded("BertForMaskedLM"), name=str(tmp_path))
    assert Size.of(placed).disk_bytes == 24
    index = {
        "weight_map": {
            "a": "model-1.safetensors",
            "b": "model-2.safetensors",
            "c": "model-1.safetensors",
        }
    }
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert Size.of(placed).disk_bytes == 12
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "model.safetensors").write_bytes(b".")
    assert Size.of(placed).disk_bytes == 1


def test_sizes(tmp_path: Path) -> None:
    from headcount.artifact import save

    model = loaded("BertForMaskedLM")
    size = Size.of(model)
    assert size.parameters == model.model.num_parameters() and size.disk_bytes is None
    assert size.parameter_bytes == 4 * size.parameters
    model.model.save_pretrained(tmp_path / "whole")
    smaller = compact(model.model, Plan({"encoder.self": {0: ()}}))
    folder = str(tmp_path / "whole")
    assert Size.of(replace(model, name=folder)).disk_bytes
    assert Size.of(Loaded(smaller, None, folder)).disk_bytes is None, "it has its source's name"
    save(smaller, tmp_path / "smaller")
    assert Size.of(Loaded(smaller, None, str(tmp_path / "smaller"))).disk_bytes
    half = Loaded(type(model.model)(model.model.config).to(torch.bfloat16), None, "half")  # type: ignore[arg-type]
    assert Size.of(half).parameter_bytes == 2 * size.parameters
