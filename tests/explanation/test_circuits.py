"""Circuits: faithfulness and its areas by the book, planted heads, and what has no circuit."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count, permutations
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from headcount.core import Head, InputError, silent
from headcount.explanation import (
    ORDERS,
    SIGNED,
    AreaRow,
    Explained,
    ExplainOptions,
    Plan,
    Prompt,
    explain,
    forecast,
)
from headcount.explanation.blocks import Blocks
from headcount.explanation.circuits import Ranked, ends_of
from headcount.explanation.effects import Corrupt, Mean, Replacement, Restored, Zero
from headcount.explanation.prompt_runs import PromptRuns, mean_outputs
from headcount.explanation.reader import Reader
from headcount.explanation.runs import Case
from headcount.explanation.searching import refined
from headcount.explanation.singles import Singles
from headcount.explanation.together import Together
from headcount.models import Loaded
from headcount.pages import document_of
from headcount.results import RANDOM, select
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

LLAMA = "LlamaForCausalLM"
SIZES = [*range(11), 12]
MIB = [0, 0, 0, 0, 0, 0, 1, 2, 6, 12]
SHARES = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]
PROMPTS = [
    Prompt(f"{text} {last}", target, against, f"{text} {other}")
    for text, target, against, last, other in [
        ("The old dog barked at", " his", " moon", "the", "children"),
        ("She doesn't believe that", " his", " sister", "her", "trees"),
        ("A painter bought two", " moon", " ran", "green", "tired"),
        ("Did you hear the", " last", " his", "rain", "village"),
        ("The old dog barked at", " his", " night", "old", "tall"),
        ("She doesn't believe that", " his", " sister", "no", "some"),
        ("A painter bought two", " moon", " cat", "wet", "brown"),
        ("Did you hear the", " ran", " night", "wind", "river"),
    ]
]
"""No two replace the same word; heads raise each prediction, whatever takes their place."""


@pytest.fixture(scope="module")
def found() -> Explained:
    options = ExplainOptions(
        effects=("gradient",),
        together=(),
        draws=1,
        circuit=True,
        others=("mean", "second", "resample"),
    )
    scores = {"norm": {head: float(n % 5 - 2) for n, head in enumerate(loaded(LLAMA).heads)}}
    return explain(loaded(LLAMA), PROMPTS, options=options, scores=scores)


def _orders(found: Explained, ranking: str, order: str = "signed") -> list[list[str]]:
    """The heads for both halves of the prompts, the best first by the other half."""
    names = [*map(str, loaded(LLAMA).heads)]
    size = abs if order == "size" else float
    if ranking == "norm":
        return [sorted(names, key=lambda name: -size(names.index(name) % 5 - 2))] * 2
    rows = found.of(ranking)
    return [
        sorted(names, key=lambda name: -size(rows[name].second)),
        sorted(names, key=lambda name: -size(rows[name].first)),
    ]


def _instead(held: Loaded, cases: list[Case], others: str, n: int) -> list[list[Any]]:
    """What other heads give in each row of a prompt, by the draws over which a mean is taken."""
    rows = cases[n].rows
    clean = [book.head_inputs(held.model, row.inputs(held)) for row in rows]
    if others == "mean":
        seen = [book.head_inputs(held.model, case.rows[0].inputs(held)) for case in cases]
        means = {key: torch.cat([each[key] for each in seen]).double().mean(0) for key in seen[0]}
        return [[{key: means[key].float().expand_as(row[key]) for key in row} for row in clean]]
    if others == "second":
        second = [book.head_inputs(held.model, row.inputs(held)) for row in cases[n].corrupt or ()]
        pairs = zip(rows, second, strict=True)
        return [
            [{key: each[[*row.in_other]] for key, each in there.items()} for row, there in pairs]
        ]
    rest = [case for case in cases if case is not cases[n]]
    found = []
    for number in np.random.default_rng((0, n)).permutation(len(rest))[:5]:
        there = [book.head_inputs(held.model, row.inputs(held)) for row in rest[number].rows]
        found.append([])
        for place, row in enumerate(clean):
            other = there[min(place, len(there) - 1)]
            new = {key: torch.zeros_like(each) for key, each in row.items()}
            for key, each in new.items():
                for back in range(1, len(each) + 1):
                    each[-back] = other[key][-min(back, len(other[key]))]
            found[-1].append(new)
    return found


def _predicted(found: Explained, ranking: str, order: str, others: str) -> list[list[float]]:
    """What each prompt's best heads predict, by their number."""
    held, orders, left = loaded(LLAMA), _orders(found, ranking, order), list[list[float]]()
    cases = [Reader(held, ExplainOptions()).case(each) for each in PROMPTS]
    for n, case in enumerate(cases):
        best, draws = orders[n % 2], _instead(held, cases, others, n)
        totals = [0.0] * (len(best) + 1)
        for number, row in enumerate(case.rows):

            def read(logits: torch.Tensor, row: Any = row) -> float:
                log = logits.log_softmax(-1)
                return sum(each.sign * float(log[each.place, each.token]) for each in row.readings)

            for size in range(len(best) + 1):
                gone = [Head.parse(name) for name in best[size:]]
                heads = [(head.site, head.layer, head.index) for head in gone]
                for draw in draws:
                    got = book.without(held.model, row.inputs(held), heads, draw[number], read)
                    totals[size] += got / len(draws)
        left.append(totals)
    return left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranking", "others"),
    [("gradient", "mean"), ("gradient", "second"), ("norm", "resample")],
)
def test_faithfulness_and_areas_are_those_of_the_book(
    found: Explained, ranking: str, others: str
) -> None:
    predicted, curves = {}, {}
    for kind in ORDERS if others != "resample" else [SIGNED]:
        predicted[kind] = _predicted(found, ranking, kind, others)
        curves[kind] = select(found.faithfulness, ranking=ranking, others=others, order=kind)
        order, here = _orders(found, ranking, kind), partial(_at, predicted[kind])
        left = here(list, [1.0] * len(PROMPTS))
        assert [row.heads for row in curves[kind]] == SIZES
        assert [row.value for row in curves[kind]] == pytest.approx(
            [left[size] for size in SIZES], abs=2e-4
        )
        for size, row in zip(SIZES, curves[kind], strict=True):
            half = book.reach(partial(here, lambda left, n=size: left[n]), len(PROMPTS))
            ends = row.value - half, row.value + half
            assert (row.low, row.high) == pytest.approx(ends, abs=1e-3)
            shared = {*order[0][:size]} & {*order[1][:size]}
            assert row.shared == len(shared) or ranking == "norm" and isnan(row.shared)
    (ends,) = select(found.complements, others=others)
    assert ends.nothing == pytest.approx(np.mean([each[0] for each in predicted[SIGNED]]), abs=1e-5)
    assert ends.gain == pytest.approx(found.record.value - ends.nothing, abs=1e-5)
    for row in select(found.areas, ranking=ranking, others=others):
        of_cpr, of_cmd = partial(_area, row, float), partial(_area, row, lambda f: abs(1 - f))
        cpr, cmd = (row.cpr, row.cpr_low, row.cpr_high), (row.cmd, row.cmd_low, row.cmd_high)
        for kind, of, ends in [(SIGNED, of_cpr, cpr), ("size", of_cmd, cmd)][: len(predicted)]:
            value = _at(predicted[kind], of, [1.0] * len(PROMPTS))
            half = book.reach(partial(_at, predicted[kind], of), len(PROMPTS))
            assert ends == pytest.approx((value, value - half, value + half), abs=2e-3)


