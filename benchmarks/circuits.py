"""Faithfulness of circuits again, by hooks on the stock model and without headcount.

    headcount explain MODEL --prompts indirect-objects --circuit --out FOLDER
    python benchmarks/circuits.py MODEL FOLDER

reads the prompts and the circuits of a folder (`prompts.parquet`, `circuits.parquet`), gives all
heads outside a circuit their outputs in the second prompt, or their means, and prints both numbers
and the largest difference. It is for Llama and its like (`model.layers[n].self_attn.o_proj`),
targets and rivals of one token, and second prompts of as many tokens.
"""

import argparse
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

Outputs = list[Tensor]
"""What enters the output projection of every layer, [token, head x dim]."""


class Stock:
    """A model of transformers."""

    def __init__(self, name: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(name)
        self.model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
        self._projections = [layer.self_attn.o_proj for layer in self.model.model.layers]
        self.dim = self.model.model.layers[0].self_attn.head_dim

    @torch.no_grad()
    def run(self, ids: Tensor, change: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The last logits, if what enters each layer's projection is changed."""
        with ExitStack() as stack:
            for layer, module in enumerate(self._projections):

                def hook(_: Any, given: Any, layer: int = layer) -> Any:
                    return (change(layer, given[0][0])[None],)

                stack.callback(module.register_forward_pre_hook(hook).remove)
            return self.model(input_ids=ids).logits[0, -1].double()

    def outputs(self, ids: Tensor) -> Outputs:
        """What heads output."""
        found: Outputs = []

        def keep(layer: int, given: Tensor) -> Tensor:
            found.append(given.clone())
            return given

        self.run(ids, keep)
        return found

    def left(self, ids: Tensor, kept: set[tuple[int, int]], instead: Outputs) -> Tensor:
        """The last logits with some heads as they are, and the others' outputs replaced."""

        def change(layer: int, given: Tensor) -> Tensor:
            new = instead[layer].expand_as(given).clone()
            for head in range(given.shape[1] // self.dim):
                if (layer, head) in kept:
                    place = slice(head * self.dim, (head + 1) * self.dim)
                    new[:, place] = given[:, place]
            return new

        return self.run(ids, change)


def heads_of(names: str) -> set[tuple[int, int]]:
    """Layers and numbers of heads: dec.23.3 is (23, 3)."""
    parts = (name.split(".") for name in names.split())
    return {(int(layer), int(head)) for _, layer, head in parts}


def main() -> None:
    """Compare every circuit of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    stock = Stock(arguments.model)
    prompts = pd.read_parquet(arguments.folder / "prompts.parquet")
    circuits = pd.read_parquet(arguments.folder / "circuits.parquet")
    circuits = circuits[(circuits.names != "") & circuits.others.isin(["second", "mean"])]
    ids = [stock.tokenizer(text, return_tensors="pt").input_ids for text in prompts.prompt]
    second = [stock.tokenizer(text, return_tensors="pt").input_ids for text in prompts.corrupt]
    signs = [_tokens(stock, row["target"], row["against"]) for row in prompts.to_dict("records")]
    clean = [stock.outputs(each) for each in ids]
    means = [torch.cat(each).mean(0, keepdim=True) for each in zip(*clean, strict=True)]
    instead = {"second": [stock.outputs(each) for each in second], "mean": [means] * len(ids)}

    def predicted(others: str, kept: Sequence[set[tuple[int, int]]]) -> float:
        logits = [
            stock.left(each, kept[n % len(kept)], instead[others][n]) for n, each in enumerate(ids)
        ]
        pairs = zip(logits, signs, strict=True)
        return sum(float(each[target] - each[rival]) for each, (target, rival) in pairs) / len(ids)

    every = {(layer, head) for layer in range(len(means)) for head in range(64)}
    worst = 0.0
    for others in circuits.others.unique():
        none, whole = predicted(others, [set()]), predicted(others, [every])
        print(f"{others}: {whole:.4f} nats with all heads, {none:.4f} without any")
        here = [row for row in pd.DataFrame(circuits).to_dict("records") if row["others"] == others]
        for row in {row["names"]: row for row in here}.values():
            kept = [heads_of(each) for each in row["names"].split(" | ")]
            value = (predicted(others, kept) - none) / (whole - none)
            worst = max(worst, abs(value - row["value"]))
            which = f"{row['ranking']}, {row['order']}, {row['heads']} heads"
            print(f"  {which}: {value:.5f}, {row['value']:.5f}")
    print(f"largest difference {worst:.1e}")


def _tokens(stock: Stock, target: str, rival: str) -> tuple[int, int]:
    """The tokens of target and rival."""
    found = [stock.tokenizer(text, add_special_tokens=False).input_ids for text in (target, rival)]
    (first,), (second,) = found
    return first, second


if __name__ == "__main__":
    main()
