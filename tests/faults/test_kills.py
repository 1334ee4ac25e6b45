"""A run that is killed at any of its writes can be resumed and replaced, with the same results.

A process is killed before the n-th time that it opens, moves or removes a file of its folder. CI
tries a few n of each command; `make faults` tries many.
"""

import random
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from tests import saved
from tests.commanding import SAMPLE, headcount
from tests.compaction.plans import plan
from tests.faults.damage import number_of_tries
from tests.faults.tally import survive
from tests.forked import Forked, ranks
from tests.hosts import two_hosts

KILLED = """
import os, signal, sys
from headcount.commands import main

limit, root, seen = int(sys.argv[1]), sys.argv[2], 0
changes = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")


def count(event, arguments):
    global seen
    opens = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
    if (opens or event in changes) and root in str(arguments[0]):
        seen += 1
        if seen == limit:
            os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(count)
status = main(sys.argv[3:])
print("events", seen)
sys.exit(status)
"""


STOPPED = """
import os, signal, sys, time
from torch.nn.modules.module import register_module_forward_pre_hook
from transformers import PreTrainedModel
from headcount.commands import main

number, left = int(sys.argv[1]), int(sys.argv[2])
signal.signal(number, signal.SIG_DFL)


def count(module, arguments):
    global left
    if isinstance(module, PreTrainedModel):
        left -= 1
        if left == 0:
            print("stopped at", time.time(), flush=True)
            os.kill(os.getpid(), number)


register_module_forward_pre_hook(count)
sys.exit(main(sys.argv[3:]))
"""


@dataclass(frozen=True)
class Job:
    """A command that writes a folder, and the file that shows what it found."""

    name: str
    arguments: tuple[object, ...]
    result: str
    resumes: bool = True


@pytest.fixture(scope="session")
def jobs(
    bert: Path, marian: Path, data: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Job]:
    """All commands that write folders, small."""
    from tests.commanding import DATA, TINY

    task = ("--task", "masked-lm", "--data", data[0], "--limit", 4)
    sets = (*task, "--dev", data[1], "--test", data[2])
    made = (
        Job("analyze", (bert, SAMPLE, "--limit", 4, "--save-every", 0), "heads.parquet"),
        Job(
            "importance",
            (bert, *task, "--methods", "gradient", "ablation", "causal-gates", "--updates", 2),
            "heads.parquet",
        ),
        Job(
            "curve",
            (bert, *sets, "--keep", 2, "--methods", "norm", "random", "--seeds", 1),
            "curve.parquet",
        ),
        Job(
            "train",
            ("translation", *DATA, *TINY, "epochs=1", "--save-every", 8),
            "model.safetensors",
        ),
        Job(
            "finetune",
            (bert, *sets, "--set", "updates=4", "save_every=2", "warmup=0"),
            "model.safetensors",
        ),
        Job("prune", (bert, *sets, "--keep", 2), "model.safetensors"),
        Job(
            "compact",
            (bert, "--plan", plan(tmp_path_factory.mktemp("plan"))),
            "model.safetensors",
            resumes=False,
        ),
        *_tables(bert, marian, data, tmp_path_factory.mktemp("inputs")),
    )
    return {job.name: job for job in made}


def _tables(bert: Path, marian: Path, data: list[Path], folder: Path) -> list[Job]:
    """Commands that write a table of their own."""
    from tests.coreference.test_command import TEXT

    pairs, gold, mentions = folder / "pairs.tsv", folder / "gold", folder / "a.conll"
    pairs.write_text("A dog barked.\tEin Hund bellte.\n")
    gold.write_text("0-0 1-1 2-2 3-3\n")
    mentions.write_text(TEXT.format(0))
    steps = [folder / f"checkpoint-{step}" for step in (5, 10)]
    for step in steps:
        shutil.copytree(bert, step)
    task = ("--task", "masked-lm", "--data", data[0])
    limits = ("--samples", 20, "--train-limit", 20, "--test-limit", 20, "--allow-overlap")
    few = ("--occurrences", 5, "--types", 8, "--clusters", 6)
    needles = (SAMPLE, "--lengths", 150, "--depths", 0.5, "--needles", 1, "--draws", 1)
    llama, once = saved.llama(folder / "llama"), partial(Job, resumes=False)
    streaming = ("--lengths", 300, "--per-length", 2, "--needles", 1)
    return [
        Job(
            "probe",
            (bert, "--train", SAMPLE, "--test", SAMPLE, *limits),
            "probes.parquet",
        ),
        Job("evolve", (bert, SAMPLE, *few), "evolution.parquet"),
        Job("follow", (*steps, *task, "--method", "norm"), "follow.parquet"),
        once("sensitivity", (bert, *task, "--samples", 20), "sensitivity.parquet"),
        once("align", (marian, pairs, "--gold", gold, "--split-punctuation"), "alignment.parquet"),
        once("cluster", (bert, SAMPLE, "--limit", 9, "--permutations", 20), "distances.parquet"),
        once("coreference", (bert, mentions), "coreference.parquet"),
        once("skills", (llama, *needles), "skills.parquet"),
        once("explain", (llama, "A dog", "--target", " ran"), "effects.parquet"),
        once("cache", (llama, *streaming), "groups.parquet"),
    ]