def _area(row: AreaRow, number: Callable[[float], float], left: list[float]) -> float:
    """The area of a number of faithfulness over the sizes and on the scale of a row."""
    sizes = MIB if row.sizes == "mib" else [size for size in SIZES if row.scale == "linear" or size]
    at = SHARES if row.sizes == "mib" else [size / 12 for size in sizes]
    if row.scale == "log":
        at = [1 - np.log(each) / np.log(at[0]) for each in at]
    return book.area(at, [number(left[size]) for size in sizes])


def _at(predicted: list[list[float]], number: Any, weights: list[float]) -> Any:
    """A number of the curve, if prompts count by some weights."""
    return number(book.faithfulness(predicted, weights))


@pytest.mark.slow
def test_the_smallest_circuits_are_read_off_the_curve(found: Explained) -> None:
    for row in found.circuits:
        known = {"ranking": row.ranking, "others": row.others, "order": row.order}
        curve = select(found.faithfulness, **known)
        first = next(each for each in curve if each.value >= row.level)
        assert (row.heads, row.value, row.low) == (first.heads, first.value, first.low)
        above = [all(each.value >= row.level for each in curve[n:]) for n in range(len(curve))]
        assert row.stays == curve[above.index(True)].heads >= row.heads
        assert str(row.shared) == str(first.shared) and row.chance == row.heads**2 / 12
        if row.ranking == RANDOM:
            assert row.names == ""
            continue
        best = [" ".join(each[: row.heads]) for each in _orders(found, row.ranking, row.order)]
        assert row.names == " | ".join(dict.fromkeys(best))
    assert any(row.stays > row.heads for row in found.circuits)
    assert {row.ranking for row in found.areas} == {"gradient", "norm", RANDOM}
    assert [row.level for row in found.circuits[:4]] == [0.5, 0.8, 0.9, 0.95]
    assert found.record.nothing == found.complements[0].nothing


