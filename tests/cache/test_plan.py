"""Plan of a cache: its file, its words, and the plans that are refused."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.cache import CachePlan, Group, check_cache_plan, plan_for_cache, streamable
from headcount.compaction import compact
from headcount.core import InputError, ModelError, Plan
from headcount.models import revision
from headcount.tap import examine
from tests import examined, tiny

PLAN = CachePlan(((True, False), (False, False)), sink=3, recent=7)


def test_a_plan_is_written_and_read(tmp_path: Path) -> None:
    plan = replace(PLAN, model="86741b4e3f53")
    plan.write(tmp_path / "cache.json")
    assert json.loads((tmp_path / "cache.json").read_text()) == {
        "version": 1,
        "full": [[True, False], [False, False]],
        "sink": 3,
        "recent": 7,
        "model": "86741b4e3f53",
    }
    assert CachePlan.read(tmp_path / "cache.json") == plan


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cache.json is damaged: .* Run `headcount cache` again."),
        ('{"full": [[1]]}', "Expected full[0][0] in .* to be true or false, got 1."),
        ('{"full": [], "sink": 4}', "Expected the groups of a cache's plan by layer"),
        ('{"version": 2, "full": [[true]]}', "Expected version 1 in .*, got 2."),
        ('{"full": [[true]], "recent": 0}', "Expected `recent` of a cache's plan .* from 1, got 0"),
        ('{"full": [[true]], "recent": 7}', "Expected sink in .*, got none."),
        ('{"full": [[true]], "sink": 7}', "Expected recent in .*, got none."),
        ('{"version": 1, "kept": {}}', "Expected full in .*, got none."),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cache.json").write_text(text)
    with pytest.raises(InputError, match=message.replace("[", r"\[")):
        CachePlan.read(tmp_path / "cache.json")


def test_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Expected a plan of a cache, but .* can't be read"):
        CachePlan.read(tmp_path / "cache.json")


@pytest.mark.parametrize("name", ["sink", "recent"])
@pytest.mark.parametrize("size", [0, -1])
def test_sizes_below_one_are_refused(name: str, size: int) -> None:
    with pytest.raises(InputError, match=f"Expected `{name}` .* from 1, got {size}"):
        replace(PLAN, **{name: size})


def test_a_plan_is_made_for_a_model() -> None:
    model, anatomy = examined.examined("llama")
    plan = plan_for_cache(model, [(0, 1), (1, 0), (1, 1)], 3, 7, anatomy)
    assert plan == replace(PLAN, model=revision(model))
    assert plan.streaming == (Group(0, 1), Group(1, 0), Group(1, 1))
    assert streamable(model, anatomy) == plan.groups


@pytest.mark.slow
def test_a_layer_without_heads_has_no_groups() -> None:
    model, anatomy = examined.examined("llama")
    kept = [head for head in anatomy.heads if head.layer]
    plan = plan_for_cache(compact(model, Plan.keeping(anatomy.heads, kept)), [(1, 0)], 3, 7)
    assert plan.full == ((), (False, True))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "0" * 12}, "Expected the model with revision 000000000000"),
        (
            {"full": ((True, False, False),) * 2},
            "Expected a plan of this model, which has 2 layers x 2 key/value groups, got one of "
            "2 layers x 3 key/value groups.",
        ),
        (
            {"recent": tiny.NUM_POSITIONS - 3},
            "Expected fewer first and last tokens than the 128 of this model's context, got 3 + "
            "125: streaming groups would keep all keys.",
        ),
    ],
)
def test_plans_of_another_model_are_refused(changed: dict, message: str) -> None:
    model, anatomy = examined.examined("llama")
    with pytest.raises(InputError, match=re.escape(message)):
        check_cache_plan(replace(PLAN, **changed), model, anatomy)


def test_a_group_that_the_model_lacks_is_refused() -> None:
    model, anatomy = examined.examined("llama")
    with pytest.raises(InputError, match=r"2 layers x 2 key/value groups, got \(1, 2\)"):
        plan_for_cache(model, [(0, 1), (1, 2)], anatomy=anatomy)


def test_layers_with_a_sliding_window_stream_already() -> None:
    model, anatomy = examined.examined("gemma3_text")
    assert streamable(model, anatomy) == (Group(1, 0), Group(1, 1))
    assert plan_for_cache(model, [(1, 1)], 3, 7, anatomy).streaming == (Group(1, 1),)
    message = "some of layer 2, which keeps the last 3 tokens"
    with pytest.raises(InputError, match=message):
        plan_for_cache(model, [(2, 0)], 3, 7, anatomy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bart", "an encoder-decoder"),
        ("bert", "without decoder.self"),
        ("bloom", "takes a softmax of its own"),
        ("gemma2", "only its own eager function computes"),
        ("gpt_oss", "a sink that is no key"),
    ],
)
def test_models_whose_cache_cannot_stream_are_refused(name: str, message: str) -> None:
    model = tiny.gpt_oss() if name == "gpt_oss" else examined.examined(name)[0]
    with pytest.raises(ModelError, match=f"{type(model).__name__}, .*{message}.*can't stream"):
        streamable(model, examine(model))
