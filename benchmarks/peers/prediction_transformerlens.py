"""What each head adds to " Mary" against " John"; MLPs and embeddings by other calls."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import json
from pathlib import Path

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("model", dtype=torch.float32)
model.enable_compatibility_mode()
model.set_use_attn_result(True)
tokens = model.to_tokens(Path("prompt.txt").read_text(), prepend_bos=False)
with torch.no_grad():
    _, cache = model.run_with_cache(tokens)
results = cache.stack_head_results(pos_slice=-1)
heads = cache.logit_attrs(results, " Mary", " John", pos_slice=-1)
Path("answer.json").write_text(json.dumps({"attribution": heads.flatten().tolist()}))