def planted_model() -> Loaded:
    """A model in which dec.0.2 says what the tokens are, to dec.1.4 alone, which copies them."""
    held = loaded(LLAMA)
    held = replace(held, model=copy.deepcopy(held.model))
    model: Any = held.model
    embedded, output = model.model.embed_tokens.weight, model.get_output_embeddings().weight
    with torch.no_grad():
        for layer in model.model.layers:
            for each in (layer.mlp.down_proj, layer.self_attn.o_proj, layer.self_attn.q_proj):
                each.weight.zero_()  # heads look at all tokens alike
        first, second = (layer.self_attn for layer in model.model.layers)
        dim = first.head_dim
        embedded[:, -dim:] = 0  # what dec.0.2 writes, and nothing else reads or writes
        output[:, -dim:] = 0
        first.v_proj.weight[:dim] = torch.eye(dim, embedded.shape[1])
        first.o_proj.weight[-dim:, 2 * dim : 3 * dim] = torch.eye(dim)
        second.v_proj.weight[dim : 2 * dim] = torch.eye(dim, embedded.shape[1]).roll(-dim, 1)
        back = torch.linalg.pinv(embedded[:, :dim]) @ output  # two of its columns are 0
        second.o_proj.weight[:, 4 * dim : 5 * dim] = 20 * back.T
    return held


def copied(held: Loaded) -> list[Prompt]:
    """Some prompts whose word is copied, those in which it counts most against a rival."""
    words = ("rain", "night", "sister", "moon", "two")
    prompts = [
        Prompt(f"The {one} and", f" {one}", f" {other}", f"The {other} and")
        for one, other in permutations(words, 2)
    ]
    cases = [Reader(held, ExplainOptions()).case(each) for each in prompts]
    means = mean_outputs(held, [case.rows[0] for case in cases])
    gains = [Mean().lost(PromptRuns(held, case, means), [[*held.heads]])[0] for case in cases]
    return [prompts[n] for n in np.argsort(gains)[-6:]]


@pytest.mark.slow
def test_the_mean_of_ranks_is_a_ranking() -> None:
    """Of a head that is second by one effect and fourth by another, the mean place is third."""
    options = ExplainOptions(
        effects=("gradient", "zero"), together=(), draws=1, circuit=True, others=("mean",)
    )
    found = explain(loaded(LLAMA), PROMPTS, options=options)
    for order in ORDERS:
        expected = []
        for half in (0, 1):
            orders = [_orders(found, name, order)[half] for name in ("gradient", "zero")]
            places = {name: sum(each.index(name) for each in orders) for name in orders[0]}
            names = sorted(map(str, loaded(LLAMA).heads), key=lambda name: places[name])
            expected.append(names)
        for row in select(found.circuits, ranking="mean_of_ranks", order=order):
            best = [" ".join(each[: row.heads]) for each in expected]
            assert row.names == " | ".join(dict.fromkeys(best))


