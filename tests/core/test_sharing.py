"""Three real processes share units: all get the same results, and notice one that is killed."""

import json
from pathlib import Path

import pytest

from headcount.core import Kept
from tests.forked import ranks

NUMBERS = [str(number) for number in range(7)]

SCRIPT = """
import json, os, signal, sys, time
from functools import partial
from pathlib import Path
import torch
from headcount.core import InputError, Kept, check_alike, distributed, processes, spread
from headcount.core import by_one, told_by_all

distributed.SILENT = 3.0
rank, done = processes().process_index, []


def unit(number):
    if rank == 1 and not done:
        time.sleep(1)  # a long unit, for which the others do not wait
    done.append(number)
    return (*spread(lambda item: item, [number, os.getpid()], "items"),)  # shared with nobody


def refused(facts):
    try:
        check_alike(facts)
    except InputError as error:
        return str(error)


said = {"squares": [*spread(lambda number: number**2, range(5), "squares")]}
said["alike"] = refused({"model": "a"})
said["bytes"] = [each.untyped_storage().nbytes() for each in told_by_all(torch.zeros(1000, 9)[:1])]
said["half"] = [each.tolist() for each in told_by_all(torch.ones(2, dtype=torch.bfloat16))]
said["one"] = by_one(os.getpid)
said["other"] = refused({"model": f"{rank % 2}"})
kept = Kept(Path(sys.argv[1]) / "kept.json", "key", "numbers", tuple[int, ...])
units = [(str(number), partial(unit, number)) for number in range(7)]
said |= {"kept": [*kept.results(units)], "done": done, "together": kept.once("last", lambda: (7,))}
print(json.dumps(said), flush=True)
if rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
start = time.monotonic()
try:
    [*spread(lambda number: number, range(2), "numbers")]
except InputError as error:
    print(error, time.monotonic() - start < 20, flush=True)
"""


def test_three_processes(tmp_path: Path) -> None:
    """They also keep what they did, so that one process that resumes does nothing again."""
    three = ranks("-c", SCRIPT, tmp_path, number=3)
    outputs = [process.communicate(timeout=100) for process in three]
    said = [json.loads(output.splitlines()[0]) for output, _ in outputs]
    for each in said:
        assert each["squares"] == [0, 1, 4, 9, 16] and each["alike"] is None
        assert each["other"].startswith(
            "Expected the same model in all processes, got 0 in process 0, 1 in process 1. Start"
        )
        assert each["bytes"] == [36] * 3 and each["half"] == [[1, 1]] * 3
        assert each["one"] == said[0]["one"]
        assert each["kept"] == said[0]["kept"] and each["together"] == [7]
    assert [number for number, _ in said[0]["kept"]] == [*range(7)]
    assert sorted(sum((each["done"] for each in said), [])) == [*range(7)]
    assert len(said[1]["done"]) < 3 and len({process for _, process in said[0]["kept"]}) == 3
    for output, errors in outputs[:2]:
        assert output.splitlines()[1:] == [
            "Another process of this run ended (no sign of life from process 2). Its own message "
            "says why. Start all of them again, with --resume if the command has that option. True"
        ], errors
    again = Kept(tmp_path / "kept.json", "key", "numbers", tuple[int, ...])
    assert {*again} == {*NUMBERS, "last"} and list(again["3"]) == said[0]["kept"][3]


OTHERS = """
import sys
import torch
from headcount.core import InputError, distributed, processes, wait_for_everyone

rank = processes().process_index
if sys.argv[1] == "threads":
    torch.set_num_threads(1 + rank)
else:
    distributed.version = lambda name: f"{1 + (name == 'numpy' and rank)}"
try:
    wait_for_everyone()
except InputError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "name"), [("threads", "number of threads"), ("versions", "version of numpy")]
)
def test_other_circumstances_are_refused(what: str, name: str) -> None:
    """Before any work, since last digits depend on versions, threads and processors."""
    for process in ranks("-c", OTHERS, what):
        output, _ = process.communicate(timeout=100)
        assert output.startswith(
            f"Expected the same {name} in all processes, got 1 in process 0, 2 in process 1. "
            "Start all of them with the same arguments, files, packages and settings."
        )
