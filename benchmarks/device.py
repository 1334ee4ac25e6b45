"""A GPU: the cost of measuring, and the speed of half of the heads, with random models.

The floor is a plain sdpa forward over one batch of full rows. The ways take turns in one run, and
each number is a ratio of medians. Weights are random, which does not change speed.

    python benchmarks/device.py --device cuda
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
import tyro
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from headcount import Corpus, Plan, compact, examine, load
from headcount.analysis.streaming import run
from headcount.corpora import Batch, Encoder, batches, take_census
from headcount.measures import Confidence
from headcount.measures.registry import MEASURES

SAMPLE = Path(__file__).parents[1] / "headcount" / "data" / "sample.tsv"
VOCABULARY = 8000


@dataclass(frozen=True)
class Arguments:
    """Measure the cost of measuring and the speed of half of the heads on a device."""

    device: str = "cuda"
    """Device to run on."""
    rounds: int = 9
    """Number of rounds after one to warm up."""
    batch: tuple[int, ...] = (1, 4, 16, 64)
    """Batch sizes for the speed of half of the heads."""


@dataclass(frozen=True)
class Case:
    """A model, and the shape of the batch that it is measured on."""

    name: str
    make: Callable[[], PreTrainedModel]
    dtype: torch.dtype
    rows: int
    length: int


def bert() -> PreTrainedModel:
    """BERT-base with a small vocabulary."""
    return BertModel(BertConfig(vocab_size=VOCABULARY))


def llama() -> PreTrainedModel:
    """A Llama of a billion parameters, 32 heads in 8 groups."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            num_key_value_heads=8,
        )
    )


CASES = (
    Case("BERT-base, float32", bert, torch.float32, 32, 128),
    Case("BERT-base, bfloat16", bert, torch.bfloat16, 64, 128),
    Case("BERT-base, bfloat16", bert, torch.bfloat16, 16, 512),
    Case("Llama of 1B, bfloat16", llama, torch.bfloat16, 4, 2048),
)


def main() -> None:
    """Print a table of what measuring costs, and one of the speed of half of the heads."""
    arguments = tyro.cli(Arguments)
    torch.manual_seed(0)
    costs = ["| model | batch | confidence alone | every measure |", "|---|---|---|---|"]
    sizes = "".join(f" {size} |" for size in arguments.batch)
    speeds = [f"| model |{sizes}", "|---|" + "---|" * len(arguments.batch)]
    for case in CASES:
        model = case.make().eval()
        nn.Module.to(model, arguments.device, case.dtype)
        costs.append(cost(case, model, arguments))
        if case.length == 128:
            speeds.append(speed(case, model, arguments))
        print(f"{case.name}: done", flush=True)
    print("\n".join([*costs, "", *speeds]))


def cost(case: Case, model: PreTrainedModel, arguments: Arguments) -> str:
    """Confidence alone and every measure, as multiples of a plain forward."""
    anatomy, work = examine(model), full_rows(case.rows, case.length)
    seconds = in_turns(
        [
            partial(plain, model, work[0]),
            partial(run, model, anatomy, work, [Confidence]),
            partial(run, model, anatomy, work, MEASURES),
        ],
        arguments.rounds,
    )
    ratios = " | ".join(f"{each / seconds[0]:.2f}" for each in seconds[1:])
    return f"| {case.name} | {case.rows} x {case.length} | {ratios} |"


def speed(case: Case, model: PreTrainedModel, arguments: Arguments) -> str:
    """The speed of the model with every second head, as a multiple of the dense model's."""
    heads = examine(model).heads
    pruned = compact(model, Plan.keeping(heads, [head for head in heads if head.index % 2 == 0]))
    cells = []
    for size in arguments.batch:
        batch = full_rows(size, 128)[0]
        ways = [partial(plain, each, batch) for each in (model, pruned)]
        dense, half = in_turns(ways, arguments.rounds)
        cells.append(f" {dense / half:.2f} |")
    return f"| {case.name} |{''.join(cells)}"


def plain(model: PreTrainedModel, batch: Batch) -> None:
    """One forward pass."""
    with torch.inference_mode():
        model(**{name: value.to(model.device) for name, value in batch.inputs.items()})


def full_rows(rows: int, length: int) -> list[Batch]:
    """One batch of running text without padding."""
    words = SAMPLE.read_text(encoding="utf-8").split()
    words *= -(-rows * length // len(words))
    texts = [" ".join(words[i * length : (i + 1) * length]) for i in range(rows)]
    tokenizer = load("headcount:en-de").tokenizer
    assert tokenizer is not None
    encoder, corpus = Encoder(tokenizer, length), Corpus.from_sentences(texts)
    return list(batches(corpus, encoder, take_census(corpus, encoder), max_tokens=rows * length))


def in_turns(ways: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The median seconds of every way; a round before the first warms up."""
    seconds: list[list[float]] = [[] for _ in ways]
    for number in range(rounds + 1):
        for way, its_seconds in zip(ways, seconds, strict=True):
            synchronize()
            start = time.perf_counter()
            way()
            synchronize()
            if number:
                its_seconds.append(time.perf_counter() - start)
    return [median(each) for each in seconds]


def synchronize() -> None:
    """Wait for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
