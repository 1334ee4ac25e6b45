"""The report's section on head importance matches the files."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcount import numbers
from headcount.core import Chart, Document, InputError, JsonObject, Table, Text
from headcount.importance import Assessment
from headcount.importance.document import SHOWN, worth_document
from headcount.importance.document import importance_figure as drawn
from headcount.pages import document_page, render, report_view, site_sentence, verdict
from headcount.pages.names import MEASURES
from headcount.pages.worth import (
    all_alone,
    bars,
    beside_all,
    best_alone,
    effect_of,
    lede,
    mattering,
    scored_on,
    without,
)
from headcount.results import Analysis, Effect, HeadRow, ImportanceRecord, read_run
from tests.pages.changed import changed
from tests.pages.run_folder import HOSTILE, Wish, shared_run, write_run

SCORE = {"quantity": "score", "replacement": "mean"}


@pytest.fixture(scope="module")
def run(translator: Path) -> Analysis:
    return shared_run(translator)


def shown_of(run: Analysis) -> Document:
    assert run.importance is not None
    return worth_document(Assessment(run.importance, run.heads))


@pytest.fixture(scope="module")
def shown(run: Analysis) -> Document:
    return shown_of(run)


def table_of(shown: Document, label: str) -> Table:
    (found,) = [each for each in shown.blocks if isinstance(each, Table) and each.label == label]
    return found


def importance(**fields: object) -> ImportanceRecord:
    found = {"task": "similarity", "num_examples": 7} | fields
    return JsonObject.of(found, "importance.json", "headcount importance").decode(ImportanceRecord)


def effect(delta: float, p: float = 0.001, low: float = math.nan, high: float = math.nan) -> Effect:
    return Effect(
        site="encoder.self", layer=0, head="enc.0.0", delta=delta, low=low, high=high, p=p
    )


def row(head: str = "enc.0.0") -> HeadRow:
    return HeadRow(head, "encoder.self", 0, 0, (), {})


def test_lists_have_the_largest_and_the_smallest_effects(run: Analysis, shown: Document):
    by_delta = sorted(run.rows, key=lambda row: row.values["ablation_delta"])
    names = [row.head for row in by_delta]
    most, least = (table_of(shown, f"{end} important") for end in ("Most", "Least"))
    assert [row[0] for row in most.rows] == names[: -SHOWN - 1 : -1]
    assert [row[0] for row in least.rows] == names[SHOWN - 1 :: -1]
    says = [each.says for each in shown.blocks if isinstance(each, Chart)]
    assert says[0] == "All 144 heads, the most important on the left: rise in the loss"


def test_a_line_is_its_head_in_the_table(run: Analysis, shown: Document):
    most, least = (table_of(shown, f"{end} important") for end in ("Most", "Least"))
    assert most.headers == (
        *("head", "ablation effect", "95 % interval", "p, corrected"),
        *("gradient", "relevance", "output norm", "sink score"),
    )
    head, effect, interval, p, gradient, *_ = most.rows[0]
    values = {row.head: row.values for row in run.rows}[head]
    assert effect == f"{values['ablation_delta']:.3f}"
    assert interval == f"{values['ablation_low']:.3f} to {values['ablation_high']:.3f}"
    assert p == "0.003" and least.rows[0][3] == "0.800"
    assert gradient == MEASURES["gradient"].show(values["gradient"])


def test_sites_are_reported_with_the_worst_first():
    sites = [
        {"site": "encoder.self", "delta": 0.25, "low": 0.2, "high": 0.3, "p": 0.01},
        {"site": "decoder.cross", "delta": 1.5, "low": 1.2, "high": 1.8, "p": 0.01},
        {"site": "decoder.self", "delta": None, "low": None, "high": None, "p": None},
    ]
    assert site_sentence(importance(sites=sites)) == (
        "The loss rises by 1.50 without any decoder attention to the encoder and by 0.250 without "
        "any encoder self-attention."
    )
    assert site_sentence(importance()) == ""


def test_heads_without_an_effect_are_left_out(hostile: Path):
    run = shared_run(hostile)
    says = next(each.says for each in shown_of(run).blocks if isinstance(each, Chart))
    assert says.startswith(f"All {len(run.rows) - 1} heads")


@pytest.mark.slow
def test_nothing_is_shown_before_it_was_measured(plain: Path, run: Analysis):
    assert run.importance is not None
    shown = worth_document(Assessment(run.importance, shared_run(plain).heads))
    assert "No head got a number" in str(shown)
    assert "What each head is worth" not in render(report_view(shared_run(plain)))
    assert "What each head is worth" not in render(report_view(replace(run, importance=None)))


def test_scores_without_ablation_are_ranked_too(run: Analysis):
    heads = tuple(
        replace(row, values={k: v for k, v in row.values.items() if "ablation" not in k})
        for row in run.rows
    )
    found = shown_of(changed(run, rows=heads))
    best = max(heads, key=lambda row: row.values["gradient"])
    table = table_of(found, "Most important")
    assert table.rows[0][0] == best.head
    assert table.headers == ("head", "gradient", "relevance", "output norm", "sink score")
    said = f"{best.head} is worth the most by gradient ("
    assert any(isinstance(each, Text) and each.text.startswith(said) for each in found.blocks)


def test_lede_counts_heads_that_help_that_harm_and_the_rest():
    effects = [
        effect(0.2, 0.001, 0.1, 0.3),
        effect(0.1, 0.049),
        effect(0.1, 0.2),
        effect(-0.1, 0.01),
    ]
    assert lede(importance(), [row()] * 4, effects) == (
        "Without enc.0.0, the loss rises by 0.200 nats (95\u202f% interval 0.100 to 0.300)."
    )
    assert all_alone(importance(), effects) == (
        "No other head is worth more here. The largest of many effects is likely to be smaller on "
        "other data. Taken alone, 2 of 4 heads matter (p < 0.05 after correction for 4 tests), 1 "
        "harms the model (enc.0.0) and for 1 head the effect is within noise. "
        "Effects below 0.170 nats are easily missed."
    )


def test_sizes_and_power_are_in_the_unit_of_what_was_measured():
    bleu = importance(metric="bleu", ablation=SCORE)
    found = [effect(0.7, 0.01, 0.5, 0.9), effect(0.4, 0.01, 0.0, 0.8), effect(0.3, 0.5, -0.1, 0.7)]
    assert verdict(found, bleu) == [
        "Taken alone, 2 of 3 heads matter (p < 0.05 after correction for 3 tests) and for 1 head "
        "the effect is within noise.",
        "Effects below 0.660 BLEU are easily missed.",
    ]
    distances = verdict(found, importance(metric="spearman"))
    assert "below 0.660 squared distance are" in distances[1]
    (none,) = verdict([effect(0.004, 0.01)], importance(metric="accuracy", ablation=SCORE))
    assert none.endswith("1 of 1 heads matters (p < 0.05 after correction for 1 test).")


def test_an_effect_is_measured_by_what_the_whole_attention_is_worth():
    """A number of nats alone says nobody whether it is much."""
    sites = [{"site": "encoder.self", "delta": 1.4}, {"site": "decoder.cross", "delta": 9.0}]
    whole = importance(sites=sites)
    assert beside_all(effect(0.35), whole) == (
        ", 25\u202f% of the rise without any encoder self-attention (1.40 nats)"
    )
    said = lede(whole, [row()], [effect(0.35, 0.5)])
    assert said == "Without enc.0.0, the loss rises by 0.350 nats.", "bars below have the share"
    for other in (effect(1.5), effect(-0.1), replace(effect(0.1), site="decoder.self")):
        assert beside_all(other, whole) == "", "more than the whole, harmful, or unknown"


def test_bars_are_as_long_as_effects_beside_the_whole_attention() -> None:
    whole = importance(sites=[{"site": "encoder.self", "delta": 2.0}])
    cross = replace(effect(0.4), site="decoder.cross")
    effects = [effect(0.5, low=-0.25, high=2.5), cross, effect(0.002), effect(-0.1)]
    (shown,) = bars(effects, whole)
    assert shown.label == "Share of the rise without any encoder self-attention (2.00 nats)"
    assert [(each.share, each.words) for each in shown.rows] == [
        (0.25, "25\u202f%"),
        (0.001, "0.1\u202f%"),
    ]
    assert [each.ends for each in shown.rows] == [(0.0, 1.0), None]
    page = document_page(Document("worth", (shown,)))
    (widths, lines) = (
        re.findall(each, page)
        for each in (r'class="part" width="([\d.]+)"', r'<line x1="([\d.]+)" x2="([\d.]+)"')
    )
    assert [float(each) for each in widths] == [25.0, 0.1], "of a drawing 100 wide"
    assert 'viewBox="0 0 100 10"' in page and lines == [("0.0", "100.0")]
    assert "<td>25\u202f%</td>" in page, "the picture is hidden from screen readers, the number not"
    first, second = shown.text.splitlines()[1:]
    assert (first.count("█"), first.count("·")) == (8, 22) and second.count("█") == 1
    assert not [*bars([], whole)] and not [*bars([effect(-0.1)], whole)]
    assert not [*bars([effect(2.1)], whole)], "more than the whole"


def test_at_most_three_harmful_heads_are_named():
    def harmed(number: int) -> str:
        effects = (replace(effect(-0.1, 0.01), head=f"enc.0.{index}") for index in range(number))
        return verdict(effects, importance())[0]

    assert "3 harm the model (enc.0.0, enc.0.1, enc.0.2)." in f"{harmed(3)}"
    assert harmed(4).endswith("and 4 harm the model.")


def test_lede_says_what_falls_and_when_no_head_helps():
    found = importance(metric="f1", ablation=SCORE)
    assert lede(found, [row()], [effect(0.2, math.nan)]) == ("Without enc.0.0, F1 drops by 0.200.")
    assert found.effect == "drop in F1"
    assert lede(found, [row()], [effect(-0.2)]).startswith("Taken alone, no head helps")
    assert all_alone(found, [effect(-0.2, math.nan)]) == ""
    perplexity = importance(metric="perplexity", higher_is_better=False, ablation=SCORE)
    assert perplexity.effect == "rise in perplexity"


def test_measured_says_what_is_known():
    full = importance(loss=0.5, metric="F1", score=0.75, ablation=SCORE | {"quantity": "loss"})
    assert scored_on(full) == (
        "Measured on 7 examples of the task similarity; the dense model has loss 0.500 and F1 "
        "0.750. Removing a head means: output replaced by its mean."
    )
    assert scored_on(importance()) == "Measured on 7 examples of the task similarity."


def test_a_line_per_layer_with_its_best_head(run: Analysis, shown: Document):
    assert run.importance is not None
    table = table_of(shown, "Whole layers")
    assert [row[0] for row in table.rows] == [
        f"{site}.{layer}" for site in ("enc", "dec", "cross") for layer in range(6)
    ]
    for row, gone, only in zip(
        table.rows, run.importance.layers, run.importance.single_heads, strict=True
    ):
        ends = f"{numbers.effect(gone.low)} to {numbers.effect(gone.high)}"
        assert row[1:3] == (numbers.effect(gone.delta), ends)
        assert row[3:] == (only.head, numbers.effect(only.delta), "–")


def test_layers_may_lack_one_of_the_two(run: Analysis):
    only = [{"site": "decoder.self", "layer": 1, "head": "dec.1.3", "delta": 0.1}]
    found = shown_of(replace(run, importance=importance(single_heads=only)))
    (row,) = table_of(found, "Whole layers").rows
    assert row == ("dec.1", "–", "–", "dec.1.3", "0.100", "–")


def test_the_matrix_has_every_pair_once(run: Analysis):
    rho = [[1.0, 0.7, None], [0.7, 1.0, -0.1], [None, -0.1, 1.0]]
    low, high = ([[x and x + by for x in line] for line in rho] for by in (-0.2, 0.2))
    names = ["ablation_delta", "gradient", "my_score"]
    entry = {"names": names, "rho": rho, "low": low, "high": high, "sentence": "So."}
    found = shown_of(replace(run, importance=importance(agreement=entry)))
    table = table_of(found, "Rank correlations between scores")
    assert table.headers == ("score", "ablation effect", "gradient")
    assert table.rows == (
        ("gradient", "0.70 (0.50 to 0.90)", ""),
        ("my score", "–", "−0.10 (−0.30 to 0.10)"),
    )
    assert Text("So.", "lede") in found.blocks


def test_the_best_head_alone_says_which_examples_chose_it():
    found = {"site": "decoder.self", "layer": 1, "head": "dec.1.3", "delta": 0.1}
    fitted = importance(single_heads=[found | {"halves": ["dec.1.3", "dec.1.0"]}])
    assert best_alone(fitted).startswith("Each half of the examples chose a head that was measured")
    assert "chosen on the same examples, so" in best_alone(importance(single_heads=[found]))


def _measured(run: Analysis, delta: float, p: float) -> Analysis:
    """The run with another effect of its first head, beside an interval that fits."""
    width = abs(delta) * (0.5 if p < 0.05 else 2)
    ends = {"ablation_delta": delta, "ablation_low": delta - width, "ablation_high": delta + width}
    first = replace(run.rows[0], values={**run.rows[0].values, **ends, "ablation_p": p})
    return changed(run, rows=(first, *run.rows[1:]))


@pytest.mark.parametrize(
    ("delta", "p", "matters", "says"),
    [
        (
            0.2,
            0.01,
            True,
            "rises by 0.200 (95\u202f% 0.100 to 0.300); beyond chance, corrected p 0",
        ),
        (
            0.2,
            0.5,
            False,
            "rises by 0.200 (95\u202f% −0.200 to 0.600); within chance, corrected p 0",
        ),
        (-0.2, 0.01, False, "drops by 0.200 (95\u202f% −0.300 to −0.100); beyond chance, correc"),
    ],
)
def test_a_head_matters_if_the_model_is_worse_without_it(
    run: Analysis, delta: float, p: float, matters: bool, says: str
):
    run = _measured(run, delta, p)
    assert (run.rows[0].head in (mattering(run) or ())) == matters
    assert without(run, run.rows[0]).startswith(f"Without it, the loss {says}")


def test_dots_say_what_the_tables_say_and_link_to_the_card(run: Analysis):
    figure = drawn(run.importance, run.rows)
    assert figure is not None
    (axes,) = figure.axes
    said = [text for marks in axes.collections for text in marks.get_urls() or () if text]
    row = max(run.rows, key=lambda row: row.values["ablation_delta"])
    (text,) = [each for each in said if each.startswith(f"#{row.head} ")]
    low, high = row.values["ablation_low"], row.values["ablation_high"]
    shown = f"{row.values['ablation_delta']:.3f}, 95\u202f% {low:.3f} to {high:.3f}"
    assert text == f"#{row.head} {row.head}: {shown}, corrected p 0.003" and len(said) == 144


def test_no_name_stands_on_another_where_intervals_are_long() -> None:
    record = importance(ablation=SCORE)
    ends = {"ablation_low": -9.0, "ablation_high": 9.0, "ablation_p": 0.5}

    def named(*deltas: float) -> list[str]:
        rows = [
            replace(row(f"enc.0.{n}"), values={"ablation_delta": delta} | ends)
            for n, delta in enumerate(deltas)
        ]
        figure = drawn(record, rows)
        assert figure is not None
        return [each.get_text() for each in figure.axes[0].texts]

    assert named(5.0, 3.0, 1.0, 0.9) == ["enc.0.0", "enc.0.1"]
    assert named(1.0, 0.9, 0.8, 0.0) == [], "far apart beside each other, not beside the intervals"


@pytest.mark.slow
def test_cards_have_scores_with_their_place(run: Analysis):
    report = report_view(run)
    best = max(run.rows, key=lambda row: row.values["relevance"]).head
    (card,) = [card for card in report.cards if card.head == best]
    places = {score.label: score.rank for score in card.worth}
    assert places["relevance"] == "1st of 144"
    assert list(places) == ["ablation effect", "gradient", "relevance", "output norm", "sink score"]
    assert ", corrected p 0." in card.worth[0].text and " to " in card.worth[0].text


def test_no_p_contradicts_its_interval():
    """Folders of earlier versions have a p of another test than the interval's."""
    ends = {"ablation_delta": 0.2, "ablation_low": -0.1, "ablation_high": 0.5}
    shown = effect_of(replace(row(), values=ends | {"ablation_p": 0.04}), "ablation_delta")
    assert (shown.low, shown.high) == (-0.1, 0.5) and math.isnan(shown.p)
    other = effect_of(replace(row(), values=ends | {"ablation_p": 0.06}), "ablation_delta")
    assert other.p == 0.06


