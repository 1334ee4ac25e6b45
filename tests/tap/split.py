"""A script that splits a model over its processes, and prints what is said of it."""

import sys
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import AutoModelForCausalLM

from headcount.core import InputError
from headcount.tap import examine, gated
from tests import tiny


def tp_plan() -> Any:
    return AutoModelForCausalLM.from_pretrained(sys.argv[1], tp_plan="auto")


def parallelized() -> Any:
    """As torch's tutorial for tensor parallelism has it."""
    model, mesh = whole(), init_device_mesh("cpu", (2,))
    for layer in model.model.layers:
        plan: Any = dict.fromkeys(("q_proj", "k_proj", "v_proj"), ColwiseParallel())
        parallelize_module(layer.self_attn, mesh, plan | {"o_proj": RowwiseParallel()})
    return model


def fully_sharded() -> Any:
    model, mesh = whole(), init_device_mesh("cpu", (2,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def wrapped_layers() -> Any:
    model = whole()
    for number, layer in enumerate(model.model.layers):
        model.model.layers[number] = FullyShardedDataParallel(layer, device_id=torch.device("cpu"))
    return model


def wrapped() -> Any:
    return FullyShardedDataParallel(whole(), device_id=torch.device("cpu"))


def replicated() -> Any:
    return nn.parallel.DistributedDataParallel(whole())


def whole() -> Any:
    return AutoModelForCausalLM.from_pretrained(sys.argv[1])


KINDS = (tp_plan, parallelized, fully_sharded, wrapped_layers, wrapped, replicated, whole)


def said(kind: Any) -> str:
    """What is said of the model; the change that a closed gate makes, where nothing is said."""
    model = kind().eval()
    try:
        heads = examine(model).heads
    except InputError as error:
        return str(error)
    ids = torch.arange(tiny.FIRST_ID, tiny.FIRST_ID + 7)[None]
    with torch.no_grad():
        logits = model(ids).logits
        with gated(model, {"dec.1.1": 0}):
            change = (model(ids).logits - logits).abs().max().item()
    return f"{heads}, changed by {change:.5f}"


if __name__ == "__main__":
    distributed.init_process_group("gloo")
    for kind in KINDS:
        print(f"{kind.__name__}: {said(kind)}")
    distributed.barrier()
    distributed.destroy_process_group()
