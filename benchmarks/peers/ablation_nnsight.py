"""The loss without each head; no interval."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from nnsight import LanguageModel

model = LanguageModel("small", dispatch=True)
texts = Path("few.txt").read_text().splitlines()
inputs = model.tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
labels = inputs.input_ids.masked_fill(inputs.attention_mask == 0, -100)
size = model.config.head_dim

with torch.no_grad(), model.trace(**inputs, labels=labels):
    dense = model.output.loss.save()
rise = []
for layer in range(model.config.num_hidden_layers):
    for head in range(model.config.num_attention_heads):
        with torch.no_grad(), model.trace(**inputs, labels=labels):
            model.model.layers[layer].self_attn.o_proj.input[
                ..., head * size : (head + 1) * size
            ] = 0
            loss = model.output.loss.save()
        rise.append((loss - dense).item())
Path("answer.json").write_text(json.dumps({"rise of the loss": rise}))
