"""The self-check of a model from files is made once, and again whenever anything may differ."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.compaction import compact
from headcount.core import Plan
from headcount.models import Loaded, load, verdicts
from headcount.tap import Anatomy, examine
from tests import saved, self_checks


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """The models that were checked, with verdicts in a folder of the test's own."""
    found = list[object]()

    def counted(model: Any) -> Anatomy:
        found.append(model)
        with self_checks.always():
            return examine(model)

    monkeypatch.setattr(verdicts, "examine", counted)
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / "cache"))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved.bert(tmp_path / "bert")


def written(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "checks").glob("*.json"))


@pytest.mark.slow
def test_a_model_from_files_is_checked_once(
    checks: list[object], folder: Path, tmp_path: Path
) -> None:
    first, second = load(folder).anatomy, load(folder).anatomy
    assert len(checks) == 1 and first == second == examine(load(folder).model)
    assert load(folder, check=True).anatomy == first and len(checks) == 2
    (path,) = written(tmp_path)
    assert json.loads(path.read_text())["key"]["dtype"] == "torch.float32"


@pytest.mark.slow
def test_layers_without_heads_are_kept(checks: list[object], folder: Path, tmp_path: Path) -> None:
    from headcount.artifact import save

    loaded = load(folder)
    heads = [head for head in loaded.heads if head.layer]
    save(compact(loaded, Plan.keeping(loaded.heads, heads)), tmp_path / "small", loaded.tokenizer)
    first, second = (load(tmp_path / "small").anatomy for _ in range(2))
    assert first == second and first.dead and len(checks) == 2  # one of the dense model


def other_weight(loaded: Loaded) -> Loaded:
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1)
    return loaded


def other_tensor(loaded: Loaded) -> Loaded:
    weight = next(loaded.model.parameters())
    weight.data = weight.data.clone()
    return loaded


def other_format(loaded: Loaded) -> Loaded:
    loaded.model.double()
    return loaded


def other_config(loaded: Loaded) -> Loaded:
    loaded.model.config.hidden_act = "relu"
    return loaded


def other_forward(loaded: Loaded) -> Loaded:
    module = loaded.model.base_model
    module.forward = module.forward
    return loaded


def other_hook(loaded: Loaded) -> Loaded:
    loaded.model.base_model.register_forward_hook(lambda *_: None)
    return loaded


def other_attention(loaded: Loaded) -> Loaded:
    loaded.model.set_attn_implementation("eager")
    return loaded


CHANGES = (
    *(other_weight, other_tensor, other_format, other_config, other_forward, other_hook),
    other_attention,
)


@pytest.mark.once
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
def test_a_model_that_was_changed_in_memory_is_checked(
    change: Callable[[Loaded], Loaded], checks: list[object], folder: Path
) -> None:
    load(folder).anatomy  # noqa: B018
    change(load(folder)).anatomy  # noqa: B018
    assert len(checks) == 2


def touched(folder: Path, path: Path) -> None:
    os.utime(folder / "model.safetensors", ns=(5, 5))


def replaced(folder: Path, path: Path) -> None:
    (new := folder / "new").write_bytes((folder / "config.json").read_bytes())
    stat = (folder / "config.json").stat()
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    new.replace(folder / "config.json")  # the same but for its inode


def added(folder: Path, path: Path) -> None:
    (folder / "more.json").write_text("{}")


def damaged(folder: Path, path: Path) -> None:
    path.write_text(path.read_text().replace('"num_heads": 3', '"num_heads": 4'))


def cut(folder: Path, path: Path) -> None:
    path.write_text(path.read_text()[:100])


def foreign(folder: Path, path: Path) -> None:
    """Whole, sealed, and of another model."""
    found = json.loads(path.read_text())
    del found["sha256"]
    found["key"]["dtype"] = "torch.float16"
    verdicts.write_sealed(path, found, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", (touched, replaced, added, damaged, cut, foreign), ids=lambda each: each.__name__
)
def test_changed_files_are_checked(
    change: Callable[[Path, Path], None], checks: list[object], folder: Path, tmp_path: Path
) -> None:
    anatomy = load(folder).anatomy
    (path,) = written(tmp_path)
    before = path.read_text()
    change(folder, path)
    assert load(folder).anatomy == anatomy and len(checks) == 2
    load(folder).anatomy  # noqa: B018
    assert len(checks) == 2, "what was made again is kept"
    assert path.read_text() == before or len(written(tmp_path)) == 2


@pytest.mark.once
@pytest.mark.parametrize("name", ["_code", "processor", "version"])
def test_another_machine_or_version_checks_again(
    name: str, checks: list[object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(folder).anatomy  # noqa: B018
    monkeypatch.setattr(verdicts, name, lambda *_: "another")
    load(folder).anatomy  # noqa: B018
    assert len(checks) == 2


def test_a_folder_that_can_t_be_written_is_no_error(
    checks: list[object], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path / "file" / "cache"))
    first, second = (load(folder).anatomy for _ in range(2))
    assert first == second and len(checks) == 2


@pytest.mark.slow
def test_the_latest_are_kept(
    checks: list[object], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "KEPT", 2)
    for number in range(4):
        (folder / f"more{number}.json").write_text("{}")
        load(folder).anatomy  # noqa: B018
    assert len(written(tmp_path)) == 2
    load(folder).anatomy  # noqa: B018
    assert len(checks) == 4


def test_models_in_memory_are_always_checked(
    checks: list[object], folder: Path, tmp_path: Path
) -> None:
    loaded = load(folder)
    Loaded(loaded.model, loaded.tokenizer, str(folder)).anatomy  # noqa: B018
    load(folder, inputs={"input_ids": torch.tensor([[5, 6, 7, 8]])}).anatomy  # noqa: B018
    assert not checks and not written(tmp_path), "they don't ask for verdicts"
    assert pickle.loads(pickle.dumps(loaded)).source is None
