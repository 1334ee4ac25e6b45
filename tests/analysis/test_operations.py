"""Operations that measuring issues: on a GPU each has a price, and some wait for the device."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headcount.analysis.streaming import Measuring, forward
from headcount.core import ModelError
from headcount.corpora import Batch, Sentence
from headcount.measures.registry import MEASURES
from headcount.tap import examine
from tests import tiny
from tests.measures.cases import random_side, tokens

LENGTHS = (23, 19, 19, 11, 7, 2)
WAITING = frozenset({"_local_scalar_dense", "is_nonzero", "nonzero", "bincount", "_unique2"})
"""Operations whose result the host has to know before it goes on."""


class _Counting(TorchDispatchMode):
    """Counts operations by name; an index by booleans is one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        name = function.overloadpacket.__name__
        indices = args[1] if name == "index" else ()
        is_boolean = any(isinstance(each, Tensor) and each.dtype == torch.bool for each in indices)
        self.found["index by booleans" if is_boolean else name] += 1
        return function(*args, **(kwargs or {}))

    def waiting(self) -> int:
        """Number of operations that wait."""
        return sum(self.found[name] for name in (*WAITING, "index by booleans"))


def _counted(num_layers: int, broken: tuple[int, int] | None = None) -> _Counting:
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
    anatomy, inputs = examine(model), tiny.inputs(model, LENGTHS)
    rng = np.random.default_rng(3)
    rows = zip(inputs["input_ids"].tolist(), LENGTHS, strict=True)
    sides = tokens([random_side(rng, length, ids[:length]) for ids, length in rows])
    batch = Batch(inputs, sides, None, None, tuple(Sentence("") for _ in LENGTHS))
    if broken is not None:
        layer, head = broken
        with torch.no_grad():
            bias: Any = model.encoder.layer[layer].attention.self.key.bias
            bias[4 * head : 4 * head + 4] = torch.nan
    listener, counting = Measuring(model, anatomy, MEASURES), _Counting()
    with counting:
        forward(model, anatomy, [batch], listener)
        listener.part()
    return counting


def test_a_head_that_is_not_finite_is_named_once_the_batch_is_read() -> None:
    with pytest.raises(ModelError, match=r"got NaN or infinity in head enc\.1\.5 \(1 of the layer"):
        _counted(2, broken=(1, 5))


def test_measures_are_taken_once_a_batch_and_no_layer_waits() -> None:
    few, many = _counted(2), _counted(12)
    assert many.waiting() == few.waiting()
    assert (many.found.total() - few.found.total()) / 10 <= 135
    assert many.found.total() <= 2600
