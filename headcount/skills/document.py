"""What skills show: the best heads, what is right without them, and which of them are the same."""

from collections.abc import Sequence
from math import isnan

from headcount.core import Block, Document, Heading, Table, Text, amount
from headcount.numbers import percent
from headcount.skills.page import does, finds
from headcount.skills.result import Overlap, RecallRow, Skills, TaskRow
from headcount.vocabulary import SKILLS

SHOWN = 5
"""Number of heads by each skill."""


def skills_document(found: Skills) -> Document:
    """The document of skills."""
    record = found.record
    first = " ".join(record.first) or "one more random token"
    return Document(
        "What the heads of a language model do",
        (
            Text(f"{record.model} {finds(found)}. {does(found.tasks)}", "lede"),
            Text(
                "Retrieval is a mean over needles of which the model said more than half, the "
                "function vector one over prompts of the tasks that it does, and the other scores "
                f"are over texts of random tokens that come twice behind {first}. Intervals are "
                "Student's (95 %); each half has every second needle, prompt or text."
            ),
            *_best(found),
            *_without(found.recalls),
            *_overlaps(record.overlaps),
            Heading("Few-shot tasks"),
            Table.of(
                ("task", "prompts", "right", "95 %", "P(answer)", "shuffled", "scored"),
                map(_task, found.tasks),
                "Few-shot tasks, and the probability of their answers",
            ),
        ),
    )


def _without(recalls: Sequence[RecallRow]) -> tuple[Block, ...]:
    """What is answered without some heads."""
    headers = ("asked", "removed", "heads", "replaced by", "right", "95 %", "share of the answer")
    rows = (
        (
            *(
                row.asked,
                _words(row.removed),
                str(row.heads),
                row.replaced,
                percent(row.exact),
            ),
            f"{percent(row.exact_low)} to {percent(row.exact_high)}",
            percent(row.recall),
        )
        for row in recalls
    )
    return (
        Heading("What the model can do without its best heads"),
        Text(
            "The best heads by retrieval and by function vectors were chosen on the other half of "
            "the needles and prompts. Removed heads give zero, or their mean output over the "
            "texts. Intervals are over needles and prompts (Wilson)."
        ),
        Table.of(headers, rows),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _task(row: TaskRow) -> tuple[str, ...]:
    return (
        row.task,
        str(row.prompts),
        percent(row.right),
        f"{percent(row.right_low)} to {percent(row.right_high)}",
        f"{row.clean:.2f}",
        "not measured" if isnan(row.shuffled) else f"{row.shuffled:.2f}",
        "yes" if row.is_done else "left out",
    )


def _best(found: Skills) -> tuple[Block, ...]:
    """What each score is, and the heads with the largest ones."""
    ranked = {skill: rows for skill in SKILLS.values() if (rows := found.ranked(skill.key))}
    scores = (
        (
            skill.label,
            skill.about,
            f"{skill.least:g}",
            f"{sum(row.score(skill.key)[0] >= skill.least for row in rows)} of {len(rows)}",
        )
        for skill, rows in ranked.items()
    )
    heads = (
        (
            row.head,
            skill.label,
            row.said(skill.key),
            *(skill.show(getattr(row, f"{skill.key}_{half}")) for half in ("first", "second")),
        )
        for skill, rows in ranked.items()
        for row in rows[:SHOWN]
    )
    return (
        Heading("The best heads by each skill"),
        Table.of(("skill", "score", "threshold", "heads that reach it"), scores, "Skills"),
        Table.of(("head", "skill", "score", "first half", "second half"), heads),
    )


def _overlaps(overlaps: Sequence[Overlap]) -> tuple[Block, ...]:
    """How many of the best heads every two scores share, as a matrix."""
    shared = {(each.one, each.other): each for each in overlaps}
    names = [each.one for each in overlaps if each.one == each.other]
    rows = [(_words(one), *(_shared(shared.get((one, other))) for other in names)) for one in names]
    title = "Heads that two scores share"
    return (
        Heading("Which of the best heads are the same"),
        Text(
            f"The table counts how many of the {amount(overlaps[0].heads, 'best head')} by one "
            f"score are also the best by another; chance shares {overlaps[0].expected:.1f}. The "
            "diagonal compares the two halves of the data: an upper limit for the other cells."
        ),
        Table.of(("best by", *map(_words, names)), rows, title),
    )


def _shared(overlap: Overlap | None) -> str:
    return "" if overlap is None else str(overlap.shared)
