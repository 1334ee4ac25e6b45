"""Labels of a data set as the numbers of a model's classes."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Int64
from transformers import PreTrainedConfig

from headcount.errors import CorpusError
from headcount.tasks.table import Table


def class_numbers(table: Table, config: PreTrainedConfig) -> Int64[np.ndarray, " example"]:
    """Number of each example's class.

    All labels of a data set are read in the same way: as class names in the model's config or as
    numbers from 0, whichever fits more of them; in a tie, as names. If the data set names its
    classes, as on the hub, its numbers are mapped by name, provided the model has the names.

    Raises:
        CorpusError: for the first label that is not a class of the model, with its line.
    """
    labels = table["label"]
    count = config.num_labels or 0
    names, *_ = ways = [*_names(config, count), {str(n): n for n in range(count)}]
    classes = _named(table, ways) or max(
        ways, key=lambda way: sum(label in way for label in labels)
    )
    for label, origin in zip(labels, table.origins, strict=True):
        if label not in classes:
            listed = [f"{number} {name}" for name, number in names.items()]
            raise CorpusError(
                f"{origin}: expected one of the model's {count} classes "
                f"({_shortened(listed)}), got {label!r}. Labels are numbers from 0 to {count - 1}, "
                "or names of classes in the model's config, the same kind in all lines."
            )
    return np.array([classes[label] for label in labels], dtype=np.int64)


def by_number(table: Table, config: PreTrainedConfig) -> list[str]:
    """A warning if data and model name their classes differently, so that numbers are used."""
    own, ways = table.class_names.get("label"), [*_names(config, config.num_labels or 0)]
    if not own or _named(table, ways):
        return []
    return [
        f"labels are taken by number: the data set calls its classes {_shortened(own)}, the model "
        f"{_shortened([*ways[0]])}"
    ]


def _named(table: Table, ways: Sequence[Mapping[str, int]]) -> dict[str, int] | None:
    """The model's class for each number in the data set, by name; None if the names differ.

    Upper and lower case are equivalent.
    """
    own = table.class_names.get("label", [])
    for way in ways:
        folded = {name.casefold(): number for name, number in way.items()}
        if own and all(name.casefold() in folded for name in own):
            return {str(number): folded[name.casefold()] for number, name in enumerate(own)}
    return None


def _names(config: PreTrainedConfig, count: int) -> Iterator[dict[str, int]]:
    """The classes by name; a config made with one of its two maps may lack the other."""
    by_name = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    if set(by_name.values()) == set(range(count)):
        yield by_name
    yield {str(name): int(number) for number, name in (config.id2label or {}).items()}


def _shortened(listed: list[str]) -> str:
    return ", ".join(listed if len(listed) <= 8 else [*listed[:8], "..."])