def _killed(job: Job, out: Path, limit: int, *more: object) -> tuple[int | None, str]:
    process = Forked("-c", KILLED, limit, out.parent, job.name, *job.arguments, "--out", out, *more)
    output, errors = process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), errors
    return process.returncode, output


def _same(job: Job, one: Path, other: Path, exact: bool = False) -> None:
    paths = one / job.result, other / job.result
    if job.result.endswith(".parquet"):
        read = (pd.read_parquet(path) for path in paths)
        left, right = (frame.drop(columns="seconds", errors="ignore") for frame in read)
        pd.testing.assert_frame_equal(left, right, check_exact=exact, rtol=1e-6)
        return
    weights = [load_file(path) for path in paths]
    for name, weight in weights[0].items():
        torch.testing.assert_close(weights[1][name], weight)
        assert not exact or torch.equal(weights[1][name], weight), name


def _points(name: str, most: int) -> Sequence[int]:
    """Which writes the process is killed before."""
    tries = number_of_tries(1)
    chosen = random.Random(f"{name} {tries}")
    return sorted(chosen.sample(range(1, most + 1), min(tries, most)))


JOBS = ("analyze", "importance", "curve", "train", "finetune", "prune", "compact")
BY_HAND = (
    *("probe", "evolve", "follow", "sensitivity", "align", "cluster", "coreference", "skills"),
    *("explain", "cache"),
)
"""Not in CI, for its time."""


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over an earlier run"])
@pytest.mark.parametrize("name", (*JOBS, *BY_HAND))
def test_killed_at_a_write(name: str, earlier: bool, jobs: dict[str, Job], tmp_path: Path) -> None:
    in_ci = name in JOBS and earlier == (name in ("analyze", "compact", "train"))
    if number_of_tries(0) == 0 and not in_ci:
        pytest.skip("by `make faults` only")
    job = jobs[name]
    dense = tmp_path / "dense" / "out"
    status, output = _killed(job, dense, 10**6)
    assert status == 0
    for limit in _points(f"{name} {earlier}", int(output.split()[-1])):
        place = tmp_path / str(limit)
        place.mkdir()
        if earlier:
            shutil.copytree(dense, place / "out")
        _killed(job, place / "out", limit, *(["--overwrite"] if earlier else []))
        for option in ("--resume", "--overwrite") if job.resumes else ("--overwrite",):
            copy = tmp_path / f"{limit}{option}"
            shutil.copytree(place, copy)

            def again(copy: Path = copy, option: str = option) -> None:
                status, _, errors = headcount("report", copy / "out")
                assert status in (0, 2), errors
                status, _, errors = headcount(
                    job.name, *job.arguments, "--out", copy / "out", option
                )
                if option == "--resume" and "--overwrite" in errors:
                    # Killed before it had begun, over an earlier run, or after its end
                    assert status == 2, errors
                else:
                    assert status == 0, errors
                _same(job, dense, copy / "out")
                left = [path.name for path in copy.rglob("*.part")]
                assert not left, left

            survive(f"kill -9 of {name}", f"then {option}", (name, limit, earlier), again)
            shutil.rmtree(copy)


