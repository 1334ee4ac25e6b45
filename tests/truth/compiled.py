"""Programs compiled by torchwright, whose weights nobody here has written.

The compiler schedules heads as it likes, moves numbers by attention where that is cheaper, and
says in a file which head does what. Its models are plain `Phi3ForCausalLM`.
"""

# pyright: reportMissingImports=false
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from headcount.core import Head
from headcount.models import Loaded
from headcount.testing import (
    BITS,
    PUNCTUATION,
    SHARE,
    Known,
    Planted,
    Program,
    tokenizer,
    vocabulary,
    word,
)
from tests.truth.random_programs import Drawing

WIDTH, HEAD_DIM, LENGTH = 256, 64, 512
"""Sizes of the model; with fewer positions, the compiler's heads that latch at a mark are weak."""
SITE = "decoder.self"
CLEARS = Planted(Head(SITE, 0, 0), "offset", "needed")
"""What heads do that the compiler clears numbers with: they write what they find, negative."""
UNUSED = replace(CLEARS, kind="mean", purpose="silent")
"""What its unused heads do, whose weights are zero."""


def compiled(seed: int, folder: Path, texts: int = 100) -> Known:
    """A random program of heads that the compiler knows, in a model of its own.

    Args:
        seed: Seed of the program and of its texts.
        folder: Folder that the model is written to.
        texts: Number of texts.
    """
    rng = np.random.default_rng((6, seed))
    drawing = Drawing(rng, SITE, 8, 4, ("offset", "offset", "punctuation", "mean"), 6)
    drawn = [each for each in drawing.planted() if each.purpose != "silent"]
    planted = [replace(each, is_gated=False, offset=min(each.offset, -1)) for each in drawn]
    planted = [replace(each, offset=0) if each.kind != "offset" else each for each in planted]
    _compile(planted, folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    sizes = model.config.num_hidden_layers, model.config.num_attention_heads
    program = Program(_placed(planted, folder, *sizes), *sizes)
    loaded = Loaded(model, tokenizer(), f"compiled {seed}")
    return Known(program, loaded, program.texts(texts, seed), "llama", seed)


def _compile(planted: list[Planted], folder: Path) -> None:
    """Heads that read a bit each, whose sums are the log-odds of the next token's bits."""
    from torchwright import compile_hf_bundle
    from torchwright.graph import Embedding, Linear, Node
    from torchwright.ops import attention_ops
    from torchwright.ops.inout_nodes import create_rope_config
    from torchwright.ops.linear import concat, slice_columns

    bits_VK = torch.tensor(vocabulary(), dtype=torch.float32)
    table = torch.cat([torch.zeros(1, BITS), bits_VK])
    words = ["<unk>", *map(word, vocabulary())]
    embedded = Embedding(words, d_embed=BITS, table=table, special_tokens=[])
    rope = create_rope_config(d_head=HEAD_DIM, max_positions=LENGTH)

    def bit(number: int) -> Node:
        return slice_columns(embedded, number, 1)

    def read(each: Planted) -> Node:
        match each.kind:
            case "offset":
                return attention_ops.attend_to_offset(rope, bit(each.bit), each.offset)
            case "punctuation":
                return attention_ops.get_prev_value(rope, bit(each.bit), bit(PUNCTUATION))
            case "mean":
                return attention_ops.attend_causal_mean(rope, bit(each.bit))
            case other:
                raise ValueError(f"Expected a kind that the compiler knows, got {other}.")

    weight, bias = torch.zeros(len(planted), BITS), torch.zeros(BITS)
    for number, each in enumerate(planted):
        assert each.label is not None
        weight[number, each.label] = each.evidence / 2
    for number, share in SHARE.items():
        bias[number] = float(np.log(share / (1 - share)) / 2)
    output = Linear(concat([*map(read, planted)]), weight, bias)
    sizes: dict[str, Any] = {"d": WIDTH, "d_head": HEAD_DIM, "max_seq_len": LENGTH}
    none: dict[str, Any] = {"bos_token": None, "eos_token": None, "add_bos_token": False}
    compile_hf_bundle(output, embedded, folder, **sizes, **none)


def _placed(
    planted: list[Planted], folder: Path, num_layers: int, num_heads: int
) -> tuple[Planted, ...]:
    """The heads where the compiler has put them, and those of its own."""
    found = json.loads((folder / "torchwright_schematic.json").read_text())
    (whole,) = [
        region
        for region in found["graphs"]["source"]["semantic_regions"]
        if region["op"] == "linear.concat"
    ]
    lowered = {each["source"]: each["lowered"] for each in found["graphs"]["realization_map"]}
    of = {lowered[source]: each for source, each in zip(whole["operands"], planted, strict=True)}
    placed = dict[Head, Planted]()
    for layer in found["schedule"]["layers"]:
        for work in layer["attention_operations"]:
            first, count = work["heads"]
            for index in range(first, first + count):
                head = Head(SITE, layer["index"], index)
                placed[head] = replace(of.get(work["node"], CLEARS), head=head)
    every = [Head(SITE, k, i) for k in range(num_layers) for i in range(num_heads)]
    return tuple(placed.get(head, replace(UNUSED, head=head)) for head in every)
