"""Commands run through `main`; those that will be killed run in their own process."""

import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headcount.commands import main

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "headcount" / "data" / "sample.conllu"
PARALLEL = ROOT / "headcount" / "data" / "sample.tsv"
COLUMNS = ("--columns", "source=0", "target=1")
DATA = ("--data", PARALLEL, *COLUMNS)
TINY = ("--recipe", "tiny", "--set", "layers=1", "pieces=150", "batch_tokens=600", "epochs=2")
"""Arguments of `headcount train` for pairs, and for a model that is trained in seconds."""


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start `headcount ARGUMENTS` in its own process."""
    command = [sys.executable, "-m", "headcount", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


TEMPORARY = b"/pytest-of-"
"""A part of the path of every folder that tests make."""
OF_TRANSFORMERS = ("training_args.bin", "trainer_state.json")
"""What its Trainer writes into checkpoints for resuming, with the folder of the run."""


def check_no_paths(out: Path) -> None:
    """Check that no file of a folder holds the path of a folder, but at most its name."""
    for path in out.rglob("*"):
        if path.is_symlink() or not path.is_file() or path.name in OF_TRANSFORMERS:
            continue
        if path.suffix == ".parquet":
            found = str(pq.read_table(path).to_pydict()).encode()
        elif path.suffix == ".safetensors":
            with path.open("rb") as file:
                found = file.read(int.from_bytes(file.read(8), "little"))
        else:
            found = path.read_bytes()
        place = found.find(TEMPORARY)
        assert place < 0, f"{path}: {found[max(0, place - 200) : place + 100]!r}"


def check_titles(folder: Path, page: str) -> None:
    """Check that charts of a page say their titles once, and their files, too."""
    text = (folder / page).read_text(encoding="utf-8")
    charts = re.findall(r'<figure class="chart[^"]*">.*?</figure>', text, re.S)
    files = [file.read_text(encoding="utf-8") for file in (folder / "figures").glob("*.svg")]
    titles = [re.findall("<figcaption>(.*?)</figcaption>", chart) for chart in charts]
    assert len(titles) == len(files)
    for chart, (title,) in zip(charts, titles, strict=True):
        drawn = f">{title}</text>"
        assert drawn not in chart and sum(drawn in file for file in files) == 1, title


def headcount(*arguments: object) -> tuple[int, str, str]:
    """Run a command to its end in this process: exit status, output, errors."""
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(StringIO()) as output,
        redirect_stderr(StringIO()) as errors,
    ):
        patch.setenv("COLUMNS", "400")
        patch.setattr("headcount.speed.timing.MOST_REPEATS", 1)
        status = main([str(argument) for argument in arguments])
    if status == 0 and "--out" in arguments:
        check_no_paths(Path(str(arguments[arguments.index("--out") + 1])))
    return status, output.getvalue(), errors.getvalue()


def run(command: str, model: Path, data: list[Path], out: Path, *more: object):
    """Run a command on texts for choosing heads, for development, and for testing."""
    files = ("--data", data[0], "--dev", data[1], "--test", data[2])
    task = ("--task", "masked-lm", *files)
    return headcount(command, model, *task, "--out", out, *more)
