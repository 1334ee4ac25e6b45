"""What each head adds to " Mary" against " John", by the formula written out."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import nnsight
import torch
from nnsight import LanguageModel

model = LanguageModel("model", dispatch=True)
mary, john = (model.tokenizer(name).input_ids[0] for name in (" Mary", " John"))
with torch.no_grad(), model.trace(Path("prompt.txt").read_text()):
    inputs = nnsight.save([each.self_attn.o_proj.input[0, -1] for each in model.model.layers])
    stream = model.model.norm.input[0, -1].save()

norm, heads = model.model.norm, []
scale = norm.weight / (stream.pow(2).mean() + norm.variance_epsilon).sqrt()
direction = scale * (model.lm_head.weight[mary] - model.lm_head.weight[john])
for layer, value in zip(model.model.layers, inputs, strict=True):
    parts = value * (direction @ layer.self_attn.o_proj.weight)
    heads += parts.view(-1, model.config.head_dim).sum(-1).tolist()
Path("answer.json").write_text(json.dumps({"attribution": heads}))
