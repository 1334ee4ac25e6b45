"""Entropy of the heads on a text at a time, weighted by hand; confidence from its maps."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import interpkit
import torch

model = interpkit.load("model", attention_impl="eager", device="cpu")
peak = entropy = queries = 0
for text in Path("texts.txt").read_text().splitlines():
    heads = model.attention(text)
    maps = torch.stack([head["weights"] for head in heads])
    peak += maps.amax(-1).sum(-1)
    entropy += torch.tensor([head["entropy"] for head in heads]) * maps.shape[-1]
    queries += maps.shape[-1]

answer = {"entropy": (entropy / queries).tolist(), "confidence": (peak / queries).tolist()}
Path("answer.json").write_text(json.dumps(answer))
