"""Laws that hold for everything: a model is left as it was."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from headcount.tap import configurations
from headcount.testing.checks import expect

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
"""Where torch keeps the hooks of a module."""


@final
@dataclass(frozen=True)
class Snapshot:
    """Everything in a model on which a trace could be left."""

    batch: dict[str, Tensor]
    outputs: dict[str, Tensor]
    parameters: dict[str, Tensor]
    training: list[bool]
    hooks: list[int]
    attributes: list[frozenset[str]]
    implementations: list[str | None]
    functions: tuple[frozenset[str], frozenset[str]]

    @classmethod
    def of(cls, model: PreTrainedModel, batch: dict[str, Tensor]) -> "Snapshot":
        """What a model has and outputs now."""
        modules = [*model.modules()]
        return cls(
            batch,
            _outputs(model, batch),
            {name: each.detach().clone() for name, each in model.state_dict().items()},
            [module.training for module in modules],
            _hooks(modules),
            [frozenset(vars(module)) for module in modules],
            [config._attn_implementation for config in configurations(model)],
            (
                frozenset(AttentionInterface._global_mapping),
                frozenset(AttentionMaskInterface._global_mapping),
            ),
        )


def assert_no_trace(model: PreTrainedModel, before: Snapshot) -> None:
    """Check that the model is bit for bit as before, with nothing of ours registered anywhere.

    Raises:
        Failed: If it is not; names what differs.
    """
    after = Snapshot.of(model, before.batch)
    ours = [name for names in after.functions for name in names if "headcount" in name]
    expect(after.functions == before.functions and not ours, f"attention functions are left {ours}")
    for name in ("implementations", "hooks", "attributes", "training"):
        was, is_ = getattr(before, name), getattr(after, name)
        differ = [each for each in zip(was, is_, strict=True) if each[0] != each[1]]
        expect(not differ, f"the model has other {name}: {differ[:1]}")
    for what in ("parameters", "outputs"):
        was, is_ = getattr(before, what), getattr(after, what)
        expect(was.keys() == is_.keys(), f"the model has other {what}: {was.keys() ^ is_.keys()}")
        # NaN equals itself here: broken models are refused without a trace too
        differ = [
            name
            for name in was
            if not torch.equal(was[name].nan_to_num(), is_[name].nan_to_num())
            or not torch.equal(was[name].isnan(), is_[name].isnan())
        ]
        expect(not differ, f"the model has other {what}: {', '.join(differ[:3])}")


@contextmanager
def leaving_no_trace(model: PreTrainedModel, batch: dict[str, Tensor]) -> Iterator[None]:
    """A block that must leave nothing on the model, even after an error in it.

    Raises:
        Failed: If it does; names what differs.
    """
    before = Snapshot.of(model, batch)
    try:
        yield
    finally:
        assert_no_trace(model, before)


def _outputs(model: PreTrainedModel, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Outputs in the model's own mode, with the same dropout draws in every call."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(5)
        output = model(**batch)
    return {name: value for name, value in output.items() if isinstance(value, Tensor)}


def _hooks(modules: Sequence[nn.Module]) -> list[int]:
    """Number of hooks of each kind on every module, and of torch's global hooks."""
    own = [len(getattr(module, kind)) for module in modules for kind in HOOKS]
    every = [len(getattr(nn.modules.module, f"_global{kind}")) for kind in HOOKS]
    return own + every
