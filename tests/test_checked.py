"""What the tests themselves rely on: types and shapes are checked, and so is every new model."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tests import checked, self_checks, tiny

Row = Float[Tensor, " n"]


@checked.with_checks
def doubled(number: int) -> str:
    return str(2 * number) if number < 9 else number  # type: ignore[return-value]


@checked.with_checks
def added(one: Row, others: dict[str, Row] | None = None) -> Row:
    return sum((others or {}).values(), one)


def test_types_are_checked() -> None:
    assert doubled(3) == "6"
    with pytest.raises(TypeError, match="number"):
        doubled("3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="return"):
        doubled(9)


def test_functions_within_functions_are_checked_as_themselves() -> None:
    """One is prepared once; each call of the outer function makes another, with its own values."""

    def made(factor: int, kind: type) -> Callable[[Any], Any]:
        def multiplied(number: Any) -> Any:
            return factor * number

        multiplied.__annotations__ = {"number": kind, "return": kind}
        return checked.with_checks(multiplied)

    twice, thrice, joined = made(2, int), made(3, int), made(2, str)
    assert (twice(4), thrice(4), joined("a")) == (8, 12, "aa")
    for function, wrong in ((twice, "a"), (thrice, "a"), (joined, 4)):
        with pytest.raises(TypeError, match="number"):
            function(wrong)


def test_axes_of_one_name_are_of_one_size() -> None:
    """In one call; the next call may have other sizes."""
    for size in (2, 3):
        assert added(torch.ones(size), {"a": torch.ones(size)}).tolist() == [2.0] * size
    with pytest.raises(TypeError, match="others"):
        added(torch.ones(2), {"a": torch.ones(3)})
    with pytest.raises(TypeError, match="one"):
        added(torch.ones(2, 2))


def test_an_equal_model_is_examined_once() -> None:
    seen: list[Any] = []
    unseen: list[tuple[str, ...]] = [()]

    def examine(model: Any, inputs: Any = None) -> Any:
        seen.append(model)
        return SimpleNamespace(unseen=unseen[0], not_run=())

    once = self_checks.once(examine)
    model = tiny.MODELS["bert"]()

    def examined(model: Any, inputs: Any = None) -> int:
        before = len(seen)
        once(model, inputs)
        return len(seen) - before

    with torch.no_grad():  # no other test has such a model
        model.get_parameter("bert.embeddings.word_embeddings.weight").add_(0.123)
    assert [examined(model), examined(model), examined(copy.deepcopy(model))] == [1, 0, 0]
    changes = {
        "weight": lambda one: one.get_parameter("cls.predictions.bias").data.add_(1),
        "configuration": lambda one: one.config.update({"layer_norm_eps": 0.5}),
        "attention": lambda one: one.set_attn_implementation("eager"),
        "number format": lambda one: one.double(),
        "module": lambda one: one.set_submodule("bert.encoder.layer.1", torch.nn.Identity()),
    }
    for name, change in changes.items():
        other = copy.deepcopy(model)
        change(other)
        assert [examined(other), examined(other)] == [1, 0], name
    hooked = copy.deepcopy(model)
    hooked.get_submodule("bert.encoder").register_forward_hook(lambda *_: None)
    own = copy.deepcopy(model)
    own.forward = own.forward
    for other in (hooked, own):
        assert [examined(other), examined(other)] == [1, 1]
    assert examined(model, {}) == 1
    with self_checks.always():
        assert [examined(model), examined(model)] == [1, 1]
    unseen[0] = ("a module",)
    other = copy.deepcopy(model)
    other.get_parameter("cls.predictions.bias").data.add_(2)
    assert [examined(other), examined(other)] == [1, 1], "the warning comes again"
