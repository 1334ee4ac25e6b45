"""Laws that hold for everything: a model is left as it was, and the sums of measures add.

Parts add up in any order, an empty part is neutral, a file returns what was stored, and shares are
between 0 and 1.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from headcount.core import LayerId
from headcount.measures import Attention, Moments, Sums, Totals, load_state, save_state
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


def assert_same_sums(a: Sums, b: Sums, rtol: float | int) -> None:
    """Assert that two sums agree to a relative tolerance; 0 means the same bits."""
    expect(type(a) is type(b), f"a {type(a).__name__} became a {type(b).__name__}")
    for name, tensor in a.state().items():
        other = b.state()[name]
        expect(tensor.dtype == other.dtype, f"{name} is {other.dtype}, was {tensor.dtype}")
        text = f"{type(a).__name__}.{name}: {{}}".format
        torch.testing.assert_close(tensor, other, rtol=rtol, atol=rtol, equal_nan=True, msg=text)


def assert_same_moments(a: Moments, b: Moments) -> None:
    """Assert that moments over units are the same."""
    for name, tensor in vars(a).items():
        torch.testing.assert_close(tensor, getattr(b, name), rtol=1e-12, atol=1e-12, msg=name)


def assert_adds(whole: Sums, parts: Sequence[Sums]) -> None:
    """Assert that the parts add up to the whole, forwards, backwards and in pairs."""
    forwards = reduce(lambda a, b: a + b, parts)
    backwards = reduce(lambda a, b: a + b, reversed(parts))
    middle = len(parts) // 2
    halves = [reduce(lambda a, b: a + b, half) for half in (parts[:middle], parts[middle:])]
    for added in (forwards, backwards, halves[0] + halves[1], halves[1] + halves[0]):
        assert_same_sums(added, whole, rtol=1e-12)


def assert_neutral(part: Sums, empty: Sums) -> None:
    """Assert that a part without cases is neutral, and all its numbers but counts are NaN."""
    assert_same_sums(part + empty, empty + part, rtol=0)
    for name, numbers in (part + empty).value().items():
        torch.testing.assert_close(numbers, part.value()[name], rtol=0, atol=0, equal_nan=True)
    for name, numbers in empty.value().items():
        is_none = torch.isnan(numbers).all() or (name.endswith("_cases") and not numbers.any())
        expect(is_none, f"{name} of no cases is {numbers.tolist()}, not NaN")


def assert_round_trip(sums: Sums, folder: Path) -> None:
    """Assert that a state file returns its sums bit for bit, and that they still add."""
    place = LayerId("encoder.self", 3)
    kept = Totals({(type(sums), place): sums}, num_batches=5, num_sentences=17)
    save_state(folder / "state", kept, "signature")
    loaded = load_state(folder / "state", "signature", [type(sums)])
    assert (loaded.num_batches, loaded.num_sentences) == (5, 17)
    ((key, again),) = loaded.sums.items()
    assert key == (type(sums), place)
    assert_same_sums(again, sums, rtol=0)
    for name, numbers in sums.value().items():
        text = f"{name} of a state that was read: {{}}".format
        torch.testing.assert_close(
            again.value()[name], numbers, rtol=0, atol=0, equal_nan=True, msg=text
        )
    assert_same_sums(again + sums, sums + sums, rtol=0)


def assert_columns(sums: Sums, num_heads: int, nats: float, unknown: Collection[str] = ()) -> None:
    """Assert that numbers of our measures follow `columns`, one per head, each in its range."""
    values = sums.value()
    assert tuple(values) == sums.names()
    for name, numbers in values.items():
        assert numbers.shape == (num_heads,) and numbers.is_floating_point(), name
        if name in unknown:
            assert numbers.isnan().all(), name
            continue
        assert numbers.isfinite().all(), name
        if name == "positional_offset":
            assert torch.equal(numbers, numbers.round())
            continue
        largest = {"entropy": nats, "value_norm": torch.inf, "rare_cases": torch.inf}.get(name, 1)
        assert (numbers >= 0).all() and (numbers <= largest + 1e-12).all(), name


def of_all(measure: type[Sums], attentions: Sequence[Attention]) -> list[Any]:
    """The sums of each attention that the measure applies to."""
    return [measure.of(attention) for attention in attentions if measure.applies(attention)]
