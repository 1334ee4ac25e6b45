"""Budgets are met exactly by whole units in the order given, or refused with the nearest one."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import transformers as hf
from hypothesis import given, settings

from headcount.compaction import compact
from headcount.core import Head, Heads, InputError, ModelError, Plan
from headcount.models import Loaded, revision
from headcount.pruning import (
    BudgetSpec,
    Compensation,
    Pruning,
    Units,
    check_prunable,
    method,
    share,
)
from headcount.pruning.budget import by_site, pruned_heads
from headcount.tap import examine
from headcount.testing import leaving_no_trace
from headcount.training import FinetuneConfig
from tests import tiny
from tests.examined import examined
from tests.pruning.context import context
from tests.textbook import pruning as textbook
from tests.turns import slow

FEW = settings(max_examples=25)
SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=7)


def units_of(sizes: Sequence[int], pinned: int = 0) -> Units:
    """Units of the given sizes in one layer, followed by heads that are always kept."""
    heads = [Head("encoder.self", 0, index) for index in range(sum(sizes) + pinned)]
    units, done = [], 0
    for size in sizes:
        units.append(tuple(heads[done : done + size]))
        done += size
    return Units(Heads({"encoder.self": (len(heads),)}), tuple(units))


@FEW
@given(SIZES, st.integers(0, 3))
def test_possible_is_every_subset(sizes: list[int], pinned: int) -> None:
    units = units_of(sizes, pinned)
    assert units.possible() == textbook.possible(len(units.heads), sizes)
    assert units.possible("encoder.self") == units.possible()


@FEW
@given(st.data(), SIZES, st.integers(0, 3))
def test_exactly_so_many_whole_units_go(data: st.DataObject, sizes: list[int], pinned: int) -> None:
    units = units_of(sizes, pinned)
    shuffled = data.draw(st.permutations(units.units))
    keep = data.draw(st.sampled_from(units.possible()))
    gone = pruned_heads([head for unit in shuffled for head in unit], units, keep)
    assert len(gone) == len(set(gone)) == len(units.heads) - keep
    assert all(set(unit) <= set(gone) or not set(unit) & set(gone) for unit in units.units)


@FEW
@given(st.data(), st.integers(1, 3), st.integers(1, 6))
def test_smaller_budgets_are_nested(data: st.DataObject, size: int, number: int) -> None:
    units = units_of([size] * number)
    order = [head for unit in data.draw(st.permutations(units.units)) for head in unit]
    gone = [pruned_heads(order, units, keep) for keep in reversed(units.possible())]
    for fewer, more in zip(gone, gone[1:], strict=False):
        assert more[: len(fewer)] == fewer and more == order[: len(more)]


@FEW
@given(st.data(), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_groups_lose_as_many_heads(
    data: st.DataObject, layers: int, groups: int, size: int, alone: bool
) -> None:
    """Groups keep their first heads, layers go by mean place, and smaller budgets are nested."""
    heads = Heads({"decoder.self": (groups * size,) * layers + (3,) * alone})
    shared = tuple(
        tuple(
            tuple(Head("decoder.self", layer, group * size + index) for index in range(size))
            for group in range(groups)
        )
        for layer in range(layers)
    )
    units = Units(heads, tuple((head,) for head in heads), shared)
    order = data.draw(st.permutations(list(heads)))
    before: set[Head] = set()
    for keep in reversed(units.possible()):
        gone = pruned_heads(order, units, keep)
        assert len(set(gone)) == len(heads) - keep
        if not alone:
            assert before <= set(gone)
            before = set(gone)
        rows = [[[head for head in order if head in group] for group in layer] for layer in shared]
        for row in rows:
            number = sum(head in gone for head in row[0])
            for group in row:
                assert [head in gone for head in group] == [True] * number + [False] * (
                    size - number
                )
        means = {
            (layer, index): sum(order.index(group[index]) for group in row) / groups
            for layer, row in enumerate(rows)
            for index in range(size)
        }
        going = [mean for (layer, i), mean in means.items() if rows[layer][0][i] in gone]
        kept_heads = [mean for (layer, i), mean in means.items() if rows[layer][0][i] not in gone]
        if going and kept_heads and not alone:
            assert max(going) <= min(kept_heads)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *slow(1, 2, 3)])
def test_what_groups_leave_evenly_can_be_made_compact(seed: int) -> None:
    """With one score per head, a layer keeps equally many heads of every group, or none."""
    model, anatomy = examined("llama")
    units = Units.of(anatomy, whole_groups=False)
    order = random.Random(seed).sample(list(anatomy.heads), len(anatomy.heads))
    for keep in (2, 6, 10):
        gone = pruned_heads(order, units, keep)
        plan = Plan.keeping(anatomy.heads, set(anatomy.heads) - set(gone), revision(model))
        assert sum(layer.num_heads for layer in examine(compact(model, plan)).layers) == keep


def test_a_unit_whose_rest_would_not_come_out_is_passed_over() -> None:
    units = units_of([2, 3, 3])
    order = [head for unit in units.units for head in unit]
    assert pruned_heads(order, units, 2) == [*units.units[1], *units.units[2]]


def test_a_unit_has_the_place_of_its_first_head() -> None:
    units = units_of([2, 2])
    (a, b), (c, d) = units.units
    assert pruned_heads([a, c, d, b], units, 2) == [a, b]


def test_units_of_a_model() -> None:
    _, anatomy = examined("llama")  # 2 layers with 6 heads that share 2 keys and values
    units = Units.of(anatomy)
    assert [len(unit) for unit in units.units] == [3] * 4
    assert units.units[1] == tuple(Head("decoder.self", 0, index) for index in (3, 4, 5))
    evenly = Units.of(anatomy, whole_groups=False)
    assert len(evenly.units) == 12 and evenly.sizes() == [2] * 6
    assert evenly.possible() == [0, 2, 4, 6, 8, 10, 12]
    with pytest.raises(InputError, match="in groups of 2, got 5. The nearest is 6"):
        by_site(evenly, 5)
    with pytest.raises(InputError, match="in groups of 2, got 5. The nearest is 6"):
        by_site(evenly.named({"decoder.self": 5}), {"decoder.self": 5})
    _, anatomy = examined("marian")
    sites = {head.site for unit in Units.of(anatomy, ["decoder.cross"]).units for head in unit}
    assert sites == {"decoder.cross"}
    with pytest.raises(InputError, match=r"Expected a site of the model \(encoder.self or"):
        Units.of(anatomy, ["decoder"])


def test_sites_have_budgets_of_their_own() -> None:
    _, anatomy = examined("marian")
    units = Units.of(anatomy)
    order = [head for unit in units.units for head in unit]
    gone = pruned_heads(order, units, {"encoder.self": 3, "decoder.cross": 30})
    assert [head.site for head in gone] == ["encoder.self"] * 7 + ["decoder.cross"] * 3
    with pytest.raises(InputError, match=r"can be pruned \(encoder.self\), got one for 'decoder"):
        by_site(Units.of(anatomy, ["encoder.self"]), {"decoder.self": 3})


@pytest.mark.parametrize(
    ("keep", "sentence"),
    [
        (
            9,
            "between 2 and 8 heads to keep in all, in groups of 3, got 9. The nearest is 8",
        ),
        (1, "got 1. The nearest is 2"),
        (4, "got 4. The nearest is 5"),
        (
            {"encoder.self": 7},
            "heads to keep at encoder.self, in groups of 3, got 7. The nearest is 8",
        ),
    ],
)
def test_what_can_not_be_met(keep: int | dict[str, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        by_site(units_of([3, 3], pinned=2), keep)


@pytest.mark.slow
def test_whole_numbers_of_any_kind_are_budgets() -> None:
    units = units_of([1] * 6)
    order = [head for unit in units.units for head in unit]
    for keep in (np.int64(2), {"encoder.self": np.int32(2)}):
        assert pruned_heads(order, units, keep) == order[:4]
        found = BudgetSpec(keep=keep).keep
        assert json.dumps(found) in ("2", '{"encoder.self": 2}')

    class Half:
        def __index__(self) -> int:
            raise TypeError("as a float has none")

    bert = context("masked-bert")
    found = Pruning(bert, method("random"), BudgetSpec(keep=np.int64(2)), bert.train).run()
    assert json.loads(json.dumps(found.record.to_json()))["limit"] == {"keep": 2}
    for wrong in (Half(), {"encoder.self": Half()}):
        with pytest.raises(InputError, match="Expected a whole number of heads to keep"):
            by_site(units, wrong)


@pytest.mark.slow
def test_what_can_not_be_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the development set would be translated and heads chosen first."""

    def measured(*_: Any, **__: Any) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr("headcount.pruning.pipeline.evaluate", measured)
    bert = context("masked-bert")
    with pytest.raises(InputError, match="got 99. The nearest is"):
        Pruning(bert, method("random"), BudgetSpec(keep=99), bert.train).run()
    loaded = Loaded(tiny.MODELS["albert"](), bert.loaded.tokenizer, "albert")
    albert = replace(bert, loaded=loaded, units=Units.of(loaded.anatomy))
    with pytest.raises(ModelError, match="share the attention module"):
        Pruning(albert, method("random"), BudgetSpec(keep=2), bert.train).run()
    for trained, task, reported in (
        ("gates", "masked-bert", "Expected gates to train, got none"),
        ("encoder", "causal-gpt2", "Expected a model with an encoder"),
    ):
        model = context(task)
        stages = Compensation(recovery=FinetuneConfig(trained=trained))  # type: ignore[arg-type]
        with pytest.raises(InputError, match=reported):
            Pruning(model, method("random"), BudgetSpec(keep=2), model.train, stages=stages).run()
    blind = replace(bert.loaded.anatomy.layers[0], output=None)
    loaded = replace(bert.loaded)
    vars(loaded)["anatomy"] = replace(
        bert.loaded.anatomy, layers=(blind, *bert.loaded.anatomy.layers[1:])
    )
    with pytest.raises(ModelError, match="does not go straight into a linear map"):
        Pruning(
            replace(bert, loaded=loaded), method("random"), BudgetSpec(keep=2), bert.train
        ).run()
    sizes: dict[str, Any] = tiny.GROUPED | {"hidden_size": 60, "pad_token_id": 0}
    loaded = Loaded(hf.Phi3ForCausalLM(hf.Phi3Config(**sizes)).eval(), None, "phi3")
    phi3 = replace(bert, loaded=loaded, units=Units.of(loaded.anatomy))
    with pytest.raises(ModelError, match="does not run with fewer heads"):
        Pruning(phi3, method("random"), BudgetSpec(keep=3), bert.train).run()