def test_p_is_shown_without_intervals(run: Analysis):
    """The test of sacreBLEU has no intervals."""
    none = {"ablation_low": math.nan, "ablation_high": math.nan}
    heads = tuple(replace(each, values={**each.values, **none}) for each in run.rows)
    table = table_of(shown_of(changed(run, rows=heads)), "Most important")
    assert table.headers[:4] == ("head", "ablation effect", "p, corrected", "gradient")


@pytest.mark.slow
def test_the_grid_can_be_coloured_by_every_score(run: Analysis):
    maps = {shown.key: shown for shown in report_view(run).atlas.maps}
    assert {m.label for m in maps.values() if m.group == "What it is worth"} == {
        "ablation effect",
        "ablation effect, low",
        "ablation effect, high",
        "ablation p, corrected",
        "gradient",
        "relevance",
        "output norm",
        "sink score",
    }
    assert maps["ablation_delta"].scale == "diverging" and maps["gradient"].scale == "sequential"


@pytest.mark.slow
def test_the_page_has_the_section_with_everything_escaped(hostile: Path):
    text = render(report_view(shared_run(hostile)))
    assert "What each head is worth" in text and "Sok et al." in text
    assert all(part not in text for part in HOSTILE[:2])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task", None),
        ("num_examples", "many"),
        ("layers", [{"site": "enc", "layer": 0}]),
        ("agreement", {"names": ["a"], "rho": [[1.0, 2.0]], "low": [[1.0]], "high": [[1.0]]}),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, field: str, value: object):
    path = write_run(tmp_path, Wish(layers=1, heads=2, importance=True)) / "importance.json"
    found = json.loads(path.read_text()) | {field: value}
    path.write_text(json.dumps({k: v for k, v in found.items() if v is not None}))
    with pytest.raises(InputError, match=r"importance\.json.*headcount importance"):
        read_run(tmp_path)


def test_no_json_is_refused(tmp_path: Path):
    path = write_run(tmp_path, Wish(layers=1, heads=2)) / "importance.json"
    path.write_text("{")
    with pytest.raises(InputError, match="Run `headcount importance` again"):
        read_run(tmp_path)
