"""Ranks of heads by ablation, and by gradient times activation, as its documentation shows."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import nnsight
import torch
from nnsight import LanguageModel

model = LanguageModel("model", dispatch=True)
texts = Path("texts.txt").read_text().splitlines()
inputs = model.tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
inputs = {name: inputs[name] for name in ("input_ids", "attention_mask")}
labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
size, heads = model.config.head_dim, model.config.num_attention_heads

with torch.no_grad(), model.trace(**inputs, labels=labels):
    dense = model.output.loss.save()
rise = []
for layer in range(model.config.num_hidden_layers):
    for head in range(heads):
        with torch.no_grad(), model.trace(**inputs, labels=labels):
            model.model.layers[layer].self_attn.o_proj.input[
                ..., head * size : (head + 1) * size
            ] = 0
            loss = model.output.loss.save()
        rise.append((loss - dense).item())

slope = []
for layer in range(model.config.num_hidden_layers):
    with model.trace(**inputs, labels=labels):
        value = model.model.layers[layer].self_attn.o_proj.input
        loss = model.output.loss
        with loss.backward():
            gradient = value.grad.save()
        value = nnsight.save(value.detach())
    by_text = (value * gradient).unflatten(-1, (heads, -1)).sum((1, 3))
    slope += by_text.abs().mean(0).tolist()
answer = {"ablation": rise, "gradient times activation": slope}
Path("answer.json").write_text(json.dumps(answer))