@pytest.mark.slow
@pytest.mark.parametrize("name", (*JOBS, *BY_HAND, "evaluate", "speed", "export"))
def test_a_command_at_work_ends_in_ten_seconds(
    name: str, jobs: dict[str, Job], bert: Path, data: list[Path], tmp_path: Path
) -> None:
    """After SIGTERM and after SIGHUP, while its model runs, as schedulers expect."""
    out = ("--out", tmp_path / "out")
    if name in jobs:
        arguments = (*jobs[name].arguments, *out)
    elif name == "export":
        small = tmp_path / "small"
        status, _, errors = headcount("compact", bert, "--plan", plan(tmp_path), "--out", small)
        assert status == 0, errors
        arguments = (small, "--to", "onnx", "--limit", 7)
    else:
        both = {"evaluate": (bert, "--task", "masked-lm", "--data", data[0]), "speed": (bert, bert)}
        arguments = both[name]
    for number in (signal.SIGTERM, signal.SIGHUP):
        process = Forked("-c", STOPPED, int(number), 1, name, *arguments)
        output, errors = process.communicate()
        took = time.time() - float(output.split("stopped at ")[-1].split()[0])
        assert took < 10 and process.returncode == 128 + number, (took, errors)
        assert "headcount: stopped" in errors and "Traceback" not in errors
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        shutil.rmtree(tmp_path / "out.state", ignore_errors=True)


SHARED = (
    *("align", "analyze", "cache", "cluster", "coreference", "curve", "evolve", "explain"),
    *("follow", "importance", "probe", "prune", "sensitivity", "skills"),
)
"""Commands of which several processes share the work."""
WITHOUT_BATCHES = ("curve", "follow", "explain", "cache", "skills")
"""Commands among these without an option for the size of a batch."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_two_hosts_find_what_one_does(name: str, jobs: dict[str, Job], tmp_path: Path) -> None:
    """To the last bit, each into a folder of its own, if the command needs no shared disk."""
    if number_of_tries(0) == 0 and name != "follow":
        pytest.skip("by `make faults` only")
    job, one = jobs[name], tmp_path / "one"
    outs = [tmp_path / "0", tmp_path / ("0" if name == "prune" else "1")]
    more = () if name in WITHOUT_BATCHES else ("--max-tokens", 60)
    status, _, errors = headcount(name, *job.arguments, *more, "--out", one)
    assert status == 0, errors
    with two_hosts() as hosts:
        words = (name, *job.arguments, *more, "--out")
        for process in ranks("headcount", *words, last=outs, hosts=hosts):
            _, errors = process.communicate()
            assert process.returncode == 0, errors
    _same(job, one, outs[0], exact=True)
    assert name == "prune" or not (outs[1] / job.result).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["analyze", "curve", "evolve", "follow", "importance", "probe", "prune"]
)
def test_killed_processes_resume_in_any_number(
    name: str, jobs: dict[str, Job], tmp_path: Path
) -> None:
    """One of two processes is killed at a write, then the other; one, two or three resume."""
    if number_of_tries(0) == 0:
        pytest.skip("by `make faults` only")
    job = jobs[name]
    dense = tmp_path / "dense" / "out"
    status, output = _killed(job, dense, 10**6)
    assert status == 0
    for limit in _points(f"{name} of two", int(output.split()[-1])):
        place = tmp_path / str(limit)
        place.mkdir()
        _kill_two(job, place / "out", limit)
        for number in (1, 2, 3):
            copy = tmp_path / f"{limit} {number}"
            shutil.copytree(place, copy)

            def again(copy: Path = copy, number: int = number) -> None:
                words = (name, *job.arguments, "--resume", "--out", copy / "out")
                started = ranks("headcount", *words, number=number)
                errors = [process.communicate()[1] for process in started]
                if started[0].returncode == 2:
                    assert "--overwrite" in errors[0], errors  # killed after its end
                else:
                    assert not any(process.returncode for process in started), errors
                _same(job, dense, copy / "out", exact=True)

            survive(f"kill -9 of 2 {name}", f"{number} resume", (name, limit), again)
            shutil.rmtree(copy)


def _kill_two(job: Job, out: Path, limit: int) -> None:
    """Run two processes of a job, of which the first is killed at a write, and then the other."""
    both = ranks("-c", KILLED, limit, out.parent, job.name, *job.arguments, "--out", out)
    while all(process.returncode is None for process in both):
        time.sleep(0.05)
    was_killed = any(process.returncode for process in both)
    for process in both:
        if was_killed and process.returncode is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
