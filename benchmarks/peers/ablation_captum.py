"""The loss without each head; no interval."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from captum.attr import LayerFeatureAblation
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("small")
tokenizer = AutoTokenizer.from_pretrained("small")
texts = Path("few.txt").read_text().splitlines()
inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
labels = inputs.input_ids.masked_fill(inputs.attention_mask == 0, -100)
heads = torch.arange(model.config.num_attention_heads).repeat_interleave(model.config.head_dim)


def loss(ids):
    return model(ids, attention_mask=inputs.attention_mask, labels=labels).loss


rise = []
for layer in model.model.layers:
    ablation = LayerFeatureAblation(loss, layer.self_attn.o_proj)
    found = ablation.attribute(
        inputs.input_ids, layer_mask=heads[None, None], attribute_to_layer_input=True
    )
    rise += (-found[0, 0, :: model.config.head_dim]).tolist()
Path("answer.json").write_text(json.dumps({"rise of the loss": rise}))
