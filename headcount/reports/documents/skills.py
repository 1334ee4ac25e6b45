"""What skills show: the best heads, what is right without them, and which of them are the same."""

from collections.abc import Sequence
from math import isnan

from headcount.core import Block, Document, Heading, Table, Text, amount
from headcount.results import SKILLS, Overlap, RecallRow, Skills, TaskRow

SHOWN = 10
"""Number of heads in a table."""


def skills_document(found: Skills) -> Document:
    """The document of skills."""
    record, dense = found.record, {row.asked: row for row in found.recalls if not row.heads}
    first = " ".join(record.first) or "one more random token"
    return Document(
        "What the heads of a language model do",
        (
            Text(f"{record.model} {_finds(dense['needles'])}. {_does(found.tasks)}", "lede"),
            Heading("The best heads"),
            Text(
                "retrieval: share of an answer that the head copies, over the needles that were "
                "found; a retrieval head has 0.1 or more. function vector: by how much the head's "
                "mean output in clean few-shot prompts raises the probability of the answer in "
                "prompts with shuffled examples. The others are weights on repeated random tokens "
                f"behind {first}. Each with its 95 % interval, and with the means of both halves."
            ),
            *(_best(found, skill) for skill in SKILLS if not isnan(found.heads[0].score(skill)[0])),
            Heading("Answers without some heads"),
            Text(
                "The best heads by retrieval and by function vectors were chosen on the other "
                "half of the needles and prompts. Removed heads give zero, or their mean output "
                "over the texts. Intervals are over needles and prompts (Wilson)."
            ),
            Table.of(
                (
                    "asked",
                    "removed",
                    "heads",
                    "replaced by",
                    "right",
                    "95 %",
                    "share of the answer",
                ),
                (
                    (
                        row.asked,
                        _words(row.removed),
                        str(row.heads),
                        row.replaced,
                        f"{row.exact:.0%}",
                        f"{row.exact_low:.0%} to {row.exact_high:.0%}",
                        f"{row.recall:.0%}",
                    )
                    for row in found.recalls
                ),
                "Right answers without some heads",
            ),
            *_overlaps(record.overlaps),
            Heading("Few-shot tasks"),
            Table.of(
                ("task", "prompts", "right", "95 %", "P(answer)", "shuffled", "scored"),
                map(_task, found.tasks),
                "Few-shot tasks, and the probability of their answers",
            ),
        ),
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _finds(dense: RecallRow) -> str:
    return (
        f"finds {dense.recall:.0%} of what the needles say, and {dense.exact:.0%} of "
        f"{amount(dense.cases, 'needle')} exactly ({dense.exact_low:.0%} to {dense.exact_high:.0%})"
    )


def _does(tasks: Sequence[TaskRow]) -> str:
    done = [f"{row.task} {row.right:.0%}" for row in tasks if row.is_done]
    number = amount(len(tasks), "few-shot task")
    return f"Of {number} it does {len(done)}" + (f": {', '.join(done)}." if done else ".")


def _task(row: TaskRow) -> tuple[str, ...]:
    return (
        row.task,
        str(row.prompts),
        f"{row.right:.0%}",
        f"{row.right_low:.0%} to {row.right_high:.0%}",
        f"{row.clean:.2f}",
        "not measured" if isnan(row.shuffled) else f"{row.shuffled:.2f}",
        "yes" if row.is_done else "left out",
    )


def _best(found: Skills, skill: str) -> Table:
    """The heads with the largest scores of a skill."""
    order = sorted(found.heads, key=lambda row: row.score(skill)[0], reverse=True)
    rows = []
    for row in order[:SHOWN]:
        mean, low, high = row.score(skill)
        halves = [getattr(row, f"{skill}_{half}") for half in ("first", "second")]
        rows.append(
            (row.head, f"{mean:.2f}", f"{low:.2f} to {high:.2f}", "{:.2f}, {:.2f}".format(*halves))
        )
    name = _words(skill)
    return Table.of(("head", name, "95 %", "halves"), rows, f"The best heads by {name}")


def _overlaps(overlaps: Sequence[Overlap]) -> tuple[Block, ...]:
    """How many of the best heads every two scores share, as a matrix."""
    shared = {(each.one, each.other): each for each in overlaps}
    names = [each.one for each in overlaps if each.one == each.other]
    rows = [(_words(one), *(_shared(shared.get((one, other))) for other in names)) for one in names]
    title = "Heads that two scores share"
    return (
        Heading("Which of the best heads are the same"),
        Text(
            f"Of the {overlaps[0].heads} best heads by each score, so many are the same; chance "
            f"shares {overlaps[0].expected:.1f}. Where a score meets itself stand the best heads "
            "of two halves of its texts, which is the most that can be hoped for."
        ),
        Table.of(("best by", *map(_words, names)), rows, title),
    )


def _shared(overlap: Overlap | None) -> str:
    return "" if overlap is None else str(overlap.shared)
