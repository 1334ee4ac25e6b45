"""Ranks of heads by captum's ablation, and by its gradient times activation."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from captum.attr import LayerFeatureAblation, LayerGradientXActivation
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("small")
tokenizer = AutoTokenizer.from_pretrained("small")
texts = Path("few.txt").read_text().splitlines()
inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
labels = inputs.input_ids.masked_fill(inputs.attention_mask == 0, -100)
heads = torch.arange(model.config.num_attention_heads).repeat_interleave(model.config.head_dim)


def loss(ids):
    return model(ids, attention_mask=inputs.attention_mask, labels=labels).loss


rise, slope = [], []
for layer in model.model.layers:
    projection = layer.self_attn.o_proj
    found = LayerFeatureAblation(loss, projection).attribute(
        inputs.input_ids, layer_mask=heads[None, None], attribute_to_layer_input=True
    )
    rise += (-found[0, 0, :: model.config.head_dim]).tolist()
    found = LayerGradientXActivation(lambda ids: loss(ids)[None], projection).attribute(
        inputs.input_ids, attribute_to_layer_input=True
    )
    by_text = found.unflatten(-1, (model.config.num_attention_heads, -1)).sum((1, 3))
    slope += by_text.abs().mean(0).tolist()
answer = {"ablation": rise, "gradient times activation": slope}
Path("answer.json").write_text(json.dumps(answer))
