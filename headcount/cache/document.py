"""What the plan of a cache shows: what is found under it, and which groups keep all tokens."""

from bisect import bisect_right
from collections.abc import Iterator
from math import isnan

from headcount.cache.result import (
    DENSE,
    ENOUGH_DRAWS,
    FAR,
    NEEDLES,
    CacheSize,
    GroupRow,
    JudgedRow,
    PlannedCache,
    few_draws,
)
from headcount.core import Block, Document, Heading, Table, Text, amount, size_in_words
from headcount.numbers import ends, listed, percent, signed
from headcount.pages import Note
from headcount.results import RANDOM, find, select
from headcount.statistics import FEWEST_CLUSTERS

STAYS = "as the model has it"
"""Header of the groups that can't stream, each with the reason."""


def cache_notes(found: PlannedCache) -> tuple[Note, ...]:
    """What a group keeps that streams, and how retrieval is scored."""
    record = found.record
    kept = f"{amount(record.sink, 'first token')} and the {amount(record.recent, 'last token')}"
    streaming = Note(
        "Streaming",
        f"A key/value group that streams keeps the {kept}; every other one keeps all tokens.",
        "Xiao et al., 2024, arXiv:2410.10819, section 2",
    )
    retrieval = Note(
        "Retrieval",
        "Share of an answer that a head copies from a needle, over needles that were found.",
        "Wu et al., 2024, arXiv:2404.15574",
    )
    return (streaming,) if record.asked is None else (streaming, retrieval)


def cache_document(found: PlannedCache) -> Document:
    """The document of a cache's plan."""
    lengths = dict.fromkeys(row.length for row in found.judged if row.length is not None)
    return Document(
        "Which key/value groups keep the whole cache",
        (
            Text(_saved(found), "lede"),
            Text(_verdict(found), "lede"),
            Text(_chosen(found)),
            *_sizes(found),
            Heading("What is answered under the plan"),
            Text(
                f"{_plans(found)} Needles stand where a streaming group does not keep them. Their "
                "kinds and texts played no part in scoring groups. A needle is found if every "
                "token of the answer is the likeliest. The next sentence is one of four, 25 % by "
                "chance. The loss is that of the right answer, per token. Differences are paired, "
                f"in percentage points. {_intervals(found)}"
            ),
            _answers(found, None, "What is answered under plans"),
            *(
                block
                for length in lengths
                for title in [Heading(f"In texts of {amount(length, 'token')}")]
                for block in (title, _answers(found, length))
            ),
            Heading("Which groups keep all tokens"),
            Text("The numbers of each layer's key/value groups, with their scores in brackets."),
            Table.of(
                ("layer", "keep all tokens", "stream", *[STAYS] * _has_stays(found)),
                _layers(found),
                "Groups that keep all tokens, and others",
            ),
        ),
    )


def _chosen(found: PlannedCache) -> str:
    """What was chosen, by what, and what it saves."""
    record, num = found.record, len(found.groups)
    streaming = sum(not row.full for row in found.groups)
    which = "drawn at random"
    if record.score != RANDOM:
        which = f"those with the lowest scores by {record.score}, up to {record.cut:.2g}"
    scored = ""
    if record.asked is not None:
        scored = f" Retrieval is scored on the {record.found} of {record.asked} needles it found."
    return (
        f"Of the {amount(num, 'key/value group')} of {record.model}, {streaming} "
        f"({percent(streaming / num)}) keep the first "
        f"{record.sink} and the last {amount(record.recent, 'token')} only (they stream): "
        f"{which}.{_asked(found, streaming)}{scored}"
    )


def _asked(found: PlannedCache, streaming: int) -> str:
    """How the budget led to the number of groups that stream."""
    record = found.record
    if not record.budget:
        return ""
    able = f"{streaming} of the {amount(record.able, 'group')} that can stream"
    text = f" {record.budget} streams {able}"
    if record.budget.startswith("--stream"):
        if record.able == len(found.groups):
            return ""
        return f"{text} ({percent(streaming / record.able)})."
    if not record.tried:
        return f"{text}, the fewest that make the cache so small."
    tried = ", ".join(
        f"{each.streaming} lose up to {max(0.0, 100 * each.drop):.0f}"
        for each in sorted(record.tried, key=lambda each: each.streaming)
    )
    return (
        f"{text}: the most by which no more needles are lost, by the upper end of the 95 % "
        f"interval. In the texts that score groups, {tried} points."
    )


