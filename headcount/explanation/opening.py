"""What an explanation begins with: what is predicted, and the heads that matter most for it."""

from headcount.core import sorted_by
from headcount.explanation.circuits_document import stable_words
from headcount.explanation.result import EffectRow, Explained
from headcount.explanation.together_document import words_of
from headcount.numbers import listed, nats, within

RAISING = 3
"""Number of heads that are named as those that raise what is predicted most, by each effect."""


def title(found: Explained) -> str:
    """What was explained; of several prompts, how many."""
    several = f"s of {len(found.prompts)} prompts" if len(found.prompts) > 1 else ""
    return f"Which heads made the prediction{several}"


def headline(found: Explained) -> str:
    """What a page of several prompts begins with: the heads that are certain, or matter most."""
    if words := stable_words(found):
        return words
    raising, lowering = extremes(found, found.measured[0])
    said = list[str]()
    if raising:
        verb = "raises" if len(raising) == 1 else "raise"
        said.append(f"{listed([row.part for row in raising])} {verb} the predictions most")
    if lowering:
        said.append(f"{lowering[0].part} lowers {'them' if raising else 'the predictions'} most")
    return f"{'; '.join(said)}." if said else what_is_predicted(found)


def lede(found: Explained) -> str:
    """What the model predicts, which heads are certain, and which matter most one by one."""
    parts = (what_is_predicted(found), stable_words(found), best_heads(found))
    return " ".join(filter(None, parts))


def what_is_predicted(found: Explained) -> str:
    """What the model predicts, in a sentence."""
    record, row, number = found.record, found.prompts[0], len(found.prompts)
    value = within(record.value, record.low, record.high)
    target, rival = _spoken(row.target), _spoken(row.against)
    chance = f" (P({target}) = {row.probability:.2g})"
    if number > 1:
        target, rival, chance = f"the targets of {number} prompts", "their rivals", ""
    if row.against:
        return f"{record.model} prefers {target} to {rival} by {value} nats{chance}."
    return f"{record.model} gives {target} a log-probability of {value} nats{chance}."


def _spoken(text: str) -> str:
    """A target or rival with its blanks."""
    return f"“{text}”"


def ranked(found: Explained, effect: str) -> list[EffectRow]:
    """The heads by the size of an effect, the largest first."""
    rows = [row for row in found.of(effect).values() if row.is_head]
    return sorted_by(rows, lambda row: abs(row.value), descending=True)


def extremes(found: Explained, effect: str) -> tuple[list[EffectRow], list[EffectRow]]:
    """The heads that raise what is predicted most by an effect, and the one that lowers it most."""
    rows = sorted_by(ranked(found, effect), lambda row: row.value, descending=True)
    lowering = [row for row in rows[-1:] if row.value < 0]
    return [row for row in rows[:RAISING] if row.value > 0], lowering


def best_heads(found: Explained) -> str:
    """The heads that raise and lower what is predicted most."""
    parts = list[str]()
    for effect in found.measured[:2]:
        raising, lowering = (
            [f"{row.part} ({nats(row.value, '+')})" for row in side]
            for side in extremes(found, effect)
        )
        said = [f"{', '.join(raising)} raise it most"] if raising else []
        said += [f"{lowering[0]} lowers it most"] if lowering else []
        if said:
            parts.append(f"{', and '.join(said)} ({words_of(found, effect).label}, in nats).")
    return " ".join(parts)
