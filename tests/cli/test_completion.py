"""Tab completion as bash calls it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from headcount.commands.command_line import command_class
from headcount.commands.completion import EVERYWHERE, completion
from tests.commanding import headcount

COMMANDS = ("analyze", "export", "report", "prune")
VALUES = {("prune", "--method"): ("fisher", "l0"), ("analyze", "--method"): ("none",)}
CALL = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
eval "$(complete -p headcount | sed 's/.*-F \\([^ ]*\\) .*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "headcount"
    path.write_text(completion("bash", {name: command_class(name) for name in COMMANDS}, VALUES))
    return path


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["an"], {"analyze"}),
        (["analyze", "--win"], {"--window", "--windows"}),
        (["analyze", "m", "--dtype", "b"], {"bfloat16"}),
        (["report", "out", "--"], {"--help", "--formats", "--pruned", "--confirm", *EVERYWHERE}),
        (["prune", "m", "--method", ""], {"fisher", "l0"}),
        (["export", "m", "--to", "onnx", "--ca"], {"--cache"}),
    ],
)
def test_words_that_bash_offers(typed: list[str], expected: set[str], script: Path) -> None:
    words = ["bash", "-c", CALL, "bash", str(script), "headcount", *typed]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} == expected, "no word of a help text"


def test_a_script_for_every_shell(script: Path) -> None:
    assert "complete -F" in script.read_text()
    assert "#compdef headcount" in completion("zsh", {"report": command_class("report")}, {})
    status, output, errors = headcount("--completion", "fish")
    assert status == 2 and not output and "Expected a shell out of bash, zsh, got 'fish'" in errors


@pytest.mark.slow
def test_the_script_offers_every_method() -> None:
    from headcount.pruning import method_names

    status, output, _ = headcount("--completion", "bash")
    assert status == 0 and str([*method_names()])[1:-1] in output
