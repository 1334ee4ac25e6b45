"""Circuits: faithfulness and its areas by the book, planted heads, and what has no circuit."""

import copy
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headcount.core import Head, InputError
from headcount.explanation import ExplainOptions, Prompt, explain
from headcount.explanation.blocks import Blocks
from headcount.explanation.effects import Mean, Replacement, Restored, Zero
from headcount.explanation.prompt_runs import PromptRuns, mean_outputs
from headcount.explanation.reader import Reader
from headcount.explanation.together import Together
from headcount.models import Loaded
from headcount.reports import document_of
from headcount.results import RANDOM, Explained
from tests.tasks.loaded import loaded
from tests.textbook import explanation as book

LLAMA = "LlamaForCausalLM"
SIZES = [*range(11), 12]
PROMPTS = [
    Prompt("The old dog barked at the", " night", " cat"),
    Prompt("She doesn't believe that her", " moon", " sister"),
    Prompt("A painter bought two green", " moon", " sister"),
    Prompt("Did you hear the rain", " train", " sister"),
]
PROMPTS += [replace(each, prompt=f"{each.prompt} old") for each in PROMPTS]


@pytest.fixture(scope="module")
def found() -> Explained:
    options = ExplainOptions(effects=("gradient", "mean"), together=(), draws=2, circuit=True)
    scores = {"norm": {head: float(n % 5) for n, head in enumerate(loaded(LLAMA).heads)}}
    return explain(loaded(LLAMA), PROMPTS, options=options, scores=scores)


def _orders(found: Explained, ranking: str) -> list[list[str]]:
    """The heads for both halves of the prompts, the best first by the other half."""
    names = [*map(str, loaded(LLAMA).heads)]
    if ranking == "norm":
        return [sorted(names, key=lambda name: -(names.index(name) % 5))] * 2
    rows = found.of(ranking)
    return [
        sorted(names, key=lambda name: -rows[name].second),
        sorted(names, key=lambda name: -rows[name].first),
    ]


def _predicted(held: Loaded, order: list[list[str]], means: Any) -> list[list[float]]:
    """What each prompt's best heads predict, by their number."""
    found = list[list[float]]()
    for n, prompt in enumerate(PROMPTS):
        case, best = Reader(held, ExplainOptions()).case(prompt), order[n % 2]
        totals = [0.0] * (len(best) + 1)
        for row in case.rows:
            inputs, num = row.inputs(held), len(row.ids)
            instead = {key: mean.float().expand(num, -1) for key, mean in means.items()}

            def read(logits: torch.Tensor, row: Any = row) -> float:
                log = logits.log_softmax(-1)
                return sum(each.sign * float(log[each.place, each.token]) for each in row.readings)

            for size in range(len(best) + 1):
                gone = [Head.parse(name) for name in best[size:]]
                heads = [(head.site, head.layer, head.index) for head in gone]
                totals[size] += book.without(held.model, inputs, heads, instead, read)
        found.append(totals)
    return found


@pytest.mark.parametrize("ranking", ["gradient", "norm"])
def test_faithfulness_and_areas_are_those_of_the_book(found: Explained, ranking: str) -> None:
    held = loaded(LLAMA)
    cases = [Reader(held, ExplainOptions()).case(each) for each in PROMPTS]
    seen = [book.head_inputs(held.model, case.rows[0].inputs(held)) for case in cases]
    means = {key: torch.cat([each[key] for each in seen]).double().mean(0) for key in seen[0]}
    order, rows = _orders(found, ranking), [r for r in found.faithfulness if r.ranking == ranking]
    predicted, even = _predicted(held, order, means), [1.0] * len(PROMPTS)
    predicted = [[each[size] for size in SIZES] for each in predicted]
    assert [row.heads for row in rows] == SIZES
    left = book.faithfulness(predicted, even)
    assert [row.value for row in rows] == pytest.approx(left, abs=2e-4)
    assert found.record.nothing == pytest.approx(np.mean([each[0] for each in predicted]), abs=1e-5)
    for place, (size, row) in enumerate(zip(SIZES, rows, strict=True)):
        shared = {*order[0][:size]} & {*order[1][:size]}
        half = book.reach(
            partial(_at, predicted, lambda left, place=place: left[place]), len(PROMPTS)
        )
        assert (row.low, row.high) == pytest.approx((row.value - half, row.value + half), abs=1e-3)
        assert row.shared == len(shared) or ranking == "norm" and isnan(row.shared)
    (area,) = [each for each in found.areas if each.ranking == ranking]
    assert (area.cpr, area.cmd) == pytest.approx(book.areas(SIZES, left), abs=2e-4)
    for which, width in enumerate([area.cpr_high - area.cpr_low, area.cmd_high - area.cmd_low]):
        of = partial(_at, predicted, lambda left, n=which: book.areas(SIZES, left)[n])
        assert width == pytest.approx(2 * book.reach(of, len(PROMPTS)), abs=1e-3)


