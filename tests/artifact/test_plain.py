"""Plain transformers, in a virtual environment without headcount."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from transformers import PreTrainedModel

import headcount
from headcount.artifact import save
from headcount.artifact.plain import plain_fields
from headcount.compaction import compact, feed_forwards
from headcount.core import Head, Plan
from headcount.models import EncoderConfig, EncoderForMaskedLM
from headcount.tap import difference, examine, outputs
from tests import tiny
from tests.compaction.plans import compacted, some_heads
from tests.examined import examined

PLAIN = Path(__file__).with_name("plain.py")
CASES = {
    "bart": "AutoModelForSeq2SeqLM",
    "bert": "AutoModelForMaskedLM",
    "distilbert": "AutoModelForMaskedLM",
    "electra": "AutoModelForMaskedLM",
    "gemma2": "AutoModelForCausalLM",
    "gemma3_text": "AutoModelForCausalLM",
    "gpt2": "AutoModelForCausalLM",
    "gpt_neox": "AutoModelForCausalLM",
    "llama": "AutoModelForCausalLM",
    "m2m_100": "AutoModelForSeq2SeqLM",
    "marian": "AutoModelForSeq2SeqLM",
    "modernbert": "AutoModelForMaskedLM",
    "own": "AutoModelForMaskedLM",
    "qwen3": "AutoModelForCausalLM",
    "roberta": "AutoModelForMaskedLM",
    "t5": "AutoModelForSeq2SeqLM",
    "vit": "AutoModelForImageClassification",
}


def even_plan(name: str, what: str) -> Plan:
    """Equally many heads of each group, or neurons, in every layer."""
    model, anatomy = examined(name)
    heads = [
        Head(layer.site, layer.layer, index)
        for layer in anatomy.layers
        for index in range(layer.num_heads)
        if what != "heads" or index % (layer.num_heads // layer.num_key_value_heads) == 0
    ]
    neurons = dict[str, dict[int, tuple[int, ...]]]()
    for each in feed_forwards(model, anatomy) if what == "neurons" else ():
        site, layer = each.layer_id
        neurons.setdefault(site, {})[layer] = tuple(range(layer, each.num_neurons - 2 + layer))
    return replace(Plan.keeping(anatomy.heads, heads), neurons=neurons)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("bert", "neurons"),
        ("qwen3", "heads"),
        pytest.param("llama", "neurons", marks=pytest.mark.slow),
        pytest.param("modernbert", "neurons", marks=pytest.mark.slow),
        pytest.param("gpt2", "neurons", marks=pytest.mark.slow),
        pytest.param("vit", "heads", marks=pytest.mark.slow),
    ],
)
def test_an_even_plan_makes_a_stock_folder(name: str, what: str, tmp_path: Path) -> None:
    """It holds no code, and transformers takes it without trust; we read its plan."""
    model, _ = examined(name)
    smaller = compact(model, even_plan(name, what))
    save(smaller, tmp_path / "small")
    assert not [*(tmp_path / "small").glob("*.py")]
    config = json.loads((tmp_path / "small/config.json").read_text())
    assert not {"auto_map", "per_layer_config"} & {*config}
    stock = type(model).from_pretrained(tmp_path / "small").eval()
    assert "stock_class" not in vars(type(stock))
    loaded = headcount.load(tmp_path / "small").model
    assert loaded.config.head_plan["sha256"] == smaller.config.head_plan["sha256"]
    batch = tiny.inputs(model)
    with torch.inference_mode():
        expected = outputs(smaller(**batch))
        assert difference(outputs(stock(**batch)), expected) == 0
        assert difference(outputs(loaded(**batch)), expected) == 0
    loaded.save_pretrained(tmp_path / "again")
    again = headcount.load(tmp_path / "again").model
    with torch.inference_mode():
        assert difference(outputs(again(**batch)), expected) == 0


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_what_no_stock_class_can_be(name: str) -> None:
    """BERT has no field for the size of a head, and Llama asks for a width that heads divide."""
    model, anatomy = examined(name)
    heads = [head for head in anatomy.heads if head.index % 3 < 2]
    assert plain_fields(compact(model, Plan.keeping(anatomy.heads, heads))) is None


def test_docs_name_the_types_that_build_layers_from_numbers_of_their_own() -> None:
    """A type that reads `per_layer_config` may load an uneven plan without our code."""
    models = Path(transformers.__file__).parent / "models"
    reading = {
        path.parent.name
        for path in models.glob("*/modeling_*.py")
        if "per_layer_config" in path.read_text(encoding="utf-8")
    }
    page = (Path(__file__).parents[2] / "docs" / "compact.md").read_text(encoding="utf-8")
    assert not {name for name in reading if f"`{name}`" not in page}


@pytest.mark.slow
def test_without_this_package(tmp_path: Path) -> None:
    """Outputs and beams are the same, also after saving and loading once more."""
    models = {name: _compact(name) for name in CASES}
    for name, model in models.items():
        save(model, tmp_path / name)
        torch.save(tiny.inputs(model), tmp_path / f"{name}.inputs")
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    _run_plain(tmp_path)
    for name, model in models.items():
        batch = tiny.inputs(model)
        with torch.inference_mode():
            expected = model(**batch)[0]
        for found in ("first", "again"):
            output, tokens = torch.load(tmp_path / f"{name}.{found}")
            # Another process may add in another order: alignment of memory decides
            assert difference([output], [expected]) < 1e-5, name
            if tokens is not None:
                beams = model.generate(batch["input_ids"], num_beams=2, max_new_tokens=9)  # type: ignore[operator]
                assert torch.equal(tokens, beams), name


def _compact(name: str) -> PreTrainedModel:
    if name == "t5":
        model = tiny.even_t5()
    elif name == "own":
        config = EncoderConfig(**tiny.UNEQUAL_SIDES, encoder_layerdrop=0.0)  # type: ignore[arg-type]
        model = EncoderForMaskedLM(config).eval()
    else:
        return compacted(name, 0)[1]
    return compact(model, some_heads(examine(model), 0))


def _run_plain(folder: Path) -> None:
    """A Python in its own virtual environment.

    It has the packages of this one, but not ours: `.pth` files, by which an editable package is
    found, only count in an environment's own folder. `make versions` has two folders of packages.
    """
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    there = {"base": str(environment), "platbase": str(environment)}
    own = Path(sysconfig.get_path("purelib", "venv", there))
    folders = [each for each in sys.path if Path(each).name == "site-packages"]
    (own / "packages.pth").write_text("\n".join(folders))
    variables = os.environ | {"HF_MODULES_CACHE": str(folder / "cache")}
    command = [environment / "bin" / "python", "-I", PLAIN, folder]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
