"""The folder of a compact model is written atomically and holds exactly what its plan says."""

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForMaskedLM, BertForMaskedLM

import headcount
from headcount.artifact import save
from headcount.artifact.saving import copy_side_files, write_model
from headcount.artifact.staging import check_not_taken, staged
from headcount.compaction import compact
from headcount.core import InputError, ModelError, Plan, kept_sha256
from headcount.models import EncoderConfig, EncoderForMaskedLM, revision
from headcount.tap import difference, examine, outputs
from tests import saved, tiny
from tests.compaction.plans import compacted, some_heads
from tests.flushed import flushed
from tests.hub import no_entry

FAMILIES = (
    "bart",
    "bert",
    "distilbert",
    "electra",
    "gemma2",
    "gpt2",
    "gpt_neox",
    "llama",
    "m2m_100",
    "marian",
    "modernbert",
    "qwen3",
    "roberta",
    "t5",
    "vit",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A compact BERT whose layer 1 has no heads."""
    save(compacted("bert", 1)[1], tmp_path / "small")
    return tmp_path / "small"


@pytest.mark.once
@pytest.mark.parametrize("name", FAMILIES)
def test_loads_as_it_was(name: str, tmp_path: Path) -> None:
    _, smaller = compacted(name, 1)
    save(smaller, tmp_path / "small")
    loaded = headcount.load(tmp_path / "small")
    batch = tiny.inputs(smaller)
    with torch.inference_mode():
        apart = difference(outputs(loaded.model(**batch)), outputs(smaller(**batch)))
    assert apart == 0
    assert loaded.heads == examine(smaller).heads
    assert loaded.model.config.head_plan == json.loads(json.dumps(smaller.config.head_plan))


def test_our_own_class(tmp_path: Path) -> None:
    """The modelling file is saved too, for users without headcount."""
    config = EncoderConfig(**tiny.UNEQUAL_SIDES, encoder_layerdrop=0.0)  # type: ignore[arg-type]
    model = EncoderForMaskedLM(config).eval()
    save(compact(model, some_heads(examine(model), 0)), tmp_path / "small")
    assert isinstance(headcount.load(tmp_path / "small").model, EncoderForMaskedLM)
    text = (tmp_path / "small" / "modeling_headcount.py").read_text()
    assert "from .encoder_lm import EncoderForMaskedLM as _stock" in text
    assert (tmp_path / "small" / "encoder_lm.py").exists()


def test_our_own_class_with_all_heads(tmp_path: Path) -> None:
    """A model that was loaded is saved again."""
    config = EncoderConfig(**tiny.UNEQUAL_SIDES, encoder_layerdrop=0.0)  # type: ignore[arg-type]
    model = EncoderForMaskedLM(config).eval()
    for name in ("first", "second"):
        write_model(tmp_path / name, model, None)
        model = headcount.load(tmp_path / name).model
    found = AutoModelForMaskedLM.from_pretrained(tmp_path / "second", trust_remote_code=True)
    assert type(found).__module__.startswith("transformers_modules")
    batch = tiny.inputs(model)
    with torch.inference_mode():
        apart = difference(outputs(found.eval()(**batch)), outputs(model(**batch)))
    assert apart == 0


@pytest.mark.parametrize("loaded", [False, True])
def test_saved_by_transformers(loaded: bool, tmp_path: Path) -> None:
    """A Trainer's checkpoint gets the modelling file too."""
    _, model = compacted("bert", 1)
    if loaded:
        save(model, tmp_path / "small")
        model = headcount.load(tmp_path / "small").model
    model.save_pretrained(tmp_path / "checkpoint")
    found = AutoModelForMaskedLM.from_pretrained(tmp_path / "checkpoint", trust_remote_code=True)
    assert type(found).__module__.startswith("transformers_modules")
    batch = tiny.inputs(model)
    with torch.inference_mode():
        apart = difference(outputs(found.eval()(**batch)), outputs(model(**batch)))
    assert apart == 0


def test_a_class_of_one_s_own_is_refused(tmp_path: Path) -> None:
    """Otherwise nobody would know which class loads the folder."""

    class Tagger(BertForMaskedLM):
        pass

    config: Any = tiny.MODELS["bert"]().config
    model = Tagger(config).eval()
    with pytest.raises(
        InputError, match="Expected a class of transformers, which can load the folder, got Tagger"
    ):
        save(compact(model, some_heads(examine(model), 0)), tmp_path / "small")
    assert not (tmp_path / "small").exists()


def test_what_the_folder_holds(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    plan, _ = compacted("bert", 1)
    assert config["model_type"] == "bert" and config["head_dim"] == 11
    assert config["auto_map"]["AutoModel"] == "modeling_headcount.BertModel"
    assert config["auto_map"]["AutoModelForMaskedLM"] == "modeling_headcount.BertForMaskedLM"
    assert config["head_plan"]["sha256"] == plan.sha256 == kept_sha256(config["head_plan"]["kept"])
    assert config["head_plan"]["heads"] == {"encoder.self": [5, 5]}
    rows = {row["num_attention_heads"] for row in config["per_layer_config"].values()}
    assert rows == {len(plan.kept["encoder.self"][0]), 1}
    stock = tiny.MODELS["bert"]().state_dict()
    assert set(load_file(folder / "model.safetensors")) <= set(stock)


def test_tokenizer_goes_along(tmp_path: Path) -> None:
    loaded = headcount.load(saved.bert(tmp_path / "bert"))
    smaller = compact(loaded, Plan({"encoder.self": {0: (1,)}}))
    save(smaller, tmp_path / "small", loaded.tokenizer)
    again = headcount.load(tmp_path / "small").tokenizer
    assert again is not None and loaded.tokenizer is not None
    assert again("The old dog")["input_ids"] == loaded.tokenizer("The old dog")["input_ids"]


def test_side_files_go_along(tmp_path: Path) -> None:
    """sentence-transformers finds its modules; a pickle is left out, with a warning."""
    source = saved.bert(tmp_path / "bert")
    paths = ["", "1_Pooling", "2_Dense", "3_Dense"]
    (source / "modules.json").write_text(json.dumps([{"path": path} for path in paths]))
    for path in paths[1:]:
        (source / path).mkdir()
        (source / path / "config.json").write_text(json.dumps({"of": path}))
    (source / "2_Dense" / "model.safetensors").write_bytes(b"weights")
    (source / "3_Dense" / "pytorch_model.bin").write_bytes(b"a pickle")
    out = tmp_path / "small"
    with pytest.warns(UserWarning, match="the pickled weights of its module 3_Dense were not"):
        save(compact(headcount.load(source), Plan({"encoder.self": {0: (1,)}})), out)
    for path in paths[1:]:
        assert json.loads((out / path / "config.json").read_text()) == {"of": path}
    assert (out / "2_Dense" / "model.safetensors").read_bytes() == b"weights"
    assert {path.suffix for path in out.rglob("*.*")} <= {".json", ".py", ".safetensors", ".txt"}


def test_side_files_of_a_name_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`load` does not need them, so they are not in the cache of a user who only loaded."""
    (tmp_path / "modules.json").write_text("[]")

    def hub(name: str, file: str) -> str:
        found = tmp_path / file
        if not found.exists():
            raise no_entry()
        return str(found)

    monkeypatch.setattr("headcount.models.model_files.hf_hub_download", hub)
    out = tmp_path / "out"
    out.mkdir()
    copy_side_files("someone/model", out)
    assert [path.name for path in out.iterdir()] == ["modules.json"]


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is not reported as a file that could not be looked up."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "modules.json").write_text("[]")

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr("headcount.artifact.saving.copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        copy_side_files(str(tmp_path), out)


@pytest.mark.slow
def test_can_be_analysed(tmp_path: Path) -> None:
    """Measures accept the layer without heads and have no row for it."""
    loaded = headcount.load(saved.bert(tmp_path / "bert"))
    smaller = compact(loaded, Plan({"encoder.self": {0: (), 1: (0, 2)}}))
    compacted = headcount.Loaded(smaller, loaded.tokenizer, "small")
    analysis = headcount.analyze(compacted, headcount.Corpus.from_sentences(["The old dog."]))
    assert list(analysis.heads.frame["head"]) == ["enc.1.0", "enc.1.1"]
    assert analysis.heads.grid("encoder.self", "confidence").shape == (2, 2)


def test_whole_or_not_at_all(folder: Path) -> None:
    before = (folder / "config.json").read_bytes()
    with pytest.raises(RuntimeError, match="stop"), staged(folder, overwrite=True) as staging:
        (staging / "config.json").write_text("{}")
        raise RuntimeError("stop")
    assert (folder / "config.json").read_bytes() == before
    assert list(folder.parent.iterdir()) == [folder]


def test_what_a_killed_process_left_is_no_hindrance(folder: Path) -> None:
    """A half-written neighbour, with the old folder moved away."""
    left = folder.parent / f".{folder.name}.part"
    left.mkdir()
    (left / "half").write_text("")
    folder.rename(folder.parent / f".{folder.name}.old")  # killed between the two moves
    with staged(folder, overwrite=True) as staging:
        assert not list(staging.iterdir())
        assert (folder / "config.json").exists(), "the old model is back until the new is whole"
        (staging / "config.json").write_text((folder / "config.json").read_text())
    assert list(folder.parent.iterdir()) == [folder]
    (folder.parent / f".{folder.name}.old").mkdir()  # killed behind them
    (folder.parent / f".{folder.name}.old" / "config.json").write_text("{}")
    with staged(folder, overwrite=True) as staging:
        (staging / "config.json").write_text("new")
    assert (folder / "config.json").read_text() == "new"
    assert list(folder.parent.iterdir()) == [folder]


def test_a_model_is_on_disk_before_the_old_one_is_moved_away(folder: Path) -> None:
    with flushed() as seen, staged(folder, overwrite=True) as staging:
        (staging / "vocab.txt").write_text("new")
    assert ("flush", "vocab.txt") in seen[: seen.index(("move", f".{folder.name}.old"))]
    assert seen[-2:] == [("move", folder.name), ("flush", folder.parent.name)]


def test_broken_off_between_two_moves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old folder is moved away and the new one fails: the old one is put back."""
    before, move = (folder / "config.json").read_bytes(), os.replace

    def fails(source: Path, target: Path) -> None:
        if source.name.endswith(".part"):
            raise OSError("no space left")
        move(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="no space left"), staged(folder, overwrite=True):
        pass
    assert (folder / "config.json").read_bytes() == before
    assert list(folder.parent.iterdir()) == [folder]


def test_where_a_volume_is_mounted_nothing_can_be_replaced() -> None:
    """Otherwise it would fail only after all the work."""
    with pytest.raises(
        InputError, match="a mount point, which can't be replaced. Name a folder in it"
    ):
        check_not_taken(Path("/"), overwrite=True)


def test_overwrite(folder: Path) -> None:
    _, other = compacted("bert", 0)
    with pytest.raises(InputError, match="Add overwrite=True"):
        save(other, folder)
    save(other, folder, overwrite=True)
    assert headcount.load(folder).heads == examine(other).heads
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs a folder where none can be made")
def test_where_no_folder_can_be() -> None:
    with pytest.raises(InputError, match="/proc/small can't be made"):
        save(compacted("bert", 1)[1], "/proc/small")


def test_refuses_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    _, smaller = compacted("bert", 0)
    with pytest.raises(InputError, match=r"not a compact model's \(thesis.tex\)"):
        save(smaller, tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        save(smaller, tmp_path / "thesis.tex")


def test_refuses_a_model_with_all_heads(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Expected a compact model"):
        save(tiny.MODELS["bert"](), tmp_path / "small")
    assert not list(tmp_path.iterdir())


def _cut_off(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])


def _of_plan(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text())
        change(config["head_plan"])
        path.write_text(json.dumps(config))

    return damage


def _other_kept(plan: dict[str, Any], rehash: bool) -> None:
    plan["kept"]["encoder.self"]["0"].append(9)
    if rehash:
        plan["sha256"] = kept_sha256(plan["kept"])


def _without_plan(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    del config["head_plan"]
    path.write_text(json.dumps(config))


def _tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return damage


NAME = "bert.encoder.layer.{}.attention.self.query.weight"


@pytest.mark.parametrize(
    ("damage", "reported"),
    [
        (_cut_off, "the file is truncated or damaged"),
        (_of_plan(lambda plan: plan.pop("sha256")), "head_plan in its config.json is incomplete"),
        (_of_plan(lambda plan: plan.pop("maps")), "head_plan in its config.json is incomplete"),
        (_of_plan(lambda plan: _other_kept(plan, False)), "names heads with hash"),
        (_of_plan(lambda plan: _other_kept(plan, True)), "columns of encoder.layer.0.attention"),
        (_without_plan, "Expected head_plan"),
        (_tensors(lambda each: each.pop(NAME.format(0))), "its file holds no bert.encoder.layer.0"),
        (
            _tensors(lambda each: each.update({NAME.format(0): torch.zeros(55, 55)})),
            r"but the file holds \(55, 55\): the weights do not match the plan",
        ),
        (
            _tensors(lambda each: each.update({NAME.format(1): torch.zeros(55, 55)})),
            "its file should not hold bert.encoder.layer.1",
        ),
    ],
)
def test_damaged(folder: Path, damage: Callable[[Path], None], reported: str) -> None:
    """Our loader and `doctor` refuse each kind with a sentence."""
    damage(folder)
    with pytest.raises(ModelError, match=reported):
        headcount.load(folder)
    finding = headcount.diagnose(folder)[-1]
    assert not finding.works and "can't be loaded" in finding.text


def test_other_errors_are_not_taken_for_a_damaged_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **options: object) -> None:
        raise AttributeError("'Tensor' object has no attribute 'nothing'")

    monkeypatch.setattr(BertForMaskedLM, "tie_weights", broken)
    with pytest.raises(ModelError, match="AttributeError: 'Tensor' object has no attribute"):
        headcount.load(folder)


def test_loaded_elsewhere_with_sizes_ignored(folder: Path) -> None:
    """The attention weights are random then; saved again, they do not match the plan."""
    random = BertForMaskedLM.from_pretrained(folder, ignore_mismatched_sizes=True)
    with pytest.raises(ModelError, match="whose attention weights are then random"):
        examine(random)
    random.save_pretrained(folder)
    with pytest.raises(ModelError, match="loaded elsewhere with ignore_mismatched_sizes"):
        headcount.load(folder)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
def test_what_names_heads_of_the_dense_model_stays_with_it(tmp_path: Path) -> None:
    """A cache plan, an earlier plan and an adapter are not copied, and don't fit what is left."""
    from headcount.cache import plan_for_cache

    dense, small = saved.llama(tmp_path / "dense"), tmp_path / "small"
    loaded = headcount.load(dense)
    plan = Plan({"decoder.self": {0: (2, 3), 1: (0, 1)}})
    earlier = replace(plan, model=revision(loaded.model))
    earlier.write(dense / "earlier.json")
    plan_for_cache(loaded, [(0, 0)], sink=2, recent=5).write(dense / "cache.json")
    lora = peft.LoraConfig(target_modules=["q_proj", "v_proj"], layers_to_transform=[1])
    adapted: Any = peft.get_peft_model(copy.deepcopy(loaded.model), lora)
    adapted.save_pretrained(dense / "adapter")
    headcount.save_compact(loaded, plan, small)
    assert not {"earlier.json", "cache.json", "adapter"} & {each.name for each in small.rglob("*")}
    pruned = headcount.load(small)
    for place in (dense / "earlier.json", small / "plan.json"):
        with pytest.raises(
            InputError, match="Expected a plan for this model|for which the plan was made"
        ):
            compact(pruned, Plan.read(place))
    cache = headcount.CachePlan.read(dense / "cache.json")
    with pytest.raises(InputError, match="plan"), headcount.streaming_cache(pruned, cache):
        pass
    with pytest.raises((RuntimeError, ValueError), match="size mismatch|not found"):
        peft.PeftModel.from_pretrained(pruned.model, dense / "adapter")
