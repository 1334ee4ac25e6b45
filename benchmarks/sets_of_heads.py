"""Cost of removing sets of heads: a ratio to the forward passes that one set after another needs.

    OMP_NUM_THREADS=1 python benchmarks/sets_of_heads.py MODEL --prompts indirect-objects --limit 2

explains prompts (with `--circuit`, with circuits), counts the sets of heads that are replaced, and
divides the CPU time of one thread by that of as many rows in plain sdpa forward passes of the same
prompts, in batches of as many tokens, which are timed in the same run, before and after.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Annotated, Any

import torch
import tyro

from headcount import load
from headcount.explanation import ExplainOptions, explain, read_prompts
from headcount.explanation.changes import Change
from headcount.explanation.runs import TOKENS, Run
from headcount.models import Loaded

ROUNDS = 5
"""Number of plain forward passes that are timed before and after."""


class Counting:
    """Counts the sets of heads that are replaced, and the seconds of CPU time for them."""

    def __init__(self) -> None:
        self.sets, self._values = 0, Run.values

    def values(self, run: Run, changes: Sequence[Change]) -> Any:
        """Count, and run."""
        self.sets += len(changes)
        return self._values(run, changes)


def plain(loaded: Loaded, ids: Sequence[int]) -> float:
    """Seconds of CPU time of a row in a plain forward pass, the median."""
    model: Any = loaded.model
    rows, found = max(1, TOKENS // len(ids)), []
    batch = torch.tensor([ids]).expand(rows, -1)
    with torch.inference_mode():
        for _ in range(ROUNDS + 1):
            start = time.process_time()
            model(input_ids=batch, use_cache=False, logits_to_keep=1)
            found.append((time.process_time() - start) / rows)
    return median(found[1:])


def main(
    model: Annotated[str, tyro.conf.Positional],
    prompts: str = "indirect-objects",
    limit: int = 2,
    circuit: bool = False,
    effects: tuple[str, ...] = (),
) -> None:
    """Print the ratio.

    Args:
        model: a causal language model.
        prompts: prompts of ours, or a file.
        limit: number of prompts.
        circuit: whether circuits are measured, too; needs four prompts.
        effects: effects; the default ones if none.
    """
    torch.set_num_threads(1)
    loaded, few = load(model), read_prompts(prompts)[:limit]
    tokenizer: Any = loaded.tokenizer
    lengths = [tokenizer(each.prompt).input_ids for each in few]
    loaded.anatomy  # noqa: B018
    before, counting = [plain(loaded, ids) for ids in lengths], Counting()
    options = replace(ExplainOptions(), circuit=circuit, effects=effects)
    Run.values = lambda run, changes: counting.values(run, changes)  # pyright: ignore
    start = time.process_time()
    explain(loaded, few, options=options)
    took = time.process_time() - start
    after = [plain(loaded, ids) for ids in lengths]
    row = sum(before + after) / len(before + after)
    print(
        f"{len(few)} prompts of {sum(map(len, lengths)) / len(few):.0f} tokens, "
        f"{counting.sets:,} sets: {took:.1f} s, {took / len(few):.1f} s a prompt; a row in a plain "
        f"forward {1000 * row:.1f} ms; ratio {took / (row * counting.sets):.2f}"
    )


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
