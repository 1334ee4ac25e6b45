"""Equal models pass; unequal ones are reported."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    MT5Config,
    MT5ForSequenceClassification,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedModel,
)

from headcount.artifact import making, save_compact
from headcount.artifact.comparing import Data, compare
from headcount.artifact.making import certify, share_equal
from headcount.compaction import compact, compaction, layout
from headcount.core import InputError, ModelError, Plan
from headcount.corpora import Corpus
from headcount.models import Loaded, load
from headcount.results import Certificate, Comparison, weights_sha256
from headcount.tap import SampleRun
from tests import saved, tiny
from tests.compaction.plans import some_heads

BATCHES = [{"x": torch.tensor([1.0, -8.0])}, {"x": torch.tensor([2.0])}]


def times(factor: float):
    def run(sample: SampleRun) -> list[Tensor]:
        return [sample.batch["x"] * factor]

    return run


def test_largest_difference_of_all_batches() -> None:
    data = Data(BATCHES, 3, ("a.txt",), "00")
    ours, theirs = compare(("one", times(1)), {"a": times(1), "b": times(1.5)}, data, torch.float32)
    assert (ours.what, ours.difference, ours.share) == ("a and one", 0, 0)
    assert (theirs.difference, theirs.largest_output, theirs.share) == (4, 8, 0.5)
    ours.check_equal()
    with pytest.raises(ModelError, match="Expected b and one .* at most 1e-05.*, got 0.5 of it"):
        theirs.check_equal()


def test_padding_is_not_compared() -> None:
    """A token may see no other one there, and every runtime treats that differently."""
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    batch = {
        "x": torch.ones(2, 3, 4),
        "attention_mask": mask,
        "decoder_attention_mask": mask.flip(0),
    }

    def run(*changed: tuple[int, int, int]):
        def outputs(sample: SampleRun) -> list[Tensor]:
            x = sample.batch["x"]
            found = [x.clone(), x.clone(), x[:, 0].clone()]
            for place, row, token in changed:
                found[place][row, token] = torch.nan
            return found

        return outputs

    others = {
        "padding": run((0, 0, 2), (1, 1, 2)),  # of the decoder, of the encoder
        "target": run((0, 1, 2)),
        "source": run((1, 0, 2)),
        "sentence": run((2, 1, 0)),
    }
    found = compare(("one", run()), others, Data([batch]), torch.float32)
    assert [each.difference for each in found] == [0, torch.inf, torch.inf, torch.inf]


def test_not_a_number_is_not_equal() -> None:
    data = Data(BATCHES)
    (found,) = compare(("one", times(1)), {"a": times(float("nan"))}, data, torch.float32)
    with pytest.raises(ModelError, match="got inf of it"):
        found.check_equal()


def test_a_reference_without_a_number_is_reported() -> None:
    reference, data = ("one", times(float("nan"))), Data(BATCHES)
    (found,) = compare(reference, {"a": times(1)}, data, torch.float32)
    with pytest.raises(ModelError, match="got inf of it"):
        found.check_equal()
    (found,) = compare(("one", times(0)), {"a": times(0)}, data, torch.float32)
    found.check_equal()


def test_rounding_of_the_reference_sets_the_tolerance() -> None:
    """A reference that differs by 2e-5 between a batch and its rows; 8 times that is no fault."""

    def rounding(sample: SampleRun) -> list[Tensor]:
        return [sample.batch["x"] * (1 + 2e-5 * (len(sample.batch["x"]) > 1))]

    others = {"near": times(1 + 9e-5), "far": times(1 + 3e-4)}
    data = Data(BATCHES[:1])
    near, far = compare(("one", rounding), others, data, torch.float32)
    assert near.tolerance == pytest.approx(1.6e-4, rel=0.1)
    near.check_equal()
    with pytest.raises(ModelError, match="Expected far and one to differ by at most 0.00016"):
        far.check_equal()
    (alone, _) = compare(("one", rounding), others, data, torch.float32, by_row=False)
    assert alone.tolerance == 1e-5
    of_dense = compare(("one", rounding), others, data, torch.float32, rounding=lambda: 1e-4)
    assert [each.tolerance for each in of_dense] == [pytest.approx(8e-4)] * 2
    most = compare(("one", rounding), others, data, torch.float32, rounding=lambda: 1.0)
    assert most[0].tolerance == 1e-2


def test_written_and_read(tmp_path: Path) -> None:
    found = compare(("one", times(1)), {"a": times(2)}, Data(BATCHES), torch.float32)
    certificate = Certificate("00", weights_sha256(tmp_path), tuple(found))
    certificate.write(tmp_path)
    assert Certificate.read(tmp_path) == certificate == certificate.of_now(tmp_path)
    newer = replace(found[0], difference=0.0)
    assert certificate.joined([newer]).comparisons == (newer,)
    with pytest.raises(
        InputError,
        match="Expected the folder of a compact model, but .*certificate.json can't be read",
    ):
        Certificate.read(tmp_path / "none")
    (tmp_path / "model.safetensors").write_bytes(b"others")
    assert not certificate.of_now(tmp_path).comparisons, "they are of other weights"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2", "marian"])
def test_of_real_text(kind: str, tmp_path: Path) -> None:
    from headcount.doctor import diagnose

    loaded = load(getattr(saved, kind)(tmp_path / kind))
    corpus = Corpus(Path(__file__).parents[2] / "headcount" / "data" / "sample.tsv", limit=11)
    site = next(iter(loaded.heads.counts))
    plan = Plan({site: {0: (), 1: (1,)}})
    certificate = save_compact(loaded, plan, tmp_path / "small", corpus)
    assert [each.what for each in certificate.comparisons] == [
        "compact and gated",
        "reloaded and gated",
    ]
    assert {each.sentences for each in certificate.comparisons} == {11}
    assert max(each.share for each in certificate.comparisons) < 1e-5
    assert Certificate.read(tmp_path / "small") == certificate.of_now(tmp_path / "small")
    assert Plan.read(tmp_path / "small" / "plan.json") == plan
    finding = diagnose(tmp_path / "small")[1]
    assert finding.works and finding.text == "2 comparisons of these weights"
    card = (tmp_path / "small" / "README.md").read_text()
    assert "Pruned with headcount from a plan" in card
    assert re.search(r"\| compact and gated +\| +11 \|", card)


@pytest.mark.slow
def test_of_a_classifier_with_a_decoder(tmp_path: Path) -> None:
    """The classifier makes the decoder's inputs of real texts by itself."""
    torch.manual_seed(0)
    config = MT5Config(vocab_size=20, d_model=8, d_kv=3, num_heads=2, num_layers=2, d_ff=9)
    model = MT5ForSequenceClassification(config).eval()
    batch = {"input_ids": torch.tensor([[7, 9, 1, 0], [5, 8, 6, 1]])}
    batch["attention_mask"] = (batch["input_ids"] != 0).long()
    loaded = Loaded(model, None, "classifier")
    plan = Plan({"encoder.self": {0: (1,)}, "decoder.cross": {0: ()}})
    certificate = certify(
        tmp_path,
        loaded,
        plan,
        Loaded(compact(loaded, plan), None, ""),
        Data([batch], 2, ("a.txt",), "00"),
    )
    found = [each.what for each in certificate.comparisons]
    assert found == ["compact and gated", "reloaded and gated"]


