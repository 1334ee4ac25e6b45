"""A GPU: the kernel triton against the blocks, what measuring costs, and half of the heads.

First, every case of the kernel's tests is computed on the card. Then the ways to measure take turns
in one run. The floor is a plain sdpa forward over one batch of full rows, and each number is a
ratio of medians. Weights are random, which does not change speed. Rounds and cases that don't fit
into the time are left out, and the table says so.

    make device
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
import tyro
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from headcount import Corpus, Plan, compact, examine, load
from headcount.corpora import Batch, Batches, Encoder, take_census
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import run
from headcount.tap import BLOCKS, Anatomy, Kernel
from headcount.tap.kernel_triton import IS_INTERPRETED, Triton

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "headcount" / "data" / "sample.tsv"
VOCABULARY = 8000
LONG = 8192
"""Number of tokens of a row from which blocks would take minutes, and are not measured."""


@dataclass(frozen=True)
class Arguments:
    """Check the kernel triton on a GPU, and measure what measuring costs with it."""

    rounds: int = 9
    """Number of rounds after one to warm up."""
    minutes: float = 8
    """Minutes after which nothing more is begun."""
    batch: tuple[int, ...] = ()
    """Batch sizes for the speed of half of the heads, which is not measured by default."""
    out: Path | None = None
    """File for what is printed."""
    tiny: bool = False
    """Tiny models on a CPU in Triton's interpreter (TRITON_INTERPRET=1), to try the script."""


@dataclass(frozen=True)
class Case:
    """A model, and the shape of the batch that it is measured on."""

    name: str
    make: Callable[[], PreTrainedModel]
    dtype: torch.dtype
    rows: int
    length: int
    goal: float | None = None
    """Every measure with the kernel triton, in plain forwards, in a cost model of an H100."""


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
            max_position_embeddings=32768,
        )
    )


