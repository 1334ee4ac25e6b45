"""Python files that come with a model run only if the user trusts them, and nobody is asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headcount
from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import main
from headcount.core import ModelError, Plan
from headcount.models.model_files import missing_code
from tests import saved

CODE = """
from pathlib import Path

from transformers import BertConfig, BertForMaskedLM, BertTokenizer

Path({marker!r}).write_text("this file was run")


class MarkedConfig(BertConfig):
    model_type = "marked"


class MarkedModel(BertForMaskedLM):
    config_class = MarkedConfig


class MarkedTokenizer(BertTokenizer):
    pass


def generate(*_, **__):
    pass
"""


def patched(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def own_class(path: Path, place: str) -> None:
    """A type of model that transformers does not know."""
    names = {"AutoConfig": "MarkedConfig", "AutoModelForMaskedLM": "MarkedModel"}
    auto_map = {auto: f"{place}modeling_marked.{name}" for auto, name in names.items()}
    patched(
        path / "config.json", model_type="marked", architectures=["MarkedModel"], auto_map=auto_map
    )


def own_body(path: Path, place: str) -> None:
    """The same, but the map names the class of the body only."""
    auto_map = {"AutoConfig": "MarkedConfig", "AutoModel": "MarkedModel"}
    auto_map = {auto: f"{place}modeling_marked.{name}" for auto, name in auto_map.items()}
    patched(path / "config.json", model_type="marked", architectures=["Body"], auto_map=auto_map)


def changed_class(path: Path, place: str) -> None:
    """A type of model that transformers knows, with a class that it does not know."""
    auto_map = {"AutoModelForMaskedLM": f"{place}modeling_marked.MarkedModel"}
    patched(path / "config.json", architectures=["MarkedModel"], auto_map=auto_map)


def changed_config(path: Path, place: str) -> None:
    """A type of model that transformers knows, with a configuration of its own."""
    patched(path / "config.json", auto_map={"AutoConfig": f"{place}modeling_marked.MarkedConfig"})


def own_tokenizer(path: Path, place: str) -> None:
    """A tokenizer that comes with the model."""
    auto_map = {"AutoTokenizer": [None, f"{place}modeling_marked.MarkedTokenizer"]}
    patched(path / "tokenizer_config.json", tokenizer_class="MarkedTokenizer", auto_map=auto_map)


def own_generation(path: Path, place: str) -> None:
    """A function for generation."""
    (path / "custom_generate").mkdir()
    code = (path / "modeling_marked.py").read_text()
    (path / "custom_generate" / "generate.py").write_text(code)


KINDS = {
    "own class": own_class,
    "own body": own_body,
    "changed class": changed_class,
    "changed config": changed_config,
    "own tokenizer": own_tokenizer,
    "own generation": own_generation,
}
NEEDED = ("own class", "own body")
"""Kinds that can't be loaded without running their code."""


def marked(path: Path, change: Callable[[Path, str], None], elsewhere: Path | None = None) -> Path:
    """A folder whose code writes the file `marker` beside it when it is imported."""
    saved.gpt2(path) if change is own_generation else saved.bert(path)
    text = CODE.format(marker=str(path.parent / "marker"))
    at = elsewhere or path
    at.mkdir(exist_ok=True)
    (at / "modeling_marked.py").write_text(text)
    change(path, "" if elsewhere is None else f"{elsewhere}--")
    return path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Questions at the prompt, which are all answered with yes."""
    questions: list[str] = []

    def answer(question: str = "") -> str:
        questions.append(question)
        return "yes"

    monkeypatch.setattr("builtins.input", answer)
    return questions


@pytest.mark.filterwarnings("ignore:.*its files lack pooler", "ignore:.*its config names Marked")
@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_code_runs_and_nobody_is_asked(
    tmp_path: Path, asked: list[str], kind: str, is_elsewhere: bool
) -> None:
    """Also where the map names a folder by its absolute path."""
    elsewhere = tmp_path / "elsewhere" if is_elsewhere and kind != "own generation" else None
    path = marked(tmp_path / "model", KINDS[kind], elsewhere)
    if kind in NEEDED:
        with pytest.raises(ModelError, match=r"can't be loaded: it needs Python .*--trust-remote"):
            headcount.load(path)
    else:
        headcount.load(path)
    assert not asked
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("kind", ["own class", "changed class", "changed config"])
def test_code_of_another_repository_that_was_never_fetched(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No network, and nothing in the cache; what is advised helps."""
    if kind != "own class":  # which asks the network, five times in some 20 seconds
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    path = marked(tmp_path / "model", KINDS[kind])
    KINDS[kind](path, "someone/code--")
    with pytest.raises(ModelError) as caught:
        headcount.load(path, trust_remote_code=True)
    said = "its code, modeling_marked.py, is in another repository, someone/code (auto_map in "
    assert said in str(caught.value) and "Copy or save it again" not in str(caught.value)
    assert "hf download someone/code --include '*.py'" in str(caught.value)
    assert "delete 'someone/code--' in config.json" in str(caught.value)
    config = path / "config.json"
    config.write_text(config.read_text().replace("someone/code--", ""))
    assert headcount.load(path, trust_remote_code=True).heads