def test_a_planted_circuit_is_found_exactly() -> None:
    """What replaces heads finds both; attribution sees nothing of the head that only tells."""
    planted, named = planted_model(), ("mean", "corrupt", "restored", "estimate", "knockout")
    options = ExplainOptions(
        effects=(*named, "attribution"), exact=12, circuit=True, together=(), draws=1
    )
    found = explain(planted, copied(planted), options=options)
    pair, seen = {"dec.0.2", "dec.1.4"}, set[str]()
    for row in found.circuits:
        if row.ranking in (*named, "exact_for_the_best"):
            seen |= {row.ranking}
            assert row.heads == 2 and {*row.names.replace("|", "").split()} == pair, row
            assert row.value == pytest.approx(1, abs=1e-4) and row.shared == 2
        elif row.ranking == "attribution":
            assert row.heads > 2, row
    assert len(seen) == 6 and not found.of("attribution")["dec.0.2"].value
    text = document_of(found).markdown()
    assert "2 of 12 heads" in text, text


@pytest.mark.slow
@pytest.mark.parametrize("others", ["second", "mean", "zero"])
def test_circuits_of_heads_and_mlps_are_those_of_hooks(others: str) -> None:
    """Faithfulness by hooks on projections and on whole MLP modules of the stock model."""
    held: Any = loaded(LLAMA)
    options = ExplainOptions(
        effects=("estimate",),
        together=(),
        draws=1,
        circuit=True,
        others=(others,),
        units=("heads", "mlps"),
    )
    found = explain(held, PROMPTS, options=options)
    layers, names = held.model.model.layers, [*map(str, held.heads), "mlp.0", "mlp.1"]
    rows = {row.part: row for row in found.effects if row.effect == "estimate"}
    assert {*rows} >= {*names} and len(rows) == len({*rows})
    cases = [Reader(held, ExplainOptions()).case(each) for each in PROMPTS]

    def heard(inputs: Any, change: Any = None) -> tuple[Any, torch.Tensor]:
        """What projections read and MLPs give, and log-probabilities."""
        seen, handles = {}, []
        for n, layer in enumerate(layers):

            def project(_: Any, given: Any, n: int = n) -> Any:
                seen[n] = given[0][0].clone()
                return None if change is None else (change(n, given[0][0])[None],)

            def feed(_: Any, given: Any, output: Any, n: int = n) -> Any:
                seen[f"mlp.{n}"] = output[0].clone()
                return None if change is None else change(f"mlp.{n}", output[0])[None]

            handles.append(layer.self_attn.o_proj.register_forward_pre_hook(project))
            handles.append(layer.mlp.register_forward_hook(feed))
        with torch.no_grad():
            logits = held.model(**inputs).logits[0].double().log_softmax(-1)
        for each in handles:
            each.remove()
        return seen, logits

    clean = [heard(case.rows[0].inputs(held))[0] for case in cases]
    means = {key: torch.cat([each[key] for each in clean]).mean(0) for key in clean[0]}

    def left(row: Any, second: Any, kept: list[str]) -> float:
        there = heard(second.inputs(held))[0]
        there = {key: each[[*row.in_other]] for key, each in there.items()}

        def change(key: Any, given: torch.Tensor) -> torch.Tensor:
            instead = torch.zeros_like(given)
            if others == "second":
                instead = there[key]
            if others == "mean":
                instead = means[key].expand_as(given)
            if isinstance(key, str):
                return given if key in kept else instead
            new, dim = instead.clone(), given.shape[-1] // 6
            for head in range(6):
                if f"dec.{key}.{head}" in kept:
                    place = slice(head * dim, (head + 1) * dim)
                    new[:, place] = given[:, place]
            return new

        log = heard(row.inputs(held), change)[1]
        return float(sum(each.sign * log[each.place, each.token] for each in row.readings))

    def all_left(halves: list[list[str]]) -> float:
        """The mean over prompts, of which each half keeps its own units."""
        return float(
            np.mean(
                [
                    sum(
                        left(*rows, halves[n % 2])
                        for rows in zip(case.rows, case.corrupt or (), strict=True)
                    )
                    for n, case in enumerate(cases)
                ]
            )
        )

    none, whole = all_left([[], []]), all_left([names, names])
    for row in select(found.faithfulness, ranking="estimate", order="signed"):
        kept = [
            sorted(names, key=lambda name: -getattr(rows[name], half))[: row.heads]
            for half in ("second", "first")
        ]
        expected = (all_left(kept) - none) / (whole - none)
        assert row.value == pytest.approx(expected, abs=1e-4)
    assert "Units are heads and 2 MLPs" in document_of(found).markdown()


