"""The model, with a hook at every activation."""
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import torch
from transformer_lens.model_bridge import TransformerBridge

model = TransformerBridge.boot_transformers("model", dtype=torch.float32)
