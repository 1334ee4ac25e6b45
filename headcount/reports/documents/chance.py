"""What chance gives: how many heads would get each role at random weights."""

from collections import Counter

from headcount import numbers
from headcount.core import Document, Table, Text
from headcount.reports.sentences import by_chance
from headcount.results import Analysis
from headcount.vocabulary import roles_named

NO_ROLE = "no role"


def chance_document(run: Analysis) -> Document | None:
    """Every role that occurs with its number of heads; None without a null run."""
    if run.null_rows is None:
        return None
    found, random = ([row.roles for row in heads] for heads in (run.rows, run.null_rows))
    counts = [Counter(name for head in heads for name in {*head}) for heads in (found, random)]
    rows = [
        (role.name, *(numbers.count(each[name]) for each in counts))
        for name, role in roles_named(name for head in [*found, *random] for name in head).items()
    ]
    without = (numbers.count(sum(not head for head in heads)) for heads in (found, random))
    return Document(
        "Is it more than chance?",
        (
            Text(by_chance(random), "lede"),
            Table.of(
                ("role", "this model", "random weights"),
                [*rows, (NO_ROLE, *without)],
                "Number of heads with each role",
            ),
        ),
    )