@pytest.mark.slow
def test_mlps_that_do_nothing_are_in_no_planted_circuit() -> None:
    """They write zero, so two heads of 14 units are the circuit, and every size agrees."""
    held = planted_model()
    options = ExplainOptions(
        effects=("estimate", "corrupt"),
        together=(),
        draws=1,
        circuit=True,
        others=("second",),
        units=("heads", "mlps"),
        steps=30,
    )
    found = explain(held, copied(held), options=options)
    for effect in options.effects:
        values = [found.of(effect)[f"mlp.{n}"].value for n in (0, 1)]
        assert values == pytest.approx([0, 0], abs=1e-6)
    for row in select(found.circuits, level=0.95, order=SIGNED):
        if row.ranking != RANDOM:
            names = {*row.names.replace("|", " ").split()}
            assert row.heads == 2 and names == {"dec.0.2", "dec.1.4"}, row
    assert found.faithfulness[-1].heads == 14


def test_the_best_heads_are_ranked_again_by_what_they_do_alone() -> None:
    """By the book: each half replaces its own best two, and the others keep the first effect."""
    held, random = loaded(LLAMA), np.random.default_rng(0)
    options = ExplainOptions(
        effects=("estimate",), exact=2, circuit=True, others=("second",), draws=1
    )
    cases = [Reader(held, options).case(each) for each in PROMPTS]
    plan = Plan.of(held, cases, options, ())
    (end,), _ = ends_of(plan)
    effect_NH = random.normal(0, 1e-3, (8, 12))
    effect_NH[:, 3] -= 5
    effect_NH[::2, 7] += 5
    effect_NH[1::2, 8] += 5
    nothing, none_N = np.zeros((8, 0)), np.zeros(8)
    known = {"estimate": effect_NH}
    singles = Singles(plan, none_N, none_N, none_N, known, {}, float("nan"), nothing)
    taught = np.array([11, 10, *range(10)])
    learned = Ranked("matryoshka", SIGNED, [(taught, taught[::-1])], True)
    signed, size = refined(singles, [learned], end, silent)
    heads = [*held.heads]
    for half, best in [(0, {3, 8, 10, 11}), (1, {3, 7, 9, 8})]:
        score = effect_NH[1 - half :: 2].mean(0)
        for head in best:
            lost = [
                Corrupt().lost(PromptRuns(held, case, None), [[heads[head]]])[0]
                for case in cases[1 - half :: 2]
            ]
            score[head] = np.mean(lost)
        assert signed.halves[0][half].tolist() == sorted(range(12), key=lambda n: -score[n])
        expected = sorted(range(12), key=lambda n: -abs(score[n]))
        assert size.halves[0][half].tolist() == expected


def test_a_circuit_costs_little_by_default() -> None:
    """The cheapest effect, a learned ranking and exact effects of few; all can be named instead."""
    held, usual = loaded(LLAMA), ExplainOptions(circuit=True)
    cases = [Reader(held, usual).case(each) for each in PROMPTS]
    assert (usual.learning, usual.refining) == (120, 30)
    assert [each.name for each in Plan.of(held, cases, usual, ()).effects] == ["estimate"]
    alone = [replace(case, corrupt=None) for case in cases]
    assert [each.name for each in Plan.of(held, alone, usual, ()).effects] == ["gradient"]
    named = replace(usual, effects=("zero",))
    assert (named.learning, named.refining) == (0, 0)
    assert (replace(named, exact=4).refining, replace(usual, steps=0).learning) == (4, 0)
    assert ExplainOptions().learning == 0 == ExplainOptions().refining