def _streaming(found: PlannedCache) -> tuple[float, int]:
    """The share of the groups that could stream which do, and how many tokens they keep."""
    record, number = found.record, sum(not row.full for row in found.groups)
    return number / record.able, record.sink + record.recent


def _saved(found: PlannedCache) -> str:
    """How much smaller the cache is at a length that the model takes."""
    record, (share, kept) = found.record, _streaming(found)
    if (size := record.size) is None:
        left = 1 - share * (1 - min(1.0, kept / FAR))
        able = "the cache"
        if record.able < len(found.groups):
            able = f"the cache of the {amount(record.able, 'group')} that could stream"
        return f"At {FAR:,} tokens {able} is {percent(left)} as large."
    at = size.far
    dense, plan = size.of(at), size.of(at, share, kept)
    return (
        f"At {amount(at, 'token')} the cache is {percent(plan / dense)} as large: "
        f"{size_in_words(plan)}, not {size_in_words(dense)} ({size.dtype}, one text)."
    )


LENGTHS = (1000, 2000, 4000, 8000, 32000, 128000)
"""Numbers of tokens whose cache is stated, as far as the model takes them."""


def _sizes(found: PlannedCache) -> Iterator[Block]:
    """What the cache takes by length, beside the weights."""
    if (size := found.record.size) is None:
        return
    share, kept = _streaming(found)
    longest = size.longest or LENGTHS[-1]
    lengths = [each for each in LENGTHS if each < longest] + [longest] * (longest < LENGTHS[-1])
    rows = []
    for tokens in lengths:
        dense, plan = size.of(tokens), size.of(tokens, share, kept)
        cells = (dense, plan, BATCH * dense, BATCH * plan)
        one, other, *many = map(size_in_words, cells)
        saved = size_in_words(dense - plan)
        rows.append((f"{tokens:,}", one, other, saved, percent(plan / dense), *many))
    yield Heading("What the cache takes")
    yield Text(
        f"Computed from the bytes of a token in the model's own cache ({size.dtype}), up to the "
        f"{amount(longest, 'token')} that {'it takes' if size.longest else 'are stated here'}. Its "
        f"weights take {size_in_words(size.weights)}. {_outgrown(size, longest, share, kept)}"
    )
    many = (f"{BATCH} texts, whole", f"{BATCH} texts, under the plan")
    yield Table.of(
        ("tokens", "whole", "under the plan", "saved", "left", *many), rows, "Bytes by length"
    )


BATCH = 8
"""Number of texts of the batch whose cache is stated beside that of one."""


def _outgrown(size: CacheSize, longest: int, share: float, kept: int) -> str:
    """From how many tokens on the cache of a batch takes more than the weights."""

    def first(streaming: float) -> int:
        def taken(tokens: int) -> int:
            return BATCH * size.of(tokens, streaming, kept)

        return bisect_right(range(longest + 1), size.weights, key=taken)

    whole, plan = first(0.0), first(share)
    if whole > longest:
        return f"The cache of {BATCH} texts never outgrows them."
    under = f"from {plan:,} on" if plan <= longest else "never"
    return (
        f"The cache of {BATCH} texts outgrows them from {amount(whole, 'token')} on, under the "
        f"plan {under}."
    )


def _plans(found: PlannedCache) -> str:
    """What the names of plans mean."""
    score = "" if found.record.score == RANDOM else f", {found.record.score} the plan"
    drawn = amount(found.record.draws, "plan")
    return f"Here dense is the whole cache{score}, and random {drawn} with as many random groups."


def _intervals(found: PlannedCache) -> str:
    """What intervals cover, and why some numbers have none."""
    text = (
        "Intervals are 95 %, over texts; more texts (--per-length) make them narrower. A "
        "difference has none if it is the same in every text, or if there are fewer than "
        f"{FEWEST_CLUSTERS}."
    )
    if few_draws(found.record.draws):
        return f"{text} Fewer than {ENOUGH_DRAWS} random plans have no interval."
    return f"{text} Those of random plans also cover the draw of plans."


