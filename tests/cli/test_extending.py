"""The plug-ins that docs/extending.md shows: whole, run here; `make example` checks them."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from headcount.capabilities import CAPABILITIES
from headcount.core import registries
from headcount.pages.sections import sections_of
from headcount.results import Analysis
from headcount.testing.command import TEMPLATES, Template
from tests import saved
from tests.commanding import ROOT, SAMPLE, headcount
from tests.turns import slow

PAGE = (ROOT / "docs" / "extending.md").read_text()
LAST = ["analyze", "several", "report"]
FORMAT = re.findall(r"^## A format\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[0]
EXAMPLE = ROOT / "docs" / "extending" / "headcount-example"
FILES = {path.stem: path for path in sorted(EXAMPLE.glob("src/*/[a-z]*.py"))}
ADDED = {"dimmed": "Dimmed", "halved": "Halved", "negation": "Negation", "triplets": "Triplets"}


def test_the_page_shows_every_file_whole() -> None:
    shown = dict(re.findall(r"^`(\w+)\.py`:\n```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
    assert shown == {name: path.read_text() for name, path in FILES.items()}
    assert {*FILES} == {*ADDED, "several"}
    assert max(len(text.splitlines()) for text in shown.values()) <= 30


def test_the_package_names_every_file() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    groups = {
        name.removeprefix("headcount."): each for name, each in project["entry-points"].items()
    }
    families = {registry.family for registry in registries()}
    assert {*groups} <= families
    named = {name: place for each in groups.values() for name, place in each.items()}
    module = "headcount_example"
    assert named == {
        **{name: f"{module}.{name}:{kind}" for name, kind in ADDED.items()},
        "several": f"{module}.several:SEVERAL",
    }
    assert "several" not in CAPABILITIES


@pytest.mark.slow
@pytest.mark.parametrize(
    "template", ["relation", *slow(*sorted({*get_args(Template)} - {"relation"}))]
)
@pytest.mark.usefixtures("taken_back")
def test_templates_pass_their_checks(template: str, tmp_path: Path) -> None:
    status, text, _ = headcount("check", "--template", template)
    assert status == 0 and len(text.splitlines()) < 40 and text.count("TODO") >= 5
    path = tmp_path / "my.py"
    path.write_text(text)
    status, shown, errors = headcount("check", str(path))
    assert status == 0 and "passed" in shown, errors


ASKED = (
    ("", ("--data", "x.txt"), "which registers nothing. Write @headcount.register above"),
    (
        TEMPLATES / "score.py.txt",
        ("--data", "x.txt"),
        "on data (relation, skill, task, trait), got",
    ),
    (FORMAT, ("--expect", "ordr=why"), "Expected checks out of the tables above, got ordr"),
)


@pytest.mark.parametrize(("code", "options", "said"), ASKED)
@pytest.mark.usefixtures("taken_back")
def test_what_makes_no_sense_is_refused(
    code: str | Path, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "my.py"
    path.write_text(code.read_text() if isinstance(code, Path) else code)
    status, _, errors = headcount("check", str(path), *options)
    assert status == 2 and said in " ".join(errors.split()), errors


def test_every_template_has_a_file() -> None:
    assert {path.name for path in TEMPLATES.iterdir()} == {
        f"{name}.py.txt" for name in get_args(Template)
    }
    status, _, errors = headcount("check")
    assert status == 2 and "headcount check --template score > my.py" in " ".join(errors.split())


@pytest.fixture
def taken_back() -> Iterator[None]:
    """Take back what files have registered."""
    yield
    for registry in registries():
        for name in {*FILES, "mine", ".bars"} & {*registry.names()}:
            registry.remove(name)


@pytest.mark.slow
@pytest.mark.usefixtures("taken_back")
def test_commands_of_the_page_run(
    bert: Path, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are written, but for the names of models and data; `check` and `prune` are parsed."""
    trees = SAMPLE.read_text().split("\n\n")
    (tmp_path / "few.conllu").write_text("\n\n".join(trees[:12]) + "\n\n")
    (tmp_path / "texts.txt").write_text("The dog barked loudly.\nA cat sees it.\nOld dogs ran.\n")
    row = '{"anchor": "old dogs", "positive": "a dog", "negative": "the moon"}\n'
    (tmp_path / "triplets.jsonl").write_text(3 * row)
    files = dict.fromkeys(("FILE", "TRAIN", "DEV"), str(tmp_path / "texts.txt"))
    places = {"treebank.conllu": str(tmp_path / "few.conllu"), "TASK": "masked-lm"}
    places |= files | {"triplets.jsonl": str(tmp_path / "triplets.jsonl")}
    monkeypatch.chdir(FILES["negation"].parent)
    llama, ran = saved.llama(tmp_path / "llama"), list[str]()
    for line in re.findall(r"^headcount .*", PAGE, re.MULTILINE):
        _, name, *words = shlex.split(line)
        out = str(tmp_path / ("analysed" if name in ("several", "report") else str(len(ran))))
        out = str(tmp_path / "analysed") if "--links" not in words and name == "analyze" else out
        model = llama if name == "explain" else encoder if "triplets" in words else bert
        given = [{**places, "OUT": out, "MODEL": str(model)}.get(each, each) for each in words]
        if name in ("check", "prune", "doctor"):
            continue
        status, shown, errors = headcount(name, *given)
        assert status == 0, f"{line}: {errors}"
        ran.append(name)
    assert ran == ["analyze", "analyze", "importance", "explain", "importance", *LAST]
    sections = sections_of(Analysis.read(tmp_path / "analysed"))
    assert "several-roles" in [each.key for each in sections]
