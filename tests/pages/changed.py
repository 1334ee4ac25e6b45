"""Analyses with other rows, for tests of what is shown of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from headcount.core import HeadTable
from headcount.results import Analysis, HeadRow, RelationResult, Role, TraitStrength

FIELDS = {"rows": "heads", "null_rows": "null_heads", "relation_rows": "relations"}
FIELDS |= {"null_relation_rows": "null_relations", "traits": "profiles"}
"""The table of an analysis behind each of its views."""


def changed(run: Analysis, **views: Any) -> Analysis:
    """The analysis with other `rows`, `traits`, `relation_rows` ... or `roles`, or without them."""
    roles: Mapping[str, Sequence[Role]] = views.pop("roles", run.record.roles)
    tables = {FIELDS[name]: _table(name, value) for name, value in views.items()}
    return replace(run, record=replace(run.record, roles=roles), **tables)


def _table(name: str, value: Any) -> Any:
    if value is None:
        return pd.DataFrame() if name == "traits" else None
    if name == "traits":
        return traits_frame(replace(each, head=head) for head in value for each in value[head])
    if name.endswith("relation_rows"):
        return relations_frame(value)
    return heads_table(value)


def heads_table(rows: Iterable[HeadRow]) -> HeadTable:
    """The table of some heads."""
    named = [
        {"head": row.head, "site": row.site, "layer": row.layer, "index": row.index}
        | {**row.values, "roles": [*row.roles]}
        for row in rows
    ]
    return HeadTable(pd.DataFrame(named))


def relations_frame(rows: Iterable[RelationResult]) -> pd.DataFrame:
    """The table of some relations."""
    return pd.DataFrame([asdict(row) for row in rows])


def traits_frame(traits: Iterable[TraitStrength]) -> pd.DataFrame:
    """The table of some traits."""
    return pd.DataFrame([asdict(each) for each in traits])
