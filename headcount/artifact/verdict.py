"""Verdict: what somebody who decides about a pruned model reads first.

The card, the page and the terminal begin with it: how much smaller, faster and worse the model is,
whether it was proved equal to what was measured, and how it is loaded.
"""

import math
from collections.abc import Iterator
from typing import Literal

from headcount import numbers
from headcount.core import Table, amount
from headcount.results import DATA_SETS, METRICS, MetricChange, PruneRecord, SpeedRecord

NOT_CHECKED = "Not checked"
EMBEDDING = ("similarity", "search")
"""Tasks of models that sentence-transformers loads, too."""


def verdict_lines(record: PruneRecord) -> list[tuple[str, str]]:
    """A word and what it means, for each thing that is known.

    Args:
        record: The record of a pruned model.
    """
    return [*_size(record), *_speed(record), *_score(record), _checked(record)]


def cost_lines(record: PruneRecord) -> list[tuple[str, str]]:
    """Those that decide: the score, without one all; and whether the weights changed since.

    Args:
        record: The record of a pruned model.
    """
    known = [*_score(record)]
    checked = _checked(record)
    unchecked = [checked] if checked[0] == NOT_CHECKED else []
    return [*known, *unchecked] if known else verdict_lines(record)


def units_of(record: PruneRecord, name: Literal["kept", "pruned"]) -> str:
    """How many heads, and neurons if some could be pruned, are kept or pruned.

    Args:
        record: The record of a pruned model.
        name: Which of them are counted.
    """
    heads = {"kept": len(record.kept), "pruned": len(record.pruned)}
    said = f"{heads[name]:,} of {amount(sum(heads.values()), 'head')}"
    if not record.neurons:
        return said
    kept, total = (sum(getattr(each, of) for each in record.neurons) for of in ("kept", "total"))
    number = kept if name == "kept" else total - kept
    return f"{said} and {number:,} of {amount(total, 'neuron')}"


def verdict_table(record: PruneRecord) -> Table:
    """The same lines as a table."""
    return Table.of(("in short", ""), verdict_lines(record))


def _size(record: PruneRecord) -> Iterator[tuple[str, str]]:
    if (size := record.size) is None:
        return
    before, after = (numbers.effect(each / 1e6) for each in (size.dense, size.pruned))
    less = numbers.percent(1 - size.share)
    yield (
        "Smaller" if size.pruned < size.dense else "As large",
        f"{before} → {after} MB of weights in {size.dtype}, {less} less",
    )


def _speed(record: PruneRecord) -> Iterator[tuple[str, str]]:
    if record.speed is not None:
        yield _timed(record.speed)
    elif record.ceiling is not None:
        most = f"{record.ceiling.value:.2f} times as fast by its FLOPs"
        at = amount(record.ceiling.tokens, "token")
        yield "Speed", f"not measured; at most {most} on one text of {at}"


def _timed(speed: SpeedRecord) -> tuple[str, str]:
    """The first case of the measured speed."""
    case = speed.cases[0]
    found = case.speedup
    word = "Faster" if found.low > 1 else "Slower" if found.high < 1 else "Not measurably faster"
    what = "generating" if case.new_tokens else "one forward pass"
    return word, (
        f"{found.value:.2f} times as fast ({found.low:.2f} to {found.high:.2f}), {what} at batch "
        f"{case.batch}, {amount(case.length, 'token')}"
    )


def judged_on(record: PruneRecord) -> str | None:
    """The data set whose score counts: the test set, which chose nothing, if there is one."""
    return next((key for key in reversed(DATA_SETS) if key in record.data_sets), None)


def _score(record: PruneRecord) -> Iterator[tuple[str, str]]:
    if (key := judged_on(record)) is None:
        return
    found = record.data_sets[key]
    kind, chose = (
        ("test", "chose nothing") if key == "test" else ("development", "also made choices")
    )
    examples = f"on {amount(found.examples, f'{kind} example')} that {chose}"
    yield _word(found.score), f"{_change(found.score)}, {examples}"


def _word(score: MetricChange) -> str:
    if score.low > 0:
        return "Worse"
    if score.high < 0:
        return "Better"
    return "No loss found" if math.isfinite(score.low) else "Score"


def _change(score: MetricChange) -> str:
    before, after, by, *_ = score.cells
    low, high = map(numbers.change, score.interval)
    ends = f", {low} to {high}" if math.isfinite(score.low) else ""
    name = METRICS.get(score.name, score.name)
    return f"{name} {before} → {after} ({by}{ends})"


def _checked(record: PruneRecord) -> tuple[str, str]:
    """What the certificate proves."""
    compared = [each for each in record.comparisons if each.is_with_gated]
    if not compared:
        return NOT_CHECKED, "the weights have changed since the heads were removed"
    forms = numbers.listed([each.what.partition(" and ")[0] for each in compared])
    share, number = max((each.share, each.sentences) for each in compared)
    to = f"to {share:.0e} of the largest output" if share else "exactly"
    on = amount(number, "example") if number else "made-up inputs"
    verb = "equals" if len(compared) == 1 else "equal"
    return "Checked", f"the {forms} model {verb} the gated one {to}, on {on}"


def loading(record: PruneRecord) -> list[str]:
    """Lines of Python that load the model from its folder without headcount."""
    trust = "" if record.plain else ", trust_remote_code=True"
    lines = [f"{record.auto_class}.from_pretrained(folder{trust})"]
    if record.data_arguments.get("task") in EMBEDDING:
        lines.append(f"SentenceTransformer(folder{trust})")
    return lines
