"""Labels of a data set as the numbers of a model's classes."""

import numpy as np
from jaxtyping import Int64
from transformers import PreTrainedConfig

from headcount.errors import CorpusError
from headcount.tasks.table import Table


def class_numbers(table: Table, config: PreTrainedConfig) -> Int64[np.ndarray, " example"]:
    """Number of each example's class.

    All labels of a data set are read in one way: as names of `config.label2id` or as numbers from
    0, whichever fits more of them; where both fit as many, as names.

    Raises:
        CorpusError: for the first label that is not of the model, with its line.
    """
    labels = table["label"]
    names = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    numbers = {str(number): number for number in range(len(names))}
    by_name = sum(label in names for label in labels) >= sum(label in numbers for label in labels)
    classes = names if by_name else numbers
    for label, origin in zip(labels, table.origins, strict=True):
        if label not in classes:
            listed = [f"{number} {name}" for name, number in names.items()]
            raise CorpusError(
                f"{origin}: label {label!r} is not one of the model's {len(numbers)} classes "
                f"({_shortened(listed)}); labels are numbers from 0 to {len(numbers) - 1}, or "
                "names of label2id in the model's config, the same kind in all lines"
            )
    return np.array([classes[label] for label in labels], dtype=np.int64)


def _shortened(listed: list[str]) -> str:
    return ", ".join(listed if len(listed) <= 8 else [*listed[:8], "..."])
