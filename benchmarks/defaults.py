"""What every command costs by default on a language model, and beside the forwards that it runs.

    python benchmarks/defaults.py MODEL OUT [COMMAND ...]

runs each command with its defaults, in a process of its own on one thread, writes its results to
OUT, and notes the shapes of all forward passes of the model: rows, tokens, tokens in a cache,
positions with logits, and whether gradients were wanted. Then the stock model runs the same shapes
(a few of each kind, times their number), by sdpa. Printed are the seconds of processor time of the
command, of which until the model was loaded, the seconds of those forwards, the ratio of what was
done after loading to them, and the peak memory.

Calls of single layers, from stored states, are part of the first number, not of the second.
"""

import argparse
import inspect
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from transformers import AutoModelForCausalLM, DynamicCache

GUESSED = ("Then, Mary and John went to the store. John gave a drink to", "--target", " Mary")
COMMANDS: dict[str, tuple[str, ...]] = {
    "analyze": ("analyze", "{model}", "{sample}"),
    "importance": ("importance", "{model}", "--task", "causal-lm", "--data", "{texts}"),
    "importance, without ablation": (
        *("importance", "{model}", "--task", "causal-lm", "--data", "{texts}"),
        *("--methods", "gradient", "relevance", "norm", "sink"),
    ),
    "explain, one prompt": ("explain", "{model}", *GUESSED, "--against", " John"),
    "explain, 16 prompts": ("explain", "{model}", "--prompts", "indirect-objects"),
    "skills": ("skills", "{model}"),
    "cache": ("cache", "{model}"),
}
FEW, REPEATS = 20, 3
"""Number of timed runs of each kind of forward pass, if there are few kinds; of many, one."""


class Shape(NamedTuple):
    """A kind of forward pass."""

    whole: bool
    """Whether it has logits."""
    rows: int
    tokens: int
    past: int
    """Number of tokens in the cache."""
    kept: int
    """Number of last positions that have logits; 0 for all."""
    backward: bool


def main() -> None:
    """Measure the commands and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("commands", nargs="*", default=[*COMMANDS])
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if (name := given.commands[0]).startswith("only:"):
        measure(name.removeprefix("only:"), given.model, given.out)
        return
    print("| command | seconds | until loaded | its forwards | ratio | peak memory |")
    print("|---|---|---|---|---|---|")
    for name in given.commands:
        part = [sys.executable, __file__, given.model, str(given.out), f"only:{name}"]
        subprocess.run(part, check=True)
        found = json.loads((given.out / "measured.json").read_text())
        ratio = (found["all"] - found["loaded"]) / found["forwards"]
        print(
            f"| {name} | {found['all']:.0f} | {found['loaded']:.0f} | {found['forwards']:.0f} | "
            f"{ratio:.2f} | {found['memory']:.2f} GB |",
            flush=True,
        )


def measure(name: str, model: str, out: Path) -> None:
    """Run one command in this process, then its forwards; write what was measured."""
    from headcount import Corpus
    from headcount.commands.command_line import main as run

    sample, folder = out / "sample", out / name.replace(" ", "-")
    texts = out / "texts.txt"
    if not sample.exists():
        run(["sample", str(sample)])
        lines = [each.text for each in Corpus(sample / "sample.conllu")]
        texts.write_text("\n".join(lines) + "\n", "utf-8")
    torch.set_num_threads(1)
    stock = AutoModelForCausalLM.from_pretrained(model).eval()
    seen, first = Counter[Shape](), list[float]()
    classes = (type(stock), type(stock.base_model))
    kept = [each.forward for each in classes]
    noted(classes, seen, first)
    start = time.process_time()
    known = {"model": model, "sample": str(sample / "sample.conllu"), "texts": str(texts)}
    run([each.format(**known) for each in COMMANDS[name]] + ["--out", str(folder), "--overwrite"])
    whole = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for each, forward in zip(classes, kept, strict=True):
        each.forward = forward
    repeats = REPEATS if len(seen) < FEW else 1
    forwards = sum(number * seconds(stock, shape, repeats) for shape, number in seen.items())
    found = {"all": whole, "loaded": first[0] - start, "forwards": forwards, "memory": memory}
    (out / "measured.json").write_text(json.dumps(found))


def noted(classes: tuple[type, ...], seen: Counter[Shape], first: list[float]) -> None:
    """Let the classes note the shape of each outermost call, and when the first one began."""
    depth = 0

    def noting(forward: Callable[..., Any], whole: bool) -> Callable[..., Any]:
        @wraps(forward)
        def call(self: Any, *args: Any, **given: Any) -> Any:
            nonlocal depth
            if not depth:
                first.append(time.process_time())
                bound = inspect.signature(forward).bind(self, *args, **given).arguments
                bound = bound | bound.get("kwargs", {})
                seen[shape_of(bound, whole)] += 1
            depth += 1
            try:
                return forward(self, *args, **given)
            finally:
                depth -= 1

        return call

    for number, each in enumerate(classes):
        each.forward = noting(each.forward, whole=number == 0)


def shape_of(given: dict[str, Any], whole: bool) -> Shape:
    """The kind of a forward pass."""
    ids = given.get("input_ids")
    rows, tokens = (ids if ids is not None else given["inputs_embeds"]).shape[:2]
    past = given.get("past_key_values")
    keep = given.get("logits_to_keep", 0)
    kept = keep if isinstance(keep, int) else len(keep)
    cached = 0 if past is None else past.get_seq_length()
    return Shape(whole, rows, tokens, cached, kept, torch.is_grad_enabled())


def seconds(model: Any, shape: Shape, repeats: int) -> float:
    """Processor time of such a forward pass of the stock model."""
    ids = torch.zeros(shape.rows, shape.past + shape.tokens, dtype=torch.long) + 100
    called = model if shape.whole else model.base_model
    found = []
    for _ in range(repeats):
        cache = None
        if shape.past:
            cache = DynamicCache(config=model.config)
            with torch.inference_mode():
                model.base_model(ids[:, : shape.past], past_key_values=cache, use_cache=True)
        keep = {"logits_to_keep": shape.kept} if shape.whole else {}
        here = model.get_input_embeddings()(ids[:, shape.past :]).detach()
        start = time.process_time()
        with torch.set_grad_enabled(shape.backward):
            here = here.requires_grad_(shape.backward)
            states = called(
                inputs_embeds=here, past_key_values=cache, use_cache=bool(cache), **keep
            )
            if shape.backward:
                states[0].sum().backward(inputs=[here])
        found.append(time.process_time() - start)
    return median(found)


if __name__ == "__main__":
    main()
