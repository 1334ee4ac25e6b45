"""Ranks of heads by ablation, and by gradient times activation, as its documentation shows."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import nnsight
from ablation_nnsight import inputs, labels, model, rise

slope = []
for layer in range(model.config.num_hidden_layers):
    with model.trace(**inputs, labels=labels):
        value = model.model.layers[layer].self_attn.o_proj.input
        loss = model.output.loss
        with loss.backward():
            gradient = value.grad.save()
        value = nnsight.save(value.detach())
    heads = model.config.num_attention_heads
    by_text = (value * gradient).unflatten(-1, (heads, -1)).sum((1, 3))
    slope += by_text.abs().mean(0).tolist()
answer = {"ablation": rise, "gradient times activation": slope}
Path("answer.json").write_text(json.dumps(answer))