@pytest.mark.slow
def test_what_nobody_asked_for_has_few_sizes() -> None:
    """Random heads, and means beside second prompts, have MIB's; what is named has all sizes."""
    few, every = [0, 1, 2, 6, 12], [*range(11), 12]
    asked = ExplainOptions(effects=("gradient",), together=(), draws=1, circuit=True)
    for options, means in ((asked, few), (replace(asked, others=("second", "mean")), every)):
        explained = explain(loaded(LLAMA), PROMPTS, options=options)
        rows = explained.faithfulness
        for others, ranking, sizes in [
            ("second", "gradient", every),
            ("second", RANDOM, few),
            ("mean", "gradient", means),
            ("mean", RANDOM, few),
        ]:
            found = select(rows, others=others, ranking=ranking, order=SIGNED)
            assert [row.heads for row in found] == sizes, (others, ranking)
        text = document_of(explained).markdown()
        assert "then to a fifth, but random heads have MIB's. Each" in text
        assert ("that is left. Sizes are MIB's." in text) is (means == few)


def test_how_long_circuits_take_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """More prompts and more steps take longer; less than a minute is not worth a word."""
    held = loaded(LLAMA)
    options = ExplainOptions(circuit=True, others=("second",), steps=2)
    ticks, clock = count(0.0, 1.0), "headcount.explanation.forecasting.perf_counter"
    monkeypatch.setattr(clock, lambda: next(ticks))
    # A run of a prompt, 16 rows and 2 steps take a second each: 8 prompts of 6 runs, and of
    # (2 x 2 + 1) curves of 10 sizes, 3 of 2 and 24 single rows at 1/16 s, and 4 steps.
    assert forecast(held, PROMPTS, options) == (
        "Circuits of 12 heads on 8 prompts take about 2 minutes here."
    )
    longer = forecast(held, PROMPTS * 4, replace(options, steps=1200))
    assert longer == "Circuits of 12 heads on 32 prompts take about 26 minutes here."
    monkeypatch.setattr(clock, lambda: 0.0)
    assert forecast(held, PROMPTS, options) == ""


@pytest.mark.slow
def test_what_has_no_circuit(tmp_path: Path) -> None:
    held, options = loaded(LLAMA), ExplainOptions(effects=("mean",), together=(), circuit=True)
    swapped = [replace(each, target=each.against or "", against=each.target) for each in PROMPTS]
    mixed = [*PROMPTS[:4], *swapped[4:]]
    scores = {"norm": dict.fromkeys(held.heads, 1.0)}
    for prompts, given, says in [
        (PROMPTS[:3], {}, "Expected at least 4 prompts for a circuit, since each half"),
        (swapped[:4], {}, "of which the model prefers some target to its ri"),
        ([*swapped[1:6:4], *PROMPTS[:4:3]], {}, "Expected heads that raise what is predicted, got"),
        (mixed, {}, "Expected heads that raise what is predicted, got"),
        (PROMPTS, {"norm": {}}, "Expected a number for each head of tiny LlamaForCausalLM"),
        (PROMPTS, {"norm": dict.fromkeys(held.heads, float("nan"))}, "got 0 for 12 heads"),
    ]:
        with pytest.raises(InputError, match=says):
            explain(held, prompts, options=options, scores=given)
    same = [replace(each, corrupt=each.prompt) for each in PROMPTS[:4]]
    found = explain(held, same, options=replace(options, draws=1))
    assert [row.others for row in found.complements] == ["mean"]
    assert (
        "no circuit is judged where other heads give their outputs in the second prompt"
        in " ".join(found.record.warnings)
    )
    with pytest.raises(InputError, match="expected a second prompt, which gives the outputs of"):
        lacking = [*PROMPTS, Prompt("The rain", " moon")]
        explain(held, lacking, options=replace(options, others=("second",)))
    with pytest.raises(InputError, match="got --others zero without one"):
        ExplainOptions(others=("zero",))
    with pytest.raises(
        InputError, match=r"Expected an output of other heads \(one of second, mean"
    ):
        ExplainOptions(circuit=True, others=("median",))
    with pytest.raises(InputError, match="for the heads outside a circuit, got restored"):
        explain(held, PROMPTS, options=replace(options, others=("restored",)))
    with pytest.raises(InputError, match="Expected a circuit, whose heads scores choose, got norm"):
        explain(held, PROMPTS, options=replace(options, circuit=False), scores=scores)
    with pytest.raises(InputError, match="Expected all heads for a circuit, got dec.0.1 alone"):
        ExplainOptions(heads=("dec.0.1",), circuit=True)


