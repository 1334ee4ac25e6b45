"""A cache checks itself: what it computes must be what masks say, or it is refused."""

from copy import deepcopy
from typing import Any

import pytest
import torch

from headcount.cache import CachePlan, StreamingLayer, plan_cache, plan_for_cache, streaming_cache
from headcount.cache.holding import Pass, Reading
from headcount.cache.self_check import check_streams
from headcount.core import ModelError
from headcount.corpora import Corpus
from headcount.models import Loaded
from headcount.tap import examine
from tests import tiny
from tests.cache.families import LATENT, SHARING, family

REFUSED = "Expected a LlamaForCausalLM that computes with a streaming cache what it computes under"


@pytest.fixture
def llama() -> Any:
    """A model that was not checked yet."""
    return tiny.MODELS["llama"]()


def test_a_window_that_lacks_one_key_is_found(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stock: Any = Reading.__init__

    def shorter(self: Reading, given: Pass, sink: int, recent: int) -> None:
        stock(self, given, sink, recent - 1)

    monkeypatch.setattr(Reading, "__init__", shorter)
    with pytest.raises(ModelError, match=f"{REFUSED}.*differs by .* of a head's largest output"):
        check_streams(llama, examine(llama))


def test_keys_that_are_copied_for_another_layer_are_refused(llama: Any) -> None:
    """What can't be traced to the cache is seen by its outputs."""
    first, second = (layer.self_attn for layer in llama.model.layers)
    kept, stock = dict[str, Any](), type(first).forward

    class Reader:
        def update(self, key: Any, value: Any, number: int) -> Any:
            return kept["keys"]

    class Writer:
        def __init__(self, held: Any) -> None:
            self.held = held

        def update(self, key: Any, value: Any, number: int) -> Any:
            found = self.held.update(key, value, number)
            kept["keys"] = tuple(each.clone() for each in found)
            return found

    def write(*args: Any, past_key_values: Any = None, **given: Any) -> Any:
        held = None if past_key_values is None else Writer(past_key_values)
        return stock(first, *args, past_key_values=held, **given)

    def read(*args: Any, past_key_values: Any = None, **given: Any) -> Any:
        held = None if past_key_values is None else Reader()
        return stock(second, *args, past_key_values=held, **given)

    first.forward, second.forward = write, read
    anatomy = examine(llama)
    with pytest.raises(ModelError, match=REFUSED):
        check_streams(llama, anatomy)


def test_nothing_streams_that_was_not_checked(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is refused before it is made, judged or used."""
    anatomy = examine(llama)
    plan = CachePlan(((True, False), (False, False)))
    update = StreamingLayer.update

    def forgetful(self: StreamingLayer, key: Any, value: Any, *args: Any) -> Any:
        return update(self, key * 1.001, value, *args)

    monkeypatch.setattr(StreamingLayer, "update", forgetful)
    with pytest.raises(ModelError, match=REFUSED):
        plan_for_cache(llama, [(0, 0)], 3, 7, anatomy)
    with pytest.raises(ModelError, match=REFUSED), streaming_cache(llama, plan, anatomy):
        pass
    with pytest.raises(ModelError, match=REFUSED):
        plan_cache(Loaded(llama, None, "llama"), Corpus(["a"]))


def test_a_model_is_checked_once(llama: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    anatomy, runs = examine(llama), list[int]()
    generate = type(llama).generate
    monkeypatch.setattr(
        type(llama), "generate", lambda *args, **given: runs.append(1) or generate(*args, **given)
    )
    for _ in range(3):
        plan_for_cache(llama, [(0, 0)], 3, 7, anatomy)
    assert len(runs) == 2
    plan_for_cache(deepcopy(llama), [(0, 0)], 3, 7, anatomy)
    assert len(runs) == 4


@pytest.mark.once
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*SHARING, *LATENT])
def test_rounding_refuses_no_model(name: str, dtype: torch.dtype) -> None:
    model, anatomy = family(name)
    check_streams(deepcopy(model).to(dtype), anatomy)
