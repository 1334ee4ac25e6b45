"""Names of heads by TransformerLens's detector, with one half as the threshold."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from transformer_lens.head_detector import detect_head
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small", dtype=torch.float32)
model.cfg.default_prepend_bos = False  # the vocabulary has no such token
HEADS = {"previous_token_head": "positional -1", "induction_head": "induction"}
names = [[] for _ in range(model.cfg.n_layers * model.cfg.n_heads)]
for kind, name in HEADS.items():
    file = "few.txt" if kind == "previous_token_head" else "repeated.txt"
    texts = Path(file).read_text().splitlines()[:20]
    with torch.no_grad():
        scores = torch.stack([detect_head(model, text, kind) for text in texts]).mean(0)
    for number in (scores.flatten() > 0.5).nonzero().flatten().tolist():
        names[number].append(name)
Path("answer.json").write_text(json.dumps({"names": names}))
