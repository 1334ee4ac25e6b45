"""What was not tested, in words."""

from collections.abc import Mapping, Sequence

from headcount import numbers
from headcount.reports.kinds import Leading, kinds_of
from headcount.reports.sentences import headline
from headcount.results import Analysis, Untested
from headcount.vocabulary import RELATIONS, SYNTAX, label_of

FEW = "few"
"""Reason of traits that have too few cases: more text would change it."""

SAID = (FEW, "no cases")
"""Reasons that headlines name."""

HALF = 0.5
"""Share of attention on the first token, or on no token, from which on a head is counted."""


def few_of(run: Analysis) -> Mapping[str, Untested]:
    """The traits that have too few cases, or none, by name."""
    return {trait: why for trait, why in run.record.untested.items() if why.reason in SAID}


def needs_more(run: Analysis) -> bool:
    """Whether more text would let some trait be tested."""
    return any(why.reason == FEW for why in run.record.untested.values())


def nothing_tested(run: Analysis) -> bool:
    """Whether no trait of any head was tested, as far as is known."""
    traits = [trait for own in (run.traits or {}).values() for trait in own]
    return bool(traits) and all(trait.verdict == "untested" for trait in traits)


def headline_of(run: Analysis, found: Sequence[Leading | None]) -> str:
    """What the heads do, after what was not tested; says which texts it holds for if few.

    Args:
        run: the run.
        found: what leads each head.
    """
    missing, few = not_tested(run), run.record.few_texts
    parts = [each for each in (missing, first_token(run), learned_sinks(run)) if each]
    if nothing_tested(run):
        return " ".join(parts)
    what = "Of the tested traits" if missing else ""
    if few is not None:
        what = f"Of the traits tested in {few.words}" if missing else f"In {few.words}"
    found_words = headline(found)
    if what:
        found_words = f"{what}, {found_words[0].lower()}{found_words[1:]}"
    return " ".join([*parts, found_words])


def nothing_words(run: Analysis) -> str:
    """What is said of a head that shows no role or tendency."""
    return "nothing was tested" if nothing_tested(run) else "no role or tendency"


def nothing_sentence(run: Analysis) -> str:
    """The same in a sentence of its own."""
    missing = not_tested(run)
    if nothing_tested(run):
        return missing
    if missing:
        return f"Of the tested traits none is both beyond chance and strong enough. {missing}"
    return "No role or tendency: no trait is both beyond chance and strong enough."


def not_tested(run: Analysis) -> str:
    """The traits that have too few cases, with the reasons, in a sentence; empty without any.

    Traits with the same reason are named together.
    """
    few = few_of(run)
    reasons = [*dict.fromkeys(why.says for why in few.values())]
    if nothing_tested(run):
        return f"Nothing was tested: {'; '.join(reasons)}." if reasons else "Nothing was tested."
    parts = []
    for says in reasons:
        names = [label_of(trait) for trait, why in few.items() if why.says == says]
        parts.append(f"{numbers.listed(names)} ({says})")
    return f"Not tested: {'; '.join(parts)}." if parts else ""


def first_token(run: Analysis) -> str:
    """How many heads rest on the first token, where sinks were not tested; else empty."""
    if "first" not in few_of(run) or not any("attn_first" in row.values for row in run.rows):
        return ""
    return _over_half(run, _many(run, "attn_first"), "the first token")


def learned_sinks(run: Analysis) -> str:
    """How many heads give no token most of their attention, in a sentence; empty if none does."""
    many = _many(run, "attn_none")
    return _over_half(run, many, "a learned sink, and so no token,") if many else ""


def _many(run: Analysis, column: str) -> int:
    """The number of heads with more than half of their attention there."""
    return sum(row.values.get(column, 0) > HALF for row in run.rows)


def _over_half(run: Analysis, many: int, what: str) -> str:
    verb, whose = ("gives", "its") if many == 1 else ("give", "their")
    heads = numbers.of(len(run.rows), "head", "heads")
    return f"{numbers.count(many)} of {heads} {verb} {what} over half of {whose} attention."


def absent(run: Analysis) -> tuple[tuple[str, str], ...]:
    """What no head does: the words that name it, and a sentence with the reason if it has one."""
    shown = {kind.key for kind in kinds_of(run)}
    why = {key: f" ({each.says})" for key, each in run.record.untested.items()}
    relations = " ".join((*RELATIONS, *(dependent for dependent, _ in RELATIONS.values())))
    return tuple(
        (each.words + relations * (each == SYNTAX), f"No head {each.one}{why.get(each.key, '')}.")
        for each in run.record.inputs.traits
        if run.traits is not None and each.key not in shown
    )


def why_none(run: Analysis, role: str) -> str:
    """Why no head has a role: none was found, or the reason why it was not tested."""
    own = {trait: why for trait, why in run.record.untested.items() if why.role == role}
    traits = {
        trait.trait if trait.relation is None else "syntax"
        for each in (run.traits or {}).values()
        for trait in each
        if trait.role == role and trait.verdict != "untested"
    }
    if not traits:
        reasons = [*dict.fromkeys(why.says for why in own.values())]
        return "; ".join(reasons) or "not tested"
    few = [label_of(trait) for trait, why in own.items() if why.reason in SAID]
    return f"none found ({numbers.listed(few)} not tested)" if few else "none found"
