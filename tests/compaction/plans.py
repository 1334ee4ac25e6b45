"""Plans that prune something in every layer, as far as its groups allow."""

import json
import random
from functools import cache
from pathlib import Path

from transformers import PreTrainedModel

from headcount.compaction import compact
from headcount.core import Head, Plan
from headcount.tap import Anatomy
from tests.examined import examined

KEPT = {"encoder.self": {"0": [0, 2], "1": []}}


def plan(folder: Path, **changed: object) -> Path:
    """Write a plan for a BERT of 2 layers and 3 heads, with fields that differ."""
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "kept": KEPT} | changed))
    return path


def some_heads(anatomy: Anatomy, dead: int | None, seed: int = 0) -> Plan:
    """Keep some heads of every layer, equally many of some groups, and none of layer `dead`."""
    draw, kept = random.Random(seed), []
    for layer in anatomy.layers:
        size = layer.num_heads // layer.num_key_value_heads
        number = draw.randint(1, max(1, size - 1))
        most = layer.num_key_value_heads - (size == 1)
        groups = draw.sample(range(layer.num_key_value_heads), draw.randint(1, most))
        if layer.layer != dead:
            for group in groups:
                inside = draw.sample(range(group * size, (group + 1) * size), number)
                kept += [Head(layer.site, layer.layer, index) for index in inside]
    return Plan.keeping(anatomy.heads, kept)


@cache
def compacted(name: str, dead: int | None) -> tuple[Plan, PreTrainedModel]:
    """A plan for a tiny model and its compact model: do not change either."""
    model, anatomy = examined(name)
    plan = some_heads(anatomy, dead)
    return plan, compact(model, plan)
