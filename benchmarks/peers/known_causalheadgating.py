"""Ranks of heads by gates that are trained: open although closing is rewarded, less the reverse."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from causal_head_gating import CHGDataset, CHGTrainer
from transformers import AutoModelForCausalLM, AutoTokenizer

UPDATES = 60

torch.manual_seed(0)
model = AutoModelForCausalLM.from_pretrained("small").requires_grad_(False)
tokenizer = AutoTokenizer.from_pretrained("small")
texts = Path("few.txt").read_text().splitlines()
inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
asked = inputs.attention_mask.bool()
asked[:, 0] = False
data = CHGDataset.from_tokens(inputs.input_ids, asked, 0)
trainer = CHGTrainer(model, data, num_masks=2, batch_size=8)
with patch("torch.amp.autocast", lambda *_, **__: nullcontext()):  # it takes bfloat16
    for _ in trainer.fit(UPDATES, UPDATES, verbose=False):
        pass
found = trainer.get_final_masks()
# Their names are the wrong way round: "necessary" gates are those whose opening is rewarded
opened, closed = (found[name].flatten(1).float().mean(0) for name in ("necessary", "sufficient"))
Path("answer.json").write_text(json.dumps({"causal gates": (closed - (1 - opened)).tolist()}))
