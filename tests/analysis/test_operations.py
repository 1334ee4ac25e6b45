"""Operations that measuring issues: on a GPU each has a price, and some wait for the device."""

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any, final

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import PreTrainedModel

from headcount.core import ModelError
from headcount.corpora import FIRST_HALF, Batch, Sentence
from headcount.measures import Sides, reductions
from headcount.measures.registry import MEASURES
from headcount.measures.streaming import Measuring, forward, run
from headcount.tap import BLOCKS, examine, seen_keys
from headcount.tap.kernel_sweep import Sweep
from tests import tiny
from tests.measures.cases import random_side, tokens

LENGTHS = (23, 19, 19, 11, 7, 2)
WAITING = frozenset({"_local_scalar_dense", "is_nonzero", "nonzero", "bincount", "_unique2"})
"""Operations whose result the host has to know before it goes on."""

EMPTY = frozenset({"empty", "new_empty", "promote_types"})
"""Operations that fill no memory."""


class _Counting(TorchDispatchMode):
    """Counts operations as if the model, its inputs and all that comes of them were on a GPU.

    An operation counts if it takes one of these, or no tensor at all, such as `arange`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()
        """Number of operations by name; an index by booleans is one of its own."""
        self.computing = 0
        """Number of those that are no views of what they are given, and fill memory."""
        self._there: dict[int, Tensor] = {}

    def put(self, *tensors: Tensor) -> None:
        """These are on the GPU from now on."""
        self._there |= {_storage(each): each for each in tensors}

    def copied(self, facts: Any, device: torch.device | None = None) -> Any:
        """Facts on the GPU, as `moved` copies them."""
        if isinstance(facts, Tensor):
            self.found["copy"] += 1
            self.computing += 1
            self.put(copy := facts.clone())
            return copy
        if isinstance(facts, tuple):
            return tuple(self.copied(each) for each in facts)
        if is_dataclass(facts) and not isinstance(facts, type):
            names = [field.name for field in fields(facts) if field.init]
            return replace(facts, **{name: self.copied(getattr(facts, name)) for name in names})
        return facts

    def sides(self, sides: Sides) -> Sides:
        """Tokens on the GPU, as `Sides.to` copies them."""
        assert sides.queries is sides.keys and sides.arcs is None
        its = self.copied(sides.keys)
        return replace(sides, queries=its, keys=its, host=sides)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        results = function(*args, **(kwargs or {}))
        places = {_storage(each) for each in given}
        if given and not places & self._there.keys():
            return results
        name = function.overloadpacket.__name__
        indices = args[1] if name == "index" else ()
        is_boolean = any(isinstance(each, Tensor) and each.dtype == torch.bool for each in indices)
        self.found["index by booleans" if is_boolean else name] += 1
        made = [each for each in tree_leaves(results) if isinstance(each, Tensor)]
        is_view = bool(made) and all(_storage(each) in places for each in made)
        self.computing += name not in EMPTY and (function._schema.is_mutable or not is_view)
        self.put(*made if given else ())
        return results

    def waiting(self) -> int:
        """Number of operations that wait."""
        return sum(self.found[name] for name in (*WAITING, "index by booleans"))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _batch(model: PreTrainedModel, lengths: tuple[int, ...]) -> Batch:
    """Rows of some lengths, without trees."""
    inputs, rng = tiny.inputs(model, lengths), np.random.default_rng(3)
    rows = zip(inputs["input_ids"].tolist(), lengths, strict=True)
    sides = tokens([random_side(rng, length, ids[:length]) for ids, length in rows])
    return Batch(inputs, sides, None, None, tuple(Sentence("") for _ in lengths))


def _counted(
    monkeypatch: pytest.MonkeyPatch, num_layers: int, broken: tuple[int, int] | None = None
) -> _Counting:
    """The operations of one batch without trees through a model with the shape of BERT-base.

    The keys of a broken head, by layer and number, are no numbers.
    """
    config = hf.BertConfig(
        vocab_size=tiny.VOCAB,
        hidden_size=48,
        num_hidden_layers=num_layers,
        num_attention_heads=12,
        intermediate_size=7,
        max_position_embeddings=tiny.NUM_POSITIONS,
    )
    model = hf.BertModel(config).eval()
    anatomy, batch = examine(model), _batch(model, LENGTHS)
    if broken is not None:
        layer, head = broken
        with torch.no_grad():
            bias = model.get_parameter(f"encoder.layer.{layer}.attention.self.key.bias")
            bias[4 * head : 4 * head + 4] = torch.nan
    listener, counting = Measuring(model, anatomy, MEASURES), _Counting()
    counting.put(*model.state_dict().values(), *batch.inputs.values())
    with monkeypatch.context() as patched:
        patched.setattr(reductions, "moved", counting.copied)
        patched.setattr(Sides, "to", lambda self, device: counting.sides(self))
        with counting:
            forward(model, anatomy, [batch], listener)
            counted = listener.part().split()
    here = run(model, anatomy, [batch], MEASURES)
    assert here.sums.keys() == counted.sums.keys()
    for key, sums in here.sums.items():
        torch.testing.assert_close(counted.sums[key].state(), sums.state(), rtol=0, atol=0)
    return counting


def test_a_head_that_is_not_finite_is_named_once_the_batch_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ModelError, match=r"got NaN or infinity in head enc\.1\.5 \(1 of the layer"):
        _counted(monkeypatch, 2, broken=(1, 5))


@pytest.mark.slow
def test_measures_are_taken_once_a_batch_and_no_layer_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, many = _counted(monkeypatch, 2), _counted(monkeypatch, 12)
    assert many.waiting() == few.waiting() <= 3
    assert (many.computing - few.computing) / 10 <= 52  # 12 of them are the model's own
    assert many.computing <= 830
    assert many.found.total() <= 1740


@final
class _Largest(TorchDispatchMode):
    """The largest number of entries of a tensor that an operation makes."""

    found = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        results = function(*args, **(kwargs or {}))
        made = [each for each in tree_leaves(results) if type(each) is Tensor]
        sizes = (each.untyped_storage().nbytes() // each.element_size() for each in made)
        self.found = max(self.found, *sizes, 0)
        return results


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"),
    [("llama", "blocks"), ("llama", "sweep"), ("mistral", "sweep"), ("modernbert", "blocks")],
)
def test_nothing_of_the_size_of_a_map_is_made(
    name: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Causal masks, windows behind and both ways, and padding."""
    window = hf.MistralConfig(**tiny.GROUPED, sliding_window=17)
    its = hf.MistralForCausalLM(window) if name == "mistral" else tiny.MODELS[name]()
    model, found = its.eval(), []
    anatomy, batch = examine(model), _batch(model, (350, 271))
    half_BN, is_sep_BN = batch.source.half_BN, torch.zeros_like(batch.source.is_sep_BN)
    plain = replace(batch.source, half_BN=half_BN.clamp_max(FIRST_HALF), is_sep_BN=is_sep_BN)
    batch = replace(batch, source=plain)  # units and segments have sums of their own
    monkeypatch.setattr("headcount.tap.tap.BLOCK", 2**16)
    monkeypatch.setattr(seen_keys, "STRIP", 2**14)
    for least in (2**30, 2**16):  # whole masks, and intervals
        monkeypatch.setattr(seen_keys, "LEAST", least)
        computing, largest = Sweep() if kernel == "sweep" else BLOCKS, _Largest()
        with largest:
            found.append(run(model, anatomy, [batch], MEASURES, kernel=computing).sums)
        assert (largest.found < 350 * 350) == (least == 2**16), largest.found
    for key, sums in found[1].items():
        expected = found[0][key].state()
        for part, numbers in sums.state().items():
            torch.testing.assert_close(numbers, expected[part], rtol=1e-4, atol=1e-4, msg=part)