def _verdict(found: PlannedCache) -> str:
    """What the plan costs, and whether it is better than chance."""
    score, needles = found.record.score, select(found.judged, kind=NEEDLES, length=None)
    dense, plan, random = (find(needles, plan=name) for name in (DENSE, score, RANDOM))
    assert dense is not None and plan is not None and random is not None
    *first, last = sorted(found.record.lengths) or (0,)
    sizes = [*(f"{each:,}" for each in first), amount(last, "token")]
    where = f"texts of {listed(sizes)}" if last else "long texts"
    whole = (
        f"Needles are facts hidden in {where}. The model finds {_share(dense.right)} of "
        f"{amount(dense.questions, 'needle')} with its whole cache"
    )
    if not dense.right:
        return f"{whole}, so needles can't judge the plan; next sentences may."
    by, _, within = _signed(plan, dense).partition(" ")
    under = (
        f"{whole} and {_share(plan.right)} under the plan, a change of "
        f"{' '.join(filter(None, [by, 'percentage points', within]))}.{_fewer(found, plan)}"
    )
    if plan is random or few_draws(found.record.draws):
        return under
    if plan.against_random_low > 0:
        better = "beyond chance"
    elif plan.against_random_high < 0:
        better = "worse than chance: choose another --score"
    else:
        more = "ask more needles, or " * (not plan.against_dense_high < 0)
        better = f"within chance: {more}choose another --score"
    return (
        f"{under} Plans with as many random groups find {_share(random.right)}; the difference "
        f"from them, {_signed(plan, random)}, is {better}."
    )


def _fewer(found: PlannedCache, plan: JudgedRow) -> str:
    """What to do about a plan under which less is found than with the whole cache."""
    streaming, able = sum(not row.full for row in found.groups), found.record.able
    if not (plan.against_dense_high < 0 and streaming > 1):
        return ""
    half, one = streaming // 2, streaming - 1
    text = f" Fewer groups that stream lose less: --stream {half / able:.2g} streams {half}"
    return text + ("." if half == one else f", --stream {one / able:.2g} one fewer ({one}).")


def _answers(found: PlannedCache, length: int | None, label: str = "") -> Table:
    """What is answered under every plan, in texts of a length or in all."""
    rows = select(found.judged, length=length)
    beside = {(row.kind, row.plan): row for row in rows}
    return Table.of(
        ("asked", "plan", "right", "95 %", "against dense", "against random", "loss (nats)"),
        (
            (
                f"{row.questions} x {row.kind}",
                row.plan,
                _share(row.right),
                ends(row.right_low, row.right_high, percent),
                *(
                    "" if row.plan == other else _signed(row, beside[row.kind, other], "")
                    for other in (DENSE, RANDOM)
                ),
                f"{row.loss:.2f}",
            )
            for row in sorted(rows, key=lambda row: row.kind)
        ),
        label,
    )


def _share(right: float) -> str:
    """A share of answers, with the decimal that its differences have."""
    return percent(right, None if right in (0, 1) else 1)


def _signed(row: JudgedRow, other: JudgedRow, always: str = " in every text") -> str:
    """What a plan's share is above that of another plan, in percentage points with its interval.

    It is the difference of the two shares as they are shown, so that a reader who subtracts finds
    the same number.

    Args:
        row: the plan.
        other: the dense model's row, or that of random plans.
        always: what stands for the interval where texts are alike.
    """
    name = f"against_{other.plan if other.plan == DENSE else RANDOM}"
    low, high = (100 * getattr(row, f"{name}{end}") for end in ("_low", "_high"))
    mean = signed(round(100 * row.right, 1) - round(100 * other.right, 1), 1)
    if low == high:
        return f"{mean}{always}"
    return mean + ("" if isnan(low) else f" ({signed(low, 1)} to {signed(high, 1)})")


def _has_stays(found: PlannedCache) -> bool:
    """Whether some groups could not stream."""
    return any(row.stays for row in found.groups)


def _layers(found: PlannedCache) -> Iterator[tuple[str, ...]]:
    """The groups of each layer."""
    by_layer = dict[int, list[GroupRow]]()
    for row in found.groups:
        by_layer.setdefault(row.layer, []).append(row)
    for layer, rows in by_layer.items():
        full, streaming = (
            ", ".join(
                f"{row.group} ({row.score:.2g})"
                for row in rows
                if row.full is full and not row.stays
            )
            for full in (True, False)
        )
        stay = ", ".join(str(row.group) for row in rows if row.stays)
        why = next((row.stays for row in rows if row.stays), "")
        cells = (f"{stay}: {why}" if stay else "",) * _has_stays(found)
        yield str(layer), full, streaming, *cells
