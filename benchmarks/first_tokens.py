"""What a head is worth by how the texts begin, for a causal model whose tokenizer adds no token.

python benchmarks/first_tokens.py MODEL TEXT --head dec.0.5
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from headcount.models import load
from headcount.tap import gated


@dataclass(frozen=True)
class Arguments:
    """Rise of the loss per token without a head, for lines, lines after a token, and pieces."""

    model: tyro.conf.Positional[str]
    """Folder or name of a causal model."""
    text: tyro.conf.Positional[Path]
    """Text file with lines."""
    head: str = "dec.0.5"
    """Head that is gated to 0."""
    lines: int = 30
    """Number of lines, those of more than 8 words."""
    begin: str = ""
    """Text before which the file is skipped."""


def main() -> None:
    """Print the rise for every kind of text."""
    arguments = tyro.cli(Arguments)
    torch.set_num_threads(1)
    loaded = load(arguments.model)
    tokenizer: Any = loaded.tokenizer
    text = arguments.text.read_text(encoding="utf-8")
    text = text[text.index(arguments.begin) :]
    lines = [line for line in text.splitlines() if len(line.split()) > 8][: arguments.lines]
    rows = [tokenizer(line)["input_ids"] for line in lines]
    every = [each for row in rows for each in row]
    kinds = {
        "lines": rows,
        "lines that start with a quotation mark": [
            row for row, line in zip(rows, lines, strict=True) if line[0] in '“"'
        ],
        "other lines": [row for row, line in zip(rows, lines, strict=True) if line[0] not in '“"'],
        f"lines after {tokenizer.bos_token}": [[tokenizer.bos_token_id, *row] for row in rows],
        "lines after a space": [tokenizer(f" {line}")["input_ids"] for line in lines],
        "lines joined to pieces of 128": [every[i : i + 128] for i in range(0, len(every), 128)],
    }
    for name, of_kind in kinds.items():
        losses = [_rises(loaded, row, arguments.head) for row in of_kind if len(row) > 1]
        mean = torch.cat(losses).mean().item() if losses else float("nan")
        print(f"{name}: {len(losses)} texts, {sum(map(len, losses))} predictions, {mean:+.2f} nats")


def _rises(loaded: Any, row: list[int], head: str) -> torch.Tensor:
    """Rise of the loss of every token but the first."""
    with torch.no_grad():
        dense = _losses(loaded.model, row)
        with gated(loaded.model, {head: 0.0}, anatomy=loaded.anatomy):
            return _losses(loaded.model, row) - dense


def _losses(model: Any, row: list[int]) -> torch.Tensor:
    ids = torch.tensor([row])
    logits = model(ids).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none")


if __name__ == "__main__":
    main()
