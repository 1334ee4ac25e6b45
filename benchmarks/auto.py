r"""The score that `prune --method auto` takes, beside the losses of all four on other examples.

python benchmarks/auto.py MODEL --task translation --data train.tsv --test test.tsv \
    --keep 108 72 36 --limit 600
"""

from dataclasses import dataclass

import torch
import tyro

from headcount import load, tasks
from headcount.core import table
from headcount.pruning import PruneSettings, method
from headcount.tap import gated
from headcount.tasks import evaluate

SCORES = ("gradient", "fisher", "norm", "sink")


@dataclass(frozen=True)
class Arguments:
    """Choose heads by `auto` and by each of its scores, and measure both on test examples."""

    model: tyro.conf.Positional[str]
    """Name or folder of a model."""
    task: str
    """Name of the task."""
    data: str
    """File that heads are chosen on."""
    test: str
    """File that the loss is measured on."""
    keep: tuple[int, ...]
    """Numbers of kept heads."""
    limit: int | None = None
    """Largest number of examples of each file."""


def main() -> None:
    """Print a row for every number of kept heads; the chosen score is in brackets."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model)
    train, test = (
        tasks.build(arguments.task, loaded, data, limit=arguments.limit)
        for data in (arguments.data, arguments.test)
    )
    context = PruneSettings().context(loaded, train)

    def loss(plan: dict[str, float]) -> float:
        with gated(loaded.model, plan, loaded.anatomy):
            return evaluate(loaded.model, test).loss

    rows = [["all", *[f"{loss({}):.4f}"] * len(SCORES)]]
    for keep in arguments.keep:
        compared = method("auto").choose(context, keep).compared or {}
        taken = min(compared, key=compared.__getitem__)
        cells = []
        for name in SCORES:
            plan = method(name).choose(context, keep).plan
            found = loss({str(head): 0.0 for head in plan.pruned_heads(loaded.heads)})
            cells.append(f"[{found:.4f}]" if name == taken else f"{found:.4f}")
        rows.append([str(keep), *cells])
        print(table(("kept heads", *SCORES), rows), flush=True)


if __name__ == "__main__":
    main()
