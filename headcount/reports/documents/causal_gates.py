"""What causal gates found: heads that every set agrees on, and what is left without the others."""

from collections.abc import Iterator, Sequence

from headcount import numbers
from headcount.core import Block, Heading, Table, Text, amount
from headcount.results import CausalGates, GateCheck

_NAMED = 12
"""Largest number of heads named in a sentence."""
_LEFT = {
    "only facilitating": "only facilitating heads",
    "only random": "as many random heads",
    "without interfering": "all but interfering heads",
    "without random": "all but as many random heads",
}
"""What is left of the model, in words."""


def causal_gates_blocks(found: CausalGates | None) -> Iterator[Block]:
    """The blocks of an assessment about causal gates; nothing without them."""
    if found is None:
        return
    sets = 2 * found.starts
    yield Heading("Which heads are enough, and which are in the way?")
    yield Text(
        f"{_agreed('facilitating', found.facilitating, found.facilitating_each, sets)} "
        f"{_chance(found.facilitating_chance)} "
        f"{_agreed('interfering', found.interfering, found.interfering_each, sets)} "
        f"{_chance(found.interfering_chance)}",
        "lede",
    )
    one, other = (numbers.of(each, "example", "examples") for each in found.num_trained)
    yield Text(
        f"{amount(found.starts, 'set')} of gates learned from {one}, and as many from {other}. "
        "Facilitation correlates by rank with "
        f"{numbers.correlation(found.starts_rho)} between starts and "
        f"{numbers.correlation(found.halves_rho)} between the halves. The losses below are on "
        f"{numbers.of(found.num_held_out, 'example', 'examples')} that trained nothing, where the "
        f"dense model has {numbers.effect(found.loss)}."
    )
    together = [each for each in found.checks if each.left in _LEFT]
    rows = [(_LEFT[each.left], str(each.num_kept), *_numbers(each)) for each in together]
    title = "What is left on other examples"
    headers = ("kept", "heads", "rise of the loss", "95 % interval, or range of draws")
    yield Table.of(headers, rows, title)
    if alone := [each for each in found.checks if each.head]:
        rows = [(each.head, *_numbers(each)) for each in sorted(alone, key=_delta)]
        headers = ("removed head", "rise of the loss", "95 % interval")
        yield Table.of(headers, rows, "Interfering heads, removed one at a time")


def _delta(check: GateCheck) -> float:
    return check.delta


def _agreed(what: str, agreed: Sequence[str], each: Sequence[int], sets: int) -> str:
    """On how many heads of a kind all sets agree."""
    verb = "is" if len(agreed) == 1 else "are"
    least, most = min(each), max(each)
    single = str(least) if least == most else f"{least} to {most}"
    more = [f"{len(agreed) - _NAMED} more"] if len(agreed) > _NAMED else []
    names = f" ({', '.join([*agreed[:_NAMED], *more])})" if agreed else ""
    return (
        f"{amount(len(agreed), 'head')}{names} {verb} {what} in all {sets} sets of gates, where "
        f"single sets have {single}."
    )


def _chance(expected: float) -> str:
    return f"By chance they would share {numbers.weight(expected)}."


def _numbers(check: GateCheck) -> tuple[str, str]:
    """The rise of the loss and its interval."""
    interval = f"{numbers.effect(check.low)} to {numbers.effect(check.high)}"
    return numbers.effect(check.delta), numbers.UNKNOWN if check.low != check.low else interval
