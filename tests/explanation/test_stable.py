"""Stable circuits: resamples by the book, verdicts, tests, and prompts that are too few."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from headcount.core import Chart, Head, InputError, Text
from headcount.explanation import (
    EffectRow,
    Explained,
    ExplainOptions,
    KeptRow,
    LookRow,
    ReasonRow,
    StabilityRow,
    StableRow,
    explain,
)
from headcount.explanation.blocks import Blocks
from headcount.explanation.circuit_rows import ASKED, Curve
from headcount.explanation.paths_document import Path, path_blocks, paths_of
from headcount.explanation.stable import (
    RESAMPLES,
    Stable,
    agreement,
    no_ranking,
    places_of,
    stability_rows,
    stable_circuit,
)
from headcount.numbers import percent
from headcount.pages import document_of
from headcount.results import RANDOM
from tests.explanation.test_circuits import PROMPTS
from tests.tasks.loaded import loaded

SEED = 3
HEADS = [Head("decoder.self", layer, n) for layer in range(5) for n in range(4)]


class _Singles:
    """Effects of 20 heads on 24 prompts in 12 blocks: 3 always matter, 3 by prompt, 14 never."""

    def __init__(self, blocks: int = 12) -> None:
        numbers = np.arange(24) % blocks
        draw = np.random.default_rng(0)
        effect_NH = draw.normal(0, 0.01, (24, 20))
        effect_NH[:, :3] += 5
        effect_NH[:, 3:6] += draw.normal(0.2, 1, (blocks, 3))[numbers]
        self.blocks, self.effects = Blocks(numbers), {"estimate": effect_NH}


def _places(singles: _Singles) -> Any:
    return places_of(singles.effects["estimate"], singles.blocks, SEED)


def _curve(ranking: str, singles: _Singles, faithfulness: dict[int, float]) -> Curve:
    sizes, values = np.array([*faithfulness]), np.array([*faithfulness.values()])
    names = [[str(head) for head in HEADS]] * 2 if ranking != RANDOM else []
    gained_NK = np.repeat(values[None], 24, 0)
    shared = [*map(float, sizes)]
    return Curve("second", ranking, "signed", sizes, gained_NK, shared, names, singles.blocks)


def _curves(singles: _Singles) -> list[Curve]:
    return [
        _curve("estimate", singles, {0: 0, 3: 0.5, 5: 0.85, 20: 1}),
        _curve(RANDOM, singles, {0: 0, 3: 0.1, 5: 0.2, 20: 1}),
    ]


def test_agreement_is_that_of_the_book() -> None:
    """The index of every pair of resamples, whose prompts are drawn by whole blocks."""
    singles = _Singles()
    place_RH = _places(singles)
    rows = [*stability_rows(singles.effects, _curves(singles), SEED)]
    assert [row.heads for row in rows] == [3, 5, 20]
    for row in rows:
        circuits = [{*np.flatnonzero(places < row.heads)} for places in place_RH]
        pairs = [
            len(one & other) / len(one | other)
            for n, one in enumerate(circuits)
            for other in circuits[:n]
        ]
        assert row.value == pytest.approx(np.mean(pairs))
        assert (row.low, row.high) == pytest.approx(tuple(np.quantile(pairs, [0.025, 0.975])))
        assert row.halves == 1, "both halves share all heads of these curves"
        draws = [({*random.sample(range(20), row.heads)}, {*range(row.heads)}) for _ in range(4000)]
        shared = np.mean([len(one & other) for one, other in draws])
        assert row.chance == pytest.approx(row.heads / 40 / (1 - row.heads / 40), abs=1e-9)
        assert shared == pytest.approx(row.heads**2 / 20, abs=0.15), "so chance shares k²/N"
    assert rows[0].value == 1 and rows[1].value < 1, "three heads always matter"
    assert rows[0].enough == 24, "which is the number of prompts"
    numbers = np.random.default_rng((SEED, RESAMPLES))
    drawn = numbers.multinomial(6 * 12, [1 / 12] * 12, RESAMPLES)
    means = [np.average(singles.effects["estimate"], 0, each[np.arange(24) % 12]) for each in drawn]
    circuits = [{*np.argsort(-each)[:5]} for each in means]
    pairs = [
        len(one & other) / len(one | other)
        for n, one in enumerate(circuits)
        for other in circuits[:n]
    ]
    place_RH = places_of(singles.effects["estimate"], singles.blocks, SEED, 6)
    assert np.mean(pairs) == pytest.approx(np.mean(agreement(place_RH, 5)))
    assert np.mean(pairs) >= ASKED or rows[1].enough not in (24, 48, 72, 96, 144)


def test_resamples_are_drawn_by_blocks() -> None:
    """Two prompts of a block always count alike, so their mean does as well as they do."""
    singles = _Singles()
    twins = _Singles()
    effect_NH = singles.effects["estimate"]
    twins.effects["estimate"] = (effect_NH + np.roll(effect_NH, 12, 0)) / 2
    one, other = map(_places, (singles, twins))
    assert (one == other).all() and one.shape == (RESAMPLES, 20)
    assert (np.sort(one, 1) == np.arange(20)).all()


def test_heads_are_certain_undecided_or_out() -> None:
    singles = _Singles()
    found = stable_circuit(singles.effects, _curves(singles), HEADS, SEED)
    assert found is not None and (found.ranking, found.size) == ("estimate", 5)
    assert found.is_in_H[:3].all() and not found.is_in_H[6:].any()
    undecided = found.is_kept_H & ~found.is_in_H
    assert undecided[3:6].any() and not found.is_kept_H[6:].all()
    place_RH = _places(singles)
    assert found.share_H.tolist() == [float(np.mean(place_RH[:, n] < 5)) for n in range(20)]
    sizes = {name: int(each.sum()) for name, each in found.sets().items()}
    assert sizes["in and undecided"] + sizes["rest"] == 20


def test_nothing_is_stable_of_few_prompts_or_where_random_heads_are_as_good() -> None:
    few = _Singles(blocks=7)
    assert stable_circuit(few.effects, _curves(few), HEADS, SEED) is None
    assert not [*stability_rows(few.effects, _curves(few), SEED)]
    singles = _Singles()
    curves = [_curves(singles)[0], _curve(RANDOM, singles, {0: 0, 3: 0.1, 5: 0.9, 20: 1})]
    assert stable_circuit(singles.effects, curves, HEADS, SEED) is None
    assert no_ranking(curves) == (
        f"no ranking finds a circuit: the best 5 heads by any keep {percent(0.8)} of the "
        "prediction, and so do 5 random ones"
    )
    assert not no_ranking(_curves(singles))


@pytest.mark.slow
def test_what_a_stable_circuit_keeps_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """On these prompts and elsewhere, with each head of it left out: as runs of its parts say."""
    held = loaded("LlamaForCausalLM")
    heads = [*held.heads]
    share = np.array([1.0, 0.99, 0.5, *[0.0] * 9])
    chosen = Stable("estimate", heads, 3, share)
    monkeypatch.setattr(
        "headcount.explanation.searching.stable_circuit",
        lambda effects, curves, heads, seed: chosen,
    )
    options = ExplainOptions(
        effects=("estimate",), together=(), draws=1, circuit=True, others=("second",)
    )
    parts = {"all": (0, 1, 2), "later": (1, 2), "ends": (0, 2), "in": (0, 1)}
    scores = {
        name: {head: float(n in part) for n, head in enumerate(heads)}
        for name, part in parts.items()
    }
    found = explain(held, PROMPTS, options=options, scores=scores, elsewhere=PROMPTS[2:6])
    keys = [(row.prompts, row.kept, row.heads) for row in found.kept]
    kinds = [("in", 2), ("in and undecided", 3), ("rest", 9)]
    assert keys == [(where, *kind) for where in ("these", "elsewhere") for kind in kinds]
    gain = found.complements[0].gain
    alone = {
        parts[row.ranking]: row.value
        for row in found.faithfulness
        if row.ranking in parts and (row.order, row.heads) == ("signed", len(parts[row.ranking]))
    }
    assert found.kept[0].value == pytest.approx(alone[0, 1], abs=1e-5)
    assert found.kept[1].value == pytest.approx(alone[0, 1, 2], abs=1e-5)
    for row, without in zip(found.stable, ([1, 2], [0, 2], [0, 1]), strict=False):
        assert row.lost == pytest.approx(alone[0, 1, 2] - alone[tuple(without)], abs=1e-5)
        assert 0 <= row.p <= 1 and gain > 0
    assert [row.verdict for row in found.stable] == ["in", "in", "undecided", *["out"] * 9]
    assert np.isnan([row.lost for row in found.stable[3:]]).all()
    text = document_of(found).markdown()
    certain = " and ".join(row.head for row in found.stable[:2])
    assert f"{certain} are certain, 1 undecided; with both" in text.split("An effect is")[0]
    with pytest.raises(InputError, match="measured on prompts elsewhere, got none"):
        explain(held, PROMPTS, options=ExplainOptions(), elsewhere=PROMPTS[:1])


def test_what_is_said_of_a_stable_circuit(explained: Explained) -> None:
    text = document_of(explained).markdown()
    assert (
        "dec.0.0 and dec.0.1 are certain, 1 undecided; with both 91 % (82 to 104) of the "
        "prediction is kept, and 60 % (40 to 80) on other prompts."
    ) in text
    four = replace(explained, stable=(*explained.stable[:1] * 4, *explained.stable[2:]))
    assert "4 heads are certain, 1 undecided" in document_of(four).markdown()
    assert (
        "On these prompts the circuit does what the model does within a fifth (two one-sided tests "
        "at 2.5 %). On other prompts the circuit is not shown to do that"
    ) in text
    assert (
        "The rest of the heads alone keeps 20 % (10 to 30). Of the circuit's 3 heads, 1 are" in text
    )
    assert "Two such circuits agree by 0.60 (0.40 to 0.90), those of both halves by 0.50" in text
    assert "No circuit of up to a fifth of the heads reaches 0.8." in text


@pytest.fixture
def explained() -> Explained:
    from tests.explanation.test_document import made_circuits, made_explained

    found = replace(made_explained([f"dec.{n // 3}.{n % 3}" for n in range(12)]), **made_circuits())
    kept = [
        KeptRow("these", "in", 2, 0.7, 0.6, 0.8),
        KeptRow("these", "in and undecided", 3, 0.91, 0.82, 1.04),
        KeptRow("these", "rest", 9, 0.2, 0.1, 0.3),
        KeptRow("elsewhere", "in and undecided", 3, 0.6, 0.4, 0.8),
    ]
    stable = [
        StableRow("dec.0.0", 1.0, "in", 0.5, 0.01),
        StableRow("dec.0.1", 0.97, "in", 0.1, 0.5),
        StableRow("dec.0.2", 0.5, "undecided", -0.1, 0.04),
        StableRow("dec.1.0", 0.0, "out", float("nan"), float("nan")),
    ]
    rows = [
        StabilityRow("zero", 2, 0.6, 0.4, 0.9, halves=0.5, chance=0.1),
        StabilityRow("zero", 12, 1.0, 1.0, 1.0, halves=1.0, chance=1.0),
    ]
    record = replace(found.record, stable="zero", stable_size=2)
    return replace(
        found, record=record, kept=tuple(kept), stable=tuple(stable), stability=tuple(rows)
    )


def test_paths_are_what_heads_of_the_circuit_add_beyond_chance(explained: Explained) -> None:
    """Of heads that are in or undecided, by query, key or attribution; the weaker ones counted."""
    stable = [StableRow(f"dec.1.{n}", 1.0, "in", 0.5, 0.01) for n in range(3)]
    found = replace(explained, stable=(*explained.stable[:3], *stable))
    look = LookRow("dec.1.2", "target", 9, 0.5, 9.0, 5.0, 4.0, 6.0)
    rows = [
        ("dec.0.1", "", 2.0, 1.0, 3.0),
        ("dec.0.0", "", 4.0, -1.0, 9.0),
        ("", "dec.0.2", -1.0, -2.0, -0.5),
        ("", "dec.2.2", 3.0, 2.0, 4.0),
        ("dec.0.1", "dec.0.2", 1.0, 0.5, 1.5),
        ("", "embeddings", 2.0, 1.0, 3.0),
    ]
    reasons = tuple(ReasonRow("dec.1.2", *row) for row in rows)
    found = replace(found, looks=(look,), reasons=reasons, effects=())
    paths = paths_of(found)
    assert [(path.source, path.kind, path.share) for path in paths] == [
        ("dec.0.1", "query", pytest.approx(0.4)),
        ("dec.0.2", "key", pytest.approx(-0.2)),
    ]
    value = found.record.value / 2
    effects = [EffectRow("dec.1.2", "attribution", value, value / 2, value, value, value)]
    found = replace(found, effects=tuple(effects))
    assert paths_of(found)[0] == Path("dec.1.2", "logit", "logit", 0.5)
    many = tuple(ReasonRow("dec.1.2", "dec.0.1", "", 2.0, 1.0, 3.0) for _ in range(30))
    found = replace(found, reasons=many)
    heading, text, chart = path_blocks(found)
    assert isinstance(text, Text) and "6 weaker paths are not drawn" in text.text
    largest = f"dec.1.2 to the logit ({percent(0.5)}); dec.0.1 to the query of dec.1.2"
    assert f"{largest} ({percent(0.4)})" in text.text
    assert isinstance(chart, Chart) and chart.figure is not None
    assert len(chart.figure.axes[0].patches) == 25
    assert not [*path_blocks(replace(found, reasons=(), effects=()))]