CACHED = ("on a padded batch", "on a batch without padding", "without a mask", "with a cache")


@pytest.mark.once
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2", "marian", "t5", "whisper", "vit"])
def test_every_padding_and_a_cache(name: str, tmp_path: Path) -> None:
    """A cache where text is generated."""
    model = tiny.MODELS[name]()
    loaded = Loaded(model, None, name)
    found = save_compact(loaded, some_heads(loaded.anatomy, 1), tmp_path / "small")
    runs: dict[str, tuple[str, ...]] = {
        "bert": CACHED[:3],
        "vit": ("on a random batch",),
        "whisper": ("on a random batch", "with a cache"),
    }
    assert {each.runs for each in found.comparisons} == {runs.get(name, CACHED)}
    assert found == Certificate.read(tmp_path / "small")
    card = (tmp_path / "small" / "README.md").read_text()
    assert f"compared on short random batches: {', '.join(runs.get(name, CACHED))}." in card


def test_a_stock_model_that_fails_with_a_cache() -> None:
    """Such a run is left out of what was compared."""

    def run(sample: SampleRun) -> list[Tensor]:
        if sample.cached:
            raise ValueError("no cache")
        return [sample.batch["x"]]

    runs = {"at once": SampleRun(BATCHES[0]), "with a cache": SampleRun(BATCHES[0], cached=True)}
    (found,) = compare(("one", run), {"a": run}, Data(BATCHES, runs=runs), torch.float32)
    assert (found.runs, found.batches) == (("at once",), 3)


