"""The other processor that tests simulate: close to this one, the same twice, in processes too."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from tests.elsewhere.last_bits import flip
from tests.surroundings import ELSEWHERE

CODE = """
import json, os, sys, warnings
sat = "torch" in sys.modules
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, vmap
from torch.nn.functional import scaled_dot_product_attention
torch.manual_seed(0)
layer, rows = nn.Linear(32, 16), torch.randn(5, 32, requires_grad=True)
square = lambda row: layer(row).square().sum()
square(rows).backward()
with torch.inference_mode():
    heads = torch.randn(2, 3, 5, 8)
    attended = scaled_dot_product_attention(heads, heads, heads)
found = {
    "layer": layer(rows),
    "again": layer(rows),
    "gradient": rows.grad,
    "vmap": vmap(grad(square))(rows.detach()),
    "attention": attended,
    "half": layer.bfloat16()(rows.bfloat16()).float(),
}
layer.float()
with torch.device("meta"):
    nn.Linear(32, 16)(torch.ones(5, 32))
with FakeTensorMode(), torch.device("cpu"):
    nn.Linear(32, 16)(torch.ones(5, 32))
with warnings.catch_warnings(action="ignore"):
    found["exported"] = torch.export.export(layer, (rows,)).module()(rows)
    traced = torch.jit.trace(layer, (rows,))
assert str(traced.graph).count("aten::") == 1, traced.graph
numbers = {name: each.detach().flatten().tolist() for name, each in found.items()}
"""


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_some_last_bits_are_flipped_and_the_same_ones_again(dtype: torch.dtype) -> None:
    made = torch.randn(40, 50, generator=torch.Generator().manual_seed(0), dtype=dtype)
    found, again, other = made.clone(), made.clone(), made.clone()
    for tensor, seed in ((found, 1), (again, 1), (other, 2)):
        flip(tensor, seed)
    low, high = (0.45, 0.55) if dtype.itemsize > 2 else (0.07, 0.14)
    assert low < (found != made).double().mean() < high
    assert torch.equal(found, again) and not torch.equal(found, other)
    scaled = made / -4
    flip(scaled, 1)
    assert torch.equal(scaled * -4, found)
    assert torch.allclose(found, made, rtol=2 * torch.finfo(dtype).eps, atol=0)


def test_what_every_processor_computes_alike_stays() -> None:
    exact = torch.tensor([0.0, -0.0, 1.0, 48.0, 0.125, torch.inf, -torch.inf, torch.nan])
    found = exact.repeat(9, 1)
    flip(found, 1)
    assert torch.equal(found.view(torch.int32), exact.repeat(9, 1).view(torch.int32))


@pytest.mark.slow
def test_a_process_computes_elsewhere_that_looked_for_torch_before() -> None:
    """As transformers does, before anybody imports it."""
    code = "from importlib.util import find_spec; find_spec('torch'); import torch; torch.elsewhere"
    variables = {"HEADCOUNT_LAST_BITS": "7", "PYTHONPATH": str(ELSEWHERE)}
    subprocess.run([sys.executable, "-c", code], env=os.environ | variables, check=True)


@pytest.mark.slow
def test_a_process_computes_elsewhere() -> None:
    """Through autograd, `torch.func`, inference mode and export; what has no numbers is let be."""
    here: dict[str, Any] = {}
    exec(CODE, here)
    variables = {"HEADCOUNT_LAST_BITS": "7", "PYTHONPATH": str(ELSEWHERE)}
    code = f"{CODE}\nassert not sat\nprint(json.dumps(numbers))"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    there = json.loads(done.stdout)
    assert there["layer"] == there["again"] and here["numbers"]["layer"] == here["numbers"]["again"]
    for name, numbers in here["numbers"].items():
        assert there[name] != numbers, name
        assert there[name] == pytest.approx(numbers, rel=0.02, abs=1e-5), name
