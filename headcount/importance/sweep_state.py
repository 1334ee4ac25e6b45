"""The state of a sweep: its progress in one file, from which a killed sweep resumes."""

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
"""Name of the file in a run's state folder."""

_ARRAYS = ("loss_AN", "outcome_AN", "count_N", "seen_N")


@final
@dataclass(frozen=True, eq=False)
class SweepTable:
    """One row per ablation, after a row for the dense model; filled batch by batch."""

    loss_AN: Float[np.ndarray, "ablation example"]
    outcome_AN: Float[np.ndarray, "ablation example"]
    count_N: Int[np.ndarray, " example"]
    seen_N: Bool[np.ndarray, " example"]

    @classmethod
    def empty(cls, num_rows: int, num_examples: int) -> "SweepTable":
        """A table without any results."""
        blank = np.full((num_rows, num_examples), np.nan)
        counts = np.zeros(num_examples, dtype=np.int64)
        return cls(blank, blank.copy(), counts, np.zeros(num_examples, dtype=bool))


def save_sweep(path: Path, key: str, table: SweepTable) -> None:
    """Write the progress, completely or not at all; nothing is pickled."""
    arrays = {name: getattr(table, name) for name in _ARRAYS}
    write_atomically(path, lambda file: save_file(arrays, file, metadata={"key": key}))


def load_sweep(path: Path | None, key: str, num_rows: int, num_examples: int) -> SweepTable:
    """Load the progress of an interrupted sweep.

    Raises:
        InputError: If the file is damaged, or of a sweep with another model, task or options.
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
