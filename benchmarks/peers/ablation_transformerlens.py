"""The loss without each head; no interval."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("small", dtype=torch.float32)
texts = [
    model.to_tokens(text, prepend_bos=False) for text in Path("few.txt").read_text().splitlines()
]


@torch.no_grad()
def loss(hooks=()):
    losses = [
        model.run_with_hooks(text, return_type="loss", fwd_hooks=list(hooks)) for text in texts
    ]
    lengths = [text.shape[1] - 1 for text in texts]
    return sum(each * length for each, length in zip(losses, lengths, strict=True)) / sum(lengths)


def without(head):
    def zero(z, hook):
        z[:, :, head] = 0
        return z

    return zero


dense, rise = loss(), []
for layer in range(model.cfg.n_layers):
    for head in range(model.cfg.n_heads):
        hook = (f"blocks.{layer}.attn.hook_z", without(head))
        rise.append((loss([hook]) - dense).item())
Path("answer.json").write_text(json.dumps({"rise of the loss": rise}))
