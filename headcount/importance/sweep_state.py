"""The state of a sweep: what has been done so far, in one file, so that a killed one goes on."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Int
from safetensors import safe_open
from safetensors.numpy import save_file

from headcount.files import write_atomically
from headcount.keyed import reading, refuse_other_key

FILE = "sweep.safetensors"
"""In the state of a run."""

_ARRAYS = ("loss_AN", "outcome_AN", "count_N", "seen_N")


@final
@dataclass(frozen=True, eq=False)
class SweepTable:
    """One row per ablation, the whole model first; filled batch by batch."""

    loss_AN: Float[np.ndarray, "ablation example"]
    outcome_AN: Float[np.ndarray, "ablation example"]
    count_N: Int[np.ndarray, " example"]
    seen_N: Bool[np.ndarray, " example"]

    @classmethod
    def empty(cls, num_rows: int, num_examples: int) -> "SweepTable":
        """Nothing done."""
        blank = np.full((num_rows, num_examples), np.nan)
        counts = np.zeros(num_examples, dtype=np.int64)
        return cls(blank, blank.copy(), counts, np.zeros(num_examples, dtype=bool))


def save_sweep(path: Path, key: str, table: SweepTable) -> None:
    """Write what has been done, whole or not at all; nothing is pickled."""
    arrays = {name: getattr(table, name) for name in _ARRAYS}
    write_atomically(path, lambda file: save_file(arrays, file, metadata={"key": key}))


def load_sweep(path: Path | None, key: str, num_rows: int, num_examples: int) -> SweepTable:
    """What an interrupted sweep has done.

    Raises:
        InputError: if the file is damaged, or of a sweep with another model, task or options.
    """
    if path is None or not path.exists():
        return SweepTable.empty(num_rows, num_examples)
    with reading(path, "an interrupted sweep"), safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
        arrays = {name: file.get_tensor(name).copy() for name in _ARRAYS}
    rows, examples = arrays["loss_AN"].shape
    made = f"{metadata.get('key')}, {rows} losses of {examples} examples"
    refuse_other_key(path, made, f"{key}, {num_rows} losses of {num_examples} examples")
    return SweepTable(**arrays)