def _singles(
    held: Loaded, effects: dict[str, Any], draws: int, prompts: list[Prompt], values: list[float]
) -> Singles:
    """A table of effects on three prompts that share no names."""
    reader = Reader(loaded(LLAMA), ExplainOptions())
    options, cases = ExplainOptions(draws=draws), [reader.case(each) for each in prompts]
    plan = replace(Plan.of(held, cases, options, ()), blocks=Blocks(np.arange(3)))
    value_N = np.array(values)
    return Singles(plan, value_N, value_N, value_N, effects, {}, 0.0, np.zeros((3, 0)))


@pytest.mark.parametrize(("effect", "best", "random"), [(Zero(), 2, 1.5), (Restored(), 1, 1.0)])
def test_prompts_whose_target_stays_preferred_are_counted(
    effect: Replacement, best: int, random: float
) -> None:
    """With the best heads replaced, and the mean over sets of random ones; and their spread."""
    held, name = loaded(LLAMA), effect.name
    values = [-3.0, 0.0, 1.0] if effect.into_second else [3.0, 2.0, 1.0]
    alone = {name: np.ones((3, len([*held.heads])))}
    effect_NS = np.array([[2.0, 5.0, 1.0], [1.0, -1.0, 0.5], [-9.0, 3.0, 3.0]])
    without = [replace(each, against=None) for each in PROMPTS[:3]]
    singles = _singles(held, alone, 2, [*PROMPTS[:2], without[2]], values)
    row = Together(effect, name, singles, 1).row(effect_NS)
    assert (row.preferred, row.random_preferred) == (best, random)
    means = (5 - 1 + 3) / 3, (1 + 0.5 + 3) / 3
    assert (row.random_least, row.random_most) == pytest.approx((min(means), max(means)))
    none = Together(effect, name, _singles(held, alone, 2, without, values), 1).row(effect_NS)
    assert isnan(none.preferred) and isnan(none.random_preferred)


def test_random_heads_are_of_any_layer_where_too_few_sets_of_the_same_exist() -> None:
    """Of 4 heads a layer, 1 has 3 others; of 9, 2 in one layer and 1 in another have 21 x 8."""
    for per_layer, best, drawn in [(4, [0], "all"), (9, [0], "all"), (9, [0, 1, 9], "layers")]:
        sizes: dict[str, Any] = {"vocab_size": 1000, "intermediate_size": 8}
        config = LlamaConfig(
            num_hidden_layers=3, num_attention_heads=per_layer, hidden_size=4 * per_layer, **sizes
        )
        held = Loaded(LlamaForCausalLM(config), None, "tiny")
        heads = [*held.heads]
        alone = np.zeros((3, len(heads)))
        alone[:, best] = 1
        singles = _singles(held, {"zero": alone}, 40, PROMPTS[:3], [1.0] * 3)
        sets = Together(Zero(), "zero", singles, len(best))
        assert sets.row(np.ones((3, 41))).drawn == drawn
        layers = {tuple(sorted(head.layer for head in each)) for each in sets.sets(0)[1:]}
        assert len(layers) == 1 if drawn == "layers" else len(layers) > 1
        assert not {heads[n] for n in best} & {head for each in sets.sets(0)[1:] for head in each}
