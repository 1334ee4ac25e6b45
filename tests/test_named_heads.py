"""`L1H2` names a head wherever somebody may name one, in models whose heads are at one site."""

from pathlib import Path

import pytest
import torch

import headcount
from headcount.core import InputError
from headcount.explanation import ExplainOptions
from headcount.pruning.context import protected_heads
from headcount.serve.live_model import parse_question
from tests import tiny
from tests.tasks.loaded import loaded


def test_every_place_takes_both_names(tmp_path: Path) -> None:
    model, where = loaded("LlamaForCausalLM"), "The old dog"
    inputs = tiny.inputs(model.model)
    outputs = []
    for name in ("L1H2", "dec.1.2"):
        with torch.inference_mode(), headcount.gated(model.model, {name: 0.0}, model.anatomy):
            outputs.append(model.model(**inputs).logits)
    assert torch.equal(*outputs)
    (head,) = protected_heads(["L1H2"], model, {})
    assert str(head) == "dec.1.2"
    body = b'{"text": "a dog", "gates": {"L1H2": 0.5}}'
    assert parse_question(body, model.heads).gates == {"dec.1.2": 0.5}
    options = ExplainOptions(heads=("L1H2",), effects=("zero",))
    found = headcount.explain(model, where, " barked", options=options)
    assert {row.part for row in found.effects} >= {"dec.1.2"}
    assert "dec.1.2" in headcount.show(model, where, "L1H2").html


def test_a_head_that_is_not_there_is_refused() -> None:
    model = loaded("LlamaForCausalLM")
    with pytest.raises(InputError, match="Expected a head of"):
        headcount.show(model, "The old dog", "L9H2")