def tiny() -> PreTrainedModel:
    """A Llama that the interpreter can run."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
        )
    )


CASES = (
    Case("BERT-base, float32", bert, torch.float32, 32, 128, 2.0),
    Case("BERT-base, bfloat16", bert, torch.bfloat16, 32, 128),
    Case("BERT-base, bfloat16", bert, torch.bfloat16, 16, 512, 1.8),
    Case("Llama of 1B, bfloat16", llama, torch.bfloat16, 4, 2048, 1.7),
    Case("Llama of 1B, bfloat16", llama, torch.bfloat16, 1, 32768, 3.0),
)
TINY = (Case("tiny Llama", tiny, torch.float32, 2, 9),)


def main() -> None:
    """Print whether the kernel is right on this card, and tables of what measuring costs."""
    arguments = tyro.cli(Arguments)
    if arguments.tiny and not IS_INTERPRETED:
        sys.exit("Expected Triton's interpreter for --tiny. Set TRITON_INTERPRET=1.")
    if not arguments.tiny and not torch.cuda.is_available():
        sys.exit("Expected a GPU for CUDA, but torch sees none. Run this on a machine with one.")
    end, lines = time.monotonic() + 60 * arguments.minutes, list[str]()
    for line in measured(arguments, "cpu" if arguments.tiny else "cuda", end):
        print(line, flush=True)
        lines.append(line)
    if arguments.out is not None:
        arguments.out.write_text("\n".join([*lines, ""]), encoding="utf-8")


def measured(arguments: Arguments, device: str, end: float) -> Iterator[str]:
    """The lines of all that is measured."""
    card = "no card" if device == "cpu" else torch.cuda.get_device_name()
    yield f"{card}, torch {torch.__version__}, `{' '.join(['python', *sys.argv])}`"
    yield from ("", *checked(device, few=arguments.tiny), "")
    yield "| model | batch | plain, ms | blocks | triton | goal | memory, plain and triton |"
    yield "|---|---|---|---|---|---|---|"
    profiled: list[str] = []
    for case in TINY if arguments.tiny else CASES:
        if time.monotonic() > end:
            yield f"| {case.name} | {case.rows} x {case.length} | out of time |"
            continue
        model = made(case, device)
        line, profiled = cost(case, model, arguments.rounds, end)
        yield line
        del model
    yield from ("", "Operations of one batch of the last row with the kernel triton:", "```")
    yield from (*profiled, "```")
    for case in TINY if arguments.tiny else CASES:
        if arguments.batch and case.length <= 128:
            yield speed(case, made(case, device), arguments)


def made(case: Case, device: str) -> PreTrainedModel:
    """The model of a case, with random weights that are drawn on the device."""
    torch.manual_seed(0)
    with torch.device(device):
        model = case.make().eval()
    nn.Module.to(model, case.dtype)
    return model


def checked(device: str, few: bool) -> Iterator[str]:
    """Whether the kernel finds what the blocks and NumPy find, in every case of its tests."""
    sys.path.insert(0, str(ROOT))
    from tests.tap.triton_cases import TRITONS, check

    names = ["one token"] if few else [*TRITONS]
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-4), (torch.float16, 1e-4)):
        wrong = []
        for name in names:
            try:
                check(name, dtype, device, tolerance)
            except Exception as error:  # whatever is wrong with one case, the others are tried
                wrong.append(f"- {name}: {' '.join(str(error).split())[:300]}")
        right = len(names) - len(wrong)
        yield f"{right} of {len(names)} cases are right in {dtype}, to {tolerance:g}."
        yield from wrong


def cost(case: Case, model: PreTrainedModel, rounds: int, end: float) -> tuple[str, list[str]]:
    """Every measure by each kernel, in plain forwards, with memory; and operations of triton."""
    anatomy, work = examine(model), full_rows(case.rows, case.length)
    ways: list[Callable[[], object]] = [partial(plain, model, work[0])]
    kernels: list[Kernel] = [Triton(), BLOCKS][: 1 if case.length >= LONG else 2]
    ways += [partial(every_measure, model, anatomy, work, kernel) for kernel in kernels]
    seconds = in_turns(ways, rounds, end)
    ratios = [f"{each / seconds[0]:.2f}" for each in seconds[1:]] + ["-"]
    above = " and ".join(f"{above_the_model(way):.2f} GB" for way in ways[:2])
    cells = (case.name, f"{case.rows} x {case.length}", f"{1e3 * seconds[0]:.1f}")
    goal = "-" if case.goal is None else case.goal
    line = f"| {' | '.join(cells)} | {ratios[1]} | {ratios[0]} | {goal} | {above} |"
    is_cuda = model.device.type == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if is_cuda else ProfilerActivity.CPU]) as taken:
        ways[1]()
    key = "self_cuda_time_total" if is_cuda else "self_cpu_time_total"
    table = taken.key_averages().table(sort_by=key, row_limit=15, max_name_column_width=60)
    return line, table.splitlines()


def every_measure(
    model: PreTrainedModel, anatomy: Anatomy, work: list[Batch], kernel: Kernel
) -> None:
    """Take every measure of a batch."""
    run(model, anatomy, work, MEASURES, kernel=kernel)
    assert not kernel.left, kernel.left


def above_the_model(way: Callable[[], object]) -> float:
    """Gigabytes that a way takes at most beside the model; 0 on a CPU."""
    if not torch.cuda.is_available():
        return 0.0
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    way()
    return (torch.cuda.max_memory_allocated() - before) / 1e9


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
    return list(Batches(corpus, encoder, take_census(corpus, encoder), max_tokens=rows * length))


def in_turns(
    ways: Sequence[Callable[[], object]], rounds: int, end: float = float("inf")
) -> list[float]:
    """The median seconds of every way; a round before the first warms up.

    After the end there is no more than one round.
    """
    seconds: list[list[float]] = [[] for _ in ways]
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > end:
            break
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
