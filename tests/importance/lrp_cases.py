"""Helpers for the tests of relevance: models without biases, in float64 throughout."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

from headcount.importance.lrp.relevance import Starts
from headcount.tap import Anatomy
from headcount.tasks import TaskBatch
from tests import tiny
from tests.examined import examined_double
from tests.tasks.tiny_task import LENGTHS


class InDouble(TorchFunctionMode):
    """Norms that would be cast to float32 are cast to float64 instead."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "float":
            return args[0].double()
        args = tuple(torch.float64 if each is torch.float32 else each for each in args)
        return func(*args, **(kwargs or {}))


@cache
def without_biases(name: str) -> tuple[PreTrainedModel, Anatomy]:
    """A tiny model in float64 whose biases are all zero."""
    stock, anatomy = examined_double(name)
    model = copy.deepcopy(stock)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter_name.endswith("bias"):
                parameter.zero_()
    return model, anatomy


def double_inputs(model: PreTrainedModel, side: str = "right") -> dict[str, Tensor]:
    inputs = tiny.inputs(model, side=side)
    return {n: each.double() if each.is_floating_point() else each for n, each in inputs.items()}


def top_of_first(seen: list[Tensor]) -> Callable[[Any], Tensor]:
    """The largest logit of every row, at its first position if it has many; kept in `seen`."""

    def start(output: Any) -> Tensor:
        logits = output.logits if output.logits.ndim == 2 else output.logits[:, 0]
        seen.append(logits.max(-1).values)
        return seen[0]

    return start


def first_two(model: PreTrainedModel, batch: TaskBatch) -> Starts:
    """Top-1 logits of the first two tokens of every row, but only one of the second row."""
    value_ES = model(**batch.inputs).logits[:, :2].max(-1).values
    is_step_ES = torch.ones_like(value_ES, dtype=torch.bool)
    is_step_ES[1, 0] = False
    return Starts(value_ES, is_step_ES)


def set_activation(model: PreTrainedModel, activation: nn.Module) -> None:
    for module in model.modules():
        for name in ("intermediate_act_fn", "act", "act_fn"):
            if isinstance(getattr(module, name, None), nn.Module):
                setattr(module, name, activation)


def rows(name: str) -> list[tuple[dict[str, Tensor], list[int]]]:
    """The rows of the tiny task with the positions that `first_two` starts at."""
    model, _ = examined_double(name)
    found = []
    for lengths in LENGTHS:
        batch = tiny.inputs(model, lengths)
        for number in range(len(lengths)):
            row = {name: each[number] for name, each in batch.items()}
            found.append((row, [1] if number == 1 else [0, 1]))
    return found
