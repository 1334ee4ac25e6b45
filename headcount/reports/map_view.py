"""Maps: every number that the grid of heads can be coloured by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from headcount.reports import numbers
from headcount.reports.measure_names import DIRECTIONS, measures
from headcount.reports.read import Run
from headcount.reports.relation_view import best_gain, map_key, with_gain

_NOT_MEASURED = ("head", "site", "layer", "index", "roles")


@final
@dataclass(frozen=True)
class Map:
    """One number per head, with its colour scale."""

    key: str
    label: str
    group: str
    about: str
    scale: Literal["sequential", "diverging"]
    low: float | None
    """Smallest value, or minus the largest magnitude of a diverging scale; None when all are NaN."""
    high: float | None
    low_text: str
    high_text: str
    values: tuple[float | None, ...]
    """In the order of the heads; None where not measured."""
    texts: tuple[str, ...]


def maps(run: Run) -> tuple[Map, ...]:
    """All measures, then the largest gain in syntax, then every relation with enough cases."""
    columns = [str(column) for column in run.heads.columns if column not in _NOT_MEASURED]
    result = [
        _map(m.key, m.label, m.group, m.about, m.show, run.heads[m.key].to_numpy(dtype=float))
        for m in measures(columns)
    ]
    return (*result, *_relation_maps(run))


def _relation_maps(run: Run) -> list[Map]:
    if run.relations is None:
        return []
    heads = run.heads["head"].tolist()
    gain = best_gain(run.relations, heads)
    about = "largest accuracy minus baseline over all relations with enough cases, in points"
    result = [_map("gain", "best gain in syntax", "Syntax", about, numbers.points, gain, True)]
    table = with_gain(run.relations)
    for (relation, direction), rows in table[~table["few"]].groupby(["relation", "direction"]):
        short, meaning = DIRECTIONS.get(str(direction), (str(direction), ""))
        accuracy = rows.set_index("head")["accuracy"].reindex(heads).to_numpy(dtype=float)
        baseline = numbers.percent(float(rows["baseline"].iloc[0]))
        result.append(
            _map(
                map_key(str(relation), str(direction)), f"{relation}, {short}", "Relation accuracy",
                f"{meaning}; baseline {baseline}", numbers.percent, accuracy,
            )
        )  # fmt: skip
    return result


def _map(
    key: str,
    label: str,
    group: str,
    about: str,
    show: Callable[[float], str],
    values: np.ndarray,
    diverging: bool = False,
) -> Map:
    diverging = diverging or key == "positional_offset"
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (np.nan, np.nan)
    if diverging:
        high = max(abs(low), abs(high))
        low = -high
    return Map(
        key=key,
        label=label,
        group=group,
        about=about,
        scale="diverging" if diverging else "sequential",
        low=numbers.rounded(low),
        high=numbers.rounded(high),
        low_text=show(low),
        high_text=show(high),
        values=tuple(numbers.rounded(float(value)) for value in values),
        texts=tuple(show(float(value)) for value in values),
    )
