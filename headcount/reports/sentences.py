"""The findings in full sentences: the headline, what was measured, and one line per head."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from headcount.reports import numbers
from headcount.reports.names import RoleName, offset_words
from headcount.results import Profiles, RunRecord


def headline(roles: Sequence[Sequence[str]], names: Mapping[str, RoleName]) -> str:
    """The number of heads with each role; `roles` has one entry per head.

    >>> from headcount.reports.names import role_names
    >>> headline([["sink"], ["positional"], ["positional"], []], role_names(["positional", "sink"]))
    'Of 4 heads, 2 are positional and 1 attends to a sink; 1 has no role.'
    """
    counted = Counter(role for head in roles for role in set(head))
    if not counted:
        return f"None of the {numbers.count(len(roles))} heads has a role."
    clauses: list[str] = []
    for name, role in names.items():
        if number := counted[name]:
            predicate = role.one if number == 1 else role.many
            # "9 are positional, 14 syntactic": the verb is not repeated.
            if clauses and predicate.startswith(("is ", "are ")):
                predicate = predicate.partition(" ")[2]
            clauses.append(f"{numbers.count(number)} {predicate}")
    without = sum(not head for head in roles)
    rest = f"{numbers.count(without)} {'has' if without == 1 else 'have'} no role"
    rest = rest if without else "every head has a role"
    return f"Of {numbers.count(len(roles))} heads, {numbers.listed(clauses)}; {rest}."


def several(roles: Sequence[Sequence[str]]) -> str:
    """A remark on heads with several roles, to explain the headline's counts; else empty."""
    number = sum(len(head) > 1 for head in roles)
    if not number:
        return ""
    verb, counts = ("has", "counts") if number == 1 else ("have", "count")
    these = numbers.of(number, "head", "heads")
    return f"{these} {verb} more than one role and {counts} once for each."


def tending(profiles: Profiles | None) -> str:
    """The number of heads without a role that tend to one, and of those that were not tested."""
    if not profiles:
        return ""
    verdicts = [{trait.verdict for trait in traits} for traits in profiles.values()]
    tend = sum("tendency" in each and "role" not in each for each in verdicts)
    untested = {
        trait.role
        for traits in profiles.values()
        for trait in traits
        if all(other.verdict == "untested" for other in traits if other.role == trait.role)
    }
    parts = []
    if tend:
        verb = "has" if tend == 1 else "have"
        parts.append(
            f"{numbers.of(tend, 'head', 'heads')} without a role {verb} a tendency: it passes the "
            "test, but not the paper's threshold."
        )
    if untested:
        parts.append(f"Too few cases to test: {numbers.listed(sorted(untested))}.")
    return " ".join(parts)


def by_chance(null: Sequence[Sequence[str]]) -> str:
    """The number of heads that get a role at random weights; empty without a null run."""
    if not null:
        return ""
    number = sum(bool(head) for head in null)
    return (
        f"With random weights, {numbers.count(number) if number else 'none'} of the "
        f"{numbers.count(len(null))} heads would get a role."
    )


def short_name(path: str) -> str:
    """The last part of a path, or a hub name as it is.

    >>> short_name("/models/minilm/"), short_name("google-bert/bert-base-cased")
    ('minilm', 'google-bert/bert-base-cased')
    """
    if not path.startswith(("/", ".", "~")) and "\\" not in path:
        return path
    parts = PurePath(path.replace("\\", "/")).parts
    says_little = parts and parts[-1] in ("model", "checkpoint", "best", "final", "output")
    return "/".join(parts[-2:] if says_little else parts[-1:]) or path


def arrows(text: str) -> str:
    """The text with typographic arrows.

    >>> arrows("nsubj dependent->head")
    'nsubj dependent → head'
    """
    return text.replace("->", " → ").replace("<-", " ← ")


def measured(record: RunRecord) -> str:
    """The corpus: "2,001 sentences, 25,148 words, 31,000 tokens of en_ewt-ud-dev.conllu"."""
    counts = record.counts
    nouns = (
        (counts.sentences, "sentence", "sentences"),
        (counts.words, "word", "words"),
        (counts.tokens, "token", "tokens"),
    )
    parts = [numbers.of(*noun) for noun in nouns if noun[0]]
    corpora = list(map(short_name, record.corpora))
    return f"{', '.join(parts) or 'nothing'} of {numbers.listed(corpora) or 'an unnamed corpus'}"


def head_line(values: Mapping[str, float]) -> str:
    """What a head does most, whatever its roles; unmeasured numbers are left out."""
    parts = []
    share = values.get("positional_share", math.nan)
    if not math.isnan(share):
        where = offset_words(values["positional_offset"])
        parts.append(
            f"Special tokens aside, its largest weight falls most often {where} "
            f"({numbers.percent(share)} of queries)."
        )
    confidence, entropy = (values.get(name, math.nan) for name in ("confidence", "entropy"))
    if not math.isnan(confidence):
        parts.append(f"That weight is {numbers.weight(confidence)} on average.")
    if not math.isnan(entropy):
        # exp(entropy) is the perplexity of the weights: this many equal weights have that entropy.
        parts.append(f"Its entropy equals that of {math.exp(entropy):.1f} equal weights.")
    return " ".join(parts)