def _at(predicted: list[list[float]], number: Any, weights: list[float]) -> float:
    """A number of the curve, if prompts count by some weights."""
    return number(book.faithfulness(predicted, weights))


def test_the_smallest_circuits_are_read_off_the_curve(found: Explained) -> None:
    for row in found.circuits:
        curve = [each for each in found.faithfulness if each.ranking == row.ranking]
        first = next(each for each in curve if each.value >= row.level)
        assert (row.heads, row.value, row.low) == (first.heads, first.value, first.low)
        assert str(row.shared) == str(first.shared) and row.chance == row.heads**2 / 12
        if row.ranking == RANDOM:
            assert row.names == ""
            continue
        best = [" ".join(each[: row.heads]) for each in _orders(found, row.ranking)]
        assert row.names == " | ".join(dict.fromkeys(best))
    assert [row.ranking for row in found.areas] == ["gradient", "mean", "norm", RANDOM]
    assert [row.level for row in found.circuits[:4]] == [0.5, 0.8, 0.9, 0.95]


@pytest.fixture(scope="module")
def planted() -> Loaded:
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


def _copied(held: Loaded) -> list[Prompt]:
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


def test_a_planted_circuit_is_found_exactly(planted: Loaded) -> None:
    """What replaces heads finds both; attribution sees nothing of the head that only tells."""
    options = ExplainOptions(circuit=True, together=(), draws=1)
    found = explain(planted, _copied(planted), options=options)
    pair, seen = {"dec.0.2", "dec.1.4"}, set[str]()
    for row in found.circuits:
        if row.ranking in ("mean", "corrupt", "restored", "estimate", "knockout"):
            seen |= {row.ranking}
            assert row.heads == 2 and {*row.names.replace("|", "").split()} == pair, row
            assert row.value == pytest.approx(1, abs=1e-4) and row.shared == 2
        elif row.ranking == "attribution":
            assert row.heads > 2, row
    assert len(seen) == 5 and not found.of("attribution")["dec.0.2"].value
    text = document_of(found).markdown()
    assert "2 of 12 heads" in text, text


def test_what_has_no_circuit(tmp_path: Path) -> None:
    held, options = loaded(LLAMA), ExplainOptions(effects=("mean",), together=(), circuit=True)
    swapped = [replace(each, target=each.against or "", against=each.target) for each in PROMPTS]
    mixed = [*PROMPTS[:4], *swapped[4:]]
    scores = {"norm": dict.fromkeys(held.heads, 1.0)}
    for prompts, given, says in [
        (PROMPTS[:3], {}, "Expected at least 4 prompts for a circuit, since each half"),
        (swapped[:4], {}, "of which the model prefers some target to its ri"),
        ([*swapped[1:3], *PROMPTS[::4]], {}, "Expected heads that raise what is predicted, got"),
        (mixed, {}, "Expected heads that raise what is predicted, got"),
        (PROMPTS, {"norm": {}}, "Expected a number for each head of tiny LlamaForCausalLM"),
        (PROMPTS, {"norm": dict.fromkeys(held.heads, float("nan"))}, "got 0 for 12 heads"),
    ]:
        with pytest.raises(InputError, match=says):
            explain(held, prompts, options=options, scores=given)
    with pytest.raises(InputError, match="Expected a circuit, whose heads scores choose, got norm"):
        explain(held, PROMPTS, options=replace(options, circuit=False), scores=scores)
    with pytest.raises(InputError, match="Expected all heads for a circuit, got dec.0.1 alone"):
        ExplainOptions(heads=("dec.0.1",), circuit=True)


@pytest.mark.parametrize(("effect", "best", "random"), [(Zero(), 2, 1.5), (Restored(), 1, 1.0)])
def test_prompts_whose_target_stays_preferred_are_counted(
    effect: Replacement, best: int, random: float
) -> None:
    """With the best heads replaced, and the mean over sets of random ones; and their spread."""
    heads, blocks = [*loaded(LLAMA).heads], Blocks(np.arange(3))
    alone = {effect.name: np.ones((3, len(heads)))}
    options = ExplainOptions(draws=2)
    together = Together(effect, effect.name, alone, heads, 1, heads, options)
    for effect_S in ([2.0, 5.0, 1.0], [1.0, -1.0, 0.5], [-9.0, 3.0, 3.0]):
        together.add(np.array(effect_S))
    before = np.array([3.0, 2.0, np.nan] if not effect.into_second else [-3.0, 0.0, np.nan])
    row = together.row(before, blocks)
    assert (row.preferred, row.random_preferred) == (best, random)
    means = (5 - 1 + 3) / 3, (1 + 0.5 + 3) / 3
    assert (row.random_least, row.random_most) == pytest.approx((min(means), max(means)))
    none = together.row(np.full(3, np.nan), blocks)
    assert isnan(none.preferred) and isnan(none.random_preferred)
