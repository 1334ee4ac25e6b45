"""Tokens per second of generation with a cache: torch's `generate` beside ONNX Runtime.

Both translate the same sentences greedily, with the same number of new tokens. They and the dense
model in torch take turns in one run. A ratio is the geometric mean over rounds of ratios within a
round, with Student's 95 % interval of the logarithms.

    headcount export PRUNED --to onnx --cache
    python benchmarks/onnx_generation.py PRUNED --dense headcount:en-de
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from scipy import stats
from torch import Tensor

from headcount import Corpus, load
from headcount.artifact import FOLDER, certificate_corpus
from headcount.artifact.exporting import OnnxGeneration
from headcount.models import Loaded
from headcount.speed.timing import in_turns
from headcount.tap import evaluating


@dataclass(frozen=True)
class Arguments:
    """Time generation in torch and in ONNX Runtime."""

    pruned: Annotated[Path, tyro.conf.Positional]
    """Folder of a compact encoder-decoder with graphs for generation."""
    dense: str
    """The model with all heads, in torch."""
    batches: tuple[int, ...] = (1, 4, 16, 64)
    """Numbers of sentences at a time."""
    new_tokens: int = 32
    """Number of tokens that are written for each sentence."""
    rounds: int = 9
    """Number of rounds."""
    threads: int = 1
    """Number of threads of torch and of ONNX Runtime."""


def in_torch(loaded: Loaded, given: dict[str, Tensor], new_tokens: int) -> Tensor:
    """Translate greedily with `generate`."""
    model: Any = loaded.model
    exactly = {"max_new_tokens": new_tokens, "min_new_tokens": new_tokens}
    return model.generate(**given, **exactly, num_beams=1, do_sample=False)


def in_onnx(
    graphs: OnnxGeneration, given: dict[str, Tensor], start: int, end: int, new_tokens: int
) -> Tensor:
    """Translate greedily with the graphs; never end."""
    graphs.start(given["input_ids"], given["attention_mask"])
    written = torch.full((len(given["input_ids"]), 1), start)
    for _ in range(new_tokens):
        logits = graphs.step(written[:, -1:])
        logits[:, end] = -torch.inf
        written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)
    return written


def ratio(seconds_R: np.ndarray, ours_R: np.ndarray) -> str:
    """How many times as fast, with its interval."""
    logs = np.log(seconds_R / ours_R)
    half = stats.t.ppf(0.975, len(logs) - 1) * stats.sem(logs)
    mean = logs.mean()
    return f"{np.exp(mean):.2f} ({np.exp(mean - half):.2f} to {np.exp(mean + half):.2f})"


def main() -> None:
    """Print a row for each size of batch."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(arguments.threads)
    loaded, dense = load(arguments.pruned), load(arguments.dense)
    graphs = OnnxGeneration(arguments.pruned / FOLDER, arguments.threads)
    corpus = certificate_corpus(loaded)
    assert isinstance(corpus, Corpus) and loaded.tokenizer is not None
    texts = [sentence.text for sentence in corpus]
    config = loaded.model.generation_config
    ends = config.decoder_start_token_id, config.eos_token_id, arguments.new_tokens
    print(f"{arguments.threads} thread(s), load {os.getloadavg()[0]:.1f}")
    print("| batch | torch, dense | torch | ONNX | ONNX, times as fast | pruned, times as fast |")
    for size in arguments.batches:
        some = [texts[number % len(texts)] for number in range(size)]
        tokenized: Any = loaded.tokenizer(some, return_tensors="pt", padding=True)
        given = {name: tokenized[name] for name in ("input_ids", "attention_mask")}
        works = [
            partial(in_torch, dense, given, arguments.new_tokens),
            partial(in_torch, loaded, given, arguments.new_tokens),
            partial(in_onnx, graphs, given, *ends),
        ]
        with evaluating(loaded.model), evaluating(dense.model):
            assert works[1]()[:, 1:].tolist() == works[2]()[:, 1:].tolist(), "other translations"
            seconds_RW = in_turns(works, arguments.rounds, torch.device("cpu"))
        rates = size * arguments.new_tokens / np.median(seconds_RW, 0)
        of_dense, of_torch, of_onnx = seconds_RW.T
        shown = [f"{rate:,.0f}" for rate in rates]
        ratios = ratio(of_torch, of_onnx), ratio(of_dense, of_torch)
        print(f"| {size} | {' | '.join([*shown, *ratios])} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
