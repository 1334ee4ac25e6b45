"""Plug-ins that the command line names: loaded, listed, left out, and named where they fail."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.core import capability_registry, plugins
from headcount.tasks import TASKS
from tests.commanding import ROOT, headcount

SHOWN = ROOT / "docs" / "extending" / "headcount-example" / "src" / "headcount_example"
CODE = (SHOWN / "dimmed.py").read_text()
"""The score of one's own that the docs show."""
TEXTS = "The dog barked loudly.\nA cat sees the dog.\nOld dogs ran.\n"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    from headcount.importance import SCORES

    path = tmp_path / "my.py"
    path.write_text(CODE)
    yield str(path)
    monkeypatch.delenv("HEADCOUNT_PLUGINS", raising=False)
    if "dimmed" in SCORES:
        SCORES.remove("dimmed")


@pytest.fixture
def asked(bert: Path, tmp_path: Path) -> list[str]:
    (tmp_path / "texts.txt").write_text(TEXTS)
    return [str(bert), "--task", "masked-lm", "--data", str(tmp_path / "texts.txt")]


@pytest.mark.slow
def test_a_file_adds_a_score_with_options(plugin: str, asked: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    methods = ("--methods", "dimmed", "norm", "--methods.dimmed.gate", "0", "--out", str(out))
    status, shown, errors = headcount("importance", *asked, *methods, "--plugin", plugin)
    assert status == 0, errors
    assert "dimmed" in shown
    record = json.loads((out / "importance.json").read_text())
    assert record["methods"] == ["norm", "dimmed"]
    assert "|dimmed:gate=0.0|" in record["signature"]
    assert "|plugins:my.py@" in record["signature"]
    status, shown, _ = headcount("doctor", "--plugin", plugin)
    assert status == 0 and "plug-in my.py" in shown
    assert "adds dimmed (scores); checks not run" in " ".join(shown.split())


@pytest.mark.slow
def test_the_curve_that_is_proposed_has_the_score_and_runs(
    plugin: str, asked: list[str], tmp_path: Path
) -> None:
    from headcount.importance import SCORES

    alone = ("--methods", "dimmed", "--out", tmp_path / "out", "--plugin", plugin)
    status, shown, errors = headcount("importance", *asked, *alone)
    assert status == 0 and "is worth the most by dimmed (" in shown, errors
    (curve,) = (line for line in shown.splitlines() if line.startswith("  headcount curve"))
    words = shlex.split(curve.replace("DEV_FILE", asked[-1]))[1:]
    assert words[words.index("--methods") + 1] == "dimmed"
    SCORES.remove("dimmed")  # as in a process of its own
    plugins._files.clear()
    words[words.index("CURVE")] = str(tmp_path / "curve")
    status, shown, errors = headcount(*words, "--no-scores", "--limit", 3)
    assert status == 0, errors
    assert "dimmed" in shown


def test_what_is_wrong_is_a_sentence(plugin: str, asked: list[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    for named, expected in (
        (str(tmp_path / "no.py"), "no.py, which does not exist"),
        (
            str(broken),
            "to be imported, got ZeroDivisionError: division by zero (broken.py, line 1)",
        ),
        ("nowhere", "or an installed package that has entry points for headcount, got nowhere"),
    ):
        status, _, errors = headcount("importance", *asked, "--out", "o", "--plugin", named)
        assert status == 2 and expected in " ".join(errors.split())


def test_a_server_loads_what_its_command_names(
    plugin: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Neither a plug-in of the environment, nor any with --no-plugins."""
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    monkeypatch.setenv("HEADCOUNT_PLUGINS", str(broken))
    _, _, errors = headcount("serve", "./none")
    assert "./none, which does not exist" in errors
    _, _, errors = headcount("serve", "./none", "--plugin", str(broken))
    assert "ZeroDivisionError" in errors
    _, _, errors = headcount("doctor", "./none")
    assert "ZeroDivisionError" in errors
    status, shown, _ = headcount("doctor", "--no-plugins", "--plugin", plugin)
    assert status == 0 and "adds dimmed" in shown


COMMAND = """
from dataclasses import dataclass
import headcount
from headcount.commands import Command
from headcount.core import Capability

@dataclass(frozen=True)
class Mine(Command):
    def run(self):
        {code}

about = {{"group": "More", "sentence": "Do it.", "command": f"{{__name__}}:Mine"}}
headcount.register(Capability(name="mine", **about))
"""


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("{}['enc.9.9']", 2, "to work, got KeyError: 'enc.9.9' (my.py, line 10). Repair it"),
        ("import sys; sys.exit(3)", 2, "to work, got SystemExit: 3 (my.py, line 10)"),
        ("raise SystemExit", None, ""),
        ("return 'good'", 2, "the status of the command Mine of the plug-in my.py"),
        ("return None", 2, "(0 if all is well), got None. Repair it"),
    ],
)
def test_a_command_that_fails_is_a_sentence(
    tmp_path: Path, code: str, status: int | None, expected: str
) -> None:
    (tmp_path / "my.py").write_text(COMMAND.format(code=code))
    try:
        if status is None:
            with pytest.raises(SystemExit):
                headcount("mine", "--plugin", tmp_path / "my.py")
            return
        found, _, errors = headcount("mine", "--plugin", tmp_path / "my.py")
    finally:
        capability_registry().remove("mine")
    assert found == status and expected in " ".join(errors.split())


@pytest.mark.slow
def test_a_check_is_shown_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`headcount check` says what each check saw; `doctor` that they were run."""
    monkeypatch.setenv("HEADCOUNT_CACHE", str(tmp_path))
    text = (SHOWN / "triplets.py").read_text().replace('"triplets"', '"turned"')
    (tmp_path / "my.py").write_text(text.replace('"accuracy", True', '"accuracy", False'))
    asked = ("check", str(tmp_path / "my.py"))
    try:
        status, shown, _ = headcount(*asked)
        shown = " ".join(shown.split())
        assert status == 1 and "Checks of the task turned 11 checks: 10 passed, 1 failed." in shown
        assert "truth learns failed" in shown and "checks: 10 passed, 1 failed" in shown
        status, shown, _ = headcount("doctor", "--plugin", asked[1])
        assert status == 0 and "checks: 10 passed, 1 failed" in " ".join(shown.split())
        assert headcount(*asked, "--expect", "learns=it is turned")[0] == 0
        status, _, errors = headcount(*asked, "--names", "other")
        assert status == 2 and "adds, got other. It adds turned." in " ".join(errors.split())
        status, _, errors = headcount(*asked, "--expect", "learns")
        assert status == 2 and "Expected CHECK=REASON" in errors
    finally:
        TASKS.remove("turned")


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (
            'sentence="Do.", command=f"{__name__}:Nowhere"',
            "to bring the command mine, got Attribut",
        ),
        ('sentence="", command=f"{__name__}:Mine"', "words of the command mine, got no sentence."),
    ],
)
def test_a_command_that_is_not_there_or_lacks_words_is_a_sentence(
    tmp_path: Path, how: str, expected: str
) -> None:
    made = f'Capability(name="mine", group="More", {how})'
    text = f"import headcount\nfrom headcount.core import Capability\nheadcount.register({made})"
    (tmp_path / "broken.py").write_text(text)
    try:
        status, _, errors = headcount("mine", "--plugin", str(tmp_path / "broken.py"))
    finally:
        capability_registry()._given.pop("mine", None)
    said = " ".join(errors.split())
    assert status == 2 and expected in said and "broken.py" in said, errors