def forget_padding(model: PreTrainedModel) -> None:
    """Let a model see padding once it has a cache; all else stays right."""

    def forget(module: object, args: tuple, kwargs: dict) -> tuple:
        if kwargs.get("past_key_values", kwargs.get("cache")) is None:
            return args, kwargs
        seen = torch.ones_like(kwargs["attention_mask"])
        return args, kwargs | {"attention_mask": seen}

    model.register_forward_pre_hook(forget, with_kwargs=True)


@pytest.mark.once
@pytest.mark.parametrize("form", ["compact", "reloaded"])
def test_a_wrong_cache_is_seen(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form is compared with a cache, not only when heads are cut out."""
    loaded = Loaded(tiny.MODELS["llama"](), None, "llama")
    plan = some_heads(loaded.anatomy, None)
    smaller = compact(loaded, plan)

    def load_wrong(*arguments: Any, **options: Any) -> Loaded:
        reloaded = load(*arguments, **options)
        forget_padding(reloaded.model)
        return reloaded

    if form == "compact":
        forget_padding(smaller)
    else:
        monkeypatch.setattr(making, "load", load_wrong)
    with pytest.raises(ModelError, match=f"Expected {form} and gated to differ by at most"):
        certify(tmp_path, loaded, plan, Loaded(smaller, None, ""), Data.of(loaded, None))


def test_a_head_of_the_folder_is_compared_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is off by 1e-4 of its norm, of which the outputs show too little."""
    loaded = Loaded(tiny.MODELS["bert"](), None, "bert")
    first = loaded.anatomy.layers[0]
    output, size = loaded.model.get_submodule(first.output or ""), first.head_dim
    with torch.no_grad():
        output.get_parameter("weight")[:, size : 2 * size] *= 1e-3
    plan = Plan.keeping(loaded.heads, [head for head in loaded.heads if head.index != 0])
    smaller = Loaded(compact(loaded, plan), None, "")
    found = certify(tmp_path / "right", loaded, plan, smaller, Data.of(loaded, None)).comparisons
    assert found[0].by_head is None and (found[1].by_head or 0.0) <= 1e-5

    def load_wrong(*arguments: Any, **options: Any) -> Loaded:
        reloaded = load(*arguments, **options)
        value = reloaded.model.get_submodule(f"{first.module}.value")
        with torch.no_grad():
            for parameter in value.parameters():
                parameter[:size] *= 1 + 1e-4
        return reloaded

    monkeypatch.setattr(making, "load", load_wrong)
    expected = r"Expected head enc\.0\.1 of the reloaded .* to differ .* got 0.0001.* try again"
    with pytest.raises(ModelError, match=expected):
        certify(tmp_path / "wrong", loaded, plan, smaller, Data.of(loaded, None))


def test_a_model_that_fails_with_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phi-3 asks the cache of its first layer for the length; without heads that would be 0."""
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60}
    loaded = Loaded(tiny.seeded(Phi3ForCausalLM(Phi3Config(**sizes))), None, "phi3")
    plan = Plan({"decoder.self": {0: ()}})
    with monkeypatch.context() as patched:
        patched.setattr(layout, "counts_by_config", lambda module: False)
        patched.setattr(compaction, "check_equal", lambda *_: 0.0)
        smaller = compact(loaded, plan)
        with pytest.raises(ModelError, match="Expected the compact model to run with a cache, as"):
            certify(tmp_path, loaded, plan, Loaded(smaller, None, ""), Data.of(loaded, None))


def test_a_changed_byte_is_reported(tmp_path: Path) -> None:
    """The damaged file still loads: safetensors has no checksum."""
    from headcount.doctor import diagnose

    loaded = load(saved.bert(tmp_path / "bert"))
    corpus = Corpus(Path(__file__).parents[2] / "headcount" / "data" / "sample.conllu", limit=3)
    save_compact(loaded, Plan({"encoder.self": {0: (1,)}}), tmp_path / "small", corpus)
    weights = tmp_path / "small" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    with pytest.warns(UserWarning, match="small: the weights differ from those that were compared"):
        finding = diagnose(tmp_path / "small")[1]
    assert finding.subject == "certificate" and not finding.works
    assert "the weights differ from those that were compared" in finding.text
    (tmp_path / "small" / "certificate.json").write_text("{")
    with pytest.warns(UserWarning, match="certificate.json is damaged"):
        assert "certificate.json is damaged" in diagnose(tmp_path / "small")[1].text


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a compact model."""
    path = tmp_path_factory.mktemp("small")
    loaded = Loaded(tiny.MODELS["bert"](), None, "bert")
    save_compact(loaded, Plan({"encoder.self": {0: (1,), 1: (0, 2)}}), path / "small")
    return path / "small"


@pytest.mark.parametrize("is_earlier", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        Plan({"encoder.self": {0: (1, 2), 1: (0, 2)}}),
        Plan({"encoder.self": {0: (1,)}}),
        Plan({"encoder.self": {7: (1,)}}),
        Plan({"decoder.self": {0: (1,)}}),
    ],
)
def test_the_plan_of_another_model_is_refused(
    small: Path, tmp_path: Path, other: Plan, is_earlier: bool
) -> None:
    """Earlier versions did not record the hash of the file; numbers of heads show it there."""
    from headcount.doctor import diagnose

    copy = tmp_path / "copy"
    shutil.copytree(small, copy)
    if is_earlier:
        replace(Certificate.read(copy), plan_file_sha256=None).write(copy)
    load(copy)
    other.write(copy / "plan.json")
    assert not diagnose(copy)[0].works
    with pytest.raises(ModelError, match="Expected plan.json of the heads that config.json beside"):
        load(copy)


