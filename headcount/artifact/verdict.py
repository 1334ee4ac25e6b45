"""Verdict: what somebody who decides about a pruned model reads first.

The card, the page and the terminal begin with it: how much smaller, faster and worse the model is,
whether it was proved equal to what was measured, and how it is loaded.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from headcount import numbers
from headcount.core import Facts, Listing, amount
from headcount.results import (
    DATA_SETS,
    METRICS,
    ChoiceRecord,
    MetricChange,
    PruneRecord,
    SpeedRecord,
)

NOT_CHECKED = "Not checked"
EMBEDDING = ("similarity", "search")
"""Tasks of models that sentence-transformers loads, too."""
SMALL = 0.01
"""Largest drop of a model that is as good: a share of the dense model's score."""


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


def verdict_facts(record: PruneRecord) -> Facts:
    """The same lines, for documents."""
    return Facts(tuple(verdict_lines(record)))


def is_measured(record: PruneRecord) -> bool:
    """Whether size, speed and score are known, and whether it is equal to what was measured."""
    is_checked = _checked(record)[0] != NOT_CHECKED
    return None not in (record.size, record.speed, judged_on(record)) and is_checked


def finding(record: PruneRecord) -> str:
    """What pruning brought and cost, in a sentence.

    Args:
        record: The record of a pruned model.
    """
    gains = list[str]()
    if (size := record.size) is not None and size.pruned < size.dense:
        gains.append(f"{numbers.percent(1 - size.share)} smaller")
    if record.speed is not None and record.speed.cases[0].speedup.low > 1:
        gains.append(f"{record.speed.cases[0].speedup.value:.2f} times as fast")
    said = f"The pruned model is {' and '.join(gains)}"
    if not gains:
        said = f"The pruned model keeps {units_of(record, 'kept')}"
    if (key := judged_on(record)) is None:
        return f"{said}."
    return f"{said}{_ENDS[_word(record.data_sets[key].score)]}."


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
        yield _timed(record.speed, record.choice)
    elif record.ceiling is not None:
        most = f"{record.ceiling.value:.2f} times as fast by its FLOPs"
        at = amount(record.ceiling.tokens, "token")
        yield "Speed", f"not measured; at most {most} on one text of {at}"


def _timed(speed: SpeedRecord, choice: ChoiceRecord | None) -> tuple[str, str]:
    """The first case of the measured speed, and what was asked for if it is more."""
    case = speed.cases[0]
    found, wanted = case.speedup, 0.0 if choice is None else choice.limit.get("speedup") or 0.0
    asked = f"; {wanted:g} asked for" if wanted > found.value else ""
    word = "Faster" if found.low > 1 else "Slower" if found.high < 1 else "Not measurably faster"
    what = "generating" if case.new_tokens else "one forward pass"
    return word, (
        f"{found.value:.2f} times as fast (95\u202f%: {found.low:.2f} to {found.high:.2f}{asked}), "
        f"{what} at batch {case.batch}, {amount(case.length, 'token')}"
    )


def judged_on(record: PruneRecord) -> str | None:
    """The data set whose score counts: the test set, which chose nothing, if there is one."""
    return next((key for key in reversed(DATA_SETS) if key in record.data_sets), None)


def _score(record: PruneRecord) -> Iterator[tuple[str, str]]:
    if (key := judged_on(record)) is None:
        return
    found = record.data_sets[key]
    examples = f"on {amount(found.examples, 'held-out test example')}"
    if key != "test":
        examples = f"on {amount(found.examples, 'development example')}, which also made choices"
    yield _word(found.score), f"{_change(found.score)}, {examples}"


_GOOD, _NO_LOSS, _WORSE, _BETTER, _UNTESTED = (
    "As good",
    "No loss found",
    "Worse",
    "Better",
    "Score",
)
_ENDS: Mapping[str, str] = {
    _GOOD: f", and as good within {numbers.percent(SMALL, 0)}",
    _NO_LOSS: ", and no loss was found",
    _WORSE: ", but worse",
    _BETTER: ", and better",
    _UNTESTED: "",
}


