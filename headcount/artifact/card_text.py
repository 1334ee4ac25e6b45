"""Card: the README of a pruned model's folder, made from the record of the pruning.

It reports which heads were pruned and why, scores before and after with intervals, the comparison
of the compact with the gated model, which functions survived, and the measured speed beside its
ceiling.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from headcount.core import Head, table

Record = Mapping[str, Any]


def card(record: Record) -> str:
    """The head card for a `prune.json`; a model made from a plan has fewer sections."""
    parts = [f"# {record['model']}, {_left(record)}", _about(record), *_heads(record)]
    for key, title in (("test", "test set"), ("dev", "development set")):
        if key in record:
            parts += _numbers(record, key, title)
    parts += [*_gains(record), *_equality(record), *_functions(record), *_speed(record)]
    parts += [f"**Warning**: {warning}." for warning in record.get("warnings", ())]
    if "signature" in record:
        parts.append(f"`{record['signature']}`")
    return "\n\n".join(parts) + "\n"


def _left(record: Record) -> str:
    kept_heads = len(record["staying"])
    return f"{kept_heads} of {kept_heads + len(record['leaving'])} heads kept"


def _about(record: Record) -> str:
    made = "Pruned with headcount from a plan"
    if "method" in record:
        made = f"Pruned with headcount by {record['method']} (budget: {_budget(record['limit'])})"
    if options := _options(record.get("arguments") or {}):
        made += f", with {options}"
    if (updates := record.get("trained_on")) is not None:
        compensated = (
            f", compensated by {', '.join(stages)}" if (stages := record.get("mended")) else ""
        )
        made += (
            f"{compensated}, then trained for {updates:,} more updates with the dense model "
            "as teacher; "
            "budget, scores and compensation refer to the model before this training"
        )
    return (
        f"{made}. Loads with `headcount.load(folder)`, or with transformers alone by "
        f"`{record.get('auto_class', 'AutoModel')}.from_pretrained(folder, "
        "trust_remote_code=True)`."
    )


def _options(arguments: Record) -> str:
    """The options besides method and budget.

    >>> _options({"preset": None, "set": ["step=0.1"], "recover": 90, "tune": ["distilled=0.5"]})
    'step=0.1, a recovery of 90 updates (distilled=0.5)'
    """
    parts = [f"preset {arguments['preset']}"] if arguments.get("preset") else []
    parts += arguments.get("set") or ()
    if updates := arguments.get("recover"):
        tuned = ", ".join(arguments.get("tune") or ())
        parts.append(f"a recovery of {updates:,} updates" + (f" ({tuned})" if tuned else ""))
    return ", ".join(parts)


def _budget(limit: Record) -> str:
    """The budget as the user gave it.

    >>> _budget({"keep": {"encoder.self": 10, "decoder.cross": 20}}), _budget({"max_drop": 0.3})
    ('keep 10 at encoder.self, 20 at decoder.cross', 'max drop 0.3')
    """
    (name, value), *_ = limit.items()
    if isinstance(value, Mapping):
        value = ", ".join(f"{number} at {site}" for site, number in value.items())
    return f"{name.replace('_', ' ')} {value}"


def _heads(record: Record) -> Iterator[str]:
    """The pruned heads, and why they were pruned."""
    yield "## Pruned heads"
    scores = record.get("scores")
    rows = []
    for site in record["heads"]:
        gone = [head for head in record["leaving"] if Head.parse(head).site == site]
        stay = [head for head in record["staying"] if Head.parse(head).site == site]
        rows.append([site, str(len(stay)), str(len(gone)), ", ".join(gone) or "none"])
    yield table(["site", "kept", "pruned", "pruned heads"], rows)
    if scores:
        yield _why(record)
        order = sorted(scores, key=lambda head: scores[head])
        gone = set(record["leaving"])
        yield "<details><summary>Score of every head</summary>"
        yield table(
            ["head", "score", ""],
            [[head, f"{scores[head]:.4g}", "pruned" if head in gone else "kept"] for head in order],
        )
        yield "</details>"


def _why(record: Record) -> str:
    """What the scores mean, and how they decided which heads were pruned."""
    if (open_at := record.get("open")) is not None:
        number = ", ".join(f"{number} heads at {site}" for site, number in open_at.items())
        return (
            "Why: each head's score is log a of its gate after the gates were trained; gates above "
            f"0 are open rather than closed ({number}). The lowest-scoring heads of each budget "
            "were pruned."
        )
    if record.get("history"):
        return (
            f"Why: each head's score is what {record['method']} had learned about it by the end. "
            "The lowest-scoring heads of each budget were pruned."
        )
    return (
        f"Why: {record['method']} scored each head, and the lowest-scoring heads of each budget "
        "were pruned. A pruned head's score is from the step that pruned it, a kept head's is its "
        "last one. If heads were rescored after each step, scores from different steps are not "
        "comparable."
    )


def _numbers(record: Record, key: str, title: str) -> Iterator[str]:
    found = record[key]
    metric, control = found["metric"], (record.get("control") or {}).get(key)
    yield f"## Before and after, {title} ({found['examples']:,} examples)"
    headers = ["", "before", "after", "change", "95 % interval", "p"]
    rows = [
        _change_row(name, found, "score" if name == metric else "loss") for name in (metric, "loss")
    ]
    if control is not None:
        for name, kind in ((metric, "score"), ("loss", "loss")):
            rows.append(_change_row(f"control: {name}", control, kind))
        for name, kind in ((metric, "score"), ("loss", "loss")):
            rows.append(_change_row(f"from control to pruned: {name}", control["pruned"], kind))
    yield table(headers, rows)
    if control is not None:
        taught = any(training["taught"] for training in record["control"]["trainings"])
        yield (
            "Control: the dense model, trained in the same ways, for as many updates, on the same "
            "data" + (", but without the pruned model's teacher." if taught else ".")
        )
    if metric in ("bleu", "chrf"):
        yield f"p for {metric} is from sacreBLEU's paired bootstrap."
    if found["slices"]:
        rows = [_slice_row(name, found, part) for name, part in found["slices"].items()]
        more = ["after", "change", "95 % interval"]
        yield table(["examples", "number", f"{metric} before", *more, "loss before", *more], rows)


def _slice_row(name: str, dense: Record, part: Record) -> list[str]:
    """Score and loss of a slice; no p, because many slices are tested."""
    found = {**part, "higher_is_better": dense["higher_is_better"]}
    numbers = (_change_row(name, found, kind)[1:-1] for kind in ("score", "loss"))
    return [name, f"{part['examples']:,}", *chain(*numbers)]


def _change_row(name: str, found: Record, kind: str) -> list[str]:
    """One row of the table; changes are after minus before."""
    before, after = (_or_nan(found[kind][when]) for when in ("before", "after"))
    delta = found["drop" if kind == "score" else "rise"]
    sign = -1 if kind == "score" and found["higher_is_better"] else 1
    ends = sorted(sign * _or_nan(delta[end]) for end in ("low", "high"))
    is_known = not math.isnan(ends[0])  # one example has no interval
    interval = f"{_signed(ends[0])} to {_signed(ends[1])}" if is_known else "–"
    p = _or_nan(delta["p"])
    shown = "–" if math.isnan(p) else f"{p:.2g}"
    return [name, _number(before), _number(after), _signed(after - before), interval, shown]


def _gains(record: Record) -> Iterator[str]:
    if record.get("gains"):
        yield "## Compensation for the pruned heads (loss on the development set)"
        rows = [
            [
                gain["stage"],
                *(_number(_or_nan(gain[when])) for when in ("before", "after")),
                _signed(_or_nan(gain["after"]) - _or_nan(gain["before"]), 4),
                "yes" if gain["kept"] else "no",
            ]
            for gain in record["gains"]
        ]
        yield table(["stage", "before", "after", "change", "kept"], rows)


def _equality(record: Record) -> Iterator[str]:
    yield "## Equality of the compact and the gated model"
    compared = record.get("comparisons", ())
    if compared and not any(each["what"].endswith("gated") for each in compared):
        yield (
            "**Warning**: the weights have changed since the heads were removed. They were not "
            "compared with a gated model's, and the numbers above are from before the change."
        )
    elif after := _changed(record):
        yield (
            f"The gated model is the dense model after {after}, with these heads set to 0. Its "
            "weights differ from those of the model that was given."
        )
    else:
        yield "The gated model is the dense model with these heads set to 0."
    rows = [
        [
            each["what"],
            f"{each['sentences']:,}",
            f"{each['difference']:.2g}",
            f"{each['share']:.2g}",
            f"{each['tolerance']:.0g}",
        ]
        for each in compared
    ]
    yield table(
        ["", "examples", "largest difference", "share of the largest output", "tolerance"], rows
    )


def _changed(record: Record) -> str:
    """The stages that changed the weights of the model that was given; empty if none did."""
    stages = ["training with gates"] if record.get("history") else []
    stages += [gain["stage"] for gain in record.get("gains") or () if gain["kept"]]
    stages += record.get("mended") or ()
    return ", ".join([*stages, "training"] if record.get("trained_on") else stages)


def _functions(record: Record) -> Iterator[str]:
    found = record.get("functions")
    if found is None:
        return
    yield "## Functions"
    if not found:
        yield "No head has a role in the analysis."
        return
    analysed = found[0]["kept"] is not None
    rows = []
    for each in found:
        row = [each["role"], str(each["before"]), str(len(each["stayed"]))]
        if analysed:
            row += [str(len(each["kept"])), ", ".join(each["taken_over"]) or "none"]
        rows.append(row)
    more = ["kept with the role", "took it over"] if analysed else []
    yield table(["role", "heads before", "kept", *more], rows)


def _speed(record: Record) -> Iterator[str]:
    yield "## Speed"
    if "ceiling" in record:
        ceiling = record["ceiling"]
        yield (
            f"Ceiling by FLOPs: {ceiling['value']:.2f} times as fast in one forward "
            f"pass of {ceiling['tokens']} tokens."
        )
    found = record.get("speed")
    if not found:
        yield "Not measured. Run `headcount speed DENSE PRUNED --card` to add it."
        return
    rows = [
        [
            f"{each['mode']}, batch {each['batch']}, {_tokens(each)}",
            f"{each['speedup']['value']:.2f} ({each['speedup']['low']:.2f} to "
            f"{each['speedup']['high']:.2f})",
            f"{each['ceiling']:.2f}",
        ]
        for each in found["cases"]
    ]
    yield table(["case", "speedup, 95 % interval", "ceiling by FLOPs"], rows)
    yield from (f"**Warning**: {warning}." for warning in found["warnings"])


def _tokens(case: Record) -> str:
    added = f" + {case['new_tokens']}" if case["new_tokens"] else ""
    return f"{case['length']}{added} tokens"


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _number(value: float | None) -> str:
    if value is None or value != value:
        return "–"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4f}"


def _signed(value: float, digits: int = 3) -> str:
    """The change with a true minus; zero has no sign, and a tiny change shows its first digit.

    >>> _signed(-0.25), _signed(-0.0), _signed(0.00012), _signed(math.nan)
    ('−0.250', '0.000', '+0.0001', '–')
    """
    if value != value:
        return "–"
    shown = f"{value:+.{digits}f}" if value else f"{0:.{digits}f}"
    if value and not float(shown):
        shown = f"{value:+.{-math.floor(math.log10(abs(value)))}f}"
    return shown.replace("-", "−")
