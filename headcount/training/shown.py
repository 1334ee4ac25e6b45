"""The progress of a training, printed line by line."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headcount import training
from headcount.commands import is_quiet, plain_console


@contextmanager
def training_shown() -> Iterator["training.Tell"]:
    """Show a bar on a terminal, or print one line per report to a log."""
    console = plain_console(stderr=True)
    if is_quiet():
        yield lambda moment: None
        return
    if not sys.stderr.isatty():
        yield lambda moment: console.print(
            f"step {moment.step:,}/{moment.steps:,}  {_described(moment, moment.numbers)}",
        )
        return
    numbers: dict[str, float] = {}
    columns = (TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bars:
        bar = bars.add_task("training", total=None)

        def tell(moment: "training.TrainingProgress") -> None:
            numbers.update(moment.numbers)  # loss and development scores arrive separately
            described = _described(moment, numbers)
            bars.update(bar, completed=moment.step, total=moment.steps, description=described)

        yield tell


def _described(moment: "training.TrainingProgress", numbers: Mapping[str, float]) -> str:
    """A line such as `epoch 1.20  loss 3.412  dev BLEU 21.3  2,100 tokens/s  0:41:07 left`."""
    names = {"eval_loss": "dev loss", "eval_bleu": "dev BLEU", "eval_perplexity": "dev perplexity"}
    labels = {"loss": "loss"} | names
    shown = [f"{label} {numbers[name]:.4g}" for name, label in labels.items() if name in numbers]
    left = timedelta(seconds=round(moment.seconds_left))
    speed = f"{moment.tokens_per_second:,.0f} tokens/s"
    return "  ".join([f"epoch {moment.epoch:.2f}", *shown, speed, f"{left} left"])