def test_the_same_numbers_of_other_heads_are_refused(small: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(small, copy)
    Plan({"encoder.self": {0: (2,), 1: (0, 2)}}).write(copy / "plan.json")
    with pytest.raises(ModelError, match=f"but {copy / 'plan.json'} is of another model"):
        load(copy)


def test_the_certificate_of_another_model_is_refused(small: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(small, copy)
    replace(Certificate.read(copy), plan_sha256="00").write(copy)
    with pytest.raises(ModelError, match="Expected certificate.json of the heads that config.json"):
        load(copy)


@pytest.mark.slow
def test_a_plan_for_a_compact_model_numbers_its_heads(small: Path, tmp_path: Path) -> None:
    """The heads of `config.json` have their numbers in the original model."""
    save_compact(load(small), Plan({"encoder.self": {1: (1,)}}), tmp_path / "smaller")
    loaded = load(tmp_path / "smaller")
    assert loaded.model.config.head_plan["kept"]["encoder.self"] == {"0": [1], "1": [2]}


def test_nothing_is_written_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Comparison) -> None:
        raise ModelError("not equal")

    monkeypatch.setattr(Comparison, "check_equal", refuse)
    loaded = load(saved.bert(tmp_path / "bert"))
    with pytest.raises(ModelError, match="not equal"):
        save_compact(loaded, Plan({"encoder.self": {0: (1,)}}), tmp_path / "small", None)
    assert [path.name for path in tmp_path.iterdir()] == ["bert"]


def test_equal_weights_take_memory_once_and_others_stay() -> None:
    model, same = tiny.MODELS["bert"](), tiny.MODELS["bert"]()
    held = dict(model.named_parameters())
    named = {name: each for name, each in same.named_parameters() if name.endswith("dense.weight")}
    changed, halved = list(named)[:2]
    named[changed].data[0, 0] += 1
    named[halved].data = named[halved].data.half()
    share_equal(model, same)
    apart = [
        name for name, each in same.named_parameters() if each.data_ptr() != held[name].data_ptr()
    ]
    assert apart == [changed, halved] and named[halved].dtype == torch.half
