"""Explanations as documents: every sentence and number, for one prompt and for several."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headcount.core import Chart, Table, Text, styled
from headcount.explanation import (
    LEVELS,
    AreaRow,
    CircuitRow,
    EffectRow,
    Explained,
    ExplanationRecord,
    FaithfulnessRow,
    JointRow,
    LayersRow,
    PromptRow,
    WrittenRow,
)
from headcount.explanation.circuits_document import faithfulness_curve, latex_rows
from headcount.explanation.opening import headline
from headcount.pages import document_of

NAN = math.nan


def made_explained(heads: Sequence[str], prompts: int = 16) -> Explained:
    """Effects that fall from head to head; the last head lowers what is predicted."""
    sizes = [2.5 / (1 + place) for place, _ in enumerate(heads)]
    sizes[-1] = -1.25
    effects = [
        EffectRow(head, effect, size * factor, size - 0.5, size + 0.5, size + 0.1, size - 0.1)
        for effect, factor in [
            ("attribution", 1.0),
            ("zero", 1.5),
            ("corrupt", 2.0),
            ("estimate", 1),
        ]
        for head, size in zip(heads, sizes, strict=True)
    ]
    parts = {"embeddings": 0.25, "mlp.0": 1.0, "mlp.1": -3.0, "biases": 0.5}
    effects += [EffectRow(name, "attribution", each, *[NAN] * 4) for name, each in parts.items()]
    together = (1.5, 1.25, 1.75)
    joint = (
        JointRow(
            *("zero", "zero", 1, heads[0], 3.75, 3.0, 4.5, 3.75, 0.0, 0.0, 0.5, 0.25, 0.75),
            *(0.375, 0.625, 12.0, 16.0),
        ),
        JointRow(
            *("zero", "zero", 3, " ".join(heads[:3]), *together, 6.5, -6.0, -4.0, 0.5, 0.25, 0.75),
            *(0.375, 0.625, 10.0, 15 + 2 / 3),
        ),
        JointRow(
            *("zero", "attribution", 3, f"{' '.join(heads[:3])} | {' '.join(heads[1:4])}"),
            *(*together, 9.0, -6.0, -4.0, 0.5, 0.0, 1.0, 0.375, 0.625, 7.0, 16.0),
        ),
    )
    row = PromptRow(
        "When Mary and John", " Mary", " John", " Ma|ry", "When Mary and Tom", 4.0, 1.0, 0.5
    )
    record = ExplanationRecord(
        signature="headcount:0|model:decoder|draws:3",
        warnings=(),
        model="decoder",
        kind="causal-lm",
        first=False,
        value=4.75,
        low=4.0,
        high=5.5,
        second=1.0,
        logit=sum(sizes) + sum(parts.values()),
        looks="from where the prediction is made at the target's word",
        means_over="prompts",
    )
    layers = (
        LayersRow(0, 0, 0.25, 0.0, 0.5),
        LayersRow(1, 1, -1.0, -1.5, -0.5),
        LayersRow(0, 1, 2.0, 1.5, 2.5),
    )
    return Explained(record, tuple(effects), joint, layers, (row,) * prompts)


def made_circuits() -> dict[str, Any]:
    """Curves of two rankings and of random heads, and what is read off them."""
    curves = {"mean": (0.0, 0.85, 0.97, 1.0), "causal_gates": (0.0, 0.5, 1.1, 1.0)}
    curves["random"] = (0.0, 0.1, 0.3, 1.0)
    sizes = (0, 2, 9, 12)
    rows = tuple(
        FaithfulnessRow(ranking, size, value, value - 0.1, value + 0.1, size / 2)
        for ranking, values in curves.items()
        for size, value in zip(sizes, values, strict=True)
    )
    names = " ".join(f"dec.{n // 3}.{n % 3}" for n in range(9))
    circuits = []
    for ranking in curves:
        for level in LEVELS:
            here = [row for row in rows if row.ranking == ranking]
            row = next(each for each in here if each.value >= level)
            said = "" if ranking == "random" else f"{names} | {names}"
            chance = row.heads**2 / 12
            circuits.append(CircuitRow(**vars(row), level=level, chance=chance, names=said))
    areas = tuple(AreaRow(ranking, 0.7, 0.6, 0.8, 0.3, 0.2, 0.4) for ranking in curves)
    return {"faithfulness": rows, "circuits": tuple(circuits), "areas": areas}


def test_both_levels_of_faithfulness_are_drawn() -> None:
    rows = [FaithfulnessRow("mean", size, 0.1, 0.0, 0.2, size / 2) for size in (1, 2)]
    (axes,) = faithfulness_curve(rows, str).axes
    assert axes.get_ylim() == pytest.approx((-0.25, 1.25))


@pytest.fixture
def found() -> Explained:
    return made_explained([f"dec.{n // 3}.{n % 3}" for n in range(12)])


def text_of(found: Explained) -> str:
    return document_of(found).markdown()


def test_what_is_said_first(found: Explained) -> None:
    text = text_of(found)
    assert (
        "decoder prefers the targets of 16 prompts to their rivals by 4.75 (4.00 to 5.50) nats. "
        "dec.0.0 (+2.50), dec.0.1 (+1.25), dec.0.2 (+0.83) raise it most, and "
        "dec.3.2 (−1.25) lowers it most (attribution, in nats). dec.0.0 (+3.75)"
    ) in text
    alone = made_explained(["dec.0.0", "dec.0.1"], prompts=1)
    alone = replace(alone, record=replace(alone.record, low=NAN, high=NAN))
    assert "decoder prefers “ Mary” to “ John” by 4.75 nats (P(“ Mary”) = 0.5)." in text_of(alone)


def test_a_page_of_many_prompts_begins_with_names_and_their_map(found: Explained) -> None:
    first, chart, second, *_ = document_of(found).blocks
    assert isinstance(first, Text) and first.kind == "lede"
    assert (
        first.text == "dec.0.0, dec.0.1 and dec.0.2 raise the predictions most; dec.3.2 lowers "
        "them most."
    )
    assert isinstance(chart, Chart) and chart.shrinks and isinstance(second, Text)
    assert second.text.startswith("decoder prefers the targets")
    only = [row for row in found.effects if row.part in ("dec.0.0", "dec.3.2")]
    assert headline(replace(found, effects=tuple(only[:1]))) == (
        "dec.0.0 raises the predictions most."
    )
    lowering = [row for row in only if row.part == "dec.3.2"]
    assert headline(replace(found, effects=tuple(lowering))) == (
        "dec.3.2 lowers the predictions most."
    )


def test_single_heads_are_in_the_order_that_is_said(found: Explained) -> None:
    changed = {("dec.3.1", "zero"): 9.0, ("dec.3.2", "attribution"): 0.01}
    changed |= {("dec.3.1", "attribution"): -0.01, ("dec.0.0", "attribution"): -7.0}
    rows = [
        replace(row, value=changed.get((row.part, row.effect), row.value)) for row in found.effects
    ]
    text = text_of(replace(found, effects=tuple(rows)))
    assert (
        "The table has the 10 heads with the largest effects “attribution” and, below them, for "
        "every other effect the 3 heads that raise the prediction most and the one that lowers it "
        "most."
    ) in text
    table = text.split("## Single heads")[1].split("## ")[0]
    named = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| dec")]
    assert named[:10] == [f"dec.{n // 3}.{n % 3}" for n in range(10)]
    assert {*named[10:]} == {"dec.3.1", "dec.3.2"}, "zeroed, 3.1 matters most and 3.2 lowers most"
    alone = text_of(replace(found, effects=tuple(each for each in rows if each.effect == "zero")))
    assert "Heads are sorted by the size of their effect “zeroed”." in alone


def test_replaced_heads_of_the_first_layers_are_said(found: Explained) -> None:
    said = ": replacing these changes every later layer, whatever the prompt."
    begins = "Heads of the first two layers lead for"
    assert f"{begins} zeroing (dec.0.0, dec.0.1, dec.0.2){said}" in text_of(found)
    one = made_explained(["dec.1.5", "dec.7.0", "dec.2.1", "dec.9.9"])
    assert f"{begins} zeroing (dec.1.5){said}" in text_of(one)
    assert said not in text_of(made_explained(["dec.2.0", "dec.2.1", "dec.2.2"]))
    patched = tuple(each for each in one.effects if each.effect != "zero")
    assert said not in text_of(replace(one, effects=patched))
    means = tuple(replace(row, effect="mean") for row in one.effects if row.effect == "zero")
    assert f"{begins} means (dec.1.5){said}" in text_of(replace(one, effects=(*patched, *means)))
    both = text_of(replace(one, effects=(*one.effects, *means)))
    assert f"{begins} zeroing (dec.1.5) and means (dec.1.5){said}" in both


def test_a_target_that_is_hardly_predicted_comes_first(found: Explained) -> None:
    warned = replace(found, record=replace(found.record, warnings=("it was hardly predicted",)))
    text = text_of(warned)
    assert text.split("\n\n")[1] == "Warning: it was hardly predicted."
    assert text.count("hardly predicted") == 1


def test_the_parts_are_beside_the_logit(found: Explained) -> None:
    text = text_of(found)
    assert "Of the MLPs, mlp.0 raises it most, +1.00, and mlp.1 lowers it most, −3.00." in text
    rest = tuple(row for row in found.effects if not row.part.startswith("mlp."))
    low, high = (
        replace(next(row for row in found.effects if row.part == "mlp.1"), part="mlp.7", value=each)
        for each in (-0.5, 0.5)
    )
    lowering = [row for row in found.effects if row.part == "mlp.1"]
    said = text_of(replace(found, effects=(*rest, *lowering, low)))
    assert "No MLP raises it; mlp.1 lowers it most, −3.00." in said
    said = text_of(replace(found, effects=(*rest, high)))
    assert "Of the MLPs, mlp.7 raises it most, +0.50. A logit" in said
    rows = {
        line.split("|")[1].strip(): line.split("|")[2].strip()
        for line in text.splitlines()
        if line.count("|") == 3
    }
    heads = sum(row.value for row in found.of("attribution").values() if row.is_head)
    assert rows["heads"] == f"{heads:.2f}" and rows["MLPs"] == "−2.00"
    assert rows["logit"] == f"{found.record.logit:.2f}" and "other heads" not in rows
    few = replace(found, effects=found.effects[1:])
    assert "| other heads |   2.50 |" in text_of(few)


def test_sums_that_mislead_are_said(found: Explained) -> None:
    text = text_of(found)
    assert (
        "The best heads together have a smaller effect than the sum of their single effects: "
        "zeroed 1.50, not 6.50 (3 heads). The sum counts an effect several times where heads share "
        "it, for example where one reads what another writes. Which heads do was not measured "
        "(--backups 3)."
    ) in text
    assert "The best heads of each half of the prompts were chosen on the other half." in text
    less = replace(found.joint[1], value=9.0, excess_low=1.0, excess_high=3.0)
    larger = text_of(replace(found, joint=(less,)))
    assert "have a larger effect than the sum of their single effects: zeroed 9.00" in larger
    assert "A single effect is small where other heads make up for the missing one" in larger
    same = replace(found.joint[1], excess_low=-6.0, excess_high=1.0)
    assert "was not measured" not in text_of(replace(found, joint=(found.joint[0], same)))
    near = replace(found.joint[1], value=6.0, excess_low=-0.6, excess_high=-0.4)
    assert "was not measured" not in text_of(replace(found, joint=(near,)))
    few = text_of(made_explained(["dec.0.0", "dec.0.1", "dec.0.2"], prompts=3))
    assert "The best heads were chosen on the prompts that they are measured on." in few


def test_the_smallest_circuits_are_beside_random_heads(found: Explained) -> None:
    made = replace(found, **made_circuits(), record=replace(found.record, nothing=0.5))
    text = text_of(made)
    assert (
        "2 of 12 heads keep 80 % of the prediction, the best by mean instead; of random "
        "heads, 12 "
        "do. 9 of 12 heads keep 90 % of the prediction, the best by mean instead; of random"
    ) in text
    assert "without any head that leaves 0.50 nats of 4.75" in text
    cells = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| causal")]
    first, second = ([cell.strip() for cell in row] for row in cells[:2])
    assert first[1:] == ["2", "9", "9", "9", "–", "0.70 (0.60 to 0.80)", "0.30 (0.20 to 0.40)"]
    assert second[1:6] == ["50 %", "2", "0.50 (0.40 to 0.60)", "1", "0.3"]
    assert second[6].startswith("dec.0.0 dec.0.1") and second[6].endswith("dec.2.1 and 1 more")
    with styled():
        figure = document_of(made).charts["faithfulness"]()
    assert figure is not None and len(figure.axes[0].lines) == 2 + 3  # levels, then rankings
    assert "A circuit of heads" not in text_of(found)


def test_several_prompts_have_a_map_of_all_heads(found: Explained) -> None:
    """Every head has its effect, and those that are certain after correction a dot."""
    sure = {"dec.0.1", "dec.3.2"}
    rows = tuple(replace(row, p=0.01 if row.part in sure else 0.5) for row in found.effects)
    with styled():
        charts = document_of(replace(found, effects=rows)).charts
        figure = charts["effects-attribution-dec"]()
    assert figure is not None and {*charts} == {"effects-attribution-dec"}
    axes = figure.axes[0]
    grid = np.asarray(axes.images[0].get_array())
    of = found.of("attribution")
    assert grid.shape == (3, 4)
    for layer in range(4):
        for head in range(3):
            assert grid[head, layer] == of[f"dec.{layer}.{head}"].value
    assert np.asarray(axes.collections[0].get_offsets()).tolist() == [[0, 1], [3, 2]]
    one = made_explained(["dec.0.0", "dec.0.1"], prompts=1)
    assert not document_of(one).charts


def test_what_heads_write(found: Explained) -> None:
    rows = (WrittenRow("dec.0.1", " Mary", 0.5), WrittenRow("dec.0.1", " John", -0.25))
    alone = replace(found, prompts=found.prompts[:1], written=rows)
    assert "| dec.0.1 | Mary" in text_of(alone) and "promotes" in text_of(alone)
    assert alone.writes("dec.0.1") == ([rows[0]], [rows[1]]) and not any(alone.writes("dec.0.0"))
    assert "promotes" not in text_of(found)


def test_the_error_of_the_estimate(found: Explained) -> None:
    shown = sorted((abs(row.value) for row in found.of("estimate").values()), reverse=True)[:10]
    mean = sum(shown) / 10  # patching is twice the estimate
    assert (
        f"the estimate is wrong by {mean:.2f} on average, and patching has an effect of "
        f"{2 * mean:.2f}. Over all heads their rank correlation is 1.00."
    ) in text_of(found)


def test_what_is_left(found: Explained) -> None:
    (line,) = [
        each for each in text_of(found).splitlines() if "| zeroed" in each and "6.50" in each
    ]
    assert [each.strip() for each in line.split("|")[1:-1]] == [
        *("zeroed", "zeroed", "3", "1.50 (1.25 to 1.75)", "6.50", "0.50 (0.25 to 0.75)"),
        *("0.38 to 0.62", "3.25", "10 (15.7)"),
    ]


def test_looks_by_layers(found: Explained) -> None:
    text = text_of(found)
    assert (
        "if no head of these layers can look from where the prediction is made at the target's "
        "word. Of single layers, 1 has the largest effect, −1.00."
    ) in text
    assert "| 0 to 1 | 2.00 (1.50 to 2.50) |" in " ".join(text.split()).replace("|  ", "| ")


def test_in_how_many_prompts_the_target_is_preferred(found: Explained) -> None:
    """With the best heads of a screen, and of every row; of several prompts with rivals."""
    said = (
        "The model prefers the target to its rival in 16 of 16 prompts; without the best 3 heads "
        "by “zeroed” in 10, without random ones in 15.7; without the best 3 heads by “attribution” "
        "in 7, without random ones in 16 (effect “zeroed”). The last column has these numbers, "
        "those with random heads (the mean over sets) in brackets."
    )
    text = text_of(found)
    assert said in text and " 12 (16) |" in text and "10 (15.7) |" in text
    some = (replace(found.prompts[0], value=-1.0), replace(found.prompts[0], against=""))
    some = text_of(replace(found, prompts=(*some, *found.prompts[2:])))
    assert "prefers the target to its rival in 14 of 15 prompts with a rival;" in some
    none = tuple(replace(row, preferred=NAN, random_preferred=NAN) for row in found.joint)
    for other in (replace(found, joint=none), replace(found, prompts=found.prompts[:1])):
        assert "preferred" not in text_of(other) and "to its rival in" not in text_of(other)
    restored = replace(found.joint[1], effect="restored", ranking="restored")
    second = tuple(replace(row, second=-1.0) for row in found.prompts[:12])
    both = replace(found, joint=(*found.joint, restored), prompts=(*second, *found.prompts[12:]))
    assert "it counts second prompts; 4 of them prefer the target unchanged." in text_of(both)
    assert (
        "the prediction that is left: of the second prompt, where heads write into it."
        in text_of(both)
    )
    assert "restored" not in text_of(found) and "into the second" not in text_of(found)


def test_the_best_heads_are_named_for_each_half(found: Explained) -> None:
    rows = [[each.strip() for each in line.split("|")[1:-1]] for line in text_of(found).split("\n")]
    assert ["best by", "in prompts 1, 3, …", "in prompts 2, 4, …"] in rows
    assert ["zeroed", *["dec.0.0 dec.0.1 dec.0.2"] * 2] in rows
    assert ["attribution", "dec.0.0 dec.0.1 dec.0.2", "dec.0.1 dec.0.2 dec.1.0"] in rows
    one = text_of(replace(found, prompts=found.prompts[:1], joint=found.joint[:2]))
    rows = [[each.strip() for each in line.split("|")[1:-1]] for line in one.split("\n")]
    assert ["best by", "heads"] in rows and ["zeroed", "dec.0.0 dec.0.1 dec.0.2"] in rows


def test_what_the_interval_of_random_heads_is_over(found: Explained) -> None:
    text = text_of(found)
    assert (
        "random heads of the same layers: the mean of 3 sets, with an interval over prompts (not "
        "over sets). “Sets” has the smallest and the largest of these sets."
    ) in text
    assert "| 0.38 to 0.62 |" in text and "nan" not in text
    older = tuple(replace(row, random_least=NAN, random_most=NAN) for row in found.joint)
    said = text_of(replace(found, joint=older))
    assert "“Sets”" not in said and "nan" not in said
    one = text_of(replace(found, prompts=found.prompts[:1]))
    assert "the mean of 3 sets. “Sets” has" in one


def test_a_mean_over_one_prompt_is_no_mean_over_data() -> None:
    said = "Means are over the tokens of this prompt alone, not over a data set: --texts FILE"
    one = made_explained(["dec.2.5", "dec.7.0"], prompts=1)
    assert said not in text_of(one), "no mean was taken"
    means = tuple(replace(row, effect="mean") for row in one.effects if row.effect == "zero")
    one = replace(one, effects=(*one.effects, *means))
    assert said in text_of(one) and "Means are over prompts." not in text_of(one)
    texts = replace(one, record=replace(one.record, means_over="2 texts"))
    assert said not in text_of(texts) and "Means are over 2 texts." in text_of(texts)
    several = text_of(replace(one, prompts=one.prompts * 2))
    assert said not in several and "Means are over prompts." in several


def test_how_large_an_effect_between_prompts_can_be(found: Explained) -> None:
    record = replace(found.record, second=-8.5)
    said = (
        "Second prompts prefer the other answer (−8.50), so an effect “from the second prompt” can "
        "be as large as the distance between both prompts, 13.25."
    )
    assert said in text_of(replace(found, record=record))
    assert "the other answer" not in text_of(found), "the second prompt has the same one"
    one = replace(found, record=record, prompts=found.prompts[:1])
    assert "The second prompt prefers the other answer (−8.50)" in text_of(one)
    zeroed = tuple(row for row in found.effects if row.effect == "zero")
    assert "the other answer" not in text_of(replace(one, effects=zeroed))
    alone = replace(one, prompts=(replace(one.prompts[0], against=""),))
    assert "the other answer" not in text_of(alone)


def test_a_document_counts_prompts_folds_them_and_leaves_out_empty_columns() -> None:
    row = PromptRow("The dog", " saw", "", "saw", "", -2.0, float("nan"), 0.1)
    found = replace(made_explained(["dec.0.0", "dec.0.1", "dec.0.2"]), prompts=(row,))
    one, other = (
        document_of(replace(found, prompts=rows))
        for rows in ((row,), (row, replace(row, against=" had")))
    )
    assert (one.title, other.title) == (
        "Which heads made the prediction",
        "Which heads made the predictions of 2 prompts",
    )
    tables = [
        block
        for each in (one, other)
        for block in each.blocks
        if isinstance(block, Table) and block.label.startswith("Prompts")
    ]
    assert [table.is_detail for table in tables] == [False, True]
    assert [table.headers for table in tables] == [
        ("prompt", "target", "predicted", "P(target)"),
        ("prompt", "target", "rival", "predicted", "P(target)"),
    ]


def test_rows_for_latex_have_sizes_and_areas() -> None:
    """A row a ranking; signs that LaTeX reads are escaped."""
    found = replace(made_explained([f"dec.0.{n}" for n in range(12)]), **made_circuits())
    record = replace(found.record, model="my_model")
    lines = latex_rows(replace(found, record=record)).splitlines()
    rankings = {row.ranking for row in found.areas}
    assert len(lines) == len(rankings)
    assert all(line.startswith(r"my\_model & ") and line.endswith(r" \\") for line in lines)
    assert all(line.count(" & ") == 5 and "−" not in line for line in lines)
    area = found.areas[0]
    assert f" & {area.cmd:.2f} (" in lines[0]
