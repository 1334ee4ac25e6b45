"""Worth summary: what a user wants to read first after scoring heads."""

from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from headcount.heads import HeadTable
from headcount.importance.agreement import SCORES, Agreement
from headcount.reports.importance import Importance
from headcount.reports.worth_view import site_sentence, verdict

SHOWN = 5
"""Number of heads named at each end of the ranking."""


def print_worth(
    table: HeadTable, agreement: Agreement, record: dict[str, Any], console: Console
) -> None:
    """Print the heads that matter, those that do not, and which score predicts that."""
    score = record["score"]
    scored = "" if score is None else f", {record['metric']} {score:.4g}"
    console.print(
        f"{record['task']}: {record['num_examples']:,} examples, loss {record['loss']:.4g}{scored}"
    )
    scores = [name for name in agreement.names if name in SCORES]
    by = "ablation_delta" if "ablation_delta" in scores else scores[0]
    frame = table.frame.sort_values(by, ascending=False, kind="stable")
    console.print(_ranking(frame, scores, by))
    if by == "ablation_delta":
        for sentence in verdict(zip(frame["ablation_delta"], frame["ablation_p"], strict=True)):
            console.print(sentence, soft_wrap=True)
    if sites := site_sentence(Importance.of(record)):
        console.print(sites, soft_wrap=True)
    console.print(agreement.sentence(), soft_wrap=True)
    console.print(record["signature"], style="dim", soft_wrap=True)


def _ranking(frame: pd.DataFrame, scores: list[str], by: str) -> Table:
    table = Table("head", *scores, box=None, pad_edge=False, title=f"by {by}", title_justify="left")
    shown = [frame.head(SHOWN), frame.tail(SHOWN)] if len(frame) > 2 * SHOWN else [frame]
    for number, part in enumerate(shown):
        if number:
            table.add_row(*["..."] * (1 + len(scores)))
        for _, row in part.iterrows():
            table.add_row(str(row["head"]), *(f"{row[name]:.4g}" for name in scores))
    return table
