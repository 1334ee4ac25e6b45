"""A configuration that its weight files can't hold is refused before anything is built."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest

import headcount
from headcount.core import InputError, ModelError
from headcount.models.model_files import check_is_name
from tests import saved

HUGE = 10**12


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    kinds: tuple[Callable[[Path], Path], ...] = (saved.bert, saved.gpt2, saved.llama, saved.marian)
    for kind in kinds:
        kind(path / kind.__name__)
    return path


def changed(folder: Path, copy: Path, **values: Any) -> Path:
    """A copy of a folder with other values in its config.json."""
    shutil.copytree(folder, copy)
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return copy


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("bert", "num_hidden_layers"),
        ("bert", "hidden_size"),
        ("bert", "num_attention_heads"),
        ("bert", "intermediate_size"),
        ("bert", "vocab_size"),
        ("bert", "type_vocab_size"),
        ("bert", "max_position_embeddings"),
        ("bert", "num_labels"),
        ("gpt2", "n_layer"),
        ("gpt2", "n_embd"),
        ("gpt2", "n_inner"),
        ("gpt2", "n_positions"),
        ("llama", "head_dim"),
        ("llama", "num_key_value_heads"),
        ("marian", "encoder_layers"),
        ("marian", "decoder_ffn_dim"),
        ("marian", "d_model"),
    ],
)
def test_a_size_that_no_file_holds(folders: Path, tmp_path: Path, kind: str, name: str) -> None:
    """It would be built until the process is killed."""
    path = changed(folders / kind, tmp_path / "huge", **{name: HUGE})
    what = f"Expected {name} in .*config.json to fit the weight files .*got 1,000,000,000,000"
    with pytest.raises(ModelError, match=what):
        headcount.load(path)


def test_a_size_in_a_part_of_the_configuration(folders: Path, tmp_path: Path) -> None:
    path = changed(folders / "bert", tmp_path / "huge", text_config={"num_hidden_layers": HUGE})
    with pytest.raises(ModelError, match="Expected num_hidden_layers in"):
        headcount.load(path)


@pytest.mark.once
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("llama", {"max_position_embeddings": 10_000_000}),
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": HUGE}}),
        ("bert", {"id2label": {"1000000000000": "a"}}),
    ],
)
def test_large_numbers_that_need_no_weights(
    folders: Path, tmp_path: Path, kind: str, values: dict[str, Any]
) -> None:
    loaded = headcount.load(changed(folders / kind, tmp_path / "large", **values))
    assert loaded.heads == headcount.load(folders / kind).heads
    read = loaded.model.config.to_dict()
    for name, value in values.items():
        assert json.loads(json.dumps(read[name])) == value, "it is read as it was given"


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        (
            {"auto_map": None},
            "Expected the names of classes as auto_map in .*config.json, got null",
        ),
        ({"auto_map": "x.Y"}, "Expected the names of classes as auto_map .*, got a text"),
        (
            {"hidden_size": 48},
            r"LayerNorm.bias in model.safetensors has the shape \(24,\), and its",
        ),
        ({"vocab_size": 999_999}, r"word_embeddings.weight in .* makes it \(999999, 24\)"),
        ({"num_hidden_layers": "x"}, "'num_hidden_layers': TypeError: .* expected int, got str"),
        ({"hidden_act": "x"}, "says hidden_act: 'x', which transformers does not know"),
        ({"dtype": "x"}, "says dtype: 'x', which transformers does not know"),
        ({"num_attention_heads": 0}, "says num_attention_heads: 0"),
        ({"num_attention_heads": -1}, "num_attention_heads in .* to be positive, got -1. Copy"),
    ],
)
def test_the_cause_is_in_the_message(
    folders: Path, tmp_path: Path, values: dict[str, Any], cause: str
) -> None:
    with pytest.raises(ModelError, match=cause) as caught:
        headcount.load(changed(folders / "bert", tmp_path / "wrong", **values))
    assert "Check the name" not in str(caught.value)


def test_a_table_of_sines_that_takes_minutes(folders: Path, tmp_path: Path) -> None:
    path = changed(folders / "marian", tmp_path / "huge", max_position_embeddings=10**7)
    with pytest.raises(ModelError, match="to be at most 65,536, since a marian computes a row"):
        headcount.load(path)


@pytest.mark.parametrize("text", ["[]", "null", '"x"'])
def test_a_configuration_that_is_no_object(folders: Path, tmp_path: Path, text: str) -> None:
    path = changed(folders / "bert", tmp_path / "wrong")
    (path / "config.json").write_text(text)
    with pytest.raises(ModelError, match="Expected the configuration of a model in .*config.json"):
        headcount.load(path)


@pytest.mark.parametrize("given", [None, 3])
def test_what_is_no_name_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="Expected a Hugging Face model name or a folder, got"):
        check_is_name(given)


def test_an_adapter_alone_is_no_model(tmp_path: Path) -> None:
    peft.LoraConfig(target_modules=["query"]).save_pretrained(str(tmp_path / "adapter"))
    with pytest.raises(ModelError, match="got an adapter of PEFT. Merge it and save the model"):
        headcount.load(tmp_path / "adapter")
