"""Entropy and confidence from the patterns of a text at a time, added up by hand."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("model", dtype=torch.float32)
peak = entropy = queries = 0
for text in Path("texts.txt").read_text().splitlines():
    tokens = model.to_tokens(text, prepend_bos=False)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens, names_filter=lambda name: "pattern" in name)
    patterns = torch.cat([cache["pattern", layer] for layer in range(model.cfg.n_layers)])
    peak += patterns.amax(-1).sum(-1)
    entropy += torch.special.entr(patterns).sum((-1, -2))
    queries += tokens.shape[1]

sums = {"entropy": entropy, "confidence": peak}
answer = {name: (each / queries).flatten().tolist() for name, each in sums.items()}
Path("answer.json").write_text(json.dumps(answer))
