"""What an explanation shows of a stable circuit: certain heads, what they keep, and agreement."""

from collections.abc import Iterator
from math import isnan

from headcount.core import Block, Heading, Table, Text, amount, sorted_by
from headcount.explanation.circuit_rows import KeptRow, StabilityRow
from headcount.explanation.result import Explained
from headcount.explanation.together_document import ranking_label
from headcount.numbers import percent, within
from headcount.results import find, select
from headcount.statistics import ALPHA

ASKED = 0.8
"""Index of agreement that is asked for."""
BOTH = "in and undecided"
"""The heads that are certain or undecided."""


def stable_words(found: Explained) -> str:
    """How many heads are certain, and what they keep; empty without a stable circuit."""
    kept = find(found.kept, prompts="these", kept=BOTH)
    if kept is None:
        return ""
    number = {each: len(select(found.stable, verdict=each)) for each in ("in", "undecided")}
    verb = "is" if number["in"] == 1 else "are"
    said = (
        f"{amount(number['in'], 'head')} {verb} certain, {number['undecided']} undecided; with "
        f"both {_kept(kept)} of the prediction is kept"
    )
    there = find(found.kept, prompts="elsewhere", kept=BOTH)
    return f"{said}{'' if there is None else f', and {_kept(there)} on other prompts'}."


def _kept(row: KeptRow) -> str:
    if isnan(row.low):
        return percent(row.value)
    return f"{percent(row.value)} ({100 * row.low:.0f} to {100 * row.high:.0f})"


def stable_blocks(found: Explained) -> Iterator[Block]:
    """The stable circuit, tests of it, and how far circuits agree."""
    if not found.stable:
        return
    yield Heading("The stable circuit")
    yield Text(stable_words(found))
    yield Text(
        f"The best {amount(found.record.stable_size, 'head')} by "
        f"{ranking_label(found, found.record.stable)} keep 80 % of the prediction. Prompts were "
        "drawn again 100 times by blocks: certain heads are among the best in at least 95 of the "
        "circuits, undecided ones in more than 5. Faithfulness on these prompts, which chose the "
        "heads, is too good; --elsewhere FILE measures it on others."
    )
    yield Text(f"{_tests(found)} {_agreement(found)}")
    yield Table.of(
        ("heads", "number", "prompts", "faithfulness"),
        (
            (row.kept, str(row.heads), row.prompts, within(row.value, row.low, row.high))
            for row in found.kept
        ),
        "What the stable circuit keeps",
    )
    rows = [row for row in found.stable if row.verdict != "out"]
    yield Table.of(
        ("head", "verdict", "in resamples", "lost without it"),
        (
            (
                *(row.head, row.verdict, percent(row.share)),
                f"{row.lost:.2f}{'*' if row.p < ALPHA else ''}",
            )
            for row in sorted_by(rows, lambda row: row.share, descending=True)
        ),
        "Heads of the stable circuit",
    )


def _tests(found: Explained) -> str:
    """Whether the circuit does what the model does, and its rest does not, and heads are needed."""
    said = list[str]()
    for row in select(found.kept, kept=BOTH):
        where = "these prompts" if row.prompts == "these" else "other prompts"
        does = "does what the model does" if row.is_equivalent else "is not shown to do that"
        said.append(f"On {where} the circuit {does} within a fifth (two one-sided tests at 2.5 %).")
    rest = find(found.kept, prompts="these", kept="rest")
    assert rest is not None
    knows = "nothing shows that the rest of the heads knows the answer"
    if not rest.is_independent:
        knows = f"the rest of the heads alone keeps {_kept(rest)}"
    rows = [row for row in found.stable if row.verdict != "out"]
    needed = sum(row.p < ALPHA and row.lost > 0 for row in rows)
    return (
        f"{' '.join(said)} {knows[0].upper()}{knows[1:]}. Of the circuit's "
        f"{amount(len(rows), 'head')}, {needed} are needed: without one of them (*) it keeps less "
        f"(p < {ALPHA:g} after Holm's correction)."
    )


def _agreement(found: Explained) -> str:
    """How far circuits of the same size agree, and from which size on that is enough."""
    rows = select(found.stability, ranking=found.record.stable)
    here = next(row for row in rows if row.heads == found.record.stable_size)
    total = rows[-1].heads
    good = next((row for row in rows if row.value >= ASKED and row.heads <= total / 5), None)
    more = (
        f"An index of {ASKED:g} is first reached by {good.heads}."
        if good
        else f"No circuit of up to a fifth of the heads reaches {ASKED:g}."
    )
    return f"Two such circuits agree by {_index(here)} (Jaccard). {more}"


def _index(row: StabilityRow) -> str:
    return (
        f"{within(row.value, row.low, row.high)}, those of both halves by {row.halves:.2f}, random "
        f"ones by {row.chance:.2f}"
    )
