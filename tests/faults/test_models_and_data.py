"""Damaged models, states and data end in a sentence, or do no harm."""

import shutil
from pathlib import Path

import pytest
from hypothesis import given

from headcount.core import Plan, write_json
from headcount.corpora import Corpus, check_columns
from headcount.tasks import COLUMNS
from tests.commanding import PARALLEL, SAMPLE, headcount
from tests.faults.damage import Damage, damages, number_of_tries

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data in every format."""
    folder = tmp_path_factory.mktemp("texts")
    shutil.copy(SAMPLE, folder / "a.conllu")
    shutil.copy(PARALLEL, folder / "a.tsv")
    (folder / "a.txt").write_text("One dog.\nTwo cats sat.\n", encoding="utf-8")
    (folder / "a.jsonl").write_text('{"text": "One."}\n{"text": "Two."}\n', encoding="utf-8")
    (folder / "a.csv").write_text("text,label\nOne,0\nTwo,1\n", encoding="utf-8")
    return folder


def _data(name: str) -> None:
    from tests.faults.test_folders import check, tried

    @tried(3)
    @given(damages(_FOLDERS["texts"], [name]))
    def test(damage: Damage) -> None:
        check("data", _FOLDERS["texts"], damage, lambda folder: _read(folder / name))

    test()


_FOLDERS: dict[str, Path] = {}


def _read(path: Path) -> None:
    if path.suffix == ".csv":
        check_columns([str(path)], None, COLUMNS["classification"])
    else:
        list(Corpus([path]))


@pytest.mark.parametrize("name", ["a.conllu", "a.tsv", "a.txt", "a.jsonl", "a.csv"])
def test_data(name: str, texts: Path) -> None:
    _FOLDERS["texts"] = texts
    _data(name)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "tokenizer_config.json", ""])
def test_a_model(name: str, bert: Path) -> None:
    """With one of its files damaged; any of them for an empty name."""
    from tests.faults.test_folders import check, tried

    if name and not (bert / name).exists():
        pytest.skip(f"the tiny model has no {name}")

    @tried(3)
    @given(damages(bert, [name] if name else []))
    def test(damage: Damage) -> None:
        check("model", bert, damage, lambda folder: headcount("doctor", folder)[0])

    test()


def test_a_plan(tmp_path: Path) -> None:
    from tests.faults.test_folders import check, tried

    kept = {"encoder.self": {"0": [0, 2], "1": []}}
    write_json(tmp_path / "plan" / "plan.json", {"version": 1, "kept": kept, "head_dim": 4})

    @tried(60)
    @given(damages(tmp_path / "plan"))
    def test(damage: Damage) -> None:
        check("plan", tmp_path / "plan", damage, lambda folder: Plan.read(folder / "plan.json"))

    test()


@pytest.mark.parametrize("name", ["analyze", "importance", "train"])
def test_a_state(name: str, bert: Path, tmp_path: Path) -> None:
    """What a run leaves to be resumed from: every file of it."""
    from tests.commanding import DATA, TINY
    from tests.faults.test_folders import check, tried

    task = ("--task", "masked-lm", "--data", PARALLEL, "--columns", "text=0", "--limit", 3)
    arguments = {
        "analyze": (bert, SAMPLE, "--limit", 3, "--save-every", 0),
        "importance": (bert, *task, "--methods", "ablation"),
        "train": ("translation", *DATA, *TINY, "epochs=1", "--save-every", 8),
    }[name]
    out = tmp_path / "place" / "out"
    status, _, errors = headcount(name, *arguments, "--out", out)
    assert status == 0, errors
    kept = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".html"]
    names = [path.relative_to(out.parent).as_posix() for path in kept]

    def resumed(folder: Path) -> int:
        return headcount(name, *arguments, "--out", folder / "out", "--resume")[0]

    @tried(2)
    @given(damages(out.parent, names))
    def test(damage: Damage) -> None:
        check(f"folder that {name} resumes in", out.parent, damage, resumed)

    if number_of_tries(2):
        test()
