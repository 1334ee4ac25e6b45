"""Relations against their baseline: the best of one head, and the best head of each relation."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from headcount.reports import numbers
from headcount.reports.measure_names import DIRECTIONS, relation_words

MIN_CASES = 100
"""Fewer cases are flagged (Clark 2019 leaves such relations out)."""
CLEAR_GAIN = 0.10
"""From this gain on a head counts as syntactic in Voita 2019, section 5."""


@final
@dataclass(frozen=True)
class RelationScore:
    """How well one head finds one relation in one direction."""

    head: str
    relation: str
    gloss: str
    direction: str
    accuracy: float | None
    baseline: float | None
    accuracy_text: str
    baseline_text: str
    gain_text: str
    cases_text: str
    few: bool
    beats: bool
    clearly: bool
    """Beats the baseline by CLEAR_GAIN or more."""
    null_text: str
    """Accuracy at random weights; empty without a null run."""


@final
@dataclass(frozen=True)
class RelationRow:
    """The best head of one relation in every direction; None where a direction was not measured."""

    relation: str
    gloss: str
    cases_text: str
    best: tuple[RelationScore | None, ...]
    map_key: str
    """The map that shows this relation in its best direction."""


@final
@dataclass(frozen=True)
class RelationTable:
    """Best heads as in table 1 of Voita 2019 and of Clark 2019."""

    directions: tuple[tuple[str, str], ...]
    rows: tuple[RelationRow, ...]
    """Relations with enough cases, the largest gain first."""
    few_rows: tuple[RelationRow, ...]
    summary: str
    has_null: bool


def with_gain(relations: pd.DataFrame) -> pd.DataFrame:
    """The table with `gain` (accuracy minus baseline), `few`, and NaN rows left out."""
    gain = relations["accuracy"] - relations["baseline"]
    table = relations.assign(gain=gain, few=relations["cases"] < MIN_CASES)
    return table[table["gain"].notna()]


def best_of_head(relations: pd.DataFrame, null: pd.DataFrame | None, limit: int = 6) -> dict[
    str, tuple[RelationScore, ...]
]:  # fmt: skip
    """For every head its relations with the largest gain, those with enough cases first."""
    table = with_gain(relations).sort_values(["few", "gain"], ascending=[True, False])
    keys = ["head", "relation", "direction"]
    random = {} if null is None else null.set_index(keys)["accuracy"].to_dict()
    return {
        str(head): tuple(
            _score(row, random.get((row.head, row.relation, row.direction), math.nan), bool(random))
            for row in rows.head(limit).itertuples()
        )
        for head, rows in table.groupby("head", sort=False)
    }


def relation_table(relations: pd.DataFrame, null: pd.DataFrame | None) -> RelationTable:
    """The best head of every relation and direction."""
    table = with_gain(relations)
    best = table.sort_values("accuracy", ascending=False, kind="stable")
    best = best.drop_duplicates(["relation", "direction"])
    keys = ["relation", "direction"]
    random = {} if null is None else null.groupby(keys)["accuracy"].max().to_dict()
    found = {
        (row.relation, row.direction): (
            row.gain,
            _score(row, random.get((row.relation, row.direction), math.nan), bool(random)),
        )
        for row in best.itertuples()
    }
    directions = [name for name in DIRECTIONS if name in set(best["direction"])]
    directions += sorted(set(best["direction"]) - set(directions))
    rows = {
        relation: _row(relation, directions, found)
        for relation in best.sort_values("gain", ascending=False)["relation"].unique()
    }
    scores = [score for _, score in found.values()]
    return RelationTable(
        directions=tuple(DIRECTIONS.get(name, (name, "")) for name in directions),
        rows=tuple(row for row in rows.values() if not _is_few(row)),
        few_rows=tuple(row for row in rows.values() if _is_few(row)),
        summary=_summary(scores),
        has_null=bool(random),
    )


def _row(relation: str, directions: list[str], found: dict) -> RelationRow:
    gains = {name: found[relation, name][0] for name in directions if (relation, name) in found}
    best = tuple(found.get((relation, name), (None, None))[1] for name in directions)
    winner = max(gains, key=gains.__getitem__)
    cases = found[relation, winner][1].cases_text
    return RelationRow(relation, relation_words(relation), cases, best, map_key(relation, winner))


def map_key(relation: str, direction: str) -> str:
    """The name of the map of a relation."""
    return f"{relation} {direction}"


def _is_few(row: RelationRow) -> bool:
    return all(score.few for score in row.best if score is not None)


def _summary(scores: list[RelationScore]) -> str:
    enough = [score for score in scores if not score.few]
    if not enough:
        return f"No relation has {MIN_CASES} cases: the numbers below are from few sentences."
    relations = {score.relation for score in enough}
    beating = {score.relation for score in enough if score.beats}
    of = f"the {numbers.of(len(relations), 'relation', 'relations')} with {MIN_CASES} cases or more"
    if not beating:
        return f"None beats its baseline: {of} are found best by a fixed offset."
    clearly = {score.relation for score in enough if score.clearly}
    how_many = "each" if len(beating) == len(relations) else numbers.count(len(beating))
    verb = "has" if how_many in ("each", "1") else "have"
    return (
        f"Of {of}, {how_many} {verb} a head that beats the best fixed offset, "
        f"{numbers.count(len(clearly)) if clearly else 'none'} by {100 * CLEAR_GAIN:.0f} points or more."
    )


def _score(row, null: float, has_null: bool) -> RelationScore:
    offset = numbers.signed(float(row.baseline_offset))
    return RelationScore(
        head=str(row.head),
        relation=str(row.relation),
        gloss=relation_words(str(row.relation)),
        direction=DIRECTIONS.get(row.direction, (str(row.direction), ""))[0],
        accuracy=numbers.rounded(row.accuracy),
        baseline=numbers.rounded(row.baseline),
        accuracy_text=numbers.percent(row.accuracy),
        baseline_text=f"{offset}: {numbers.percent(row.baseline)}",
        gain_text=numbers.points(row.gain),
        cases_text=numbers.count(row.cases),
        few=bool(row.few),
        beats=bool(row.gain > 0),
        clearly=bool(row.gain >= CLEAR_GAIN),
        null_text=numbers.percent(null) if has_null else "",
    )


def best_gain(relations: pd.DataFrame, heads: list[str]) -> np.ndarray:
    """For every head the largest gain over relations with enough cases; NaN where there is none."""
    table = with_gain(relations)
    table = table[~table["few"]]
    return table.groupby("head")["gain"].max().reindex(heads).to_numpy(dtype=float)
