"""Similarity uses the pooling that a sentence-transformers folder states."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount
from headcount.artifact.saving import copy_side_files
from headcount.core import InputError, ModelError
from headcount.models import stated_pooling
from headcount.tasks import Similarity, evaluate
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
    assert stated_pooling(str(folder(tmp_path / "model", config))) == pooling


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


@pytest.mark.slow
@pytest.mark.parametrize("config", [FLAGS | {"pooling_mode_cls_token": True}, FLAGS])
def test_as_sentence_transformers_reads_it(tmp_path: Path, config: dict[str, Any]) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    path = folder(tmp_path / "model", config | {"word_embedding_dimension": 24}, "Normalize")
    stock = sentence_transformers.SentenceTransformer(str(path), device="cpu")
    u, v = (stock.encode(PAIRS[side]) for side in ("sentence1", "sentence2"))
    loaded = headcount.load(path)
    outcome_N = evaluate(loaded.model, Similarity(loaded, PAIRS)).outcome_N
    np.testing.assert_allclose(outcome_N, (u * v).sum(1), atol=1e-5)


def test_other_pooling_is_asked_for(tmp_path: Path) -> None:
    loaded = headcount.load(folder(tmp_path / "model", {"pooling_mode": "lasttoken"}))
    with pytest.raises(InputError, match=r"got lasttoken, which .*model states.* --pooling mean"):
        Similarity(loaded, PAIRS)
    assert Similarity(loaded, PAIRS, pooling="cls").num_examples == len(PAIRS["score"])


def test_modules_left_out_are_named(tmp_path: Path) -> None:
    loaded = headcount.load(folder(tmp_path / "model", {"pooling_mode": "cls"}, "Dense"))
    with pytest.warns(UserWarning, match=r"Skipped: 2_Dense \(Dense\)"):
        Similarity(loaded, PAIRS)


def test_a_hub_that_cannot_be_asked(tmp_path: Path) -> None:
    """Offline it is unknown whether a model states a pooling or has side files."""
    loaded = headcount.load(folder(tmp_path / "model", None))
    loaded.model.config.name_or_path = "someone/model"
    with pytest.warns(UserWarning, match=r"someone/model: the model's pooling .* mean or cls"):
        unknown = Similarity(loaded, PAIRS)
    assert unknown.sha256 == Similarity(loaded, PAIRS, pooling="mean").sha256
    with pytest.warns(UserWarning, match=r"someone/model: .*files .* could not be looked up"):
        copy_side_files("someone/model", tmp_path)


def test_a_hub_that_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise hub.no_entry()

    monkeypatch.setattr("headcount.models.model_files.hf_hub_download", none)
    assert stated_pooling("someone/model") is None


@pytest.mark.parametrize("text", ["[", '["1_Pooling"]', '[{"type": "Pooling"}]', '{"a": 1}'])
def test_a_broken_list(tmp_path: Path, text: str) -> None:
    path = folder(tmp_path / "model", None)
    (path / "modules.json").write_text(text)
    with pytest.raises(ModelError, match=r"model: expected .* in modules\.json"):
        Similarity(headcount.load(path), PAIRS)
