"""The findings in full sentences: the headline, what was measured, and one line per head."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from headcount import numbers
from headcount.core import amount
from headcount.reports.kinds import Leading, kinds_sentence, num_borderline, verdicts
from headcount.results import Record, RunRecord

OFTEN = 0.2
"""Least share of queries whose largest weight is at one offset for a head to be said to do so."""


NO_TOKEN = 0.05
"""Least share of attention on a learned sink for a head's line to mention it."""


def headline(found: Sequence[Leading | None]) -> str:
    """What the heads do, in numbers; `found` has one entry per head.

    >>> headline([None, None])
    'None of the 2 heads shows a role or tendency.'
    """
    total, (role, tend, rest) = len(found), verdicts(found)
    if rest == total:
        who = "The only head shows no" if total == 1 else f"None of the {total:,} heads shows a"
        return f"{who} role or tendency."
    parts = [f"{numbers.count(role)} {_has(role)} a role" if role else "none has a role"]
    if some := num_borderline(found):
        parts[0] += f" ({numbers.count(some)} borderline)"
    if tend:
        verb = "" if role else f"{_has(tend)} "
        parts.append(f"{numbers.count(tend)} {verb}a tendency")
    if rest:
        parts.append(f"{numbers.count(rest)} neither")
    kinds = kinds_sentence(found)
    return f"Of {numbers.of(total, 'head', 'heads')}, {numbers.listed(parts)}. {kinds}."


def _has(number: int) -> str:
    return "has" if number == 1 else "have"


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


def shape_text(record: RunRecord) -> str:
    """The model's kind and layers: `bert, 6 layers`; an encoder-decoder's are counted apart."""
    sides = {
        side: len(record.sites[site])
        for side, site in (("encoder", "encoder.self"), ("decoder", "decoder.self"))
        if site in record.sites
    }
    if len(sides) == 2:
        layers = f"{sides['encoder']} encoder and {amount(sides['decoder'], 'decoder layer')}"
    else:
        layers = amount(max(map(len, record.sites.values()), default=0), "layer")
    return layers if record.model_type == "unknown" else f"{record.model_type}, {layers}"


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
        (counts.sentences, record.inputs.item),
        (counts.words, "word"),
        (counts.tokens, "token"),
    )
    parts = [amount(*noun) for noun in nouns if noun[0]]
    if record.grid is not None:
        parts[0] += f" of {record.grid.rows} x {record.grid.columns} patches"
    corpora = list(map(short_name, record.corpora))
    return f"{', '.join(parts) or 'nothing'} of {numbers.listed(corpora) or 'an unnamed corpus'}"


DATA = (
    *("corpora", "prompt", "prompts", "train", "data", "corpus", "pairs"),
    *("gold", "dev", "test", "texts"),
)
"""Fields of records, and arguments of commands, that name data."""


def model_and_data(record: Record) -> tuple[str, str]:
    """The models and the data that a record names, for the head of a page; empty if it names none.

    What the record itself says comes before the arguments of the command. A command that takes
    texts and was given none reads our sample.
    """
    facts: Mapping[str, Any] = {**record.arguments, **vars(record)}
    models = [*_names(facts.get("model")), *_names(facts.get("models"))]
    data = dict.fromkeys(name for key in DATA for name in _names(facts.get(key)))
    if not data and "texts" in facts:
        data = {"our sample of texts": None}
    return numbers.listed([*map(short_name, models)]), numbers.listed([*data])


def _names(named: object) -> list[str]:
    """Names in an argument: one, several or none."""
    if isinstance(named, str):
        return [named]
    return [*map(str, named)] if isinstance(named, list | tuple) else []


def offset_words(offset: numbers.Real) -> str:
    """The position of an offset (key minus query), in words.

    >>> offset_words(-1), offset_words(3)
    ('on the previous token', '3 tokens to the right')
    """
    if math.isnan(offset):
        return "nowhere"
    close = {-1: "on the previous token", 0: "on the token itself", 1: "on the next token"}
    side = "left" if offset < 0 else "right"
    return close.get(int(offset), f"{abs(int(offset))} tokens to the {side}")


def head_line(values: Mapping[str, float]) -> str:
    """What a head does most, whatever its roles; unmeasured numbers are left out."""
    parts = []
    first = values.get("attn_first", math.nan)
    if not math.isnan(first):
        parts.append(f"It gives {numbers.percent(first)} of its attention to the first token.")
    none = values.get("attn_none", math.nan)
    if has_sink := none >= NO_TOKEN:
        parts.append(
            f"{numbers.percent(none)} of its attention goes to its learned sink, to no token."
        )
    confidence, entropy = (values.get(name, math.nan) for name in ("confidence", "entropy"))
    which = "a patch" if "attn_distance" in values else "a token that is not special"
    if not math.isnan(confidence):
        parts.append(f"Its largest weight on {which} is {numbers.weight(confidence)} on average.")
    share = values.get("positional_share", math.nan)
    if not math.isnan(share):
        where, queries = offset_words(values["positional_offset"]), numbers.percent(share)
        parts.append(
            f"That weight falls most often {where} ({queries} of queries)."
            if share >= OFTEN
            else f"That weight falls at no fixed offset (the most frequent, {where}: {queries})."
        )
    if not math.isnan(entropy):
        # exp(entropy) is the perplexity of the weights: this many equal weights have that entropy,
        # if nothing is missing to 1
        parts.append(
            f"The entropy of its weights on tokens is {numbers.weight(entropy)} nats."
            if has_sink
            else f"Its entropy equals that of {math.exp(entropy):.1f} equal weights."
        )
    distance = values.get("attn_distance", math.nan)
    if not math.isnan(distance):
        parts.append(f"Its mean attention distance is {distance:.1f} patches.")
    return " ".join(parts)