def test_code_that_is_missing_is_found_behind_code_in_a_folder(tmp_path: Path) -> None:
    places = {"AutoConfig": "a/folder/of/mine--its.Config", "AutoModel": "owner/none--theirs.Model"}
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": places}))
    missing = missing_code(tmp_path, "config.json")
    assert missing and "its code, theirs.py, is in another repository, owner/none" in missing


def test_whose_code_must_be_trusted(tmp_path: Path) -> None:
    path = marked(tmp_path / "model", own_class)
    own_class(path, "someone/code--")
    with pytest.raises(ModelError, match=r"it needs Python files of someone/code \(auto_map in"):
        headcount.load(path)


def test_a_tokenizer_of_another_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    path = marked(tmp_path / "model", own_tokenizer)
    own_tokenizer(path, "someone/code--")
    with pytest.warns(UserWarning, match=r"someone/code \(auto_map in tokenizer_config.json\)"):
        assert headcount.load(path, trust_remote_code=True).tokenizer is None


@pytest.mark.once
@pytest.mark.parametrize("kind", KINDS)
def test_trusted_code_runs(tmp_path: Path, asked: list[str], kind: str) -> None:
    path = marked(tmp_path / "model", KINDS[kind])
    loaded = headcount.load(path, trust_remote_code=True)
    assert not asked
    assert (tmp_path / "marker").exists()
    if kind in (*NEEDED, "changed class"):
        assert type(loaded.model).__name__ == "MarkedModel"
    elif kind == "own tokenizer":
        assert type(loaded.tokenizer).__name__ == "MarkedTokenizer"
    assert len(loaded.heads) == 6


@pytest.mark.filterwarnings("ignore:.*its files lack pooler")
def test_a_class_that_is_replaced_is_reported(tmp_path: Path) -> None:
    path = marked(tmp_path / "model", changed_class)
    with pytest.warns(UserWarning, match=r"names MarkedModel, .*--trust-remote.* BertModel"):
        headcount.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("trusted", [False, True])
def test_compact_folders_load_either_way(tmp_path: Path, asked: list[str], trusted: bool) -> None:
    """Their file is for others: ours never runs it, whatever it holds."""
    out = tmp_path / "small"
    headcount.save_compact(
        headcount.load(saved.bert(tmp_path / "model")), Plan({"encoder.self": {0: (1,)}}), out
    )
    text = CODE.format(marker=str(tmp_path / "marker"))
    (out / "modeling_headcount.py").write_text(text)
    assert len(headcount.load(out, trust_remote_code=trusted).heads) == 4
    assert not asked and not (tmp_path / "marker").exists()


@pytest.mark.slow
def test_the_flag(tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = marked(tmp_path / "model", own_class)
    assert main(["doctor", str(path)]) == 1
    assert "--trust-remote-code" in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "marker").exists()
    assert main(["doctor", str(path), "--trust-remote-code"]) == 0
    assert not asked and (tmp_path / "marker").exists()


WITHOUT_MODEL = {"report", "cite", "atlas", "compare", "train", "reproduce", "sample", "check"}
"""Commands that load no model that others made, and one whose papers are commands."""


@pytest.mark.parametrize("name", sorted({*COMMANDS} - WITHOUT_MODEL))
def test_every_command_that_loads_a_model_has_the_flag(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    assert "trust-remote-code" in capsys.readouterr().out


@pytest.mark.parametrize("paper", ["michel2019", "voita2019", "li2021"])
def test_every_paper_has_the_flag(paper: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["reproduce", paper, "--help"])
    assert "trust-remote-code" in capsys.readouterr().out