def _word(score: MetricChange) -> str:
    """What the interval says; a model is as good if it excludes a drop of more than `SMALL`."""
    if score.low > 0:
        return _WORSE
    if score.high < 0:
        return _BETTER
    if not math.isfinite(score.low):
        return _UNTESTED
    return _GOOD if score.high <= SMALL * abs(score.before) else _NO_LOSS


def _change(score: MetricChange) -> str:
    """The score before and after; the share that is lost or gained, if the interval is sure."""
    before, after, by, *_ = score.cells
    low, high = map(numbers.change, score.interval)
    ends = f"; 95\u202f%: {low} to {high}" if math.isfinite(score.low) else ""
    if _word(score) in (_WORSE, _BETTER) and score.before > 0:
        share = score.after / score.before - 1
        by += f" or {numbers.percent(abs(share))} {'more' if share > 0 else 'less'}"
    name = METRICS.get(score.name, score.name)
    return f"{name} {before} → {after} ({by}{ends})"


def _checked(record: PruneRecord) -> tuple[str, str]:
    """What the certificate proves: every form is equal to another one, and some to the gated."""
    compared = record.comparisons
    if not any(each.is_with_gated for each in compared):
        return NOT_CHECKED, "the weights have changed since the heads were removed"
    forms = " = ".join(["gated", *(each.what.partition(" and ")[0] for each in compared)])
    share, number = (max(each.share for each in compared), max(each.sentences for each in compared))
    to = f"to {share:.0e} of the largest output" if share else "exactly"
    on = amount(number, "example") if number else "made-up inputs"
    return "Checked", f"certificate: {forms} {to}, on {on}"


ONNX = "ONNX and "
"""How the comparison of an export to ONNX begins."""

READERS: Mapping[str, str] = {
    "image-classification": "AutoImageProcessor",
    "transcription": "AutoProcessor",
    "": "",
}
"""What prepares inputs of each task; of all others, a tokenizer. A plan alone names no task."""


def loading(record: PruneRecord) -> str:
    """The line that loads the model from its folder without headcount."""
    listing = load_it(record)[0]
    return listing.text.splitlines()[1].partition(" = ")[2]


def load_it(record: PruneRecord) -> list[Listing]:
    """Lines that load and run the model from its folder, for each package that can.

    Args:
        record: The record of a pruned model.
    """
    trust = "" if record.plain else ", trust_remote_code=True"
    task = str(record.data_arguments.get("task") or "")
    reader, found = READERS.get(task, "AutoTokenizer"), list[Listing]()
    if task in EMBEDDING:
        found.append(
            _listing(
                "sentence-transformers",
                "from sentence_transformers import SentenceTransformer",
                f"model = SentenceTransformer(folder{trust})",
                'embeddings = model.encode(["a text"])',
            )
        )
    names = ", ".join(filter(None, (record.auto_class, reader)))
    lines = [
        f"from transformers import {names}",
        f"model = {record.auto_class}.from_pretrained(folder{trust})",
    ]
    if reader:
        lines.append(f"{_PREPARES[reader]} = {reader}.from_pretrained(folder)")
    found.append(_listing("transformers", *lines))
    is_exported = any(each.what.startswith(ONNX) for each in record.comparisons)
    if is_exported and reader == "AutoTokenizer":
        found.append(
            _listing(
                "ONNX Runtime, and the tokenizer from above",
                "import onnxruntime",
                'session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx")',
                'outputs = session.run(None, dict(tokenizer(["a text"], return_tensors="np")))',
            )
        )
    return found


def _listing(package: str, *lines: str) -> Listing:
    return Listing(f"Load it with {package}", "\n".join(lines))


_PREPARES: Mapping[str, str] = {
    "AutoTokenizer": "tokenizer",
    "AutoImageProcessor": "processor",
    "AutoProcessor": "processor",
}
