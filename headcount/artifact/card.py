"""Head card: the README of a pruned model's folder, and what the page says of a pruned model.

It reports which heads were pruned and why, scores before and after with intervals, the comparison
of the compact with the gated model, which functions survived, and the measured speed beside its
ceiling.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headcount import numbers
from headcount.artifact.verdict import finding, load_it, units_of, verdict_facts
from headcount.core import (
    Block,
    Code,
    Document,
    Head,
    Heading,
    Table,
    Text,
    Warned,
    amount,
    sorted_by,
)
from headcount.results import (
    METRICS,
    ChoiceRecord,
    ControlChange,
    DataSetChange,
    PruneRecord,
    SliceChange,
)
from headcount.vocabulary import SKILLS


def head_card(record: PruneRecord) -> Document:
    """The head card; a model made from a plan has fewer sections."""
    return Document(
        f"{record.model}, {units_of(record, 'kept')} kept",
        (
            Text(finding(record), "lede"),
            verdict_facts(record),
            *load_it(record),
            *_about(record),
            *measured_blocks(record),
        ),
    ).ending(record.warnings, str(record.signature or ""))


def measured_blocks(record: PruneRecord) -> Iterator[Block]:
    """Every number before and after, the pruned heads, the certificate, roles, and speed."""
    yield from _numbers(record, "test", "test set")
    yield from _numbers(record, "dev", "development set")
    yield from _heads(record)
    yield from _stages(record)
    yield from _equality(record)
    yield from _int8(record)
    yield from _functions(record)
    yield from _skills(record)
    yield from _speed(record)


def _about(record: PruneRecord) -> Iterator[Block]:
    made = "Pruned with headcount from a plan"
    if (choice := record.choice) is not None:
        by = choice.method_used
        if choice.compared:
            losses = ", ".join(f"{name} {loss:.4g}" for name, loss in choice.compared.items())
            by += f", the best of some scores on this model (losses: {losses})"
        made = f"Pruned with headcount by {by} (budget: {_budget(choice.limit)})"
    if options := _options(record.arguments):
        made += f", with {options}"
    if (updates := record.trained_on) is not None:
        stages = record.kept_stages
        compensated = f", compensated by {', '.join(stages)}" if stages else ""
        made += (
            f"{compensated}, then trained for {amount(updates, 'more update')} with the dense "
            "model as teacher; budget, scores and compensation refer to the model before this "
            "training"
        )
    yield Text(
        f"{made}. In the lines above, folder is the path of this folder; headcount.load reads it, "
        "too. The certificate shows that these files compute what was measured, and the score how "
        "good that is."
    )


def _options(arguments: Mapping[str, Any]) -> str:
    """The options besides method and budget.

    >>> _options({"preset": None, "options": ["step=0.1"], "recover": 9, "tune": ["distilled=0.5"]})
    'step=0.1, a recovery of 9 updates (distilled=0.5)'
    """
    parts = [f"preset {arguments['preset']}"] if arguments.get("preset") else []
    parts += _texts(arguments.get("options", arguments.get("set")))  # "set" before version 0.3
    if isinstance(updates := arguments.get("recover"), int) and updates:
        tuned = ", ".join(_texts(arguments.get("tune")))
        parts.append(
            f"a recovery of {amount(updates, 'update')}" + (f" ({tuned})" if tuned else "")
        )
    return ", ".join(parts)


def _texts(given: Any) -> list[str]:
    """The entries of an argument that is a list; records hold arguments of any type."""
    return list(map(str, given)) if isinstance(given, list | tuple) else []


def _budget(limit: Mapping[str, Any]) -> str:
    """The budget as the user gave it.

    >>> _budget({"keep": {"encoder.self": 10, "decoder.cross": 20}})
    'keep 10 at encoder.self, 20 at decoder.cross'
    >>> _budget({"speedup": 1.2, "max_drop": "1%"})
    'speedup 1.2, max drop 1%'
    """
    parts = []
    for name, value in limit.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{number} at {site}" for site, number in value.items())
        parts.append(f"{name.replace('_', ' ')} {value}")
    return ", ".join(parts)


def _heads(record: PruneRecord) -> Iterator[Block]:
    """The pruned heads, and why they were pruned."""
    yield Heading("Pruned heads")
    yield Text(f"Heads are numbered as in {record.model}, from 0.")
    rows = list[tuple[str, ...]]()
    for site, numbers_ in record.heads.items():
        for layer, number in enumerate(numbers_):
            gone = [name for name in record.pruned if Head.parse(name).layer_id == (site, layer)]
            if gone:
                kept = f"{number - len(gone)} of {number}"
                rows.append((site, str(layer), kept, ", ".join(gone)))
    if rows:
        yield Text("Layers that are not in the table keep all heads.")
    yield Table.of(("site", "layer", "kept", "pruned heads"), rows)
    yield from _neurons(record)
    yield from (Warned(each.sentence) for each in record.unlisted)
    if record.choice is not None and (named := record.choice.protected):
        yield Text(f"Protected, so kept by any method: {', '.join(named)}.")
    if record.choice is None or not (scores := record.choice.scores):
        return
    yield Text(_why(record.choice))
    order = sorted_by(scores, scores.__getitem__)
    are_pruned = set(record.pruned)
    yield Table.of(
        ("head", "score", "fate"),
        (
            (head, numbers.minus(f"{scores[head]:.4g}"), "pruned" if head in are_pruned else "kept")
            for head in order
        ),
        "Score of every head",
        is_detail=True,
    )


def _neurons(record: PruneRecord) -> Iterator[Block]:
    """How many neurons each layer keeps."""
    if not record.neurons:
        return
    yield Text(
        "Neurons of feed-forward networks were pruned, too, under the same budget; plan.json names "
        "those that are kept."
    )
    rows = [
        (each.site, str(each.layer), f"{each.kept:,}", f"{each.total:,}") for each in record.neurons
    ]
    yield Table.of(("network", "layer", "neurons kept", "of"), rows)


def _why(choice: ChoiceRecord) -> str:
    """What the scores mean, and how they decided which heads were pruned."""
    if choice.open is not None:
        number = ", ".join(
            f"{amount(number, 'head')} at {site}" for site, number in choice.open.items()
        )
        return (
            "Why: each head's score is log a of its gate after the gates were trained; gates above "
            f"0 are open rather than closed ({number}). The lowest-scoring heads of each budget "
            "were pruned."
        )
    if choice.history:
        return (
            f"Why: each head's score is what {choice.method} had learned about it by the end. "
            "The lowest-scoring heads of each budget were pruned."
        )
    return (
        f"Why: {choice.method_used} scored each head, and the lowest-scoring heads of each budget "
        "were pruned. A pruned head's score is from the step that pruned it, a kept head's is its "
        "last one. If heads were rescored after each step, scores from different steps are not "
        "comparable."
    )


def _numbers(record: PruneRecord, key: str, title: str) -> Iterator[Block]:
    found = record.data_sets.get(key)
    if found is None:
        return
    control = None if record.pipeline is None else record.pipeline.control
    beside = None if control is None else control.data_sets.get(key)
    yield Heading(f"Before and after, {title} ({amount(found.examples, 'example')})")
    headers = ("metric", "before", "after", "change", "95 % interval", "p")
    rows = _change_rows(found)
    yield Table.of(headers, rows if beside is None else rows + _control_rows(beside))
    if control is not None and beside is not None:
        lacks = any(training.lacks_teacher for training in control.trainings)
        taught = any(training.taught for training in control.trainings)
        with_teacher = " and with the same teacher, the dense model itself" if taught else ""
        teacher = ", but without the pruned model's teacher" if lacks else with_teacher
        yield Text(
            "Control: the dense model, trained in the same ways, for as many updates, on the same "
            f"data{teacher}."
        )
    yield Text(
        "Each p is two-sided and not corrected for the number of rows; it is below 0.05 where the "
        "interval leaves 0 out."
    )
    if key == "dev" and (chose := _chosen_on_dev(record)):
        yield Text(f"These examples chose {chose}, so these numbers are optimistic.")
    if found.slices:
        rows = [_slice_row(name, part) for name, part in found.slices.items()]
        more = ["after", "change", "95 % interval"]
        name = METRICS.get(found.score.name, found.score.name)
        headers = ("group", "examples", f"{name} before", *more, "loss before", *more)
        yield Table.of(headers, rows)


def _chosen_on_dev(record: PruneRecord) -> str:
    """What the development set chose: the budget, if its drop was limited, and what followed."""
    choice, pipeline = record.choice, record.pipeline
    searched = choice is not None and "max_drop" in choice.limit
    parts = ["the number of heads"] if searched else []
    parts += ["which stages of compensation are kept"] if pipeline and pipeline.stages else []
    return " and ".join(parts)


def _change_rows(found: DataSetChange | SliceChange, of: str = "") -> list[list[str]]:
    """The score, and the loss if that is another number."""
    changes = [found.loss] if found.score.name == "loss" else [found.score, found.loss]
    return [[f"{of}{METRICS.get(each.name, each.name)}", *each.cells] for each in changes]


def _control_rows(control: ControlChange) -> list[list[str]]:
    return [
        *_change_rows(control.trained, "control: "),
        *_change_rows(control.pruned, "from control to pruned: "),
    ]


def _slice_row(name: str, part: SliceChange) -> list[str]:
    """Score and loss of a slice; no p, because many slices are tested."""
    return [name, f"{part.examples:,}", *part.score.cells[:-1], *part.loss.cells[:-1]]


def _stages(record: PruneRecord) -> Iterator[Block]:
    if record.pipeline is not None and record.pipeline.stages:
        yield Heading("Compensation for the pruned heads (loss on the development set)")
        rows = [
            [
                each.stage,
                numbers.effect(each.before),
                numbers.effect(each.after),
                numbers.change(each.after - each.before),
                each.verdict,
            ]
            for each in record.pipeline.stages
        ]
        yield Table.of(("stage", "before", "after", "change", "verdict"), rows)


def _equality(record: PruneRecord) -> Iterator[Block]:
    yield Heading("Equality of the compact and the gated model")
    compared = record.comparisons
    if not any(each.is_with_gated for each in compared):
        yield Warned(
            "the weights have changed since the heads were removed. They were not compared with a "
            "gated model's, and the numbers above are from before the change"
        )
    elif after := _changed(record):
        yield Text(
            f"The gated model is the dense model after {after}, with these heads set to 0. Its "
            "weights differ from those of the model that was given."
        )
    else:
        yield Text("The gated model is the dense model with these heads set to 0.")
    rows = [
        [
            each.what,
            f"{each.sentences:,}",
            f"{each.difference:.2g}",
            f"{each.share:.2g}",
            f"{each.tolerance:.0g}",
        ]
        for each in compared
    ]
    headers = (
        "compared",
        "examples",
        "largest difference",
        "share of the largest output",
        "tolerance",
    )
    yield Table.of(headers, rows)
    if runs := dict.fromkeys(run for each in compared for run in each.runs):
        yield Text(f"The models were also compared on short random batches: {', '.join(runs)}.")
    if by_head := max((each.by_head or 0.0 for each in compared), default=0.0):
        yield Text(
            f"There, no head of the reloaded model differs by more than {by_head:.1g} of its norm."
        )


def _int8(record: PruneRecord) -> Iterator[Block]:
    """What 8 bits save and cost, beside the pruned model."""
    if (found := record.int8) is None:
        return
    yield Heading("In 8 bits, as onnx/model_int8.onnx")
    before, after = (numbers.effect(each / 1e6) for each in (found.bytes_before, found.bytes_after))
    on = amount(found.change.examples, "example")
    files = f" of {', '.join(found.data)}" if found.data else ""
    yield Text(
        f"{before} → {after} MB. The pruned model and this file in ONNX Runtime, on {on}{files}:"
    )
    headers = ("metric", "pruned", "in 8 bits", "change", "95 % interval", "p")
    yield Table.of(headers, _change_rows(found.change))


def _changed(record: PruneRecord) -> str:
    """The stages that changed the weights of the model that was given; empty if none did."""
    has_gates = record.choice is not None and record.choice.history
    stages = ["training with gates"] if has_gates else []
    stages += record.kept_stages
    return ", ".join([*stages, "training"] if record.trained_on else stages)


def _functions(record: PruneRecord) -> Iterator[Block]:
    found = record.functions
    if found is None:
        return
    yield Heading("Functions")
    if not found:
        yield Text("No head has a role in the analysis.")
        return
    rows, is_analysed = [], found[0].kept is not None
    for each in found:
        row = [each.role, str(each.before), str(len(each.stayed))]
        if is_analysed:
            row += [str(len(each.kept or ())), ", ".join(each.taken_over or ()) or "none"]
        rows.append(row)
    more = ["kept with the role", "took it over"] if is_analysed else []
    yield Table.of(("role", "heads before", "kept", *more), rows)


def _skills(record: PruneRecord) -> Iterator[Block]:
    """What the model can still do."""
    if not record.skills:
        return
    yield Heading("Skills")
    yield Text(
        "Both models were asked the same: to continue repeated random tokens (induction), for "
        "needles in long texts (retrieval), also in other words (answers), and few-shot tasks that "
        "the dense model can do (function vector)."
    )
    rows = [
        (
            SKILLS[each.skill].label,
            numbers.percent(each.before),
            numbers.percent(each.after),
            f"{numbers.points(each.after - each.before)} ({numbers.points(each.low)} to "
            f"{numbers.points(each.high)})",
            numbers.count(each.cases),
        )
        for each in record.skills
    ]
    headers = ("skill", "dense, right", "pruned, right", "points, 95 % interval", "cases")
    yield Table.of(headers, rows)


def _speed(record: PruneRecord) -> Iterator[Block]:
    yield Heading("Speed")
    if record.ceiling is not None:
        yield Text(
            f"Ceiling by FLOPs: {record.ceiling.value:.2f} times as fast in one forward "
            f"pass of {amount(record.ceiling.tokens, 'token')}."
        )
    if record.cache is not None:
        yield Text(record.cache.sentence)
    if record.speed is None:
        yield Text("Not measured. To add it:")
        yield Code("headcount speed DENSE PRUNED --card")
        return
    rows = [
        [
            f"{each.mode}, batch {each.batch}, {each.size}",
            f"{each.speedup.value:.2f} ({each.speedup.low:.2f} to {each.speedup.high:.2f})",
            f"{each.ceiling:.2f}",
        ]
        for each in record.speed.cases
    ]
    headers = ("case", "speedup, 95 % interval", "ceiling by FLOPs")
    yield Table.of(headers, rows)
    yield from map(Warned, record.speed.warnings)
