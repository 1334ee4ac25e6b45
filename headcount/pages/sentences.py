"""Sentences on a run: its model and data, headlines, and what was not tested."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Any

from headcount import numbers
from headcount.core import amount
from headcount.pages.kinds import Leading, kinds_of, kinds_sentence, num_borderline, verdicts
from headcount.pages.names import heard
from headcount.results import Analysis, Record, RunRecord, Untested
from headcount.vocabulary import FRAME_TRAITS, LINKS, OF_RELATIONS, RELATIONS, SYNTAX, label_of

OFTEN = 0.2
"""Least share of queries whose largest weight is at one offset for a head to be said to do so."""

SHORT = 1 / 20
"""Texts with a smaller share of the tokens that a model can take have their length in headlines."""

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
    parts = [with_role(found)]
    if some := num_borderline(found):
        parts[0] += f" ({numbers.count(some)} borderline)"
    if tend:
        verb = "" if role else f"{_has(tend)} "
        parts.append(f"{numbers.count(tend)} {verb}a tendency")
    if rest:
        parts.append(f"{numbers.count(rest)} neither")
    return f"{numbers.listed(parts)}. {kinds_sentence(found)}."


def with_role(found: Sequence[Leading | None]) -> str:
    """How many heads have a role.

    >>> with_role([None, None])
    'None of the 2 heads has a role'
    """
    total, (role, _, _) = len(found), verdicts(found)
    return f"{_who(role, total)} {_has(role)} a role"


def first_lower(text: str) -> str:
    """The text with its first letter in lower case, to follow other words."""
    return text[:1].lower() + text[1:]


def _who(number: int, total: int) -> str:
    """How many heads of all, as the subject of a sentence."""
    if number == total:
        return f"All {total:,} heads" if total > 1 else "The only head"
    return f"{number:,} of {total:,} heads" if number else f"None of the {total:,} heads"


def _has(number: int) -> str:
    return "has" if number < 2 else "have"


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
    is_here = path.startswith(("/", ".", "~")) or "\\" in path or PureWindowsPath(path).drive
    if not is_here:
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
    """The corpus: "2,001 sentences, 25,148 words, 31,000 tokens of en_ewt-ud-dev.conllu".

    Texts that are so few that parts of them are compared are named as texts.
    """
    counts, few = record.counts, record.few_texts
    nouns = (
        (counts.sentences, record.inputs.item if few is None else "text"),
        (counts.words, "word"),
        (counts.tokens, "token"),
    )
    parts = [amount(*noun) for noun in nouns if noun[0]]
    if record.frame_ms is not None:
        seconds, words = counts.tokens * record.frame_ms / 1000, counts.target_tokens
        parts = [parts[0], f"{seconds:,.0f} s of sound", f"{amount(words, 'token')} of transcripts"]
    if record.grid is not None:
        parts[0] += f" of {record.grid.rows} x {record.grid.columns} patches"
    corpora = list(map(short_name, record.corpora))
    of = f"{', '.join(parts) or 'nothing'} of {numbers.listed(corpora) or 'an unnamed corpus'}"
    if few is None or not few.short:
        return of
    which = f"{amount(few.short, 'text')} {'is' if few.short == 1 else 'are'}"
    return f"{of} ({which} shorter than the segments that roles are tested on, and left out there)"


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


def frame_words(offset: float, frame_ms: float) -> str:
    """An offset in frames of sound, in words.

    >>> frame_words(-2.0, 20.0), frame_words(0.0, 20.0)
    ('40 ms earlier', 'on the frame itself')
    """
    side = "earlier" if offset < 0 else "later"
    return f"{abs(offset) * frame_ms:g} ms {side}" if offset else "on the frame itself"


def head_line(
    values: Mapping[str, float], is_first_above: bool = False, frame_ms: float | None = None
) -> str:
    """What a head does most, whatever its roles; unmeasured numbers are left out.

    Args:
        values: the head's numbers, by column.
        is_first_above: whether a finding above says how much the first token gets, too.
        frame_ms: milliseconds of a frame, if it looks at frames of sound.
    """
    unit = "token" if frame_ms is None else "frame"
    parts = []
    first = values.get("attn_first", math.nan)
    if not math.isnan(first):
        over = " over the whole corpus" if is_first_above else ""
        parts.append(
            f"It gives {numbers.percent(first)} of its attention to the first {unit}{over}."
        )
        if is_first_above:
            parts.append(
                "The share above is that of the tested half, without tokens near the start."
            )
    none = values.get("attn_none", math.nan)
    if has_sink := none >= NO_TOKEN:
        parts.append(
            f"{numbers.percent(none)} of its attention goes to its learned sink, to no token."
        )
    confidence, entropy = (values.get(name, math.nan) for name in ("confidence", "entropy"))
    which = "a patch" if "attn_distance" in values else "a token that is not special"
    which = which if frame_ms is None else "a frame of the sound"
    if not math.isnan(confidence):
        parts.append(f"Its largest weight on {which} is {numbers.weight(confidence)} on average.")
    share = values.get("positional_share", math.nan)
    if not math.isnan(share):
        where, queries = values["positional_offset"], numbers.percent(share)
        where = offset_words(where) if frame_ms is None else frame_words(where, frame_ms)
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


FEW = "few"
"""Reason of traits that have too few cases: more text would change it."""

SAID = (FEW, "no cases")
"""Reasons that headlines name."""

HALF = 0.5
"""Share of attention on the first token, or on no token, from which on a head is counted."""


def few_of(run: Analysis, site: str | None = None) -> Mapping[str, Untested]:
    """The traits that have too few cases, or none, by name; those that heads of a site can have."""
    few = {trait: why for trait, why in run.record.untested.items() if why.reason in SAID}
    if site is None or run.record.frame_ms is None:
        return few
    frames, of_text = {each.key for each in FRAME_TRAITS}, site == "decoder.self"
    return {trait: why for trait, why in few.items() if (trait not in frames) is of_text}


def needs_more(run: Analysis) -> bool:
    """Whether more text would let some trait be tested."""
    return any(why.reason == FEW for why in run.record.untested.values())


def nothing_tested(run: Analysis, site: str | None = None) -> bool:
    """Whether no trait of any head, or of any head of a site, was tested, as far as is known."""
    ours = [row.head for row in run.rows if site in (None, row.site)]
    traits = [trait for head in ours for trait in (run.traits or {}).get(head, ())]
    return bool(traits) and all(trait.verdict == "untested" for trait in traits)


def headline_of(run: Analysis, found: Sequence[Leading | None]) -> str:
    """What the heads do, then what was not tested; names the texts if they are few or short.

    Args:
        run: the run.
        found: what leads each head.
    """
    missing, where = not_tested(run), texts_of(run.record)
    known = [each for each in (first_token(run), learned_sinks(run)) if each]
    if nothing_tested(run):
        return " ".join([missing, *known])
    found_words = headline(found)
    if where:
        found_words = f"In {where}, {first_lower(found_words)}"
    return " ".join([found_words, *known, *filter(None, [missing])])


def texts_of(record: RunRecord) -> str:
    """The texts that a finding holds for, if these are few or short; else empty."""
    if record.few_texts is not None:
        return record.few_texts.words
    counts, limit = record.counts, record.signed.get("max_length")
    length = round(counts.tokens / max(counts.sentences, 1))
    if limit is None or not limit.isdecimal() or length >= SHORT * int(limit):
        return ""
    return f"{amount(counts.sentences, record.inputs.item)} of {amount(length, 'token')}"


def nothing_words(run: Analysis) -> str:
    """The words for a head that shows no role or tendency."""
    return "nothing was tested" if nothing_tested(run) else "no role or tendency"


def nothing_sentence(run: Analysis, site: str) -> str:
    """The same of a head of a site in a sentence of its own."""
    missing = not_tested(run, site)
    if nothing_tested(run, site):
        return missing
    if missing:
        return f"No tested trait is both beyond chance and strong enough. {missing}"
    return "No role or tendency: no trait is both beyond chance and strong enough."


def not_tested(run: Analysis, site: str | None = None) -> str:
    """The traits that have too few cases, with the reasons, in a sentence; empty without any.

    Traits with the same reason are named together.

    Args:
        run: the run.
        site: site whose heads are meant; all by default.
    """
    few, nothing = few_of(run, site), nothing_tested(run, site)
    reasons = [*dict.fromkeys(why.says for why in few.values())]
    begin = "Nothing was tested" if nothing else "Not tested"
    if nothing and len(reasons) < 2:
        return f"{': '.join([begin, *reasons])}."
    parts = []
    for says in reasons:
        names = [label_of(trait) for trait, why in few.items() if why.says == says]
        parts.append(f"{numbers.listed(names)} ({says})")
    return f"{begin}: {'; '.join(parts)}." if parts else ""


def first_token(run: Analysis) -> str:
    """How many heads rest on the first token, where sinks were not tested; else empty."""
    if "first" not in few_of(run) or not any("attn_first" in row.values for row in run.rows):
        return ""
    return _over_half(run, _many(run, "attn_first"), heard("the first token", run))


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
    names = {
        SYNTAX: (*RELATIONS, *(dependent for dependent, _ in RELATIONS.values())),
        LINKS: (word for name, its in run.record.links.items() for word in (name, its.key)),
    }
    searched = {each: " ".join(its).lower() for each, its in names.items()}
    return tuple(
        (each.words + searched.get(each, ""), f"No head {each.one}{why.get(each.key, '')}.")
        for each in run.record.traits
        if run.traits is not None and each.key not in shown
    )


def why_none(run: Analysis, role: str) -> str:
    """Why no head has a role: none was found, or the reason why it was not tested."""
    own = {trait: why for trait, why in run.record.untested.items() if why.role == role}
    traits = {
        trait.trait if trait.relation is None else OF_RELATIONS[trait.role].key
        for each in (run.traits or {}).values()
        for trait in each
        if trait.role == role and trait.verdict != "untested"
    }
    if not traits:
        reasons = [*dict.fromkeys(why.says for why in own.values())]
        return "; ".join(reasons) or "not tested"
    few = [label_of(trait) for trait, why in own.items() if why.reason in SAID]
    return f"none found ({numbers.listed(few)} not tested)" if few else "none found"
