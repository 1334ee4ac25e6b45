"""Help and refusals come at once: nothing heavy is imported before a command really runs."""

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

import headcount
from headcount import tasks
from headcount.capabilities import CAPABILITIES as COMMANDS
from headcount.commands.command_line import main, parse
from tests.commanding import PARALLEL, ROOT, SAMPLE

HEAVY = (
    *("torch", "transformers", "pandas", "sklearn", "scipy", "matplotlib", "jinja2", "sacrebleu"),
    *("starlette", "uvicorn"),
)

NOT_LISTED = ("numpy", "tabulate", "tyro", "jaxtyping")
"""What the list of all commands does without beside those."""

SCRIPT = """
import json, sys
import headcount
from headcount.commands import main

runs, heavy = [], json.loads(sys.argv[2])
for arguments in json.loads(sys.argv[1]):
    print("$ " + " ".join(arguments), file=sys.stderr)
    try:
        status = main(arguments)
    except SystemExit as end:
        status = end.code
    runs.append((arguments, status, [name for name in heavy if name in sys.modules]))
json.dump(runs, open(sys.argv[3], "w"))
"""

Run = tuple[list[str], int | None, list[str]]


def in_one_process(
    commands: list[list[str]],
    folder: Path,
    site: Path | None = None,
    heavy: tuple[str, ...] = HEAVY,
) -> tuple[list[Run], str]:
    """Arguments, exit status and heavy modules so far of every command, and all errors."""
    found = folder / "found.json"
    path = os.pathsep.join(filter(None, (site and str(site), os.environ.get("PYTHONPATH"))))
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(commands), json.dumps(heavy), found],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.returncode == 0, process.stderr
    runs = json.loads(found.read_text())
    found.unlink()
    return [(arguments, status, found) for arguments, status, found in runs], process.stderr


MANIFEST = """
from headcount.core import Capability

COMMAND = Capability(name="{name}", group="More", sentence="Do it.", command="{name}:Command")
"""


def installed(site: Path, number: int) -> None:
    """As many packages with a score, a method and a command each, as far as Python sees them."""
    for name in (f"plugged{each}" for each in range(number)):
        about = site / f"{name}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        things = (
            f"[headcount.{group}]\n{name} = {name}:Thing\n" for group in ("scores", "methods")
        )
        command = f"[headcount.commands]\n{name} = {name}_manifest:COMMAND\n"
        (about / "entry_points.txt").write_text("".join((*things, command)))
        (site / f"{name}.py").write_text("raise RuntimeError('imported without need')\n")
        (site / f"{name}_manifest.py").write_text(MANIFEST.format(name=name))


def test_help_imports_nothing_heavy_and_no_plug_in(tmp_path: Path) -> None:
    """With 20 of them installed, whose import would fail."""
    installed(tmp_path / "site", 20)
    lists: list[list[str]] = [["--version"], ["--help"], []]
    runs, _ = in_one_process(lists, tmp_path, tmp_path / "site", (*HEAVY, *NOT_LISTED))
    assert runs == [(lists[0], 0, []), (lists[1], 0, []), ([], 2, [])]
    papers = [["reproduce", paper, "--help"] for paper in ("michel2019", "voita2019", "li2021")]
    asked = [*([name, "--help"] for name in COMMANDS), *papers]
    runs, errors = in_one_process(asked, tmp_path, tmp_path / "site")
    assert runs == [(arguments, 0, []) for arguments in asked]
    assert "plugged" not in errors


COLUMNS = ("--columns", "text=0", "label=1")
SCORED = ("--task", "classification", "--data", str(PARALLEL), *COLUMNS)
LEARNED = (*SCORED, "--dev", str(PARALLEL))

REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a command": (("anlyze",), "Did you mean analyze?"),
    "a share": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--share", "1.5"),
        "Expected a share of heads to keep between 0 and 1, got 1.5",
    ),
    "a corpus": (("analyze", "gpt2", "none.txt", "--out", "OUT"), "none.txt, got nothing"),
    "treebanks of a probe": (
        (
            "probe",
            "gpt2",
            "--train",
            str(ROOT / "README.md"),
            "--test",
            str(ROOT / "README.md"),
            "--out",
            "OUT",
        ),
        "Expected a file ending in .txt, .tsv, .csv, .jsonl, .parquet, .tar, .conllu",
    ),
    "documents": (("coreference", "gpt2", str(SAMPLE), "--out", "OUT"), "Expected mentions of ent"),
    "gold links": (
        ("align", "gpt2", str(PARALLEL), "--gold", str(ROOT / "LICENSE"), "--out", "OUT"),
        "for each of 168 pairs",
    ),
    "pairs": (("analyze", "gpt2", str(SAMPLE), "--pairs", "--out", "OUT"), "a pair of sentences"),
    "a model": (("analyze", "./none", str(SAMPLE), "--out", "OUT"), "./none, which does not"),
    "frequencies": (
        ("analyze", "gpt2", str(SAMPLE), "--out", "OUT", "--frequencies", "none"),
        "none does not exist",
    ),
    "data": (
        ("importance", "gpt2", "--task", "causal-lm", "--data", "none.txt", "--out", "OUT"),
        "none.txt does not exist",
    ),
    "columns": (
        ("evaluate", "gpt2", "--task", "similarity", "--data", str(PARALLEL), "--out", "OUT"),
        "number all columns from 0 (sentence1=0 sentence2=1 score=2)",
    ),
    "columns of a development set": (
        ("prune", "gpt2", *SCORED, "--dev", str(ROOT / "pyproject.toml"), "--out", "OUT"),
        "pyproject.toml:1: expected 2 columns separated by a blank, got 1",
    ),
    "columns by name": (
        ("importance", "gpt2", *SCORED[:-2], "text=en", "label=de", "--out", "OUT"),
        "expected a column 'en' for 'text'",
    ),
    "against": (
        ("importance", "gpt2", *SCORED, "--out", "OUT", "--against", "OUT"),
        "Expected --against to name an assessment on other data",
    ),
    "a budget": (("prune", "gpt2", *LEARNED, "--out", "OUT"), "Expected a budget out of --keep"),
    "two budgets": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--share", "0.5"),
        "got --keep and --share",
    ),
    "a method": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--method", "gradeint"),
        "Did you mean gradient?",
    ),
    "an option of a method": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--method.stpe", "1"),
        "--method.step FLOAT",
    ),
    "a value of an option": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--method.step", "abc"),
        "Error parsing --method.step",
    ),
    "a value of a training": (
        ("curve", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--methods.l0.tuning.peak", "x"),
        "Error parsing --methods.l0.tuning.peak",
    ),
    "a preset": (
        ("prune", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--preset", "voita"),
        "Did you mean voita2019?",
    ),
    "a method of a curve": (
        ("curve", "gpt2", *LEARNED, "--out", "OUT", "--keep", "3", "--methods", "norms"),
        "Did you mean norm?",
    ),
    "a plan": (("compact", "gpt2", "--plan", "none.json", "--out", "OUT"), "but none.json"),
    "a format": (("export", "OUT"), "Expected a format"),
    "text": (
        ("train", "causal-lm", "--data", "none.txt", "--out", "OUT"),
        "none.txt does not exist",
    ),
    "a recipe": (
        ("train", "causal-lm", "--data", str(SAMPLE), "--out", "OUT", "--set", "epoch=2"),
        "Did you mean epochs?",
    ),
    "a tuning": (
        ("finetune", "gpt2", *LEARNED, "--out", "OUT", "--set", "update=2"),
        "Did you mean updates?",
    ),
    "a metric": (
        ("evaluate", "gpt2", *SCORED, "--metric", "acuracy", "--out", "OUT"),
        "Did you mean accuracy?",
    ),
    "a dense model": (("speed", "./none", "gpt2", "--out", "OUT"), "./none, which does not exist"),
    "a number of rounds": (("speed", "gpt2", "gpt2", "--rounds", "1"), "Expected rounds"),
    "a run": (("report", "none"), "none"),
    "two runs": (("compare", "none", "nothing", "--out", "OUT"), "none"),
    "a treebank": (
        ("reproduce", "voita2019", "gpt2", "--task", "causal-lm", "--data", "x", "--out", "OUT"),
        "Expected a treebank",
    ),
    "a development set": (
        ("reproduce", "michel2019", "gpt2", *SCORED, "--out", "OUT", "--prune"),
        "needs a development set",
    ),
    "a live model": (("serve", "./none"), "./none, which does not exist"),
    "a port": (("serve", "gpt2", "--port", "70000"), "Expected a port between 0 and 65535"),
    "a demo's model": (("demo", "./none", "--out", "OUT"), "./none, which does not exist"),
}
"""Arguments of commands that need no model to be refused, and part of the error."""


@pytest.mark.slow
def test_refusals_import_nothing_heavy_and_write_nothing(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    refused = {
        name: ([out if word == "OUT" else word for word in words], text)
        for name, (words, text) in REFUSED.items()
    }
    runs, errors = in_one_process([words for words, _ in refused.values()], tmp_path)
    blocks = [" ".join(block.split()) for block in errors.split("$ ")[1:]]
    for name, (_, status, heavy), block in zip(refused, runs, blocks, strict=True):
        assert (name, status, heavy) == (name, 2, []), block
        assert refused[name][1] in block, name
    assert not list(tmp_path.iterdir())


def test_no_command_shows_examples_that_parse_and_help_lists_every_command_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    lines = [
        line.split("  ")[1] for line in capsys.readouterr().out.splitlines() if "--out" in line
    ]
    assert len(lines) == 3
    for line in lines:
        words = line.replace("TASK", "classification").replace("MODEL", "gpt2").split()
        assert parse(words[1:])
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") <= 42 and max(map(len, shown.splitlines())) <= 80, "a small terminal"
    listed = re.findall(r"^  (\w+) +[A-Z]", shown, re.MULTILINE)
    assert listed == list(COMMANDS) and len(set(listed)) == len(listed)


def test_options_of_prune_stand_in_boxes_by_what_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["prune", "--help"])
    parts = re.split(r"^ (\S.*?) *\n -+ *$", capsys.readouterr().out, flags=re.MULTILINE)
    found = {
        title.removesuffix(" options"): re.findall(r"^  (--[a-z][\w.-]+)", box, re.MULTILINE)
        for title, box in zip(parts[1::2], parts[2::2], strict=True)
    }
    titles = ["positional arguments", "options", "budget", "task and data", "more"]
    assert list(found) == [*titles, "speed", "compensation", "analysis", "method"]
    assert found["options"][:2] == ["--out", "--method"] and len(found["options"]) < 9
    others = ["--latency", "--share", "--keep-cache", "--neurons"]
    assert found["budget"] == ["--keep", "--speedup", "--size", "--max-drop", *others]
    assert {"--task", "--data", "--dev", "--test"} <= {*found["task and data"]}


def test_help_shows_the_usual_options_first_and_the_others_under_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    parts = re.split(r"^ (\S.*?) *\n -+ *$", capsys.readouterr().out, flags=re.MULTILINE)
    assert parts[1::2] == ["positional arguments", "options", "more options"]
    usual, rare = (re.findall(r"^  --([a-z][\w-]+)", each, re.MULTILINE) for each in parts[4::2])
    assert usual[:5] == ["target", "against", "corrupt", "prompts", "out"]
    assert usual == [each.replace("_", "-") for each in COMMANDS["explain"].usual]
    assert {"columns", "as-words", "as-is", "draws", "check"} <= {*rare}


@pytest.mark.parametrize("name", [name for name in COMMANDS if COMMANDS[name].usual])
def test_usual_options_are_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped name would leave an option under more."""
    with pytest.raises(SystemExit):
        main([name, "--help"])
    shown = re.findall(r"--(?:no-)?([a-z][a-z-]+)", capsys.readouterr().out)
    assert {each.replace("_", "-") for each in COMMANDS[name].usual} <= {*shown}


def test_the_docstring_of_the_package_lists_every_public_name() -> None:
    words = set(re.findall(r"\w+", headcount.__doc__ or ""))
    assert {*headcount.__all__} <= words


def options(make: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(make).parameters)


def test_light_names_are_those_of_the_registries() -> None:
    from headcount import speed

    for task, names in tasks.OPTIONS.items():
        assert set(names) <= set(options(tasks.TASKS[task])), task
    assert get_args(speed.ModeName) == tuple(speed.MODES)


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_recipes_have_names(name: str) -> None:
    from headcount import papers

    assert name in papers.RECIPES