@pytest.mark.once
@pytest.mark.parametrize(
    ("name", "shared", "whole_groups", "stay"),
    [
        ("bert", None, True, [(4, 4)]),  # a head of every layer
        ("llama", 2, True, [(3, 3)]),  # a group of three
        ("llama", 2, False, [(4, 4)]),  # a head of each of two groups
        ("llama", 1, True, [(6, 0)]),  # one group per layer: one layer is pruned, not all of them
        ("llama", 1, False, [(5, 5)]),
        (
            "marian",
            None,
            True,
            [(5, 5), (10, 10, 10), (11, 11, 11)],
        ),  # from the site that loses some
    ],
)
def test_a_trial_cut_is_one_that_could_be_made(
    name: str,
    shared: int | None,
    whole_groups: bool,
    stay: list[tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The model is not changed."""
    model, made = tiny.MODELS[name](), []
    if shared:
        sizes: dict[str, Any] = tiny.GROUPED | {"num_key_value_heads": shared}
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)).eval()
    loaded = Loaded(model, None, name)
    sites = ["decoder.self"] if name == "marian" else None
    monkeypatch.setattr(
        "headcount.pruning.budget.compact",
        lambda *args, **more: made.append(compact(*args, **more)),
    )
    units = Units.of(loaded.anatomy, sites, whole_groups=whole_groups)
    with leaving_no_trace(model, tiny.inputs(model)):
        check_prunable(loaded, units)
    assert list(examine(made[0]).heads.counts.values()) == stay


def test_share() -> None:
    units = units_of([3, 3], pinned=2)
    assert [share(units, part) for part in (0, 0.2, 0.25, 0.5, 0.8, 1)] == [2, 2, 5, 5, 8, 8]
    with pytest.raises(InputError, match="heads to keep between 0 and 1, got 50"):
        share(units, 50)


def test_a_budget_that_whole_groups_can_not_meet_names_the_other_way() -> None:
    """A layer of three groups keeps equally many heads of each; a multi-query layer any number."""
    with pytest.raises(InputError) as caught:
        by_site(units_of([4, 4, 4]), 5)
    assert str(caught.value) == (
        "Expected between 0 and 12 heads to keep in all, in groups of 4, got 5. The nearest is 4. "
        "Possible are 0, 4, 8, 12, since heads that share keys and values are pruned together. "
        "Without this (--no-groups, or whole_groups=False) the nearest is 6."
    )
    with pytest.raises(InputError, match=r"The nearest is 4\. Possible .* 3 is possible\.$"):
        by_site(units_of([4]), 3)


@pytest.mark.parametrize("name", ["bert", "llama"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_layers_that_keep_equally_many_heads(name: str, number: int) -> None:
    """Those that come last in the order, layer by layer and group by group."""
    anatomy = examined(name)[1]
    units = Units.of(anatomy, whole_groups=name != "llama", even=True)
    groups = sum(each.num_key_value_heads if name == "llama" else 1 for each in anatomy.layers)
    order = [*anatomy.heads]
    random.Random(5).shuffle(order)
    gone = pruned_heads(order, units, len(order) - number * groups)
    for layer in anatomy.layers:
        here = [head for head in order if head.layer_id == layer.layer_id]
        size = layer.num_heads // layer.num_key_value_heads if name == "llama" else len(here)
        for first in range(0, layer.num_heads, size):
            group = [head for head in here if first <= head.index < first + size]
            assert [head for head in group if head in gone] == group[:number]
    assert units.possible()[0] == 0 and len(units.possible()) == size + 1


def test_layers_that_can_t_be_even() -> None:
    with pytest.raises(InputError, match="Expected --no-groups beside --even"):
        Units.of(examined("llama")[1], even=True)
    pruned = compact(examined("bert")[0], Plan({"encoder.self": {0: (1,)}}))
    with pytest.raises(InputError, match="got 1, 5 at encoder.self. Leave --even out"):
        Units.of(examine(pruned), even=True)
